"""Queries that are compiled once and run again with other values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.test import Client

from dashboard.models import Membership, Project, Run
from dashboard.prepared import given, instance, names_of, prepared
from tests.dashboard.factories import create_project, create_run, create_user

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


def test_a_page_asks_once_for_the_session_and_once_for_the_person(
    client: Client, project: Project, django_assert_num_queries: Any
) -> None:
    client.force_login(create_user("olga", project=project))
    client.get("/docs/")
    with django_assert_num_queries(2):
        client.get("/docs/")


def test_who_may_see_what_is_asked_anew_with_every_request(client: Client, project: Project) -> None:
    olga = create_user("olga", project=project)
    client.force_login(olga)
    create_run(project, title="Ledger run")
    assert "Ledger run" in client.get("/runs/").content.decode()
    Membership.objects.filter(user=olga).update(project=create_project("other"))
    assert "Ledger run" not in client.get("/runs/").content.decode()
    Membership.objects.filter(user=olga).delete()
    assert client.get("/runs/").status_code == 403


@pytest.mark.parametrize("change", ["signed out elsewhere", "no longer active", "another password", "deleted"])
def test_a_session_that_no_longer_holds_opens_nothing(client: Client, project: Project, change: str) -> None:
    olga = create_user("olga", project=project)
    client.force_login(olga)
    assert client.get("/runs/").status_code == 200
    match change:
        case "signed out elsewhere":
            client.session.flush()
        case "no longer active":
            User.objects.filter(pk=olga.pk).update(is_active=False)
        case "another password":
            olga.set_password("correct horse battery")
            olga.save()
        case _:
            olga.delete()
    assert client.get("/runs/").status_code == 302


@pytest.mark.parametrize("key", ["\x00" * 8, "a\x00bcdefgh", "é" * 9, "' OR 1=1 --", "0" * 4_000, "short", ""])
def test_a_cookie_that_is_no_session_of_ours_opens_nothing(client: Client, project: Project, key: str) -> None:
    client.force_login(create_user("olga", project=project))
    client.cookies["sessionid"] = key
    assert client.get("/runs/").status_code == 302
