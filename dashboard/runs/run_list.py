"""The Runs page: one row a run from metadata only, the same filter as text, facets and presets.

A page starts behind a cursor (sort value, id), never at an offset: a page deep in the list costs what the first one
does, and a row that arrives meanwhile shifts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypedDict
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from dashboard.accounts import DEMO_PROJECT
from dashboard.filters import queryset
from dashboard.filters.language import NEWEST, Preset, PresetLink, Query, link_presets, parse
from dashboard.filters.saved_views import describe_missing_view, find_view
from dashboard.filters.syntax import And, Or
from dashboard.models import Project, Run, SavedView
from dashboard.models.notes import RowMarks, load_row_marks
from dashboard.models.plans import find_asking
from dashboard.runs.overview import OutcomeStrip, build_strip
from dashboard.search.match import describe_unsearchable
from dashboard.text.formatting import (
    TOKENS_COUNTED_BY,
    column_time,
    format_age,
    format_count,
    format_duration,
    format_tokens,
)
from dashboard.text.params import parse_integer
from dashboard.text.text_markup import printable

SORTS = {
    "newest": "sort_at",
    "calls": "call_count",
    "failed": "failed_count",
    "cut": "cut_count",
    "tokens": "token_count",
    "duration": "duration_ms",
}
# What a row is built from; a whole run has twice as many columns, and reading them takes a tenth of the page's time.
LISTED_FIELDS = (
    *("title", "external_id", "agent", "model", "source_format", "parent_id"),
    *("started_at", "ended_at", "last_at", "lease_until", "asks_until", "strip"),
    *(
        "call_count",
        "failed_count",
        "refused_count",
        "cut_count",
        "unanswered_count",
        "token_count",
        "token_certainty",
        "duration_ms",
    ),
    *("sort_at", "revision"),
)
Cursor: TypeAlias = tuple[object, UUID]  # of the last row that was shown: its value in the sort, its id


@dataclass(frozen=True)
class ColumnHead:
    """The head of a column of numbers; one without a `sort` cannot be sorted by."""

    label: str
    sort: str
    title: str
    is_wide: bool = False


COLUMN_HEADS = (
    ColumnHead("Calls", "calls", "Calls, inherited ones included"),
    ColumnHead("Failed", "failed", "Calls that failed"),
    ColumnHead("Cut", "cut", "Calls of whose output the model got a part"),
    ColumnHead("Unanswered", "", "Calls that nothing answered"),
    ColumnHead(
        "Tokens",
        "tokens",
        f"Tokens that the model got, {TOKENS_COUNTED_BY}; of texts alone, images are not counted; ≈ marks an estimate",
        is_wide=True,
    ),
    ColumnHead("Duration", "duration", "From the first stamp to the last", is_wide=True),
    ColumnHead("Age", "newest", "Since the run began; of a recording without times, since its import"),
)


class RunRow(TypedDict):
    """A dict, because templates look up keys first: a page has 1,200 of these values."""

    id: str
    url: str
    peek_url: str
    title: str
    agent: str
    model: str
    source: str
    status: str
    status_word: str  # what fits into the column
    confirmation_url: str  # of a run that waits for it
    is_child: bool
    marks: RowMarks | None
    strip: OutcomeStrip
    calls: str
    calls_label: str
    failed: str
    cut: str
    unanswered: str
    tokens: str
    duration: str
    sort_at: str
    is_dated: bool  # False: the recording has no times, and `sort_at` is that of the import
    age: str


PRESETS = (
    Preset("all", "All runs", "Every run but those of subagents", ""),
    Preset("errors", "Errors", "A call failed or timed out", "status:failed"),
    Preset("today", "Errors in 24 h", "Errors in runs of the last 24 hours", "status:failed age:<1d"),
    Preset("refused", "Refused", "A person or a rule refused a call", "outcome:refused"),
    Preset("cut", "Cut before the model", "The model got a part of an output", "cut:yes"),
    Preset("biggest", "Biggest receipts", "Most tokens first", "", "tokens"),
    # Uses the `state:retried` facet written at import; no join on calls.
    Preset("retried", "Retried", "A call was tried more than once", "state:retried"),
    Preset("unanswered", "Unanswered", "A call has no result in the recording", "status:unanswered"),
    Preset("halves", "Error flag wrong", "A success was flagged as an error, or a failure was not", "state:halves"),
    Preset("disagree", "Logs disagree", "Two recordings of one call differ", "state:disagree"),
    Preset("drifted", "Drifted", "A receipt that was sent would be written otherwise today", "state:drifted"),
    Preset("dropped", "Context dropped unexplained", "Tokens left the context; nothing says why", "context:uncertain"),
)
PRESET_BY_ID = {preset.id: preset for preset in PRESETS}


class SortColumn(NamedTuple):
    """`url` sorts by the column; empty when that is not possible."""

    head: ColumnHead
    url: str
    is_current: bool


@dataclass(frozen=True)
class RunListParams:
    """The list that an address names. `seen` is the digest of the rows that a polling page has."""

    text: str
    sort: str = NEWEST
    after: str = ""
    seen: str = ""
    problems: tuple[str, ...] = ()

    @classmethod
    def from_query(cls, query: Mapping[str, str], views: Sequence[SavedView] = ()) -> RunListParams:
        """`q` and `sort` of the address, else those of its preset or saved view."""
        view, preset, sort = query.get("view", ""), query.get("preset", ""), query.get("sort", "")
        start = find_view(views, view) if view else PRESET_BY_ID.get(preset)
        text = query.get("q", start.query if start else "").strip()
        problems = []
        if view and start is None:
            problems.append(describe_missing_view(text, "runs"))
        if preset and preset not in PRESET_BY_ID:
            problems.append(f"There is no preset “{preset[:40]}”; these are the runs without it.")
        if sort and sort not in SORTS:
            problems.append(f"There is no sort “{sort[:40]}”; the newest are first.")
        sort = sort or (start.sort if start else NEWEST)
        return cls(
            text,
            sort if sort in SORTS else NEWEST,
            query.get("after", ""),
            query.get("seen", ""),
            tuple(problems),
        )

    def url(self, **changes: str) -> str:
        """The query string of this list with `changes`; without an `after` it is the first page."""
        values = {"q": self.text, "sort": self.sort} | changes
        if values["sort"] == NEWEST:
            del values["sort"]
        return "?" + urlencode({name: value for name, value in values.items() if value})

    def filter_url(self, text: str) -> str:
        """The query string of the list with another filter, in the same order."""
        return self.url(q=text)

    @property
    def page_url(self) -> str:
        """The query string of this page, without a peek beside it."""
        return self.url(after=self.after)


def describe_waiting(count: int) -> str:
    """A sentence for calls whose evidence is stored and whose columns are derived later."""
    return "1 call is being counted." if count == 1 else f"{count:,} calls are being counted."


@dataclass(frozen=True)
class RunListPage:
    params: RunListParams
    query: Query
    problems: Sequence[str]
    rows: Sequence[RunRow]
    columns: Sequence[SortColumn]
    presets: Sequence[PresetLink]
    digest: str
    next_url: str
    first_url: str
    poll_url: str
    clear_url: str
    hides_children: bool
    with_children_url: str
    without_children_url: str
    size: int
    waiting: int  # calls of the project that are not counted yet
    unsearchable: str  # a sentence about calls that a search in payloads cannot find yet
    payloads: str  # the filter with its words searched in payloads, empty without words
    hints: Sequence[str]  # of an empty list: names in the filter that occur nowhere

    @property
    def footnote(self) -> str:
        """The number of rows shown, the whole list is not counted; and how many calls wait."""
        if not self.rows:
            return describe_waiting(self.waiting) if self.waiting else ""
        runs = "1 run" if len(self.rows) == 1 else f"{len(self.rows)} runs"
        more = "more follow" if self.next_url else "the list ends here"
        waiting = f" {describe_waiting(self.waiting)}" if self.waiting else ""
        return f"{runs}, {more}.{waiting}"

    @property
    def payloads_url(self) -> str:
        return self.params.filter_url(self.payloads)

    @property
    def is_empty_project(self) -> bool:
        return not self.rows and not self.query and not self.params.after


@dataclass(frozen=True, slots=True)
class FirstCut:
    """The call of the demo that a newcomer looks at first: `seen` of `lines` lines reached the model."""

    tool: str
    lines: str
    seen: str
    url: str


def find_first_cut(project: Project, query: Query) -> FirstCut | None:
    """The largest cut of the demo's recordings; None elsewhere and with a filter."""
    if project.slug != DEMO_PROJECT or query:
        return None
    cut = project.calls.filter(is_cut=True, seen_lines__gt=0)
    call = cut.order_by("-unseen_lines", "id").only("project_id", "tool", "output_lines", "seen_lines").first()
    if call is None:
        return None
    lines, seen = format_count(call.output_lines), format_count(call.seen_lines)
    return FirstCut(call.tool, lines, seen, call.get_absolute_url())


