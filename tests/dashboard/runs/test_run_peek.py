"""The panel beside the list of runs, opened by `peek=` in the address."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.models import Project, Run
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import Page, parse_page

FRAGMENT = {"HX-Request": "true", "HX-Target": "peek"}
PANEL = ".peek-panel"


def load(client: Client, address: str, **headers: str) -> Page:
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return parse_page(response)


@pytest.fixture
def run(project: Project) -> Run:
    """Six failed calls and one that succeeded with the biggest receipt."""
    facts = {"model": "opus", "call_count": 7, "failed_count": 6, "strip": "oeeeeee"}
    run = create_run(project, title="Fix <b>\u202ethis", facets={"agent": ["claude-code"]}, **facts)
    create_call(run, tool="Read", tokens=9_000, summary="the whole file")
    for number in range(6):
        create_call(run, tool=f"Fails{number}", status="error", error_kind=f"kind_{number}", tokens=100 + number)
    return run


def test_the_panel_describes_a_run_and_links_to_few_of_its_calls(operator_client: Client, run: Run) -> None:
    page = load(operator_client, f"/runs/?q=agent:claude-code&sort=tokens&peek={run.pk}")
    assert "\u202e" not in page.markup
    panel = page.select_one(PANEL)
    assert panel.by_role("link", "Fix <b>⟨RLO⟩this")["href"] == f"/runs/{run.pk}/"
    assert panel.facts.items() >= {"Model": "opus", "Calls": "7", "Failed": "6"}.items()
    assert panel.select_one(".strip .muted").text == "6 failed, 1 ok"
    failed, biggest = panel.select("ul")
    assert panel.texts("h3") == ["Failed calls the first 4 of 6", "Biggest receipts in tokens, estimate"]
    assert [row.text for row in failed.select("li")] == [f"Fails{n} echo hello kind_{n}" for n in range(4)]
    assert biggest.texts("li")[:2] == ["Read echo hello the whole file 9,000", "Fails5 echo hello kind_5 105"]
    assert len(panel.select('li a[href^="/calls/"]')) == 8
    assert panel.by_role("link", "Open the run")["href"] == f"/runs/{run.pk}/"
    assert panel.by_role("link", "Close the peek")["href"] == "?q=agent%3Aclaude-code&sort=tokens"
    assert page.by_role("link", "Peek")["href"] == f"?q=agent%3Aclaude-code&sort=tokens&peek={run.pk.hex}"


def test_a_run_with_more_calls_than_bars_is_described_by_its_own_counts(
    operator_client: Client, project: Project
) -> None:
    """128 calls are 120 bars; the label counts the calls."""
    run = create_run(project, call_count=128, failed_count=6, cut_count=1, strip="o" * 114 + "e" * 5 + "x")
    label = "128 calls: 6 failed, 1 cut; a bar is the worst of several"
    page = load(operator_client, f"/runs/?peek={run.pk}")
    assert page.select_one(f"{PANEL} .strip .muted").text == label
    assert len(page.all_by_role("img", label, exact=True)) == 2


def test_the_panel_claims_no_beginning_of_a_run_without_times(operator_client: Client, project: Project) -> None:
    """The time of the import, by which lists order such a run, is none of its own."""
    run = create_run(project, title="undated", started_at=None)
    assert load(operator_client, f"/runs/?peek={run.pk}").select_one(PANEL).facts["Began"] == "–"
    time = load(operator_client, "/search/?q=undated").select_one("time")
    assert time.text.startswith("imported ")
    assert time["title"].split(";")[0] == "The recording has no times"


@pytest.mark.postgresql("exact-exact for this model")
@pytest.mark.parametrize(("certainty", "worth"), [("exact", "exact for this model"), ("estimate", "an estimate for")])
def test_a_sum_of_tokens_names_its_encoding_and_its_worth(
    operator_client: Client, project: Project, certainty: str, worth: str
) -> None:
    run = create_run(project, token_count=12, token_certainty=certainty)
    for part in (
        load(operator_client, f"/runs/?peek={run.pk}").select_one(PANEL),
        load(operator_client, f"/runs/{run.pk}/"),
    ):
        title = part.by_text("≈ 12" if certainty == "estimate" else "12", exact=True)["title"]
        assert "o200k_base" in title
        assert worth in title


def test_the_fragment_is_the_panel_of_the_same_address(operator_client: Client, run: Run) -> None:
    address = f"/runs/?peek={run.pk}"
    response = operator_client.get(address, headers=FRAGMENT)
    fragment = parse_page(response)
    assert "HX-Target" in response["Vary"]
    assert not fragment.has(".run-table")
    assert fragment.select_one(PANEL).html == load(operator_client, address).select_one(PANEL).html
    assert not load(operator_client, "/runs/").has(PANEL)


@pytest.mark.parametrize("key", ["nonsense", "0c6f2a1e-7d3b-4e58-9a41-5b8f0d2c7e96", "foreign", "\x00", "9" * 5_000])
@pytest.mark.parametrize("headers", [{}, FRAGMENT])
def test_a_run_of_another_project_is_reported_and_the_list_stays(
    operator_client: Client, run: Run, key: str, headers: dict[str, str]
) -> None:
    foreign = create_run(create_project("other"), title="Secret")
    response = operator_client.get("/runs/", {"peek": foreign.pk.hex if key == "foreign" else key}, headers=headers)
    assert response.status_code == 200
    page = parse_page(response)
    assert "That run is not here" in page.select_one(PANEL).text
    assert "Secret" not in page.text
    assert page.has(f'[id="run-{run.pk.hex}"]') == (not headers)


@pytest.mark.parametrize("calls", [1, 30])
def test_the_number_of_queries_does_not_grow_with_the_run(
    operator_client: Client, project: Project, calls: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = create_run(project)
    for number in range(calls):
        create_call(run, status="error", tokens=number + 1)
    operator_client.get("/runs/")
    with django_assert_num_queries(8):
        operator_client.get("/runs/")
    with django_assert_num_queries(11):
        operator_client.get(f"/runs/?peek={run.pk}")
    with django_assert_num_queries(6):
        operator_client.get(f"/runs/?peek={run.pk}", headers=FRAGMENT)
