"""Files that a recording names, taken in: content-addressed, fsynced before any row names them.

A path in a recording is foreign data. Its last component is looked for in the places where the agent
that wrote the recording keeps such files: beside the recording, below `<session>/tool-results/`. The
whole path counts only below a folder that the operator named. Nothing is opened through a link, folder
or file, and only regular files are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, cast

from dashboard.artifacts.quota import NoRoom, Room, room_of
from dashboard.artifacts.stores import artifact_files
from envelopes.storage.file_store import Stored, Unreachable

__all__ = ["NoRoom", "NotStored", "Room", "Stored", "kept", "looking_under", "opened", "room_of", "take_in"]

KEPT_IN = "tool-results"
_ROOTS: ContextVar[tuple[Path, ...]] = ContextVar("artifact roots", default=())


class NotStored(Exception):
    """The store did not take a file that is there: its disk is full, or its bucket does not answer."""


def take_in(recording: Path, recorded_path: str, room: Room) -> Stored | None:
    """The file that `recorded_path` means, when it lies beside `recording`; None when it does not.

    Raises NoRoom and NotStored.
    """
    descriptor = opened(recording, recorded_path)
    return None if descriptor is None else kept(descriptor, room)


def opened(recording: Path, recorded_path: str) -> int | None:
    """The same file, not yet taken in; the caller closes it, or gives it to `kept`."""
    name = recorded_path.replace("\\", "/").rsplit("/", 1)[-1]
    if not name or name in (".", "..") or "\x00" in name:
        return None
    for folder in _folders(recording):
        descriptor = _open_below(folder, name)
        if descriptor is not None:
            return descriptor
    for root in _ROOTS.get():
        descriptor = _open_inside(root, recorded_path)
        if descriptor is not None:
            return descriptor
    return None


@contextmanager
def looking_under(roots: Sequence[Path]) -> Iterator[None]:
    """Within it, files that recordings name below these folders are taken in as well."""
    both = dict.fromkeys(path for root in roots for path in (root.absolute(), root.resolve()))
    token = _ROOTS.set(tuple(both))
    try:
        yield
    finally:
        _ROOTS.reset(token)


def kept(descriptor: int, room: Room) -> Stored:
    """Closes it. Raises NoRoom and NotStored."""
    with os.fdopen(descriptor, "rb") as file:
        size = room.admit(file)
        try:
            stored = _put(file, size)
        except OSError as error:
            raise NotStored(error.strerror or str(error)) from None
    room.took(stored)
    return stored


def _put(file: BinaryIO, size: int) -> Stored:
    """Tried twice where the store does not answer: of a machine that slept, every request is late once."""
    try:
        return artifact_files().put(cast("BinaryIO", _AsItWas(file, size)))
    except Unreachable:
        file.seek(0)
        return artifact_files().put(cast("BinaryIO", _AsItWas(file, size)))


class _AsItWas:
    """The beginning of a file that may grow for as long as it is read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, count: int) -> bytes:
        piece = self._file.read(min(count, self._left))
        self._left -= len(piece)
        return piece


def _open_inside(root: Path, recorded_path: str) -> int | None:
    """By its parts below the root: `..` and an empty part are refused, not resolved."""
    given = recorded_path.split("/")
    own = root.as_posix().split("/")
    below = given[len(own) :]
    if given[: len(own)] != own or not below or any(part in ("", ".", "..") or "\0" in part for part in below):
        return None
    return _open_parts(root, below, is_linked_root=True)


def _folders(recording: Path) -> Iterator[Path]:
    """`<session>/tool-results` of a session file, and of a subagent's file in `<session>/subagents`."""
    yield recording.parent / recording.stem
    yield recording.parent
    yield recording.parent.parent


def _open_below(folder: Path, name: str) -> int | None:
    return _open_parts(folder, [KEPT_IN, name])


def _open_parts(folder: Path, parts: Sequence[str], *, is_linked_root: bool = False) -> int | None:
    """A regular file, each part opened from the one before it. The operator's own folder may be a link."""
    how = os.O_RDONLY | os.O_DIRECTORY
    held: list[int] = []
    try:
        held.append(os.open(folder, how if is_linked_root else how | os.O_NOFOLLOW))
        for part in parts[:-1]:
            held.append(os.open(part, how | os.O_NOFOLLOW, dir_fd=held[-1]))
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held[-1])
    except (OSError, ValueError):
        return None
    finally:
        for descriptor in held:
            os.close(descriptor)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None
