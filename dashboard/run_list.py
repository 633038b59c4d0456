"""The Runs page: one row a run from metadata only, the same filter as text, facets and presets.

A page is 50 rows after a cursor (sort value, id), never an offset: a page deep in the list costs what
the first one does, and a row that arrives meanwhile shifts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard.columns import instant
from dashboard.models import Project, Run
from dashboard.query import Query, parse
from dashboard.run_facets import FacetGroup, facet_groups
from dashboard.run_row import COLUMNS, HEADS, Head, RunRow, run_row

PAGE = 50
SORTS = {
    "newest": "sort_at",
    "calls": "call_count",
    "failed": "failed_count",
    "cut": "cut_count",
    "tokens": "token_count",
    "duration": "duration_ms",
}
NEWEST = "newest"


@dataclass(frozen=True)
class Preset:
    """A question asked often. Bookmarks hold the id: it is never renamed or given to another question."""

    id: str
    label: str
    query: str
    sort: str = NEWEST


PRESETS = (
    Preset("all", "All runs", ""),
    Preset("errors", "Errors", "status:failed"),
    Preset("cut", "Cut before the model", "cut:yes"),
    Preset("biggest", "Biggest receipts", "", "tokens"),
    Preset("unanswered", "Unanswered", "status:unanswered"),
    Preset("disagree", "Sources disagree", "state:disagree"),
)
PRESET_BY_ID = {preset.id: preset for preset in PRESETS}


@dataclass(frozen=True)
class Choice:
    """A link that sets a part of the list's address."""

    label: str
    href: str
    is_current: bool


@dataclass(frozen=True)
class Column:
    head: Head
    href: str  # sorts by it; empty when that cannot be
    is_current: bool


@dataclass(frozen=True)
class ListState:
    """What the address says: filter, sort, cursor, and the digest of the rows that the reader has."""

    text: str
    sort: str
    after: str
    seen: str

    @classmethod
    def from_address(cls, parameters: Mapping[str, str]) -> ListState:
        preset = PRESET_BY_ID.get(parameters.get("preset", ""))
        text = parameters.get("q", preset.query if preset else "").strip()
        sort = parameters.get("sort", preset.sort if preset else NEWEST)
        return cls(
            text,
            sort if sort in SORTS else NEWEST,
            parameters.get("after", ""),
            parameters.get("seen", ""),
        )

    def address(self, **changes: str) -> str:
        """The query string of this list with `changes`; a changed filter or sort starts at its first page."""
        kept = {"q": self.text, "sort": "" if self.sort == NEWEST else self.sort} | changes
        return "?" + urlencode({name: value for name, value in kept.items() if value})


@dataclass(frozen=True)
class RunPage:
    state: ListState
    query: Query
    problems: Sequence[str]
    rows: Sequence[RunRow]
    columns: Sequence[Column]
    presets: Sequence[Choice]
    digest: str
    next_href: str
    first_href: str
    poll_href: str
    clear_href: str
    hides_children: bool
    with_children_href: str
    size: int = PAGE

    @property
    def footnote(self) -> str:
        """How much of the list is shown; the whole is not counted, because nobody asked."""
        if not self.rows:
            return ""
        runs = "1 run" if len(self.rows) == 1 else f"{len(self.rows)} runs"
        more = "more follow" if self.next_href else "the list ends here"
        return f"{runs}, {more}."

    @property
    def is_first_run(self) -> bool:
        """Nothing was asked, and there is nothing."""
        return not self.rows and not self.query and not self.state.after


def run_page(project: Project, state: ListState) -> RunPage:
    query = parse(state.text)
    position, problem = _position(state)
    runs = list(_after(query.runs(project), state.sort, position).only(*COLUMNS)[: PAGE + 1])
    now = timezone.now()
    rows = [run_row(run, now) for run in runs[:PAGE]]
    digest = _digest(runs[:PAGE], rows)
    has_live = any(row.status == "live" for row in rows)
    return RunPage(
        state=state,
        query=query,
        problems=(*query.problems, *problem),
        rows=rows,
        columns=[_column(state, head) for head in HEADS],
        presets=[_preset_choice(preset, state) for preset in PRESETS],
        digest=digest,
        next_href=state.address(after=_cursor(runs[PAGE - 1], state.sort)) if len(runs) > PAGE else "",
        first_href=state.address() if state.after else "",
        clear_href=state.address(q=""),
        poll_href=state.address(after=state.after, seen=digest) if has_live else "",
        hides_children=not any(term.kind == "child" or term.value == "child" for term in query.terms),
        with_children_href=state.address(q=query.toggled("child", "any")),
    )


def sidebar(project: Project, page: RunPage) -> list[FacetGroup]:
    return facet_groups(project, page.query, lambda text: page.state.address(q=text))


def _column(state: ListState, head: Head) -> Column:
    href = state.address(sort="" if head.sort == NEWEST else head.sort) if head.sort else ""
    return Column(head, href, state.sort == head.sort)


def _preset_choice(preset: Preset, state: ListState) -> Choice:
    is_current = (preset.query, preset.sort) == (state.text, state.sort)
    return Choice(preset.label, f"?preset={preset.id}", is_current)


def _after(runs: QuerySet[Run], sort: str, position: tuple[object, UUID] | None) -> QuerySet[Run]:
    """One bound on the sort column, then the tie: an OR of both would keep the databases off the index."""
    column = SORTS[sort]
    ordered = runs.order_by(f"-{column}", "-id")
    if position is None:
        return ordered
    value, key = position
    return ordered.filter(**{f"{column}__lte": value}).exclude(Q(**{column: value}) & Q(id__gte=key))


def _cursor(run: Run, sort: str) -> str:
    value = getattr(run, SORTS[sort])
    return f"{value.isoformat() if isinstance(value, datetime) else value}~{run.pk.hex}"


def _position(state: ListState) -> tuple[tuple[object, UUID] | None, tuple[str, ...]]:
    if not state.after:
        return None, ()
    value, _, key = state.after.partition("~")
    try:
        return (_sort_value(value, state.sort), UUID(key)), ()
    except ValueError:
        return None, ("This address names a place in the list that does not exist; these are the first runs.",)


def _sort_value(text: str, sort: str) -> object:
    if sort != NEWEST:
        number = int(text[:20])
        if abs(number) >= 2**63:
            raise ValueError("no such number is stored")
        return number
    at = instant(text)
    if at is None:
        raise ValueError("no such stamp is stored")
    return at


def _digest(runs: Sequence[Run], rows: Sequence[RunRow]) -> str:
    """Changes with any change of a shown run; its status too, which time alone changes."""
    parts = [f"{row.id}{run.revision}{row.status}" for run, row in zip(runs, rows, strict=True)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=9).hexdigest()
