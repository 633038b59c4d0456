"""All calls of a run in one drawing: time above the line, receipt tokens below, both on a log scale.

One path a state, so that 2,000 calls are a few kilobytes and not 2,000 elements. The query asks only
for columns that need no conversion: at 2,000 rows, converting costs more than reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db.models import BigIntegerField, Case, CharField, F, Value, When
from django.db.models.functions import Coalesce

from dashboard.models import Run
from dashboard.models.runs import FAILED, UNANSWERED
from dashboard.prepared import prepared
from dashboard.runs.by_tool import ByTool, by_tool
from dashboard.runs.time_axis import MILLISECOND, Axis, Span, axis_of, plain_axis
from dashboard.runs.waterfall import OUTCOMES, RUN, STATES, Ordered, in_order

LIMIT = 5_000  # calls drawn; a longer run says how many are not
FAILED_SHOWN = 24
TOP = 20  # height of each half: one step for each doubling
TOKEN_STEP = 4 / 3  # tokens double less often than milliseconds: 15 times up to 32,000


def _shape(up: int, down: int) -> str:
    """A bar from its foot on, but for its place."""
    return f" {TOP - up}h.8v{up + down + 1}h-.8z"


# By the bits of the milliseconds, then those of the tokens (a column holds 63): 2,000 calls look theirs up.
SHAPES = [[_shape(up, min(TOP, round(bits * TOKEN_STEP))) for bits in range(64)] for up in range(TOP + 1)]

# By the rule of tally.letter_of, asked of the database.
LETTER = Case(
    When(UNANSWERED, then=Value("u")),
    When(FAILED, is_cut=True, then=Value("x")),
    When(FAILED, then=Value("e")),
    When(is_cut=True, then=Value("c")),
    When(is_waiting=True, then=Value("w")),
    default=Value("o"),
    output_field=CharField(),
)

# By the rule of Call.wait_ms: what nobody measured counts as work.
WORK = Case(
    When(is_waiting=True, then=Value(0)),
    When(tool_ms__lt=F("duration_ms"), then=F("tool_ms")),
    default=Coalesce(F("duration_ms"), Value(0)),
    output_field=BigIntegerField(),
)


class Point(NamedTuple):
    letter: str
    duration_ms: int | None
    tokens: int
    tool: str
    work_ms: int


class Band(NamedTuple):
    """The paths of all calls in one state, as one path of the drawing."""

    outcome: str
    state: str
    number: int
    path: str


class Segment(NamedTuple):
    """A page of rows, as a place in the drawing that one can go to: `skip` rows lie before it."""

    skip: int
    first: int
    last: int
    width: int


class FailedCall(NamedTuple):
    """`skip` rows lie before it, for when its row is on another page."""

    key: str
    skip: int
    number: int
    tool: str


@dataclass(frozen=True)
class Overview:
    width: int
    bands: tuple[Band, ...]
    segments: tuple[Segment, ...]
    failed: tuple[FailedCall, ...]
    failed_left: int
    left: int
    drawn: int
    axis: Axis
    by_tool: ByTool


@prepared
def _points(most: int) -> Ordered:
    lettered: Ordered = in_order(RUN).annotate(letter=LETTER, work_ms=WORK)
    return lettered.values_list(*Point._fields)[:most]


@prepared
def _failed_calls() -> Ordered:
    return in_order(RUN).filter(FAILED & ~UNANSWERED).values_list("id", "tool")[:FAILED_SHOWN]


@prepared
def _times() -> Ordered:
    return in_order(RUN).exclude(started_at=None).values_list("started_at", "duration_ms")[:LIMIT]


def overview_of(run: Run, *, squeezed: bool = False) -> Overview:
    """From a few columns of the run's first 5,000 calls."""
    points = list(map(Point._make, _points(LIMIT, run=run.pk)))
    failed = [index for index, point in enumerate(points) if point.letter in "ex"]
    return Overview(
        width=max(len(points), 1),
        bands=tuple(_bands(points)),
        segments=tuple(_segments(len(points))),
        failed=tuple(_failed(run, failed)) if failed else (),
        failed_left=max(0, run.failed_count - FAILED_SHOWN),
        left=max(0, run.call_count - len(points)),
        drawn=len(points),
        axis=_axis(run, points, squeezed=squeezed),
        by_tool=by_tool(points),
    )


def _axis(run: Run, points: Sequence[Point], *, squeezed: bool) -> Axis:
    """The calls' times are read only where gaps are squeezed; the sum of durations tells if that is worth it."""
    end = run.ended_at or run.last_at
    if not squeezed or run.started_at is None:
        return plain_axis(run.started_at, end, sum([point.duration_ms or 0 for point in points]))
    return axis_of(run.started_at, end, [_span(run.started_at, began, took) for began, took in _times(run=run.pk)])


def _span(start: datetime, began: datetime, took: int | None) -> Span:
    begin = max(0, (began - start) // MILLISECOND)
    return begin, begin + (took or 0)


def _bands(points: Sequence[Point]) -> Iterable[Band]:
    by_letter: dict[str, list[str]] = {letter: [] for letter in STATES}
    for x, (letter, took, tokens, *_) in enumerate(points):
        by_letter[letter].append(f"M{x}{SHAPES[min(TOP, (took or 0).bit_length())][tokens.bit_length()]}")
    for letter, parts in by_letter.items():
        if parts:
            yield Band(OUTCOMES[letter], STATES[letter], len(parts), "".join(parts))


def _segments(count: int) -> Iterable[Segment]:
    for start in range(0, count, settings.ROWS_PER_PAGE):
        last = min(start + settings.ROWS_PER_PAGE, count)
        yield Segment(start, start + 1, last, last - start)


def _failed(run: Run, places: Sequence[int]) -> Iterable[FailedCall]:
    for (key, tool), place in zip(_failed_calls(run=run.pk), places, strict=False):
        yield FailedCall(str(key), place, place + 1, tool)
