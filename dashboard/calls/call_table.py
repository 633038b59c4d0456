"""The Calls page: every call of a project as a row, across runs, from metadata only.

A filter that at most COUNTED_CALLS calls meet is answered with their ids, from an index with the columns of filters;
they are then sorted. For any other filter the index of the sort is walked until the page is full. A page starts
behind (`after`) or ends before (`before`) a cursor: the value of the sort and the id of a call. Calls without a value
are last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q
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
from dashboard.filters.language import NEWEST, Preset, PresetLink, Query, link_presets, parse
from dashboard.filters.saved_views import describe_missing_view, find_view
from dashboard.ingest.run_stats import OUTCOMES, outcome_letter
from dashboard.models import Call, Project, Run, SavedView
from dashboard.models.fields import CompactUUIDField, StoredID, read_stored_id
from dashboard.models.notes import RowMarks, load_row_marks
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import CallQuerySet
from dashboard.search.match import PayloadSearch, RowHit
from dashboard.text.formatting import column_time
from dashboard.text.params import Params, parse_integer
from dashboard.text.text_markup import printable
from envelopes.text.deadline import current_deadline

MOST_READ = 400  # calls whose texts are looked at together
SORTS = {"newest": "started_at", "took": "duration_ms", "tokens": "tokens", "unseen": "unseen_lines"}
NULLABLE = ("started_at", "duration_ms")
# What a row is built from; a whole call has twice as many columns.
LISTED_FIELDS = (
    *("run_id", "tool", "family", "outcome", "exit_status", "summary", "asked", "first_line", "error_kind"),
    *("started_at", "duration_ms", "is_waiting", "tokens", "token_certainty", "output_lines", "seen_lines", "is_cut"),
    *("author", "receipt_fidelity", "result_fidelity", "attempt", "risk", "reason", "receipt_characters", "revision"),
    "derivation",
)
LISTED_RUN_FIELDS = ("title", "external_id", "cwd", "agent", "model", "branch", "ended_at", "last_at", "lease_until")
CursorValue: TypeAlias = datetime | int | None
Cursor: TypeAlias = tuple[CursorValue, UUID]  # of a call at the edge of a page: its value in the sort, its id


PRESETS = (
    Preset("all", "All calls", "Every call of every run", ""),
    Preset("failed", "Failed", "Calls that failed or timed out", "status:failed"),
    Preset("refused", "Refused", "Calls that a person or a rule refused", "outcome:refused"),
    Preset("cut", "Cut before the model", "The model got a part of the output", "cut:yes"),
    Preset("biggest", "Biggest receipts", "Most tokens first", "", "tokens"),
    Preset("slowest", "Slowest", "Longest first, waits for a person included", "", "took"),
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


def load_call_table(project: Project, params: CallTableParams, *, size: int | None = None) -> CallTable:
    """The page of `size` calls that the parameters name; without one of ROWS_PER_PAGE, with hits of HITS_PER_PAGE."""
    query = parse(params.q, over="calls", reads_texts=True)
    search = PayloadSearch(project, query)
    # Before the rows are read, so that none is missing without a note.
    uncounted = describe_uncounted(project.calls.waiting().count())
    selection = _select_calls(query, project, is_counted=not search.is_undecided)
    size = size or (min(settings.HITS_PER_PAGE, settings.ROWS_PER_PAGE) if search else settings.ROWS_PER_PAGE)
    window = _load_window(selection, params, size, search)
    table_calls = _load_table_calls([key for _, key in window.edges])
    marks = load_row_marks("call", [row.call.pk for row in table_calls])
    digest = _digest(table_calls, marks, uncounted)
    is_live = any(row.run.is_live for row in table_calls)
    return CallTable(
        params=params,
        query=query,
        problems=(*query.problems, *params.problems),
        # A name whose calls wait occurs in no facet yet.
        hints=[] if table_calls or params.edge or uncounted else query.hints(project),
        rows=[_build_row(row, params.columns, search, marks.get(row.call.pk)) for row in table_calls],
        heads=[
            TableHead(
                column, params.first_page_url(sort=column.sort) if column.sort else "", column.sort == params.sort
            )
            for column in params.columns
        ],
        presets=link_presets(PRESETS, params.q, params.sort),
        matching=selection.matching,
        digest=digest,
        next_url=params.first_page_url(after=_format_cursor(window.after)) if window.after else "",
        previous_url=params.first_page_url(before=_format_cursor(window.before)) if window.before else "",
        notes=[*([uncounted] if uncounted else ()), *(search.describe_progress() if search else ())],
        is_stopped=search.is_stopped or bool(uncounted),
        poll_url=params.url(seen=digest) if is_live else "",
    )


class _Selection(NamedTuple):
    """The calls that are `found` by the filter; `matching` as in CallTable.

    `newest` has the ids of all of them as stored, or of the newest COUNTED_CALLS + 1; none where they were not counted.
    Ids and times are converted only where they are needed: for a thousand calls that takes longer than the query.
    """

    found: CallQuerySet
    matching: int | None
    newest: Sequence[bytes | UUID] = ()

    @property
    def is_small(self) -> bool:
        """True where `newest` has the ids of all."""
        return self.matching is not None and self.matching <= settings.COUNTED_CALLS

    def calls(self) -> CallQuerySet:
        """The same calls, a few of them by their ids."""
        if not self.is_small:
            return self.found
        return Call.objects.filter(pk__in=[read_stored_id(key) for key in self.newest])

    def continue_newest(self, cursor: Cursor | None, size: int) -> list[Cursor] | None:
        """The `size` newest calls behind the cursor, found by their ids; None where they have to be searched for.

        Databases have calls without a time at different ends.
        """
        stored = None if cursor is None else CompactUUIDField().get_db_prep_value(cursor[1], connection)
        if stored is not None and stored not in self.newest:
            return None
        start = 0 if stored is None else self.newest.index(stored) + 1
        keys = [read_stored_id(key) for key in self.newest[start : start + size]]
        if len(keys) < size and not self.is_small:
            return None
        times = dict(Call.objects.filter(pk__in=keys).values_list("pk", "started_at"))
        edges: list[Cursor] = [(times.get(key), key) for key in keys]
        return edges if all(value is not None for value, _ in edges) else None


def _select_calls(query: Query, project: Project, *, is_counted: bool) -> _Selection:
    """The order leads SQLite to the index that has the columns of filters."""
    calls = query.calls_in(project)
    if not is_counted:
        return _Selection(calls, None)
    keys = calls.order_by("-started_at", "-id").values_list(StoredID("pk"), flat=True)
    newest = list(keys[: settings.COUNTED_CALLS + 1])
    return _Selection(calls, len(newest), newest)


class _Window(NamedTuple):
    """The cursors of the calls of a page, in the order of the page, and where the pages beside it begin."""

    edges: Sequence[Cursor]
    before: Cursor | None
    after: Cursor | None


def _load_window(calls: _Selection, params: CallTableParams, size: int, search: PayloadSearch) -> _Window:
    """One call more than a page shows is read, to learn whether there are more."""
    column = SORTS[params.sort]
    if params.is_backward:
        edges, stop = _load_matching(calls, column, params.edge, size + 1, search, is_backward=True)
        if len(edges) > size or stop:
            shown = edges[:size][::-1]
            return _Window(shown, stop if len(edges) <= size else shown[0], shown[-1] if shown else params.edge)
    # What is before the first page's end is the first page.
    start = None if params.is_backward else params.edge
    edges, stop = _load_matching(calls, column, start, size + 1, search, is_backward=False)
    return _Window(
        edges[:size],
        edges[0] if start and edges else None,
        edges[size - 1] if len(edges) > size else stop,
    )


def _load_matching(
    calls: _Selection, column: str, cursor: Cursor | None, size: int, search: PayloadSearch, *, is_backward: bool
) -> tuple[list[Cursor], Cursor | None]:
    """The same as `_load_edges`, of calls whose texts match; and how far it came when the time was over before that."""
    if not search:
        return _load_edges(calls, column, cursor, size, is_backward=is_backward), None
    matching: list[Cursor] = []
    portion, looked = size, 0
    while True:
        edges = _load_edges(calls, column, cursor, portion, is_backward=is_backward)
        chosen = search.select_matching([key for _, key in edges])
        matching += [edge for edge in edges if edge[1] in chosen]
        if len(edges) < portion or len(matching) >= size:
            return matching[:size], None
        cursor = edges[-1]
        if current_deadline().is_over:
            search.is_stopped = True
            return matching, cursor
        looked += portion
        rest = (size - len(matching)) * looked // len(matching) if matching else looked  # as many as match so far
        portion = min(max(rest + rest // 2, size), 4 * portion, MOST_READ)


def _load_edges(
    selection: _Selection, column: str, cursor: Cursor | None, size: int, *, is_backward: bool
) -> list[Cursor]:
    """At most `size` cursors from the given one on: of calls with a value, the largest first, then of the others."""
    if column == SORTS[NEWEST] and not is_backward:
        known = selection.continue_newest(cursor, size)
        if known is not None:
            return known
    parts = [True, False] if column in NULLABLE else [True]
    if is_backward:
        parts.reverse()
    if cursor:
        parts = parts[parts.index(cursor[0] is not None) :]
    edges: list[Cursor] = []
    for position, has_value in enumerate(parts):
        part = selection.calls().filter(**{f"{column}__isnull": not has_value})
        start = cursor if position == 0 else None
        edges += _load_part(part, column if has_value else "", start, size - len(edges), is_backward=is_backward)
        if len(edges) == size:
            break
    return edges


def _load_part(
    calls: CallQuerySet, column: str, cursor: Cursor | None, size: int, *, is_backward: bool
) -> list[Cursor]:
    """Calls in the order of `column`, or of their ids alone without one."""
    beyond, sign = ("gt", "") if is_backward else ("lt", "-")
    if cursor and column:
        value, key = cursor
        # A bound on the sort, then the tie: an OR of both would keep the databases off the index.
        calls = calls.filter(**{f"{column}__{beyond}e": value})
        calls = calls.exclude(Q(**{column: value}) & ~Q(**{f"id__{beyond}": key}))
    elif cursor:
        calls = calls.filter(**{f"id__{beyond}": cursor[1]})
    names = [name for name in (column, "id") if name]
    rows = calls.order_by(*(f"{sign}{name}" for name in names)).values_list(*names)[:size]
    return [(row[0] if column else None, row[-1]) for row in rows]


def _format_cursor(edge: Cursor) -> str:
    value, key = edge
    text = value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)
    return f"{text}~{key.hex}"


def _load_table_calls(keys: Sequence[UUID]) -> list[TableCall]:
    calls = Call.objects.only(*LISTED_FIELDS).in_bulk(keys)
    runs = Run.objects.only(*LISTED_RUN_FIELDS).in_bulk({call.run_id for call in calls.values()})
    now = timezone.now()
    return [TableCall(calls[key], runs[calls[key].run_id], now) for key in keys if key in calls]


def _build_row(
    row: TableCall, columns: Sequence[TableColumn], search: PayloadSearch, marks: RowMarks | None
) -> TableRow:
    call, run = row.call, row.run
    is_running = bool(call.derivation) and call.outcome == Outcome.UNANSWERED and run.is_live
    return TableRow(
        key=call.pk.hex,
        url=f"/calls/{call.pk}/",  # to reverse 50 addresses takes as long as the query
        run_url=f"/runs/{run.pk}/",
        tool=printable(call.tool) or "not recorded",
        outcome=OUTCOMES[outcome_letter(call) if call.derivation else "u"].name,
        state="running" if is_running else call.outcome_words,
        start=f"{call.started_at:%Y-%m-%d %H:%M:%S}" if call.started_at else "",
        marks=marks,
        cells=build_cells(row, columns),
        hit=search.build_hit(call) if search else None,
    )


def _digest(rows: Sequence[TableCall], marks: Mapping[UUID, RowMarks], uncounted: str) -> str:
    """Changes with any change of a shown call, and with what changes with time alone."""
    parts = [
        f"{row.call.pk.hex}{row.call.revision}{row.run.is_live}{row.run.title}{marks.get(row.call.pk)}" for row in rows
    ]
    return hashlib.blake2b("\n".join([*parts, uncounted]).encode(), digest_size=9).hexdigest()
