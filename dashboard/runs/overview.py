"""The drawings of a run: its time axis, the strip of its outcomes, and all its calls with their sums by tool.

The axis is in percent of a width. A session that rests over lunch would spend most of it on nothing: the plain axis
is true to scale, the squeezed one, which pages show first, draws each long gap as a thin slice.

The strip has one bar a call, its height and colour by outcome. In a run with more calls than bars each bar shows the
worst of several (`ingest.run_stats`); the label is then made from the run's own counts.

The overview has time above the line and receipt tokens below, both on a log scale: where the time and the tokens
went. It has one path an outcome, so that 2,000 calls are a few kilobytes and not 2,000 elements. Time is a tool's own
where it was measured, and never a wait that is known as a person's. Calls overlap, so that the sum may be more than
the run took.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.core.cache import cache

from dashboard.evidence.context_changes import load_drops
from dashboard.ingest.run_stats import OUTCOMES, STRIP_LETTERS, outcome_letter
from dashboard.models import Call, RecordedReceipt, Run
from dashboard.models.runs import FAILED
from dashboard.runs.run_marks import model_url
from dashboard.text.formatting import format_place

MILLISECOND = timedelta(milliseconds=1)
LONG_GAP_MS = 60_000
GAP_SLICE = 0.01  # of the busy time: the width of a squeezed gap
LEAST_WIDTH = 0.35  # percent; a thinner bar could not be seen
LEAST_DRAWN = 0.005  # percent; less is rounded to nothing
TimeSpan = tuple[int, int]  # begin and end, in milliseconds since the axis starts
STEP, HEIGHT = 3, 14  # a stroke of 2 and a gap of 1
OUTCOME_COLUMNS = ("is_waiting", "is_cut", "outcome")
CACHE_SECONDS = 3_600  # of an axis, which a change of the run makes another
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


@dataclass(frozen=True, slots=True)
class TimeBar:
    """Two paths in a box of 100 by 1. The waiting comes first: a permission is given before the tool works."""

    wait: str
    work: str


@dataclass(frozen=True)
class Axis:
    """`real` and `drawn` are the break points of a piecewise linear map, both in milliseconds."""

    start: datetime | None
    real: tuple[int, ...]
    drawn: tuple[float, ...]
    idle_percent: int = 0
    is_squeezed: bool = False

    @property
    def span_ms(self) -> int:
        return self.real[-1]

    def percent(self, ms: int) -> float:
        """`ms` after the start, as percent of the width; a time outside the run is put at the edge."""
        ms = min(max(ms, 0), self.real[-1])
        if not self.is_squeezed:
            return 100 * ms / self.real[-1]
        index = max(0, min(bisect_right(self.real, ms) - 1, len(self.real) - 2))
        low, high = self.real[index], self.real[index + 1]
        part = (ms - low) / (high - low) if high > low else 0.0
        return 100 * (self.drawn[index] + part * (self.drawn[index + 1] - self.drawn[index])) / (self.drawn[-1] or 1)

    def bar(self, started_at: datetime | None, duration_ms: int | None, wait_ms: int | None) -> TimeBar | None:
        """None when the source did not record when the call began."""
        if self.start is None or started_at is None:
            return None
        begin = (started_at - self.start) // MILLISECOND
        end = begin + (duration_ms or 0)
        turn = min(begin + (wait_ms or 0), end)
        x, work_x, stop = self.percent(begin), self.percent(turn), self.percent(end)
        width = max(stop - work_x, LEAST_WIDTH)
        return TimeBar(_box(x, work_x - x), _box(min(work_x, 100 - width), width))


def _box(x: float, width: float) -> str:
    return f"M{x:.2f} 0h{width:.2f}v1h-{width:.2f}z" if width >= LEAST_DRAWN else ""


def plain_axis(start: datetime | None, end: datetime | None, busy_ms: int) -> Axis:
    """True to scale. `busy_ms` is the sum of all durations: calls overlap, so the gaps are at least the rest.

    Without a start nothing is known of the time, so none of it is idle.
    """
    last = max((end - start) // MILLISECOND if start and end else 0, 1)
    idle_percent = max(0, round(100 * (last - busy_ms) / last)) if start else 0
    return Axis(start, (0, last), (0.0, float(last)), idle_percent)


def squeezed_axis(start: datetime, end: datetime | None, calls: Iterable[TimeSpan]) -> Axis:
    """With long gaps between the calls squeezed."""
    busy = _merge_spans(calls)
    last = max((end - start) // MILLISECOND if end else 0, busy[-1][1] if busy else 0, 1)
    edges = [0, *(edge for interval in busy for edge in interval), last]
    gaps = [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if high - low > LONG_GAP_MS]
    gap_ms = sum(high - low for low, high in gaps)
    real, drawn = _squeeze(gaps, last, max((last - gap_ms) * GAP_SLICE, 1.0))
    return Axis(start, real, drawn, round(100 * gap_ms / last), is_squeezed=True)


def _merge_spans(intervals: Iterable[TimeSpan]) -> list[TimeSpan]:
    merged: list[TimeSpan] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _squeeze(gaps: Sequence[TimeSpan], last: int, width: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    real, drawn = [0], [0.0]
    for low, high in gaps:
        drawn.append(drawn[-1] + low - real[-1])
        drawn.append(drawn[-1] + width)
        real += [low, high]
    drawn.append(drawn[-1] + last - real[-1])
    return (*real, last), tuple(drawn)


@dataclass(frozen=True)
class OutcomeStrip:
    """The drawing of the tag `outcome_strip`: `label` is its text alternative, `paths` has one path an outcome."""

    label: str
    width: int
    paths: tuple[tuple[str, str], ...]
    height: int = HEIGHT


def build_strip(run: Run) -> OutcomeStrip:
    counts = (run.failed_count, run.refused_count, run.cut_count, run.unanswered_count)
    return _draw_strip(run.strip, run.call_count, counts)


@lru_cache(4096)  # most runs of a store look alike
def _draw_strip(letters: str, calls: int, counts: tuple[int, int, int, int]) -> OutcomeStrip:
    """The label is the strip in words: 12 ok, 2 failed, 1 cut. `counts`: failed, refused, cut and unanswered calls."""
    paths: dict[str, str] = {}
    words: Counter[str] = Counter()
    for index, letter in enumerate(letters):
        outcome = OUTCOMES.get(letter, OUTCOMES["u"])
        paths[outcome.name] = f"{paths.get(outcome.name, '')}M{index * STEP + 1} {outcome.top}V{HEIGHT}"
        words[outcome.word] += 1
    label = ", ".join(f"{number} {word}" for word, number in words.most_common()) or "no calls"
    if calls > len(letters) == STRIP_LETTERS:
        named = zip(counts, ("failed", "refused", "cut", "unanswered"), strict=True)
        troubles = ", ".join(f"{number:,} {word}" for number, word in named if number)
        label = f"{calls:,} calls{': ' if troubles else ''}{troubles}; a bar is the worst of several"
    return OutcomeStrip(label, max(STEP, len(letters) * STEP), tuple(paths.items()))


class CallPoint(NamedTuple):
    """A call in the drawing; `letter` is its outcome, `work_ms` its time without a known wait; 0 unless `is_timed`."""

    letter: str
    duration_ms: int
    tokens: int
    tool: str
    work_ms: int
    is_timed: bool


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
    """The sums of one tool, or of all that are left out. Shares are in percent of all calls that were added up.

    `time_ms` is None where no call of the tool has a recorded time.
    """

    tool: str
    is_rest: bool
    calls: int
    time_ms: int | None
    time_share: int
    tokens: int
    token_share: int


class DropMark(NamedTuple):
    """An unexplained drop of the context before the call at `x`; `url` shows it in the history of the run."""

    x: int
    sentence: str
    url: str


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
    drops: tuple[DropMark, ...] = ()

    @property
    def tools_sentence(self) -> str:
        """The tool with most of the time, and the one with most of the tokens."""
        named = [sums for sums in self.tools if sums.tool and not sums.is_rest]
        slow = max(named, key=lambda sums: sums.time_ms or 0, default=None)
        large = max(named, key=lambda sums: sums.tokens, default=None)
        parts = [f"{slow.tool} took {slow.time_share}% of the tools' time"] if slow and slow.time_ms else []
        parts += [f"{large.tool} got {large.token_share}% of the tokens"] if large and large.tokens else []
        return ", ".join(parts)


def load_overview(run: Run, *, is_squeezed: bool = True, limit: int = MAX_DRAWN) -> RunOverview:
    """Reads a few columns of the run's first `limit` calls."""
    points = _load_points(run, limit)
    busy_ms = sum([point.duration_ms for point in points])
    plain = plain_axis(run.started_at, run.ended_at or run.last_at, busy_ms)
    return RunOverview(
        width=max(len(points), 1),
        bands=tuple(_bands(points)),
        segments=tuple(_segments(len(points))),
        failed=tuple(_load_failed(run, points)),
        failed_left_out=max(0, run.failed_count - MAX_FAILED),
        left_out=max(0, run.call_count - len(points)),
        drawn=len(points),
        axis=load_squeezed_axis(run) if is_squeezed else plain,
        tools=sum_by_tool(points),
        drops=tuple(_load_drops(run, len(points))),
    )


