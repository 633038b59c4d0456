"""What the Call page asks the database: prepared queries, metadata apart from payloads, no payload twice.

Rows of one call are few, so they are put in order here: a database that sorts them would carry the
payloads through its sorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, F, Max, Min, Q, QuerySet

from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Observation,
    Project,
    Receipt,
    Run,
    RunCall,
    Source,
)
from dashboard.prepared import Row, given, instance, names_of, prepared

NOWHERE = (-1, -1)  # of a call that is in no run: nothing stands before it
EVENTS_READ = 201  # one more than the page shows, which says that there are more
SOURCE = ("id", "path")  # of a source the page needs its name; its reader's memory may be large
EVENT = tuple(name for name in names_of(Event) if name != "payload")
Place = tuple[int, int]  # ordinal and row of a call in a run: two calls may stand on one line


@prepared
def _calls() -> QuerySet[Any, Any]:
    wanted = Call.objects.filter(project=given("project", Call, "project"), pk=given("pk", Call, "id"))
    return wanted.values_list(*names_of(Call), *names_of(Run, "run__"), *(f"source__{name}" for name in SOURCE))


@prepared
def _observations() -> QuerySet[Any, Any]:
    of_call = Observation.objects.filter(call=given("call", Observation, "call"))
    return of_call.values_list(*names_of(Observation), *(f"source__{name}" for name in SOURCE))


@prepared
def _receipts() -> QuerySet[Any, Any]:
    return Receipt.objects.filter(call=given("call", Receipt, "call")).values_list(*names_of(Receipt))


@prepared
def _projections() -> QuerySet[Any, Any]:
    of_call = CanonicalProjection.objects.filter(call=given("call", CanonicalProjection, "call"))
    return of_call.values_list(*names_of(CanonicalProjection))


@prepared
def _artifacts() -> QuerySet[Any, Any]:
    of_call = Artifact.objects.filter(call=given("call", Artifact, "call"))
    return of_call.order_by("ordinal").values_list(*names_of(Artifact))


@prepared
def _events() -> QuerySet[Any, Any]:
    of_call = Event.objects.filter(call=given("call", Event, "call"))
    return of_call.order_by("line", "id").values_list(*EVENT)[:EVENTS_READ]


@prepared
def _tries() -> QuerySet[Any, Any]:
    same = Call.objects.filter(
        run=given("run", Call, "run"), step=given("step", Call, "step"), tool=given("tool", Call, "tool")
    )
    return same.order_by("attempt", "line").values_list("pk", "attempt", "status")


@prepared
def _place() -> QuerySet[Any, Any]:
    own = RunCall.objects.filter(run=given("run", RunCall, "run"), call=given("call", RunCall, "call"))
    return own.values_list("ordinal", "id")


@prepared
def _counts() -> QuerySet[Any, Any]:
    members = RunCall.objects.filter(run=given("run", RunCall, "run"))
    place = given("ordinal", RunCall, "ordinal"), given("id", RunCall, "id")
    return _counted(members, *place, given("call", RunCall, "call"))


@prepared
def _near() -> QuerySet[Any, Any]:
    lines = [given(name, RunCall, "ordinal") for name in ("own", "before", "after")]
    return _beside(RunCall.objects.filter(run=given("run", RunCall, "run")), lines)


def call_of(project: Project, pk: UUID) -> Call | None:
    """The project's own call with its run, and the name of its source."""
    row = next(iter(_calls(project=project.pk, pk=pk)), None)
    if row is None:
        return None
    columns, own = len(names_of(Call)), len(names_of(Run))
    call = instance(Call, row[:columns])
    call.run = instance(Run, row[columns : columns + own])
    call.source = _source(row[columns + own :])
    return call


def observations_of(call: Call) -> tuple[Observation, ...]:
    """With their bytes, as they stand in the sources."""
    found = []
    columns = len(names_of(Observation))
    for row in _observations(call=call.pk):
        one = instance(Observation, row[:columns])
        one.source = _source(row[columns:])
        found.append(one)
    return tuple(sorted(found, key=lambda one: (one.surface, one.line, one.pk)))


def receipts_of(call: Call) -> tuple[Receipt, ...]:
    """In the order in which the model got them."""
    return tuple(sorted((instance(Receipt, row) for row in _receipts(call=call.pk)), key=lambda one: one.seq))


def projections_of(call: Call) -> tuple[CanonicalProjection, ...]:
    found = (instance(CanonicalProjection, row) for row in _projections(call=call.pk))
    return tuple(sorted(found, key=lambda one: one.pk))


def artifacts_of(call: Call) -> tuple[Artifact, ...]:
    return tuple(instance(Artifact, row) for row in _artifacts(call=call.pk))


def events_of(call: Call) -> tuple[Event, ...]:
    """The first EVENTS_READ, without their payloads."""
    return tuple(Event.from_db(DEFAULT_DB_ALIAS, EVENT, row) for row in _events(call=call.pk))


def tries_of(call: Call) -> list[tuple[UUID, int, str]]:
    """Key, attempt and status of every try of the call's step."""
    return [(pk, attempt, status) for pk, attempt, status in _tries(run=call.run_id, step=call.step, tool=call.tool)]


def place_in(run: Run, call: Call) -> Place:
    """Where the call stands in the run, NOWHERE if it does not."""
    return next(((ordinal, pk) for ordinal, pk in _place(run=run.pk, call=call.pk)), NOWHERE)


def counts_around(run: Run, place: Place, call: Call, filtered: QuerySet[RunCall] | None) -> Mapping[str, Any]:
    """total, before, here; last_before and first_after are lines, None at the ends. Of `filtered`, if any."""
    names = ("total", "before", "here", "last_before", "first_after")
    if filtered is None:
        rows: list[Row] = _counts(run=run.pk, ordinal=place[0], id=place[1], call=call.pk)
    else:
        rows = list(_counted(filtered, *place, call.pk))
    return dict(zip(names, rows[0] if rows else (0, 0, 0, None, None), strict=True))


def calls_beside(run: Run, lines: tuple[int, int, int], filtered: QuerySet[RunCall] | None) -> list[tuple[Place, UUID]]:
    """Place and call of all that stand on those lines, in order."""
    if filtered is None:
        rows: list[Row] = _near(run=run.pk, own=lines[0], before=lines[1], after=lines[2])
    else:
        rows = list(_beside(filtered, lines))
    return [((ordinal, pk), call) for ordinal, pk, call in rows]


def _counted(members: QuerySet[RunCall], ordinal: Any, pk: Any, call: Any) -> QuerySet[Any, Any]:
    """One row, none of an empty list."""
    earlier = Q(ordinal__lt=ordinal) | Q(ordinal=ordinal, pk__lt=pk)
    later = Q(ordinal__gt=ordinal) | Q(ordinal=ordinal, pk__gt=pk)
    grouped = members.order_by().annotate(list=F("run")).values("list")
    return grouped.annotate(
        total=Count("id"),
        before=Count("id", filter=earlier),
        here=Count("id", filter=Q(call=call)),
        last_before=Max("ordinal", filter=earlier),
        first_after=Min("ordinal", filter=later),
    ).values_list("total", "before", "here", "last_before", "first_after")


def _beside(members: QuerySet[RunCall], lines: Any) -> QuerySet[Any, Any]:
    return members.filter(ordinal__in=lines).order_by("ordinal", "id").values_list("ordinal", "id", "call_id")


def _source(row: Row) -> Source | None:
    return None if row[0] is None else Source.from_db(DEFAULT_DB_ALIAS, SOURCE, row)
