"""The artifact store that the settings name, a folder or a bucket, and the line indexes beside its contents.

Locks keep imports and the collector of garbage apart. On one machine a lock is a file's (`flock`). Where several
machines share a bucket and a PostgreSQL database it is an advisory lock of the database. Both are released when the
process that holds them dies.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from dashboard.artifacts.bucket import SCHEME, bucket_at
from dashboard.artifacts.bucket_store import BucketStore
from envelopes.schema.result import ArtifactRef
from envelopes.storage.file_store import INDEX_FROM, FileStore, MissingArtifact, StoredContent, StoreFault
from envelopes.storage.line_index import LineIndex, NotIndexed, build_index
from envelopes.storage.sinks import Content

SHA256 = re.compile("[0-9a-f]{64}")
COUNTED_AT_ONCE = 8 * 1024 * 1024  # bytes: their lines are counted in 10 ms
PAGE_WAIT_SECONDS = 0.4  # that a page waits for an index before it shows the beginning without one
RETRY_SECONDS = 0.02


class LineIndexes(Protocol):
    """Line indexes beside their content, in a folder or in a bucket."""

    def load(self, sha256: str, size: int, encoding: str = "utf-8") -> LineIndex: ...

    def build(self, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool: ...

    def head(self, sha256: str, encoding: str = "utf-8") -> LineIndex: ...

    def remove(self, sha256: str) -> None: ...


class ArtifactStore(Protocol):
    """The interface that the dashboard uses. Implemented by FileStore and BucketStore, which raise the same errors."""

    @property
    def indexes(self) -> LineIndexes: ...

    def write(self, role: str, content: Content) -> ArtifactRef: ...

    def put(self, content: BinaryIO) -> StoredContent: ...

    def open(self, path: str) -> BinaryIO: ...

    def glance(self, sha256: str, size: int) -> None: ...

    def read_window(self, path: str, offset: int, size: int) -> bytes: ...

    def is_untouched(self, sha256: str) -> bool: ...

    def verify(self, sha256: str) -> bool: ...

    def check(self) -> tuple[StoreFault, ...]: ...

    def sizes(self) -> dict[str, int]: ...

    def remove(self, sha256: str) -> None: ...

    def unfinished(self, seconds: float) -> tuple[Path, ...]: ...


def configured_store() -> ArtifactStore:
    """Raises ImproperlyConfigured."""
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        return _bucket_store(address, Path(settings.ARTIFACT_CACHE))
    if "://" in address:
        raise ImproperlyConfigured(f"COUNTERFOIL_ARTIFACTS is {address}: a folder, or {SCHEME}BUCKET/PREFIX")
    return FileStore(Path(address))


@lru_cache(maxsize=8)
def _bucket_store(address: str, local: Path) -> BucketStore:
    """Cached, because its connections are reused."""
    return BucketStore(bucket_at(address), local)


def open_stored(sha256: str) -> BinaryIO:
    """A stream that can seek. Raises MissingArtifact, also for what is not a hash, or OSError for damage."""
    if not SHA256.fullmatch(sha256):
        raise MissingArtifact(sha256)
    return configured_store().open(sha256)


def peek_stored(sha256: str, size: int) -> None:
    """Raises the errors of `open_stored` that show without reading and without a request."""
    if not SHA256.fullmatch(sha256):
        raise MissingArtifact(sha256)
    configured_store().glance(sha256, size)


def load_line_index(stream: BinaryIO, size: int, sha256: str, encoding: str) -> LineIndex:
    """The line index of stored content; of its beginning only, while the first reader's index is being built.

    `sha256` is empty for content that is in memory: its lines are counted.
    """
    if not sha256 or size < INDEX_FROM:
        return build_index(stream, encoding)
    indexes = configured_store().indexes
    try:
        return indexes.load(sha256, size, encoding)
    except NotIndexed:
        pass  # usual for the first reader: the index is built below
    if size <= COUNTED_AT_ONCE:
        return build_index(stream, encoding)
    builder = threading.Thread(target=_build_index, args=(sha256, encoding), daemon=True)
    builder.start()
    deadline = time.monotonic() + PAGE_WAIT_SECONDS
    while time.monotonic() < deadline:
        builder.join(PAGE_WAIT_SECONDS / 8)
        try:
            return indexes.load(sha256, size, encoding)
        except NotIndexed:
            continue
    return indexes.head(sha256, encoding)


def _build_index(sha256: str, encoding: str) -> None:
    """When this fails, the next reader tries again, and its page reports what cannot be read."""
    try:
        with open_stored(sha256) as stream:
            configured_store().indexes.build(sha256, stream, encoding)
    except (MissingArtifact, OSError):
        return


class LockTimeout(Exception):
    """Another process held the lock all the time."""


def uses_bucket() -> bool:
    """True where the settings name a bucket as the artifact store."""
    return str(settings.ARTIFACTS).startswith(SCHEME)


@contextmanager
def hold_lock(
    path: Path, *, exclusive: bool, timeout: float = math.inf, in_database: bool | None = None
) -> Iterator[None]:
    """`path` is the lock's file; in a database the lock has its name.

    `in_database` is decided by the settings unless it is given: machines that share a bucket share such locks. Raises
    LockTimeout after `timeout` seconds.
    """
    if in_database is None:
        in_database = uses_bucket() and connection.vendor == "postgresql"
    lock = _advisory_lock(path.name, exclusive=exclusive) if in_database else _file_lock(path, exclusive=exclusive)
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


def is_advisory_locked(name: str) -> bool:
    """True while any session of the PostgreSQL database holds the exclusive lock of that name."""
    held = (
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND classid = 0"
        " AND objid = %s AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    with connection.cursor() as cursor:
        cursor.execute(held, [_advisory_key(name)])
        return cursor.fetchone() is not None


def _advisory_key(name: str) -> int:
    return zlib.crc32(f"counterfoil {name}".encode())


@contextmanager
def _advisory_lock(name: str, *, exclusive: bool) -> Iterator[Callable[[], bool]]:
    """Yields a function that tries to take the lock.

    The lock belongs to the database session: a connection pooler has to give each process one session.
    """
    kind, key = "" if exclusive else "_shared", _advisory_key(name)
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
