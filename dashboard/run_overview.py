"""All calls of a run in one drawing: time above the line, receipt tokens below, both on a log scale.

One path a state, so that 2,000 calls are a few kilobytes and not 2,000 elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from dashboard.models import Call, Run
from dashboard.time_axis import MILLISECOND, Axis, Span, axis_of
from dashboard.waterfall import OUTCOMES, PAGE, STATES, Ordered, cursor_of, letter_of

LIMIT = 5_000  # calls drawn; a longer run says how many are not
FAILED_SHOWN = 24
HALF = 20  # height of each half, in the drawing's own units
LONGEST_MS = 600_000  # a full bar; what took longer is no higher
MOST_TOKENS = 25_000


class PointColumns(NamedTuple):
    ordinal: int
    pk: UUID
    tool: str
    status: str
    source_error: bool | None
    exit_status: int | None
    is_cut: bool
    is_waiting: bool
    started_at: datetime | None
    duration_ms: int | None
    tokens: int


class Point(PointColumns):
    Status = Call.Status
    has_failed: bool = Call.has_failed  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Band:
    """The paths of all calls in one state, as one path of the drawing."""

    outcome: str
    state: str
    count: int
    path: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A page of rows, as a place in the drawing that one can go to."""

    cursor: str
    first: int
    last: int
    width: int


@dataclass(frozen=True, slots=True)
class FailedCall:
    """`before` is the cursor in front of it, for when its row is on another page."""

    pk: UUID
    number: int
    tool: str
    before: str


@dataclass(frozen=True)
class Overview:
    width: int
    bands: tuple[Band, ...]
    segments: tuple[Segment, ...]
    failed: tuple[FailedCall, ...]
    failed_left: int
    left: int
    axis: Axis


def overview_of(run: Run, calls: Ordered, *, squeezed: bool = False) -> Overview:
    """From one query over a few columns of the run's first 5,000 calls; `calls` are all of them, in order."""
    rows = calls.values_list(*Point._fields)[:LIMIT]
    points = [Point(*values) for values in rows]
    failed = list(_failed(points))
    return Overview(
        width=max(len(points), 1),
        bands=tuple(_bands(points)),
        segments=tuple(_segments(points)),
        failed=tuple(failed[:FAILED_SHOWN]),
        failed_left=max(0, len(failed) - FAILED_SHOWN),
        left=max(0, run.call_count - len(points)),
        axis=_axis(run, points, squeezed=squeezed),
    )


def _axis(run: Run, points: Sequence[Point], *, squeezed: bool) -> Axis:
    starts = [point.started_at for point in points if point.started_at]
    start = run.started_at or min(starts, default=None)
    spans = [] if start is None else [_span(start, point) for point in points if point.started_at]
    return axis_of(start, run.ended_at or run.last_at, spans, squeezed=squeezed)


def _span(start: datetime, point: Point) -> Span:
    begin = max(0, ((point.started_at or start) - start) // MILLISECOND)
    return begin, begin + (point.duration_ms or 0)


def _bands(points: Sequence[Point]) -> Iterable[Band]:
    by_letter: dict[str, list[str]] = {letter: [] for letter in STATES}
    for x, point in enumerate(points):
        up = _height(point.duration_ms or 0, LONGEST_MS)
        down = _height(point.tokens, MOST_TOKENS)
        by_letter[letter_of(point)].append(f"M{x} {HALF - up}h.8v{up + down + 1}h-.8z")
    for letter, parts in by_letter.items():
        if parts:
            yield Band(OUTCOMES[letter], STATES[letter], len(parts), "".join(parts))


def _height(value: int, most: int) -> int:
    return min(HALF - 1, round((HALF - 1) * math.log1p(max(0, value)) / math.log1p(most)))


def _segments(points: Sequence[Point]) -> Iterable[Segment]:
    for start in range(0, len(points), PAGE):
        page = points[start : start + PAGE]
        yield Segment(_cursor_before(points, start), start + 1, start + len(page), len(page))


def _failed(points: Sequence[Point]) -> Iterable[FailedCall]:
    for index, point in enumerate(points):
        if point.has_failed:
            yield FailedCall(point.pk, index + 1, point.tool, _cursor_before(points, index))


def _cursor_before(points: Sequence[Point], index: int) -> str:
    return cursor_of(points[index - 1].ordinal, points[index - 1].pk) if index else ""
