"""The right half of the Call page under a variant: a text that no model saw."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.models import Project, Run, TemplateVariant
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import Element, Page, assert_harmless, parse_page
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call, receipt_text
from tests.dashboard.variants.test_template_variants import save

HTMX = {"HX-Request": "true"}
LABEL = "not seen by the model"


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def half(page: Page) -> Element:
    """The right half of a page, or of its fragment."""
    return page.select_one("[data-half=variant]")


def test_the_address_shows_a_variant_in_the_place_of_the_receipt_and_says_that_nobody_saw_it(
    client: Client, run: Run
) -> None:
    call = bash(run, "hello\nworld\n", receipt="hello\nworld")
    page = load_call(client, call, "?right=variant-markdown")
    assert half(page).by_role("heading").text == "Receipt by markdown"
    assert half(page).select_one(".badge").text == LABEL
    assert "Written now by markdown version 1" in half(page).select_one(".share").text
    assert receipt_text(half(page)).startswith("**Bash succeeded**")
    assert not page.has("[data-half=receipt]")
    assert LABEL not in load_call(client, call).select_one(".halves").text


def test_one_url_gives_the_fragment_and_the_page(client: Client, run: Run) -> None:
    bash(run, "hello\n")
    address = f"/runs/{run.pk}/1/replay?right=variant-tagged"
    fragment = parse_page(client.get(address, headers={**HTMX, "HX-Target": "step"}))
    assert not fragment.has("main")
    assert half(fragment).html == half(parse_page(client.get(address))).html


def test_its_text_is_linked_to_the_canonical_half(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello\nworld\n"), "?right=variant-markdown")
    linked = half(page).select_one(".linked[data-at='0-12']")
    assert linked.text.startswith("hello")
    field = page.select_one(f"[data-half=canonical] [data-pointer='{linked['data-pointer']}']")
    assert field.text.startswith('"hello')


def test_the_key_of_the_variant_and_escape_lead_back_to_the_receipt(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    page = load_call(client, call, "?q=x&right=variant-tail_first")
    first, *_ = page.select("[data-key=B]")
    assert "data-escape" in first, "the first of that key"
    assert first["href"] == "?q=x"
    assert [link["data-variant"] for link in page.select("[data-variant][aria-current=true]")] == ["tail_first"]
    current = page.texts(".stages [aria-current=true] b")
    assert current == ["Canonical"], "of the stages only the canonical result is in view"


def test_tokens_are_compared_with_the_recorded_receipt_and_findings_as_well(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 100, receipt="x")
    pane = half(load_call(client, call, "?right=variant-canonical_json"))
    assert "more than the receipt that was recorded." in pane.select_one(".share").text
    assert pane.texts(".findings code") == ["escaped_json"]


@pytest.mark.rendering
def test_white_space_is_marked_in_a_variant_too(client: Client, run: Run) -> None:
    call = bash(run, "hello world\n")
    assert "hello·world" in half(load_call(client, call, "?right=variant-markdown&spaces=1")).text
    toggle = half(load_call(client, call, "?right=variant-markdown")).by_role("link", "white space")
    assert toggle["href"] == "?right=variant-markdown&spaces=1"


def test_a_call_without_a_receipt_can_be_looked_at_under_a_variant(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    call.receipts.all().delete()
    call.observations.filter(surface="receipt").delete()
    pane = half(load_call(client, call, "?right=variant-markdown"))
    assert "than the receipt that was recorded" not in pane.text
    assert "Bash succeeded" in receipt_text(pane)


def test_the_neighbours_open_under_the_same_variant_and_one_that_has_it_not_says_so(client: Client, run: Run) -> None:
    first, _ = bash(run, "one", line=1), bash(run, "two", line=2)
    page = load_call(client, first, "?right=variant-tail_first")
    assert page.select_one("a[rel=next]")["href"] == f"/runs/{run.pk}/2/replay?right=variant-tail_first"
    refused = half(load_call(client, first, "?right=variant-nothing"))
    assert "The command family of this call has no variant nothing. It has receipt, tail_first" in refused.text
    assert refused.has("[data-escape]")


def test_a_template_has_its_key_and_its_text_and_another_project_has_neither(
    client: Client, run: Run, project: Project
) -> None:
    call = bash(run, "hello\nworld\n")
    save(client, "It said {{ result.stdout_preview }}")
    page = load_call(client, call, "?right=variant-terse")
    assert receipt_text(half(page)).replace("\r", "") == "It said hello\nworld\n"
    current = page.select_one("[data-variant=terse]")
    assert (current["aria-current"], current.text) == ("true", "terse I")
    assert page.select_one("[data-escape]")["data-key"] == "I"
    other = create_project("other")
    TemplateVariant.objects.update(project=other)
    assert "has no variant terse" in half(load_call(client, call, "?right=variant-terse")).text
    client.force_login(create_user("vera", project=other))
    assert client.get(f"/calls/{call.pk}/?right=variant-terse").status_code == 404


def test_one_that_fails_says_why_in_its_half(client: Client, run: Run) -> None:
    save(client, "{% for i in (1..1000000000) %}x{% endfor %}", name="broken")
    refused = half(load_call(client, bash(run, "hello"), "?right=variant-broken"))
    assert "template/command/broken could not write this receipt." in refused.text


def test_hostile_output_is_text_under_a_variant(client: Client, run: Run) -> None:
    assert_harmless(load_call(client, bash(run, HOSTILE), "?right=variant-markdown"))
    assert_harmless(load_call(client, bash(run, "x"), "?right=variant-%3Cscript%3Ealert(1)%3C/script%3E"))
