"""Finds text in content of any size: streamed, line by line, until a deadline, and resumable.

    find_hits(stream, query, start)      hits from a byte on, and the byte at which to resume
    find_previous(stream, query, end)    the last hit before a byte

A match lies within one line. A plain text is searched for as bytes, wherever pieces are cut; an expression, and a
text in any case, in stretches of whole lines. A line longer than a stretch (`Pattern.stretch`: 4 to 256 KiB, the
larger the expression the shorter) is searched in several that overlap by OVERLAP bytes, so that only a match longer
than that can be shortened or missed there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from envelopes.storage.encoding import decode, whole_characters
from envelopes.storage.line_index import WIDE, last_end, next_end
from envelopes.text.deadline import NO_DEADLINE, Deadline
from envelopes.text.patterns import BadPattern, Pattern, compile_pattern

PIECE = 256 * 1024  # bytes of a plain search between two looks at the clock
STRETCH = 1024 * 1024  # bytes that a plain search goes back at once
STRETCH_BACK = 64 * 1024  # bytes that an expression goes back at once, which may hit each of them
LONGEST_QUERY = 1_000  # characters
LISTED = 50
OVERLAP = 1024  # bytes of a long line that are searched twice
LONGEST_CHARACTER = 4  # bytes
_LONE = re.compile("[\ud800-\udfff]")
_UNREADABLE = "\x1a"  # stands for a byte that is no character, so that `.` matches it and offsets stay


class BadQuery(ValueError):
    """The text or expression cannot be searched for; the message says why."""


class TextHit(msgspec.Struct, frozen=True):
    """Bytes [start, end) of the content."""

    start: int
    end: int


class SearchHits(msgspec.Struct, frozen=True, kw_only=True):
    """`count` hits in the bytes from `start` to `reached`, searched up to `end`; `hits` are the first of them."""

    hits: tuple[TextHit, ...]
    count: int
    start: int
    reached: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.reached >= self.end


class TextQuery(msgspec.Struct, frozen=True):
    """A text or an expression in one encoding. `pattern` is None for a plain text whose case counts."""

    text: str
    is_regex: bool
    ignores_case: bool
    encoding: str
    needle: bytes
    pattern: Pattern | None = None

    @classmethod
    def parse(
        cls, text: str, *, is_regex: bool = False, ignores_case: bool = False, encoding: str = "utf-8", group: int = 0
    ) -> TextQuery:
        """`group` is the group of the expression that a hit consists of. Raises BadQuery."""
        if not text or len(text) > LONGEST_QUERY:
            raise BadQuery("nothing to look for" if not text else f"longer than {LONGEST_QUERY:,} characters")
        try:
            needle = _encode(text, encoding)
        except UnicodeEncodeError:
            raise BadQuery("these characters do not exist in the encoding of the output") from None
        if not is_regex and "\n" in text:
            raise BadQuery("a line break: only text within one line is found")
        pattern = None
        if is_regex or ignores_case:
            try:
                pattern = compile_pattern(text, is_regex=is_regex, ignores_case=ignores_case, group=group)
            except BadPattern as error:
                raise BadQuery(str(error)) from None
        return cls(text, is_regex, ignores_case, encoding, needle, pattern)


def find_hits(
    stream: BinaryIO,
    query: TextQuery,
    start: int = 0,
    *,
    end: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    listed: int = LISTED,
    most: int = 0,
    piece: int = PIECE,
) -> SearchHits:
    """Searches from the byte `start` to `end` (None: all), until the deadline, or until `most` hits (0: all).

    It always comes a bit further, however near the deadline is, so that a search that is continued ends.
    """
    size = stream.seek(0, os.SEEK_END)
    end = size if end is None else min(end, size)
    search = _Search(stream, query, deadline, piece)
    hits: list[TextHit] = []
    begin = reached = min(start, end)
    count = 0
    for more, behind in search.hits(begin, end):
        count, reached = count + len(more), behind
        hits += more[: max(0, listed - len(hits))]
        if (most and count >= most) or deadline.is_over:
            break
    if most and count >= most:
        hits, count, reached = hits[:most], most, hits[most - 1].end
    return SearchHits(hits=tuple(hits), count=count, start=begin, reached=reached, end=end)


def find_previous(
    stream: BinaryIO, query: TextQuery, end: int, *, deadline: Deadline = NO_DEADLINE
) -> tuple[TextHit | None, int]:
    """The last hit that ends at `end` or before, and how far back the search came: 0 when it is done."""
    search = _Search(stream, query, NO_DEADLINE, PIECE)
    stretch = min(STRETCH_BACK, query.pattern.stretch) if query.pattern else STRETCH
    end = min(end, stream.seek(0, os.SEEK_END))
    while end > 0:
        begin = _line_start(stream, max(0, end - stretch), query.encoding, stretch)
        begin = begin if begin < end else max(0, end - stretch)
        last = None
        for hits, _ in search.hits(begin, end):
            last = hits[-1] if hits else last
        if last is not None or deadline.is_over:
            return last, begin
        end = begin
    return None, 0


class _Search:
    """One query in one content, read a piece at a time until a deadline."""

    def __init__(self, stream: BinaryIO, query: TextQuery, deadline: Deadline, piece: int) -> None:
        self._stream = stream
        self._query = query
        self._deadline = deadline
        self._piece = piece
        self._width = 2 if query.encoding in WIDE else 1

    def hits(self, start: int, end: int) -> Iterator[tuple[list[TextHit], int]]:
        """Hits in the bytes [start, end) piece by piece, and how far the content is searched with each."""
        pattern = self._query.pattern
        return self._plain_hits(start, end) if pattern is None else self._pattern_hits(pattern, start, end)

    def _plain_hits(self, start: int, end: int) -> Iterator[tuple[list[TextHit], int]]:
        needle, is_wide = self._query.needle, self._query.encoding in WIDE
        self._stream.seek(start)
        at, carried = start, b""
        while at < end and (piece := self._stream.read(min(self._piece, end - at))):
            data, base = carried + piece, at - len(carried)
            at += len(piece)
            hits = []
            offset = data.find(needle)
            while offset >= 0:
                if is_wide and (base + offset) % 2:  # half of two other characters
                    offset = data.find(needle, offset + 1)
                    continue
                hits.append(TextHit(base + offset, base + offset + len(needle)))
                offset = data.find(needle, offset + len(needle))
            # What may be the beginning of a match goes with the next piece, but nothing of a match twice.
            floor = hits[-1].end - base if hits else 0
            carried = data[max(floor, len(data) - len(needle) + 1) :] if len(needle) > 1 else b""
            yield hits, at if at >= end else at - len(carried)

    def _pattern_hits(self, pattern: Pattern, start: int, end: int) -> Iterator[tuple[list[TextHit], int]]:
        at = start
        while at < end:
            before = min(at, self._width)
            self._stream.seek(at - before)
            data = self._stream.read(before + min(pattern.stretch, end - at) + LONGEST_CHARACTER)
            around, data = data[:before], data[before:]
            if not data:
                return
            cut = self._cut(data, min(pattern.stretch, end - at), is_last=end - at <= pattern.stretch)
            goes_on = at + cut < end and data[cut - self._width : cut] != WIDE.get(self._query.encoding, b"\n")
            edges = self._edge(around), self._edge(data[cut : cut + self._width])
            hits, reached = self._match(pattern, data[:cut], edges, goes_on=goes_on)
            yield [TextHit(at + hit.start, at + hit.end) for hit in hits], at + reached
            at += reached

    def _cut(self, data: bytes, size: int, *, is_last: bool) -> int:
        """The number of bytes, at most `size`, to search at once: whole lines where one ends in them."""
        if is_last or size >= len(data):
            return min(size, len(data))
        line_end = last_end(data[:size], self._query.encoding)
        if line_end >= 0:
            return line_end + self._width
        return len(whole_characters(data[:size])) if self._query.encoding == "utf-8" else size - size % self._width

    def _edge(self, data: bytes) -> bytes:
        """One byte that stands for the character beside a stretch: ^, $ and \\b see a line end, a word or neither."""
        character = decode(data, self._query.encoding)[:1]
        return character.encode() if character.isascii() else _UNREADABLE.encode()

    def _match(
        self, pattern: Pattern, data: bytes, edges: tuple[bytes, bytes], *, goes_on: bool
    ) -> tuple[list[TextHit], int]:
        """Hits in one stretch, and up to which of its bytes they are complete. `goes_on`: its last line does."""
        text, measure = _as_utf8(data, self._query.encoding)
        before, after = edges
        start, end = len(before), len(before) + len(text)
        hits: list[TextHit] = []
        reached = start
        for first, last in pattern.spans(before + text + after, start, end):
            if goes_on and last == end and first > start:
                return hits, measure(first - start)  # it may go on behind the stretch
            if first < last:
                hits.append(TextHit(measure(first - start), measure(last - start)))
                reached = last
            if last > start and self._deadline.is_over:
                while last < end and text[last - start] & 0xC0 == 0x80:  # an empty match may lie within a character
                    last += 1
                return hits, measure(last - start)
        if not goes_on:
            return hits, len(data)
        overlapped = end - start - min(OVERLAP, len(text) // 2)
        while text[overlapped] & 0xC0 == 0x80:
            overlapped -= 1
        return hits, hits[-1].end if reached - start >= overlapped else measure(overlapped)


def _as_utf8(data: bytes, encoding: str) -> tuple[bytes, Callable[[int], int]]:
    """The text in UTF-8, and a function from its bytes to those of `data`, to be called in ascending order."""
    if encoding not in WIDE and data.isascii():
        return data, int
    text = _LONE.sub(_UNREADABLE, decode(data, encoding))
    utf8 = text.encode()
    if encoding == "utf-8":
        return utf8, int  # a byte that is no character became one byte
    state = [0, 0]  # bytes of UTF-8, bytes of `data`

    def measured(at: int) -> int:
        state[1] += len(_encode(utf8[state[0] : at].decode(), encoding))
        state[0] = at
        return state[1]

    return utf8, measured


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass" if encoding in WIDE else "surrogateescape")


def _line_start(stream: BinaryIO, offset: int, encoding: str, most: int) -> int:
    """The first line start behind `offset` where there is one in `most` bytes, else `offset`."""
    if offset == 0:
        return 0
    offset -= offset % 2 if encoding in WIDE else 0
    stream.seek(offset)
    line_end = next_end(stream.read(min(most, PIECE)), 0, encoding)
    return offset + line_end + (2 if encoding in WIDE else 1) if line_end >= 0 else offset
