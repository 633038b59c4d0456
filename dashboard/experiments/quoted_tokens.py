"""The share of receipts' tokens that no later step quoted, by time and tool: the view Quoted later of Insights.

A report on used lines has measured which lines of a receipt later steps quote; the newest finished one is read, and
its scored calls that meet the filter are counted. Tokens of a line are its share of the receipt's characters. A line is
quoted when any later step may have had it from there, so the share that nothing quoted is at least the one shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from dashboard.experiments.recall_report import RecallResults, load_recall_results
from dashboard.experiments.recall_run import ReceiptShape
from dashboard.filters.language import Query
from dashboard.insights.call_numbers import (
    ChoiceLink,
    InsightsParams,
    TimeUnit,
    build_spans,
    choose_unit,
    link_calls,
    start_of,
)
from dashboard.models import Comparison, Project, RecallReport
from dashboard.text.chart_markup import Chart, ChartSeries, format_share

CALLS_AT_ONCE = 2_000  # of a report, that are looked up in the filter


@dataclass
class QuotedSums:
    """Measured calls, those with a quoted line, the tokens of their receipts and those of quoted lines."""

    calls: int = 0
    with_quotes: int = 0
    tokens: int = 0
    quoted: float = 0.0

    def add(self, other: QuotedSums) -> None:
        self.calls += other.calls
        self.with_quotes += other.with_quotes
        self.tokens += other.tokens
        self.quoted += other.quoted

    @property
    def unquoted_share(self) -> float | None:
        return 1 - self.quoted / self.tokens if self.tokens else None

    @property
    def share_text(self) -> str:
        return "–" if self.unquoted_share is None else format_share(self.unquoted_share)

    @property
    def coverage_text(self) -> str:
        return f"{self.with_quotes:,} ({format_share(self.with_quotes / self.calls)})" if self.calls else "0"


class QuotedTool(NamedTuple):
    name: str
    sums: QuotedSums


@dataclass(frozen=True, kw_only=True)
class QuotedPage:
    """`total` calls meet the filter, of which the report measured those in `sums`; without a report there are none."""

    report: RecallReport | None
    query: str
    total: int = 0
    calls_url: str = ""
    sums: QuotedSums
    chart: Chart | None = None
    tools: tuple[QuotedTool, ...] = ()
    units: tuple[ChoiceLink, ...] = ()
    untimed: int = 0

    @property
    def unmeasured(self) -> int:
        return self.total - self.sums.calls


class _MeasuredCall(NamedTuple):
    tool: str
    started_at: datetime | None
    sums: QuotedSums


def load_quoted_tokens(project: Project, query: Query, params: InsightsParams) -> QuotedPage:
    finished = project.recall_reports.filter(state=Comparison.State.FINISHED)
    report = finished.order_by("-finished_at", "-created_at").first()
    if report is None:
        return QuotedPage(report=None, query=str(query), sums=QuotedSums())
    calls = list(_load_measured(project, query, load_recall_results(report)))
    totals, by_tool, by_day = QuotedSums(), dict[str, QuotedSums](), dict[str, QuotedSums]()
    for call in calls:
        totals.add(call.sums)
        by_tool.setdefault(call.tool, QuotedSums()).add(call.sums)
        by_day.setdefault(f"{call.started_at:%Y-%m-%dT%H}" if call.started_at else "", QuotedSums()).add(call.sums)
    untimed = by_day.pop("", QuotedSums())
    unit = choose_unit(params.unit, [date.fromisoformat(time[:10]) for time in by_day])
    return QuotedPage(
        report=report,
        query=str(query),
        total=query.calls_in(project).count(),
        calls_url=link_calls(query),
        sums=totals,
        chart=_build_chart(by_day, unit) if by_day else None,
        tools=tuple(QuotedTool(*item) for item in sorted(by_tool.items(), key=lambda item: (-item[1].tokens, item[0]))),
        units=tuple(params.link_units(unit)),
        untimed=untimed.calls,
    )


def _load_measured(project: Project, query: Query, results: RecallResults) -> Iterator[_MeasuredCall]:
    """The calls of the report that meet the filter, those that were deleted since left out."""
    lines = {call.call: {line for item in call.items for line in item.lines} for call in results.calls}
    shapes = {UUID(bytes=shape.call): shape for shape in results.shapes if shape.is_scored}
    keys = list(shapes)
    for start in range(0, len(keys), CALLS_AT_ONCE):
        calls = query.calls_in(project).filter(pk__in=keys[start : start + CALLS_AT_ONCE]).order_by()
        for key, started_at in calls.values_list("pk", "started_at"):
            shape = shapes[key]
            yield _MeasuredCall(shape.tool, started_at, _sum_call(shape, lines.get(shape.call, ())))


def _sum_call(shape: ReceiptShape, quoted: Collection[int]) -> QuotedSums:
    lengths = shape.line_lengths
    characters = sum(lengths)
    share = sum(lengths[line] for line in quoted if line < len(lengths)) / characters if characters else 0.0
    return QuotedSums(1, 1 if quoted else 0, shape.tokens, shape.tokens * share)


def _build_chart(by_hour: Mapping[str, QuotedSums], unit: TimeUnit) -> Chart:
    spans = build_spans(by_hour, unit)
    by_start = {span.key: QuotedSums() for span in spans}
    for time, sums in by_hour.items():
        by_start[start_of(time, unit)].add(sums)
    values: Sequence[QuotedSums] = list(by_start.values())
    series = ChartSeries(
        name="tokens that no later step quoted",
        ink="cut",
        values=[sums.unquoted_share for sums in values],
        texts=[f"{sums.share_text} of {sums.calls:,} calls" if sums.calls else "–" for sums in values],
    )
    return Chart(
        id="unquoted",
        title="Share of receipts’ tokens that no later step quoted",
        head=unit.capitalize(),
        labels=[span.label for span in spans],
        series=[series],
        kind="steps",
        scale=format_share,
        most=1.0,
    )
