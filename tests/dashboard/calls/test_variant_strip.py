"""The strip of the Call page: one call under every variant of its family."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboard.models import Project, Run
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import Page, assert_harmless, parse_page
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call

NAMES = ["receipt", "tail_first", "json_aware", "canonical_json", "outcome_json", "tagged", "markdown"]


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def cells(page: Page) -> list[str]:
    return page.texts(".strip-cells li")


def load_fragment(client: Client, address: str) -> Page:
    response = client.get(address, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return parse_page(response)


def test_the_call_page_asks_for_the_strip_when_it_comes_into_view(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    strip = load_call(client, call).by_id("variants")
    assert (strip["hx-get"], strip["hx-trigger"]) == (f"/calls/{call.pk}/variants/?run={run.pk}", "intersect once")
    link = strip.by_role("link", "This call under every variant")
    assert (link["href"], link["data-key"]) == (f"/calls/{call.pk}/variants/", "v")
    names = [f"{name} {key}" for name, key in zip(NAMES, "ABCDEGH", strict=True)]
    assert strip.texts("li") == names, "nothing is written for a first screen"


def test_every_variant_has_its_tokens_cut_lint_difference_and_key(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 100)
    page = load_fragment(client, f"/calls/{call.pk}/variants/")
    labels = cells(page)
    assert [label.split()[:2] for label in labels] == [list(pair) for pair in zip(NAMES, "ABCDEGH", strict=True)]
    assert all(re.search(r"\d tok", label) for label in labels)
    assert all(re.search(r"−\d+ \+\d+ lines", label) for label in labels)
    assert "1 finding" in labels[3]
    assert page.is_fragment


def test_a_cell_opens_its_text_in_place_and_keeps_how_the_page_is_looked_at(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    address = f"/calls/{call.pk}/variants/"
    for page in (load_call(client, call, "?q=x&left=recorded"), load_fragment(client, f"{address}?q=x")):
        link = page.select_one("[data-variant=markdown]")
        assert link["href"] == link["hx-get"] == f"/calls/{call.pk}/?q=x&right=variant-markdown"
        assert (link["hx-target"], link["data-key"]) == ("#step", "H")
    alone = parse_page(client.get(address)).select_one("[data-variant=markdown]")
    assert alone["href"] == f"/calls/{call.pk}/?right=variant-markdown"
    assert "hx-get" not in alone, "no half to put it into"


def test_a_cell_leads_to_its_preview_of_this_call(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    preview = load_fragment(client, f"/calls/{call.pk}/variants/").by_role("link", "preview markdown")
    assert preview["href"] == f"/experiments/renderers/command/?call={call.pk}&variant=markdown"
    assert client.get(preview["href"]).status_code == 200


def test_the_strip_is_a_page_of_its_own_without_javascript(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello"), "variants/")
    assert page.by_role("heading", "Under every variant")
    assert len(cells(page)) == len(NAMES)


def test_a_call_without_a_readable_envelope_says_so(client: Client, run: Run) -> None:
    call = create_call(run, result={"stdout": "x"}, envelope={"tool_name": 7})
    page = load_fragment(client, f"/calls/{call.pk}/variants/")
    assert "There is no envelope to write about" in page.text


def test_a_call_of_another_project_has_no_strip(client: Client, run: Run) -> None:
    other = bash(create_run(create_project("other")), "hello")
    assert client.get(f"/calls/{other.pk}/variants/").status_code == 404


def test_hostile_output_stays_out_of_the_strip(client: Client, run: Run) -> None:
    assert_harmless(load_fragment(client, f"/calls/{bash(run, HOSTILE).pk}/variants/"))
