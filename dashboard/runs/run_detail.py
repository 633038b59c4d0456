"""The page of one run, and the panel beside the list that peeks at one.

The page has the run's facts, the overview, one page of calls, and the filter as text and as chips. The panel is opened
by `peek=<run id>` in the address of the list, whose filter, sort and page stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec
from django.conf import settings

from dashboard.evidence.argument_labels import label_calls, unless_repeated
from dashboard.evidence.execution import ExecutionFact, build_run_execution, find_rerun_of
from dashboard.evidence.remarks import RemarkList, load_remarks
from dashboard.filters.keys import STATES
from dashboard.filters.language import MAX_CHARACTERS, Query, parse
from dashboard.filters.syntax import Term
from dashboard.models import Call, Project, Run, Source
from dashboard.models.plans import find_asking
from dashboard.models.runs import FAILED
from dashboard.models.sources import SENT
from dashboard.runs.overview import OutcomeStrip, RunOverview, build_strip, load_overview
from dashboard.runs.replay import AS_RECORDED, ReplaySwitch, replace_tokens
from dashboard.runs.waterfall import (
    CallRowPage,
    ChildRunRow,
    ChildRuns,
    RowSelection,
    load_call_rows,
    load_child_runs,
    parse_row_cursor,
)
from dashboard.text.params import Params, parse_integer
from dashboard.text.text_markup import printable
from envelopes.text.untrusted_json import Untrusted, parse_json

MAX_PLAN_CHARACTERS = 16_000
CHIP_KINDS = ("state", "author", "family", "tool")
OPEN_CHIPS = 8  # of a kind; the rest is folded
MAX_SOURCES = 20
REAL_TIME = "real"  # of the axis; "squeezed" was its other word, and is what a page shows without one
MAX_VARIANT_CHARACTERS = 64
MAX_PEEKED_CALLS = 4  # in each of the two lists


class RunDetailParams(Params):
    """The page that an address names.

    Without `after` and `skip` the page starts at the first call, or in a live run with the last ones. `since` is
    the revision that a polling page has; it is in no link.
    """

    def __init__(self, query: Mapping[str, str]) -> None:
        super().__init__(query)
        self.q = self.text("q", longest=MAX_CHARACTERS + 1)
        self.is_real_time = self.choice("time", ("", REAL_TIME), default="") == REAL_TIME
        self.variant = self.text("with", longest=MAX_VARIANT_CHARACTERS)
        self.after = self.text("after")
        self.skip = self.integer("skip", default=None)
        self.since = parse_integer(query.get("since"))

    def filter_url(self, text: str) -> str:
        """The same page with another filter, from its first row."""
        return self.url(q=text, after=None, skip=None)


@dataclass(frozen=True, slots=True)
class FilterChip:
    value: str
    number: int
    url: str
    is_on: bool


@dataclass(frozen=True, slots=True)
class ChipGroup:
    kind: str
    open: tuple[FilterChip, ...]
    folded: tuple[FilterChip, ...]


@dataclass(frozen=True)
class RunPage:
    """`matching` calls meet the filter. `loose` children name no call of this run. Urls are query strings."""

    run: Run
    params: RunDetailParams
    query: Query
    overview: RunOverview
    calls: CallRowPage
    matching: int
    chips: tuple[ChipGroup, ...]
    sources: tuple[Source, ...]
    child_count: int
    child_failed_count: int
    loose: tuple[ChildRunRow, ...]
    plan: str
    is_plan_whole: bool
    rerun_of: str
    execution: tuple[ExecutionFact, ...]
    remarks: RemarkList
    switch: ReplaySwitch
    waiting: int  # calls that are not counted yet
    asking: UUID | None  # the run whose plan waits for a confirmation: this one or a child

    @property
    def hints(self) -> list[str]:
        """Names in the filter that occur nowhere in the project, where no call matches."""
        return [] if self.matching else self.query.hints(self.run.project)

    @property
    def has_lost_cursor(self) -> bool:
        """True when the cursor in the address cannot be read: the rows are the first ones then."""
        return bool(self.params.after) and parse_row_cursor(self.params.after) is None

    @property
    def is_live(self) -> bool:
        return self.run.is_live

    @property
    def poll_url(self) -> str:
        return self.params.url(since=self.run.revision)

    @property
    def axis_url(self) -> str:
        """The page with the other axis."""
        return self.params.url(time="" if self.params.is_real_time else REAL_TIME)

    @property
    def next_url(self) -> str:
        return self.params.url(after=self.calls.next_cursor, skip=None)

    @property
    def top_url(self) -> str:
        return self.params.url(after=None, skip=0)

    @property
    def clear_url(self) -> str:
        return self.params.filter_url("")

    @property
    def failed_url(self) -> str:
        return self.params.filter_url("status:failed")


@dataclass(frozen=True, slots=True)
class PeekedCall:
    """`summary` is the kind of error where there is no summary; either may be empty."""

    url: str
    tool: str
    label: str
    summary: str
    tokens: int


@dataclass(frozen=True)
class Peek:
    """`run` is None when the address names none of the project's runs."""

    close_url: str
    run: Run | None = None
    strip: OutcomeStrip | None = None
    failed: Sequence[PeekedCall] = ()
    biggest: Sequence[PeekedCall] = ()

    @property
    def title(self) -> str:
        return printable(str(self.run)) if self.run else ""

    @property
    def last_at(self) -> datetime | None:
        return (self.run.ended_at or self.run.last_at) if self.run else None


