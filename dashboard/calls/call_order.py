"""The order of the calls that a filter finds, and where a page of them begins and ends.

A filter that at most COUNTED_CALLS calls meet is answered with their ids, from an index with the columns of filters;
they are then sorted. For any other filter the index of the sort is walked until the page is full. A cursor is the
value of the sort and the id of a call. Calls without a value are last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q

from dashboard.filters.language import NEWEST, Query
from dashboard.models import Call, Project
from dashboard.models.fields import CompactUUIDField, StoredID, read_stored_id
from dashboard.models.runs import CallQuerySet
from dashboard.search.match import PayloadSearch
from envelopes.text.deadline import current_deadline

MOST_READ = 400  # calls whose texts are looked at together
SORTS = {"newest": "started_at", "took": "took_ms", "tokens": "tokens", "unseen": "unseen_lines"}
NULLABLE = ("started_at", "took_ms")
CursorValue: TypeAlias = datetime | int | None
Cursor: TypeAlias = tuple[CursorValue, UUID]  # of a call at the edge of a page: its value in the sort, its id


class CallSelection(NamedTuple):
    """The calls that are `found` by the filter; `matching` as in CallTable.

    `newest` has the ids of all of them as stored, or of at most the newest COUNTED_CALLS + 1; none where they were not
    counted.
    Ids and times are converted only where they are needed: for a thousand calls that takes longer than the query.
    """

    found: CallQuerySet
    matching: int | None
    newest: Sequence[bytes | UUID] = ()

    @property
    def is_small(self) -> bool:
        """True where `newest` has the ids of all."""
        return self.matching is not None and self.matching <= settings.COUNTED_CALLS

    def contains(self, key: UUID) -> bool:
        if not self.is_small:
            return self.found.filter(pk=key).exists()
        return CompactUUIDField().get_db_prep_value(key, connection) in self.newest

    def calls(self) -> CallQuerySet:
        """The same calls, a few of them by their ids."""
        calls = self.found
        if self.is_small:
            calls = Call.objects.filter(pk__in=[read_stored_id(key) for key in self.newest])
        return calls.with_own_time()

    def continue_newest(self, cursor: Cursor | None, size: int) -> list[Cursor] | None:
        """The `size` newest calls behind the cursor, found by their ids; None where they have to be searched for."""
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


def select_listed(query: Query, project: Project, *, is_counted: bool) -> CallSelection:
    """The order leads SQLite to the index that has the columns of filters."""
    calls = query.calls_in(project)
    if not is_counted:
        return CallSelection(calls, None)
    ordered, most = calls.order_by("-started_at", "-id"), settings.COUNTED_CALLS + 1
    if not connection.features.nulls_order_largest:
        newest = list(ordered.values_list(StoredID("pk"), flat=True)[:most])
        return CallSelection(calls, len(newest), newest)
    # Such a database has calls without a time first, also in its index; the list has them last.
    rows = list(ordered.values_list(StoredID("pk"), "started_at")[:most])
    dated = [key for key, at in rows if at is not None]
    undated = [key for key, at in rows if at is None]
    return CallSelection(calls, len(rows), [*dated, *undated] if len(rows) < most else dated)


class Window(NamedTuple):
    """The cursors of the calls of a page, in the order of the page, and where the pages beside it begin."""

    edges: Sequence[Cursor]
    before: Cursor | None
    after: Cursor | None


def load_window(
    calls: CallSelection, column: str, edge: Cursor | None, size: int, search: PayloadSearch, *, is_backward: bool
) -> Window:
    """The page behind `edge`, or before it. One call more than it shows is read, to learn whether there are more."""
    if is_backward:
        edges, stop = load_matching(calls, column, edge, size + 1, search, is_backward=True)
        if len(edges) > size or stop:
            shown = edges[:size][::-1]
            return Window(shown, stop if len(edges) <= size else shown[0], shown[-1] if shown else edge)
    # What is before the first page's end is the first page.
    start = None if is_backward else edge
    edges, stop = load_matching(calls, column, start, size + 1, search, is_backward=False)
    return Window(
        edges[:size],
        edges[0] if start and edges else None,
        edges[size - 1] if len(edges) > size else stop,
    )


def load_matching(
    calls: CallSelection, column: str, cursor: Cursor | None, size: int, search: PayloadSearch, *, is_backward: bool
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
    selection: CallSelection, column: str, cursor: Cursor | None, size: int, *, is_backward: bool
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


def find_cursor(call: Call, column: str) -> Cursor:
    return call.own_ms if column == SORTS["took"] else getattr(call, column), call.pk


def find_earlier(selection: CallSelection, column: str, cursor: Cursor) -> tuple[int, UUID | None]:
    """The number of the call at the cursor, 0 behind the first COUNTED_CALLS, and the call before it."""
    most = settings.COUNTED_CALLS
    stored = CompactUUIDField().get_db_prep_value(cursor[1], connection)
    if column == SORTS[NEWEST] and cursor[0] is not None and stored in selection.newest:
        number = selection.newest.index(stored) + 1
        before = read_stored_id(selection.newest[number - 2]) if number > 1 else None
        return (number if number <= most else 0), before
    edges = _load_edges(selection, column, cursor, most, is_backward=True)
    return (0 if len(edges) == most else len(edges) + 1), edges[0][1] if edges else None


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


def format_cursor(edge: Cursor) -> str:
    value, key = edge
    text = value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)
    return f"{text}~{key.hex}"