def _load_drops(run: Run, drawn: int) -> Iterable[DropMark]:
    for drop in load_drops(run):
        position = run.members.filter(ordinal__lt=drop.line).count()
        place = format_place(drop.line, run.source_format)
        yield DropMark(min(position, drawn), f"{drop.sentence} ({place})", model_url(run, drop.line - 1))


def _load_points(run: Run, limit: int) -> list[CallPoint]:
    """Only columns that are cheap to convert: at 2,000 rows, converting costs more than reading."""
    columns = ("tool", "tokens", "duration_ms", "tool_ms", *OUTCOME_COLUMNS)
    rows: Iterable[tuple[Any, ...]] = Call.objects.in_run(run).values_list(*columns)[:limit]
    if run.may_have_copies:
        rows = _load_with_copies(run, columns, limit)
    letters: dict[tuple[Any, ...], str] = {}  # a run has some dozens of kinds of outcome
    points = []
    for tool, tokens, duration, tool_ms, *outcome in rows:
        key = tuple(outcome)
        if key not in letters:
            letters[key] = outcome_letter(Call(**dict(zip(OUTCOME_COLUMNS, key, strict=True))))
        is_timed = duration is not None
        duration = duration or 0
        is_waiting = outcome[0]
        work = 0 if is_waiting else duration if tool_ms is None else min(duration, tool_ms)
        points.append(CallPoint(letters[key], duration, tokens, tool, work, is_timed))
    return points


