"""Files that a recording names, taken in: content-addressed, fsynced before any row names them.

A path in a recording is foreign data. Only its last component is used, and only to look in the
places where the agent that wrote the recording keeps such files: beside the recording, below
`<session>/tool-results/`. Nothing is opened through a link, and only regular files are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

CHUNK = 1024 * 1024
LARGEST = 256 * 1024 * 1024
KEPT_IN = "tool-results"


@dataclass(frozen=True)
class Stored:
    """Content that is on disk. `lines` counts newlines, and a last line without one."""

    sha256: str
    size: int
    lines: int


def take_in(recording: Path, recorded_path: str) -> Stored | None:
    """The file that `recorded_path` means, when it lies beside `recording`; None when it does not."""
    name = recorded_path.replace("\\", "/").rsplit("/", 1)[-1]
    if not name or name in (".", "..") or "\x00" in name:
        return None
    for folder in _folders(recording):
        descriptor = _open_below(folder, name)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as file:
                return _put(file)
    return None


def _folders(recording: Path) -> Iterator[Path]:
    """`<session>/tool-results` of a session file, and of a subagent's file in `<session>/subagents`."""
    yield recording.parent / recording.stem
    yield recording.parent
    yield recording.parent.parent


def _open_below(folder: Path, name: str) -> int | None:
    held: list[int] = []
    try:
        held.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        held.append(os.open(KEPT_IN, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held[-1]))
        found = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held[-1])
    except OSError:
        return None
    finally:
        for descriptor in held:
            os.close(descriptor)
    status = os.fstat(found)
    if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
        return found
    os.close(found)
    return None


def _put(file: BinaryIO) -> Stored:
    """Copies to a temporary file, fsyncs it, renames it to its hash, fsyncs the folder."""
    root = Path(settings.ARTIFACTS)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=root, prefix="incoming-")
    try:
        with os.fdopen(descriptor, "wb") as target:
            stored = _copy(file, target)
            target.flush()
            os.fsync(target.fileno())
        folder = root / stored.sha256[:2]
        folder.mkdir(mode=0o700, exist_ok=True)
        os.replace(temporary, folder / stored.sha256)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(folder)
    _sync(root)
    return stored


def _copy(file: BinaryIO, target: BinaryIO) -> Stored:
    digest = hashlib.sha256()
    size = newlines = 0
    last = b"\n"
    while chunk := file.read(CHUNK):
        digest.update(chunk)
        target.write(chunk)
        size, newlines, last = size + len(chunk), newlines + chunk.count(b"\n"), chunk[-1:]
    return Stored(digest.hexdigest(), size, newlines + (last != b"\n"))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
