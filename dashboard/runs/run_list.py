"""The Runs page: one row a run from metadata only, the same filter as text, facets and presets.

A page is 50 rows after a cursor (sort value, id), never an offset: a page deep in the list costs what
the first one does, and a row that arrives meanwhile shifts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from dashboard.filters import queryset
from dashboard.filters.language import Query, Term, parse
from dashboard.models import Project
from dashboard.runs.facets import FacetGroup, facet_groups
from dashboard.runs.run_row import HEADS, Head, Listed, RunRow, run_row
from dashboard.runs.saved_views import View, asked_view
from dashboard.text.column_values import column_time

SORTS = {
    "newest": "sort_at",
    "calls": "call_count",
    "failed": "failed_count",
    "cut": "cut_count",
    "tokens": "token_count",
    "duration": "duration_ms",
}
NEWEST = "newest"
Position: TypeAlias = tuple[object, UUID]  # of the last row that was shown: its value in the sort, its id


@dataclass(frozen=True)
class Preset:
    """A question asked often. Bookmarks hold the id: it is never renamed or given to another question."""

    id: str
    label: str
    means: str
    query: str
    sort: str = NEWEST


PRESETS = (
    Preset("all", "All runs", "Every run but those of subagents", ""),
    Preset("errors", "Errors", "A call failed", "status:failed"),
    Preset("cut", "Cut before the model", "The model got a part of an output", "cut:yes"),
    Preset("biggest", "Biggest receipts", "Most tokens first", "", "tokens"),
    # By a facet that the import writes for a run with a call whose attempt is above 1: no call is looked at.
    Preset("retried", "Retried", "A call was tried more than once", "state:retried"),
    Preset("unanswered", "Unanswered", "A call has no result in the recording", "status:unanswered"),
    Preset(
        "halves", "Halves disagree", "The model was told of a failure where there was none, or of none", "state:halves"
    ),
    Preset("disagree", "Sources disagree", "Two recordings of one call say different things", "state:disagree"),
    Preset("drifted", "Drifted", "A receipt that was sent would be written otherwise today", "state:drifted"),
)
PRESET_BY_ID = {preset.id: preset for preset in PRESETS}


class Choice(NamedTuple):
    """A link that sets a part of the list's address."""

    label: str
    href: str
    is_current: bool
    key: str  # of the keyboard
    means: str


class Column(NamedTuple):
    head: Head
    href: str  # sorts by it; empty when that cannot be
    is_current: bool

    @property
    def unsorted(self) -> str:
        """Its label where that is no link."""
        return "" if self.href else self.head.label


@dataclass(frozen=True)
class ListState:
    """What the address says: filter, sort, cursor, the digest of the rows that the reader has, a run to peek at."""

    text: str
    sort: str
    after: str
    seen: str
    peek: str = ""  # the run beside the list, as it was asked for
    is_view_unknown: bool = False
    unknown: tuple[str, ...] = ()  # what the address names that there is not

    @classmethod
    def from_address(cls, parameters: Mapping[str, str], views: Sequence[View] = ()) -> ListState:
        asked = parameters.get("view", "")
        start = asked_view(views, asked) if asked else PRESET_BY_ID.get(parameters.get("preset", ""))
        text = parameters.get("q", start.query if start else "").strip()
        sort = parameters.get("sort", start.sort if start else NEWEST)
        return cls(
            text,
            sort if sort in SORTS else NEWEST,
            parameters.get("after", ""),
            parameters.get("seen", ""),
            parameters.get("peek", ""),
            is_view_unknown=bool(asked) and start is None,
            unknown=_unknown(parameters),
        )

    def address(self, **changes: str) -> str:
        """The query string of this list with `changes`; a changed filter or sort starts at its first page."""
        kept = {"q": self.text, "sort": "" if self.sort == NEWEST else self.sort} | changes
        return "?" + urlencode({name: value for name, value in kept.items() if value})

    @property
    def without_peek(self) -> str:
        """The query string of the page as it is, with nothing beside it."""
        return self.address(after=self.after)

    def filtered(self, text: str) -> str:
        """The query string of the list by another filter, in the same order."""
        written = [f"q={quote_plus(text)}"] if text else []
        return "?" + "&".join(written + ([] if self.sort == NEWEST else [f"sort={self.sort}"]))


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
    without_children_href: str
    size: int

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
    runs = [] if query.problems else _listed(project, query.terms, state.sort, position)
    size = settings.ROWS_PER_PAGE
    now = timezone.now()
    peek = f"{state.without_peek}&peek=".replace("?&", "?")
    rows = [run_row(run, now, peek) for run in runs[:size]]
    digest = _digest(runs[:size], rows)
    has_live = any(row.status == "live" for row in rows)
    return RunPage(
        size=size,
        state=state,
        query=query,
        problems=(*query.problems, *problem, *_unknown_view(state), *state.unknown),
        rows=rows,
        columns=[_column(state, head) for head in HEADS],
        presets=[_preset_choice(preset, state, str(number)) for number, preset in enumerate(PRESETS, start=1)],
        digest=digest,
        next_href=state.address(after=_cursor(runs[settings.ROWS_PER_PAGE - 1], state.sort))
        if len(runs) > settings.ROWS_PER_PAGE
        else "",
        first_href=state.address() if state.after else "",
        clear_href=state.filtered(""),
        poll_href=state.address(after=state.after, seen=digest) if has_live else "",
        hides_children=not queryset.includes_children(query.terms),
        with_children_href=state.filtered(query.toggled("child", "any")),
        without_children_href=_without_children(state, query, rows),
    )


