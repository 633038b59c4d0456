"""The place of a call in a run, the addresses of its tabs and of its neighbours, and the list of steps beside it.

A call's position counts from 1 in the order of the run, copied calls included; it stands in the address
(`/runs/<run>/83/context`). With a filter (`q`) the keys and the list walk the calls that match, and the position stays
that in the whole run. With the list that the call was opened from (`list`) the keys walk that list, across runs. How
the halves are shown (`left`, `right`, `spaces`) stays in the links to the neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Max, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse

from dashboard.calls.list_place import ListPlace, load_list_place
from dashboard.evidence.context_changes import load_drops
from dashboard.evidence.execution import has_action_plan
from dashboard.filters.language import Query, parse
from dashboard.models import Call, Project, Run, RunCall
from dashboard.models.notes import RowMarks
from dashboard.models.runs import FAILED, step_url
from dashboard.runs.compactions import load_compactions
from dashboard.runs.overview import load_squeezed_axis
from dashboard.runs.waterfall import CallRowPage, RowSelection, load_call_rows, load_child_runs
from dashboard.text.params import LARGEST, Params
from dashboard.workspace.run_strip import RunStrip, load_run_strip

TABS = {
    "halves": "Both halves",
    "context": "In context",
    "replay": "Replay",
    "wire": "Wire",
    "raw": "Raw",
}
Tab = Literal["halves", "context", "replay", "wire", "raw"]
WHOLE_RUN_TABS = ("context", "replay")  # those that have a form for the whole run too
KEPT = ("q", "list", "row", "left", "right", "spaces")  # parameters that stay from step to step
# The places that keys go to, as `?go=` names them; each is a redirect to the step.
GOALS = ("next-failed", "previous-failed", "next-change", "previous-change")
LEAD = 12  # rows that the list shows above the open step
MOST_ROWS = 40  # of that list, which is two screens: each row takes a hundredth of the time of a step


@dataclass(frozen=True, kw_only=True)
class StepLink:
    name: str
    title: str
    href: str
    key: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class RunPosition:
    """A call in a run. `line` is its line there; `position` is 0 for a call that is in no run, and `line` -1.

    `number` is its place among the `matching` calls of the filter, 0 outside of it. `before` and `after` are the
    addresses of the neighbours, empty at the ends. `first` has the line and the call of the row with which the list
    beside the step begins; None with a filter. `listed` is the place in the list that the call was opened from, to
    which the neighbours then belong.
    """

    run: Run
    call: UUID
    line: int
    position: int
    total: int
    number: int
    matching: int
    before: str
    after: str
    q: str
    first: tuple[int, UUID] | None = None
    listed: ListPlace | None = None

    @property
    def is_filtered(self) -> bool:
        return bool(self.q)

    @property
    def up(self) -> str:
        """The row of the call on the page of its run, which shows the first rows unless `skip` is given."""
        skip = (self.number - 1) // settings.ROWS_PER_PAGE * settings.ROWS_PER_PAGE if self.number else 0
        query = {"q": self.q} if self.q else {}
        if skip or self.run.is_live:
            query["skip"] = str(skip)
        return self.run.get_absolute_url() + (f"?{urlencode(query)}" if query else "") + f"#c-{self.call}"


@dataclass(frozen=True, kw_only=True)
class StepList:
    """The rows around the open step, whose call is `current`, or around none, where that is empty.

    `is_whole`: a form of a tab for the whole run is open. `earlier_url` and `later_url` are the run's page where more
    calls are listed.
    """

    run: Run
    query: Query
    text: str
    strip: RunStrip
    rows: CallRowPage
    earlier_url: str
    later_url: str
    current: str
    is_whole: bool

    @property
    def is_live(self) -> bool:
        return self.run.is_live

    @property
    def current_marks(self) -> RowMarks | None:
        """The annotations of the open step; None where it has no row here."""
        row = next((row for row in self.rows.rows if row["key"] == self.current), None)
        return row and (RowMarks() if row["annotations"] is None else row["annotations"])


def shown_tab(tab: str, query: Mapping[str, str]) -> Tab:
    """The tab of an address; one that asks for a form of another tab in the right half (`right`) means that tab."""
    right = query.get("right", "")
    if tab == "halves" and right.startswith("wire-"):
        return "wire"
    if tab == "halves" and (right.startswith("variant-") or right == "compacted"):
        return "replay"
    return cast(Tab, tab)


def locate_call(project: Project, call: UUID, query: Mapping[str, str]) -> str:
    """The address of a call's step in its own run, or in the run that `?run=` names, in the tab that `?tab=` names.

    Empty for a call in no run, and for one that the project does not have.
    """
    named = Params(query).uuid("run")
    members = RunCall.objects.filter(call=call, call__project=project, run__project=project)
    rows = members.values_list("run_id", "call__run_id", "pk", "ordinal")
    if not rows:
        return ""
    run, _, _, ordinal = min(rows, key=lambda row: (row[0] != named, row[0] != row[1], row[2]))
    params = {name: value for name, value in query.items() if name not in ("from", "run", "project", "tab")}
    position = _count_before(run, ordinal, call) + 1
    tab = query.get("tab", "")
    return step_url(run, position, tab if tab in TABS else shown_tab("halves", query), params)


def _count_before(run: UUID, ordinal: int, call: UUID) -> int:
    return RunCall.objects.filter(_is_before(ordinal, call), run=run).count()


def _is_before(ordinal: int, call: UUID) -> Q:
    return Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, call__lt=call)


def _is_behind(ordinal: int, call: UUID) -> Q:
    return Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, call__gt=call)


def load_place(run: Run, position: int, tab: str, query: Mapping[str, str]) -> RunPosition | None:
    """Two queries, six with a filter; None beyond the last call of the run."""
    if not 0 < position <= LARGEST:
        return None
    members, start = run.members.order_by("ordinal", "call"), max(0, position - 1 - LEAD)
    lead = list(members.values_list("ordinal", "call")[start:position])
    if len(lead) < position - start:
        return None
    line, call = lead[-1]
    place = RunPosition(
        run=run,
        call=call,
        line=line,
        position=position,
        total=members.count(),
        number=position,
        matching=0,
        before="",
        after="",
        q=query.get("q", ""),
        first=lead[0],
    )
    return _place_in_filter(place, tab, query) if place.is_filtered else _place_in_run(place, tab, query)


def load_call(place: RunPosition) -> Call:
    """The call of a place with its source and envelope. Its run is that of the place, unless it is a copy there."""
    joined = Call.objects.select_related("source", "projection").defer("source__state", "source__seen")
    call = joined.get(pk=place.call)
    if call.run_id == place.run.pk:
        call.run = place.run
    return call


def follow_list(project: Project, place: RunPosition, call: Call, tab: str, query: QueryDict) -> RunPosition:
    """The place with the neighbours in the list that the address names; the same place where it names none."""
    listed = load_list_place(project, call, tab, query) if "list" in query else None
    return replace(place, before=listed.before, after=listed.after, listed=listed) if listed else place


def keep_list(place: RunPosition, query: QueryDict) -> QueryDict:
    """The parameters of a step with the call of the list from which the walk goes on."""
    if place.listed is None:
        return query
    kept = query.copy()
    kept["row"] = str(place.listed.call)
    return kept


def place_outside(call: Call) -> RunPosition:
    """The place of a call that is in no run."""
    nowhere = {"line": -1, "position": 0, "total": 0, "number": 0, "matching": 0, "q": ""}
    return RunPosition(run=call.run, call=call.pk, before="", after="", **cast(Any, nowhere))


def _kept(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query[name] for name in KEPT if query.get(name)}


def _place_in_run(place: RunPosition, tab: str, query: Mapping[str, str]) -> RunPosition:
    kept, position = _kept(query), place.position
    return replace(
        place,
        matching=place.total,
        before=step_url(place.run.pk, position - 1, tab, kept) if position > 1 else "",
        after=step_url(place.run.pk, position + 1, tab, kept) if position < place.total else "",
    )


def _place_in_filter(place: RunPosition, tab: str, query: Mapping[str, str]) -> RunPosition:
    run, kept = place.run, _kept(query)
    calls = parse(query.get("q", ""), over="calls")
    members = run.members.filter(call__in=calls.calls(run).order_by())
    before = members.filter(_is_before(place.line, place.call))
    behind = members.filter(_is_behind(place.line, place.call))
    count_before, count_behind = before.count(), behind.count()
    is_here = members.filter(call=place.call).exists()

    def url(neighbours: QuerySet[RunCall], *order: str) -> str:
        for ordinal, call in neighbours.order_by(*order).values_list("ordinal", "call")[:1]:
            return step_url(run.pk, _count_before(run.pk, ordinal, call) + 1, tab, kept)
        return ""

    return replace(
        place,
        number=count_before + 1 if is_here else 0,
        matching=count_before + is_here + count_behind,
        before=url(before, "-ordinal", "-call"),
        after=url(behind, "ordinal", "call"),
        first=None,
    )


def find_goal(place: RunPosition, tab: str, goal: str, query: Mapping[str, str]) -> str:
    """The address of the next or previous failed call, or of the first call behind a change of the context.

    A change is a compaction, a new conversation, or a drop that nothing explains. Empty where there is none.
    """
    run, is_ahead = place.run, goal.startswith("next")
    if not goal.endswith("failed"):
        return _find_change(place, tab, query, is_ahead=is_ahead)
    members = run.members.filter(call__in=Call.objects.in_run(run).filter(FAILED).order_by())
    beside = _is_behind(place.line, place.call) if is_ahead else _is_before(place.line, place.call)
    order = ("ordinal", "call") if is_ahead else ("-ordinal", "-call")
    found = members.filter(beside).order_by(*order).values_list("ordinal", "call").first()
    if found is None:
        return ""
    return step_url(run.pk, _count_before(run.pk, *found) + 1, tab, _kept(query))


def _find_change(place: RunPosition, tab: str, query: Mapping[str, str], *, is_ahead: bool) -> str:
    """Changes that stand between the same two calls lead to one place, the call behind them."""
    run, edge = place.run, place.line
    lines = [event.line for event in load_compactions(run)] + [drop.line - 1 for drop in load_drops(run)]
    if not is_ahead:  # a change right in front of this call leads to it, and is none before it
        before = run.members.filter(_is_before(place.line, place.call)).aggregate(last=Max("ordinal"))["last"]
        edge = -1 if before is None else before
    beside = [line for line in lines if (line >= edge if is_ahead else line < edge)]
    if not beside:
        return ""
    line = min(beside) if is_ahead else max(beside)
    first = run.members.filter(ordinal__gt=line).order_by("ordinal", "call").values_list("ordinal", "call").first()
    if first is None:
        return ""
    return step_url(run.pk, _count_before(run.pk, *first) + 1, tab, _kept(query))


def load_step_list(
    run: Run, place: RunPosition | None, tab: str, query: Mapping[str, str], *, is_whole: bool = False
) -> StepList:
    """The rows around the open step, or the first rows where no step is open."""
    kept = _kept(query)
    parsed = parse(query.get("q", ""), over="calls")
    skip = max(0, (place.number or 1) - 1 - LEAD) if place else 0
    rows = CallRowPage()
    if not parsed.problems:
        matching = place.matching if place else parsed.calls(run).count() if parsed else run.members.count()
        first = place.first if place else None
        selection = RowSelection(parsed, matching, "", skip, tab, kept, first, MOST_ROWS if place else None)
        rows = load_call_rows(run, selection, load_squeezed_axis(run), load_child_runs(run))
    filtered = {"q": kept["q"]} if "q" in kept else {}
    later = skip + len(rows.rows)
    return StepList(
        run=run,
        query=parsed,
        text=kept.get("q", ""),
        strip=load_run_strip(run),
        rows=rows,
        earlier_url=f"{run.get_absolute_url()}?{urlencode({**filtered, 'skip': 0})}" if rows.before else "",
        later_url=f"{run.get_absolute_url()}?{urlencode({**filtered, 'skip': later})}" if rows.after else "",
        current=str(place.call) if place else "",
        is_whole=is_whole,
    )


def build_tabs(place: RunPosition, tab: str, query: Mapping[str, str]) -> tuple[StepLink, ...]:
    """Links to the tabs of the same step. What the right half shows belongs to one tab, and goes with it."""
    kept = _kept(query)
    kept.pop("right", None)
    return tuple(
        StepLink(
            name=name,
            title=title,
            href=step_url(place.run.pk, place.position, name, kept),
            key=f"{number} c" if name == "context" else str(number),
            is_current=name == tab,
        )
        for number, (name, title) in enumerate(TABS.items(), 1)
    )


def build_run_tabs(run: Run, tab: str, query: Mapping[str, str]) -> tuple[StepLink, ...]:
    """Links to the overview of a run (`tab` is empty) and to the tabs that have a form for the whole run."""
    variant = {"with": query["with"]} if query.get("with") else {}
    params = f"?{urlencode(variant)}" if variant else ""
    keys = {"plan": "p", "context": "m c", "replay": "P"}
    keys |= {name: key for name, key in (("context", "c"), ("replay", "")) if name == tab}  # the rest leads to the step
    titles = {"plan": "Plan"} if has_action_plan(run) else {}
    links = [StepLink(name="run", title="Run", href=run.get_absolute_url() + params, key="1", is_current=not tab)]
    links += [
        StepLink(
            name=name,
            title=title,
            href=reverse(f"run-{name}", args=[run.pk]) + params,
            key=keys[name],
            is_current=name == tab,
        )
        for name, title in [*titles.items(), *((name, TABS[name]) for name in WHOLE_RUN_TABS)]
    ]
    return tuple(links)
