"""The rail of the Call page: complete output, canonical result, receipt, wire, what stays."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Project, Run
from envelopes.transports import TRANSPORTS, transport
from tests.dashboard.calls.test_call_page import HOSTILE, bash, body, receipt_of, recorded
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of

STOPS = ["Complete output", "Canonical", "Receipt", "Wire", "Compacted"]
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}


@pytest.fixture
def run(client: Client, db: None) -> Run:
    project: Project = create_project()
    client.force_login(create_user("bob", project=project, role="viewer"))
    return create_run(project, "session-one")


def stops(page: str) -> list[str]:
    """Each stop as it is read, marked by `*` where it is looked at."""
    found = re.search(r'<nav class="rail".*?</nav>', page, re.DOTALL)
    assert found
    items = found[0].split("<li>")[1:]
    return [" ".join(text_of(one).split()) + " *" * ("aria-current" in one) for one in items]


def right_half(page: str) -> str:
    return page.partition('<div class="halves">')[2].partition("</section>")[2].partition("</section>")[0]


def exact_json(page: str) -> Any:
    """The JSON of the right half, put together again from its markup."""
    found = re.search(r'<div class="json" data-exact>(.*?)</div>', right_half(page), re.DOTALL)
    assert found
    return json.loads(text_of(found[1]))


def test_a_call_has_five_stops_each_with_its_size(client: Client, run: Run) -> None:
    call = bash(run, "hello\n" * 100)
    found = stops(body(client, call))
    assert [stop.rstrip(" *").startswith(title) for stop, title in zip(found, STOPS, strict=True)] == [True] * 5
    assert all(re.search(r"\d B · [\d,]+ tok|KB · [\d,]+ tok", stop) for stop in found)
    assert found[2] == "Receipt 600 B · 200 tok *"
    assert [stop.endswith("*") for stop in found] == [False, True, True, False, False]


@pytest.mark.parametrize(("characters", "said"), [(600, "77 tok"), (599, "200 tok")])
def test_a_receipts_tokens_are_those_of_the_import_where_it_counted_this_text(
    client: Client, run: Run, characters: int, said: str
) -> None:
    call = bash(run, "hello\n" * 100)
    call.receipts.update(tokens=77, characters=characters)
    page = body(client, call)
    assert stops(page)[2] == f"Receipt 600 B · {said} *"
    assert ("Counted when it was taken in: estimate" in page) is (said == "77 tok")


def test_a_stop_opens_in_its_half_and_keeps_the_other(client: Client, run: Run) -> None:
    page = body(client, bash(run, "hello"), "?left=recorded&right=wire-gemini")
    assert [stop.endswith("*") for stop in stops(page)] == [True, False, False, True, False]
    assert 'href="?left=recorded&amp;right=compacted"' in page
    assert 'href="?right=wire-gemini"' in page
    assert 'data-half="recorded"' in page


@pytest.mark.parametrize("one", TRANSPORTS, ids=lambda one: one.name)
def test_the_wire_is_the_providers_body_and_holds_the_very_receipt(client: Client, run: Run, one: Any) -> None:
    call = bash(run, 'a "quoted"\nline\n', external_id="toolu_1")
    shown = exact_json(body(client, call, f"?right=wire-{one.name}"))
    sent = client.get(f"/calls/{call.pk}/?as=wire-{one.name}")
    assert sent["Content-Type"] == "application/json; charset=utf-8"
    assert shown == sent.json()
    assert transport(one.name).decode(shown).receipt.text == 'a "quoted"\nline\n'


def test_a_failure_raises_the_native_flag_of_a_provider_that_has_one(client: Client, run: Run) -> None:
    call = recorded(run, "Read", {"file_path": "/x"}, "Error: File does not exist.", "File does not exist.")
    assert client.get(f"/calls/{call.pk}/?as=wire-anthropic").json()["is_error"] is True
    assert "is_error" not in client.get(f"/calls/{call.pk}/?as=wire-openai_chat").json()


def test_a_receipt_that_a_provider_cannot_carry_says_why(client: Client, run: Run) -> None:
    call = recorded(run, "Read", {"file_path": "/x.png"}, None, [PICTURE])
    page = body(client, call, "?right=wire-openai_chat")
    assert "OpenAI Chat Completions cannot carry this receipt" in page
    assert "a tool message contains no image" in page
    assert client.get(f"/calls/{call.pk}/?as=wire-openai_chat").status_code == 404
    assert client.get(f"/calls/{call.pk}/?as=wire-anthropic").json()["content"] == [PICTURE]


def test_what_stays_keeps_the_outcome_and_names_what_goes(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 400)
    page = body(client, call, "?right=compacted")
    text = client.get(f"/calls/{call.pk}/?as=compacted").content.decode()
    assert receipt_of(right_half(page)) == text
    assert text.startswith("Bash succeeded: ")
    assert "characters dropped by compaction]" in text
    assert 'data-pointer="/result/stdout_preview">/result/stdout_preview</button>' in right_half(page)
    assert "line of output" not in text


def test_a_recap_that_saves_nothing_says_that_the_receipt_would_stay(client: Client, run: Run) -> None:
    words = "No smaller than the receipt"
    assert words in body(client, bash(run, "ok"), "?right=compacted")
    assert words not in body(client, bash(run, "line of output\n" * 400), "?right=compacted")


def test_a_call_that_nothing_answered_has_no_envelope_that_claims_a_success(client: Client, run: Run) -> None:
    call = create_call(run, status="unknown")
    page = body(client, call)
    assert 'class="rail"' not in page
    assert "No result was recorded" in page
    assert "No receipt was recorded" in page
    for claim in ('data-pointer="/status"', "completed", "This call under every variant"):
        assert claim not in page
    assert client.get(f"/calls/{call.pk}/?as=json").json()["canonical"] is None
    assert client.get(f"/calls/{call.pk}/raw/canonical").status_code == 404


def test_what_was_not_recorded_is_no_link(client: Client, run: Run) -> None:
    call = create_call(run, status="success")
    found = stops(body(client, call))
    assert found[0] == "Complete output not recorded"
    assert found[2] == "Receipt not recorded"
    assert found[3] == "Wire no receipt to send"
    assert client.get(f"/calls/{call.pk}/?as=wire-mcp").status_code == 404


@pytest.mark.parametrize("right", ["nothing", "wire-", "anthropic", "wire-%3Cscript%3E"])
def test_an_unknown_form_is_the_receipt(client: Client, run: Run, right: str) -> None:
    page = body(client, bash(run, "hello"), f"?right={right}")
    assert 'data-half="receipt"' in page
    assert "<script>" not in page
    assert stops(page)[2].endswith("*")


@pytest.mark.parametrize("right", ["wire-anthropic", "wire-gemini", "compacted"])
def test_hostile_output_is_text_at_every_stop(client: Client, run: Run, right: str) -> None:
    call = bash(run, HOSTILE)
    page = body(client, call, f"?right={right}")
    assert "<script>alert" not in page
    assert "<b hx-post" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    form = client.get(f"/calls/{call.pk}/?as={right}")
    assert "sandbox" in form["Content-Security-Policy"]
    assert form["X-Content-Type-Options"] == "nosniff"


def test_a_long_result_is_measured_by_its_length(client: Client, run: Run) -> None:
    page = body(client, bash(run, "x" * 100_000, "x" * 200))
    assert 'title="Counted with bytes/4: estimate"' in page
    assert stops(page)[0].startswith("Complete output 100.1 KB · 25,0")
    assert len(page) < 400_000


def test_the_walk_keeps_the_form_that_is_open(client: Client, run: Run) -> None:
    first = bash(run, "one")
    bash(run, "two")
    assert re.search(r'<a [^>]*href="[^"]*\?right=compacted" rel="next"', body(client, first, "?right=compacted"))
