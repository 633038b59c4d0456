"""Files that a recording names, taken in: content-addressed, fsynced before any row names them.

A path in a recording is foreign data. Only its last component is used, and only to look in the
places where the agent that wrote the recording keeps such files: beside the recording, below
`<session>/tool-results/`. Nothing is opened through a link, and only regular files are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dashboard.artifact_files import artifact_files
from envelopes.artifact import Stored

__all__ = ["Stored", "take_in"]

LARGEST = 256 * 1024 * 1024
KEPT_IN = "tool-results"


def take_in(recording: Path, recorded_path: str) -> Stored | None:
    """The file that `recorded_path` means, when it lies beside `recording`; None when it does not."""
    name = recorded_path.replace("\\", "/").rsplit("/", 1)[-1]
    if not name or name in (".", "..") or "\x00" in name:
        return None
    for folder in _folders(recording):
        descriptor = _open_below(folder, name)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as file:
                return artifact_files().put(file)
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
