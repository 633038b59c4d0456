"""Windows of a file of any size: a few hundred lines from a line, a byte, a percentage, or the end.

A window costs one bisection of the line index and three reads, wherever it lies. A line that is longer than
a window is shown in stretches, each a window that begins inside the line.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from envelopes.storage.encoding import whole_characters
from envelopes.storage.line_index import WIDE, LineIndex, after_end, count_ends, last_end

LINES = 400
BYTES = 64 * 1024


class WindowStart(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of a window: the first of these that is set counts, in this order. Lines count from 1."""

    offset: int | None = None
    line: int | None = None
    percent: int | None = None
    is_tail: bool = False


class LineWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes [start, end) of `size`. `first` is the number of its first line; None while no index reaches there."""

    data: bytes
    start: int
    size: int
    first: int | None
    is_continued: bool  # begins inside a line

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def read_window(
    stream: BinaryIO, index: LineIndex, begin: WindowStart, *, lines: int = LINES, limit: int = BYTES
) -> LineWindow:
    """The window of `lines` lines and `limit` bytes at most that begins at `begin`.

    `index` may cover a head only: a line behind it is answered with the last that is known.
    """
    reader = _Reader(stream, index, lines, limit)
    start = reader.start(begin)
    is_line = begin.offset is None and begin.line is not None
    first = reader.number_of(start, begin.line if is_line else None)
    return LineWindow(
        data=reader.window(start, first),
        start=start,
        size=reader.size,
        first=first,
        is_continued=start > 0 and not is_line and not reader.begins_line(start),
    )


class _Reader:
    def __init__(self, stream: BinaryIO, index: LineIndex, lines: int, limit: int) -> None:
        self.stream = stream
        self.index = index
        self.encoding = index.encoding
        self.width = 2 if index.encoding in WIDE else 1
        self.lines = lines
        self.limit = limit
        self.size = stream.seek(0, os.SEEK_END)

    def read(self, start: int, count: int) -> bytes:
        self.stream.seek(start)
        return self.stream.read(count)

    def start(self, begin: WindowStart) -> int:
        if begin.offset is not None:
            return self.character_start(min(begin.offset, self.size))
        if begin.line is not None:
            return self.index.line_start(self.stream, begin.line)
        if begin.percent is not None:
            return self.line_start_near(self.size * min(begin.percent, 100) // 100)
        return self.tail() if begin.is_tail else 0

    def number_of(self, start: int, line: int | None) -> int | None:
        if line is not None:
            return max(1, min(line, self.index.lines))
        return self.index.line_at(self.stream, start) if start <= self.index.size else None

    def begins_line(self, start: int) -> bool:
        return self.read(start - self.width, self.width) == WIDE.get(self.encoding, b"\n")

    def line_start_near(self, offset: int) -> int:
        """The start of the line that holds `offset` when that is near, else of the character there."""
        begin = max(0, offset - self.limit) // self.width * self.width
        offset = offset // self.width * self.width
        line_end = last_end(self.read(begin, offset - begin), self.encoding)
        if line_end >= 0 or begin == 0:
            return begin + line_end + self.width if line_end >= 0 else 0
        return self.character_start(offset)

    def tail(self) -> int:
        """The byte from which a window reaches to the end."""
        begin = max(0, self.size - self.limit)
        begin += begin % self.width
        data = self.read(begin, self.limit)
        ends = count_ends(data[: -self.width] if data else b"", self.encoding)
        if begin and ends == 0:
            return self.character_start(begin)
        # The first line of the stretch is cut unless the stretch is everything.
        skipped = max(1 if begin else 0, ends + 1 - self.lines)
        return begin + after_end(data, skipped, self.encoding) if skipped else begin

    def character_start(self, offset: int) -> int:
        """Back to the first byte of the character that `offset` falls into, UTF-8 or of two bytes."""
        if self.width == 2:
            return offset - offset % 2
        around = self.read(max(0, offset - 3), 4) if self.encoding == "utf-8" else b""
        at = offset - max(0, offset - 3)
        for back in range(4):
            if back > at or at >= len(around):
                break
            if around[at - back] & 0xC0 != 0x80:
                return offset - back
        return offset

    def window(self, start: int, first: int | None) -> bytes:
        """The bytes of the window: whole lines where one fits into the limit, and no half character."""
        if first is not None and first + self.lines <= self.index.lines and self.index.size == self.size:
            # Looking the end up in the index is faster than counting line ends.
            end = self.index.line_start(self.stream, first + self.lines)
            if end - start <= self.limit:
                return self.read(start, end - start)
        data = self.read(start, self.limit)
        cut = after_end(data, self.lines, self.encoding)
        if cut < len(data) or start + len(data) >= self.size:
            return data[:cut]
        last = last_end(data, self.encoding)
        if last >= 0:
            return data[: last + self.width]
        if self.width == 2:
            return data[: len(data) - len(data) % 2]
        return whole_characters(data) if self.encoding == "utf-8" else data
