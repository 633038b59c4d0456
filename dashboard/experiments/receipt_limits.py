"""A limit on receipts that was never set: what it would have saved and lost over the calls of a recall report.

    unit=lines|tokens   cap=200   head=50 (percent of the cap that is taken from the beginning)

Nothing is rendered: a receipt longer than the cap loses whole lines from its middle. Its tokens are apportioned by
characters, and the note that would state the cut is not counted. Saved tokens are counted once, and once for each later
request of the run that carried the receipt, until the first recorded compaction, clear or replacement, or the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.urls import reverse

from dashboard.evidence.argument_labels import argument_labels
from dashboard.experiments.recall_report import RecalledCall, find_stored, load_recall_results
from dashboard.experiments.recall_run import UNKNOWN_REQUESTS, ReceiptShape
from dashboard.filters.language import parse
from dashboard.filters.syntax import Term
from dashboard.insights.call_numbers import link_calls
from dashboard.models import RecallReport
from dashboard.text.params import Params

DEFAULT_CAP, DEFAULT_HEAD = 200, 50
LARGEST_CAP = 1_000_000
MOST_LISTED = 50  # calls that lose quoted lines


class ReceiptLimit(NamedTuple):
    """`unit` is lines or tokens."""

    unit: str
    cap: int
    head_share: int

    def is_passed_by(self, shape: ReceiptShape) -> bool:
        return (shape.tokens if self.unit == "tokens" else len(shape.lengths) // 4) > self.cap

    def kept_lines(self, shape: ReceiptShape) -> frozenset[int]:
        """The lines that remain of a receipt that passes the limit."""
        lengths = shape.line_lengths
        if self.unit == "lines":
            head = self.cap * self.head_share // 100
            return frozenset([*range(head), *range(len(lengths) - (self.cap - head), len(lengths))])
        budget = self.cap * (sum(lengths) + len(lengths)) / shape.tokens  # in characters, with the line feeds
        head_budget = budget * self.head_share / 100
        head = _count_fitting(lengths, head_budget)
        tail = _count_fitting(lengths[head:][::-1], budget - head_budget)
        return frozenset([*range(head), *range(len(lengths) - tail, len(lengths))])

    def saved_tokens(self, shape: ReceiptShape, kept: frozenset[int]) -> int:
        lengths = shape.line_lengths
        total = sum(lengths) + len(lengths)
        return round(shape.tokens * (1 - sum(lengths[line] + 1 for line in kept) / total))


def _count_fitting(lengths: Sequence[int], budget: float) -> int:
    for count, length in enumerate(lengths):
        budget -= length + 1
        if budget < 0:
            return count
    return len(lengths)


@dataclass(frozen=True, kw_only=True)
class ToolLimit:
    """`affected` of the `calls` of a tool pass the limit, of which `quoted` have `items`; `lost` are of those.

    `once` and `carried` are saved tokens; `uncounted` affected calls are of runs that recorded no requests.
    """

    tool: str
    calls: int
    affected: int
    once: int
    carried: int
    uncounted: int
    quoted: int
    items: int
    lost: int
    href: str

    @property
    def coverage(self) -> str:
        return f"{self.quoted / self.affected:.0%}" if self.affected else ""


@dataclass(frozen=True, kw_only=True)
class LosingCall:
    """`href` is empty for a call that was deleted."""

    href: str
    tool: str
    arguments: str
    lost: int
    items: int


@dataclass(frozen=True, kw_only=True)
class LimitsPage:
    """`losing` has the calls that lose most items; `unlisted` others lose some."""

    report: RecallReport
    limit: ReceiptLimit
    tools: tuple[ToolLimit, ...]
    losing: tuple[LosingCall, ...]
    unlisted: int
    problems: tuple[str, ...]

    @property
    def affected_tools(self) -> tuple[ToolLimit, ...]:
        return tuple(tool for tool in self.tools if tool.affected)

    @property
    def other_tools(self) -> tuple[ToolLimit, ...]:
        return tuple(tool for tool in self.tools if not tool.affected)

    @property
    def calls(self) -> int:
        return sum(tool.calls for tool in self.tools)

    @property
    def affected(self) -> int:
        return sum(tool.affected for tool in self.tools)

    @property
    def once(self) -> int:
        return sum(tool.once for tool in self.tools)

    @property
    def carried(self) -> int:
        return sum(tool.carried for tool in self.tools)

    @property
    def uncounted(self) -> int:
        return sum(tool.uncounted for tool in self.tools)


@dataclass(frozen=True, kw_only=True)
class _AffectedCall:
    shape: ReceiptShape
    saved: int
    items: int
    lost: int


def load_limits_page(report: RecallReport, query: Mapping[str, str]) -> LimitsPage | None:
    """None for a report that is not finished."""
    if not report.is_finished:
        return None
    params = Params(query)
    limit = ReceiptLimit(
        params.choice("unit", ("lines", "tokens"), default="lines"),
        params.integer("cap", default=DEFAULT_CAP, least=1, most=LARGEST_CAP),
        params.integer("head", default=DEFAULT_HEAD, most=100),
    )
    results = load_recall_results(report)
    affected: dict[str, list[_AffectedCall]] = defaultdict(list)
    totals: dict[str, int] = defaultdict(int)
    recalled = {call.call: call for call in results.calls}
    for shape in results.shapes:
        totals[shape.tool] += 1
        if limit.is_passed_by(shape):
            affected[shape.tool].append(_limit_call(shape, limit, recalled.get(shape.call)))
    tools = [_sum_tool(report, limit, tool, count, affected[tool]) for tool, count in totals.items()]
    losing = sorted(
        (call for calls in affected.values() for call in calls if call.lost),
        key=lambda call: (-call.lost, call.shape.call),
    )
    return LimitsPage(
        report=report,
        limit=limit,
        tools=tuple(sorted(tools, key=lambda tool: (-tool.carried, -tool.once, -tool.calls, tool.tool))),
        losing=tuple(_list_losing(report, losing[:MOST_LISTED])),
        unlisted=max(0, len(losing) - MOST_LISTED),
        problems=tuple(params.problems),
    )


def _limit_call(shape: ReceiptShape, limit: ReceiptLimit, recalled: RecalledCall | None) -> _AffectedCall:
    kept = limit.kept_lines(shape)
    items = recalled.items if recalled else ()
    return _AffectedCall(
        shape=shape,
        saved=limit.saved_tokens(shape, kept),
        items=len(items),
        lost=sum(kept.isdisjoint(item.lines) for item in items),
    )


def _sum_tool(
    report: RecallReport, limit: ReceiptLimit, tool: str, calls: int, affected: Sequence[_AffectedCall]
) -> ToolLimit:
    counted = [call for call in affected if call.shape.requests != UNKNOWN_REQUESTS]
    terms = [Term("family", report.family)] if report.family else []
    terms += [Term("tool", tool), *([Term("tokens", f">{limit.cap}")] if limit.unit == "tokens" else [])]
    return ToolLimit(
        tool=tool,
        calls=calls,
        affected=len(affected),
        once=sum(call.saved for call in affected),
        carried=sum(call.saved * call.shape.requests for call in counted),
        uncounted=len(affected) - len(counted),
        quoted=sum(bool(call.items) for call in affected),
        items=sum(call.items for call in affected),
        lost=sum(call.lost for call in affected),
        href=link_calls(parse(report.query, over="calls").narrowed(*terms), sort="tokens"),
    )


def _list_losing(report: RecallReport, calls: Sequence[_AffectedCall]) -> Iterator[LosingCall]:
    keys = [UUID(bytes=call.shape.call) for call in calls]
    labels, stored = argument_labels(keys), find_stored(keys)
    for call in calls:
        key = UUID(bytes=call.shape.call)
        yield LosingCall(
            href=reverse("recall-call", args=[report.pk, key]) if key in stored else "",
            tool=call.shape.tool,
            arguments=labels.get(key, ""),
            lost=call.lost,
            items=call.items,
        )