def is_unchanged(run: Run, params: RunDetailParams) -> bool:
    """True when a polling page has the newest revision; of a run that is over, it must still learn that."""
    return params.since is not None and params.since >= run.revision and run.is_live


def load_run_page(run: Run, params: RunDetailParams, switch: ReplaySwitch = AS_RECORDED) -> RunPage:
    query = parse(params.q, over="calls")
    overview = load_overview(run, is_squeezed=not params.is_real_time)
    matching = query.calls(run).count() if query else run.call_count
    children = load_child_runs(run)
    calls = _load_calls(run, params, query, matching, overview, children)
    plan = _format_plan(run)
    return RunPage(
        run=run,
        params=params,
        query=query,
        overview=overview,
        calls=replace_tokens(calls, switch),
        matching=matching,
        chips=tuple(_load_chips(run, query, params)),
        sources=_load_sources(run),
        child_count=len(children.all),
        child_failed_count=sum(child.failed_count for child in children.all),
        loose=children.rows_without_call(run, overview.axis),
        plan=plan[:MAX_PLAN_CHARACTERS],
        is_plan_whole=len(plan) <= MAX_PLAN_CHARACTERS,
        rerun_of=find_rerun_of(run),
        execution=build_run_execution(run),
        remarks=load_remarks(run),
        switch=switch,
        waiting=run.count_waiting(),
        asking=find_asking([run]).get(run.pk),
    )


def _load_sources(run: Run) -> tuple[Source, ...]:
    """Each file once: the run.json of an executor is written anew with the confirmation and the end of its run.

    What a program sent in many batches is one of them.
    """
    rows = Source.objects.filter(runs=run).only("path", "format").order_by("id")[: 3 * MAX_SOURCES]
    names = {SENT if source.name == SENT else source.path: source for source in rows}
    return tuple(names.values())[:MAX_SOURCES]


def _load_calls(
    run: Run, params: RunDetailParams, query: Query, matching: int, overview: RunOverview, children: ChildRuns
) -> CallRowPage:
    if query.problems:
        return CallRowPage()
    if params.skip is not None:
        skip = min(params.skip, max(0, matching - 1))
    else:
        skip = max(0, matching - settings.ROWS_PER_PAGE) if run.is_live else 0
    # The steps are walked with the same filter.
    selection = RowSelection(query, matching, params.after, skip, params={"q": params.q} if params.q else {})
    return load_call_rows(run, selection, overview.axis, children)


def _load_chips(run: Run, query: Query, params: RunDetailParams) -> Iterable[ChipGroup]:
    facets = run.facets.filter(kind__in=CHIP_KINDS).order_by("-count", "value").values_list("kind", "value", "count")
    chips: dict[str, list[FilterChip]] = {kind: [] for kind in CHIP_KINDS}
    for kind, value, number in facets:
        if value and (kind != "state" or value in STATES):
            url = params.filter_url(query.toggled(kind, value))
            chips[kind].append(FilterChip(value, number, url, Term(kind, value) in query))
    for kind, all_chips in chips.items():
        if all_chips:
            yield ChipGroup(kind, tuple(all_chips[:OPEN_CHIPS]), tuple(all_chips[OPEN_CHIPS:]))


def _format_plan(run: Run) -> str:
    """The recorded plan, laid out for reading."""
    if not run.plan:
        return ""
    raw = bytes(run.plan)
    try:
        value = parse_json(raw)
        return value if isinstance(value, str) else msgspec.json.format(raw, indent=2).decode()
    except (Untrusted, msgspec.DecodeError, ValueError):
        return raw.decode("utf-8", "backslashreplace")


def load_peek(project: Project, run_id: UUID | None, close_url: str) -> Peek:
    """Three queries, however many calls the run has; at most one for a run that the project does not have."""
    run = project.runs.defer("plan", "document").filter(pk=run_id).first() if run_id else None
    if run is None:
        return Peek(close_url)
    calls = Call.objects.in_run_with_ordinals(run)
    failed = list(calls.filter(FAILED)[:MAX_PEEKED_CALLS])
    biggest = list(calls.filter(tokens__gt=0).order_by("-tokens", "memberships__ordinal", "id")[:MAX_PEEKED_CALLS])
    labels = label_calls((*failed, *biggest), run.cwd)
    return Peek(close_url, run, build_strip(run), _peeked(run, failed, labels), _peeked(run, biggest, labels))


def _peeked(run: Run, calls: Sequence[Call], labels: Mapping[UUID, str]) -> list[PeekedCall]:
    rows = []
    for call in calls:
        summary = printable(call.summary or call.error_kind)
        label = unless_repeated(labels.get(call.pk, ""), summary)
        url = f"{call.get_absolute_url()}?run={run.pk}"
        rows.append(PeekedCall(url, printable(call.tool), label, summary, call.tokens))
    return rows
