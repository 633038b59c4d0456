"""Finding text in content of any size: streamed, by line, with a limit on the time, to be continued.

    find(stream, query, start)         hits from a byte on
    find_before(stream, query, end)    the last hit before a byte

A match lies within one line. A plain text is looked for as bytes and found wherever it stands; a
regular expression reads lines, those longer than 1 MiB in stretches of that size. Expressions are
those of the `regex` library, for it stops a search that runs out of time, and the standard one does not.
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
from envelopes.storage.line_index import WIDE, next_end

PIECE = 256 * 1024  # bytes looked at between two looks at the clock
STRETCH = 1024 * 1024
LONGEST_QUERY = 1_000  # characters
LISTED = 50
MOST_REPEATS = 50_000  # all counts of an expression multiplied: (a{1000}){1000} takes a second to compile


class BadQuery(ValueError):
    """The text or expression cannot be searched for; the message says why."""


class TooSlow(Exception):
    """An expression that needs more time for one stretch than a whole search may take."""


class Hit(msgspec.Struct, frozen=True):
    """Bytes [start, end) of the content."""

    start: int
    end: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`count` hits in the bytes from `start` to `reached`, the first of them listed."""

    hits: tuple[Hit, ...]
    count: int
    start: int
    reached: int
    size: int
    is_too_slow: bool = False

    @property
    def is_whole(self) -> bool:
        return self.reached >= self.size


class Query(msgspec.Struct, frozen=True):
    """What is looked for, in one encoding. `needle` is for a plain text whose case counts."""

    text: str
    is_regex: bool
    ignores_case: bool
    encoding: str
    needle: bytes
    pattern: Any = None

    @classmethod
    def of(cls, text: str, *, is_regex: bool = False, ignores_case: bool = False, encoding: str = "utf-8") -> Query:
        """Raises BadQuery."""
        if not text or len(text) > LONGEST_QUERY:
            raise BadQuery("nothing to look for" if not text else f"longer than {LONGEST_QUERY:,} characters")
        try:
            needle = text.encode(encoding, "surrogateescape" if encoding not in WIDE else "surrogatepass")
        except UnicodeEncodeError:
            raise BadQuery("these characters do not exist in the encoding of the output") from None
        if not is_regex and "\n" in text:
            raise BadQuery("a line break: only text within one line is found")
        pattern = _compiled(text, is_regex=is_regex, ignores_case=ignores_case) if is_regex or ignores_case else None
        return cls(text, is_regex, ignores_case, encoding, needle, pattern)


def find(
    stream: BinaryIO, query: Query, start: int = 0, *, seconds: float = 1.0, listed: int = LISTED, most: int = 0
) -> Found:
    """Looks until the end, the time, or `most` hits. What is `reached` is where to go on."""
    size = stream.seek(0, os.SEEK_END)
    deadline = time.monotonic() + seconds
    hits: list[Hit] = []
    begin = reached = min(start, size)
    count, slow = 0, False
    try:
        for found, behind in _searched(stream, query, begin, size, deadline):
            count, reached = count + len(found), behind
            hits += found[: max(0, listed - len(hits))]
            if (most and count >= most) or time.monotonic() > deadline:
                break
    except TooSlow:
        slow = True
    if most and count >= most:
        hits, count, reached = hits[:most], most, hits[most - 1].end
    return Found(hits=tuple(hits), count=count, start=begin, reached=reached, size=size, is_too_slow=slow)


def first_of(stream: BinaryIO, needles: Sequence[bytes], start: int, *, seconds: float = 1.0) -> tuple[Hit | None, int]:
    """The first place of any of some texts, and how far the content was read: ten times faster than an expression."""
    deadline, longest = time.monotonic() + seconds, max(map(len, needles))
    stream.seek(start)
    at, kept = start, b""
    while piece := stream.read(PIECE):
        data = kept + piece
        found = [(place, needle) for needle in needles if (place := data.find(needle)) >= 0]
        if found:
            place, needle = min(found)
            begin = at - len(kept) + place
            return Hit(begin, begin + len(needle)), begin
        at += len(piece)
        kept = data[-longest + 1 :]
        if time.monotonic() > deadline:
            break
    return None, at


def find_before(stream: BinaryIO, query: Query, end: int, *, seconds: float = 1.0) -> tuple[Hit | None, int]:
    """The last hit that ends at `end` or before, and how far back the search came: 0 when it is done."""
    deadline = time.monotonic() + seconds
    while end > 0:
        begin = _line_start(stream, max(0, end - STRETCH), query.encoding)
        begin = begin if begin < end else max(0, end - STRETCH)
        last = None
        try:
            for found, _ in _searched(stream, query, begin, end, deadline):
                last = found[-1] if found else last
        except TooSlow:
            return None, end
        if last is not None or time.monotonic() > deadline:
            return last, begin
        end = begin
    return None, 0


