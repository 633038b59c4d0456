"""All calls of a run in one drawing, and their sums by tool: where the time and the tokens went.

The drawing has time above the line and receipt tokens below, both on a log scale. It has one path an outcome, so that
2,000 calls are a few kilobytes and not 2,000 elements.

Time is a tool's own where it was measured, and never a wait that is known as a person's. Calls overlap, so that the
sum may be more than the run took.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings

from dashboard.ingest.derive import outcome_letter
from dashboard.models import Call, Run
from dashboard.models.runs import FAILED, UNANSWERED
from dashboard.runs.outcome_strip import OUTCOMES
from dashboard.runs.time_axis import MILLISECOND, Axis, plain_axis, squeezed_axis

OUTCOME_COLUMNS = ("is_waiting", "is_cut", "status", "source_error", "exit_status")
MAX_DRAWN = 5_000  # calls; the page gives the number of those left out
MAX_FAILED = 24
MAX_TOOLS = 10  # the others are one row
HALF_HEIGHT = 20  # one step for each doubling
TOKEN_STEP = 4 / 3  # tokens double less often than milliseconds: 15 times up to 32,000

# The shape of a bar, but for its place, by the bits of its milliseconds and of its tokens (a column holds 63).
SHAPES = [
    [f" {HALF_HEIGHT - up}h.8v{up + min(HALF_HEIGHT, round(bits * TOKEN_STEP)) + 1}h-.8z" for bits in range(64)]
    for up in range(HALF_HEIGHT + 1)
]


class CallPoint(NamedTuple):
    """A call in the drawing; `letter` is its outcome, `work_ms` its time without a known wait."""

    letter: str
    duration_ms: int
    tokens: int
    tool: str
    work_ms: int


class OutcomeBand(NamedTuple):
    """The bars of all calls with one outcome, as one path."""

    outcome: str
    state: str
    number: int
    path: str


class PageSegment(NamedTuple):
    """A page of rows as a link in the drawing: `skip` rows come before it."""

    skip: int
    first: int
    last: int
    width: int


class FailedCall(NamedTuple):
    """`skip` rows come before it, for when its row is on another page."""

    key: str
    skip: int
    number: int
    tool: str


class ToolSums(NamedTuple):
    """The sums of one tool, or of all that are left out. Shares are in percent of all calls that were added up."""

    tool: str
    is_rest: bool
    calls: int
    time_ms: int
    time_share: int
    tokens: int
    token_share: int


@dataclass(frozen=True)
class RunOverview:
    width: int
    bands: tuple[OutcomeBand, ...]
    segments: tuple[PageSegment, ...]
    failed: tuple[FailedCall, ...]
    failed_left_out: int
    left_out: int
    drawn: int
    axis: Axis
    tools: tuple[ToolSums, ...]

    @property
    def tools_sentence(self) -> str:
        """The tool with most of the time, and the one with most of the tokens."""
        named = [sums for sums in self.tools if not sums.is_rest]
        slow = max(named, key=lambda sums: sums.time_ms, default=None)
        large = max(named, key=lambda sums: sums.tokens, default=None)
        parts = [f"{slow.tool} took {slow.time_share} % of the tools' time"] if slow and slow.time_ms else []
        parts += [f"{large.tool} got {large.token_share} % of the tokens"] if large and large.tokens else []
        return ", ".join(parts)


def load_overview(run: Run, *, is_squeezed: bool = False, limit: int = MAX_DRAWN) -> RunOverview:
    """Reads a few columns of the run's first `limit` calls."""
    points = _load_points(run, limit)
    return RunOverview(
        width=max(len(points), 1),
        bands=tuple(_bands(points)),
        segments=tuple(_segments(len(points))),
        failed=tuple(_load_failed(run, points)),
        failed_left_out=max(0, run.failed_count - MAX_FAILED),
        left_out=max(0, run.call_count - len(points)),
        drawn=len(points),
        axis=_load_axis(run, points, is_squeezed=is_squeezed),
        tools=sum_by_tool(points),
    )


