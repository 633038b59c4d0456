"""Claude Code's files: the records of each line, receipts that were superseded, runs, and reading in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
    SupersedeRecord,
)
from envelopes.recordings.claude_code import SESSION
from tests.envelopes.session_lines import FIXTURES, NEW, OLD, line, message, only, read, source, tool_result, tool_use

# The records of a line


def test_a_call_keeps_its_arguments_byte_for_byte() -> None:
    raw = (
        b'{"type":"assistant","sessionId":"%s","message":{"id":"msg_1","content":[{"type":"tool_use",'
        b'"id":"toolu_1","name":"Bash","input":{"n": 1.00, "n":1e400,"big":123456789012345678901234567890}}]}}'
    )
    [call] = only(CallRecord, read(raw % OLD.encode()))
    assert (call.call, call.tool, call.step) == ("toolu_1", "Bash", "msg_1")
    assert call.args == b'{"n": 1.00, "n":1e400,"big":123456789012345678901234567890}'


def test_a_result_line_gives_both_halves() -> None:
    records = read(message("user", [tool_result(is_error=False)], toolUseResult={"stdout": "done", "durationMs": 41.6}))
    [result] = only(ResultRecord, records)
    [receipt] = only(ReceiptRecord, records)
    assert (result.result, result.fidelity) == (b'{"stdout": "done", "durationMs": 41.6}', "structured")
    assert (result.is_error, result.duration_ms) == (False, 42)
    assert (receipt.content, receipt.fidelity) == (b'"done"', "recorded")


@pytest.mark.parametrize(
    ("recorded", "result_json", "fidelity"),
    [
        ({}, None, "absent"),
        ({"toolUseResult": "Error: no such file"}, b'"Error: no such file"', "stringified"),
        ({"toolUseResult": None}, b"null", "structured"),
        ({"toolUseResult": [{"type": "text"}]}, b'[{"type": "text"}]', "structured"),
        (
            {"toolUseResult": {"persistedOutputPath": "/t/1.txt"}},
            b'{"persistedOutputPath": "/t/1.txt"}',
            "bounded",
        ),
    ],
)
def test_the_fidelity_of_a_result_follows_what_was_kept(
    recorded: Any, result_json: bytes | None, fidelity: str
) -> None:
    [result] = only(ResultRecord, read(message("user", [tool_result()], **recorded)))
    assert (result.result, result.fidelity) == (result_json, fidelity)


def test_a_tool_result_without_content_is_an_empty_receipt() -> None:
    [receipt] = only(ReceiptRecord, read(message("user", [{"type": "tool_result", "tool_use_id": "toolu_1"}])))
    assert (receipt.content, receipt.fidelity) == (b'""', "recorded")


@pytest.mark.parametrize(("length", "fidelity"), [(2000, "recorded"), (4000, "inflated")])
def test_a_preview_that_is_longer_than_a_preview_is_inflated(length: int, fidelity: str) -> None:
    head = "<persisted-output>\nOutput too large (25.8KB). Full output saved to: /home/ann/out.txt\n\n"
    text = head + "x" * length
    for content in (text, [{"type": "text", "text": text}]):
        records = read(message("user", [tool_result(content=content)]))
        assert [receipt.fidelity for receipt in only(ReceiptRecord, records)] == [fidelity]
        artifacts = [(artifact.path, artifact.role) for artifact in only(ArtifactRecord, records)]
        assert artifacts == [("/home/ann/out.txt", "output")]


@pytest.mark.parametrize(
    ("printed", "fidelity", "artifacts"),
    [
        ("\n<persisted-output>\nOutput too large. Full output saved to: /t/1.txt\n\nx", "recorded", 0),
        ("<persisted-output>\nOutput too large. Full output saved to: /t/other.txt\n\nx", "inflated", 1),
    ],
)
def test_a_preview_that_the_tool_printed_itself_is_a_whole_receipt(printed: str, fidelity: str, artifacts: int) -> None:
    receipt = f"<persisted-output>\nOutput too large. Full output saved to: /t/1.txt\n\n{'x' * 4000}"
    records = read(message("user", [tool_result(content=receipt)], toolUseResult={"stdout": printed}))
    assert [receipt.fidelity for receipt in only(ReceiptRecord, records)] == [fidelity]
    assert len(only(ArtifactRecord, records)) == artifacts


def test_a_path_named_twice_is_one_artifact_and_has_its_size() -> None:
    receipt = "<persisted-output>\nOutput too large. Full output saved to: /t/1.txt\n\nPreview"
    result = {"persistedOutputPath": "/t/1.txt", "persistedOutputSize": 99, "outputFile": "/t/2.txt"}
    artifacts = only(ArtifactRecord, read(message("user", [tool_result(content=receipt)], toolUseResult=result)))
    assert [(artifact.path, artifact.size) for artifact in artifacts] == [("/t/1.txt", 99), ("/t/2.txt", None)]


def test_one_result_beside_two_receipts_is_given_to_neither() -> None:
    blocks = [tool_result("toolu_1"), tool_result("toolu_2")]
    records = read(message("user", blocks, toolUseResult={"stdout": "whose?"}))
    assert [(result.call, result.result) for result in only(ResultRecord, records)] == [
        ("toolu_1", None),
        ("toolu_2", None),
    ]
    [event] = only(EventRecord, records)
    assert (event.kind, event.payload) == ("unattributed_result", b'{"stdout": "whose?"}')
    assert not only(LineProblem, records)


@pytest.mark.parametrize("content", ["Stop.", None, [{"type": "text", "text": "Stop."}], 7])
def test_one_result_beside_no_receipt_is_an_event(content: Any) -> None:
    [event] = only(EventRecord, read(message("user", content, toolUseResult="User rejected tool use")))
    assert (event.kind, event.payload) == ("unattributed_result", b'"User rejected tool use"')


def test_the_structured_content_of_an_mcp_tool_is_kept() -> None:
    meta = {"structuredContent": {"total": 3}}
    [result] = only(ResultRecord, read(message("user", [tool_result()], toolUseResult=[], mcpMeta=meta)))
    assert json.loads(result.extra) == {"mcpMeta": meta}


def test_the_text_around_a_call_is_a_message_without_it() -> None:
    blocks = [{"type": "text", "text": "I look."}, tool_use(), {"type": "thinking", "thinking": "hm"}]
    [around] = only(MessageRecord, read(message("assistant", blocks)))
    assert (around.role, around.key, around.step) == ("assistant", "u1", "msg_1")
    assert json.loads(around.content) == [blocks[0], blocks[2]]


@pytest.mark.parametrize(
    ("raw", "delivery"),
    [
        (message("user", "go"), "sent"),
        (message("assistant", "API Error: 529", isApiErrorMessage=True), "withheld"),
        (message("user", "for the person", isVisibleInTranscriptOnly=True), "withheld"),
        (message("user", "summary", isVisibleInTranscriptOnly=True, isCompactSummary=True), "sent"),
        (line("assistant", message={"model": "<synthetic>", "content": "No response requested."}), "unclear"),
        (line("system", subtype="informational", content="notice"), "withheld"),
        (line("system", subtype="local_command", content="<local-command-stdout>"), "unclear"),
    ],
)
def test_a_line_that_the_client_keeps_from_the_model_is_distinguished(raw: bytes, delivery: str) -> None:
    assert [record.delivery for record in only(MessageRecord, read(raw))] == [delivery]


def test_messages_whose_ids_were_redacted_are_distinguished() -> None:
    raw = b"".join(message("user", text, uuid="0") for text in ("one", "two", "one", "two"))
    state: dict[str, object] = {}
    first, *rest = [
        message_record.key
        for part in (raw[: len(raw) // 2], raw[len(raw) // 2 :])
        for message_record in only(MessageRecord, read(part, state=state))
    ]
    assert (first, rest[1]) == ("0", "0")
    assert rest[0] == rest[2] != "0"


def test_the_plan_of_a_run_is_its_last_todo_list() -> None:
    todos = {"todos": [{"content": "Count", "status": "pending"}]}
    runs = only(RunRecord, read(message("assistant", [tool_use(tool="TodoWrite", **todos)])))
    assert json.loads(runs[-1].plan) == todos


def test_a_task_names_the_run_of_its_subagent() -> None:
    result = {"status": "completed", "agentId": "a1b2c3d", "totalDurationMs": 1200}
    [result_record] = only(ResultRecord, read(message("user", [tool_result()], toolUseResult=result)))
    assert (result_record.child_run, result_record.duration_ms) == (f"{OLD}/a1b2c3d", 1200)


def test_a_background_task_that_reports_is_an_event_of_its_call() -> None:
    text = "<task-notification>\n<task-id>b7</task-id>\n<tool-use-id>toolu_9</tool-use-id>\n</task-notification>"
    queued = {"type": "queued_command", "prompt": text, "commandMode": "task-notification"}
    for raw in (
        message("user", text),
        message("user", [{"type": "text", "text": text}]),
        line("attachment", attachment=queued),
    ):
        records = read(raw)
        assert [(event.kind, event.call) for event in only(EventRecord, records)] == [("task_notification", "toolu_9")]
        assert len(only(MessageRecord, records)) == 1


@pytest.mark.parametrize("prompt", ["also add tests", [{"type": "text", "text": "like this"}, {"type": "image"}]])
def test_what_a_person_wrote_while_a_tool_ran_is_a_message(prompt: Any) -> None:
    raw = line("attachment", attachment={"type": "queued_command", "prompt": prompt, "commandMode": "prompt"})
    [written] = only(MessageRecord, read(raw))
    assert (written.role, written.key, json.loads(written.content)) == ("user", "u1", prompt)


@pytest.mark.parametrize(
    ("attachment", "kind", "call"),
    [
        ({"type": "hook_success", "stdout": "x", "toolUseID": "toolu_1"}, "hook_success", "toolu_1"),
        ({"type": "queued_command", "prompt": 7}, "queued_command", None),
        ({"type": 7}, "attachment", None),
        ("odd", "attachment", None),
    ],
)
def test_every_other_attachment_is_an_event_of_the_call_that_it_names(
    attachment: Any, kind: str, call: str | None
) -> None:
    raw = line("attachment", attachment=attachment)
    [event] = only(EventRecord, read(raw))
    assert (event.kind, event.message, event.call, event.payload) == ("attachment", kind, call, raw)


# Receipts that were superseded


def test_microcompaction_supersedes_each_receipt_it_names() -> None:
    raw = line("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["toolu_1", 7]})
    records = read(raw)
    assert [(record.call, record.content) for record in only(SupersedeRecord, records)] == [("toolu_1", None)]
    assert [record.path for record in only(LineProblem, records)] == ["$.microcompactMetadata.compactedToolIds[1]"]


def test_a_replacement_supersedes_a_receipt() -> None:
    replacements = [{"kind": "tool-result", "toolUseId": "toolu_1", "replacement": "[cut]"}, {"kind": "tool-result"}, 5]
    records = read(line("content-replacement", replacements=replacements))
    [superseded] = only(SupersedeRecord, records)
    assert (superseded.call, superseded.reason, superseded.content) == ("toolu_1", "content-replacement", b'"[cut]"')
    assert [problem.path for problem in only(LineProblem, records)] == [
        "$.replacements[1].toolUseId",
        "$.replacements[2]",
    ]


# Runs


@pytest.mark.parametrize(
    ("path", "run", "parent"),
    [
        (f"{NEW}.jsonl", NEW, None),
        ("turn-2.jsonl", OLD, None),
        (f"{NEW}/subagents/agent-a1.jsonl", f"{NEW}/a1", NEW),
        (f"{NEW}/subagents/workflows/w1/agent-a1.jsonl", f"{NEW}/a1", NEW),
        ("turn-2/subagents/agent-a1.jsonl", f"{OLD}/a1", OLD),
        ("agent-a1.jsonl", f"{OLD}/a1", OLD),
    ],
)
def test_the_name_of_a_file_identifies_its_run(path: str, run: str, parent: str | None) -> None:
    run_record = only(RunRecord, read(message("user", "Count the orders"), path))[0]
    assert (run_record.run, run_record.parent_run, run_record.title) == (run, parent, "Count the orders")


def test_a_run_record_is_repeated_only_when_more_is_known() -> None:
    first = message("user", "<command-name>/review</command-name><command-args>PR 6</command-args>", version="2.1.39")
    records = read(first + message("user", "Look at it") + message("user", "And again"))
    assert [(run.title, run.version) for run in only(RunRecord, records)] == [
        ("/review PR 6", "2.1.39"),
        ("Look at it", None),
    ]


def test_a_summary_names_the_run_only_when_its_message_is_in_the_file() -> None:
    foreign = b'{"type":"summary","summary":"Another session","leafUuid":"elsewhere"}\n'
    own = b'{"type":"summary","summary":"Orders counted","leafUuid":"u1"}\n'
    waiting = read(foreign + own + message("user", "Count the orders"))
    assert [run.title for run in only(RunRecord, waiting) if run.title] == ["Orders counted"]
    chosen = line("custom-title", customTitle="Orders")
    later = read(message("user", "Count the orders") + chosen + own)
    assert [run.title for run in only(RunRecord, later) if run.title] == ["Count the orders", "Orders"]


def test_a_resumed_session_says_which_calls_it_inherited() -> None:
    path = f"resumed/{NEW}.jsonl"
    calls = only(CallRecord, read((FIXTURES / path).read_bytes(), path))
    assert [(call.run, call.call, call.inherited) for call in calls] == [
        (NEW, "toolu_01orders", True),
        (NEW, "toolu_01refunds", False),
    ]


def test_a_file_whose_name_has_no_session_id_may_hold_several() -> None:
    """Interleaved and in two parts: a line that names no session belongs to the session of the line before."""
    raw = b"".join(
        message("assistant", [tool_use("call_0")], sessionId=session, cwd=f"/{session[:1]}", uuid=f"u{at}")
        for at, session in enumerate((OLD, NEW, OLD))
    ) + message("assistant", [tool_use("call_1")]).replace(b'"sessionId"', b'"was"')
    whole = read(raw, "all.jsonl")
    calls = [(call.run, call.call, call.inherited) for call in only(CallRecord, whole)]
    assert calls == [(OLD, "call_0", False), (NEW, "call_0", False), (OLD, "call_0", False), (OLD, "call_1", False)]
    assert [(run.run, run.cwd) for run in only(RunRecord, whole)] == [(OLD, "/1"), (NEW, "/2")]


def test_a_fork_with_rewritten_lines_is_known_by_ids_that_join() -> None:
    names = [f"rewritten/{OLD}.jsonl", f"rewritten/{NEW}.jsonl"]
    old, new = (only(CallRecord, read((FIXTURES / name).read_bytes(), name)) for name in names)
    assert (new[0].run, new[0].call, new[0].inherited) == (NEW, old[0].call, False)
    assert SESSION.is_global_call_id(new[0].call)
    assert not SESSION.is_global_call_id("call_0")


def test_an_old_sidechain_becomes_the_run_of_the_call_that_started_it() -> None:
    records = read((FIXTURES / "sidechain.jsonl").read_bytes(), "sidechain.jsonl")
    [child] = [run for run in only(RunRecord, records) if run.parent_run]
    assert (child.parent_run, child.parent_call, child.title) == (OLD, "toolu_01find", "Where are the tests?")
    assert [(call.call, call.run) for call in only(CallRecord, records)] == [
        ("toolu_01find", OLD),
        ("toolu_01glob", child.run),
    ]


def test_progress_of_a_subagent_belongs_to_the_child_run() -> None:
    request = {
        "type": "assistant",
        "uuid": "p1",
        "message": {"id": "msg_2", "content": [tool_use("toolu_2", path=".")]},
    }
    answer = {"type": "user", "uuid": "p2", "message": {"role": "user", "content": [tool_result("toolu_2", "a.py")]}}
    sent = {"type": "agent_progress", "agentId": "a1", "prompt": "Look around"}
    raw = b"".join(
        line("progress", parentToolUseID="toolu_1", data={**sent, "message": content}) for content in (request, answer)
    )
    records = read(raw)
    [child] = [run for run in only(RunRecord, records) if run.parent_run]
    assert (child.run, child.parent_call, child.title) == (f"{OLD}/a1", "toolu_1", "Look around")
    [call] = only(CallRecord, records)
    assert (call.run, call.origin, call.step) == (f"{OLD}/a1", "progress", "msg_2")
    assert only(ReceiptRecord, records)[0].content == b'"a.py"'


def test_other_progress_is_an_event_with_its_payload() -> None:
    raw = line("progress", parentToolUseID="toolu_1", data={"type": "bash_progress", "output": "2 of 9"})
    [event] = only(EventRecord, read(raw))
    assert (event.kind, event.call, event.payload) == (
        "bash_progress",
        "toolu_1",
        b'{"type": "bash_progress", "output": "2 of 9"}',
    )


# Parts


def test_a_file_read_in_parts_gives_what_it_gives_whole() -> None:
    path = f"resumed/{NEW}.jsonl"
    lines = source((FIXTURES / path).read_bytes())
    whole = list(SESSION.read(lines, SourcePath(path), {}))
    for cut in range(len(lines) + 1):
        state: dict[str, object] = {}
        beginning = list(SESSION.read(lines[:cut], SourcePath(path), state))
        state = json.loads(json.dumps(state))
        assert beginning + list(SESSION.read(lines[cut:], SourcePath(path), state)) == whole


def test_the_state_is_bounded_however_long_a_session_is() -> None:
    state: dict[str, object] = {}
    for number in range(2000):
        fields = {"uuid": f"u{number}", "isSidechain": True, "parentUuid": f"u{number - 1}"}
        summary = line("summary", summary="s", leafUuid=f"never{number}")
        read(message("assistant", [tool_use(tool="Task", prompt=str(number))], **fields) + summary, state=state)
    assert len(json.dumps(state)) < 200_000


# The whole recordings


def recorded_lines(root: Path) -> list[tuple[Path, int, Any]]:
    files = sorted((root / "claude-code").rglob("*.jsonl"))
    return [
        (file, n, json.loads(raw)) for file in files for n, raw in enumerate(file.read_bytes().split(b"\n"), 1) if raw
    ]


def blocks_of(entry: Any, kind: str) -> list[Any]:
    content = (entry.get("message") or {}).get("content")
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


@pytest.mark.recordings
def test_every_recorded_call_receipt_and_result_is_read_unchanged(recordings_root: Path) -> None:
    entries = recorded_lines(recordings_root)
    files = dict.fromkeys(file for file, _, _ in entries)
    records = {file: read(file.read_bytes(), str(file.relative_to(recordings_root))) for file in files}
    everything = [record for read_back in records.values() for record in read_back]
    assert not only(LineProblem, everything)
    calls = {call.call for call in only(CallRecord, everything) if call.origin == "message"}
    assert calls == {block["id"] for _, _, entry in entries for block in blocks_of(entry, "tool_use")}
    results = [(file, n, entry, block) for file, n, entry in entries for block in blocks_of(entry, "tool_result")]
    lines = {(file, number) for file, number, _, _ in results}
    for kind, field in ((ReceiptRecord, "content"), (ResultRecord, "result")):
        read_back = [
            (file, record.line, record.call, json.loads(getattr(record, field) or b"null"))
            for file, of_file in records.items()
            for record in only(kind, of_file)
            if (file, record.line) in lines
        ]
        assert read_back == [
            (file, n, block["tool_use_id"], block["content"] if kind is ReceiptRecord else entry.get("toolUseResult"))
            for file, n, entry, block in results
        ]


@pytest.mark.recordings
def test_calls_that_only_progress_reports_name_are_distinguished(recordings_root: Path) -> None:
    files = sorted((recordings_root / "claude-code").rglob("*.jsonl"))
    calls = [call for file in files for call in only(CallRecord, read(file.read_bytes(), str(file)))]
    messages = {call.call for call in calls if call.origin == "message"}
    progress = {call.call for call in calls if call.origin == "progress"}
    assert (len(messages), len(progress - messages)) == (1795, 92)
