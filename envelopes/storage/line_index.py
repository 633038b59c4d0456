"""Indexes of where the lines of a file begin, for a file of any size: how many end before every block of 4 KiB.

    build_index(stream)   the index of some content, in one pass
    IndexFolder           indexes on disk, beside the content that they belong to

An entry a block and not a line: the index of 4 GB is 8 MB whatever its lines are like, and finding a line
costs one bisection and one block. An index follows from the content alone, so one that is lost or damaged
is built again. Each is built by one process: it appends to `incoming-<sha256>…` under a lock. Others see by
the lock that it is running and read the head of the index meanwhile. What a killed build left is begun
anew, never trusted.

An index also seals its content: its modification time is set to the time at which the content's file last
changed (st_ctime_ns, which no user can set) when that file was verified against its hash. Any other time
means nothing, good or bad: a copy of the store has new times, and so has an index that was built anew.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias

from envelopes.storage.durable_files import INCOMING, incoming, make_folder, publish, sync_folder

BLOCK = 4 * 1024
CHUNK = 32 * BLOCK  # of reading: what is counted is still in the processor's cache
APPEND_EVERY = 512 * CHUNK  # bytes of content between two appends: progress, and a larger readable head
INDEX_NAME = re.compile(r"([0-9a-f]{64})((?:\.utf-16-[lb]e)?)\.lines")
ENDS = b"\n" * BLOCK
MAGIC = b"lines 1\n"
HEADER = struct.Struct("<8sQQ")  # magic, bytes of content, lines
Counts: TypeAlias = "Sequence[int]"
WIDE = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}  # encodings with two bytes a character: their line end


class BadIndex(Exception):
    """The file is not an index, is cut short, or belongs to content of another size."""


class NotIndexed(LookupError):
    """There is no index of this content yet."""


class LineIndex:
    """`before[i]` lines end in the first i blocks. `size` counts the bytes covered; a growing index covers a head.

    Lines count from 1. `lines` counts line ends, and a last line without one.
    """

    def __init__(self, before: Counts, size: int, lines: int, encoding: str = "utf-8") -> None:
        self.before = before
        self.size = size
        self.lines = lines
        self.encoding = encoding

    def line_at(self, stream: BinaryIO, offset: int) -> int:
        """The number of the line that holds the byte `offset`."""
        block = min(offset, self.size) // BLOCK
        stream.seek(block * BLOCK)
        return 1 + self.before[block] + count_ends(stream.read(offset - block * BLOCK), self.encoding)

    def line_start(self, stream: BinaryIO, line: int) -> int:
        """The byte where a line begins; where the last one does when there are fewer."""
        ends = min(line, self.lines) - 1
        if ends <= 0:
            return 0
        block = bisect_left(self.before, ends) - 1
        stream.seek(block * BLOCK)
        data, number = stream.read(BLOCK), ends - self.before[block]
        in_block = self.before[block + 1] - self.before[block] if block + 1 < len(self.before) else 0
        if number * 2 > in_block > 0 and self.encoding not in WIDE:
            # Nearer to the block's end, so counted from there.
            return block * BLOCK + len(data.rsplit(b"\n", in_block - number + 1)[0]) + 1
        return block * BLOCK + after_end(data, number, self.encoding)


@cache
def load_line_end_counter() -> Callable[[bytes, bytes], int]:
    """A function of a block and as many line ends: how many of its bytes are one, a Hamming similarity.

    rapidfuzz, where it is installed, finds it with the processor's vector instructions; bytes.count takes
    three times as long.
    """
    try:
        from rapidfuzz.distance import Hamming
    except ImportError:
        return lambda block, _ends: block.count(b"\n")
    return Hamming.similarity


class IndexBuilder:
    """Builds an index from pieces of any size; of even size where a character has two bytes."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding
        self.before = array("Q", [0])
        self.size = 0
        self._count = 0
        self._room = BLOCK
        self._last = b""

    def add(self, piece: bytes) -> None:
        first = min(len(piece), self._room)
        self._count += count_ends(piece, self.encoding, 0, first)
        self._room -= first
        if not self._room:
            self.before.append(self._count)
            whole = first + (len(piece) - first) // BLOCK * BLOCK
            self._add_blocks(piece, first, whole)
            self._count += count_ends(piece, self.encoding, whole, len(piece))
            self._room = BLOCK - (len(piece) - whole)
        self.size += len(piece)
        self._last = (self._last + piece[-2:])[-2:]

    def _add_blocks(self, piece: bytes, start: int, end: int) -> None:
        """Nearly all of the time that an index takes is spent in this loop."""
        total, before, count = self._count, self.before, load_line_end_counter()
        if self.encoding in WIDE:
            for at in range(start, end, BLOCK):
                total += count_ends(piece, self.encoding, at, at + BLOCK)
                before.append(total)
        else:
            for at in range(start, end, BLOCK):
                total += count(piece[at : at + BLOCK], ENDS)
                before.append(total)
        self._count = total

    def finished(self) -> LineIndex:
        is_open = self.size and not self._last.endswith(WIDE.get(self.encoding, b"\n"))
        return LineIndex(self.before, self.size, self._count + bool(is_open), self.encoding)


def build_index(stream: BinaryIO, encoding: str = "utf-8") -> LineIndex:
    builder = IndexBuilder(encoding)
    stream.seek(0)
    while piece := stream.read(CHUNK):
        builder.add(piece)
    return builder.finished()


def write_index(index: LineIndex, file: IO[bytes]) -> None:
    file.write(HEADER.pack(MAGIC, index.size, index.lines))
    file.write(array("Q", index.before).tobytes())


