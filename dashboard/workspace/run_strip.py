"""The strip of a run: a bar for every call, the size of the context as a line above the bars, and marks of its changes.

The line has the recorded tokens of the requests. A run whose requests have no recorded usage has no line, because an
estimate would pass for a record. Marks are compactions, new conversations and drops that nothing recorded explains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.core.cache import cache
from django.urls import reverse

from dashboard.evidence.context_changes import load_drops, load_requests
from dashboard.models import Run
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import step_url
from dashboard.runs.compactions import Compaction, load_compactions
from dashboard.runs.overview import HEIGHT, OutcomeStrip, build_strip
from dashboard.text.formatting import format_place

CACHE_SECONDS = 3_600  # of a drawing, which a change of the run makes another
LINE_HEIGHT = 16  # of the line of the context, in the units of the drawing
MOST_MARKS = 60  # more could not be told apart
# The outcomes of which a run has no column; the others that did not succeed are counted there.
STOPPED = (Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.SKIPPED)


class StripMark(NamedTuple):
    """A change of the context in front of the call at `position`, from 1; `x` is its place in the drawing."""

    x: float
    kind: str
    sentence: str
    position: int


@dataclass(frozen=True, kw_only=True)
class ContextLine:
    """`path` is empty where no usage is recorded, `most` the tokens of the largest request, 0 then."""

    path: str = ""
    most: int = 0
    compactions: int = 0
    drops: int = 0
    marks: tuple[StripMark, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunStrip:
    """The drawing is as wide as the outcomes; `marks` are pairs of a mark and its address.

    `stopped` are pairs of a word of STOPPED and the number of calls that ended so.
    """

    outcomes: OutcomeStrip
    line: ContextLine
    stopped: tuple[tuple[str, int], ...]
    marks: tuple[tuple[StripMark, str], ...]

    @property
    def height(self) -> int:
        return HEIGHT + LINE_HEIGHT

    @property
    def line_height(self) -> int:
        return LINE_HEIGHT

    @property
    def label(self) -> str:
        most = self.line.most
        size = f"the context weighed at most {most:,} tokens" if most else "the size of the context is not recorded"
        return f"{self.outcomes.label}; {size}"


def load_run_strip(run: Run) -> RunStrip:
    """No query for a run that was drawn in this revision; else five, and one more for each kind of change."""
    key = f"run-strip:{run.pk.hex}:{run.revision}"
    outcomes = build_strip(run)
    stored = cache.get(key)
    if not isinstance(stored, tuple):
        stored = _draw_context(run, outcomes.width), _count_stopped(run)
        cache.set(key, stored, CACHE_SECONDS)
    line, stopped = stored
    marks = tuple(_link(run, mark) for mark in line.marks)
    return RunStrip(outcomes=outcomes, line=line, stopped=stopped, marks=marks)


def _count_stopped(run: Run) -> tuple[tuple[str, int], ...]:
    """From the facets by which runs are filtered, which are written with the counts of the run."""
    counts = dict(run.facets.filter(kind="outcome").values_list("value", "count"))
    return tuple((outcome.word, counts[outcome]) for outcome in STOPPED if counts.get(outcome))


def _link(run: Run, mark: StripMark) -> tuple[StripMark, str]:
    """The step behind the change; the history behind it where no call follows."""
    if mark.position <= run.call_count:
        return mark, step_url(run.pk, mark.position, "context")
    return mark, f"{reverse('run-context', args=[run.pk])}?{urlencode({'at': 'end'})}"


def _draw_context(run: Run, width: int) -> ContextLine:
    requests, compactions, drops = load_requests(run), load_compactions(run), load_drops(run)
    if not (requests or compactions or drops):
        return ContextLine()
    lines = list(run.members.order_by("ordinal").values_list("ordinal", flat=True))
    scale = width / max(1, len(lines))
    marks = [*_mark_compactions(run, compactions, lines)]
    marks += [StripMark(0, "drop", f"{drop.sentence}.", bisect_left(lines, drop.line) + 1) for drop in drops]
    marks.sort(key=lambda mark: mark.position)
    most = max((request.tokens for request in requests), default=0)
    points = [(round(scale * bisect_left(lines, request.line)), request.tokens) for request in requests]
    return ContextLine(
        path=_draw_line(points, most, width) if most else "",
        most=most,
        compactions=len(compactions),
        drops=len(drops),
        marks=tuple(mark._replace(x=round(scale * (mark.position - 1), 1)) for mark in marks[:MOST_MARKS]),
    )


def _mark_compactions(run: Run, compactions: Iterable[Compaction], lines: Sequence[int]) -> Iterator[StripMark]:
    for event in compactions:
        what = (
            "A conversation began anew" if event.is_new_conversation else event.message or "The history was compacted"
        )
        place = format_place(event.line, run.source_format)
        yield StripMark(0, "compaction", f"{what} at {place}.", bisect_right(lines, event.line) + 1)


def _draw_line(points: Sequence[tuple[int, int]], most: int, width: int) -> str:
    """Steps from request to request; of several at one place the largest counts."""
    tallest: dict[int, int] = {}
    for x, tokens in points:
        tallest[x] = max(tokens, tallest.get(x, 0))
    heights = {x: round(LINE_HEIGHT - 1 - (LINE_HEIGHT - 2) * tokens / most, 1) for x, tokens in tallest.items()}
    (first, height), *others = sorted(heights.items())
    return f"M{first} {height}" + "".join(f"H{x}V{y}" for x, y in others) + f"H{width}"
