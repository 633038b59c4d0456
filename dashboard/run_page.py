"""What the page of one run shows: its facts, the overview, one page of rows, and the filter's two editors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.db.models import Q

from dashboard.models import Run, RunFacet, Source
from dashboard.query import Query, parse
from dashboard.run_overview import Overview, overview_of
from dashboard.waterfall import PAGE, ChildRun, Ordered, Page, child_of, in_order, page_of
from envelopes.untrusted import Untrusted, tame

PLAN_CHARACTERS = 16_000
CHIPS = ("state", "family", "tool")
CHIPS_OPEN = 8  # of a kind; the rest is folded
CALL_STATES = frozenset({"failed", "cut", "unanswered", "retried", "disagree"})  # the others are about runs
CHILDREN_SHOWN = 200
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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Ask:
        return cls(
            q=str(given.get("q", "")).strip(),
            after=str(given.get("after", "")),
            skip=_number(given.get("skip")),
            since=_number(given.get("since")),
            is_squeezed=given.get("time") == SQUEEZED,
        )

    def url(self, **changes: str) -> str:
        """The query string of this page with other values; an empty one is left out."""
        skip = "" if self.skip is None else str(self.skip)
        kept = {"q": self.q, "time": SQUEEZED if self.is_squeezed else "", "after": self.after, "skip": skip}
        parts = kept | changes
        return "?" + urlencode({name: value for name, value in parts.items() if value})


@dataclass(frozen=True, slots=True)
class Chip:
    kind: str
    value: str
    count: int
    url: str
    is_on: bool


@dataclass(frozen=True, slots=True)
class ChipGroup:
    kind: str
    chips: tuple[Chip, ...]
    folded: tuple[Chip, ...]


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
    sources: tuple[Source, ...]
    child_count: int
    loose: tuple[ChildRun, ...]
    plan: str
    plan_is_whole: bool
    polls: bool

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
        return self.ask.url(q="", after="", skip="")

    @property
    def failed_url(self) -> str:
        return self.ask.url(q=str(Query((), (), "calls").toggled("status", "failed")), after="", skip="")

    @property
    def call_suffix(self) -> str:
        """Behind a call's address: the list that j and k walk there."""
        return "?" + urlencode({"from": "run", "run": str(self.run.pk), "q": self.ask.q})


def is_unchanged(run: Run, ask: Ask) -> bool:
    """Nothing to send to a page that polls; a run that is over must still be told so."""
    return ask.since is not None and ask.since >= run.revision and run.is_live


def run_page(run: Run, ask: Ask) -> RunPage:
    query = parse(ask.q, over="calls")
    everything = in_order(parse("", over="calls").calls(run))
    overview = overview_of(run, everything, squeezed=ask.is_squeezed)
    calls = in_order(query.calls(run)) if query else everything
    matching = calls.count() if query else run.call_count
    children = list(run.children.order_by("started_at", "id")[:CHILDREN_SHOWN])
    page = page_of(
        calls,
        overview.axis,
        total=matching,
        after=ask.after,
        skip=_skipped(run, ask, matching),
        children=children,
        folder=run.cwd,
    )
    plan, is_whole = _plan(run)
    return RunPage(
        run=run,
        ask=ask,
        query=query,
        overview=overview,
        calls=page,
        matching=matching,
        chips=tuple(_chips(run, query, ask)),
        sources=tuple(Source.objects.filter(runs=run).order_by("id").only("path", "format")[:SOURCES_SHOWN]),
        child_count=len(children),
        loose=_loose(everything, children, overview),
        plan=plan,
        plan_is_whole=is_whole,
        polls=run.is_live,
    )


def _skipped(run: Run, ask: Ask, matching: int) -> int:
    """Rows in front of the page when no cursor says it: none, or in a live run all but the last page."""
    if ask.skip is not None:
        return min(ask.skip, matching)
    return max(0, matching - PAGE) if run.is_live else 0


def _number(text: object) -> int | None:
    """A count from the address bar; None for anything else."""
    given = str(text)
    return int(given) if given.isdecimal() and len(given) < 19 else None


def _loose(calls: Ordered, children: Sequence[Run], overview: Overview) -> tuple[ChildRun, ...]:
    """Child runs that no call here starts: the page lists them below the rows, so that none is lost."""
    starts = Q(pk__in=[run.parent_call for run in children if run.parent_call])
    starts |= Q(child_run__in=[run.pk for run in children])
    found = {key for pair in calls.filter(starts).values_list("pk", "child_run") for key in pair}
    return tuple(child_of(run, overview.axis) for run in children if not found & {run.pk, run.parent_call} - {None})


def _chips(run: Run, query: Query, ask: Ask) -> Iterable[ChipGroup]:
    facets = list(run.facets.filter(kind__in=CHIPS).order_by("-count", "value"))
    for kind in CHIPS:
        own = [_chip(facet, query, ask) for facet in facets if facet.kind == kind and _is_about_calls(facet)]
        if own:
            yield ChipGroup(kind, tuple(own[:CHIPS_OPEN]), tuple(own[CHIPS_OPEN:]))


def _is_about_calls(facet: RunFacet) -> bool:
    return facet.kind != "state" or facet.value in CALL_STATES


def _chip(facet: RunFacet, query: Query, ask: Ask) -> Chip:
    url = ask.url(q=query.toggled(facet.kind, facet.value), after="", skip="")
    is_on = any((term.kind, term.value, term.is_negated) == (facet.kind, facet.value, False) for term in query.terms)
    return Chip(facet.kind, facet.value, facet.count, url, is_on)


def _plan(run: Run) -> tuple[str, bool]:
    """The recorded plan, laid out for reading, and whether that is all of it."""
    if not run.plan:
        return "", True
    raw = bytes(run.plan)
    try:
        value = tame(raw)
        text = value if isinstance(value, str) else msgspec.json.format(raw, indent=2).decode()
    except (Untrusted, msgspec.DecodeError, ValueError):
        text = raw.decode("utf-8", "backslashreplace")
    return text[:PLAN_CHARACTERS], len(text) <= PLAN_CHARACTERS
