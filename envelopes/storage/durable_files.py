"""Files that are whole or not there, and on disk before anybody is told of them.

A file is written under another name, fsynced, renamed, and its folder fsynced: without the last two
steps a power cut takes back what was acknowledged (reliability.md section 7).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

INCOMING = "incoming-"
IncomingFile: TypeAlias = "tempfile._TemporaryFileWrapper[bytes]"


@contextmanager
def incoming(root: Path) -> Iterator[IncomingFile]:
    """A temporary file in the folder, gone at the end unless it was published."""
    with tempfile.NamedTemporaryFile(dir=root, prefix=INCOMING, delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def publish(file: IncomingFile, target: Path) -> None:
    """The caller syncs the folder, once for all that it publishes there."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, target)


def make_folder(folder: Path) -> None:
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_unfinished(folder: Path, seconds: float) -> tuple[Path, ...]:
    """What `incoming` left there when its process was killed, so long ago that nobody lives who writes to it."""
    paths = (folder / name for name in list_names(folder) if name.startswith(INCOMING))
    return tuple(path for path in paths if _is_older(path, seconds))


def _is_older(path: Path, seconds: float) -> bool:
    try:
        return path.lstat().st_mtime < time.time() - seconds
    except FileNotFoundError:
        return False