def _load_with_copies(run: Run, columns: Sequence[str], limit: int) -> Iterator[tuple[Any, ...]]:
    """The columns of the calls; a copied call may have another receipt in this run than in its own."""
    copies = RecordedReceipt.objects.shown_in(run)
    for key, *values in Call.objects.in_run(run).values_list("pk", *columns)[:limit]:
        if key in copies:
            values[columns.index("tokens")] = copies[key].tokens
            values[columns.index("is_cut")] = copies[key].is_cut
        yield tuple(values)


def load_squeezed_axis(run: Run) -> Axis:
    """The axis with long gaps squeezed. The calls' times are read once for each revision of the run."""
    start, end = run.started_at, run.ended_at or run.last_at
    if start is None:
        return plain_axis(start, end, 0)
    key = f"run-axis:{run.pk.hex}:{run.revision}"
    stored = cache.get(key)
    if isinstance(stored, Axis):
        return stored
    times = Call.objects.in_run(run).exclude(started_at=None).values_list("started_at", "duration_ms")[:MAX_DRAWN]
    spans = []
    for started_at, duration in times:
        begin = max(0, ((started_at or start) - start) // MILLISECOND)
        spans.append((begin, begin + (duration or 0)))
    axis = squeezed_axis(start, end, spans)
    cache.set(key, axis, CACHE_SECONDS)
    return axis


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
    positions = [index for index, point in enumerate(points) if point.letter in "ext"]
    if positions:
        failed = Call.objects.in_run(run).filter(FAILED).values_list("id", "tool")[:MAX_FAILED]
        for (key, tool), position in zip(failed, positions, strict=False):
            yield FailedCall(str(key), position, position + 1, tool)


def sum_by_tool(points: Iterable[CallPoint]) -> tuple[ToolSums, ...]:
    """Most time first."""
    sums: dict[str, list[int]] = {}
    for point in points:
        tool_sums = sums.setdefault(point.tool, [0, 0, 0, 0])
        tool_sums[0] += 1
        tool_sums[1] += point.work_ms
        tool_sums[2] += point.tokens
        tool_sums[3] += point.is_timed
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][2], item[0]))
    _, all_ms, all_tokens, _ = _add_columns([numbers for _, numbers in ordered])
    rows, rest = ordered[:MAX_TOOLS], ordered[MAX_TOOLS:]
    if rest:
        rows.append(
            (f"{len(rest)} other{'s' if len(rest) > 1 else ''}", _add_columns([numbers for _, numbers in rest]))
        )
    return tuple(
        ToolSums(
            tool=tool,
            is_rest=index == MAX_TOOLS,
            calls=calls,
            time_ms=time_ms if timed else None,
            time_share=round(100 * time_ms / all_ms) if all_ms else 0,
            tokens=tokens,
            token_share=round(100 * tokens / all_tokens) if all_tokens else 0,
        )
        for index, (tool, (calls, time_ms, tokens, timed)) in enumerate(rows)
    )


def _add_columns(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0, 0]
