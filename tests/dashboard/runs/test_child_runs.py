"""The runs of subagents on the page of the run that started them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from dashboard.models import Project, Run
from dashboard.runs.run_detail import Ask, run_page
from tests.dashboard.factories import START, create_call, create_run


@pytest.fixture
def run(project: Project) -> Run:
    return create_run(project, "session-one", title="Fix the login", ended_at=START + timedelta(seconds=100))


def text_of(client: Client, run: Run) -> str:
    response = client.get(f"/runs/{run.pk}/")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.usefixtures("alice")
def test_a_child_run_stands_below_the_call_that_started_it(client: Client, project: Project, run: Run) -> None:
    parent = create_call(run, line=1, tool="Task", summary="call of line 1")
    create_call(run, line=2, summary="call of line 2")
    child = create_run(project, title="Look around", parent=run, parent_call=parent.pk, call_count=7, failed_count=1)
    html = text_of(client, run)
    assert html.index("call of line 1") < html.index(f'href="/runs/{child.pk}/"') < html.index("call of line 2")
    assert "7 calls, 1 failed, 0 cut" in html
    assert "and 1 in child runs" in html
    assert f'href="/runs/{run.pk}/"' in text_of(client, child)


@pytest.mark.usefixtures("alice")
def test_a_child_run_that_no_call_names_is_listed_all_the_same(client: Client, project: Project, run: Run) -> None:
    create_run(project, title="Lost child", parent=run)
    html = text_of(client, run)
    assert "Child runs that no call here names" in html
    assert "Lost child" in html


@pytest.mark.usefixtures("alice")
def test_a_child_run_that_only_its_call_names_stands_below_it_and_nowhere_else(
    client: Client, project: Project, run: Run
) -> None:
    child = create_run(project, title="Look around", parent=run)
    create_call(run, line=1, tool="Task", child_run=child.pk)
    html = text_of(client, run)
    assert html.count(f'href="/runs/{child.pk}/"') == 1
    assert "no call here names" not in html


@pytest.mark.usefixtures("alice")
def test_what_a_subagent_started_stands_below_it_whatever_parent_was_recorded(
    client: Client, project: Project, run: Run
) -> None:
    child, deepest, circle = (create_run(project, name, title=name, parent=run) for name in ("child", "deepest", "me"))
    create_call(run, line=1, child_run=child.pk)
    create_call(child, line=1, child_run=deepest.pk)
    create_call(circle, line=1, child_run=circle.pk)
    page = run_page(run, Ask())
    assert [(one.title, one.depth) for one in page.calls.rows[0].children] == [("child", 0), ("deepest", 1)]
    assert [one.title for one in page.loose] == ["me"]
    assert f'href="/runs/{deepest.pk}/"' in text_of(client, child)
    create_call(deepest, line=1, child_run=child.pk)
    page = run_page(run, Ask())
    assert {one.title for one in (*page.calls.rows[0].children, *page.loose)} == {"child", "deepest", "me"}
