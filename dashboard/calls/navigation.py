"""Finds the calls before and after one in the list that the reader came from, for the keys j and k.

`?from=run&run=<id>` names the list: the calls of that run (a fork shows calls that it inherited), or those of
the call's own run where none is named. `q`, the filter of the run's page, stays in every link, and so does
how the halves are shown (`left`, `spaces`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Max, Min, Q, QuerySet
from django.http import QueryDict
from django.urls import reverse

from dashboard.filters.language import parse
from dashboard.models import Call, Project, Run, RunCall

OF_ONE_CALL = ("args", "result", "receipt", "as", "what", "offset", "project")  # not for its neighbours
NOWHERE = (-1, -1)  # for a call that is in no run: no call comes before it

Place = tuple[int, int]  # ordinal and row of a call in a run: two calls may be on one line


@dataclass(frozen=True, kw_only=True)
class CallNavigation:
    """`position` counts from 1; 0 when the call is not in the filtered list."""

    run: Run
    position: int
    total: int
    before: str
    after: str
    up: str
    is_filtered: bool


def load_navigation(project: Project, call: Call, query: QueryDict) -> CallNavigation:
    """Three queries, however many calls the run has."""
    run = _listed_run(project, call, query.get("run", ""))
    own: Place = run.members.filter(call=call).values_list("ordinal", "id").first() or NOWHERE
    calls = parse(query.get("q", ""), over="calls")
    members = run.members.filter(call__in=calls.calls(run).order_by()) if calls else run.members.all()
    counts = _count_around(members, own, call)
    position = counts["before"] + 1 if counts["here"] else 0
    before, after = _load_neighbours(members, own, counts)
    kept = query.copy()
    for key in OF_ONE_CALL:
        kept.pop(key, None)
    return CallNavigation(
        run=run,
        position=position,
        total=counts["total"],
        before=_call_url(before, kept),
        after=_call_url(after, kept),
        up=_row_url(run, call, query.get("q", ""), position),
        is_filtered=bool(query.get("q")),
    )


def _listed_run(project: Project, call: Call, name: str) -> Run:
    try:
        key = UUID(name)
    except ValueError:
        return call.run
    return project.runs.filter(pk=key, members__call=call).first() or call.run


def _count_around(members: QuerySet[RunCall], own: Place, call: Call) -> dict[str, Any]:
    earlier = Q(ordinal__lt=own[0]) | Q(ordinal=own[0], pk__lt=own[1])
    later = Q(ordinal__gt=own[0]) | Q(ordinal=own[0], pk__gt=own[1])
    return members.aggregate(
        total=Count("id"),
        before=Count("id", filter=earlier),
        here=Count("id", filter=Q(call=call)),
        last_before=Max("ordinal", filter=earlier),
        first_after=Min("ordinal", filter=later),
    )


def _load_neighbours(members: QuerySet[RunCall], own: Place, counts: dict[str, Any]) -> tuple[UUID | None, UUID | None]:
    """Several calls may be on one line, so both are looked for among all calls of the lines beside it."""
    ordinals = {ordinal for ordinal in (own[0], counts["last_before"], counts["first_after"]) if ordinal is not None}
    near = members.filter(ordinal__in=ordinals).order_by("ordinal", "id").values_list("ordinal", "id", "call_id")
    before = after = None
    for ordinal, pk, call in near:
        if (ordinal, pk) < own:
            before = call
        elif (ordinal, pk) > own and after is None:
            after = call
    return before, after


def _call_url(call: UUID | None, kept: QueryDict) -> str:
    if call is None:
        return ""
    return reverse("call-detail", args=[call]) + (f"?{kept.urlencode()}" if kept else "")


def _row_url(run: Run, call: Call, q: str, position: int) -> str:
    """The call's row on the page of its run, which shows the first rows unless `skip` is given or the run is live."""
    skip = (position - 1) // settings.ROWS_PER_PAGE * settings.ROWS_PER_PAGE if position else 0
    query = {"q": q} if q else {}
    if skip or run.is_live:
        query["skip"] = str(skip)
    return run.get_absolute_url() + (f"?{urlencode(query)}" if query else "") + f"#c-{call.pk}"