def build_run_list(project: Project, params: RunListParams, size: int = 0) -> RunListPage:
    """The page of `size` runs that the parameters name; without one of ROWS_PER_PAGE."""
    query = parse(params.text)
    cursor, problems = _parse_cursor(params)
    size = size or settings.ROWS_PER_PAGE
    runs = [] if query.problems else _load_runs(project, query.tree, params.sort, cursor, size + 1)
    has_more, runs = len(runs) > size, runs[:size]
    now = timezone.now()
    peek_url = f"{params.page_url}&peek=".replace("?&", "?")
    marks = load_row_marks("run", [run.pk for run in runs])
    asking = find_asking(runs)
    rows = [build_row(run, now, peek_url, marks.get(run.pk), asking.get(run.pk)) for run in runs]
    digest, waiting = _digest(runs, rows), project.calls.waiting().count()
    has_live = any(run.is_live for run in runs)
    has_children = any(row["is_child"] for row in rows)
    names_children = any("child" in (term.kind, term.value) for term in query.terms)
    return RunListPage(
        params=params,
        query=query,
        problems=(*query.problems, *problems, *params.problems),
        rows=rows,
        columns=[
            SortColumn(head, params.url(sort=head.sort) if head.sort else "", params.sort == head.sort)
            for head in COLUMN_HEADS
        ],
        presets=link_presets(PRESETS, params.text, params.sort),
        digest=digest,
        next_url=params.url(after=_format_cursor(runs[-1], params.sort)) if has_more else "",
        first_url=params.url() if params.after else "",
        poll_url=params.url(after=params.after, seen=digest) if has_live else "",
        clear_url=params.filter_url(""),
        hides_children=not queryset.includes_children(query.tree),
        with_children_url=params.filter_url(query.toggled("child", "any")),
        # Runs of subagents came with a filter that does not name them: the page offers to leave them out.
        without_children_url=params.filter_url(query.toggled("child", "no"))
        if has_children and not names_children
        else "",
        size=size,
        waiting=waiting,
        # A name whose calls wait occurs in no facet yet.
        hints=[] if rows or cursor or waiting else query.hints(project),
        unsearchable=describe_unsearchable(project) if query.payload_terms else "",
        payloads=query.in_payloads(),
    )


