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
from dashboard.models import Call, Message, Observation, Project, Remark, RequestUsage, Run
from tests.dashboard.api.sending import Sender, export_all, load_contexts
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
RECORDINGS = Path(__file__).parents[2] / "envelopes" / "recordings" / "otlp"
NOTES, MISSING, SCRUBBED = "line one", "no file missing.txt", "[Scrubbed due to 'password']"
# The tool of each call in its order, and a text of its result alone, which both halves have to contain.
STRANDS = [("lookup", "21"), ("read_notes", NOTES), ("read_notes", MISSING), ("lookup", "22")]
ADK = [("lookup", "21"), ("read_notes", NOTES), ("lookup", "22"), ("read_notes", NOTES)]
FAILING = [("lookup", "21"), ("read_notes", NOTES), ("lookup", "22"), ("read_notes", MISSING)]
LOOP = [("lookup", "21"), ("lookup", "22"), ("read_notes", "line two"), ("read_notes", MISSING), ("lookup", "23")]
HIDING = [(tool, "An error occurred" if mark == MISSING else mark) for tool, mark in LOOP]
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
    "autogen_0.7.5_openinference_0.1.22": LOOP,
    "langfuse_5.0.4": LOOP,
    "langfuse_5.0.4_responses": LOOP,
    "logfire_5.4.0_openai_agents_0.24.0": HIDING,
    "mlflow_3.17.2_anthropic": LOOP,
    "mlflow_3.17.2_openai": LOOP,
    "traceloop_sdk_0.62.4": LOOP,
}
# The fidelity of each receipt of LOOP, of instrumentations of clients, whose spans have requests and no results. E is
# exact, R reconstructed, and a dash a call without a receipt. Then how many answers state that the call failed.
CLIENTS = {
    "logfire_5.4.0_anthropic_version_1": ("EEEEE", 1),
    "logfire_5.4.0_openai_version_1": ("EEEEE", 0),
    "openinference_anthropic_3.1.0": ("EEEEE", 1),
    "openinference_bedrock_0.1.61": ("RREER", 1),
    "openinference_google_genai_1.4.14": ("RRRRR", 0),
    "openinference_mistralai_2.2.2": ("EEEEE", 0),
    "openlit_1.45.0_anthropic": ("EERRE", 0),
    "traceloop_google_generativeai_0.62.4": ("R--RR", 0),
    "traceloop_mcp_0.62.4": ("EEEEE", 0),
    "traceloop_openai_0.62.4": ("E--EE", 0),
}
LOOP_ARGS = [{"city": "Bonn"}, {"city": "Oslo"}, {"file": "notes.txt"}, {"file": "missing.txt"}, {"city": "Bonn"}]
LOOKED_UP = '{"city": "%s", "degrees": %d, "note": "s\\u00fc\\u00df \\"x\\"\\nend"}'
# What the loops of these clients sent, other than that of MCP, whose server writes its results.
SENT = [
    *(LOOKED_UP % ("Bonn", 21), LOOKED_UP % ("Oslo", 22), 'He said "hé"\nline two\t\\ end 😀 <b>&amp;</b>\n'),
    *("Error: FileNotFoundError: no file missing.txt", LOOKED_UP % ("Bonn", 23)),
]
STATES_ERRORS = ("anthropic", "strands", "langchain", "langfuse", "mlflow", "traceloop_sdk")
KEEPS_ERRORS = [name for name in FRAMEWORKS if name.startswith(STATES_ERRORS)]
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


def post(project: Project, requests: list[dict[str, Any]], logs: bytes = b"") -> None:
    sender = Sender(project)
    if logs:
        assert sender.post("/v1/logs", logs, "application/json").status_code == 200
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


@pytest.fixture
def other_project() -> Project:
    """Not the one of `recorded`, which stays until its last test."""
    return create_project("other")


def receipt_of(call: Call) -> tuple[str, str] | None:
    """The fidelity and the text."""
    for row in call.observations.filter(surface="receipt"):
        value = json.loads(bytes(row.data))
        [part] = value if isinstance(value, list) else [{"text": value}]
        return row.fidelity, part["text"] if "text" in part else json.dumps(part["json"])
    return None


def by_time(project: Project) -> list[Call]:
    return list(project.calls.order_by("started_at", "external_id"))


@pytest.mark.parametrize("name", CLIENTS)
def test_each_call_in_the_requests_of_a_client_has_what_was_sent_for_it(name: str, other_project: Project) -> None:
    post(other_project, spans_of(name))
    calls, (marks, failed) = by_time(other_project), CLIENTS[name]
    assert sorted(call.tool for call in calls) == sorted(tool for tool, _ in LOOP)
    assert other_project.runs.count() == 1
    assert sum(call.source_error is True for call in calls) == failed
    ordered = sorted(calls, key=lambda call: (call.started_at, call.tool))
    assert [json.loads(bytes(call.observations.get(surface="args").data)) for call in ordered] == LOOP_ARGS
    texts = [bytes(row.data).decode() for row in Message.objects.filter(run__project=other_project)]
    assert sum("You are a demo" in text for text in texts) == 1, "the system prompt once"
    found = [receipt_of(call) for call in ordered]
    assert "".join("-" if receipt is None else receipt[0][0].upper() for receipt in found) == marks
    for receipt, sent, (_, mark) in zip(found, SENT, LOOP, strict=True):
        assert receipt is None or mark in receipt[1]
        assert receipt is None or receipt[0] != "exact" or "mcp" in name or receipt[1] == sent
    assert RequestUsage.objects.filter(run__project=other_project).count() == 6, "each request once"
    *_, contents = load_contexts(other_project.runs.get()).values()
    assert sum(item.startswith("receipt") for item in contents[1]) == sum(mark != "-" for mark in marks[:-1])


def test_a_text_that_was_cut_at_a_limit_of_the_exporter_is_not_what_the_model_got(other_project: Project) -> None:
    post(other_project, spans_of("openinference_openai_0.1.66_cut"))
    receipts = [receipt_of(call) for call in by_time(other_project)]
    assert [(fidelity, len(text) == 700) for fidelity, text in filter(None, receipts)] == [
        ("exact", False), ("reconstructed", True), ("exact", False),
    ]  # fmt: skip


def test_a_text_that_logfire_took_for_a_secret_is_masked_and_no_result(other_project: Project) -> None:
    post(other_project, spans_of("logfire_5.4.0_scrubbed"))
    masked = {call.tool: call for call in by_time(other_project) if receipt_of(call) == ("masked", SCRUBBED)}
    assert [*masked] == ["read_notes"]
    assert not masked["read_notes"].observations.filter(surface="result").exists()


def test_the_log_events_of_semantic_kernel_are_the_requests_of_its_spans(other_project: Project) -> None:
    logs = (RECORDINGS / "logs" / "semantic_kernel_1.45.0.jsonl").read_bytes()
    post(other_project, spans_of("semantic_kernel_1.45.0"), logs)
    ran = [call for call in by_time(other_project) if call.observations.filter(surface="result").exists()]
    assert sorted(call.tool for call in ran) == sorted(f"P-{tool}" for tool, _ in LOOP)
    assert [mark in half for call, (_, mark) in zip(ran, LOOP, strict=True) for half in both_halves(call)] == [
        True
    ] * 10


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