def _load_points(run: Run, limit: int) -> list[CallPoint]:
    """Only columns that are cheap to convert: at 2,000 rows, converting costs more than reading."""
    columns = ("tool", "tokens", "duration_ms", "tool_ms", *OUTCOME_COLUMNS)
    rows = Call.objects.in_run(run).values_list(*columns)[:limit]
    letters: dict[tuple[Any, ...], str] = {}  # a run has some dozens of kinds of outcome
    points = []
    for tool, tokens, duration, tool_ms, *outcome in rows:
        key = tuple(outcome)
        if key not in letters:
            letters[key] = outcome_letter(Call(**dict(zip(OUTCOME_COLUMNS, key, strict=True))))
        duration = duration or 0  # a time that nobody measured
        is_waiting = outcome[0]
        work = 0 if is_waiting else duration if tool_ms is None else min(duration, tool_ms)
        points.append(CallPoint(letters[key], duration, tokens, tool, work))
    return points


def _load_axis(run: Run, points: Sequence[CallPoint], *, is_squeezed: bool) -> Axis:
    """Reads the calls' times only where gaps are squeezed; whether that is worth it follows from the durations."""
    start, end = run.started_at, run.ended_at or run.last_at
    if not is_squeezed or start is None:
        return plain_axis(start, end, sum([point.duration_ms for point in points]))
    times = Call.objects.in_run(run).exclude(started_at=None).values_list("started_at", "duration_ms")[:MAX_DRAWN]
    spans = []
    for started_at, duration in times:
        begin = max(0, ((started_at or start) - start) // MILLISECOND)
        spans.append((begin, begin + (duration or 0)))
    return squeezed_axis(start, end, spans)


def _bands(points: Sequence[CallPoint]) -> Iterable[OutcomeBand]:
    bars: dict[str, list[str]] = {letter: [] for letter in OUTCOMES}
    for x, (letter, duration, tokens, *_) in enumerate(points):
        bars[letter].append(f"M{x}{SHAPES[min(HALF_HEIGHT, duration.bit_length())][tokens.bit_length()]}")
    for letter, paths in bars.items():
        if paths:
            outcome = OUTCOMES[letter]
            yield OutcomeBand(outcome.name, outcome.sentence, len(paths), "".join(paths))


def _segments(count: int) -> Iterable[PageSegment]:
    for start in range(0, count, settings.ROWS_PER_PAGE):
        last = min(start + settings.ROWS_PER_PAGE, count)
        yield PageSegment(start, start + 1, last, last - start)


def _load_failed(run: Run, points: Sequence[CallPoint]) -> Iterable[FailedCall]:
    positions = [index for index, point in enumerate(points) if point.letter in "ex"]
    if positions:
        failed = Call.objects.in_run(run).filter(FAILED & ~UNANSWERED).values_list("id", "tool")[:MAX_FAILED]
        for (key, tool), position in zip(failed, positions, strict=False):
            yield FailedCall(str(key), position, position + 1, tool)


def sum_by_tool(points: Iterable[CallPoint]) -> tuple[ToolSums, ...]:
    """Most time first."""
    sums: dict[str, list[int]] = {}
    for point in points:
        tool_sums = sums.setdefault(point.tool, [0, 0, 0])
        tool_sums[0] += 1
        tool_sums[1] += point.work_ms
        tool_sums[2] += point.tokens
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][2], item[0]))
    _, all_ms, all_tokens = _add_columns([numbers for _, numbers in ordered])
    rows, rest = ordered[:MAX_TOOLS], ordered[MAX_TOOLS:]
    if rest:
        rows.append((f"{len(rest)} others", _add_columns([numbers for _, numbers in rest])))
    return tuple(
        ToolSums(
            tool=tool,
            is_rest=index == MAX_TOOLS,
            calls=calls,
            time_ms=time_ms,
            time_share=round(100 * time_ms / all_ms) if all_ms else 0,
            tokens=tokens,
            token_share=round(100 * tokens / all_tokens) if all_tokens else 0,
        )
        for index, (tool, (calls, time_ms, tokens)) in enumerate(rows)
    )


def _add_columns(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0]
