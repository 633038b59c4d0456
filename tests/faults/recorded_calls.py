"""Records the system calls of a store, and computes the disks that a power cut may leave between any two.

On the disk are a file's content and a folder's names as of the last fsync. Any later change may have reached the disk
or not, each independently, in any order.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Step:
    """kind: name (`path` now names `inode`), gone, sync file (with its bytes), sync folder, acknowledged."""

    kind: str
    path: str
    inode: int = 0
    data: bytes = b""


@dataclass
class Recorder:
    """The entries below `root`; a folder's inode is 0."""

    root: Path
    steps: list[Step] = field(default_factory=list)

    def acknowledge(self, what: str) -> None:
        self.steps.append(Step("acknowledged", what))

    def named(self, path: object) -> None:
        there = Path(os.fsdecode(path))  # type: ignore[call-overload]
        if there.is_relative_to(self.root):
            inode = 0 if there.is_dir() else there.stat().st_ino
            self.steps.append(Step("name", self._below(there), inode))

    def gone(self, path: object) -> None:
        there = Path(os.fsdecode(path))  # type: ignore[call-overload]
        if there.is_relative_to(self.root):
            self.steps.append(Step("gone", self._below(there)))

    def synced(self, descriptor: int) -> None:
        there = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if there.is_dir():
            self.steps.append(Step("sync folder", self._below(there)))
        else:
            data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
            self.steps.append(Step("sync file", self._below(there), os.fstat(descriptor).st_ino, data))

    def _below(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


@contextmanager
def recorded(root: Path) -> Iterator[Recorder]:
    root.mkdir()
    recorder, own = (
        Recorder(root),
        {name: getattr(os, name) for name in ("open", "mkdir", "replace", "unlink", "fsync")},
    )

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        descriptor: int = own["open"](path, flags, *more, **named)
        if is_new:
            recorder.named(path)
        return descriptor

    def mkdir(path: Any, *more: Any, **named: Any) -> None:
        own["mkdir"](path, *more, **named)
        recorder.named(path)

    def replace(source: Any, target: Any) -> None:
        own["replace"](source, target)
        recorder.named(target)
        recorder.gone(source)

    def unlink(path: Any, **named: Any) -> None:
        own["unlink"](path, **named)
        recorder.gone(path)

    def fsync(descriptor: int) -> None:
        own["fsync"](descriptor)
        recorder.synced(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        for call in (opened, mkdir, replace, unlink, fsync):
            patch.setattr(os, "open" if call is opened else call.__name__, call)
        yield recorder


def disks_after(steps: list[Step], chance: random.Random) -> Iterator[dict[str, bytes]]:
    """Files by path: as little as may be there, as much as may be there, and something between."""
    for keeps in (lambda: False, lambda: True, lambda: chance.random() < 0.5):
        yield _disk(steps, keeps)


def _disk(steps: list[Step], keeps: Callable[[], bool]) -> dict[str, bytes]:
    """A name without its bytes is an empty file."""
    synced_at = {step.path: at for at, step in enumerate(steps) if step.kind == "sync folder"}
    names: dict[str, int] = {}
    for at, step in enumerate(steps):
        folder = step.path.rpartition("/")[0] or "."
        if step.kind not in ("name", "gone") or not (at < synced_at.get(folder, -1) or keeps()):
            continue
        if step.kind == "name":
            names[step.path] = step.inode
        else:
            names.pop(step.path, None)
    held = {step.inode: step.data for step in steps if step.kind == "sync file"}
    reached = {path: inode for path, inode in names.items() if all(folder in names for folder in _folders(path))}
    return {path: held.get(inode, b"") for path, inode in reached.items() if inode}


def _folders(path: str) -> list[str]:
    return [str(folder) for folder in Path(path).parents if str(folder) != "."]
