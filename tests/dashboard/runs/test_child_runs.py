"""The runs of subagents on the page of the run that started them."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from dashboard.runs.run_detail import RunDetailParams, load_run_page
from tests.dashboard.factories import START, create_call, create_run
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, asks, user, write


@pytest.fixture
def run(project: Project) -> Run:
    return create_run(project, "session-one", title="Fix the login", ended_at=START + timedelta(seconds=100))


def load(client: Client, run: Run) -> Page:
    response = client.get(f"/runs/{run.pk}/")
    assert response.status_code == 200
    return parse_page(response)


def links(page: Page) -> list[str]:
    """The addresses of the rows, in their order."""
    return [row["href"].partition("?")[0] for row in page.select(".waterfall a.call-row")]


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_child_run_is_listed_below_the_call_that_started_it(client: Client, project: Project, run: Run) -> None:
    parent = create_call(run, line=1, tool="Task", summary="call of line 1")
    create_call(run, line=2, summary="call of line 2")
    child = create_run(project, title="Look around", parent=run, parent_call=parent.pk, call_count=7, failed_count=1)
    page = load(client, run)
    assert links(page) == [f"/runs/{run.pk}/1/halves", f"/runs/{child.pk}/", f"/runs/{run.pk}/2/halves"]
    assert page.select_one(".child-row em").text == "7 calls, 1 failed, 0 cut"
    assert page.facts["Failed"] == "0 and 1 in child runs"
    assert load(client, child).by_role("link", "Fix the login")["href"] == f"/runs/{run.pk}/"


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("address", ["", "1/halves"])
def test_each_link_of_a_live_list_has_an_id_by_which_the_focus_returns_to_it(
    client: Client, project: Project, address: str
) -> None:
    live = create_run(project, "live", last_at=timezone.now())
    parents = [create_call(live, line=line, tool="Task") for line in (1, 2)]
    child = create_run(project, title="Look around", parent=live, parent_call=parents[0].pk)
    for parent in parents:  # a child run that two calls name is listed below both
        Call.objects.filter(pk=parent.pk).update(child_run=child.pk)
    for page in (f"/runs/{live.pk}/{address}", "/calls/", "/runs/"):
        body = parse_page(client.get(page))
        ids = [link.get("id") for link in body.select(".waterfall a.call-row, #rows th a, #rows td a")]
        assert len(ids) >= 2, page
        assert "" not in ids, page
        assert len(set(ids)) == len(ids), page


@pytest.mark.usefixtures("alice")
def test_a_child_run_that_no_call_names_is_listed_all_the_same(client: Client, project: Project, run: Run) -> None:
    create_run(project, title="Lost child", parent=run)
    page = load(client, run)
    assert page.by_role("heading", "Child runs that no call here names")
    assert page.by_role("link", "Lost child")


@pytest.mark.usefixtures("alice")
def test_a_child_run_that_only_its_call_names_is_listed_below_it_and_nowhere_else(
    client: Client, project: Project, run: Run
) -> None:
    child = create_run(project, title="Look around", parent=run)
    create_call(run, line=1, tool="Task", child_run=child.pk)
    page = load(client, run)
    assert links(page) == [f"/runs/{run.pk}/1/halves", f"/runs/{child.pk}/"]
    assert not page.all_by_text("no call here names")


@pytest.mark.usefixtures("alice")
def test_runs_that_a_subagent_started_are_below_it_whatever_parent_was_recorded(
    client: Client, project: Project, run: Run
) -> None:
    child, deepest, cycle = (create_run(project, name, title=name, parent=run) for name in ("child", "deepest", "me"))
    create_call(run, line=1, child_run=child.pk)
    create_call(child, line=1, child_run=deepest.pk)
    create_call(cycle, line=1, child_run=cycle.pk)
    page = load_run_page(run, RunDetailParams({}))
    assert [(row.run.title, row.depth) for row in page.calls.rows[0]["children"]] == [("child", 0), ("deepest", 1)]
    assert [row.run.title for row in page.loose] == ["me"]
    assert f"/runs/{deepest.pk}/" in links(load(client, child))
    create_call(deepest, line=1, child_run=child.pk)
    page = load_run_page(run, RunDetailParams({}))
    rows = (*page.calls.rows[0]["children"], *page.loose)
    assert {row.run.title for row in rows} == {"child", "deepest", "me"}


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_description_of_a_subagent_names_the_call_that_spawned_it(
    project: Project, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Its call is still open, so that no result names the subagent; in any order of import."""
    own = {**user("look", uuid="s1"), "agentId": "a1", "isSidechain": True}
    folder = tmp_path / SESSION / "subagents"
    meta = {"agentType": "Explore", "description": "Look around", "toolUseId": "toolu_01", "spawnDepth": 1}
    files = [
        write(tmp_path / f"{SESSION}.jsonl", [user("go", uuid="u1"), asks("toolu_01", "Agent", {"prompt": "look"})]),
        write(folder / "agent-a1.jsonl", [own]),
        write(folder / "agent-a1.meta.json", [meta]),
    ]
    for index in order:
        assert import_paths(project, [files[index]]).problems == []
    child = Run.objects.get(external_id=f"{SESSION}/a1")
    assert child.parent is not None
    assert (child.parent.external_id, child.parent_call) == (SESSION, Call.objects.get().pk)
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "content", "problems"),
    [
        (f"{SESSION}/subagents/agent-a1.meta.json", {"agentType": "x", "parentAgentId": "a0"}, 0),
        ("agent-a1.meta.json", {"agentType": "x", "toolUseId": "toolu_01"}, 0),
        (f"{SESSION}/subagents/agent-a1.meta.json", b'{"agentType": "x", ', 1),
    ],
)
def test_a_description_without_a_session_or_of_a_nested_subagent_makes_no_run(
    project: Project, tmp_path: Path, name: str, content: Any, problems: int
) -> None:
    report = import_paths(project, [write(tmp_path / name, [content])])
    assert (len(report.problems), Run.objects.count()) == (problems, 0)
