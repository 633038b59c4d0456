"""Locks between processes.

On one machine a lock is a file's (`flock`). Where several machines share a bucket and a PostgreSQL database it is an
advisory lock of the database. Both are released when the process that holds them dies.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.db import connection

from dashboard.artifacts.bucket import SCHEME

RETRY_SECONDS = 0.02


class LockTimeout(Exception):
    """Another process held the lock all the time."""


def uses_bucket() -> bool:
    """True where the settings name a bucket as the artifact store."""
    return str(settings.ARTIFACTS).startswith(SCHEME)


@contextmanager
def hold_lock(path: Path, *, exclusive: bool, timeout: float = math.inf) -> Iterator[None]:
    """`path` is the lock's file; in a database the lock has its name.

    Raises LockTimeout after `timeout` seconds.
    """
    is_in_database = uses_bucket() and connection.vendor == "postgresql"
    lock = _advisory_lock(path.name, exclusive=exclusive) if is_in_database else _file_lock(path, exclusive=exclusive)
    deadline = time.monotonic() + timeout
    with lock as try_lock:
        while not try_lock():
            if time.monotonic() > deadline:
                raise LockTimeout
            time.sleep(RETRY_SECONDS)
        yield


@contextmanager
def _file_lock(path: Path, *, exclusive: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that tries to take the lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def try_lock() -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield try_lock
    finally:
        os.close(descriptor)


@contextmanager
def _advisory_lock(name: str, *, exclusive: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that tries to take the lock.

    The lock belongs to the database session: a connection pooler has to give each process one session.
    """
    kind, key = "" if exclusive else "_shared", zlib.crc32(f"counterfoil {name}".encode())
    is_locked = False

    def try_lock() -> bool:
        nonlocal is_locked
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_try_advisory_lock{kind}(%s)", [key])
            is_locked = bool(cursor.fetchone()[0])
        return is_locked

    try:
        yield try_lock
    finally:
        if is_locked:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_advisory_unlock{kind}(%s)", [key])
