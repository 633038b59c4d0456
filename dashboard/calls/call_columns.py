"""The columns of the Calls page, of which a reader chooses some, and how their cells are written.

A call whose evidence is stored and not derived yet has the cells of RECORDED columns; the others would claim that it
has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypedDict

from dashboard.evidence.argument_labels import show_first_line, show_label
from dashboard.evidence.fidelity import describe_seen_lines
from dashboard.models import Call, Run
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import ReceiptAuthor
from dashboard.text.formatting import (
    MINUTE,
    TOKENS_COUNTED_BY,
    format_age,
    format_count,
    format_duration,
    format_tokens,
)
from dashboard.text.text_markup import printable

RECORDED = ("run", "when", "took", "attempt", "agent", "model", "branch")  # columns that nothing is derived for


class TableCell(TypedDict):
    name: str
    label: str
    text: str
    kind: str  # number, text, or the name of a column that is written in another way


class TableCall(NamedTuple):
    call: Call
    run: Run
    now: datetime


@dataclass(frozen=True)
class TableColumn:
    """A column that a reader can choose; one with a `sort` can be sorted by.

    `text` makes a cell; `kind` is number, text, or the name of a column with another markup.
    """

    name: str
    label: str
    title: str
    text: Callable[[TableCall], str]
    sort: str = ""
    kind: str = "text"

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "when")


COLUMNS = (
    TableColumn(
        "asked",
        "Asked",
        "The argument that names the call",
        lambda row: show_label(row.call.asked, row.run.cwd),
    ),
    TableColumn(
        "answer",
        "Came back",
        "The first line of what came back; of a failed call, what failed",
        lambda row: show_first_line(_answer(row.call), row.run.cwd),
    ),
    TableColumn("run", "Run", "The run that made the call", lambda row: printable(str(row.run)), kind="run"),
    TableColumn("when", "Age", "Since the call began", lambda row: _format_start(row), "newest", kind="when"),
    TableColumn(
        "took",
        "Took",
        "The tool's own time; where that is not known, the time until the answer. A wait for a person is named",
        lambda row: _format_took(row.call),
        "took",
        kind="number",
    ),
    TableColumn(
        "tokens",
        "Tokens",
        f"Tokens of the receipt, {TOKENS_COUNTED_BY}; ≈ marks an estimate",
        lambda row: _format_tokens(row.call),
        "tokens",
        kind="number",
    ),
    TableColumn(
        "cut",
        "Model saw",
        "Lines of a cut output that reached the model",
        lambda row: _format_seen(row.call),
        "unseen",
        kind="number",
    ),
    TableColumn(
        "waited",
        "Waited",
        "The rest of the time until the answer: a person, hooks, the agent itself",
        lambda row: "" if row.call.wait_ms is None else format_duration(row.call.wait_ms),
        kind="number",
    ),
    TableColumn("summary", "Summary", "The sentence of the canonical result", lambda row: printable(row.call.summary)),
    TableColumn("error", "Error", "The kind of the error", lambda row: printable(row.call.error_kind)),
    TableColumn("family", "Family", "The family that reads the tool", lambda row: printable(row.call.family)),
    TableColumn("attempt", "Try", "Number of the try", lambda row: format_count(row.call.attempt), kind="number"),
    TableColumn(
        "characters",
        "Characters",
        "Characters of the receipt",
        lambda row: format_count(row.call.receipt_characters),
        kind="number",
    ),
    TableColumn("author", "Written by", "Who wrote the receipt", lambda row: _describe_author(row.call)),
    TableColumn("risk", "Risk", "Risk level, as an executor recorded it", lambda row: printable(row.call.risk)),
    TableColumn("reason", "Stopped by", "Why it was stopped before it ran", lambda row: printable(row.call.reason)),
    TableColumn("agent", "Agent", "The agent of the run", lambda row: printable(row.run.agent)),
    TableColumn("model", "Model", "The model of the run", lambda row: printable(row.run.model)),
    TableColumn("branch", "Branch", "The branch that the run worked on", lambda row: printable(row.run.branch)),
)
DEFAULT_COLUMNS = ("asked", "answer", "run", "when", "took", "tokens", "cut")


def build_cells(row: TableCall, columns: Sequence[TableColumn]) -> list[TableCell]:
    shown = [bool(row.call.derivation) or column.name in RECORDED for column in columns]
    return [
        TableCell(name=column.name, label=column.label, text=column.text(row) if is_shown else "", kind=column.kind)
        for column, is_shown in zip(columns, shown, strict=True)
    ]


def describe_uncounted(count: int) -> str:
    """A sentence for a list of calls, of which so many wait for their columns; empty without any."""
    if count <= 1:
        return "1 call is being counted: until then filters and sorts may miss it." if count else ""
    return f"{count:,} calls are being counted: until then filters and sorts may miss them."


def _answer(call: Call) -> str:
    """The summary of a failure, whose first line is often the exit status alone; else the first line."""
    is_failed = call.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
    return call.summary if is_failed and call.summary else call.first_line or call.summary


def _format_tokens(call: Call) -> str:
    return format_tokens(call.tokens, call.token_certainty) if call.has_tokens else "–"


def describe_took(call: Call) -> str:
    """`3.2 s`, or `waited 2 min` for a call of which only the wait for a person is known; empty where nothing is."""
    if call.is_waiting and call.wait_ms is not None:
        return f"waited {format_duration(call.wait_ms)}"
    return "" if call.own_ms is None else format_duration(call.own_ms)


def _format_took(call: Call) -> str:
    """The column has no room for the seconds of a long wait."""
    if call.is_waiting and (call.wait_ms or 0) >= MINUTE:
        return f"waited {format_age(timedelta(milliseconds=call.wait_ms or 0))}"
    return describe_took(call) or "–"


def _format_seen(call: Call) -> str:
    """`235 of ≥3,188`: the column has no room for the words."""
    seen = describe_seen_lines(call).removesuffix(" lines").replace("at least ", "≥").replace("at most ", "≤")
    seen = seen.replace("less than ", "<").replace("no whole line of", "0 of")
    return (seen or "a part") if call.is_cut else ""


def _format_start(row: TableCall) -> str:
    return format_age(row.now - row.call.started_at) if row.call.started_at else "–"


def _describe_author(call: Call) -> str:
    return ReceiptAuthor(call.author).label if call.author else "the tool"


def choose_columns(names: Collection[str]) -> tuple[tuple[TableColumn, ...], list[str]]:
    """The columns of these names in our order, the default ones without any, and the names that no column has."""
    unknown = sorted(set(names) - {column.name for column in COLUMNS})
    chosen = tuple(column for column in COLUMNS if column.name in names)
    return chosen or tuple(column for column in COLUMNS if column.name in DEFAULT_COLUMNS), unknown
