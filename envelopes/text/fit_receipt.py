"""Keeps a receipt within its policy; every shortening states what was shown of how much (RFC-100).

Previews are shortened first, the longest before the others; when that is not enough the end is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.text.preview import head_tail

MARKER_ROOM = 120
SMALLEST_PREVIEW = 200


def fit(body: Iterable[Segment], policy: RenderPolicy, *, tail: Iterable[Segment] = ()) -> list[Segment]:
    """`body` then `tail` within the policy. `tail` (paths, identifiers) stays whole unless it takes half."""
    segments, last = list(body), list(tail)
    behind = _length(last)
    if _length(segments) + behind <= policy.characters:
        return [*segments, *last]
    if behind > policy.characters // 2:
        segments, last, behind = [*segments, *last], [], 0
    return [*_shorten(segments, policy.characters - behind, policy), *last]


def cut_segment(preview: Segment, budget: int, policy: RenderPolicy) -> list[Segment]:
    """Head and tail of a text with the cut stated between them; at most `budget` characters besides that."""
    cut_text = head_tail(preview.text, budget, head_share=policy.head_share, unit=policy.cut_at)
    if cut_text.cut is None:
        return [preview]
    gap = "" if cut_text.head.endswith("\n") or not cut_text.head else "\n"
    first, last = cut_text.cut.ends
    marker = f"[receipt shortened here: first {first} and last {last} of {cut_text.cut.total} {cut_text.cut.unit}]"
    tail_at = len(preview.text) - len(cut_text.tail)
    parts = [
        _slice(preview, 0, len(cut_text.head)),
        Segment(f"{gap}...\n{marker}\n...\n", "marker"),
        _slice(preview, tail_at, len(preview.text)),
    ]
    return [part for part in parts if part.text]


def count_fitting(sizes: Iterable[int], *, rows: int, characters: int) -> int:
    """How many of the first items fit into both limits."""
    count = used = 0
    for size in sizes:
        used += size
        if count == rows or used > characters:
            break
        count += 1
    return count


def _shorten(segments: list[Segment], room: int, policy: RenderPolicy) -> list[Segment]:
    previews = [segment for segment in segments if segment.role == "preview"]
    for preview in sorted(previews, key=lambda segment: -len(segment.text)):
        excess = _length(segments) - room
        if excess <= 0:
            break
        if (budget := len(preview.text) - excess - MARKER_ROOM) >= SMALLEST_PREVIEW:
            cut = cut_segment(preview, budget, policy)
            segments = [part for segment in segments for part in (cut if segment is preview else [segment])]
    return segments if _length(segments) <= room else _clip(segments, room)


def _clip(segments: Sequence[Segment], room: int) -> list[Segment]:
    text = "".join(segment.text for segment in segments)
    if room <= MARKER_ROOM:
        return [*_first(segments, max(0, room - 1)), Segment("…"[:room], "marker")] if room > 0 else []
    limit = room - MARKER_ROOM
    line_end = text.rfind("\n", 0, limit)
    limit = line_end if line_end > limit // 2 else limit
    marker = f"\n[receipt cut: first {limit} of {len(text)} characters]"
    return [*_first(segments, limit), Segment(marker, "marker")]


def _first(segments: Sequence[Segment], characters: int) -> list[Segment]:
    first: list[Segment] = []
    for segment in segments:
        if characters <= 0:
            break
        first.append(segment if len(segment.text) <= characters else _slice(segment, 0, characters))
        characters -= len(segment.text)
    return first


def _slice(segment: Segment, start: int, end: int) -> Segment:
    source = segment.source
    if source is not None and source.start is not None:
        source = SegmentSource(source.document, source.pointer, source.start + start, source.start + end)
    return msgspec.structs.replace(segment, text=segment.text[start:end], source=source)


def _length(segments: Iterable[Segment]) -> int:
    return sum([len(segment.text) for segment in segments])
