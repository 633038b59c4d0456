"""OTLP log events over HTTP: they join the calls of the agents' own recordings, or the spans of their trace."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Message, Project, Source
from tests.dashboard.api.sending import Sender, export_all
from tests.dashboard.api.test_hooks import SESSION
from tests.dashboard.api.test_traces import PROTOBUF, START, Attributes, any_value, request, set_attributes, span
from tests.dashboard.factories import create_project
from tests.dashboard.sessions import write

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


def log_request(name: str, attributes: Attributes) -> bytes:
    pairs = [{"key": key, "value": any_value(value)} for key, value in attributes.items()]
    record = {"timeUnixNano": str(START), "body": {"stringValue": name}, "attributes": pairs}
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


def test_log_events_of_agents_join_the_calls_of_their_recordings(project: Project, sender: Sender) -> None:
    call = "toolu_01AbCdEfGhIjKlMnOpQrStUv"
    told = {"session.id": SESSION, "tool_use_id": call, "tool_name": "Bash", "success": "true", "duration_ms": "1250"}
    asked = {"hook_event_name": "PreToolUse", "session_id": SESSION, "tool_name": "Bash", "tool_use_id": call}
    hook = json.dumps(asked | {"tool_input": {"command": "make"}}).encode()
    assert sender.post("/v1/logs", log_request("claude_code.tool_result", told), "application/json").status_code == 200
    assert sender.post("/api/v1/hooks/claude-code", hook, "application/json").status_code == 200
    joined = Call.objects.get()
    assert (joined.tool, joined.tool_ms, joined.source_error, joined.run.external_id) == ("Bash", 1250, False, SESSION)
    codex = {"conversation.id": "t1", "call_id": "call_1", "tool_name": "shell", "arguments": "{}", "success": "false"}
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=START)
    set_attributes(record.attributes, [{"key": key, "value": any_value(value)} for key, value in codex.items()])
    set_attributes(record.attributes, [{"key": "event.name", "value": {"stringValue": "codex.tool_result"}}])
    answer = sender.post("/v1/logs", message.SerializeToString(), PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    reader, address = Sender(project, "read"), f"/api/v1/calls/{joined.pk}/halves"
    assert json.loads(reader.get(address).content)["canonical"] is None  # the event has no result
    other = Call.objects.get(external_id="call_1")
    assert (other.tool, other.source_error, other.run.source_format) == ("shell", True, "codex")
    lost = sender.post("/v1/logs", log_request("claude_code.tool_result", {"tool_name": "x"}), "application/json")
    assert json.loads(lost.content)["partialSuccess"]["rejectedLogRecords"] == "1"
    assert sender.post("/v1/logs", b'{"logs":[]}', "application/json").status_code == 400
    assert sender.post("/v1/logs", log_request("other", {}), "application/json").content == b"{}"


CODEX_0_171 = {"event.name": "codex.tool_result", "conversation.id": "t1", "success": "true", "duration_ms": "7"}
COMMAND = {"tool_name": "exec_command", "tool_namespace": "functions", "arguments": '{"cmd": "make"}'}
POLLED = {"tool_name": "write_stdin", "tool_namespace": "functions"}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (COMMAND | {"output": "Chunk ID: a\nProcess exited with code 0\nOutput:\n"}, ("exec_command", False)),
        (COMMAND | {"output": "Chunk ID: a\nProcess exited with code 3\nOutput:\n"}, ("exec_command", True)),
        (COMMAND | {"output": "Exit code: 2\nOutput:\n"}, ("exec_command", True)),
        (COMMAND | {"output": "Exit code: 0\nOutput:\nmake\nExit code: 2\n"}, ("exec_command", False)),
        ({"tool_name": "greet", "tool_namespace": "mcp__demo", "arguments": "{}"}, ("mcp__demo__greet", False)),
        (POLLED | {"arguments": '{"session_id": 1, "chars": "yes\\n"}'}, ("write_stdin", False)),
        (POLLED | {"arguments": '{"session_id": 1, "chars": ""}'}, None),
        (POLLED | {"arguments": "no JSON"}, ("write_stdin", False)),
    ],
)
def test_events_of_codex_have_the_place_in_its_source_as_their_name(
    project: Project, sender: Sender, attributes: Attributes, expected: tuple[str, bool] | None
) -> None:
    pairs = CODEX_0_171 | {"call_id": "call_1"} | attributes
    record = {"timeUnixNano": "0", "observedTimeUnixNano": str(START), "eventName": "event otel/src/events.rs:737"}
    record |= {"attributes": [{"key": key, "value": any_value(value)} for key, value in pairs.items()]}  # type: ignore[dict-item]
    assert sender.post("/v1/logs", logs([record]), "application/json").content == b"{}"
    calls = list(Call.objects.values_list("tool", "source_error"))
    assert calls == ([] if expected is None else [expected])


@pytest.mark.parametrize(("scope", "target"), [("codex_exec", "codex_core::session::turn"), ("gemini-cli", "")])
def test_spans_of_agents_about_themselves_make_no_run(
    project: Project, sender: Sender, scope: str, target: str
) -> None:
    called = {"target": target, "gen_ai.operation.name": "llm_call", "gen_ai.usage.input_tokens": 9_986}
    document = request(span(1, "llm_call", called, seconds=1))
    for resource in document["resourceSpans"]:
        for scoped in resource["scopeSpans"]:
            scoped["scope"] = {"name": scope}
    body = json.dumps(document).encode()
    assert sender.post("/v1/traces", body, "application/json").content == b"{}"
    messages = json.loads(logs(message_records(*HISTORY)))
    messages["resourceLogs"][0]["scopeLogs"][0]["scope"] = {"name": "gemini-cli"}
    assert sender.post("/v1/logs", json.dumps(messages).encode(), "application/json").content == b"{}"
    assert not Source.objects.exists()


def nested_value(value: object) -> dict[str, Any]:
    """The AnyValue of JSON."""
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": nested_value(item)} for key, item in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [nested_value(item) for item in value]}}
    return any_value(value) if value is not None else {}


def message_records(*messages: tuple[str, object]) -> list[dict[str, Any]]:
    """Log records of a trace, a second apart, with their message as the body or as attributes."""
    return [
        {"timeUnixNano": str(START + 10**9 * second), "traceId": "ab" * 16, "spanId": "cd" * 8}
        | {"eventName": name, "body": nested_value(body)}
        for second, (name, body) in enumerate(messages)
    ]


CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}
HISTORY = [
    ("gen_ai.user.message", {"content": "What is new?"}),
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [CALL]}}),
    ("gen_ai.user.message", {"content": "What is new?"}),
    ("gen_ai.assistant.message", {"tool_calls": [CALL]}),
    ("gen_ai.tool.message", {"id": "c1", "content": "2 hits"}),
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Nothing."}}),
]


def logs(records: list[dict[str, Any]]) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


@pytest.mark.parametrize("is_protobuf", [False, True])
def test_messages_that_are_log_events_join_the_tools_of_their_trace(
    project: Project, sender: Sender, *, is_protobuf: bool
) -> None:
    body, kind = logs(message_records(*HISTORY)), "application/json"
    if is_protobuf:
        document = json.loads(body)
        for record in document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            record |= {name: base64.b64encode(bytes.fromhex(record[name])).decode() for name in ("traceId", "spanId")}
        body, kind = ParseDict(document, ExportLogsServiceRequest()).SerializeToString(), PROTOBUF
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1"}
    spans = request(span(2, "execute_tool", tool | {"gen_ai.tool.call.result": '{"hits": 2}'}, seconds=2))
    for _ in range(2):
        assert sender.post("/v1/logs", body, kind).status_code == 200
        assert sender.post("/v1/traces", json.dumps(spans).encode(), "application/json").status_code == 200
    derive_waiting(project)
    call = Call.objects.get()
    halves = {row.surface: (json.loads(row.data), row.fidelity) for row in call.observations.filter(selected=True)}
    assert halves["args"][0] == {"q": "x"}
    assert halves["result"] == ({"hits": 2}, "structured")
    assert halves["receipt"] == ("2 hits", "exact")
    assert (call.run.source_format, call.receipt_count) == ("otlp", 1)
    messages = Message.objects.filter(run=call.run).values_list("role", flat=True)
    assert sorted(messages) == ["assistant", "user"]


def test_the_messages_of_a_request_may_be_one_event(project: Project, sender: Sender) -> None:
    parts = [{"type": "tool_call_response", "id": "c1", "response": "2 hits"}]
    asked = [{"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}]
    attributes = {
        "gen_ai.conversation.id": "talk",
        "gen_ai.input.messages": [{"role": "assistant", "parts": asked}, {"role": "tool", "parts": parts}],
    }
    pairs = [{"key": key, "value": nested_value(value)} for key, value in attributes.items()]
    (record,) = message_records(("gen_ai.client.inference.operation.details", None))
    assert sender.post("/v1/logs", logs([record | {"attributes": pairs}]), "application/json").content == b"{}"
    call = Call.objects.get(external_id="c1")
    assert (call.tool, call.run.external_id, call.receipts.count()) == ("search", "talk", 1)


def test_an_answer_without_captured_content_and_one_without_a_trace(project: Project, sender: Sender) -> None:
    (empty,) = message_records(("gen_ai.tool.message", {"id": "c1"}))
    assert sender.post("/v1/logs", logs([empty]), "application/json").content == b"{}"
    assert not Call.objects.exists()
    (lost,) = message_records(("gen_ai.tool.message", {"id": "c1", "content": "x"}))
    answer = sender.post("/v1/logs", logs([lost | {"traceId": ""}]), "application/json")
    assert json.loads(answer.content)["partialSuccess"]["rejectedLogRecords"] == "1"


CLAUDE = {"session.id": SESSION, "tool_use_id": "toolu_1", "tool_name": "Bash", "success": "true", "duration_ms": "9"}
CODEX = {"conversation.id": "t1", "call_id": "call_1", "tool_name": "shell", "arguments": "{}", "success": "false"}


@pytest.mark.parametrize(
    ("requests", "format_name"),
    [
        ([logs(message_records(*HISTORY[:2])), logs(message_records(*HISTORY))], "otlp-logs"),
        ([log_request("other", {}), log_request("claude_code.tool_result", CLAUDE)], "claude-code-otel"),
        ([log_request("codex.tool_result", CODEX)], "codex-otel"),
    ],
    ids=["messages", "Claude Code", "Codex"],
)
def test_a_file_of_log_requests_gives_what_sending_them_gives(
    requests: list[bytes], format_name: str, project: Project, sender: Sender, tmp_path: Path
) -> None:
    for body in requests:
        assert sender.post("/v1/logs", body, "application/json").content == b"{}"
    other = create_project("other")
    report = import_paths(other, [write(tmp_path / "logs.jsonl", list(requests))])
    assert report.lines == {"accepted": len(requests), "rejected": 0, "blank": 0}
    assert Source.objects.get(project=other).format == format_name
    sent, read = (export_all(of, tmp_path / of.slug) for of in (project, other))
    assert len(read) >= 3
    assert sent == read


def test_a_file_of_log_requests_is_of_one_agent_and_says_what_it_leaves_out(project: Project, tmp_path: Path) -> None:
    lines = [log_request("claude_code.tool_result", CLAUDE), log_request("codex.tool_result", CODEX)]
    report = import_paths(project, [write(tmp_path / "logs.jsonl", list(lines))])
    (problem,) = report.problems
    assert (problem["line"], problem["reason"]) == (
        2,
        "events of codex-otel are left out: this file is read as claude-code-otel",
    )
    assert Call.objects.get().external_id == "toolu_1"
    unknown = import_paths(project, [write(tmp_path / "other.jsonl", [log_request("other", {})])])
    assert unknown.lines["accepted"] == 0
