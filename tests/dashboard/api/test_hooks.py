"""Events of Claude Code's hooks: live results with the tool's own time, joined by the transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Project, Run
from tests.cases import each
from tests.dashboard.api.sending import Sender

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SESSION = "0b4445e1-f5be-49e1-87ce-62bbc28ad705"
RESPONSE = {"stdout": "3 passed", "stderr": "", "interrupted": False, "isImage": False}


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


def event(name: str, **fields: Any) -> dict[str, Any]:
    base = {"session_id": SESSION, "cwd": "/work", "hook_event_name": name, "tool_name": "Bash"}
    return base | {"tool_input": {"command": "make test"}, "tool_use_id": "toolu_01AbCdEfGhIjKlMnOpQrStUv"} | fields


def send(sender: Sender, document: object) -> int:
    body = json.dumps(document).encode()  # as the transcript writes it
    return sender.post("/api/v1/hooks/claude-code", body, "application/json").status_code


def transcript() -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_01AbCdEfGhIjKlMnOpQrStUv", "name": "Bash"}
    call["input"] = {"command": "make test"}
    base = {"sessionId": SESSION, "version": "2.1.7", "cwd": "/work", "isSidechain": False, "userType": "external"}
    answer = {"tool_use_id": call["id"], "type": "tool_result", "content": "3 passed", "is_error": False}
    asked = {"id": "msg_1", "role": "assistant", "model": "m", "content": [call]}
    return [
        base | {"type": "assistant", "uuid": "u1", "timestamp": "2026-03-01T09:00:00.000Z", "message": asked},
        base
        | {"type": "user", "uuid": "u2", "parentUuid": "u1", "timestamp": "2026-03-01T09:00:04.000Z"}
        | {"message": {"role": "user", "content": [answer]}, "toolUseResult": RESPONSE},
    ]


@pytest.mark.parametrize("is_transcript_first", [False, True])
def test_hooks_and_the_transcript_are_one_call(
    project: Project, sender: Sender, tmp_path: Path, *, is_transcript_first: bool
) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in transcript()))
    if is_transcript_first:
        import_paths(project, [path])
    assert send(sender, event("PreToolUse")) == 200
    done = event("PostToolUse", tool_response=RESPONSE, duration_ms=1_250)
    assert [send(sender, done), send(sender, done)] == [200, 200]
    if not is_transcript_first:
        derive_waiting(project)
        call = Call.objects.get()
        assert (call.status, call.tool_ms, call.receipt_count, call.family) == ("success", 1_250, 0, "command")
        import_paths(project, [path])
    derive_waiting(project)
    call, run = Call.objects.get(), Run.objects.get()
    assert (call.tool, call.status, call.tool_ms, call.receipt_count) == ("Bash", "success", 1_250, 1)
    assert (call.origin, call.line, run.external_id, run.call_count) == ("message", 1, SESSION, 1)
    assert not call.is_disagreeing


def test_a_failure_and_a_subagent_are_told_by_their_events(project: Project, sender: Sender) -> None:
    failed = event("PostToolUseFailure", error="Exit code 2", agent_id="a1b2c3", duration_ms=10)
    assert send(sender, failed) == 200
    derive_waiting(project)
    call = Call.objects.get()
    assert (call.source_error, call.run.external_id) == (True, f"{SESSION}/a1b2c3")
    assert call.run.parent is not None
    assert call.run.parent.external_id == SESSION


BAD = {"no session": {"hook_event_name": "PreToolUse"}, "no call": event("PreToolUse", tool_use_id=None), "list": []}


@each("name", BAD)
def test_an_event_that_names_no_session_or_call_is_refused(sender: Sender, name: str) -> None:
    assert send(sender, BAD[name]) in (400, 422)
    assert not Call.objects.exists()
