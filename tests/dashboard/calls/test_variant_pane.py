"""The right half of the Call page under a variant: what the model would have been told, and was not."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboard.models import Project, Run, TemplateVariant
from tests.dashboard.calls.test_call_page import HOSTILE, bash, body, receipt_of
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import parse_page, text_of
from tests.dashboard.variants.test_template_variants import save

HTMX = {"HX-Request": "true"}
LABEL = "not what the model saw"


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def half(html: str) -> str:
    """The right half of a page, or of its fragment."""
    return html.partition('data-half="variant"')[2].partition("</section>")[0]


def words(html: str) -> str:
    return " ".join(text_of(html).split())


def test_the_address_shows_a_variant_in_the_place_of_the_receipt_and_says_that_nobody_saw_it(
    client: Client, run: Run
) -> None:
    call = bash(run, "hello\nworld\n", receipt="hello\nworld")
    shown = half(body(client, call, "?right=variant-markdown"))
    assert f"What markdown would have said {LABEL}" in words(shown)
    assert "Written now by markdown version 1" in words(shown)
    assert receipt_of(shown).startswith("**Bash succeeded**")
    assert 'data-half="receipt"' not in body(client, call, "?right=variant-markdown")
    assert LABEL not in body(client, call)


def test_one_url_gives_the_fragment_and_the_page(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    address = f"/calls/{call.pk}/?right=variant-tagged"
    fragment = client.get(address, headers=HTMX).content.decode()
    assert "<html" not in fragment
    assert half(fragment) == half(client.get(address).content.decode()) != ""


def test_its_text_is_linked_to_the_canonical_half(client: Client, run: Run) -> None:
    html = body(client, bash(run, "hello\nworld\n"), "?right=variant-markdown")
    linked = re.search(r'<span class="linked" data-pointer="(/result/[^"]+)" data-at="0-12">hello', half(html))
    assert linked
    assert f'data-pointer="{linked[1]}">&quot;hello' in html.partition('data-half="variant"')[0]


def test_the_key_of_the_variant_and_escape_lead_back_to_the_receipt(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    html = body(client, call, "?q=x&right=variant-tail_first")
    back = re.search(r'<a class="chip" href="([^"]+)"[^>]*data-escape[^>]*data-key="B"', half(html))
    assert back
    assert back[1] == "?q=x"
    assert html.index('data-key="B"') == html.index('data-key="B"', html.index("data-escape")), "the first of that key"
    marked = re.findall(r'data-variant="(\w+)" aria-current="true"', html)
    assert marked == ["tail_first"]
    rail = html.partition('class="rail"')[2].partition("</nav>")[0]
    assert rail.count('aria-current="true"') == 1, "of the rail only the canonical result is shown"


def test_tokens_are_told_against_the_recorded_receipt_and_findings_with_it(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 100, receipt="x")
    shown = words(half(body(client, call, "?right=variant-canonical_json")))
    assert "more than the receipt that was recorded." in shown
    assert "escaped_json" in shown


@pytest.mark.rendering
def test_white_space_is_drawn_in_a_variant_too(client: Client, run: Run) -> None:
    call = bash(run, "hello world\n")
    assert "hello·world" in text_of(half(body(client, call, "?right=variant-markdown&spaces=1")))
    assert 'href="?right=variant-markdown&amp;spaces=1"' in half(body(client, call, "?right=variant-markdown"))


def test_a_call_without_a_receipt_can_be_looked_at_under_a_variant(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    call.receipts.all().delete()
    call.observations.filter(surface="receipt").delete()
    shown = words(half(body(client, call, "?right=variant-markdown")))
    assert "than the receipt that was recorded" not in shown
    assert "Bash succeeded" in shown


def test_the_neighbours_open_under_the_same_variant_and_one_that_has_it_not_says_so(client: Client, run: Run) -> None:
    first, second = bash(run, "one"), bash(run, "two")
    html = body(client, first, "?right=variant-tail_first")
    assert f'href="/calls/{second.pk}/?right=variant-tail_first" rel="next"' in html
    refused = half(body(client, first, "?right=variant-nothing"))
    assert "The command family of this call has no variant nothing. It has receipt, tail_first" in words(refused)
    assert "data-escape" in refused


def test_a_template_has_its_key_and_its_text_and_another_project_has_neither(
    client: Client, run: Run, project: Project
) -> None:
    call = bash(run, "hello\nworld\n")
    save(client, "It said {{ result.stdout_preview }}")
    html = body(client, call, "?right=variant-terse")
    assert receipt_of(half(html)).replace("\r", "") == "It said hello\nworld\n"
    current = parse_page(html).select_one("[data-variant=terse]")
    assert (current["aria-current"], current["data-hotkey"], current["data-key"]) == ("true", "click", "H")
    other = create_project("other")
    TemplateVariant.objects.update(project=other)
    assert "has no variant terse" in words(half(body(client, call, "?right=variant-terse")))
    client.force_login(create_user("vera", project=other))
    assert client.get(f"/calls/{call.pk}/?right=variant-terse").status_code == 404


def test_one_that_fails_says_why_in_its_half(client: Client, run: Run) -> None:
    save(client, "{% for i in (1..1000000000) %}x{% endfor %}", name="broken")
    shown = words(half(body(client, bash(run, "hello"), "?right=variant-broken")))
    assert "template/command/broken could not write this receipt." in shown


def test_hostile_output_is_text_under_a_variant(client: Client, run: Run) -> None:
    html = body(client, bash(run, HOSTILE), "?right=variant-markdown")
    assert "<script>alert" not in html
    assert "<b hx-post" not in html
    refused = body(client, bash(run, "x"), "?right=variant-%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in refused
