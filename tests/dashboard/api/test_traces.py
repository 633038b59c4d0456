"""OTLP traces over HTTP: both halves of each call from two spans, whatever the order of arrival and the encoding."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Message, Project, Run, SourceFrame
from tests.cases import each
from tests.dashboard.api.sending import Sender, export_all
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
PROTOBUF = "application/x-protobuf"
START = 1_772_355_600_000_000_000  # 2026-03-01T09:00:00Z
Attributes = dict[str, Any]


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


def any_value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def span(number: int, name: str, attributes: Attributes, *, seconds: int, trace: str = "ab" * 16) -> dict[str, Any]:
    start = START + seconds * 1_000_000_000
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{99:016x}",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000_000),
        "attributes": [{"key": key, "value": any_value(value)} for key, value in attributes.items()],
        "status": {},
    }


def request(*spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "test"}, "spans": list(spans)}]}]
    }


def protobuf(document: dict[str, Any]) -> bytes:
    """The same request as protobuf: ids are set by hand, because its JSON reader takes them for base64."""
    message = ExportTraceServiceRequest()
    for resource in document["resourceSpans"]:
        resource_spans = message.resource_spans.add()
        set_attributes(resource_spans.resource.attributes, resource["resource"]["attributes"])
        for scoped in resource["scopeSpans"]:
            scope_spans = resource_spans.scope_spans.add()
            scope_spans.scope.name = scoped["scope"]["name"]
            for entry in scoped["spans"]:
                made = scope_spans.spans.add(name=entry["name"])
                made.trace_id, made.span_id = bytes.fromhex(entry["traceId"]), bytes.fromhex(entry["spanId"])
                made.parent_span_id = bytes.fromhex(entry["parentSpanId"])
                made.start_time_unix_nano = int(entry["startTimeUnixNano"])
                made.end_time_unix_nano = int(entry["endTimeUnixNano"])
                set_attributes(made.attributes, entry["attributes"])
    return message.SerializeToString()


def set_attributes(target: Any, pairs: list[dict[str, Any]]) -> None:
    for pair in pairs:
        ((kind, value),) = pair["value"].items()
        made = target.add(key=pair["key"])
        name = {"stringValue": "string_value", "intValue": "int_value", "boolValue": "bool_value"}[kind]
        setattr(made.value, name, int(value) if kind == "intValue" else value)


USER = {"role": "user", "parts": [{"type": "text", "content": "What is new?"}]}
CALLED = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}]}
ANSWERED = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "response": "2 hits"}]}
DONE = {"role": "assistant", "parts": [{"type": "text", "content": "Nothing."}]}
RESULT = {"hits": ["a", "b"], "took": 3}


def genai() -> list[dict[str, Any]]:
    common = {"gen_ai.conversation.id": "talk", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    first = {"gen_ai.input.messages": json.dumps([USER]), "gen_ai.output.messages": json.dumps([CALLED])}
    later = {
        "gen_ai.input.messages": json.dumps([USER, CALLED, ANSWERED]),
        "gen_ai.output.messages": json.dumps([DONE]),
    }
    tool = {
        "gen_ai.conversation.id": "talk",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"q": "x"}',
        "gen_ai.tool.call.result": json.dumps(RESULT),
    }
    return [
        span(1, "chat m-1", common | first | {"gen_ai.usage.input_tokens": 50}, seconds=1),
        span(2, "execute_tool search", tool, seconds=2),
        span(3, "chat m-1", common | later | {"gen_ai.usage.input_tokens": 90}, seconds=3),
    ]


def openinference() -> list[dict[str, Any]]:
    called = "llm.{0}_messages.{1}.message.tool_calls.0.tool_call."
    common = {"openinference.span.kind": "LLM", "session.id": "talk", "llm.model_name": "m-1"}
    user = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "What is new?"}

    def call(side: str, place: int) -> Attributes:
        start = called.format(side, place)
        role = {f"llm.{side}_messages.{place}.message.role": "assistant"}
        return role | {
            f"{start}id": "c1",
            f"{start}function.name": "search",
            f"{start}function.arguments": '{"q": "x"}',
        }

    answer = {
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c1",
        "llm.input_messages.2.message.content": "2 hits",
    }
    tool = {
        "openinference.span.kind": "TOOL",
        "session.id": "talk",
        "tool.name": "search",
        "tool.id": "c1",
        "tool.parameters": '{"type": "object"}',
        "input.value": '{"q": "x"}',
        "output.value": json.dumps(RESULT),
    }
    return [
        span(1, "llm", common | user | call("output", 0) | {"llm.token_count.prompt": 50}, seconds=1),
        span(2, "search", tool, seconds=2),
        span(3, "llm", common | user | call("input", 1) | answer | {"llm.token_count.prompt": 90}, seconds=3),
    ]


def traceloop() -> list[dict[str, Any]]:
    common = {"llm.request.type": "chat", "traceloop.association.properties.session_id": "talk"}
    model = {"gen_ai.response.model": "m-1"}
    first = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "What is new?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "search",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"q": "x"}',
        "gen_ai.usage.prompt_tokens": 50,
    }
    later = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "What is new?",
        "gen_ai.prompt.1.role": "tool",
        "gen_ai.prompt.1.tool_call_id": "c1",
        "gen_ai.prompt.1.content": "2 hits",
        "gen_ai.usage.prompt_tokens": 90,
    }
    tool = {
        "traceloop.span.kind": "tool",
        "traceloop.association.properties.session_id": "talk",
        "traceloop.entity.name": "search",
        "gen_ai.tool.call.id": "c1",
        "traceloop.entity.input": '{"q": "x"}',
        "traceloop.entity.output": json.dumps(RESULT),
    }
    return [
        span(1, "openai.chat", common | model | first, seconds=1),
        span(2, "search.tool", tool, seconds=2),
        span(3, "openai.chat", common | model | later, seconds=3),
    ]


def event(name: str, **attributes: object) -> dict[str, Any]:
    pairs = [{"key": key, "value": any_value(value)} for key, value in attributes.items()]
    return {"name": name, "attributes": pairs}


def events() -> list[dict[str, Any]]:
    """The messages as events of the spans, as up to release 1.36 of the conventions."""
    first, tool, later = genai()
    calls = json.dumps([{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}])
    user = event("gen_ai.user.message", content="What is new?")
    choice = event("gen_ai.choice", index=0, message=json.dumps({"role": "assistant", "tool_calls": json.loads(calls)}))
    history = [user, event("gen_ai.assistant.message", tool_calls=calls)]
    answer = event("gen_ai.tool.message", id="c1", content="2 hits")
    done = event("gen_ai.choice", index=0, message=json.dumps({"role": "assistant", "content": "Nothing."}))
    for one, messages in ((first, [user, choice]), (later, [*history, answer, done])):
        one["events"] = messages
        one["attributes"] = [pair for pair in one["attributes"] if "messages" not in pair["key"]]
    return [first, tool, later]


CONVENTIONS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "genai": genai,
    "openinference": openinference,
    "traceloop": traceloop,
    "events": events,
}


def assert_both_halves(project: Project) -> None:
    derive_waiting(project)
    run = Run.objects.get(external_id="talk")
    assert (run.model, run.call_count) == ("m-1", 1)
    assert sorted(run.requests.values_list("input_tokens", flat=True)) == [50, 90]
    call = Call.objects.get(external_id="c1")
    assert (call.tool, call.status, call.tool_ms, call.receipt_count) == ("search", "success", 500, 1)
    halves = {row.surface: (json.loads(row.data), row.fidelity) for row in call.observations.filter(selected=True)}
    assert halves["args"][0] == {"q": "x"}
    assert halves["result"] == (RESULT, "structured")
    assert halves["receipt"] == ("2 hits", "exact")
    assert Message.objects.filter(run=run, role="user").count() == 1


@each("name", CONVENTIONS)
def test_both_halves_come_from_two_spans_in_every_convention(project: Project, name: str) -> None:
    sender = Sender(project)
    answer = sender.post("/v1/traces", json.dumps(request(*CONVENTIONS[name]())).encode(), "application/json")
    assert (answer.status_code, json.loads(answer.content)) == (200, {})
    assert_both_halves(project)
    delete_run(Run.objects.get(external_id="talk"))
    project.tokens.all().delete()


@pytest.mark.parametrize(
    ("parameters", "args"),
    [('{"type": "object", "properties": {"q": {}}}', []), ('{"q": "x"}', [{"q": "x"}]), ("x", ["x"])],
)
def test_the_schema_of_a_tool_is_not_taken_for_its_arguments(
    project: Project, sender: Sender, parameters: str, args: list[object]
) -> None:
    called = {"openinference.span.kind": "TOOL", "tool.name": "search", "tool.parameters": parameters}
    sender.post("/v1/traces", json.dumps(request(span(2, "search", called, seconds=2))).encode(), "application/json")
    assert [json.loads(row.data) for row in Call.objects.get().observations.filter(surface="args")] == args


def test_arguments_that_differ_in_spacing_alone_are_no_disagreement(
    project: Project, sender: Sender, alice: User, client: Client
) -> None:
    sender.post("/v1/traces", json.dumps(request(*genai())).encode(), "application/json")
    derive_waiting(project)
    call = Call.objects.get()
    assert call.observations.filter(surface="args").count() == 2
    page = parse_page(client.get(call.get_absolute_url(), follow=True)).by_id("step").text
    assert "Logs disagree" not in page


def test_until_the_next_model_span_arrives_the_receipt_is_absent(project: Project, sender: Sender) -> None:
    spans = genai()
    sender.post("/v1/traces", protobuf(request(*spans[:2])), PROTOBUF)
    derive_waiting(project)
    call = Call.objects.get(external_id="c1")
    assert (call.status, call.receipt_count) == ("success", 0)
    sender.post("/v1/traces", protobuf(request(spans[2])), PROTOBUF)
    assert_both_halves(project)


@pytest.mark.extended
def test_every_order_of_the_spans_and_both_encodings_give_the_same_export(project: Project, tmp_path: Path) -> None:
    expected: dict[str, bytes] = {}
    for number, order in enumerate(itertools.permutations(genai())):
        sender = Sender(project)
        for place, one in enumerate(order):
            body, kind = protobuf(request(one)), PROTOBUF
            if (number + place) % 2:
                body, kind = json.dumps(request(one), indent=1).encode(), "application/json"
            for _ in range(2):
                assert sender.post("/v1/traces", body, kind).status_code == 200
        exported = export_all(project, tmp_path / str(number))
        expected = expected or exported
        assert exported == expected
        delete_run(Run.objects.get(external_id="talk"))
        project.tokens.all().delete()
    assert b'"recorded":{"hits"' in expected["talk/results.jsonl"]


@pytest.mark.extended
def test_the_parts_that_each_model_span_repeats_are_stored_once(project: Project, sender: Sender) -> None:
    history: list[dict[str, Any]] = [USER]
    sizes = []
    for step in range(1, 41):
        call = {"type": "tool_call", "id": f"c{step}", "name": "search", "arguments": {"q": "x" * 2_000 + str(step)}}
        asked = {"role": "assistant", "parts": [call]}
        attributes = {
            "gen_ai.conversation.id": "talk",
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([asked]),
        }
        body = json.dumps(request(span(step, "chat", attributes, seconds=step))).encode()
        sender.post("/v1/traces", gzip.compress(body), "application/json", Content_Encoding="gzip")
        answer = {"type": "tool_call_response", "id": f"c{step}", "response": f"{step} " * 500}
        history += [asked, {"role": "user", "parts": [answer]}]
        sizes.append(len(body))
    stored = sum(SourceFrame.objects.values_list("size", flat=True))
    assert Call.objects.count() == 40
    assert stored < sum(sizes) / 10
    assert Call.objects.filter(receipt_count=1).count() == 39  # the last one was not answered yet


def test_a_span_that_cannot_be_read_is_rejected_beside_good_ones(sender: Sender) -> None:
    bad = genai()[1] | {"traceId": ""}
    bad["attributes"] = [pair for pair in bad["attributes"] if pair["key"] != "gen_ai.conversation.id"]
    response = sender.post("/v1/traces", protobuf(request(*genai(), bad)), PROTOBUF)
    answer = ExportTraceServiceResponse.FromString(response.content)
    assert (response.status_code, answer.partial_success.rejected_spans) == (200, 1)
    assert Call.objects.filter(external_id="c1").exists()
    body = json.dumps(request(bad)).encode()
    partial = json.loads(sender.post("/v1/traces", body, "application/json").content)["partialSuccess"]
    assert partial["rejectedSpans"] == "1"


BODIES = {
    "empty": (b"", PROTOBUF, 400),
    "no protobuf": (b"\xff\xff\xff", PROTOBUF, 400),
    "no JSON": (b"{", "application/json", 400),
    "another document": (b'{"resourceLogs": []}', "application/json", 400),
    "deep": (b'{"resourceSpans":' + b"[" * 500 + b"]" * 500 + b"}", "application/json", 400),
    "text": (b"x", "text/plain", 415),
}


@each("name", BODIES)
def test_what_is_no_trace_request_is_refused(sender: Sender, name: str) -> None:
    body, kind, status = BODIES[name]
    assert sender.post("/v1/traces", body, kind).status_code == status


def test_spans_of_other_things_are_acknowledged_and_not_stored(sender: Sender) -> None:
    http = span(7, "GET /", {"http.request.method": "GET"}, seconds=1)
    assert sender.post("/v1/traces", protobuf(request(http)), PROTOBUF).status_code == 200
    assert not SourceFrame.objects.exists()


def test_a_request_in_a_file_gives_the_same_calls(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(json.dumps(request(one)).encode() + b"\n" for one in genai()))
    report = import_paths(project, [path])
    assert report.problems == []
    assert_both_halves(project)


def test_a_request_over_many_lines_is_one_document(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    others = [
        span(number, "GET /", {f"key {place}": "x" for place in range(40)}, seconds=1) for number in range(10, 40)
    ]
    path.write_text(json.dumps(request(*others, *genai()), indent=1))
    assert len(path.read_text().splitlines()) > 4_000  # more than a batch of lines
    assert import_paths(project, [path]).problems == []
    assert_both_halves(project)


def test_a_file_that_is_a_request_in_protobuf_is_found_in_its_folder_by_its_content(
    project: Project, tmp_path: Path
) -> None:
    body = protobuf(request(*genai()))
    (tmp_path / "traces.pb").write_bytes(body)
    (tmp_path / "other.pb").write_bytes(b"\n\x10" + b"\n{}\n" * 9)
    report = import_paths(project, [tmp_path])
    assert [Path(entry["file"]).name for entry in report.formats] == ["traces.pb"]
    assert [(Path(entry["file"]).name, report.problems) for entry in report.skipped] == [("other.pb", [])]
    assert_both_halves(project)
    (tmp_path / "cut.pb").write_bytes(body[:-9])
    (problem,) = import_paths(project, [tmp_path / "cut.pb"]).problems
    assert problem["reason"].startswith("not an OTLP request: ")


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["pydantic_ai_2.58.0.otlp.pb", "pydantic_ai_2.58.0_delegation.otlp.pb"])
def test_each_tool_call_of_the_samples_has_both_halves(
    project: Project, sender: Sender, recordings_root: Path, name: str
) -> None:
    body = (recordings_root / "otlp" / name).read_bytes()
    assert sender.post("/v1/traces", body, PROTOBUF).status_code == 200
    derive_waiting(project)
    spans = [
        entry
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scoped in resource.scope_spans
        for entry in scoped.spans
        if entry.name.startswith("execute_tool")
    ]
    assert Call.objects.count() == len(spans) > 0
    for call in Call.objects.all():
        assert {row.surface for row in call.observations.all()} >= {"args", "result", "receipt"}, call.external_id
