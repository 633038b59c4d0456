"""The time axis of a run, in percent of a width, with or without its idle gaps.

A session that rests over lunch would spend most of its width on nothing. The plain axis is true to scale; the squeezed
one draws each long gap as a thin slice. The page offers it and never chooses it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

MILLISECOND = timedelta(milliseconds=1)
LONG_GAP_MS = 60_000
GAP_SLICE = 0.01  # of the busy time: the width of a squeezed gap
LEAST_WIDTH = 0.35  # percent; a thinner bar could not be seen
LEAST_DRAWN = 0.005  # percent; less is rounded to nothing
WORTH_SQUEEZING = 60  # percent of the run in which no tool ran
TimeSpan = tuple[int, int]  # begin and end, in milliseconds since the axis starts


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

    @property
    def is_worth_squeezing(self) -> bool:
        return self.idle_percent >= WORTH_SQUEEZING

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
    """True to scale. `busy_ms` is the sum of all durations: calls overlap, so the gaps are at least the rest."""
    last = max((end - start) // MILLISECOND if start and end else 0, 1)
    return Axis(start, (0, last), (0.0, float(last)), max(0, round(100 * (last - busy_ms) / last)))


def squeezed_axis(start: datetime, end: datetime | None, calls: Iterable[TimeSpan]) -> Axis:
    """With long gaps between the calls squeezed."""
    busy = _merge(calls)
    last = max((end - start) // MILLISECOND if end else 0, busy[-1][1] if busy else 0, 1)
    edges = [0, *(edge for interval in busy for edge in interval), last]
    gaps = [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if high - low > LONG_GAP_MS]
    gap_ms = sum(high - low for low, high in gaps)
    real, drawn = _squeeze(gaps, last, max((last - gap_ms) * GAP_SLICE, 1.0))
    return Axis(start, real, drawn, round(100 * gap_ms / last), is_squeezed=True)


def _merge(intervals: Iterable[TimeSpan]) -> list[TimeSpan]:
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
