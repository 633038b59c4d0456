"""j and k: the calls before and after this one in the list that the operator came from.

`?from=run&run=<id>` names the list: the calls of that run (a fork shows calls that it inherited), or of
the call's own run where none is named. `q`, the filter of the run's page, is kept and passed on, and so
is how the halves are shown (`left`, `spaces`).
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Max, Min, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse

from dashboard.models import Call, Project, Run, RunCall
from dashboard.query import parse

NOWHERE = (-1, -1)  # of a call that is in no run: nothing stands before it
OWN_KEYS = ("args", "result", "receipt", "as", "what", "offset", "project")


@dataclass(frozen=True, kw_only=True)
class Walk:
    """`position` counts from 1; 0 when the call is not in the filtered list."""

    run: Run
    position: int
    total: int
    before: str
    after: str
    up: str
    is_filtered: bool


def walk(project: Project, call: Call, query: QueryDict) -> Walk:
    """Three queries, however many calls the run has."""
    run = _run(project, call, query.get("run", ""))
    kept = _kept(query)
    members = _listed(run, query)
    own = RunCall.objects.filter(run=run, call=call).values_list("ordinal", "id").first() or NOWHERE
    earlier, later = _around(own)
    found = members.aggregate(
        total=Count("id"),
        before=Count("id", filter=earlier),
        here=Count("id", filter=Q(call=call)),
        last_before=Max("ordinal", filter=earlier),
        first_after=Min("ordinal", filter=later),
    )
    before, after = _beside(members, own, {own[0], found["last_before"], found["first_after"]})
    filters = urlencode({"q": query["q"]}) if query.get("q") else ""
    return Walk(
        run=run,
        position=found["before"] + 1 if found["here"] else 0,
        total=found["total"],
        before=_address(before, kept),
        after=_address(after, kept),
        up=run.get_absolute_url() + (f"?{filters}" if filters else "") + f"#c-{call.pk.hex}",
        is_filtered=bool(filters),
    )


def _run(project: Project, call: Call, name: str) -> Run:
    try:
        key = UUID(name)
    except ValueError:
        return call.run
    found = Run.objects.filter(project=project, pk=key, members__call=call).first()
    return found or call.run


def _kept(query: QueryDict) -> QueryDict:
    kept = query.copy()
    for key in OWN_KEYS:
        kept.pop(key, None)
    return kept


def _listed(run: Run, query: QueryDict) -> QuerySet[RunCall]:
    members = RunCall.objects.filter(run=run)
    wanted = parse(query.get("q", ""), over="calls")
    return members.filter(call__in=wanted.calls(run).order_by()) if wanted else members


def _around(own: tuple[int, int]) -> tuple[Q, Q]:
    """What stands before and behind that place."""
    ordinal, pk = own
    earlier = Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, pk__lt=pk)
    return earlier, Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, pk__gt=pk)


def _beside(
    members: QuerySet[RunCall], own: tuple[int, int], ordinals: set[int | None]
) -> tuple[UUID | None, UUID | None]:
    """Several calls may stand on one line, so the neighbours are found among all of the lines beside."""
    near = (
        members.filter(ordinal__in=[one for one in ordinals if one is not None])
        .order_by("ordinal", "id")
        .values_list("ordinal", "id", "call_id")
    )
    rows = list(near)
    before = next((call for *place, call in reversed(rows) if tuple(place) < own), None)
    return before, next((call for *place, call in rows if tuple(place) > own), None)


def _address(call: UUID | None, kept: QueryDict) -> str:
    if call is None:
        return ""
    return reverse("call-detail", args=[call]) + (f"?{kept.urlencode()}" if kept else "")
