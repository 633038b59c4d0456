"""Spans: which characters of a recorded receipt equal which characters of a recorded field.

A recorded receipt was written by somebody else's code, so it is aligned, not rendered. A family knows what its
agent prints (line numbers, a snippet, a wrapper) and finds it with the matchers below; text that no matcher
claims counts as the runtime's own words. A false link is worse than none, so each matcher accepts only text
that equals the recorded field character for character at an unambiguous position.

Offsets count characters (code points). `text` is one text part of the receipt. `match_excerpt` matches a
recorded string that was printed whole, as a preview, or without its middle: each printed part must be the head or
the tail of the string, so its position is unambiguous.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.schema.receipt import Document, Segment, SegmentSource
from envelopes.text.preview import Cut, common_beginning

SPLIT_CHARACTERS = 8 * 1024  # a text is split into lines in chunks of this size


class Span(msgspec.Struct, frozen=True, order=True, gc=False):
    """Characters [start, end) of the receipt equal [value_start, value_end) of the string at `pointer`.

    For a value that is not a string (a count, a flag) `value_start` and `value_end` are both 0.
    """

    start: int
    end: int
    pointer: str
    value_start: int = 0
    value_end: int = 0
    document: Document = "complete"


class ComposedPiece(msgspec.Struct, frozen=True):
    """A part of a composed text: the characters from `start` of the string at `pointer`.

    A piece whose `pointer` is None was written by the agent itself.
    """

    pointer: str | None
    text: str
    start: int = 0


class ComposedText:
    """A text that an agent put together from recorded fields, with the field that each character came from.

    A receipt often shows a part of such a text: stdout and stderr joined, or lines of a file after an edit. An
    aligner composes the text again, finds which part of it the receipt shows, and asks for the spans.
    """

    def __init__(self, pieces: Iterable[ComposedPiece]) -> None:
        self._pieces = [piece for piece in pieces if piece.text]
        self._starts: list[int] = []
        at = 0
        for piece in self._pieces:
            self._starts.append(at)
            at += len(piece.text)
        self.text = "".join(piece.text for piece in self._pieces)

    def spans(self, at: int, start: int, end: int) -> list[Span]:
        """The spans of a receipt that shows characters [start, end) of `text` at its position `at`."""
        spans: list[Span] = []
        first = max(0, bisect_right(self._starts, start) - 1)
        for index in range(first, len(self._pieces)):
            piece_start, piece = self._starts[index], self._pieces[index]
            if piece_start >= end:
                break
            piece_end = piece_start + len(piece.text)
            # Not min() and max(): a snippet of a large file asks for tens of thousands of spans.
            low, high = start if start > piece_start else piece_start, end if end < piece_end else piece_end
            if piece.pointer is not None and low < high:
                offset = piece.start - piece_start
                spans.append(Span(at + low - start, at + high - start, piece.pointer, low + offset, high + offset))
        return spans


def match_at(text: str, at: int, value: str, pointer: str) -> Span | None:
    """Links the whole of `value` at position `at`."""
    if value and text.startswith(value, at):
        return Span(at, at + len(value), pointer, 0, len(value))
    return None


def match_once(text: str, value: str, pointer: str, *, start: int = 0, end: int | None = None) -> Span | None:
    """Links `value` where it occurs exactly once within [start, end); a second occurrence is ambiguous."""
    if not value:
        return None
    at = text.find(value, start, end)
    if at < 0 or text.find(value, at + 1, end) >= 0:
        return None
    return Span(at, at + len(value), pointer, 0, len(value))


def match_prefix(text: str, at: int, value: str, pointer: str) -> Span | None:
    """Links the longest run from `at` that equals the beginning of `value`, as in a preview of its head."""
    length = common_beginning(text[at : at + len(value)], value)
    return Span(at, at + length, pointer, 0, length) if length else None


def match_numbered(
    text: str, at: int, value: str, pointer: str, *, first: int, separators: Sequence[str] = ("→", "\t")
) -> Iterator[Span]:
    """Links lines as `cat -n` prints them: padding, number, separator, then the line of `value`.

    Stops at the first line whose number or content differs. Numbers and padding are not linked.
    """
    offset, separator = 0, separators[0]
    for number, line in enumerate(iterate_lines(value), first):
        printed = f"{number:6}{separator}{line}"  # the usual layout; other layouts are matched piece by piece
        if _ends_line(text, at, printed):
            start = at + len(printed) - len(line)
        else:
            line_start = _skip_number(text, at, number, separators)
            if line_start is None or not _ends_line(text, line_start, line):
                break
            start, separator = line_start, text[line_start - 1]
        end = start + len(line)
        if line:
            yield Span(start, end, pointer, offset, offset + len(line))
        offset += len(line) + 1
        at = end + 1


def iterate_lines(text: str) -> Iterator[str]:
    """Yields what `text.split("\\n")` returns, splitting a chunk at a time: callers often need few lines only."""
    at = 0
    while (end := text.find("\n", at + SPLIT_CHARACTERS)) >= 0:
        yield from text[at:end].split("\n")
        at = end + 1
    yield from text[at:].split("\n")


def match_items(text: str, at: int, items: Iterable[str], pointer: str) -> Iterator[Span]:
    """Links one list item a line, in order, from `at`. Stops at the first line that differs."""
    for index, item in enumerate(items):
        if not item or not _ends_line(text, at, item):
            break
        length = len(item)
        yield Span(at, at + length, f"{pointer}/{index}", 0, length)
        at += length + 1


def to_segments(text: str, spans: Iterable[Span]) -> tuple[Segment, ...]:
    """Divides the whole of `text` into segments. Of overlapping spans the one that begins first is used."""
    segments: list[Segment] = []
    at = 0
    for span in sorted(spans):
        start, end = span.start, span.end
        if start < at or end <= start:
            continue
        if start > at:
            segments.append(Segment(text[at:start], "label"))
        source = SegmentSource(span.document, span.pointer, span.value_start, span.value_end)
        segments.append(Segment(text[start:end], "value", source))
        at = end
    if at < len(text):
        segments.append(Segment(text[at:], "label"))
    return tuple(segments)


def clip_spans(spans: Iterable[Span], end: int) -> list[Span]:
    """The spans as far as character `end` of the receipt."""
    return [
        msgspec.structs.replace(span, end=end, value_end=span.value_start + end - span.start)
        if span.start < end < span.end
        else span
        for span in spans
        if span.start < end
    ]


def spans_before(spans: Iterable[Span], until: int | None) -> tuple[list[Span], bool]:
    """The spans that begin before `until`, and whether one behind was seen.

    A list has any order and is read whole; an iterator has the order of the text and is read no further than needed.
    """
    if until is None:
        return list(spans), False
    if isinstance(spans, list):
        return [span for span in spans if span.start < until], False
    before: list[Span] = []
    for span in spans:
        if span.start >= until:
            return before, True
        before.append(span)
    return before, False


def find_cut(value: str, spans: Iterable[Span], *, start: int = 0) -> Cut:
    """Finds which lines of `value`, from character `start`, the spans show whole.

    White space that an agent trims at the edges does not count as cut: the model loses nothing by it.
    """
    ranges = _merge_ranges(sorted((span.value_start, span.value_end) for span in spans), value)
    if ranges and ranges[0][0] <= start and ranges[0][1] >= len(value):
        return whole_cut(value)
    total = value.count("\n") + (value[-1:] not in ("", "\n"))
    lines_before = _count_newlines(value, (low - 1 for low, _ in ranges))
    lines_until = _count_newlines(value, (high + 1 for _, high in ranges))
    shown: list[tuple[int, int]] = []
    for (low, high), before, until in zip(ranges, lines_before, lines_until, strict=True):
        first = before + (low > start)
        last = total if high >= len(value) else until
        if last > first:
            shown.append((first, last))
    return Cut("lines", total, tuple(shown))


def whole_cut(value: str) -> Cut:
    """The cut that shows every line of `value`."""
    total = value.count("\n") + (not value.endswith("\n"))
    return Cut("lines", total, ((0, total),))


def _skip_number(text: str, at: int, number: int, separators: Sequence[str]) -> int | None:
    """The position behind `number`, however it is padded, and a separator."""
    digits = f"{number:6}" if text.startswith(" ", at) else str(number)
    if not text.startswith(digits, at):
        digits = text[at : text.find(str(number), at, at + 24)] + str(number)
        if digits.strip(" ") != str(number) or not text.startswith(digits, at):
            return None
    at += len(digits)
    for separator in separators:
        if text.startswith(separator, at):
            return at + len(separator)
    return None


def _ends_line(text: str, at: int, line: str) -> bool:
    end = at + len(line)
    return text.startswith(line, at) and (end == len(text) or text[end] == "\n")


def _count_newlines(value: str, positions: Iterable[int]) -> Iterator[int]:
    """Yields the number of newlines before each of ascending positions."""
    at = count = 0
    for position in positions:
        count += value.count("\n", at, max(at, position))
        at = max(at, position)
        yield count


def _merge_ranges(ranges: Iterable[tuple[int, int]], value: str) -> list[tuple[int, int]]:
    """Joins ranges across white space, and extends them over it at both edges of `value`."""
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


# No \s* in front of the first marker: on a text of blanks the match would take quadratic time.
_CUT = re.compile(
    r"\.\.\. \[[\d,]+ (?:lines?|characters?) (?:truncated|omitted)\] \.\.\."
    r"|\A\s*\[Truncated\. Full output: [^\n]*\]"
    r"|\A\s*\[\d+ (?:lines?|characters?) truncated\]"
)


def match_excerpt(text: str, value: str, pointer: str, *, start: int = 0, end: int | None = None) -> list[Span]:
    """Links the parts of `value` that text[start:end) shows; white space trimmed at the edges is ignored."""
    region = text[start:end]
    spans = (
        _match_whole(region, value, pointer)
        or _match_persisted(region, value, pointer)
        or _match_head_and_tail(region, value, pointer)
    )
    return [Span(start + span.start, start + span.end, pointer, span.value_start, span.value_end) for span in spans]


def _match_whole(region: str, value: str, pointer: str) -> list[Span]:
    core = value.strip()
    if not core or region.strip() != core:
        return []
    at, offset = region.find(core), value.find(core)
    return [Span(at, at + len(core), pointer, offset, offset + len(core))]


def _match_persisted(region: str, value: str, pointer: str) -> list[Span]:
    """Links the preview of an output that was saved to a file: its beginning, or its beginning and its end."""
    preview = find_output_preview(region)
    if preview is None:
        return []
    at = preview.start
    if head := _match_head(region, at, preview.end, value, pointer):
        return head
    ends = _match_head_and_tail(region[at : preview.end], value, pointer)
    return [msgspec.structs.replace(span, start=at + span.start, end=at + span.end) for span in ends]


def _match_head_and_tail(region: str, value: str, pointer: str) -> list[Span]:
    for marker in _CUT.finditer(region):
        before, after = region[: marker.start()].rstrip(), region[marker.end() :]
        head = _match_head(region, 0, len(before), value, pointer)
        tail = _match_tail(region, marker.end() + len(after) - len(after.lstrip()), value, pointer)
        shown = [*head, *tail]
        missing = (before and not head) or (after.strip() and not tail)
        if shown and not missing and sum(span.end - span.start for span in shown) <= len(value):
            return shown
    return []


def _match_head(region: str, start: int, end: int, value: str, pointer: str) -> list[Span]:
    shown = region[start:end]
    trimmed = len(value) - len(value.lstrip())
    for offset in dict.fromkeys((0, trimmed)):
        if shown and value.startswith(shown, offset):
            return [Span(start, end, pointer, offset, offset + len(shown))]
    return []


def _match_tail(region: str, start: int, value: str, pointer: str) -> list[Span]:
    shown, whole = region[start:].rstrip(), value.rstrip()
    if not shown or not whole.endswith(shown):
        return []
    return [Span(start, start + len(shown), pointer, len(whole) - len(shown), len(whole))]