def _without_children(state: ListState, query: Query, rows: Sequence[RunRow]) -> str:
    """Where the runs of subagents came with a filter that says nothing of them; empty elsewhere."""
    is_said = any("child" in (term.kind, term.value) for term in query.terms)
    return state.filtered(query.toggled("child", "no")) if any(row.is_child for row in rows) and not is_said else ""


def _listed(project: Project, terms: tuple[Term, ...], sort: str, position: Position | None) -> list[Listed]:
    runs, is_small = queryset.select_runs(project, terms)
    column = SORTS[sort]
    if position:
        value, key = position
        # A bound on the sort column, then the tie: an OR of both would keep the databases off the index.
        runs = runs.filter(**{f"{column}__lte": value}).exclude(Q(**{column: value}) & Q(id__gte=key))
    # A small selection is sorted: the order of an index would tempt SQLite to walk the whole list for it.
    order = Coalesce(column, column) if is_small else F(column)
    rows = runs.order_by(order.desc(), "-id").values_list(*Listed._fields)
    return list(map(Listed._make, rows[: settings.ROWS_PER_PAGE + 1]))


def sidebar(project: Project, page: RunPage) -> list[FacetGroup]:
    return facet_groups(project, page.query, page.state.filtered)


def _column(state: ListState, head: Head) -> Column:
    href = state.address(sort="" if head.sort == NEWEST else head.sort) if head.sort else ""
    return Column(head, href, state.sort == head.sort)


def _preset_choice(preset: Preset, state: ListState, key: str) -> Choice:
    is_current = (preset.query, preset.sort) == (state.text, state.sort)
    return Choice(preset.label, f"?preset={preset.id}", is_current, key, preset.means)


def _cursor(run: Listed, sort: str) -> str:
    value = getattr(run, SORTS[sort])
    return f"{value.isoformat() if isinstance(value, datetime) else value}~{run.pk.hex}"


def _position(state: ListState) -> tuple[Position | None, tuple[str, ...]]:
    if not state.after:
        return None, ()
    value, _, key = state.after.partition("~")
    try:
        return (_sort_value(value, state.sort), UUID(key)), ()
    except ValueError:
        return None, ("This address names a place in the list that does not exist; these are the first runs.",)


def _unknown(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """What the address names that there is not: no part of it is dropped in silence."""
    asked = (
        ("preset", PRESET_BY_ID, "these are the runs without it"),
        ("sort", SORTS, "the newest are first"),
    )
    named = ((name, parameters.get(name, ""), known, instead) for name, known, instead in asked)
    return tuple(
        f"There is no {name} “{given[:40]}”; {instead}."
        for name, given, known, instead in named
        if given and given not in known
    )


def _unknown_view(state: ListState) -> tuple[str, ...]:
    said = "There is no such saved view, it may have been deleted; "
    return (
        (said + ("this is the list without it." if state.text else "these are all runs."),)
        if state.is_view_unknown
        else ()
    )


def _sort_value(text: str, sort: str) -> object:
    if sort != NEWEST:
        number = int(text[:20])
        if abs(number) >= 2**63:
            raise ValueError("no such number is stored")
        return number
    at = column_time(text)
    if at is None:
        raise ValueError("no such stamp is stored")
    return at


def _digest(runs: Sequence[Listed], rows: Sequence[RunRow]) -> str:
    """Changes with any change of a shown run; its status too, which time alone changes."""
    parts = [f"{row.id}{run.revision}{row.status}" for run, row in zip(runs, rows, strict=True)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=9).hexdigest()
