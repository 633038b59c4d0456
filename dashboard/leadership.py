"""One process leads the background work of a store; the others wait until it ends.

On SQLite a lock of a file in the data folder decides, on PostgreSQL an advisory lock, which machines share. Either is
gone with its process. That of PostgreSQL is also gone with its connection, and what a leader stores goes through this
very connection: a leader that has lost the lock can store nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.db import connection

from dashboard.artifacts.stores import LockTimeout, hold_lock, is_advisory_locked

LOCK = "leader.lock"


@contextmanager
def leadership() -> Iterator[bool]:
    """Yields True to the process that leads, at once: nobody waits here."""
    with _try_lock(exclusive=True) as is_held:
        yield is_held


def has_leader() -> bool:
    """True while a process leads. On a store that cannot be written none does."""
    if connection.vendor == "postgresql":
        return is_advisory_locked(LOCK)
    try:
        with _try_lock(exclusive=False) as is_held:
            return not is_held
    except OSError:
        return False


@contextmanager
def _try_lock(*, exclusive: bool) -> Iterator[bool]:
    in_database = connection.vendor == "postgresql"
    with ExitStack() as stack:
        try:
            lock = hold_lock(settings.DATA / LOCK, exclusive=exclusive, timeout=0, in_database=in_database)
            stack.enter_context(lock)
            is_held = True
        except LockTimeout:
            is_held = False
        yield is_held
