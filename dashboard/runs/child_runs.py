"""The runs of subagents on the page of the run that started them, with those that they started below them.

An agent that writes each subagent's file beside the session says of all of them that the session is their
parent. Which of them another subagent started is said by its call, which names the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from dashboard.models import Call, Run
from dashboard.prepared import given, prepared
from dashboard.runs.time_axis import Axis, Bar

SHOWN = 200


class ChildRow(NamedTuple):
    """The columns of a child run."""

    pk: UUID
    parent_call: UUID | None
    title: str
    external_id: str
    started_at: datetime | None
    duration_ms: int
    call_count: int
    failed_count: int
    cut_count: int
    token_count: int


class ChildRun(NamedTuple):
    """A row below a call, with the child's own counts; `depth` is 0 for what the call itself started."""

    pk: UUID
    depth: int
    title: str
    calls: int
    failed: int
    cut: int
    tokens: int
    duration_ms: int
    bar: Bar | None


class Children(NamedTuple):
    """`top` are those that this run started, or that nobody says who did; `below` by the run that started them."""

    top: Sequence[ChildRow] = ()
    below: Mapping[UUID, Sequence[ChildRow]] = {}

    @property
    def all(self) -> list[ChildRow]:
        return [*self.top, *(row for rows in self.below.values() for row in rows)]

    def drawn(self, row: ChildRow, axis: Axis, depth: int = 0) -> Iterator[ChildRun]:
        yield ChildRun(
            pk=row.pk,
            depth=depth,
            title=row.title or row.external_id,
            calls=row.call_count,
            failed=row.failed_count,
            cut=row.cut_count,
            tokens=row.token_count,
            duration_ms=row.duration_ms,
            bar=axis.bar(row.started_at, row.duration_ms, None),
        )
        for one in self.below.get(row.pk, ()):
            yield from self.drawn(one, axis, depth + 1)

    def by_call(self, axis: Axis) -> dict[UUID, list[ChildRun]]:
        """By the call that the child names as its parent, and by the child's own id for calls that name it."""
        found: dict[UUID, list[ChildRun]] = {}
        for row in self.top:
            drawn = list(self.drawn(row, axis))
            for key in {row.parent_call or row.pk, row.pk}:
                found.setdefault(key, []).extend(drawn)
        return found


@prepared
def _rows() -> QuerySet[Any, Any]:
    found = Run.objects.filter(parent=given("run", Run, "id"))
    return found.order_by("started_at", "id").values_list(*ChildRow._fields)[:SHOWN]


def children_of(run: Run) -> Children:
    """One query; another where the run has several children, or is one itself."""
    rows = list(map(ChildRow._make, _rows(run=run.pk)))
    if run.parent_id:
        rows += _named_by(run, {row.pk for row in rows})
    return _nested(rows) if len(rows) > 1 else Children(rows)


def _named_by(run: Run, known: set[UUID]) -> list[ChildRow]:
    """Those that a call of this run names, whatever parent they were recorded with."""
    named = Call.objects.filter(run=run).exclude(child_run=None).values("child_run")
    found = Run.objects.filter(project=run.project_id, pk__in=named).exclude(Q(pk=run.pk) | Q(pk__in=known))
    ordered = found.order_by("started_at", "id").values_list(*ChildRow._fields)[:SHOWN]
    return list(map(ChildRow._make, ordered))


def _nested(rows: Sequence[ChildRow]) -> Children:
    """Logs may say that two runs started each other: what no walk from the top reaches is put there."""
    keys = [row.pk for row in rows]
    calls = Call.objects.filter(run__in=keys, child_run__in=keys).order_by("line", "pk")
    hosts = {child: host for child, host in calls.values_list("child_run", "run_id") if child and child != host}
    below: dict[UUID, list[ChildRow]] = {}
    for row in rows:
        if row.pk in hosts and not _is_in_circle(row.pk, hosts):
            below.setdefault(hosts[row.pk], []).append(row)
    nested = {row.pk for found in below.values() for row in found}
    return Children([row for row in rows if row.pk not in nested], below)


def _is_in_circle(run: UUID, hosts: Mapping[UUID, UUID]) -> bool:
    seen = set()
    at: UUID | None = run
    while at is not None and at not in seen:
        seen.add(at)
        at = hosts.get(at)
    return at is not None
