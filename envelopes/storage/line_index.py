"""Where the lines of a file begin, for a file of any size: how many end before every block of 4 KiB.

An entry a block and not a line, so that the index of 4 GB is 8 MB whatever its lines are like, and a
line costs one bisection and one block. It is built in one pass, kept beside the content, and follows
from the content alone: one that is lost or damaged is built again.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias

BLOCK = 4 * 1024
CHUNK = 32 * BLOCK  # of reading: what is counted is still in the processor's cache
ENDS = b"\n" * BLOCK
MAGIC = b"lines 1\n"
HEADER = struct.Struct("<8sQQ")  # magic, bytes of content, lines
Counts: TypeAlias = "Sequence[int]"
WIDE = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}


class BadIndex(Exception):
    """The file is no index, is cut short, or is of content of another size."""


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

    def start_of(self, stream: BinaryIO, line: int) -> int:
        """The byte where a line begins; where the last one does when there are fewer."""
        ends = min(line, self.lines) - 1
        if ends <= 0:
            return 0
        block = bisect_left(self.before, ends) - 1
        stream.seek(block * BLOCK)
        data, wanted = stream.read(BLOCK), ends - self.before[block]
        there = self.before[block + 1] - self.before[block] if block + 1 < len(self.before) else 0
        if wanted * 2 > there > 0 and self.encoding not in WIDE:
            # Nearer to the block's end, so counted from there.
            return block * BLOCK + len(data.rsplit(b"\n", there - wanted + 1)[0]) + 1
        return block * BLOCK + after_end(data, wanted, self.encoding)


@cache
def line_ends() -> Callable[[bytes, bytes], int]:
    """How many bytes of a block are those of as many line ends is a Hamming similarity.

    rapidfuzz, where it is installed, finds it with the processor's vector instructions; bytes.count takes
    three times as long.
    """
    try:
        from rapidfuzz.distance import Hamming
    except ImportError:
        return lambda block, _ends: block.count(b"\n")
    return Hamming.similarity


class IndexBuilder:
    """Takes the content in pieces of any size; of even size where a character has two bytes."""

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
        """The loop that an index's time is spent in."""
        total, before, count = self._count, self.before, line_ends()
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


def build(stream: BinaryIO, encoding: str = "utf-8") -> LineIndex:
    builder = IndexBuilder(encoding)
    stream.seek(0)
    while piece := stream.read(CHUNK):
        builder.add(piece)
    return builder.finished()


def save(index: LineIndex, file: IO[bytes]) -> None:
    file.write(HEADER.pack(MAGIC, index.size, index.lines))
    file.write(array("Q", index.before).tobytes())


def load(path: Path, size: int, encoding: str = "utf-8") -> LineIndex:
    """The index of content of that size; its pages are read as they are needed. Raises OSError, BadIndex."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.pread(descriptor, HEADER.size, 0)
        expected = HEADER.size + 8 * (size // BLOCK + 1)
        if len(found) < HEADER.size or os.fstat(descriptor).st_size != expected:
            raise BadIndex(path.name)
        magic, covered, lines = HEADER.unpack(found)
        if magic != MAGIC or covered != size:
            raise BadIndex(path.name)
        held = memoryview(mmap.mmap(descriptor, expected, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)
    return LineIndex(held[HEADER.size :].cast("Q"), size, lines, encoding)


def count_ends(data: bytes, encoding: str = "utf-8", start: int = 0, end: int | None = None) -> int:
    """In every encoding that keeps ASCII a line ends at the byte 0A, and at no other."""
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
    """Where the next line end begins, or -1."""
    mark = WIDE.get(encoding, b"\n")
    at = data.find(mark, start)
    while len(mark) == 2 and at >= 0 and at % 2:  # half of two other characters
        at = data.find(mark, at + 1)
    return at
