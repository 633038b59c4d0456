"""Windows of a file of any size: a few hundred lines from a line, a byte, a percentage, or the end.

A window is read, never searched for: what it costs does not depend on where it lies. A line that is
longer than a window is shown in stretches, each a window that begins inside the line.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from envelopes.storage.line_index import WIDE, LineIndex, after_end, count_ends, next_end

LINES = 400
BYTES = 64 * 1024


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a window is asked for: one of them counts, in this order. Lines count from 1."""

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
    stream: BinaryIO, index: LineIndex, place: Place, *, lines: int = LINES, limit: int = BYTES
) -> LineWindow:
    """`index` may cover a head only: a line behind it is answered with the last that is known."""
    reader = _Reader(stream, index, lines, limit)
    start = reader.start_of(place)
    is_line = place.offset is None and place.line is not None
    first = reader.number_of(start, place.line if is_line else None)
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

    def start_of(self, place: Place) -> int:
        if place.offset is not None:
            return self.character_start(min(place.offset, self.size))
        if place.line is not None:
            return self.index.start_of(self.stream, place.line)
        if place.percent is not None:
            return self.line_start_near(self.size * min(place.percent, 100) // 100)
        return self.tail() if place.is_tail else 0

    def number_of(self, start: int, line: int | None) -> int | None:
        if line is not None:
            return max(1, min(line, self.index.lines))
        return self.index.line_at(self.stream, start) if start <= self.index.size else None

    def begins_line(self, start: int) -> bool:
        return self.read(start - self.width, self.width) == WIDE.get(self.encoding, b"\n")

    def line_start_near(self, offset: int) -> int:
        """The start of the line at `offset`, when that is near; else the character there."""
        begin = max(0, offset - self.limit) // self.width * self.width
        offset = offset // self.width * self.width
        found = _last_end(self.read(begin, offset - begin), self.encoding)
        if found >= 0 or begin == 0:
            return begin + found + self.width if found >= 0 else 0
        return self.character_start(offset)

    def tail(self) -> int:
        """Where the last lines begin: a window of them reaches to the end."""
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
        """So many lines at most, the last one whole where that leaves any, and no half character."""
        if first is not None and first + self.lines <= self.index.lines and self.index.size == self.size:
            # The index says where they end, sooner than their ends are counted.
            end = self.index.start_of(self.stream, first + self.lines)
            if end - start <= self.limit:
                return self.read(start, end - start)
        data = self.read(start, self.limit)
        cut = after_end(data, self.lines, self.encoding)
        if cut < len(data) or start + len(data) >= self.size:
            return data[:cut]
        last = _last_end(data, self.encoding)
        return data[: last + self.width] if last >= 0 else self._whole_characters(data)

    def _whole_characters(self, data: bytes) -> bytes:
        if self.width == 2:
            return data[: len(data) - len(data) % 2]
        for back in range(1, min(4, len(data)) + 1 if self.encoding == "utf-8" else 0):
            if data[-back] & 0xC0 != 0x80:
                return data[:-back] if data[-back] >= 0xC0 else data
        return data


def _last_end(data: bytes, encoding: str) -> int:
    if encoding not in WIDE:
        return data.rfind(b"\n")
    at, found = 0, -1
    while (at := next_end(data, at, encoding)) >= 0:
        found, at = at, at + 2
    return found
