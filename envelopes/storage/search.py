"""Finds text in content of any size: streamed, line by line, within a time limit, and resumable.

    find_hits(stream, query, start)      hits from a byte on, and the byte at which to resume
    find_previous(stream, query, end)    the last hit before a byte
    find_first(stream, needles, start)   the first of several plain texts

A match lies within one line. A plain text is searched for as bytes, wherever pieces are cut; a regular
expression is applied to lines, to those longer than 1 MiB in stretches of that size. Expressions are those
of the `regex` library, because it stops a match that runs out of time and the standard library does not.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from envelopes.storage.encoding import decode
from envelopes.storage.line_index import WIDE, last_end, next_end

PIECE = 256 * 1024  # bytes searched between two looks at the clock
STRETCH = 1024 * 1024
LONGEST_QUERY = 1_000  # characters
LISTED = 50
MOST_REPEATS = 50_000  # all counts of an expression multiplied: (a{1000}){1000} takes a second to compile
LEAST_SECONDS = 0.05  # for one match, however near the deadline is


class BadQuery(ValueError):
    """The text or expression cannot be searched for; the message says why."""


class SearchTooSlow(Exception):
    """An expression needs more time for one stretch than a whole search may take."""


class TextHit(msgspec.Struct, frozen=True):
    """Bytes [start, end) of the content."""

    start: int
    end: int


class SearchHits(msgspec.Struct, frozen=True, kw_only=True):
    """`count` hits in the bytes from `start` to `reached` of `size`; `hits` are the first of them."""

    hits: tuple[TextHit, ...]
    count: int
    start: int
    reached: int
    size: int
    is_too_slow: bool = False

    @property
    def is_whole(self) -> bool:
        return self.reached >= self.size


class TextQuery(msgspec.Struct, frozen=True):
    """A text or an expression in one encoding. `pattern` is None for a plain text whose case counts."""

    text: str
    is_regex: bool
    ignores_case: bool
    encoding: str
    needle: bytes
    pattern: Any = None

    @classmethod
    def parse(
        cls, text: str, *, is_regex: bool = False, ignores_case: bool = False, encoding: str = "utf-8"
    ) -> TextQuery:
        """Raises BadQuery."""
        if not text or len(text) > LONGEST_QUERY:
            raise BadQuery("nothing to look for" if not text else f"longer than {LONGEST_QUERY:,} characters")
        try:
            needle = _encode(text, encoding)
        except UnicodeEncodeError:
            raise BadQuery("these characters do not exist in the encoding of the output") from None
        if not is_regex and "\n" in text:
            raise BadQuery("a line break: only text within one line is found")
        pattern = _compile(text, is_regex=is_regex, ignores_case=ignores_case) if is_regex or ignores_case else None
        return cls(text, is_regex, ignores_case, encoding, needle, pattern)


def find_hits(
    stream: BinaryIO,
    query: TextQuery,
    start: int = 0,
    *,
    seconds: float = 1.0,
    listed: int = LISTED,
    most: int = 0,
    piece: int = PIECE,
) -> SearchHits:
    """Searches from the byte `start` until the end, the time limit, or `most` hits (0: all)."""
    size = stream.seek(0, os.SEEK_END)
    search = _Search(stream, query, time.monotonic() + seconds, piece)
    hits: list[TextHit] = []
    begin = reached = min(start, size)
    count, is_too_slow = 0, False
    try:
        for more, behind in search.hits(begin, size):
            count, reached = count + len(more), behind
            hits += more[: max(0, listed - len(hits))]
            if (most and count >= most) or search.is_over:
                break
    except SearchTooSlow:
        is_too_slow = True
    if most and count >= most:
        hits, count, reached = hits[:most], most, hits[most - 1].end
    return SearchHits(hits=tuple(hits), count=count, start=begin, reached=reached, size=size, is_too_slow=is_too_slow)


def find_previous(stream: BinaryIO, query: TextQuery, end: int, *, seconds: float = 1.0) -> tuple[TextHit | None, int]:
    """The last hit that ends at `end` or before, and how far back the search came: 0 when it is done."""
    search = _Search(stream, query, time.monotonic() + seconds, PIECE)
    while end > 0:
        begin = _line_start(stream, max(0, end - STRETCH), query.encoding)
        begin = begin if begin < end else max(0, end - STRETCH)
        last = None
        try:
            for hits, _ in search.hits(begin, end):
                last = hits[-1] if hits else last
        except SearchTooSlow:
            return None, end
        if last is not None or search.is_over:
            return last, begin
        end = begin
    return None, 0


def find_first(
    stream: BinaryIO, needles: Sequence[bytes], start: int, *, seconds: float = 1.0, piece: int = PIECE
) -> tuple[TextHit | None, int]:
    """The first of any of these texts, and how far the content was read: ten times faster than an expression."""
    deadline, longest = time.monotonic() + seconds, max(map(len, needles))
    stream.seek(start)
    at, carried = start, b""
    while content := stream.read(piece):
        data = carried + content
        matches = [(offset, needle) for needle in needles if (offset := data.find(needle)) >= 0]
        if matches:
            offset, needle = min(matches)
            begin = at - len(carried) + offset
            return TextHit(begin, begin + len(needle)), begin
        at += len(content)
        carried = data[-longest + 1 :]
        if time.monotonic() > deadline:
            break
    return None, at


class _Search:
    """One query in one content, read `piece` bytes at a time until a deadline."""

    def __init__(self, stream: BinaryIO, query: TextQuery, deadline: float, piece: int) -> None:
        self._stream = stream
        self._query = query
        self._deadline = deadline
        self._piece = piece

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def hits(self, start: int, end: int) -> Iterator[tuple[list[TextHit], int]]:
        """Hits in the bytes [start, end) piece by piece, and how far the content is searched with each."""
        return self._plain_hits(start, end) if self._query.pattern is None else self._pattern_hits(start, end)

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

    def _pattern_hits(self, start: int, end: int) -> Iterator[tuple[list[TextHit], int]]:
        encoding = self._query.encoding
        self._stream.seek(start)
        at, carried, read = start, b"", start
        while at < end:
            piece = self._stream.read(min(self._piece, end - read))
            read += len(piece)
            data = carried + piece
            is_last = not piece or read >= end
            cut = len(data)
            if not is_last and cut < STRETCH:
                line_end = last_end(data, encoding)
                cut = line_end + (2 if encoding in WIDE else 1) if line_end >= 0 else 0
            if cut:
                yield self._hits_in(data[:cut], at), at + cut
                at += cut
            carried = data[cut:]
            if not piece:
                return

    def _hits_in(self, data: bytes, base: int) -> list[TextHit]:
        """Hits of the pattern in whole lines that begin at the byte `base`."""
        encoding, pattern = self._query.encoding, self._query.pattern
        text = decode(data, encoding)
        measure = _measure(text, encoding, plain=len(text) == len(data))
        hits, at = [], 0
        while at <= len(text):
            seconds = max(LEAST_SECONDS, self._deadline - time.monotonic())
            try:
                match = pattern.search(text, at, timeout=seconds, concurrent=True)
                if match is None:
                    break
                line_end = text.find("\n", match.start())
                line_end = len(text) if line_end < 0 else line_end
                if match.end() > line_end:
                    match = pattern.search(text, match.start(), line_end, timeout=seconds, concurrent=True)
            except TimeoutError:
                raise SearchTooSlow from None
            if match is None or match.end() == match.start():
                at = (match.start() if match else line_end) + 1
                continue
            start = measure(match.start())
            hits.append(TextHit(base + start, base + start + len(_encode(match[0], encoding))))
            at = match.end()
        return hits


def _measure(text: str, encoding: str, *, plain: bool) -> Callable[[int], int]:
    """A function from characters of `text` to bytes, to be called in ascending order."""
    if plain and encoding not in WIDE:
        return lambda at: at
    state = [0, 0]  # characters, bytes

    def measured(at: int) -> int:
        state[1] += len(_encode(text[state[0] : at], encoding))
        state[0] = at
        return state[1]

    return measured


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass" if encoding in WIDE else "surrogateescape")


def _compile(text: str, *, is_regex: bool, ignores_case: bool) -> Any:
    import regex

    if is_regex and math.prod(int(count) for count in re.findall(r"\{(?:\d*,)?(\d{2,20})", text)) > MOST_REPEATS:
        raise BadQuery("it repeats too often")
    flags = regex.MULTILINE | regex.VERSION0 | (regex.IGNORECASE if ignores_case else 0)
    try:
        return regex.compile(text if is_regex else re.escape(text), flags)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise BadQuery(str(error) or type(error).__name__) from None


def _line_start(stream: BinaryIO, offset: int, encoding: str) -> int:
    """The first line start at or behind `offset` where one is near, else `offset`."""
    if offset == 0:
        return 0
    offset -= offset % 2 if encoding in WIDE else 0
    stream.seek(offset)
    line_end = next_end(stream.read(PIECE), 0, encoding)
    return offset + line_end + (2 if encoding in WIDE else 1) if line_end >= 0 else offset
