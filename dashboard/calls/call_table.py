"""The Calls page: every call of a project as a row, across runs, from metadata only.

A page starts behind (`after`) or ends before (`before`) a cursor; `call_order` finds its calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import QueryDict
from django.utils import timezone

from dashboard.calls.call_columns import (
    COLUMNS,
    DEFAULT_COLUMNS,
    TableCall,
    TableCell,
    TableColumn,
    build_cells,
    choose_columns,
    describe_uncounted,
)
from dashboard.calls.call_export import FORMS, ExportForm
from dashboard.calls.call_order import NULLABLE, SORTS, Cursor, format_cursor, load_window, select_listed
from dashboard.filters.language import NEWEST, Preset, PresetLink, Query, link_presets, parse
from dashboard.filters.saved_views import describe_missing_view, find_view
from dashboard.ingest.run_stats import OUTCOMES, outcome_letter
from dashboard.models import Call, Project, Run, SavedView
from dashboard.models.notes import RowMarks, load_row_marks
from dashboard.models.outcomes import Outcome
from dashboard.search.match import PayloadSearch, RowHit
from dashboard.text.formatting import column_time
from dashboard.text.params import Params, parse_integer
from dashboard.text.text_markup import printable

SEARCH = "search"  # the page whose list of calls is the beginning of another one
LONGEST_LIST = 3_000  # characters of the parameter that names a list; the server takes addresses of 8,190
# What a row is built from; a whole call has twice as many columns.
LISTED_FIELDS = (
    *("run_id", "tool", "family", "outcome", "exit_status", "summary", "asked", "first_line", "error_kind"),
    *(
        "started_at",
        "duration_ms",
        "tool_ms",
        "is_waiting",
        "tokens",
        "token_certainty",
        "output_lines",
        "seen_lines",
        "is_cut",
    ),
    *("author", "receipt_fidelity", "result_fidelity", "attempt", "risk", "reason", "receipt_characters", "revision"),
    "derivation",
)
LISTED_RUN_FIELDS = ("title", "external_id", "cwd", "agent", "model", "branch", "ended_at", "last_at", "lease_until")


PRESETS = (
    Preset("all", "All calls", "Every call of every run", ""),
    Preset("failed", "Failed", "Calls that failed or timed out", "status:failed"),
    Preset("refused", "Refused", "Calls that a person or a rule refused", "outcome:refused"),
    Preset("cut", "Cut before the model", "The model got a part of the output", "cut:yes"),
    Preset("biggest", "Biggest receipts", "Most tokens first", "", "tokens"),
    Preset("slowest", "Slowest", "Longest first, by the tool's own time where that is known", "", "took"),
    Preset("retried", "Retried", "Second and later tries", "state:retried"),
    Preset("unanswered", "Unanswered", "Calls without a result in the recording", "status:unanswered"),
    Preset("halves", "Error flag wrong", "A success was flagged as an error, or a failure not", "state:halves"),
    Preset("dropped", "Context dropped unexplained", "In the context when tokens left it", "context:uncertain"),
)
PRESET_BY_ID = {preset.id: preset for preset in PRESETS}


class CallTableParams(Params):
    """The list that an address names. `seen` is the digest of the rows that a polling page has."""

    def __init__(self, query: QueryDict, views: Sequence[SavedView] = ()) -> None:
        super().__init__(query)
        view = query.get("view", "")
        preset = find_view(views, view) if view else PRESET_BY_ID.get(query.get("preset", ""))
        if view and preset is None:
            self.problems.append(describe_missing_view(query.get("q", ""), "calls"))
        elif query.get("preset") and preset is None:
            self.problems.append(f"There is no preset “{query['preset'][:40]}”; this is the list without it.")
        # The addresses of this list name what a preset or a view means, not the preset.
        self.q = self._remember("q", self.text("q", default=preset.query if preset else ""), "")
        self.sort = self._remember(
            "sort", self.choice("sort", (*SORTS,), default=preset.sort if preset else NEWEST), NEWEST
        )
        self.columns = self._read_columns(query.getlist("columns"))
        self.after = self.text("after")
        self.before = self.text("before")
        self.edge, self.is_backward = self._read_edge()
        self.seen = query.get("seen", "")

    def first_page_url(self, **changes: object) -> str:
        return self.url(**{"after": None, "before": None, **changes})

    def _read_columns(self, values: Sequence[str]) -> tuple[TableColumn, ...]:
        """`columns=` may be repeated, as a form writes it, or name several."""
        chosen, unknown = choose_columns({name for value in values for name in value.split(",") if name})
        self.problems += [f"There is no column “{name[:40]}”." for name in unknown[:1]]
        self._remember("columns", ",".join(column.name for column in chosen), ",".join(DEFAULT_COLUMNS))
        return chosen

    def _read_edge(self) -> tuple[Cursor | None, bool]:
        """The cursor, and whether the page ends before it."""
        text, _, key = (self.after or self.before).partition("~")
        if not text and not key:
            return None, False
        value = column_time(text) if self.sort == NEWEST else parse_integer(text)
        try:
            if value is not None or (not text and SORTS[self.sort] in NULLABLE):
                return (value, UUID(key)), not self.after
        except ValueError:
            pass
        self.problems.append("This address names a place in the list that does not exist; these are the first calls.")
        return None, False


class TableRow(TypedDict):
    """A call as it is written out. `outcome` is the mark of the stylesheet, `state` the words for it.

    Dicts, because templates look up keys first: a page has 2,000 of these values.
    """

    key: str
    url: str
    run_url: str
    tool: str
    outcome: str
    state: str
    start: str
    marks: RowMarks | None
    cells: Sequence[TableCell]
    hit: RowHit | None


class TableHead(NamedTuple):
    """`url` sorts by the column; empty when that is not possible."""

    column: TableColumn
    url: str
    is_current: bool


class ColumnChoice(NamedTuple):
    column: TableColumn
    is_chosen: bool


@dataclass(frozen=True)
class CallTable:
    params: CallTableParams
    query: Query
    problems: Sequence[str]
    hints: Sequence[str]  # of an empty list: names in the filter that occur nowhere
    rows: Sequence[TableRow]
    heads: Sequence[TableHead]
    presets: Sequence[PresetLink]
    matching: int | None  # COUNTED_CALLS + 1 for more than COUNTED_CALLS; None where only their texts tell
    digest: str
    next_url: str
    previous_url: str
    poll_url: str
    notes: Sequence[str]  # calls that the list may lack: not counted yet, or not looked at by a search in payloads
    is_stopped: bool  # before all calls were looked at, or while some are not counted yet

    @property
    def first_url(self) -> str:
        return self.params.first_page_url() if self.params.edge else ""

    @property
    def clear_url(self) -> str:
        return self.params.first_page_url(q=None)

    @property
    def choices(self) -> list[ColumnChoice]:
        return [ColumnChoice(column, column in self.params.columns) for column in COLUMNS]

    @property
    def columns_value(self) -> str:
        return ",".join(column.name for column in self.params.columns)

    @property
    def width(self) -> int:
        """Columns of the table, with that of the call."""
        return len(self.heads) + 1

    @property
    def has_own_columns(self) -> bool:
        return tuple(column.name for column in self.params.columns) != DEFAULT_COLUMNS

    @property
    def count(self) -> str:
        if self.matching is None:
            return "1 call on this page" if len(self.rows) == 1 else f"{len(self.rows)} calls on this page"
        if self.matching > settings.COUNTED_CALLS:
            return f"{settings.COUNTED_CALLS:,}+ calls"
        return "1 call" if self.matching == 1 else f"{self.matching:,} calls"

    @property
    def export_forms(self) -> Mapping[str, ExportForm]:
        return FORMS

    @property
    def is_empty_project(self) -> bool:
        return not (self.rows or self.query or self.params.edge)


def list_suffix(name: str) -> str:
    """`?list=…` for the addresses of calls: the list that they are opened from; empty for one that is too long."""
    suffix = f"?{urlencode({'list': name})}"
    return suffix if len(suffix) <= LONGEST_LIST else ""


def load_call_table(
    project: Project, params: CallTableParams, *, size: int | None = None, opened_from: str = ""
) -> CallTable:
    """The page of `size` calls that the parameters name; without one of ROWS_PER_PAGE, with hits of HITS_PER_PAGE.

    `opened_from` is the name of a list on another page.
    """
    query = parse(params.q, over="calls", reads_texts=True)
    search = PayloadSearch(project, query)
    # Before the rows are read, so that none is missing without a note.
    uncounted = describe_uncounted(project.calls.waiting().count())
    selection = select_listed(query, project, is_counted=not search.is_undecided)
    size = size or (min(settings.HITS_PER_PAGE, settings.ROWS_PER_PAGE) if search else settings.ROWS_PER_PAGE)
    window = load_window(selection, SORTS[params.sort], params.edge, size, search, is_backward=params.is_backward)
    table_calls = _load_table_calls([key for _, key in window.edges])
    marks = load_row_marks("call", [row.call.pk for row in table_calls])
    digest = _digest(table_calls, marks, uncounted)
    is_live = any(row.run.is_live for row in table_calls)
    suffix = list_suffix(opened_from or f"calls{params.first_page_url()}".rstrip("?"))
    return CallTable(
        params=params,
        query=query,
        problems=(*query.problems, *params.problems),
        # A name whose calls wait occurs in no facet yet.
        hints=[] if table_calls or params.edge or uncounted else query.hints(project),
        rows=[_build_row(row, params.columns, search, marks.get(row.call.pk), suffix) for row in table_calls],
        heads=[
            TableHead(
                column, params.first_page_url(sort=column.sort) if column.sort else "", column.sort == params.sort
            )
            for column in params.columns
        ],
        presets=link_presets(PRESETS, params.q, params.sort),
        matching=selection.matching,
        digest=digest,
        next_url=params.first_page_url(after=format_cursor(window.after)) if window.after else "",
        previous_url=params.first_page_url(before=format_cursor(window.before)) if window.before else "",
        notes=[*([uncounted] if uncounted else ()), *(search.describe_progress() if search else ())],
        is_stopped=search.is_stopped or bool(uncounted),
        poll_url=params.url(seen=digest) if is_live else "",
    )


def _load_table_calls(keys: Sequence[UUID]) -> list[TableCall]:
    calls = Call.objects.only(*LISTED_FIELDS).in_bulk(keys)
    runs = Run.objects.only(*LISTED_RUN_FIELDS).in_bulk({call.run_id for call in calls.values()})
    now = timezone.now()
    return [TableCall(calls[key], runs[calls[key].run_id], now) for key in keys if key in calls]


def _build_row(
    row: TableCall, columns: Sequence[TableColumn], search: PayloadSearch, marks: RowMarks | None, suffix: str
) -> TableRow:
    """`suffix` names the list in the addresses of the call."""
    call, run = row.call, row.run
    hit = search.build_hit(call) if search else None
    if hit and hit["url"] and suffix:
        hit["url"] += f"&{suffix[1:]}"
    is_running = bool(call.derivation) and call.outcome == Outcome.UNANSWERED and run.is_live
    return TableRow(
        key=call.pk.hex,
        url=f"/calls/{call.pk}/{suffix}",  # to reverse 50 addresses takes as long as the query
        run_url=f"/runs/{run.pk}/",
        tool=printable(call.tool) or "not recorded",
        outcome=OUTCOMES[outcome_letter(call) if call.derivation else "u"].name,
        state="running" if is_running else call.outcome_words,
        start=f"{call.started_at:%Y-%m-%d %H:%M:%S}" if call.started_at else "",
        marks=marks,
        cells=build_cells(row, columns),
        hit=hit,
    )


def _digest(rows: Sequence[TableCall], marks: Mapping[UUID, RowMarks], uncounted: str) -> str:
    """Changes with any change of a shown call, and with what changes with time alone."""
    parts = [
        f"{row.call.pk.hex}{row.call.revision}{row.run.is_live}{row.run.title}{marks.get(row.call.pk)}" for row in rows
    ]
    return hashlib.blake2b("\n".join([*parts, uncounted]).encode(), digest_size=9).hexdigest()