def _searched(stream: BinaryIO, query: Query, start: int, end: int, deadline: float) -> Iterator[tuple[list[Hit], int]]:
    """Hits, and how far the content is searched."""
    search = _search_plain if query.pattern is None else _search_lines
    return search(stream, query, start, end, deadline)


def _search_plain(
    stream: BinaryIO, query: Query, start: int, end: int, _deadline: float
) -> Iterator[tuple[list[Hit], int]]:
    needle, width = query.needle, 2 if query.encoding in WIDE else 1
    kept = b""
    stream.seek(start)
    at = start
    while at < end and (piece := stream.read(min(PIECE, end - at))):
        data, base = kept + piece, at - len(kept)
        at += len(piece)
        hits = []
        found = data.find(needle)
        while found >= 0:
            if width == 1 or (base + found) % 2 == 0:
                hits.append(Hit(base + found, base + found + len(needle)))
                found = data.find(needle, found + len(needle))
            else:
                found = data.find(needle, found + 1)
        # What may be the beginning of a match goes with the next piece, but nothing of a match twice.
        floor = hits[-1].end - base if hits else 0
        kept = data[max(floor, len(data) - len(needle) + 1) :] if len(needle) > 1 else b""
        yield hits, at if at >= end else at - len(kept)


def _search_lines(
    stream: BinaryIO, query: Query, start: int, end: int, deadline: float
) -> Iterator[tuple[list[Hit], int]]:
    stream.seek(start)
    at, kept = start, b""
    read = start
    while at < end:
        piece = stream.read(min(PIECE, end - read))
        read += len(piece)
        data = kept + piece
        is_last = not piece or read >= end
        cut = len(data) if is_last or len(data) >= STRETCH else _last_line_end(data, query.encoding)
        if cut:
            yield _hits_of(data[:cut], at, query, deadline), at + cut
            at += cut
        kept = data[cut:]
        if not piece:
            return


def _hits_of(data: bytes, base: int, query: Query, deadline: float) -> list[Hit]:
    text = decode(data, query.encoding)
    measure = _measure(text, query.encoding, plain=len(text) == len(data))
    hits, at = [], 0
    while at <= len(text):
        try:
            left = max(0.05, deadline - time.monotonic())
            found = query.pattern.search(text, at, timeout=left, concurrent=True)
        except TimeoutError:
            raise TooSlow from None
        if found is None:
            break
        line_end = text.find("\n", found.start())
        line_end = len(text) if line_end < 0 else line_end
        if found.end() > line_end:
            found = query.pattern.search(text, found.start(), line_end, timeout=left, concurrent=True)
        if found is None or found.end() == found.start():
            at = (found.start() if found else line_end) + 1
            continue
        start = measure(found.start())
        hits.append(Hit(base + start, base + start + len(_bytes(found[0], query.encoding))))
        at = found.end()
    return hits


def _measure(text: str, encoding: str, *, plain: bool) -> Callable[[int], int]:
    """Characters to bytes, asked in ascending order."""
    if plain and encoding not in WIDE:
        return lambda at: at
    state = [0, 0]  # characters, bytes

    def measured(at: int) -> int:
        state[1] += len(_bytes(text[state[0] : at], encoding))
        state[0] = at
        return state[1]

    return measured


def _bytes(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass" if encoding in WIDE else "surrogateescape")


def _compiled(text: str, *, is_regex: bool, ignores_case: bool) -> Any:
    import regex

    if is_regex and math.prod(int(count) for count in re.findall(r"\{(?:\d*,)?(\d{2,20})", text)) > MOST_REPEATS:
        raise BadQuery("it repeats too often")
    flags = regex.MULTILINE | regex.VERSION0 | (regex.IGNORECASE if ignores_case else 0)
    try:
        return regex.compile(text if is_regex else re.escape(text), flags)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise BadQuery(str(error) or type(error).__name__) from None


def _last_line_end(data: bytes, encoding: str) -> int:
    """The byte behind the last line end, 0 for none."""
    if encoding not in WIDE:
        return data.rfind(b"\n") + 1
    at, found = 0, 0
    while (at := next_end(data, at, encoding)) >= 0:
        at = found = at + 2
    return found


def _line_start(stream: BinaryIO, offset: int, encoding: str) -> int:
    """The first line start at or behind `offset`, where one is near; `offset` else."""
    if offset == 0:
        return 0
    offset -= offset % 2 if encoding in WIDE else 0
    stream.seek(offset)
    found = next_end(stream.read(PIECE), 0, encoding)
    return offset + found + (2 if encoding in WIDE else 1) if found >= 0 else offset
