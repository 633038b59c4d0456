"""Keeps a receipt within its policy; every shortening states what is shown of how much (RFC-100).

Previews are shortened first, the longest before the others; when that is not enough the end is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.text.preview import CutPreview, count_fitting_lines, find_cut, head_tail, split_lines
from envelopes.text.terminal import fold_terminal, kept_ranges

MARKER_ROOM = 120  # characters for the statement of a cut
INDENT = "   "
SMALLEST_PREVIEW = 200
KIND_TITLE = "Kind: "  # in the receipt of a failure, after its message
MOST_PIECES = 400  # of one output; more would cost a page more than its links are worth


def fit(body: Iterable[Segment], policy: RenderPolicy, *, tail: Iterable[Segment] = ()) -> list[Segment]:
    """`body` then `tail` within the policy.

    `tail` (paths, identifiers) stays whole unless it takes half, or the room of the first line.
    """
    segments, last = list(body), list(tail)
    behind = _length(last)
    if _length(segments) + behind <= policy.characters:
        return [*segments, *last]
    if behind > policy.characters // 2 or policy.characters - behind <= _first_line(segments) < policy.characters:
        segments, last, behind = [*segments, *last], [], 0
    return [*_shorten(segments, policy.characters - behind, policy), *last]


def cut_segment(segment: Segment, budget: int, policy: RenderPolicy) -> list[Segment]:
    """Head and tail of a text with the cut stated between them; at most `budget` characters besides that.

    Of a preview that the projection cut already, the new cut takes the place of the old one and counts the whole.
    """
    text, before = segment.text, find_cut(segment.text)
    if before is None:
        shorter = head_tail(text, budget, head_share=policy.head_share, unit=policy.cut_at)
        if shorter.cut is None:
            return [segment]
        head, tail = len(shorter.head), len(text) - len(shorter.tail)
        first, last = shorter.cut.ends
        of = f"{first} and last {last} of {shorter.cut.total} {shorter.cut.unit}"
    else:
        head, tail, of = _cut_again(text, before, budget, policy)
    gap = "" if text[:head].endswith("\n") or not head else "\n"
    cut = f"[receipt shortened here: first {of}]"
    parts = [
        slice_segment(segment, 0, head),
        _marker(f"{gap}...\n{cut}\n...\n"),
        slice_segment(segment, tail, len(text)),
    ]
    return [part for part in parts if part.text]


def indent_lines(segment: Segment, indent: str = INDENT) -> Iterator[Segment]:
    """The lines of a text, the further ones indented, so that none of them can pass for a line of the receipt."""
    if "\n" not in segment.text:  # nearly every field
        yield segment
        return
    start = 0
    for index, line in enumerate(segment.text.split("\n")):
        if index:
            yield Segment("\n", "break")
            yield Segment(indent, "label")
        yield slice_segment(segment, start, start + len(line))
        start += len(line) + 1


def count_indented(text: str) -> int:
    """The characters that `indent_lines` gives."""
    return len(text) + len(INDENT) * text.count("\n")


def bound_lines(segment: Segment, budget: int) -> list[Segment]:
    """The indented lines of a text; of a longer one its beginning and its end, at most `budget` characters together."""
    parts, room = cut_segment(segment, budget, RenderPolicy()), budget
    while (length := sum(count_indented(part.text) for part in parts if part.role != "marker")) > budget:
        room = room * budget // length
        parts = cut_segment(segment, room, RenderPolicy())
    return [piece for part in parts for piece in ([part] if part.role == "marker" else indent_lines(part))]


def _cut_again(text: str, before: CutPreview, budget: int, policy: RenderPolicy) -> tuple[int, int, str]:
    """The end of the head of a shorter preview, the start of its tail, and the words of the marker about both."""
    for_head = budget * policy.head_share // 100
    head_lines, tail_lines = split_lines(text[: before.head_end]), split_lines(text[before.tail_start :])
    first = count_fitting_lines(head_lines, for_head)
    last = count_fitting_lines(tail_lines[::-1], budget - for_head)
    if policy.cut_at == "lines" and before.unit == "lines" and first + last:
        head = sum(len(line) for line in head_lines[:first])
        tail = len(text) - sum(len(line) for line in tail_lines[len(tail_lines) - last :])
        return head, tail, f"{first} and last {last} of {before.total} lines"
    head = min(for_head, before.head_end)
    tail = max(len(text) - (budget - for_head), before.tail_start)
    ends = f"{head} and last {len(text) - tail}"
    whole = f"{ends} of {before.total} characters"
    return head, tail, whole if before.unit == "characters" else f"{ends} characters of {before.total} lines"


def _shorten(segments: list[Segment], room: int, policy: RenderPolicy) -> list[Segment]:
    previews = [segment for segment in segments if segment.role == "preview"]
    for longest in sorted(previews, key=lambda segment: -len(segment.text)):
        excess = _length(segments) - room
        if excess <= 0:
            break
        if (budget := len(longest.text) - excess - MARKER_ROOM) >= SMALLEST_PREVIEW:
            cut = cut_segment(longest, budget, policy)
            segments = [part for segment in segments for part in (cut if segment is longest else [segment])]
    return segments if _length(segments) <= room else _clip(segments, room)


def _clip(segments: Sequence[Segment], room: int) -> list[Segment]:
    """Cuts the end; of a failure the end of its message, so that kind, hint and repetition stay (RFC-025)."""
    pointers = [segment.source.pointer if segment.source else "" for segment in segments]
    labels = [segment.text if segment.role == "label" else "" for segment in segments]
    total = _length(segments)
    if KIND_TITLE in labels and "/error/retryable" in pointers:
        first, last = labels.index(KIND_TITLE) - 1, pointers.index("/error/retryable") + 1
        head, facts = segments[:first], segments[first:last]
        for_head = room - _length(facts)
        first_line = _first_line(head)
        least = first_line + 1 if first_line < room else MARKER_ROOM // 2
        if least <= for_head <= _length(head) + MARKER_ROOM:
            return [*_clip_end(head, for_head, total), *facts]
    return _clip_end(segments, room, total)


def _clip_end(segments: Sequence[Segment], room: int, total: int) -> list[Segment]:
    """The first line stays while there is room for it: the marker is an ellipsis where a longer one would end it."""
    text, first_line = "".join(segment.text for segment in segments), _first_line(segments)
    least = first_line if first_line < room else room // 2
    limit = room - MARKER_ROOM
    if limit < least:
        limit = room - len(_cut_words(room, total))
    if limit < least:
        return [*_first(segments, max(0, room - 1)), _marker("…"[:room])] if room > 0 else []
    line_end = text.rfind("\n", 0, limit)
    limit = line_end if line_end > limit // 2 else limit
    return [*_first(segments, limit), _marker(_cut_words(limit, total))]


def _first_line(segments: Iterable[Segment]) -> int:
    """The characters of the first line."""
    return len("".join(segment.text for segment in segments).partition("\n")[0])


def _cut_words(limit: int, total: int) -> str:
    return f"\n[receipt cut: first {limit} of {total} characters]"


def _first(segments: Sequence[Segment], characters: int) -> list[Segment]:
    first: list[Segment] = []
    for segment in segments:
        if characters <= 0:
            break
        first.append(segment if len(segment.text) <= characters else slice_segment(segment, 0, characters))
        characters -= len(segment.text)
    return first


def slice_segment(segment: Segment, start: int, end: int) -> Segment:
    """Characters [start, end) of the segment, with their own place in its field."""
    source = segment.source
    if source is not None and source.start is not None:
        source = SegmentSource(source.document, source.pointer, source.start + start, source.start + end)
    return msgspec.structs.replace(segment, text=segment.text[start:end], source=source)


def place_folded(segments: list[Segment], read_field: Callable[[str], str]) -> list[Segment]:
    """The pieces of a preview that was folded, with their places in the field, which has the terminal codes.

    `segments` are one preview, in which a marker may stand; `read_field` gives the text at a pointer. They are returned
    as they are where they have places or are not folded, where they show a part of the field whose text occurs in it
    more than once, and where there are too many pieces.
    """
    shown = [segment for segment in segments if segment.role == "preview" and segment.text]
    source = shown[0].source if shown else None
    if source is None or source.start is not None:
        return segments
    text, whole = read_field(source.pointer), "".join(segment.text for segment in shown)
    folded = fold_terminal(text).text
    if folded == text or folded.count(whole) != 1:
        return segments
    ranges, placed, first = kept_ranges(text), list[Segment](), folded.index(whole)
    for segment in segments:
        if segment.role != "preview":
            placed.append(segment)
            continue
        placed += _cut_ranges(segment, source, text, ranges, first)
        first += len(segment.text)
    return placed if len(placed) <= MOST_PIECES else segments


def _cut_ranges(
    segment: Segment, source: SegmentSource, text: str, ranges: Iterable[tuple[int, int]], first: int
) -> Iterator[Segment]:
    """The pieces of the segment, which begins at the character `first` of what the ranges keep of the text."""
    last, passed = first + len(segment.text), 0
    for start, end in ranges:
        begin, stop = start + max(first - passed, 0), start + min(last - passed, end - start)
        if begin < stop:
            place = msgspec.structs.replace(source, start=begin, end=stop)
            yield msgspec.structs.replace(segment, text=text[begin:stop], source=place)
        passed += end - start


def _length(segments: Iterable[Segment]) -> int:
    return sum([len(segment.text) for segment in segments])


def _marker(text: str) -> Segment:
    return Segment(text, "marker")