def _load_runs(project: Project, tree: And | Or, sort: str, cursor: Cursor | None, most: int) -> list[Run]:
    runs, is_small = queryset.select_runs(project, tree)
    column = SORTS[sort]
    if cursor:
        value, key = cursor
        # A bound on the sort column, then the tie: an OR of both would keep the databases off the index.
        runs = runs.filter(**{f"{column}__lte": value}).exclude(Q(**{column: value}) & Q(id__gte=key))
    # A small selection is sorted: the order of an index would tempt SQLite to walk the whole list for it.
    order = Coalesce(column, column) if is_small else F(column)
    return list(runs.only(*LISTED_FIELDS).order_by(order.desc(), "-id")[:most])


def _format_cursor(run: Run, sort: str) -> str:
    value = getattr(run, SORTS[sort])
    return f"{value.isoformat() if isinstance(value, datetime) else value}~{run.pk.hex}"


def _parse_cursor(params: RunListParams) -> tuple[Cursor | None, tuple[str, ...]]:
    """The cursor, and a sentence for one that cannot be read."""
    if not params.after:
        return None, ()
    text, _, key = params.after.partition("~")
    value = column_time(text) if params.sort == NEWEST else parse_integer(text)
    try:
        if value is not None:
            return (value, UUID(key)), ()
    except ValueError:
        pass
    return None, ("This address names a place in the list that does not exist; these are the first runs.",)


def _digest(runs: Sequence[Run], rows: Sequence[RunRow]) -> str:
    """Changes with any change of a shown run, and with its status, which changes with time alone."""
    parts = [f"{row['id']}{run.revision}{row['status']}{row['marks']}" for run, row in zip(runs, rows, strict=True)]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=9).hexdigest()


def build_row(run: Run, now: datetime, peek_url: str, marks: RowMarks | None, asking: UUID | None = None) -> RunRow:
    """`peek_url` is the address of the list up to the id of the run to peek at, `asking` the run to confirm, if any."""
    status = "a child run waits for confirmation" if asking not in (None, run.pk) else run.status
    return RunRow(
        id=run.pk.hex,
        url=f"/runs/{run.pk}/",  # to reverse 50 addresses takes as long as the query
        peek_url=peek_url + run.pk.hex,
        title=printable(str(run)),
        agent=printable(run.agent) or "–",
        model=printable(run.model),
        source=printable(run.source_format),
        status=status,
        status_word=status.removesuffix(" (no closing line)"),
        confirmation_url=f"/runs/{asking}/confirmation" if asking else "",
        is_child=run.parent_id is not None,
        marks=marks,
        strip=build_strip(run),
        calls=format_count(run.call_count),
        calls_label="call" if run.call_count == 1 else "calls",
        failed=_blank_zero(run.failed_count),
        cut=_blank_zero(run.cut_count),
        unanswered=_blank_zero(run.unanswered_count),
        tokens=format_tokens(run.token_count, run.token_certainty),
        duration=format_duration(run.recorded_duration_ms),
        sort_at=f"{run.sort_at:%Y-%m-%d %H:%M:%S}",
        is_dated=run.started_at is not None,
        # The list is in this order: "undated" alone would not say why such a run stands above newer ones.
        age=format_age(now - run.sort_at) if run.started_at else f"imported {format_age(now - run.sort_at)} ago",
    )


def _blank_zero(number: int) -> str:
    """A column of noughts would hide the number that matters."""
    return format_count(number) if number else ""
