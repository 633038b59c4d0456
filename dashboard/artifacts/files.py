"""Where the files of artifacts are: the store that the settings name, and the line indexes beside them."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from envelopes.artifact import FileStore, MissingArtifact
from envelopes.index_folder import NotIndexed
from envelopes.line_index import LineIndex, build

SHA256 = re.compile("[0-9a-f]{64}")
COUNTED_AT_ONCE = 8 * 1024 * 1024  # bytes: 10 ms
PATIENCE = 0.4  # seconds that a page waits for an index before it shows the head


def artifact_files() -> FileStore:
    return FileStore(Path(settings.ARTIFACTS))


def open_stored(sha256: str) -> BinaryIO:
    """A stream that can seek. Raises MissingArtifact, also for what is no hash, or OSError for damage."""
    if not SHA256.fullmatch(sha256):
        raise MissingArtifact(sha256)
    return artifact_files().open(sha256)


def index_of(stream: BinaryIO, size: int, sha256: str, encoding: str) -> LineIndex:
    """The line index of stored content; of its head while the first reader's index is still being built.

    `sha256` is empty for content that is in memory: its lines are counted.
    """
    if not sha256 or size <= COUNTED_AT_ONCE:
        return build(stream, encoding)
    indexes = artifact_files().indexes
    try:
        return indexes.load(sha256, size, encoding)
    except NotIndexed:
        pass
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
