"""The panel beside the list of runs, asked for by `peek=` in the address."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.models import Project, Run
from tests.dashboard.factories import create_call, create_project, create_run

FRAGMENT = {"HX-Request": "true", "HX-Target": "peek"}
PANEL = 'class="peek-panel"'


def text_of(client: Client, address: str, **headers: str) -> str:
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def panel_of(html: str) -> str:
    return html.partition(PANEL)[2].partition("</section>")[0]


@pytest.fixture
def run(project: Project) -> Run:
    """Six failed calls and one that succeeded with the biggest receipt."""
    facts = {"model": "opus", "call_count": 7, "failed_count": 6, "strip": "oeeeeee"}
    run = create_run(project, title="Fix <b>\u202ethis", facets={"agent": ["claude-code"]}, **facts)
    create_call(run, tool="Read", tokens=9_000, summary="the whole file")
    for number in range(6):
        create_call(run, tool=f"Fails{number}", status="error", error_kind=f"kind_{number}", tokens=100 + number)
    return run


def test_the_panel_tells_a_run_and_links_to_few_of_its_calls(operator_client: Client, run: Run) -> None:
    html = text_of(operator_client, f"/runs/?q=agent:claude-code&sort=tokens&peek={run.pk}")
    panel = panel_of(html)
    for said in ("Fix &lt;b&gt;", "opus", "6 failed, 1 ok", "the first 4 of 6", "kind_0", "9,000", "Open the run"):
        assert said in panel
    assert "\u202e" not in html
    assert f'href="/runs/{run.pk}/"' in panel
    assert panel.count('href="/calls/') == panel.count("<code>echo hello</code>") == 8
    assert panel.index("Biggest receipts") < panel.index(">Read<") < panel.index(">Fails5<")
    assert 'href="?q=agent%3Aclaude-code&amp;sort=tokens"' in panel
    assert f'href="?q=agent%3Aclaude-code&amp;sort=tokens&amp;peek={run.pk.hex}"' in html


def test_a_run_with_more_calls_than_bars_is_told_in_its_own_counts(operator_client: Client, project: Project) -> None:
    """128 calls are 120 bars; the words spoke of the bars."""
    run = create_run(project, call_count=128, failed_count=6, cut_count=1, strip="o" * 114 + "e" * 5 + "x")
    said = "128 calls: 6 failed, 1 cut; a bar is the worst of several"
    html = text_of(operator_client, f"/runs/?peek={run.pk}")
    assert said in panel_of(html)
    assert html.count(f'aria-label="{said}"') == 2


@pytest.mark.parametrize(("certainty", "worth"), [("exact", "exact for this model"), ("estimate", "an estimate for")])
def test_a_sum_of_tokens_names_its_encoding_and_its_worth(
    operator_client: Client, project: Project, certainty: str, worth: str
) -> None:
    run = create_run(project, token_count=12, token_certainty=certainty)
    for page in (
        panel_of(text_of(operator_client, f"/runs/?peek={run.pk}")),
        text_of(operator_client, f"/runs/{run.pk}/"),
    ):
        assert "o200k_base" in page
        assert worth in page


def test_the_fragment_is_the_panel_of_the_same_address(operator_client: Client, run: Run) -> None:
    address = f"/runs/?peek={run.pk}"
    response = operator_client.get(address, headers=FRAGMENT)
    part = response.content.decode()
    assert "HX-Target" in response["Vary"]
    assert "run-table" not in part
    assert panel_of(part) == panel_of(text_of(operator_client, address))
    assert PANEL not in text_of(operator_client, "/runs/")


@pytest.mark.parametrize("asked", ["nonsense", "0c6f2a1e-7d3b-4e58-9a41-5b8f0d2c7e96", "foreign", "\x00", "9" * 5_000])
@pytest.mark.parametrize("headers", [{}, FRAGMENT])
def test_a_run_that_is_not_the_projects_is_told_and_the_list_stays(
    operator_client: Client, run: Run, asked: str, headers: dict[str, str]
) -> None:
    foreign = create_run(create_project("other"), title="Secret")
    response = operator_client.get("/runs/", {"peek": foreign.pk.hex if asked == "foreign" else asked}, headers=headers)
    html = response.content.decode()
    assert response.status_code == 200
    assert "That run is not here" in panel_of(html)
    assert "Secret" not in html
    assert (run.pk.hex in html) == (not headers)


@pytest.mark.parametrize("calls", [1, 30])
def test_the_number_of_queries_does_not_grow_with_the_run(
    operator_client: Client, project: Project, calls: int, django_assert_num_queries
) -> None:
    run = create_run(project)
    for number in range(calls):
        create_call(run, status="error", tokens=number + 1)
    operator_client.get("/runs/")
    with django_assert_num_queries(6):
        operator_client.get("/runs/")
    with django_assert_num_queries(10):
        operator_client.get(f"/runs/?peek={run.pk}")
    with django_assert_num_queries(7):
        operator_client.get(f"/runs/?peek={run.pk}", headers=FRAGMENT)
