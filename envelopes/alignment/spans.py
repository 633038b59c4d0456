"""Finds where the characters of a recorded receipt come from.

A recorded receipt was written by somebody else's code, so it is aligned, not rendered. A family
says what its agent prints (line numbers, a snippet, a wrapper) with the matchers below; what no
matcher claims stays the runtime's own words. A false link is worse than none, so each matcher
takes only what equals the recorded field character for character, at a place that is certain.

Offsets count characters (code points). `text` is one text part of the receipt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from envelopes.schema.receipt import Document, Segment, Source
from envelopes.text.preview import Cut

STRETCH = 8 * 1024  # characters


class Span(msgspec.Struct, frozen=True, order=True, gc=False):
    """Characters [start, end) of the receipt equal [value_start, value_end) of the string at `pointer`.

    For a value that is not a string (a count, a flag) `value_start` and `value_end` are 0 and 0.
    """

    start: int
    end: int
    pointer: str
    value_start: int = 0
    value_end: int = 0
    document: Document = "complete"


def match_at(text: str, at: int, value: str, pointer: str) -> Span | None:
    """`value` stands whole at `at`."""
    if value and text.startswith(value, at):
        return Span(at, at + len(value), pointer, 0, len(value))
    return None


def match_once(text: str, value: str, pointer: str, *, start: int = 0, end: int | None = None) -> Span | None:
    """`value` occurs exactly once within [start, end); twice is ambiguous and gives None."""
    if not value:
        return None
    found = text.find(value, start, end)
    if found < 0 or text.find(value, found + 1, end) >= 0:
        return None
    return Span(found, found + len(value), pointer, 0, len(value))


def match_prefix(text: str, at: int, value: str, pointer: str) -> Span | None:
    """The longest run from `at` that equals the beginning of `value`: a preview of its head."""
    length = _shared_prefix(text[at : at + len(value)], value)
    return Span(at, at + length, pointer, 0, length) if length else None


def match_numbered(
    text: str, at: int, value: str, pointer: str, *, first: int, separators: Sequence[str] = ("→", "\t")
) -> Iterator[Span]:
    """Lines as `cat -n` prints them: padding, number, separator, then the line of `value`.

    Stops at the first line whose number or content differs. Numbers and padding are the agent's words.
    """
    offset, mark = 0, separators[0]
    for number, line in enumerate(each_line(value), first):
        printed = f"{number:6}{mark}{line}"  # as most are; what differs is looked at piece by piece
        if _ends_line(text, at, printed):
            start = at + len(printed) - len(line)
        else:
            found = _after_number(text, at, number, separators)
            if found is None or not _ends_line(text, found, line):
                break
            start, mark = found, text[found - 1]
        end = start + len(line)
        if line:
            yield Span(start, end, pointer, offset, offset + len(line))
        offset += len(line) + 1
        at = end + 1


def each_line(text: str) -> Iterator[str]:
    """As `split` at newlines gives them, a stretch at a time: of a long text perhaps only the beginning is wanted."""
    at = 0
    while (end := text.find("\n", at + STRETCH)) >= 0:
        yield from text[at:end].split("\n")
        at = end + 1
    yield from text[at:].split("\n")


def match_items(text: str, at: int, items: Iterable[str], pointer: str) -> Iterator[Span]:
    """One list item a line, in order, from `at`. Stops at the first line that differs."""
    for index, item in enumerate(items):
        if not item or not _ends_line(text, at, item):
            break
        length = len(item)
        yield Span(at, at + length, f"{pointer}/{index}", 0, length)
        at += length + 1


def to_segments(text: str, spans: Iterable[Span]) -> tuple[Segment, ...]:
    """The whole of `text` as segments; overlapping spans lose to the one that begins first."""
    segments: list[Segment] = []
    at = 0
    for span in sorted(spans):
        start, end = span.start, span.end
        if start < at or end <= start:
            continue
        if start > at:
            segments.append(Segment(text[at:start], "label"))
        source = Source(span.document, span.pointer, span.value_start, span.value_end)
        segments.append(Segment(text[start:end], "value", source))
        at = end
    if at < len(text):
        segments.append(Segment(text[at:], "label"))
    return tuple(segments)


def cut_of(value: str, spans: Iterable[Span], *, start: int = 0) -> Cut:
    """Which lines of `value` from character `start` the spans show; a line is shown only when all of it is.

    White space that an agent trims at the edges is no loss to the model and does not count as cut.
    """
    merged = _merged(sorted((span.value_start, span.value_end) for span in spans), value)
    if merged and merged[0][0] <= start and merged[0][1] >= len(value):
        return whole_cut(value)
    total = value.count("\n") + (value[-1:] not in ("", "\n"))
    starts_before = _newlines_before(value, (low - 1 for low, _ in merged))
    ends_upto = _newlines_before(value, (high + 1 for _, high in merged))
    shown: list[tuple[int, int]] = []
    for (low, high), started, ended in zip(merged, starts_before, ends_upto, strict=True):
        first = started + (low > start)
        last = total if high >= len(value) else ended
        if last > first:
            shown.append((first, last))
    return Cut("lines", total, tuple(shown))


def whole_cut(value: str) -> Cut:
    """Every line of `value` is shown."""
    total = value.count("\n") + (not value.endswith("\n"))
    return Cut("lines", total, ((0, total),))


def _shared_prefix(left: str, right: str) -> int:
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[:middle] == right[:middle] else (low, middle - 1)
    return low


def _after_number(text: str, at: int, number: int, separators: Sequence[str]) -> int | None:
    digits = f"{number:6}" if text.startswith(" ", at) else str(number)
    if not text.startswith(digits, at):
        digits = text[at : text.find(str(number), at, at + 24)] + str(number)
        if digits.strip(" ") != str(number) or not text.startswith(digits, at):
            return None
    at += len(digits)
    for mark in separators:
        if text.startswith(mark, at):
            return at + len(mark)
    return None


def _ends_line(text: str, at: int, line: str) -> bool:
    end = at + len(line)
    return text.startswith(line, at) and (end == len(text) or text[end] == "\n")


def _newlines_before(value: str, places: Iterable[int]) -> Iterator[int]:
    """How many stand before each of ascending places."""
    at = count = 0
    for place in places:
        count += value.count("\n", at, max(at, place))
        at = max(at, place)
        yield count


def _merged(ranges: Iterable[tuple[int, int]], value: str) -> list[tuple[int, int]]:
    """Ranges joined across white space, and grown over it at both edges of `value`."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        before = merged[-1][1] if merged else 0
        if value[before:start].strip():
            merged.append((start, end))
        elif merged:
            merged[-1] = (merged[-1][0], max(end, before))
        else:
            merged.append((0, end))
    if merged and not value[merged[-1][1] :].strip():
        merged[-1] = (merged[-1][0], len(value))
    return merged
