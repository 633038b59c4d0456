"""j and k: the calls before and after this one in the list that the operator came from.

`?from=run&run=<id>` names the list: the calls of that run (a fork shows calls that it inherited), or of
the call's own run where none is named. `q`, the filter of the run's page, is kept and passed on, and so
is how the halves are shown (`left`, `spaces`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from dashboard.calls.queries import Place, calls_beside, counts_around, place_in
from dashboard.filters.language import parse
from dashboard.models import Call, Project, Run, RunCall
from dashboard.runs.waterfall import PAGE

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
    filtered = _filtered(run, query)
    own = place_in(run, call)
    found = counts_around(run, own, call, filtered)
    before, after = _beside(run, own, found, filtered)
    position = found["before"] + 1 if found["here"] else 0
    return Walk(
        run=run,
        position=position,
        total=found["total"],
        before=_address(before, kept),
        after=_address(after, kept),
        up=_row(run, call, query.get("q", ""), position),
        is_filtered=bool(query.get("q")),
    )


def _row(run: Run, call: Call, q: str, position: int) -> str:
    """The call's row on its run's page, which begins with the first rows unless it is told, or the run is live."""
    skip = (position - 1) // PAGE * PAGE if position else 0
    asked = {"q": q} if q else {}
    asked |= {"skip": str(skip)} if skip or run.is_live else {}
    return run.get_absolute_url() + (f"?{urlencode(asked)}" if asked else "") + f"#c-{call.pk}"


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


def _filtered(run: Run, query: QueryDict) -> QuerySet[RunCall] | None:
    """The calls of the list where it is filtered."""
    wanted = parse(query.get("q", ""), over="calls")
    return RunCall.objects.filter(run=run, call__in=wanted.calls(run).order_by()) if wanted else None


def _beside(
    run: Run, own: Place, found: Mapping[str, Any], filtered: QuerySet[RunCall] | None
) -> tuple[UUID | None, UUID | None]:
    """Several calls may stand on one line, so the neighbours are found among all of the lines beside."""
    lines = [own[0] if line is None else line for line in (found["last_before"], found["first_after"])]
    near = calls_beside(run, (own[0], lines[0], lines[1]), filtered)
    before = next((call for place, call in reversed(near) if place < own), None)
    return before, next((call for place, call in near if place > own), None)


def _address(call: UUID | None, kept: QueryDict) -> str:
    if call is None:
        return ""
    return reverse("call-detail", args=[call]) + (f"?{kept.urlencode()}" if kept else "")
