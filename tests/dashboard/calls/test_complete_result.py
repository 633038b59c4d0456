"""The left half is what the tool returned: our own projection never shortens it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from dashboard.text.receipt_markup import FieldLinks
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import Element, parse_page
from tests.dashboard.recorded_calls import bash, load_call, recorded

LINES = "".join(f"line {number} of a log that is longer than a preview of the envelope\n" for number in range(1, 201))
OURS = "output truncated"  # the words of the projection's own cut


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "session-one")


def left(page: Element) -> Element:
    return page.select(".halves > .half")[0]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from strings(child)


def test_a_text_that_the_envelope_shortens_is_shown_whole(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, LINES))
    half = left(page)
    assert half["aria-label"] == "What the tool returned"
    document = json.loads(half.select_one(".json").exact)
    assert document["result"]["stdout_preview"] == LINES
    assert OURS not in half.text
    note = half.select_one(".own-cuts").text
    assert note.startswith(
        "Counterfoil keeps 125 of 200 lines of stdout_preview in the envelope. What was recorded is shown"
    )
    assert half.by_role("link", "Show the envelope as stored e")["href"] == "?left=envelope"


def test_the_envelope_as_stored_is_one_key_away_and_names_its_cuts(client: Client, run: Run) -> None:
    call = bash(run, LINES)
    half = left(load_call(client, call, "?left=envelope"))
    assert half["aria-label"] == "The envelope as stored"
    assert json.loads(half.select_one(".json").exact) == json.loads(bytes(call.projection.data))
    assert OURS in half.select_one(".json").text
    assert "Counterfoil keeps 125 of 200 lines" in half.select_one(".own-cuts").text
    assert "These cuts are Counterfoil's own, not the tool's." in half.select_one(".own-cuts").text
    assert half.by_role("link", "Show what was recorded e")["href"] == "?"


def test_an_envelope_without_cuts_has_no_note(client: Client, run: Run) -> None:
    assert not left(load_call(client, bash(run, "short\n"))).has(".own-cuts")


def test_all_of_a_long_text_can_be_loaded_part_by_part(client: Client, run: Run) -> None:
    text = LINES * 20
    call = bash(run, text)
    shown = left(load_call(client, call)).select_one(".json").exact
    while len(shown) < len(json.dumps(text)):
        page = parse_page(client.get(f"/calls/{call.pk}/half/canonical/?offset={len(shown)}"))
        shown += page.select_one("pre.json").exact
    assert json.loads(shown)["result"]["stdout_preview"] == text


def test_a_list_that_the_envelope_shortens_is_shown_whole(client: Client, run: Run) -> None:
    names = [f"/srv/app/{number}.py" for number in range(500)]
    result = {"mode": "files_with_matches", "filenames": names, "numFiles": 500}
    receipt = "\n".join(["Found 500 files", *names])
    half = left(load_call(client, recorded(run, "Grep", {"pattern": "x"}, result, receipt)))
    assert "Counterfoil keeps 200 of 500 items of filenames in the envelope." in half.select_one(".own-cuts").text
    assert names[-1] in half.select_one(".json").text


def test_a_long_result_of_another_shape_is_shown_as_it_was_recorded(client: Client, run: Run) -> None:
    result = [{"id": number, "title": f"issue {number}", "open": number % 2 == 0} for number in range(4_000)]
    call = recorded(run, "mcp__tracker__list", {}, result, json.dumps(result))
    page = load_call(client, call)
    assert left(page)["data-half"] == "recorded"
    assert "Counterfoil keeps" in left(page).select_one(".own-cuts").text
    assert left(page).by_role("link", "Canonical")["href"] == "?left=canonical"
    assert page.select(".stages li")[0].has("[aria-current=true]")
    assert left(load_call(client, call, "?left=canonical"))["data-half"] == "canonical"


def test_a_text_read_out_of_the_receipt_is_whole_and_called_that(client: Client, run: Run) -> None:
    half = left(load_call(client, recorded(run, "Bash", {"command": "cat log"}, None, LINES)))
    assert half["aria-label"] == "Read out of the receipt"
    assert json.loads(half.select_one(".json").exact)["result"]["combined_output_preview"] == LINES


def test_copies_contain_what_was_recorded_and_the_stored_envelope_as_data(client: Client, run: Run) -> None:
    call = bash(run, LINES)
    assert OURS not in client.get(f"/calls/{call.pk}/?as=text").content.decode()
    copied = json.loads(client.get(f"/calls/{call.pk}/?as=json").content)
    assert copied["canonical"] == json.loads(bytes(call.projection.data))
    assert copied["recorded"]["stdout"] == LINES


@pytest.mark.extended
def test_in_no_bundled_call_the_left_half_is_poorer_than_the_receipt(project: Project) -> None:
    import_paths(project, [CHECKOUT / "dashboard" / "samples"])
    bounded = 0
    for call in Call.objects.exclude(status=Call.Status.UNKNOWN):
        evidence = load_evidence(call, {})
        links = FieldLinks(evidence.halves.reading.links, evidence.halves.reading.slices)
        texts = "\0".join(strings(json.loads(evidence.complete_json)))
        bounded += evidence.is_bounded
        assert OURS not in texts or OURS in (evidence.result or b"").decode(), call
        for segment in evidence.halves.receipt.segments if evidence.halves.receipt else ():
            source = segment.source
            if source and source.document == "complete" and source.end and links.sliced(source) is None:
                canonical = links.canonical(source.pointer)
                assert canonical is None or segment.text in texts, (call, source)
    assert bounded > 10
