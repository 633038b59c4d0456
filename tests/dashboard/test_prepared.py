"""Queries that are compiled once and run again with other values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from django.db.models import QuerySet

from dashboard.models import Project, Run
from dashboard.prepared import given, instance, names_of, prepared
from tests.dashboard.factories import create_project, create_run

STARTED = datetime(2026, 3, 1, 9, 30, 0, 250_000, tzinfo=UTC)


@prepared
def _whole_runs(sort: str, most: int) -> QuerySet[Any, Any]:
    mine = Run.objects.filter(project=given("project", Run, "project"), title__contains="100%")
    return mine.order_by(sort).values_list(*names_of(Run), "project__slug")[:most]


@prepared
def _run_of() -> QuerySet[Any, Any]:
    return Run.objects.filter(pk=given("pk", Run, "id"), started_at__lte=given("until", Run, "started_at")).values_list(
        "title"
    )


def test_a_prepared_row_is_what_the_models_say(project: Project) -> None:
    first = create_run(project, "a", title="100% a", started_at=STARTED, plan=b"{}", call_count=1)
    second = create_run(project, "b", title="100% b", parent=first, call_count=2)
    create_run(create_project("other"), "c", title="100% c")
    create_run(project, "d", title="100 of 100")
    rows = _whole_runs("-call_count", 5, project=project.pk)
    assert [instance(Run, row[:-1]) for row in rows] == [second, first]
    assert [row[-1] for row in rows] == ["ledger", "ledger"]
    read, stored = instance(Run, rows[1][:-1]), Run.objects.get(pk=first.pk)
    assert [getattr(read, name) for name in names_of(Run) if name != "plan"] == [
        getattr(stored, name) for name in names_of(Run) if name != "plan"
    ]
    assert bytes(read.plan or b"") == b"{}"


def test_other_values_and_another_shape_are_another_answer(project: Project) -> None:
    runs = [create_run(project, name, title="100%", call_count=calls) for name, calls in (("a", 1), ("b", 2))]
    assert [row[0] for row in _whole_runs("call_count", 1, project=project.pk)] == [runs[0].pk]
    assert [row[0] for row in _whole_runs("-call_count", 1, project=project.pk)] == [runs[1].pk]
    assert _whole_runs("call_count", 1, project=create_project("empty").pk) == []


def test_values_of_every_kind_are_bound_as_the_database_wants_them(project: Project) -> None:
    run = create_run(project, title="at nine", started_at=STARTED)
    assert [tuple(row) for row in _run_of(pk=run.pk, until=STARTED)] == [("at nine",)]
    assert _run_of(pk=uuid4(), until=STARTED) == []
    assert _run_of(pk=run.pk, until=datetime(2026, 1, 1, tzinfo=UTC)) == []