def load_index(path: Path, size: int, encoding: str = "utf-8") -> LineIndex:
    """The index of content of that size; its pages are read as they are needed. Raises OSError, BadIndex."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        header = os.pread(descriptor, HEADER.size, 0)
        expected = HEADER.size + 8 * (size // BLOCK + 1)
        if len(header) < HEADER.size or os.fstat(descriptor).st_size != expected:
            raise BadIndex(path.name)
        magic, covered, lines = HEADER.unpack(header)
        if magic != MAGIC or covered != size:
            raise BadIndex(path.name)
        mapped = memoryview(mmap.mmap(descriptor, expected, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)
    return LineIndex(mapped[HEADER.size :].cast("Q"), size, lines, encoding)


class IndexFolder:
    """The indexes in a store's folder: `<root>/<first two digits>/<sha256>.lines`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str, encoding: str = "utf-8") -> Path:
        return self.root / sha256[:2] / _file_name(sha256, encoding)

    def load(self, sha256: str, size: int, encoding: str = "utf-8") -> LineIndex:
        """Raises NotIndexed."""
        try:
            return load_index(self.path(sha256, encoding), size, encoding)
        except (OSError, BadIndex):
            raise NotIndexed(sha256) from None

    def keep(self, sha256: str, index: LineIndex) -> None:
        target = self.path(sha256, index.encoding)
        make_folder(target.parent)
        with incoming(self.root) as file:
            write_index(index, file.file)
            publish(file, target)
        sync_folder(target.parent)

    def build(self, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool:
        """Reads all of the stream. False when another process or thread builds the index, or has built it."""
        make_folder(self.root)
        target, growing = self.path(sha256, encoding), self._growing_path(sha256, encoding)
        with self._growing(sha256, encoding, os.O_RDWR | os.O_CREAT) as file:
            if file is None:
                return False
            try:
                load_index(target, stream.seek(0, os.SEEK_END), encoding)
            except (OSError, BadIndex):
                pass  # none yet, or a damaged one
            else:
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
        """The part of the index that a running build has covered; an empty index when no build is running."""
        nothing = LineIndex((0,), 0, 1, encoding)
        with self._growing(sha256, encoding, os.O_RDONLY) as file:
            if file is not None:  # the lock was free, so nobody is writing
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
            os.utime(self.path(sha256), ns=(changed_at, changed_at))

    def is_sealed(self, sha256: str, changed_at: int) -> bool:
        try:
            return self.path(sha256).stat().st_mtime_ns == changed_at
        except OSError:
            return False

    def remove(self, sha256: str) -> None:
        for encoding in ("utf-8", *WIDE):
            self.path(sha256, encoding).unlink(missing_ok=True)

    def _growing_path(self, sha256: str, encoding: str) -> Path:
        return self.root / f"{INCOMING}{_file_name(sha256, encoding)}"

    @contextmanager
    def _growing(self, sha256: str, encoding: str, flags: int) -> Iterator[int | None]:
        """The unfinished index, locked; None when it is locked already or does not exist."""
        path = self._growing_path(sha256, encoding)
        try:
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
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


def _build_into(file: int, stream: BinaryIO, encoding: str) -> IndexBuilder:
    os.ftruncate(file, 0)
    builder, written = IndexBuilder(encoding), 0
    os.pwrite(file, bytes(HEADER.size), 0)
    stream.seek(0)
    while piece := stream.read(CHUNK):
        builder.add(piece)
        if builder.size % APPEND_EVERY == 0:
            written = _append(file, builder, written)
    _append(file, builder, written)
    return builder


def _append(file: int, builder: IndexBuilder, written: int) -> int:
    os.pwrite(file, builder.before[written:].tobytes(), HEADER.size + 8 * written)
    return len(builder.before)


def _file_name(sha256: str, encoding: str) -> str:
    """One index serves every encoding in which the byte 0A ends a line."""
    return f"{sha256}.{encoding}.lines" if encoding in WIDE else f"{sha256}.lines"


def count_ends(data: bytes, encoding: str = "utf-8", start: int = 0, end: int | None = None) -> int:
    """How many lines end in the data: outside of UTF-16 at every byte 0A, and at no other byte."""
    if encoding not in WIDE:
        return data.count(b"\n", start, len(data) if end is None else end)
    return data[start:end].decode(encoding, "replace").count("\n")


def after_end(data: bytes, number: int, encoding: str = "utf-8") -> int:
    """The byte after the line end with that number, counted from 1; len(data) when there are fewer."""
    if encoding not in WIDE:
        # Three times faster than as many calls of find.
        parts = data.split(b"\n", number)
        return len(data) - len(parts[-1]) if len(parts) > number else len(data)
    at = -2
    for _ in range(number):
        at = next_end(data, at + 2, encoding)
        if at < 0:
            return len(data)
    return at + 2


def next_end(data: bytes, start: int, encoding: str = "utf-8") -> int:
    """The offset at which the next line end begins, or -1."""
    mark = WIDE.get(encoding, b"\n")
    at = data.find(mark, start)
    while len(mark) == 2 and at >= 0 and at % 2:  # half of two other characters
        at = data.find(mark, at + 1)
    return at


def last_end(data: bytes, encoding: str = "utf-8") -> int:
    """The offset at which the last line end begins, or -1."""
    if encoding not in WIDE:
        return data.rfind(b"\n")
    at, last = 0, -1
    while (at := next_end(data, at, encoding)) >= 0:
        last, at = at, at + 2
    return last
