"""Locks between processes: a file's where one machine has the store, the database's where machines share a bucket.

Both are free again when the process dies that holds them.
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

LOOK_AGAIN = 0.02  # seconds


class Busy(Exception):
    """Somebody else held it all the time."""


def in_bucket() -> bool:
    return str(settings.ARTIFACTS).startswith(SCHEME)


@contextmanager
def held(path: Path, *, is_alone: bool, patience: float = math.inf) -> Iterator[None]:
    """`path` is the file, and its name the lock's in a database. Raises Busy after `patience` seconds."""
    is_shared_by_machines = in_bucket() and connection.vendor == "postgresql"
    lock = _advisory(path.name, is_alone=is_alone) if is_shared_by_machines else _of_file(path, is_alone=is_alone)
    deadline = time.monotonic() + patience
    with lock as is_taken:
        while not is_taken():
            if time.monotonic() > deadline:
                raise Busy
            time.sleep(LOOK_AGAIN)
        yield


@contextmanager
def _of_file(path: Path, *, is_alone: bool) -> Iterator[Callable[[], bool]]:
    """What tries to take it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def is_taken() -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield is_taken
    finally:
        os.close(descriptor)


@contextmanager
def _advisory(name: str, *, is_alone: bool) -> Iterator[Callable[[], bool]]:
    """Of the database's session: a pooler in between has to leave one session to a process."""
    kind, key = "" if is_alone else "_shared", zlib.crc32(f"counterfoil {name}".encode())
    taken = []

    def is_taken() -> bool:
        taken.append(_ask(f"SELECT pg_try_advisory_lock{kind}(%s)", key))
        return taken[-1]

    try:
        yield is_taken
    finally:
        if any(taken):
            _ask(f"SELECT pg_advisory_unlock{kind}(%s)", key)


def _ask(statement: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [key])
        return bool(cursor.fetchone()[0])
