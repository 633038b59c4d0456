"""The workspace of a run: addresses, tabs, the list of steps, and the keys that go to a step of a kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dashboard.models import Project, Run
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.imported_sessions import import_session
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import bash
from tests.dashboard.sessions import steps

pytestmark = pytest.mark.postgresql

ROWS = {"HX-Request": "true", "HX-Target": "step-rows"}


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    run = create_run(project, "session-one", title="Fix the login")
    for line, status in enumerate(("success", "error", "success", "error"), 1):
        create_call(run, line=line, status=status, outcome="failed" if status == "error" else "succeeded")
    return run


def open_step(client: Client, run: Run, address: str) -> Page:
    response = client.get(f"/runs/{run.pk}/{address}")
    assert response.status_code == 200
    return parse_page(response)


@pytest.mark.parametrize("tab", ["halves", "context", "replay", "wire", "raw"])
def test_each_tab_has_an_address_marks_itself_and_stays_while_stepping(client: Client, run: Run, tab: str) -> None:
    page = open_step(client, run, f"2/{tab}")
    tabs = page.by_role("navigation", "Views of the step")
    assert [link["data-tab"] for link in tabs.select("[aria-current=page]")] == [tab]
    assert page.select_one("a[rel=next]")["href"].partition("?")[0] == f"/runs/{run.pk}/3/{tab}"
    assert page.select_one(".steps [aria-current=true]")["data-position"] == "2"


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("", "3/halves"),
        ("?left=recorded&q=tool%3ABash", "3/halves?left=recorded&q=tool%3ABash"),
        ("?right=wire-gemini", "3/wire?right=wire-gemini"),
        ("?right=variant-markdown", "3/replay?right=variant-markdown"),
        ("?from=run&run=nonsense", "3/halves"),
    ],
)
def test_the_permanent_address_of_a_call_leads_to_its_step_in_the_tab_that_it_asks_for(
    client: Client, run: Run, query: str, address: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    call = run.own_calls.get(line=3)
    client.get("/docs/")  # the first visit writes the session
    with django_assert_num_queries(5):  # session, user, memberships, the places of the call, those before it
        response = client.get(f"/calls/{call.pk}/{query}", follow=False)
    assert response.url == f"/runs/{run.pk}/{address}"


def test_a_copied_call_leads_to_its_own_run_or_to_the_one_that_is_named(
    client: Client, run: Run, project: Project
) -> None:
    fork, call = create_run(project, "fork"), run.own_calls.get(line=3)
    fork.members.create(call=call, ordinal=1, inherited=True)
    assert client.get(f"/calls/{call.pk}/", follow=False).url == f"/runs/{run.pk}/3/halves"
    assert client.get(f"/calls/{call.pk}/?run={fork.pk}", follow=False).url == f"/runs/{fork.pk}/1/halves"


@pytest.mark.parametrize(
    ("at", "goal", "to"),
    [(1, "next-failed", 2), (2, "next-failed", 4), (3, "previous-failed", 2), (4, "next-failed", 0)],
)
def test_keys_lead_to_the_next_and_previous_failed_call(client: Client, run: Run, at: int, goal: str, to: int) -> None:
    response = client.get(f"/runs/{run.pk}/{at}/context?go={goal}")
    if to:
        assert response.url == f"/runs/{run.pk}/{to}/context"
    else:
        assert "No call failed after this one." in parse_page(response).select_one("p[role=status]").text


@pytest.mark.usefixtures("alice")
def test_keys_lead_to_the_call_behind_a_drop_of_the_context(client: Client, project: Project, tmp_path: Path) -> None:
    run = import_session(project, tmp_path, *steps(60_000, 138_395, 95_864, 96_000))
    assert client.get(f"/runs/{run.pk}/1/halves?go=next-change").url == f"/runs/{run.pk}/3/halves"
    assert client.get(f"/runs/{run.pk}/4/halves?go=previous-change").url == f"/runs/{run.pk}/3/halves"


@pytest.mark.parametrize("address", ["0/halves", "5/halves", "1/nothing", f"{'9' * 30}/halves"])
def test_a_step_that_does_not_exist_is_not_found(client: Client, run: Run, address: str) -> None:
    assert client.get(f"/runs/{run.pk}/{address}").status_code == 404


def test_the_list_is_that_of_the_filter_with_the_positions_of_the_run(client: Client, run: Run) -> None:
    page = open_step(client, run, "2/halves?q=status:failed")
    assert [row["data-position"] for row in page.select(".steps .call-row")] == ["2", "4"]
    assert page.select_one("a[rel=next]")["href"] == f"/runs/{run.pk}/4/halves?q=status%3Afailed"


def test_a_filter_that_cannot_be_read_lists_nothing(client: Client, run: Run) -> None:
    page = open_step(client, run, "2/halves?q=nonsense:3")
    assert page.has("#q-problems")
    assert not page.has(".steps .call-row")
    assert not page.all_by_text("Show all")


def test_a_filter_without_a_match_says_so_and_leads_back_to_all_steps(client: Client, run: Run) -> None:
    rows = open_step(client, run, "2/halves?q=tool:Bash+took:>9h").by_id("step-rows")
    assert rows.text == "No call of this run matches. Show all"
    assert "q=" not in rows.by_role("link", "Show all")["href"]


def test_the_list_of_a_live_run_is_asked_for_again_and_has_what_came(
    client: Client, project: Project, alice: User
) -> None:
    run = create_run(project, "live", last_at=timezone.now(), call_count=1, revision=1)
    create_call(run, line=1)
    rows = open_step(client, run, "1/halves").by_id("step-rows")
    assert rows["hx-get"] == "?since=1"
    address = f"/runs/{run.pk}/1/halves{rows['hx-get']}"
    assert client.get(address, headers=ROWS).status_code == 204
    create_call(run, line=2)
    Run.objects.filter(pk=run.pk).update(revision=2, call_count=2)
    fragment = parse_page(client.get(address, headers=ROWS))
    assert [row["data-position"] for row in fragment.select(".call-row")] == ["1", "2"]
    assert not fragment.has("#step")


def test_the_context_lists_what_stood_before_the_step_newest_first(
    client: Client, project: Project, alice: User, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path, *steps(60_000, 70_000, 80_000))
    page = open_step(client, run, "3/context")
    kinds = [(entry["data-kind"], int(entry.select_one(".where").text.split()[1])) for entry in page.select(".entry")]
    assert [line for _, line in kinds] == sorted((line for _, line in kinds), reverse=True)
    assert kinds[0][0] == "receipt"
    sums = page.select_one(".context-kinds").text
    assert "2 receipts" in sums
    assert "2 calls' arguments" in sums
    changes = page.select_one(".context-changes").texts("li")
    assert [change.partition(",")[0] for change in changes] == ["+ 1 call's arguments", "+ 1 receipt"]


def test_the_raw_tab_has_the_lines_of_the_source_as_they_were_recorded(
    client: Client, project: Project, alice: User, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path, *steps(60_000, 70_000))
    page = open_step(client, run, "1/raw")
    [source] = {run_source.path for run_source in run.sources.all()}
    recorded = Path(source).read_text("utf-8").splitlines()
    shown = [part.exact for part in page.select(".raw-lines pre")]
    assert shown
    assert set(shown) <= set(recorded)


def test_a_step_of_another_project_is_not_found(client: Client, run: Run, project: Project) -> None:
    bash(run, "secret", line=9)
    Run.objects.filter(pk=run.pk).update(project=Project.objects.create(slug="other", name="Other"))
    assert client.get(f"/runs/{run.pk}/1/halves").status_code == 404
