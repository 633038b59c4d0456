"""The artifact store that the settings name: a folder, or a bucket; and the line indexes beside what it holds."""

from __future__ import annotations

import re
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from dashboard.artifacts.bucket import SCHEME, bucket_at
from dashboard.artifacts.bucket_store import BucketStore
from envelopes.schema.result import ArtifactRef
from envelopes.storage.file_store import INDEX_FROM, Fault, FileStore, MissingArtifact, Stored
from envelopes.storage.line_index import LineIndex, NotIndexed, build_index

SHA256 = re.compile("[0-9a-f]{64}")
COUNTED_AT_ONCE = 8 * 1024 * 1024  # bytes: 10 ms
PATIENCE = 0.4  # seconds that a page waits for an index before it shows the head


class Indexes(Protocol):
    """Line indexes beside their content, in a folder or in a bucket."""

    def load(self, sha256: str, size: int, encoding: str = "utf-8") -> LineIndex: ...

    def build(self, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool: ...

    def head(self, sha256: str, encoding: str = "utf-8") -> LineIndex: ...

    def remove(self, sha256: str) -> None: ...


class ArtifactStore(Protocol):
    """What the dashboard asks of the store, wherever it is. Errors are FileStore's."""

    @property
    def indexes(self) -> Indexes: ...

    def write(self, role: str, text: str) -> ArtifactRef: ...

    def put(self, content: BinaryIO) -> Stored: ...

    def open(self, path: str) -> BinaryIO: ...

    def glance(self, sha256: str, size: int) -> None: ...

    def read_window(self, path: str, offset: int, size: int) -> bytes: ...

    def is_untouched(self, sha256: str) -> bool: ...

    def verify(self, sha256: str) -> bool: ...

    def check(self) -> tuple[Fault, ...]: ...

    def sizes(self) -> dict[str, int]: ...

    def remove(self, sha256: str) -> None: ...

    def unfinished(self, seconds: float) -> tuple[Path, ...]: ...


def artifact_files() -> ArtifactStore:
    """Raises ImproperlyConfigured."""
    address = str(settings.ARTIFACTS)
    if address.startswith(SCHEME):
        return _bucket_store(address, Path(settings.ARTIFACT_CACHE))
    if "://" in address:
        raise ImproperlyConfigured(f"COUNTERFOIL_ARTIFACTS is {address}: a folder, or {SCHEME}BUCKET/PREFIX")
    return FileStore(Path(address))


@lru_cache(maxsize=8)
def _bucket_store(address: str, local: Path) -> BucketStore:
    """Kept, with its connections."""
    return BucketStore(bucket_at(address), local)


def open_stored(sha256: str) -> BinaryIO:
    """A stream that can seek. Raises MissingArtifact, also for what is no hash, or OSError for damage."""
    return _store_of(sha256).open(sha256)


def glance_at(sha256: str, size: int) -> None:
    """Raises the same where that is seen without reading and without a request."""
    _store_of(sha256).glance(sha256, size)


def _store_of(sha256: str) -> ArtifactStore:
    if not SHA256.fullmatch(sha256):
        raise MissingArtifact(sha256)
    return artifact_files()


def index_of(stream: BinaryIO, size: int, sha256: str, encoding: str) -> LineIndex:
    """The line index of stored content; of its head while the first reader's index is still being built.

    `sha256` is empty for content that is in memory: its lines are counted.
    """
    if not sha256 or size < INDEX_FROM:
        return build_index(stream, encoding)
    indexes = artifact_files().indexes
    try:
        return indexes.load(sha256, size, encoding)
    except NotIndexed:
        pass  # the usual first look: it is built below, and the page has the head meanwhile
    if size <= COUNTED_AT_ONCE:
        return build_index(stream, encoding)
    builder = threading.Thread(target=_build, args=(sha256, encoding), daemon=True)
    builder.start()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        builder.join(PATIENCE / 8)
        try:
            return indexes.load(sha256, size, encoding)
        except NotIndexed:
            continue
    return indexes.head(sha256, encoding)


def _build(sha256: str, encoding: str) -> None:
    """The next reader tries again when this one fails; its page says what cannot be read."""
    try:
        with open_stored(sha256) as stream:
            artifact_files().indexes.build(sha256, stream, encoding)
    except (MissingArtifact, OSError):
        return
