"""What the page of one run shows: its facts, the overview, one page of rows, and the filter's two editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode
from uuid import UUID

import msgspec
from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import Http404

from dashboard.filters.language import STATES, Query, Term, parse
from dashboard.models import Project, Run, RunFacet, Source
from dashboard.prepared import given, instance, names_of, prepared
from dashboard.runs.child_runs import Children, ChildRun, children_of
from dashboard.runs.overview import Overview, overview_of
from dashboard.runs.variant_switch import AS_RECORDED, VariantSwitch, with_tokens
from dashboard.runs.waterfall import NOTHING, Page, RowsAsked, in_order, page_of, place_of
from envelopes.text.untrusted_json import Untrusted, parse_json

PLAN_CHARACTERS = 16_000
CHIPS = ("state", "family", "tool")
CHIPS_OPEN = 8  # of a kind; the rest is folded
SOURCES_SHOWN = 20
SQUEEZED = "squeezed"


@dataclass(frozen=True, slots=True)
class Ask:
    """What the address asks for. Neither `after` nor `skip`: where one starts, the tail of a live run."""

    q: str = ""
    after: str = ""
    skip: int | None = None
    since: int | None = None
    is_squeezed: bool = False
    under: str = ""  # the variant whose receipts are weighed instead of the recorded ones

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Ask:
        return cls(
            q=str(given.get("q", "")).strip(),
            after=str(given.get("after", "")),
            skip=_number(given.get("skip")),
            since=_number(given.get("since")),
            is_squeezed=given.get("time") == SQUEEZED,
            under=str(given.get("with", ""))[:64],
        )

    def url(self, **changes: str) -> str:
        """The query string of this page with other values; an empty one is left out."""
        skip = "" if self.skip is None else str(self.skip)
        time = SQUEEZED if self.is_squeezed else ""
        kept = {"q": self.q, "time": time, "with": self.under, "after": self.after, "skip": skip}
        parts = kept | changes
        return "?" + urlencode({name: value for name, value in parts.items() if value})

    @property
    def model_query(self) -> str:
        return urlencode({"with": self.under})

    def filter_url(self, text: str) -> str:
        """The same page with another filter, from its first row."""
        written = [f"q={quote_plus(text)}"] if text else []
        written += [f"time={SQUEEZED}"] if self.is_squeezed else []
        return "?" + "&".join(written + ([urlencode({"with": self.under})] if self.under else []))


class Chip(NamedTuple):
    kind: str
    value: str
    number: int
    url: str
    is_on: bool


class ChipGroup(NamedTuple):
    kind: str
    chips: tuple[Chip, ...]
    folded: tuple[Chip, ...]


class FileRead(NamedTuple):
    """A file that the run was read from."""

    path: str
    format: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class RunPage:
    """`matching` calls fulfil the filter. `loose` children name no call of this run. Urls are query strings."""

    run: Run
    ask: Ask
    query: Query
    overview: Overview
    calls: Page
    matching: int
    chips: tuple[ChipGroup, ...]
    sources: tuple[FileRead, ...]
    child_count: int
    child_failed_count: int
    loose: tuple[ChildRun, ...]
    plan: str
    plan_is_whole: bool
    polls: bool
    switch: VariantSwitch

    @property
    def is_lost(self) -> bool:
        """Whether the address names a place that is none: the rows are the first ones then."""
        return bool(self.ask.after) and place_of(self.ask.after) is None

    @property
    def poll_url(self) -> str:
        return self.ask.url(since=str(self.run.revision))

    @property
    def squeeze_url(self) -> str:
        return self.ask.url(time="" if self.ask.is_squeezed else SQUEEZED)

    @property
    def next_url(self) -> str:
        return self.ask.url(after=self.calls.next_cursor, skip="")

    @property
    def top_url(self) -> str:
        return self.ask.url(after="", skip="0")

    @property
    def clear_url(self) -> str:
        return self.ask.filter_url("")

    @property
    def failed_url(self) -> str:
        return self.ask.filter_url("status:failed")


RUN, PARENT = names_of(Run), names_of(Run, "parent__")
OF_RUN = given("run", Run, "id")


@prepared
def _run_with_parent() -> QuerySet[Any, Any]:
    found = Run.objects.filter(pk=OF_RUN, project=given("project", Run, "project"))
    return found.values_list(*RUN, *PARENT)


@prepared
def _sources() -> QuerySet[Any, Any]:
    return Source.objects.filter(runs=OF_RUN).order_by("id").values_list(*FileRead._fields)[:SOURCES_SHOWN]


@prepared
def _facets() -> QuerySet[Any, Any]:
    found = RunFacet.objects.filter(run=OF_RUN, kind__in=CHIPS).order_by("-count", "value")
    return found.values_list("kind", "value", "count")


def run_or_404(project: Project, pk: UUID) -> Run:
    """With its parent. A run of another project is not found."""
    rows = _run_with_parent(run=pk, project=project.pk)
    if not rows:
        raise Http404
    run = instance(Run, rows[0][: len(RUN)])
    run.parent = instance(Run, rows[0][len(RUN) :]) if run.parent_id else None
    return run


def is_unchanged(run: Run, ask: Ask) -> bool:
    """Nothing to send to a page that polls; a run that is over must still be told so."""
    return ask.since is not None and ask.since >= run.revision and run.is_live


def run_page(run: Run, ask: Ask, switch: VariantSwitch = AS_RECORDED) -> RunPage:
    query = parse(ask.q, over="calls")
    overview = overview_of(run, squeezed=ask.is_squeezed)
    matching = query.calls(run).count() if query else run.call_count
    children = children_of(run)
    suffix = "?" + urlencode({"from": "run", "run": str(run.pk), "q": ask.q})  # the list that j and k walk there
    rows = RowsAsked(query.terms, matching, ask.after, _skipped(run, ask, matching), suffix)
    found = NOTHING if query.problems else page_of(run, rows, overview.axis, children)
    plan, is_whole = _plan(run)
    return RunPage(
        run=run,
        ask=ask,
        query=query,
        overview=overview,
        calls=with_tokens(found, switch),
        matching=matching,
        chips=tuple(_chips(run, query, ask)),
        sources=tuple(map(FileRead._make, _sources(run=run.pk))),
        child_count=len(children.all),
        child_failed_count=sum(child.failed_count for child in children.all),
        loose=_loose(run, children, overview) if children.top else (),
        plan=plan,
        plan_is_whole=is_whole,
        polls=run.is_live,
        switch=switch,
    )


def _skipped(run: Run, ask: Ask, matching: int) -> int:
    """Rows in front of the page when no cursor says it: none, or in a live run all but the last page."""
    if ask.skip is not None:
        return min(ask.skip, max(0, matching - 1))
    return max(0, matching - settings.ROWS_PER_PAGE) if run.is_live else 0


def _number(text: object) -> int | None:
    """A count from the address bar; None for anything else."""
    given = str(text)
    return int(given) if given.isdecimal() and len(given) < 19 else None


def _loose(run: Run, children: Children, overview: Overview) -> tuple[ChildRun, ...]:
    """Child runs that no call here starts: the page lists them below the rows, so that none is lost."""
    starts = Q(pk__in=[child.parent_call for child in children.top if child.parent_call])
    starts |= Q(child_run__in=[child.pk for child in children.top])
    found = {key for pair in in_order(run).filter(starts).values_list("pk", "child_run") for key in pair}
    loose = [child for child in children.top if not found & {child.pk, child.parent_call} - {None}]
    return tuple(one for child in loose for one in children.drawn(child, overview.axis))


def _chips(run: Run, query: Query, ask: Ask) -> Iterable[ChipGroup]:
    facets = [facet for facet in _facets(run=run.pk) if facet[0] != "state" or facet[1] in STATES]
    for kind in CHIPS:
        own = [_chip(Term(kind, value), number, query, ask) for of, value, number in facets if of == kind]
        if own:
            yield ChipGroup(kind, tuple(own[:CHIPS_OPEN]), tuple(own[CHIPS_OPEN:]))


def _chip(term: Term, number: int, query: Query, ask: Ask) -> Chip:
    url = ask.filter_url(query.toggled(term.kind, term.value))
    return Chip(term.kind, term.value, number, url, term in query)


def _plan(run: Run) -> tuple[str, bool]:
    """The recorded plan, laid out for reading, and whether that is all of it."""
    if not run.plan:
        return "", True
    raw = bytes(run.plan)
    try:
        value = parse_json(raw)
        text = value if isinstance(value, str) else msgspec.json.format(raw, indent=2).decode()
    except (Untrusted, msgspec.DecodeError, ValueError):
        text = raw.decode("utf-8", "backslashreplace")
    return text[:PLAN_CHARACTERS], len(text) <= PLAN_CHARACTERS
