"""Files that are either complete or absent, and on disk before anything refers to them.

A file is written under another name, fsynced and renamed, and then its folder is fsynced: without the fsyncs a
power cut can lose what was acknowledged (D-5).
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
    """A temporary file in the folder, removed at the end unless it was published."""
    with tempfile.NamedTemporaryFile(dir=root, prefix=INCOMING, delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def publish(file: IncomingFile, target: Path) -> None:
    """Moves a finished file into place. The caller syncs the folder, once for all that it publishes there."""
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
    """The names in a folder; none for a folder that does not exist."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_unfinished(folder: Path, seconds: float) -> tuple[Path, ...]:
    """Files that a killed process left there at least `seconds` ago, so that no process writes to them any more."""
    before = time.time() - seconds
    unfinished: list[Path] = []
    for name in list_names(folder):
        path = folder / name
        if name.startswith(INCOMING) and (status := read_status(path)) is not None and status.st_mtime < before:
            unfinished.append(path)
    return tuple(unfinished)


def read_status(path: Path) -> os.stat_result | None:
    """The status of a file itself, not of what a link leads to; None for one that is not there."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None
