"""Taking content out of the artifact store without pulling it from under an import.

An import stores a file before a row names it, so for a moment nothing refers to it. `taking_in` is
held together by all imports from that moment until their rows are committed; `removing` waits for them
and lets none begin meanwhile. The lock is a file in the store's folder; for a bucket, which machines may
share, it is the database's, or a file beside the database where that is one.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.db import connection

from dashboard.artifacts.bucket import SCHEME
from dashboard.artifacts.files import artifact_files
from envelopes.artifact import LOCK

ADVISORY_KEY = 0x636F756E746572  # of PostgreSQL's locks of one database; any number that nobody else uses
SHA256 = re.compile("[0-9a-f]{64}")
LOOK_AGAIN = 0.02  # seconds
PATIENCE = 5.0  # seconds


class Busy(Exception):
    """Imports held the store all the time."""


@contextmanager
def taking_in() -> Iterator[None]:
    with _held(is_alone=False):
        yield


@contextmanager
def removing(*, patience: float = math.inf) -> Iterator[None]:
    """Waits for imports, `patience` seconds at most. Raises Busy."""
    with _held(is_alone=True, patience=patience):
        yield


def remove_unnamed(names: set[str], named: Callable[[set[str]], set[str]]) -> None:
    """Removes the contents `names` (sha256) but for those that `named` says rows still refer to.

    A page waits for it: where an import holds it up for long, what was to go stays for `prune_artifacts`.
    """
    if not names:
        return
    with suppress(Busy), removing(patience=PATIENCE):
        remove(names - named(names))


def remove(names: set[str]) -> None:
    """Within `removing`, and when no row refers to them any more."""
    files = artifact_files()
    for name in sorted(names):
        if SHA256.fullmatch(name):
            files.remove(name)


@contextmanager
def _held(*, is_alone: bool, patience: float = math.inf) -> Iterator[None]:
    is_shared_by_machines = str(settings.ARTIFACTS).startswith(SCHEME) and connection.vendor == "postgresql"
    lock = _advisory(is_alone=is_alone) if is_shared_by_machines else _file_lock(is_alone=is_alone)
    deadline = time.monotonic() + patience
    with lock as is_taken:
        while not is_taken():
            if time.monotonic() > deadline:
                raise Busy
            time.sleep(LOOK_AGAIN)
        yield


@contextmanager
def _file_lock(*, is_alone: bool) -> Iterator[Callable[[], bool]]:
    """What tries to take it."""
    path = _lock_file()
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


def _lock_file() -> Path:
    is_bucket = str(settings.ARTIFACTS).startswith(SCHEME)
    return Path(settings.ARTIFACT_CACHE if is_bucket else settings.ARTIFACTS) / LOCK


@contextmanager
def _advisory(*, is_alone: bool) -> Iterator[Callable[[], bool]]:
    """Of the session, so it is free again when its process or its connection dies."""
    kind = "" if is_alone else "_shared"
    taken = []

    def is_taken() -> bool:
        taken.append(_ask(f"SELECT pg_try_advisory_lock{kind}(%s)"))
        return taken[-1]

    try:
        yield is_taken
    finally:
        if any(taken):
            _ask(f"SELECT pg_advisory_unlock{kind}(%s)")


def _ask(statement: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [ADVISORY_KEY])
        return bool(cursor.fetchone()[0])
