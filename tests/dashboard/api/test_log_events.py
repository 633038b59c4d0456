"""OTLP log events of agents over HTTP: they join the calls of the agents' own recordings."""

from __future__ import annotations

import json

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from dashboard.models import Call, Project
from tests.dashboard.api.sending import Sender
from tests.dashboard.api.test_hooks import SESSION
from tests.dashboard.api.test_traces import PROTOBUF, START, Attributes, any_value, set_attributes

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
    other = Call.objects.get(external_id="call_1")
    assert (other.tool, other.source_error, other.run.source_format) == ("shell", True, "codex")
    lost = sender.post("/v1/logs", log_request("claude_code.tool_result", {"tool_name": "x"}), "application/json")
    assert json.loads(lost.content)["partialSuccess"]["rejectedLogRecords"] == "1"
    assert sender.post("/v1/logs", b"{}", "application/json").status_code == 400
    assert sender.post("/v1/logs", log_request("other", {}), "application/json").content == b"{}"
