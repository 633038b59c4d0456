"""Claude Code's files: what each line becomes, what is refused, and that a part can follow a part."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.recordings import detect
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    MessageRecord,
    Place,
    Problem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SupersedeRecord,
)
from envelopes.recordings.claude_code import SESSION, STREAM

FIXTURES = Path(__file__).parent / "recordings"
OLD = "11111111-aaaa-4aaa-8aaa-111111111111"
NEW = "22222222-bbbb-4bbb-8bbb-222222222222"
SCOUT = "33333333-cccc-4ccc-8ccc-333333333333/toolu_01task"


def source(content: bytes, number: int = 1, offset: int = 0) -> list[SourceLine]:
    lines = []
    for raw in content.splitlines(keepends=True):
        lines.append(SourceLine(number, offset, raw))
        number, offset = number + 1, offset + len(raw)
    return lines


def read(content: bytes, path: str = f"{OLD}.jsonl", state: dict[str, object] | None = None) -> list[Record | Problem]:
    return list(SESSION.read(source(content), Place(path), {} if state is None else state))


def line(kind: str, **fields: Any) -> bytes:
    about = {"type": kind, "sessionId": OLD, "uuid": "u1", "timestamp": "2026-02-10T10:00:00.000Z"}
    return json.dumps({**about, **fields}).encode() + b"\n"


def message(kind: str, content: Any, **fields: Any) -> bytes:
    return line(kind, message={"id": "msg_1", "role": kind, "content": content}, **fields)


def tool_use(call: str = "toolu_1", tool: str = "Bash", **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": tool, "input": args}


def tool_result(call: str = "toolu_1", content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **fields}


def only(kind: type[Any], records: Iterable[Record | Problem]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


# What a line becomes


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
    ("recorded", "kept", "fidelity"),
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
def test_the_fidelity_of_a_result_follows_what_was_kept(recorded: Any, kept: bytes | None, fidelity: str) -> None:
    [result] = only(ResultRecord, read(message("user", [tool_result()], **recorded)))
    assert (result.result, result.fidelity) == (kept, fidelity)


def test_a_receipt_without_content_is_absent() -> None:
    [receipt] = only(ReceiptRecord, read(message("user", [{"type": "tool_result", "tool_use_id": "toolu_1"}])))
    assert (receipt.content, receipt.fidelity) == (b"null", "absent")


@pytest.mark.parametrize(("length", "fidelity"), [(2000, "recorded"), (4000, "inflated")])
def test_a_preview_that_is_longer_than_a_preview_is_inflated(length: int, fidelity: str) -> None:
    head = "<persisted-output>\nOutput too large (25.8KB). Full output saved to: /home/ann/out.txt\n\n"
    records = read(message("user", [tool_result(content=head + "x" * length)]))
    assert [receipt.fidelity for receipt in only(ReceiptRecord, records)] == [fidelity]
    assert [(found.path, found.role) for found in only(ArtifactRecord, records)] == [("/home/ann/out.txt", "output")]


def test_a_path_named_twice_is_one_artifact_and_has_its_size() -> None:
    receipt = "<persisted-output>\nOutput too large. Full output saved to: /t/1.txt\n\nPreview"
    result = {"persistedOutputPath": "/t/1.txt", "persistedOutputSize": 99, "outputFile": "/t/2.txt"}
    artifacts = only(ArtifactRecord, read(message("user", [tool_result(content=receipt)], toolUseResult=result)))
    assert [(found.path, found.size) for found in artifacts] == [("/t/1.txt", 99), ("/t/2.txt", None)]


def test_one_result_beside_two_receipts_is_given_to_neither() -> None:
    blocks = [tool_result("toolu_1"), tool_result("toolu_2")]
    records = read(message("user", blocks, toolUseResult={"stdout": "whose?"}))
    assert [(found.call, found.result) for found in only(ResultRecord, records)] == [
        ("toolu_1", None),
        ("toolu_2", None),
    ]
    [event] = only(EventRecord, records)
    assert (event.kind, event.payload) == ("unattributed_result", b'{"stdout": "whose?"}')
    assert not only(Problem, records)


def test_the_structured_content_of_an_mcp_tool_is_kept() -> None:
    meta = {"structuredContent": {"total": 3}}
    [result] = only(ResultRecord, read(message("user", [tool_result()], toolUseResult=[], mcpMeta=meta)))
    assert json.loads(result.extra) == {"mcpMeta": meta}


def test_what_stands_around_a_call_is_a_message_without_it() -> None:
    blocks = [{"type": "text", "text": "I look."}, tool_use(), {"type": "thinking", "thinking": "hm"}]
    [around] = only(MessageRecord, read(message("assistant", blocks)))
    assert (around.role, around.key, around.step) == ("assistant", "u1", "msg_1")
    assert json.loads(around.content) == [blocks[0], blocks[2]]


def test_the_plan_of_a_run_is_its_last_todo_list() -> None:
    todos = {"todos": [{"content": "Count", "status": "pending"}]}
    runs = only(RunRecord, read(message("assistant", [tool_use(tool="TodoWrite", **todos)])))
    assert json.loads(runs[-1].plan) == todos


def test_a_task_names_the_run_of_its_subagent() -> None:
    result = {"status": "completed", "agentId": "a1b2c3d", "totalDurationMs": 1200}
    [found] = only(ResultRecord, read(message("user", [tool_result()], toolUseResult=result)))
    assert (found.child_run, found.duration_ms) == (f"{OLD}/a1b2c3d", 1200)


def test_a_background_task_that_reports_is_an_event_of_its_call() -> None:
    text = "<task-notification>\n<task-id>b7</task-id>\n<tool-use-id>toolu_9</tool-use-id>\n</task-notification>"
    records = read(message("user", text))
    assert [(event.kind, event.call) for event in only(EventRecord, records)] == [("task_notification", "toolu_9")]
    assert len(only(MessageRecord, records)) == 1


# Receipts that no longer stand


def test_microcompaction_supersedes_each_receipt_it_names() -> None:
    raw = line("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["toolu_1", 7]})
    records = read(raw)
    assert [(found.call, found.content) for found in only(SupersedeRecord, records)] == [("toolu_1", None)]
    assert [found.path for found in only(Problem, records)] == ["$.microcompactMetadata.compactedToolIds[1]"]


def test_a_replacement_stands_in_the_place_of_a_receipt() -> None:
    kept = [{"kind": "tool-result", "toolUseId": "toolu_1", "replacement": "[cut]"}, {"kind": "tool-result"}, 5]
    records = read(line("content-replacement", replacements=kept))
    [superseded] = only(SupersedeRecord, records)
    assert (superseded.call, superseded.reason, superseded.content) == ("toolu_1", "content-replacement", b'"[cut]"')
    assert [found.path for found in only(Problem, records)] == ["$.replacements[1].toolUseId", "$.replacements[2]"]


def test_compaction_is_an_event_of_the_run() -> None:
    records = read(line("system", subtype="compact_boundary", content="Conversation compacted"))
    assert [event.kind for event in only(EventRecord, records)] == ["compact_boundary"]
    assert not only(MessageRecord, records)


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
def test_the_name_of_a_file_tells_its_run(path: str, run: str, parent: str | None) -> None:
    found = only(RunRecord, read(message("user", "Count the orders"), path))[0]
    assert (found.run, found.parent_run, found.title) == (run, parent, "Count the orders")


def test_a_run_is_told_again_only_when_more_is_known() -> None:
    first = message("user", "<command-name>/review</command-name><command-args>PR 6</command-args>", version="2.1.39")
    records = read(first + message("user", "Look at it") + message("user", "And again"))
    assert [(found.title, found.version) for found in only(RunRecord, records)] == [
        ("/review PR 6", "2.1.39"),
        ("Look at it", None),
    ]


def test_a_summary_names_the_run_only_when_its_message_is_in_the_file() -> None:
    foreign = b'{"type":"summary","summary":"Another session","leafUuid":"elsewhere"}\n'
    own = b'{"type":"summary","summary":"Orders counted","leafUuid":"u1"}\n'
    waiting = read(foreign + own + message("user", "Count the orders"))
    assert [found.title for found in only(RunRecord, waiting) if found.title] == ["Orders counted"]
    chosen = line("custom-title", customTitle="Orders")
    later = read(message("user", "Count the orders") + chosen + own)
    assert [found.title for found in only(RunRecord, later) if found.title] == ["Count the orders", "Orders"]


def test_a_resumed_session_says_which_calls_it_inherited() -> None:
    path = f"resumed/{NEW}.jsonl"
    calls = only(CallRecord, read((FIXTURES / path).read_bytes(), path))
    assert [(call.run, call.call, call.inherited) for call in calls] == [
        (NEW, "toolu_01orders", True),
        (NEW, "toolu_01refunds", False),
    ]


def test_a_fork_with_rewritten_lines_is_known_by_ids_that_join() -> None:
    names = [f"rewritten/{OLD}.jsonl", f"rewritten/{NEW}.jsonl"]
    old, new = (only(CallRecord, read((FIXTURES / name).read_bytes(), name)) for name in names)
    assert (new[0].run, new[0].call, new[0].inherited) == (NEW, old[0].call, False)
    assert SESSION.joins(new[0].call)
    assert not SESSION.joins("call_0")


def test_an_old_sidechain_becomes_the_run_of_the_call_that_started_it() -> None:
    records = read((FIXTURES / "sidechain.jsonl").read_bytes(), "sidechain.jsonl")
    [child] = [found for found in only(RunRecord, records) if found.parent_run]
    assert (child.parent_run, child.parent_call, child.title) == (OLD, "toolu_01find", "Where are the tests?")
    assert [(call.call, call.run) for call in only(CallRecord, records)] == [
        ("toolu_01find", OLD),
        ("toolu_01glob", child.run),
    ]


def test_progress_of_a_subagent_belongs_to_the_child_run() -> None:
    asked = {"type": "assistant", "uuid": "p1", "message": {"id": "msg_2", "content": [tool_use("toolu_2", path=".")]}}
    got = {"type": "user", "uuid": "p2", "message": {"role": "user", "content": [tool_result("toolu_2", "a.py")]}}
    sent = {"type": "agent_progress", "agentId": "a1", "prompt": "Look around"}
    raw = b"".join(line("progress", parentToolUseID="toolu_1", data={**sent, "message": said}) for said in (asked, got))
    records = read(raw)
    [child] = [found for found in only(RunRecord, records) if found.parent_run]
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


# What is refused, and what is not


@pytest.mark.parametrize(
    ("raw", "path", "reason"),
    [
        (b'{"type":"user","sess\n', "$", "Unterminated string"),
        (b"[1,2]\n", "$", "expected a JSON object"),
        (b'{"type":"user","cwd":"\xff"}\n', "$", "not UTF-8 at byte 22: ff"),
        (b'{"type":"user","a":' + b"[" * 300 + b"]" * 300 + b"}\n", "$", "nested deeper than 200"),
        (b'{"type":"user","a":' + b"[" * 9000 + b"]" * 9000 + b"}\n", "$", "nested deeper than 200"),
        (b'{"type":"user"} {"type":"user"}\n', "$", "more after the end"),
        (b'{"type":["user"]}\n', "$.type", "no type"),
        (b'{"uuid":"u"}\n', "$.type", "no type"),
        (message("user", 5), "$.message.content", "expected a string or an array"),
        (line("assistant", message=[]), "$.message", "expected a JSON object"),
    ],
)
def test_a_refused_line_costs_no_line_beside_it(raw: bytes, path: str, reason: str) -> None:
    good = message("user", "Before"), message("user", "After")
    records = read(good[0] + raw + good[1])
    [problem] = only(Problem, records)
    assert (problem.line, problem.path) == (2, path)
    assert reason in problem.reason
    assert [found.line for found in only(MessageRecord, records)] == [1, 3]


def test_a_bad_block_costs_no_block_beside_it() -> None:
    blocks = ["text", tool_use(call=""), {**tool_use(), "name": 5}, tool_use("toolu_3"), {"type": "tool_result"}]
    records = read(message("assistant", blocks))
    assert [call.call for call in only(CallRecord, records)] == ["toolu_3"]
    problems = only(Problem, records)
    assert [(found.path, found.part) for found in problems] == [
        ("$.message.content[0]", True),
        ("$.message.content[1].id", True),
        ("$.message.content[2].name", True),
        ("$.message.content[4].tool_use_id", True),
    ]
    assert problems[0].raw == b'"text"'


WRONG: list[Any] = [None, True, -1, 1e300, 2**70, "", "\x00", "\ud800", [], [[]], {}, {"type": 5}]


@pytest.mark.parametrize("kind", ["user", "assistant", "system", "progress", "summary", "content-replacement", "new"])
def test_a_field_of_the_wrong_type_raises_nothing_and_loses_no_call(kind: str) -> None:
    said = json.loads(message(kind, [tool_use(), tool_result()], toolUseResult={"durationMs": 1}))
    data = {"type": "agent_progress", "agentId": "a1", "message": said}
    good = {**said, "data": data, "replacements": [{"toolUseId": "t", "replacement": "x"}], "summary": "s"}
    good |= {"microcompactMetadata": {"compactedToolIds": ["t"]}, "subtype": "microcompact_boundary"}
    calls = len(only(CallRecord, read(json.dumps(good).encode())))
    for field in good:
        for wrong in WRONG:
            records = read(json.dumps({**good, field: wrong}).encode())
            assert_storable(records)
            if field not in {"type", "message", "data"}:
                assert len(only(CallRecord, records)) == calls, (field, wrong)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_field_of_the_wrong_type_below_a_line_raises_nothing(wrong: Any) -> None:
    blocks = [{**block, field: wrong} for block in (tool_use(), tool_result()) for field in block]
    results = [{field: wrong} for field in ("durationMs", "agentId", "outputFile", "persistedOutputPath")]
    for content in (wrong, [wrong], blocks, *([block] for block in blocks)):
        assert_storable(read(message("user", content, toolUseResult=wrong)))
    for result in results:
        assert_storable(read(message("user", [tool_result()], toolUseResult=result)))
    for field in ("type", "agentId", "prompt", "message"):
        data = {"type": "agent_progress", "agentId": "a1", "message": {"message": {"content": blocks}}}
        assert_storable(read(line("progress", data={**data, field: wrong})))
    for subtype in ("compact_boundary", "microcompact_boundary", "api_error"):
        assert_storable(read(line("system", subtype=subtype, microcompactMetadata={"compactedToolIds": [wrong]})))
    assert_storable(read(line("content-replacement", replacements=[wrong, {"toolUseId": wrong}])))


def assert_storable(records: list[Record | Problem]) -> None:
    for record in records:
        for value in msgspec.structs.astuple(record):
            assert not isinstance(value, str) or "\0" not in value.encode().decode(), record


def test_nul_and_lone_surrogates_stay_as_they_were_written() -> None:
    raw = message("user", [tool_result(content="a\x00b\ud800c")])
    records = read(raw)
    assert only(ReceiptRecord, records)[0].content == b'"a\\u0000b\\ud800c"'
    assert not only(Problem, records)


@pytest.mark.parametrize("stamp", ["yesterday", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+14:00", 5, None])
def test_a_timestamp_that_is_none_is_left_out(stamp: Any) -> None:
    records = read(message("user", [tool_result()], timestamp=stamp))
    assert only(ReceiptRecord, records)[0].at is None
    assert not only(Problem, records)


@pytest.mark.parametrize("raw", [b'[\n{"type":"user"},\n{"type":"user"}\n]\n', b'{\n"type":\n"user"\n\n}\n'])
def test_a_document_over_many_lines_is_refused_once(raw: bytes) -> None:
    [problem] = read(raw)
    assert isinstance(problem, Problem)
    assert problem.reason.startswith("one JSON document over many lines")
    assert problem.lines == 4


def test_a_byte_order_mark_and_blank_lines_are_no_problem() -> None:
    records = read(b"\xef\xbb\xbf" + message("user", "Count") + b"\n \r\n" + message("user", "More"))
    assert [found.line for found in only(MessageRecord, records)] == [1, 4]
    assert not only(Problem, records)


def test_a_line_of_twelve_megabytes_is_read() -> None:
    text = "ä" * 6_000_000
    [receipt] = only(ReceiptRecord, read(message("user", [tool_result(content=text)], toolUseResult={"stdout": text})))
    assert json.loads(receipt.content) == text


def test_types_that_are_not_known_are_events() -> None:
    [event] = only(EventRecord, read(line("pr-link", prNumber=7)))
    assert (event.kind, json.loads(event.payload)["prNumber"]) == ("pr-link", 7)


# Parts


def test_a_file_read_in_parts_gives_what_it_gives_whole() -> None:
    path = f"resumed/{NEW}.jsonl"
    lines = source((FIXTURES / path).read_bytes())
    whole = list(SESSION.read(lines, Place(path), {}))
    for cut in range(len(lines) + 1):
        state: dict[str, object] = {}
        found = list(SESSION.read(lines[:cut], Place(path), state))
        state = json.loads(json.dumps(state))
        assert found + list(SESSION.read(lines[cut:], Place(path), state)) == whole


def test_the_state_is_bounded_however_long_a_session_is() -> None:
    state: dict[str, object] = {}
    for number in range(2000):
        fields = {"uuid": f"u{number}", "isSidechain": True, "parentUuid": f"u{number - 1}"}
        summary = line("summary", summary="s", leafUuid=f"never{number}")
        read(message("assistant", [tool_use(tool="Task", prompt=str(number))], **fields) + summary, state=state)
    assert len(json.dumps(state)) < 200_000


# stream-json


def stream(name: str = "stream.jsonl") -> list[Record | Problem]:
    return list(STREAM.read(source((FIXTURES / name).read_bytes()), Place(name), {}))


def test_the_stream_gives_the_calls_of_the_run_and_of_its_subagent() -> None:
    records = stream()
    assert [(call.call, call.run, call.step) for call in only(CallRecord, records)] == [
        ("toolu_01task", SCOUT.split("/")[0], "msg_a"),
        ("toolu_01ls", SCOUT, "msg_b"),
    ]
    results = {found.call: found for found in only(ResultRecord, records)}
    assert json.loads(results["toolu_01ls"].result)["stdout"] == "orders.csv"
    assert (results["toolu_01task"].child_run, results["toolu_01task"].duration_ms) == (SCOUT, 2900)
    assert not only(Problem, records)


def test_the_result_line_ends_the_run_at_the_last_time_that_was_seen() -> None:
    runs = only(RunRecord, stream())
    assert (runs[0].model, runs[0].version, runs[0].cwd) == ("claude-sonnet-4-5", "2.1.39", "/srv/shop")
    assert runs[-1].ended_at == "2026-02-10T10:00:04.000Z"


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("stream.jsonl", "claude-code-stream"),
        ("sidechain.jsonl", "claude-code"),
        (f"resumed/{NEW}.jsonl", "claude-code"),
    ],
)
def test_a_file_is_known_by_what_it_says(name: str, format_name: str) -> None:
    content = (FIXTURES / name).read_bytes()
    assert detect(content, Place(name)).name == format_name
    assert detect(b"\xef\xbb\xbf" + content[:300], Place("upload")).name == format_name


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
def test_every_recorded_call_receipt_and_result_is_read_as_it_stands(recordings_root: Path) -> None:
    entries = recorded_lines(recordings_root)
    files = dict.fromkeys(file for file, _, _ in entries)
    records = {file: read(file.read_bytes(), str(file.relative_to(recordings_root))) for file in files}
    everything = [record for found in records.values() for record in found]
    assert not only(Problem, everything)
    calls = {call.call for call in only(CallRecord, everything) if call.origin == "message"}
    assert calls == {block["id"] for _, _, entry in entries for block in blocks_of(entry, "tool_use")}
    told = [(file, n, entry, block) for file, n, entry in entries for block in blocks_of(entry, "tool_result")]
    lines = {(file, number) for file, number, _, _ in told}
    for kind, field in ((ReceiptRecord, "content"), (ResultRecord, "result")):
        found = [
            (file, record.line, record.call, json.loads(getattr(record, field) or b"null"))
            for file, of_file in records.items()
            for record in only(kind, of_file)
            if (file, record.line) in lines
        ]
        assert found == [
            (file, n, block["tool_use_id"], block["content"] if kind is ReceiptRecord else entry.get("toolUseResult"))
            for file, n, entry, block in told
        ]


@pytest.mark.recordings
def test_the_calls_that_only_progress_reports_are_told_apart(recordings_root: Path) -> None:
    files = sorted((recordings_root / "claude-code").rglob("*.jsonl"))
    calls = [call for file in files for call in only(CallRecord, read(file.read_bytes(), str(file)))]
    messages = {call.call for call in calls if call.origin == "message"}
    progress = {call.call for call in calls if call.origin == "progress"}
    assert (len(messages), len(progress - messages)) == (1795, 92)
