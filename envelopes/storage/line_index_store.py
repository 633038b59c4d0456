"""Line indexes on disk, beside the content that they are of, each built once by one process.

A build appends to `incoming-<sha256>…` under a lock. Others see by the lock that somebody is at it,
and read the head of the index meanwhile. What a killed build left is begun anew, never trusted.

An index carries a seal: its own date is the one at which its content's file last changed (st_ctime_ns, which
nobody sets as they like) when that was held against its hash. Any other date says nothing, good or bad:
a copy of the store has new dates, and so has an index that was built anew.
"""

from __future__ import annotations

import fcntl
import os
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from envelopes.storage.durable_files import INCOMING, incoming, make_folder, publish, sync_folder
from envelopes.storage.line_index import (
    BLOCK,
    CHUNK,
    HEADER,
    MAGIC,
    WIDE,
    BadIndex,
    IndexBuilder,
    LineIndex,
    load,
    save,
)

TOLD_EVERY = 512 * CHUNK  # bytes of content between two appends: progress, and a larger readable head
INDEX_NAME = re.compile(r"([0-9a-f]{64})((?:\.utf-16-[lb]e)?)\.lines")


class NotIndexed(LookupError):
    """There is no index of this content yet."""


class IndexFolder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def path_of(self, sha256: str, encoding: str = "utf-8") -> Path:
        return self.root / sha256[:2] / f"{sha256}{_kind(encoding)}.lines"

    def load(self, sha256: str, size: int, encoding: str = "utf-8") -> LineIndex:
        """Raises NotIndexed."""
        try:
            return load(self.path_of(sha256, encoding), size, encoding)
        except (OSError, BadIndex):
            raise NotIndexed(sha256) from None

    def keep(self, sha256: str, index: LineIndex) -> None:
        target = self.path_of(sha256, index.encoding)
        make_folder(target.parent)
        with incoming(self.root) as file:
            save(index, file.file)
            publish(file, target)
        sync_folder(target.parent)

    def build(self, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool:
        """Reads all of the stream. False when another process or thread is at it, or was."""
        make_folder(self.root)
        target, growing = self.path_of(sha256, encoding), self._growing_path(sha256, encoding)
        with self._growing(sha256, encoding, os.O_RDWR | os.O_CREAT) as file:
            if file is None:
                return False
            if _is_index(target, stream, encoding):
                growing.unlink()
                return False
            builder = _build_into(file, stream, encoding)
            os.pwrite(file, HEADER.pack(MAGIC, builder.size, builder.finished().lines), 0)
            os.fsync(file)
            make_folder(target.parent)
            os.replace(growing, target)
        sync_folder(target.parent)
        return True

    def head(self, sha256: str, encoding: str = "utf-8") -> LineIndex:
        """What a build that is running has covered so far; nothing of one that was killed."""
        nothing = LineIndex((0,), 0, 1, encoding)
        with self._growing(sha256, encoding, os.O_RDONLY) as file:
            if file is not None:  # nobody holds the lock, so nobody is writing
                return nothing
        try:
            raw = self._growing_path(sha256, encoding).read_bytes()[HEADER.size :]
        except OSError:
            return nothing
        before = array("Q", raw[: len(raw) // 8 * 8]) or array("Q", [0])
        return LineIndex(before, (len(before) - 1) * BLOCK, before[-1] + 1, encoding)

    def seal(self, sha256: str, changed_at: int) -> None:
        """`changed_at` was read before the content was. Without an index there is nothing to be sealed."""
        with suppress(OSError):  # no index, or a store that is read only
            os.utime(self.path_of(sha256), ns=(changed_at, changed_at))

    def is_sealed(self, sha256: str, changed_at: int) -> bool:
        try:
            return self.path_of(sha256).stat().st_mtime_ns == changed_at
        except OSError:
            return False

    def remove(self, sha256: str) -> None:
        for encoding in ("utf-8", *WIDE):
            self.path_of(sha256, encoding).unlink(missing_ok=True)

    def _growing_path(self, sha256: str, encoding: str) -> Path:
        return self.root / f"{INCOMING}{sha256}{_kind(encoding)}.lines"

    @contextmanager
    def _growing(self, sha256: str, encoding: str, how: int) -> Iterator[int | None]:
        """The unfinished index, locked; None when it is locked already or does not exist."""
        path = self._growing_path(sha256, encoding)
        try:
            descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            yield None
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
        finally:
            os.close(descriptor)


def _is_index(path: Path, stream: BinaryIO, encoding: str) -> bool:
    """A damaged one is built again."""
    try:
        load(path, stream.seek(0, os.SEEK_END), encoding)
    except (OSError, BadIndex):
        return False
    return True


def _build_into(file: int, stream: BinaryIO, encoding: str) -> IndexBuilder:
    os.ftruncate(file, 0)
    builder, written = IndexBuilder(encoding), 0
    os.pwrite(file, bytes(HEADER.size), 0)
    stream.seek(0)
    while piece := stream.read(CHUNK):
        builder.add(piece)
        if builder.size % TOLD_EVERY == 0:
            written = _append(file, builder, written)
    _append(file, builder, written)
    return builder


def _append(file: int, builder: IndexBuilder, written: int) -> int:
    os.pwrite(file, builder.before[written:].tobytes(), HEADER.size + 8 * written)
    return len(builder.before)


def _kind(encoding: str) -> str:
    """One index serves every encoding in which the byte 0A ends a line."""
    return f".{encoding}" if encoding in WIDE else ""
