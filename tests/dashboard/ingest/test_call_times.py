"""When calls of other agents began and ended, by what their recordings state of it and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from dashboard.runs.export_run import export_run
from tests.envelopes.recordings.samples import FOLDER

pytestmark = pytest.mark.django_db
RUNNING = "Chunk ID: 1\nProcess running with session ID 7\nOutput:\n"
ENDED = "Chunk ID: 2\nProcess exited with code 0\nOutput:\ndone\n"
RECORD = {
    "type": "exec_command_end",
    "call_id": "c",
    "process_id": "7",
    "exit_code": 0,
    "aggregated_output": "done\n",
    "duration": {"secs": 15, "nanos": 0},
}


def rollout(*payloads: tuple[int, str, dict[str, Any]]) -> bytes:
    """Lines of a Codex rollout, each with its second."""
    lines = [
        {"timestamp": f"2026-05-01T10:00:{second:02}Z", "type": kind, "payload": payload}
        for second, kind, payload in payloads
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def item(second: int, kind: str, call: str, **fields: Any) -> tuple[int, str, dict[str, Any]]:
    return second, "response_item", {"type": kind, "call_id": call, **fields}


COMMAND = (
    item(0, "function_call", "c", name="exec_command", arguments='{"cmd": "x"}'),
    item(1, "function_call_output", "c", output=RUNNING),
)
POLL = (
    item(4, "function_call", "p", name="write_stdin", arguments='{"session_id": 7, "chars": ""}'),
    item(20, "function_call_output", "p", output=ENDED),
)


@pytest.mark.parametrize(
    ("lines", "seconds", "tool_ms"),
    [
        pytest.param((*COMMAND, (15, "event_msg", RECORD), *POLL), 15, 15_000, id="recorded"),
        pytest.param((*COMMAND, *POLL, (21, "event_msg", RECORD)), 20, 15_000, id="later", marks=pytest.mark.extended),
        pytest.param((*COMMAND, *POLL), 20, None, id="polled", marks=pytest.mark.extended),
        pytest.param(COMMAND, None, None, id="never ended", marks=pytest.mark.extended),
    ],
)
def test_a_command_that_outlives_its_window_ends_when_it_is_known_to_have_ended(
    project: Project, tmp_path: Path, lines: Any, seconds: int | None, tool_ms: int | None
) -> None:
    path = tmp_path / "rollout-a.jsonl"
    path.write_bytes(rollout(*lines))
    import_paths(project, [path])
    export_run(project.runs.get(), tmp_path / "exported")
    other = get_or_create_project("again")
    import_paths(other, [tmp_path / "exported"])
    for owner in (project, other):
        call = Call.objects.get(project=owner)
        duration = None if seconds is None else seconds * 1000
        assert (call.duration_ms, call.tool_ms, call.ended_at is None) == (duration, tool_ms, seconds is None)


def test_the_stamp_of_a_gemini_call_is_its_end(project: Project) -> None:
    import_paths(project, [FOLDER / "gemini_cli" / "entire_ab_2b9748b105_0_full.json"])
    call = Call.objects.get(external_id="run_shell_command-1768510352712-ab6b7a9d05a97")
    assert call.started_at is not None
    assert call.started_at.timestamp() == 1768510352.712
    assert (call.ended_at is not None and call.ended_at.isoformat(), call.duration_ms) == (
        "2026-01-15T20:52:35.340000+00:00",
        2_628,
    )


def test_a_call_of_pydantic_ai_is_as_old_as_its_response(project: Project) -> None:
    import_paths(project, [FOLDER / "message_dumps" / "messages_pydantic_ai_2.68.0.json"])
    assert project.runs.get().model == "function:model:"
    assert dict(Call.objects.values_list("external_id", "duration_ms")) == {"call_1": 9, "call_2": 9, "call_3": 1}
    call = Call.objects.get(external_id="call_3")
    assert (call.receipt_fidelity, call.receipt_characters) == ("reconstructed", len('{"x":2,"ok":true}'))
