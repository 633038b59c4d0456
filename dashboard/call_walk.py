"""j and k: the calls before and after this one in the list that the operator came from.

`?from=run&run=<id>` names the list: the calls of that run (a fork shows calls that it inherited), or of
the call's own run where none is named. `q`, the filter of the run's page, is kept and passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.urls import reverse

from dashboard.models import Call, Project, Run, RunCall
from dashboard.query import parse

OWN_KEYS = ("args", "result", "receipt", "left", "spaces", "as", "what", "offset", "project")


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
    run = _run(project, call, query.get("run", ""))
    kept = _kept(query)
    members = _listed(run, query)
    own = RunCall.objects.filter(run=run, call=call).values_list("ordinal", "id").first()
    earlier, later = _around(members, own)
    filters = QueryDict(mutable=True)
    if query.get("q"):
        filters["q"] = query["q"]
    return Walk(
        run=run,
        position=earlier.count() + 1 if own and members.filter(call=call).exists() else 0,
        total=members.count(),
        before=_address(earlier.order_by("-ordinal", "-id").values_list("call_id", flat=True).first(), kept),
        after=_address(later.order_by("ordinal", "id").values_list("call_id", flat=True).first(), kept),
        up=run.get_absolute_url() + (f"?{filters.urlencode()}" if filters else "") + f"#c-{call.pk.hex}",
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


def _around(members: QuerySet[RunCall], own: tuple[int, int] | None) -> tuple[QuerySet[RunCall], QuerySet[RunCall]]:
    if own is None:
        return members.none(), members.none()
    ordinal, pk = own
    earlier = members.filter(Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, pk__lt=pk))
    later = members.filter(Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, pk__gt=pk))
    return earlier, later


def _address(call: UUID | None, kept: QueryDict) -> str:
    if call is None:
        return ""
    return reverse("call-detail", args=[call]) + (f"?{kept.urlencode()}" if kept else "")
