"""Traces that agent frameworks emit, recorded with a scripted model from the libraries that the files are named by."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Message, Observation, Project, Remark, Run
from tests.dashboard.api.sending import Sender, export_all
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
RECORDINGS = Path(__file__).parents[2] / "envelopes" / "recordings" / "otlp"
NOTES, MISSING = "line one", "no file missing.txt"
# The tool of each call in its order, and a text of its result alone, which both halves have to contain.
STRANDS = [("lookup", "21"), ("read_notes", NOTES), ("read_notes", MISSING), ("lookup", "22")]
ADK = [("lookup", "21"), ("read_notes", NOTES), ("lookup", "22"), ("read_notes", NOTES)]
FAILING = [("lookup", "21"), ("read_notes", NOTES), ("lookup", "22"), ("read_notes", MISSING)]
FRAMEWORKS = {
    "ai_sdk_4.3.19": ADK,
    "ai_sdk_5.0.277": FAILING,
    "ai_sdk_6.0.326": FAILING,
    "ai_sdk_7.0.173": FAILING,
    "ai_sdk_7.0.173_legacy": FAILING,
    "anthropic_2.14.0": FAILING,
    "pydantic_ai_2.68.0": FAILING,
    "strands_agents_1.62.0": STRANDS,
    "strands_agents_1.62.0_latest": STRANDS,
    "crewai_1.15.30_openinference_1.1.21": FAILING,
    "google_adk_2.13.0": ADK,
    "google_adk_2.13.0_schema_1": ADK,
    "agent_framework_1.23.0": ADK,
    "agno_3.1.10_openinference_1.0.15": FAILING,
    "llama_index_0.14.25_openinference_4.6.1": FAILING,
    "openai_agents_0.24.0_traceloop_0.62.4": FAILING,
    "langchain_1.5.2_openinference_0.1.80": FAILING,
    "langchain_1.5.2_traceloop_0.62.4": FAILING,
    "langchain_1.5.2_langsmith_0.15.1": FAILING,
}
KEEPS_ERRORS = [name for name in FRAMEWORKS if name.startswith(("anthropic", "strands", "langchain"))]
KEEPS_RESULTS = [name for name in FRAMEWORKS if name.startswith("langchain")]


@pytest.fixture(scope="module", params=FRAMEWORKS)
def recorded(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[str]:
    """The name of a recording whose spans were posted one by one: once, and undone after its last test."""
    del django_db_setup
    with django_db_blocker.unblock(), transaction.atomic():
        post(create_project("ledger"), spans_of(request.param))
        yield request.param
        transaction.set_rollback(True)


def spans_of(name: str) -> list[dict[str, Any]]:
    """A request for each span of a recording."""
    document = json.loads((RECORDINGS / f"{name}.jsonl").read_bytes())
    return [
        {"resourceSpans": [{**resource, "scopeSpans": [{**scoped, "spans": [span]}]}]}
        for resource in document["resourceSpans"]
        for scoped in resource["scopeSpans"]
        for span in scoped["spans"]
    ]


def post(project: Project, requests: list[dict[str, Any]]) -> None:
    sender = Sender(project)
    for request in requests:
        assert sender.post("/v1/traces", json.dumps(request).encode(), "application/json").status_code == 200
    derive_waiting(project)


def both_halves(call: Call) -> tuple[str, str]:
    data = {row.surface: bytes(row.data).decode() for row in call.observations.all()}
    return data["result"], data["receipt"]


def test_each_call_of_a_framework_has_both_halves_of_the_same_result(recorded: str) -> None:
    expected = FRAMEWORKS[recorded]
    ran = Call.objects.filter(observations__surface="result").order_by("started_at", "run__started_at", "tool")
    assert sorted(call.tool for call in ran) == sorted(tool for tool, _ in expected)
    marks = dict.fromkeys(mark for _, mark in expected)
    for call in ran:
        result, receipt = both_halves(call)
        in_result, in_receipt = ([mark for mark in marks if mark in half] for half in (result, receipt))
        assert in_result == in_receipt != [], (call.external_id, result, receipt)
        assert (call.tool, *in_result) in expected
        assert (call.receipts.count(), call.is_disagreeing) == (1, False)
    found = sorted((call.tool, next(mark for mark in marks if mark in both_halves(call)[0])) for call in ran)
    assert found == sorted(expected)


@pytest.mark.extended
def test_the_calls_of_a_framework_do_not_depend_on_the_order_in_which_its_spans_arrive(
    recorded: str, project: Project, tmp_path: Path
) -> None:
    spans, other_project = spans_of(recorded), create_project("other")
    post(other_project, random.Random(7).sample(spans, len(spans)))
    exports = [export_all(of_project, tmp_path / str(of_project.pk)) for of_project in (project, other_project)]
    assert exports[0] == exports[1]


@pytest.mark.parametrize("recorded", ["google_adk_2.13.0", "google_adk_2.13.0_schema_1"], indirect=True)
@pytest.mark.usefixtures("recorded")
def test_an_invocation_of_adk_is_a_run_with_its_own_calls_and_the_messages_of_earlier_ones() -> None:
    first, second = Run.objects.order_by("started_at")
    assert [Call.objects.filter(run=run).count() for run in (first, second)] == [3, 1]
    assert not Call.objects.filter(tool="(merged tools)").exists()
    texts = {bytes(row.data).decode() for row in Message.objects.filter(run=second)}
    assert any("How is the weather" in text for text in texts)
    assert any('"degrees":21' in text for text in texts), (
        "what the model got of an earlier invocation is in its context"
    )
    became = set(Remark.objects.values_list("became", flat=True))
    assert became == {"its result is that of this call: no other one fits by tool, arguments and time"}


@pytest.mark.parametrize("recorded", KEEPS_ERRORS, indirect=True)
@pytest.mark.usefixtures("recorded")
def test_what_a_tool_reports_as_an_error_is_a_failed_call() -> None:
    [failed] = Call.objects.filter(source_error=True)
    assert MISSING in both_halves(failed)[1]


@pytest.mark.parametrize("recorded", KEEPS_RESULTS, indirect=True)
@pytest.mark.usefixtures("recorded")
def test_what_a_tool_of_langchain_kept_for_the_program_is_the_result() -> None:
    halves = [both_halves(call) for call in Call.objects.filter(tool="lookup").order_by("started_at")]
    assert halves == [
        (f'{{"city":"Bonn","degrees":{degrees},"raw":[1,2,3]}}', f'"sunny, {degrees} degrees"') for degrees in (21, 22)
    ]


@pytest.mark.parametrize("recorded", ["pydantic_ai_2.68.0"], indirect=True)
@pytest.mark.usefixtures("recorded")
def test_no_answer_of_pydantic_ai_is_said_to_be_exact() -> None:
    """OpenAI was sent `{"error":"no file missing.txt"}`, and nothing in the span of the model says so."""
    receipts = Observation.objects.filter(surface="receipt")
    assert {row.fidelity for row in receipts} == {"reconstructed"}
    assert MISSING in {json.loads(bytes(row.data)) for row in receipts}


@pytest.mark.parametrize("recorded", ["google_adk_2.13.0"], indirect=True)
@pytest.mark.usefixtures("recorded", "alice")
def test_the_page_of_a_rebuilt_receipt_claims_nothing_of_the_runtime(client: Client) -> None:
    call = Call.objects.filter(tool="lookup").order_by("started_at")[0]
    share = parse_page(client.get(call.get_absolute_url(), follow=True)).select_one(".share").text
    assert share == "6 of 28 characters come from the result; the rest was written when it was rebuilt."


def test_a_call_whose_arguments_were_not_captured_is_no_call_without_arguments(client: Client) -> None:
    client.force_login(create_user("alice", project=(project := create_project("other"))))
    for request in (spans := spans_of("strands_agents_1.62.0_latest")):
        for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            hidden = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
            span["attributes"] = [pair for pair in span["attributes"] if pair["key"] not in hidden]
            span["events"] = []
    post(project, spans)
    call = Call.objects.filter(project=project, tool="lookup").order_by("started_at")[0]
    asked = parse_page(client.get(call.get_absolute_url(), follow=True)).select_one(".step-asked").text
    assert "arguments not recorded" in asked
    assert "The recording has this call without its arguments." in asked
