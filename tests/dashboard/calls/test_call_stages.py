"""The stages of the Call page: complete output, canonical result, receipt, provider body, recap."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Project, ReceiptFingerprint, Run
from dashboard.variants.fingerprints import envelope_sha256
from envelopes.transports import TRANSPORTS, Transport, transport
from tests.cases import each
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, assert_harmless
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call, receipt_text, recorded

STAGES = ["Complete output", "Canonical", "Receipt", "Wire", "Compacted"]
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}


@pytest.fixture
def run(client: Client, db: None) -> Run:
    project: Project = create_project()
    client.force_login(create_user("bob", project=project, role="viewer"))
    return create_run(project, "session-one")


def stages(page: Page) -> list[str]:
    return page.texts(".stages li")


def current(page: Page) -> list[bool]:
    """For each stage whether it is in view."""
    return [stage.has("[aria-current=true]") for stage in page.select(".stages li")]


def wire_json(page: Page) -> Any:
    """The JSON of the right half, put together again from its markup."""
    return json.loads(page.select_one("[data-half=wire] .json").exact)


def test_a_call_has_five_stops_each_with_its_size(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello\n" * 100))
    labels = stages(page)
    assert [label.startswith(title) for label, title in zip(labels, STAGES, strict=True)] == [True] * 5
    assert all(re.search(r"\d K?B · [\d,]+ tok", label) for label in labels)
    assert labels[2] == "Receipt 600 B · 200 tok"
    assert current(page) == [False, True, True, False, False]


@pytest.mark.parametrize(("characters", "tokens"), [(600, "77 tok"), (599, "200 tok")])
def test_a_receipts_tokens_are_those_of_the_import_where_it_counted_this_text(
    client: Client, run: Run, characters: int, tokens: str
) -> None:
    call = bash(run, "hello\n" * 100)
    call.receipts.update(tokens=77, characters=characters)
    page = load_call(client, call)
    assert stages(page)[2] == f"Receipt 600 B · {tokens}"
    title = page.select(".stages li")[2].select_one("abbr")["title"]
    assert (title == "Counted at import: estimate") is (tokens == "77 tok")


def follows(page: Page) -> list[bool]:
    """For each stage whether an arrow leads to it from the one before."""
    return ["data-follows" in stage for stage in page.select(".stages li")]


def test_an_arrow_leads_to_a_stage_only_where_it_was_made_from_the_one_before(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    assert follows(load_call(client, call)) == [False, True, False, True, False]
    without_result = recorded(run, "Bash", {"command": "ls"}, None, "hello")
    assert follows(load_call(client, without_result)) == [False, False, False, True, False]
    assert stages(load_call(client, without_result))[1].startswith("Canonical made from what else was recorded")
    fingerprint = ReceiptFingerprint.objects.create(
        receipt=call.receipts.get(),
        variant="command/receipt",
        version=1,
        policy="default",
        canonical_sha256=envelope_sha256(bytes(call.projection.data)),
        text_sha256="",
    )
    assert follows(load_call(client, call)) == [False, True, True, True, False]
    fingerprint.canonical_sha256 = "0" * 64
    fingerprint.save()
    assert follows(load_call(client, call)) == [False, True, False, True, False]


def test_a_stop_opens_in_its_half_and_keeps_the_other(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello"), "?left=recorded&right=wire-gemini")
    assert current(page) == [True, False, False, True, False]
    rail = page.select_one(".stages")
    assert rail.by_role("link", "Compacted")["href"] == "?left=recorded&right=compacted"
    assert rail.by_role("link", "Canonical")["href"] == "?right=wire-gemini"
    assert page.has("[data-half=recorded]")


@pytest.mark.postgresql
@each("provider", TRANSPORTS)
def test_the_wire_is_the_providers_body_and_holds_the_very_receipt(
    client: Client, run: Run, provider: Transport
) -> None:
    call = run.own_calls.first() or bash(run, 'a "quoted"\nline\n', external_id="toolu_1")
    body = wire_json(load_call(client, call, f"?right=wire-{provider.name}"))
    sent = client.get(f"/calls/{call.pk}/?as=wire-{provider.name}")
    assert sent["Content-Type"] == "application/json; charset=utf-8"
    assert body == sent.json()
    assert transport(provider.name).decode(body).receipt.text == 'a "quoted"\nline\n'


def test_a_failure_raises_the_native_flag_of_a_provider_that_has_one(client: Client, run: Run) -> None:
    call = recorded(run, "Read", {"file_path": "/x"}, "Error: File does not exist.", "File does not exist.")
    assert client.get(f"/calls/{call.pk}/?as=wire-anthropic").json()["is_error"] is True
    assert "is_error" not in client.get(f"/calls/{call.pk}/?as=wire-openai_chat").json()


def test_a_receipt_that_a_provider_cannot_carry_says_why(client: Client, run: Run) -> None:
    call = recorded(run, "Read", {"file_path": "/x.png"}, None, [PICTURE])
    wire = load_call(client, call, "?right=wire-openai_chat").select_one("[data-half=wire]")
    assert "OpenAI Chat Completions does not support this receipt:" in wire.text
    assert "a tool message contains no image" in wire.text
    assert client.get(f"/calls/{call.pk}/?as=wire-openai_chat").status_code == 404
    assert client.get(f"/calls/{call.pk}/?as=wire-anthropic").json()["content"] == [PICTURE]


def test_what_stays_keeps_the_outcome_and_names_what_goes(client: Client, run: Run) -> None:
    call = bash(run, "line of output\n" * 400)
    compacted = load_call(client, call, "?right=compacted").select_one("[data-half=compacted]")
    response = client.get(f"/calls/{call.pk}/?as=compacted")
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    text = response.content.decode()
    assert receipt_text(compacted) == text
    assert text.startswith("Bash succeeded: ")
    assert "characters dropped by compaction]" in text
    dropped = compacted.select_one(".dropped-fields button")
    assert dropped["data-pointer"] == dropped.text == "/result/stdout_preview"
    assert text.count("line of output") == 1  # the summary: what the command printed first


def test_a_recap_that_saves_nothing_says_that_the_receipt_would_stay(client: Client, run: Run) -> None:
    words = "No smaller than the receipt"
    assert words in load_call(client, bash(run, "ok"), "?right=compacted").text
    assert words not in load_call(client, bash(run, "line of output\n" * 400), "?right=compacted").text


def test_a_call_that_nothing_answered_has_no_envelope_that_claims_a_success(client: Client, run: Run) -> None:
    call = create_call(run, status="unknown")
    page = load_call(client, call)
    assert not page.has(".stages")
    assert page.by_role("heading", "No result was recorded")
    assert page.by_role("heading", "No receipt was recorded")
    assert not page.has("[data-pointer='/status']")
    for claim in ("completed", "This call under every variant"):
        assert claim not in page.text
    assert client.get(f"/calls/{call.pk}/?as=json").json()["canonical"] is None
    assert client.get(f"/calls/{call.pk}/raw/canonical").status_code == 404


def test_what_was_not_recorded_is_no_link(client: Client, run: Run) -> None:
    call = create_call(run, status="success")
    page = load_call(client, call)
    labels = stages(page)
    assert (labels[0], labels[2], labels[3]) == (
        "Complete output not recorded",
        "Receipt not recorded",
        "Wire no receipt to send",
    )
    assert [stage.has("a") for stage in page.select(".stages li")] == [False, True, False, False, True]
    assert client.get(f"/calls/{call.pk}/?as=wire-mcp").status_code == 404


@pytest.mark.parametrize("right", ["nothing", "wire-", "anthropic", "wire-%3Cscript%3E"])
def test_an_unknown_form_is_the_receipt(client: Client, run: Run, right: str) -> None:
    page = load_call(client, bash(run, "hello"), f"?right={right}")
    assert page.has("[data-half=receipt]")
    assert "<script>" not in page.markup  # of the address: looks at bytes, as a browser gets them
    assert current(page)[2]


@pytest.mark.parametrize("right", ["wire-anthropic", "wire-gemini", "compacted"])
def test_hostile_output_is_text_at_every_stage(client: Client, run: Run, right: str) -> None:
    call = bash(run, HOSTILE)
    assert_harmless(load_call(client, call, f"?right={right}"))
    form = client.get(f"/calls/{call.pk}/?as={right}")
    assert "sandbox" in form["Content-Security-Policy"]
    assert form["X-Content-Type-Options"] == "nosniff"


def test_a_long_result_is_measured_by_its_length(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "x" * 100_000, "x" * 200))
    output = page.select(".stages li")[0]
    assert output.select_one("abbr")["title"] == "Counted with bytes/4: estimate"
    assert output.text.startswith("Complete output 100.1 KB · 25,0")
    assert len(page.markup) < 400_000


def test_the_walk_keeps_the_form_that_is_open(client: Client, run: Run) -> None:
    first, _ = bash(run, "one", line=1), bash(run, "two", line=2)
    page = load_call(client, first, "?right=compacted")
    assert page.select_one("a[rel=next]")["href"] == f"/runs/{run.pk}/2/replay?right=compacted"
