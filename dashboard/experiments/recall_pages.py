"""The pages of used-line recall: the reports, one of them by tool, the calls behind a number, one call's lines.

A difference is shown with its interval, and where that includes 0, or covers few calls, the page says so instead of
leaving a number to be read as a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.urls import reverse

from dashboard.evidence.argument_labels import argument_labels
from dashboard.experiments.recall_report import (
    MOST_CALLS,
    REFERENCE,
    QuotedItem,
    RecallCell,
    RecalledCall,
    RecallSummary,
    ToolRecall,
    find_stored,
    load_recall_results,
    load_recall_summary,
)
from dashboard.experiments.recall_run import BUDGETS, join_texts, load_outputs
from dashboard.experiments.tables import FEW_CALLS
from dashboard.models import Call, Project, RecallReport
from dashboard.text.formatting import format_change
from dashboard.text.masks import mask_text
from dashboard.text.params import Params
from envelopes.text.tokens import CHARACTERS_PER_TOKEN

MOST_LISTED = 100
PAGE_SIZE = 100
LINE_SHOWN = 400  # characters
CUTS = {
    "random": "lines drawn at random",
    "first": "the first lines",
    "last": "the last lines",
    "head+tail": "half from the beginning, half from the end",
    "bm25": "the lines nearest to the call's arguments and the last message of the user (BM25)",
}
TONES = {"finished": "good", "failed": "bad", "cancelled": "warn"}


@dataclass(frozen=True, kw_only=True)
class RecallRow:
    report: RecallReport
    percent: int
    tone: str


@dataclass(frozen=True, kw_only=True)
class RecallList:
    rows: tuple[RecallRow, ...]
    unlisted: int
    is_live: bool


def load_recall_list(project: Project, *, limit: int = MOST_LISTED) -> RecallList:
    reports = project.recall_reports.defer("summary", "results").order_by("-created_at", "pk")[:limit]
    rows = tuple(
        RecallRow(report=report, percent=_percent(report), tone=TONES.get(report.state, "accent")) for report in reports
    )
    return RecallList(
        rows=rows,
        unlisted=project.recall_reports.count() - len(rows),
        is_live=any(row.report.is_open for row in rows),
    )


def _percent(report: RecallReport) -> int:
    return 100 * report.done // report.total if report.total else 0


@dataclass(frozen=True, kw_only=True)
class ShownCell:
    """`mean` and `difference` have two places; `mean` is empty without evidence. `remark`: why it is no finding."""

    budget: int
    mean: str = ""
    calls: int = 0
    tokens: int = 0
    difference: str = ""
    interval: str = ""
    remark: str = ""
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class ColumnRow:
    """`meaning` explains a cut; it is empty for a variant."""

    name: str
    meaning: str
    versions: str
    is_reference: bool
    cells: tuple[ShownCell, ...]


@dataclass(frozen=True, kw_only=True)
class ToolSection:
    tool: str
    scored: int
    quoted: int
    items: int
    sessions: int
    coverage: str
    href: str
    rows: tuple[ColumnRow, ...]
    fitting: bool  # every output with an item fits the smallest budget
    is_small: bool  # with so few quoted calls that no difference can be told


@dataclass(frozen=True, kw_only=True)
class RecallPage:
    """`silent` are the tools of which no line was quoted, with the number of calls."""

    report: RecallReport
    percent: int
    summary: RecallSummary | None
    budgets: tuple[int, ...]
    sections: tuple[ToolSection, ...] = ()
    silent: tuple[tuple[str, int], ...] = ()
    again_href: str = ""

    @property
    def is_bounded(self) -> bool:
        """True when as many calls were read as a report reads; more may match its filter."""
        return self.summary is not None and self.summary.calls >= MOST_CALLS


def load_recall_page(report: RecallReport) -> RecallPage:
    form = urlencode({"query": report.query, "family": report.family, "variant": report.variants}, doseq=True)
    again = f"{reverse('recall-list')}?{form}"
    if not report.is_finished:
        return RecallPage(report=report, percent=_percent(report), summary=None, budgets=BUDGETS, again_href=again)
    summary = load_recall_summary(report)
    return RecallPage(
        report=report,
        percent=100,
        summary=summary,
        budgets=BUDGETS,
        sections=tuple(_build_section(report, summary, tool) for tool in summary.tools if tool.quoted),
        silent=tuple((tool.tool, tool.scored) for tool in summary.tools if not tool.quoted),
        again_href=again,
    )


def _build_section(report: RecallReport, summary: RecallSummary, tool: ToolRecall) -> ToolSection:
    rows = []
    for name in summary.columns:
        cells = [tool.cells.get(budget, {}).get(name) for budget in BUDGETS]
        if any(cells):
            rows.append(
                ColumnRow(
                    name=name,
                    meaning=CUTS.get(name, ""),
                    versions=", ".join(summary.versions.get(name, ())),
                    is_reference=name == REFERENCE,
                    cells=tuple(
                        _show_cell(budget, cell, _calls_href(report, tool.tool, budget, name))
                        for budget, cell in zip(BUDGETS, cells, strict=True)
                    ),
                )
            )
    return ToolSection(
        tool=tool.tool,
        scored=tool.scored,
        quoted=tool.quoted,
        items=tool.items,
        sessions=tool.sessions,
        coverage=f"{tool.quoted / tool.scored:.0%}",
        href=_calls_href(report, tool.tool),
        rows=tuple(rows),
        fitting=not tool.cells,
        is_small=tool.quoted < FEW_CALLS,
    )


def _calls_href(report: RecallReport, tool: str, budget: int = 0, column: str = "") -> str:
    query = {"tool": tool} | ({"budget": str(budget), "column": column} if budget else {})
    return f"{reverse('recall-calls', args=[report.pk])}?{urlencode(query)}"


def _show_cell(budget: int, cell: RecallCell | None, href: str) -> ShownCell:
    if cell is None:
        return ShownCell(budget=budget)
    interval, remark = "", ""
    if cell.interval is not None:
        interval = f"[{format_change(cell.interval.low, '+.2f')}, {format_change(cell.interval.high, '+.2f')}]"
        if cell.interval.low <= 0 <= cell.interval.high:
            remark = "no clear difference"
    if cell.difference is not None and (cell.calls < FEW_CALLS or cell.interval is None):
        remark = "too few calls to tell"
    return ShownCell(
        budget=budget,
        mean=f"{cell.mean:.2f}",
        calls=cell.calls,
        tokens=round(cell.characters / CHARACTERS_PER_TOKEN),
        difference="" if cell.difference is None else format_change(cell.difference, "+.2f"),
        interval=interval,
        remark=remark,
        href=href,
    )


@dataclass(frozen=True, kw_only=True)
class RecallCallRow:
    """`kept` is empty where the page is about no column, `href` for a call that was deleted."""

    href: str
    tool: str
    arguments: str
    items: int
    kept: str
    tokens: int


@dataclass(frozen=True, kw_only=True)
class RecallCallsPage:
    """`total` calls, of which `rows` begin behind `first`; `next_href` is empty on the last page."""

    report: RecallReport
    tool: str
    budget: int
    column: str
    rows: tuple[RecallCallRow, ...]
    first: int
    total: int
    next_href: str
    problems: tuple[str, ...]


def load_recall_calls(report: RecallReport, query: Mapping[str, str]) -> RecallCallsPage:
    """The calls with items, those of which the column keeps the smallest share first."""
    params = Params(query)
    tool, column = params.text("tool", longest=300), params.text("column", longest=100)
    budget = params.integer("budget", default=0, most=max(BUDGETS))
    after = params.integer("after", default=0)
    every = load_recall_results(report).calls if report.is_finished else ()
    calls = [call for call in every if not tool or call.tool == tool]
    if column:
        calls = [call for call in calls if call.recall(budget, column) is not None]
    calls.sort(key=lambda call: (call.recall(budget, column) or 0.0, -len(call.items), call.call))
    shown = calls[after : after + PAGE_SIZE]
    keys = [UUID(bytes=call.call) for call in shown]
    labels, stored = argument_labels(keys), find_stored(keys)
    return RecallCallsPage(
        report=report,
        tool=tool,
        budget=budget,
        column=column,
        rows=tuple(_build_call_row(report, call, labels, stored, budget, column) for call in shown),
        first=after,
        total=len(calls),
        next_href=params.url(after=after + PAGE_SIZE) if after + PAGE_SIZE < len(calls) else "",
        problems=tuple(params.problems),
    )


def _build_call_row(
    report: RecallReport,
    call: RecalledCall,
    labels: Mapping[UUID, str],
    stored: Collection[UUID],
    budget: int,
    column: str,
) -> RecallCallRow:
    key = UUID(bytes=call.call)
    score = call.scores.get(budget, {}).get(column)
    return RecallCallRow(
        href=reverse("recall-call", args=[report.pk, key]) if key in stored else "",
        tool=call.tool,
        arguments=labels.get(key, ""),
        items=len(call.items),
        kept="" if score is None else f"{score.kept.bit_count()} of {len(call.items)}",
        tokens=round(call.size / CHARACTERS_PER_TOKEN),
    )


@dataclass(frozen=True, kw_only=True)
class QuotedLine:
    """`number` counts from 1. `text` is None where the receipt is no longer stored; `length` is that of the line."""

    number: int
    text: str | None
    length: int

    @property
    def is_cut(self) -> bool:
        return self.length > LINE_SHOWN


@dataclass(frozen=True, kw_only=True)
class ShownItem:
    """`keepers` are the columns that keep the item, by budget, for budgets that the output passes."""

    lines: tuple[QuotedLine, ...]
    step: str
    step_href: str
    step_line: int
    keepers: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class RecallCallPage:
    """`items` are the first LISTED_ITEMS of the output; `unlisted` others follow."""

    report: RecallReport
    call: Call
    arguments: str
    tokens: int
    items: tuple[ShownItem, ...]
    total: int

    @property
    def unlisted(self) -> int:
        return self.total - len(self.items)


def load_recall_call(report: RecallReport, call: Call) -> RecallCallPage | None:
    """None for a call of which the report has no item."""
    results = load_recall_results(report).calls if report.is_finished else ()
    recalled = next((row for row in results if row.call == call.pk.bytes), None)
    if recalled is None:
        return None
    lines = _load_lines(call)
    return RecallCallPage(
        report=report,
        call=call,
        arguments=argument_labels([call.pk]).get(call.pk, ""),
        tokens=round(recalled.size / CHARACTERS_PER_TOKEN),
        items=tuple(
            _show_item(call, recalled, item, number, lines)
            for number, item in enumerate(recalled.items[: settings.LISTED_ITEMS])
        ),
        total=len(recalled.items),
    )


def _load_lines(call: Call) -> Sequence[str]:
    """The lines of the output that the call's own run had first, masked before a page has some of them alone."""
    outputs = load_outputs(call.run_id, call=call)
    return mask_text(join_texts(outputs[0])).split("\n") if outputs else ()


def _show_line(line: int, lines: Sequence[str]) -> QuotedLine:
    text = lines[line] if line < len(lines) else None
    return QuotedLine(number=line + 1, text=text and text[:LINE_SHOWN], length=len(text or ""))


def _show_item(call: Call, recalled: RecalledCall, item: QuotedItem, number: int, lines: Sequence[str]) -> ShownItem:
    is_message = item.used_by.kind == "message"
    model_view = f"{reverse('run-context', args=[call.run_id])}?message={item.used_by.key}"
    return ShownItem(
        lines=tuple(_show_line(line, lines) for line in item.lines),
        step="a message of the model" if is_message else "the arguments of a call",
        step_href=model_view if is_message else reverse("call-detail", args=[item.used_by.key]),
        step_line=item.used_by.line,
        keepers=tuple(
            (budget, tuple(column for column, score in columns.items() if score.kept >> number & 1))
            for budget, columns in sorted(recalled.scores.items())
        ),
    )
