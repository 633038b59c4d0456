"""The strip of the Call page: one call under every variant of its family."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboard.models import Project, Run
from tests.dashboard.calls.test_call_page import HOSTILE, bash, body
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import text_of

NAMES = ["receipt", "tail_first", "json_aware", "canonical_json", "outcome_json", "tagged", "markdown"]


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def cells(html: str) -> list[str]:
    return [" ".join(text_of(one).split()) for one in html.partition('class="strip-cells"')[2].split("<li>")[1:]]


def fragment(client: Client, address: str) -> str:
    response = client.get(address, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


def test_the_call_page_asks_for_the_strip_when_it_comes_into_view(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    html = body(client, call)
    assert f'hx-get="/calls/{call.pk}/variants/" hx-trigger="revealed"' in html
    assert f'<a href="/calls/{call.pk}/variants/" data-hotkey="click" data-key="v"' in html
    assert [one.split()[:2] for one in cells(html)] == [list(pair) for pair in zip(NAMES, "ABCDEFG", strict=True)]
    assert "tok" not in " ".join(cells(html)), "nothing is written for a first screen"


def test_every_variant_has_its_tokens_cut_lint_difference_and_key(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 100)
    html = fragment(client, f"/calls/{call.pk}/variants/")
    found = cells(html)
    assert [one.split()[0] for one in found] == NAMES
    assert [one.split()[1] for one in found] == list("ABCDEFG")
    assert all(re.search(r"\d tok", one) for one in found)
    assert all(re.search(r"−\d+ \+\d+ lines", one) for one in found)
    assert "1 finding" in found[3]
    assert "<html" not in html


def test_a_cell_opens_its_text_in_place_and_keeps_how_the_page_is_looked_at(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    for html in (body(client, call, "?q=x&left=recorded"), fragment(client, f"/calls/{call.pk}/variants/?q=x")):
        found = re.search(r'<a href="([^"]+)"([^>]*)data-variant="markdown"([^>]*)>', html)
        assert found
        assert found[1] == f"/calls/{call.pk}/?q=x&amp;right=variant-markdown"
        assert f'hx-get="{found[1]}" hx-target="#halves"' in found[2]
        assert 'data-key="G"' in found[3]
    alone = client.get(f"/calls/{call.pk}/variants/").content.decode()
    assert f'<a href="/calls/{call.pk}/?right=variant-markdown" data-variant' in alone, "no half to put it into"


def test_a_cell_leads_to_its_preview_of_this_call(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    html = fragment(client, f"/calls/{call.pk}/variants/")
    address = f"/renderers/command/?call={call.pk}&amp;variant=markdown"
    assert f'href="{address}"' in html
    assert client.get(address.replace("&amp;", "&")).status_code == 200


def test_the_strip_is_a_page_of_its_own_without_javascript(client: Client, run: Run) -> None:
    html = client.get(f"/calls/{bash(run, 'hello').pk}/variants/").content.decode()
    assert "The text of each variant of the family, in numbers" in html
    assert len(cells(html)) == len(NAMES)


def test_a_call_without_a_readable_envelope_says_so(client: Client, run: Run) -> None:
    call = create_call(run, result={"stdout": "x"}, envelope={"tool_name": 7})
    html = fragment(client, f"/calls/{call.pk}/variants/")
    assert "There is no envelope to write about" in html


def test_a_call_of_another_project_has_no_strip(client: Client, run: Run) -> None:
    other = bash(create_run(create_project("other")), "hello")
    assert client.get(f"/calls/{other.pk}/variants/").status_code == 404


def test_hostile_output_stays_out_of_the_strip(client: Client, run: Run) -> None:
    html = fragment(client, f"/calls/{bash(run, HOSTILE).pk}/variants/")
    assert "<script>alert" not in html
