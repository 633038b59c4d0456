"""Keeps a receipt within its policy. Every shortening states what was shown of how much (RFC-100).

Previews give way first, the longest before the others; when that is not enough the end is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, Source
from envelopes.text.preview import Cut, head_tail

MARKER_ROOM = 120
SMALLEST_PREVIEW = 200


def fit(body: Iterable[Segment], policy: RenderPolicy, *, tail: Iterable[Segment] = ()) -> list[Segment]:
    """`body` then `tail` within the policy. `tail` (paths, identifiers) stays whole unless it takes half."""
    kept, last = list(body), list(tail)
    behind = _length(last)
    if _length(kept) + behind <= policy.characters:
        return [*kept, *last]
    if behind > policy.characters // 2:
        kept, last, behind = [*kept, *last], [], 0
    return [*_shortened(kept, policy.characters - behind, policy), *last]


def cut_segment(preview: Segment, budget: int, policy: RenderPolicy) -> list[Segment]:
    """Head and tail of a text with the cut stated between them; at most `budget` characters besides that."""
    shown = head_tail(preview.text, budget, head_share=policy.head_share, unit=policy.cut_at)
    if shown.cut is None:
        return [preview]
    gap = "" if shown.head.endswith("\n") or not shown.head else "\n"
    tail_at = len(preview.text) - len(shown.tail)
    parts = [
        _slice(preview, 0, len(shown.head)),
        Segment(f"{gap}...\n{_sentence(shown.cut)}\n...\n", "marker"),
        _slice(preview, tail_at, len(preview.text)),
    ]
    return [part for part in parts if part.text]


def fitting(sizes: Iterable[int], *, rows: int, characters: int) -> int:
    """How many of the first items fit into both limits."""
    count = used = 0
    for size in sizes:
        used += size
        if count == rows or used > characters:
            break
        count += 1
    return count


def _shortened(segments: list[Segment], room: int, policy: RenderPolicy) -> list[Segment]:
    longest_first = sorted((one for one in segments if one.role == "preview"), key=lambda one: -len(one.text))
    for preview in longest_first:
        excess = _length(segments) - room
        if excess <= 0:
            break
        if (budget := len(preview.text) - excess - MARKER_ROOM) >= SMALLEST_PREVIEW:
            cut = cut_segment(preview, budget, policy)
            segments = [part for one in segments for part in (cut if one is preview else [one])]
    return segments if _length(segments) <= room else _clipped(segments, room)


def _sentence(cut: Cut) -> str:
    head = cut.shown[0][1] if cut.shown else 0
    return f"[receipt shortened here: first {head} and last {cut.shown_count - head} of {cut.total} {cut.unit}]"


def _clipped(segments: Sequence[Segment], room: int) -> list[Segment]:
    text = "".join(segment.text for segment in segments)
    if room <= MARKER_ROOM:
        return [*_first(segments, max(0, room - 1)), Segment("…"[:room], "marker")] if room > 0 else []
    limit = room - MARKER_ROOM
    line_end = text.rfind("\n", 0, limit)
    limit = line_end if line_end > limit // 2 else limit
    marker = f"\n[receipt cut: first {limit} of {len(text)} characters]"
    return [*_first(segments, limit), Segment(marker, "marker")]


def _first(segments: Sequence[Segment], characters: int) -> list[Segment]:
    found: list[Segment] = []
    for segment in segments:
        if characters <= 0:
            break
        found.append(segment if len(segment.text) <= characters else _slice(segment, 0, characters))
        characters -= len(segment.text)
    return found


def _slice(segment: Segment, start: int, end: int) -> Segment:
    source = segment.source
    if source is not None and source.start is not None:
        source = Source(source.document, source.pointer, source.start + start, source.start + end)
    return msgspec.structs.replace(segment, text=segment.text[start:end], source=source)


def _length(segments: Iterable[Segment]) -> int:
    return sum([len(segment.text) for segment in segments])
