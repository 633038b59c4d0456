"""Qwen Code's sessions: what it sent to its model is the receipt, both halves are right, and what left the context."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings import UnknownFormat
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

PATH, COMPRESSED = "releases/qwen_code_0.15.10.jsonl", "releases/qwen_code_0.15.10_compressed.jsonl"
SENT: dict[str, str] = json.loads((FOLDER / PATH).with_suffix(".sent.json").read_bytes())
SAMPLE = read_sample(PATH)


def line(kind: str, number: int, **members: Any) -> dict[str, Any]:
    place = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": "s"}
    return {**place, "timestamp": f"2026-11-27T10:00:{number:02}.000Z", "type": kind, **members}


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": words}]}


def read_lines(*lines: dict[str, Any]) -> Sample:
    return read_bytes("".join(f"{json.dumps(one)}\n" for one in lines).encode(), "s.jsonl")


def test_a_session_is_no_session_of_claude_code() -> None:
    for path in (PATH, COMPRESSED):
        sample = read_sample(path)
        assert sample.format.name == "qwen-code"
        assert not sample.problems


def test_lines_of_an_agent_that_no_reader_knows_are_not_recognised() -> None:
    with pytest.raises(UnknownFormat):
        read_lines({"type": "turn.begin", "sessionId": "s"}, {"type": "turn.end", "sessionId": "s"})


def test_receipts_are_what_it_sent() -> None:
    receipts = {record.call: json.loads(record.content) for record in only(ReceiptRecord, SAMPLE.records)}
    assert receipts == SENT
    assert [record.call for record in only(CallRecord, SAMPLE.records)] == [*SENT]


@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("run_shell_command", "cat a.txt", 0),
        ("run_shell_command", "exit 3", 3),
        ("run_shell_command", "seq 1 60000", 0),
        ("run_shell_command", "echo out", 1),
        ("run_shell_command", "sleep 2", None),
        ("run_shell_command", '"cmd"', "invalid_tool_input"),
        ("read_file", "missing.txt", "missing_file"),
        ("read_file", '"offset"', None),
        ("write_file", "new.txt", None),
        ("edit", "line two", None),
        ("edit", "not there", "tool_execution_failed"),
        ("glob", "*.txt", None),
        ("grep_search", "line", None),
        ("list_directory", "project", None),
        ("todo_write", "one", None),
        ("web_fetch", "http", "tool_execution_failed"),
        ("no_such_tool", "", "unknown_tool"),
    ],
)
def test_each_call_ended_as_it_did(tool: str, words: str, end: int | str | None) -> None:
    assert SAMPLE.ends(tool, words) == [end]


def test_the_one_long_output_is_cut() -> None:
    cut = [call.args for call, halves in zip(SAMPLE.calls, SAMPLE.halves(), strict=True) if halves.is_cut]
    assert cut == [b'{"command":"seq 1 60000","is_background":false}']


def test_the_lines_that_an_edit_shows_are_those_of_the_edited_file() -> None:
    [halves] = [halves for halves in SAMPLE.halves() if halves.receipt and "has been updated" in halves.receipt.text]
    assert halves.receipt is not None
    linked = {part.text: part.source.pointer for part in halves.receipt.segments if part.source}
    assert linked == {"/srv/demo/project/new.txt": "/file_path", "line one\nline 2\n": "/newContent"}


def test_a_text_in_place_of_a_file_that_was_read_before_is_not_its_content() -> None:
    [halves] = [halves for halves in SAMPLE.halves() if halves.receipt and "unchanged since" in halves.receipt.text]
    assert "content_preview" not in json.dumps(halves.projection.canonical.result)


def test_the_run_has_its_facts_and_each_request_its_usage() -> None:
    runs = only(RunRecord, SAMPLE.records)
    facts = {
        name: value for run in runs for name in ("title", "model", "version", "cwd") if (value := getattr(run, name))
    }
    assert facts == {
        "title": "do a tour",
        "model": "qwen3-coder-plus",
        "version": "0.15.10",
        "cwd": "/srv/demo/project",
    }
    usages = only(UsageRecord, SAMPLE.records)
    assert len(usages) == 21
    assert all(usage.input_tokens + usage.cache_read_tokens > 19_000 for usage in usages)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("path", [PATH, COMPRESSED])
def test_a_session_that_grows_has_the_same_records(path: str, size: int) -> None:
    assert read_in_parts((FOLDER / path).read_bytes(), path, size) == list(read_sample(path).records)


def test_a_compression_keeps_the_calls_of_its_history_and_what_came_since_the_last_answer() -> None:
    lines = [
        line("user", 1, message=text("user", "go")),
        line("assistant", 2, message=text("model", "well")),
        line("user", 3, message=text("user", "go on")),
        line("system", 4, subtype="slash_command", systemPayload={}),
        line(
            "system",
            5,
            subtype="chat_compression",
            systemPayload={"compressedHistory": [text("user", "<state_snapshot>"), text("model", "well")]},
        ),
    ]
    sample = read_lines(*lines)
    [event] = [event for event in only(EventRecord, sample.records) if "compact" in event.kind]
    assert (event.kind, event.position, json.loads(event.payload)) == ("partial_compact_boundary", 4, {"kept": [2, 3]})
    [*_, summary] = only(MessageRecord, sample.records)
    assert (summary.kind, json.loads(summary.content)) == ("compaction summary", [{"text": "<state_snapshot>"}])


def test_an_answer_that_is_in_the_compressed_history_before_its_line_comes_once() -> None:
    """The client wrote the history late; the answer behind the summary is its own."""
    made_up = text("model", "Got it. Thanks for the additional context!")
    history = [text("user", "<state_snapshot>"), made_up, text("user", "go on"), text("model", "fin")]
    sample = read_lines(
        line("user", 1, message=text("user", "go")),
        line("system", 2, subtype="chat_compression", systemPayload={"compressedHistory": history}),
        line("assistant", 3, message=text("model", "fin")),
        line("system", 4, subtype="chat_compression", systemPayload={"compressedHistory": history[:2]}),
    )
    messages = only(MessageRecord, sample.records)
    said = [(record.line, json.loads(record.content)[0]["text"], record.kind) for record in messages]
    added = [("<state_snapshot>", "compaction summary"), ("Got it. Thanks for the additional context!", "meta")]
    assert said[1:3] == [(2, *added[0]), (2, *added[1])]
    assert said[-3:] == [(3, "fin", None), (4, *added[0]), (4, *added[1])]
    assert [entry for entry in said if entry[1] == "fin"] == [(3, "fin", None)]


def test_calls_whose_ids_a_provider_counts_in_each_answer_are_calls_of_their_own() -> None:
    def asks(number: int, command: str) -> dict[str, Any]:
        call = {"functionCall": {"id": "call_0", "name": "run_shell_command", "args": {"command": command}}}
        return line("assistant", number, message={"role": "model", "parts": [call]})

    def answers(number: int, output: str) -> dict[str, Any]:
        answer = {"functionResponse": {"id": "call_0", "name": "run_shell_command", "response": {"output": output}}}
        result = {"callId": "call_0", "status": "success", "resultDisplay": output}
        return line("tool_result", number, message={"role": "user", "parts": [answer]}, toolCallResult=result)

    lines = [asks(1, "ls"), answers(2, "a.txt"), asks(3, "pwd"), answers(4, "/home/dev"), asks(5, "id"), asks(6, "ps")]
    lines += [answers(7, "PID")]
    history = [text("user", "<state_snapshot>"), *(one["message"] for one in (lines[2], lines[3], lines[5]))]
    lines += [
        line("assistant", 8, message=text("model", "well")),
        line("system", 9, subtype="chat_compression", systemPayload={"compressedHistory": history}),
    ]
    sample = read_lines(*lines)
    assert [(call.call, json.loads(call.args or b"")["command"]) for call in only(CallRecord, sample.records)] == [
        ("call_0", "ls"),
        ("call_0-3", "pwd"),
        ("call_0-5", "id"),
        ("call_0-6", "ps"),
    ]
    receipts = [(record.call, json.loads(record.content)) for record in only(ReceiptRecord, sample.records)]
    assert receipts == [("call_0", "a.txt"), ("call_0-3", "/home/dev"), ("call_0-6", "PID")]
    assert [record.call for record in only(ResultRecord, sample.records)] == [call for call, _ in receipts]
    [event] = [event for event in only(EventRecord, sample.records) if "compact" in event.kind]
    assert json.loads(event.payload) == {"kept": [3, 4, 6]}
    raw = "".join(f"{json.dumps(one)}\n" for one in lines).encode()
    assert read_in_parts(raw, "s.jsonl", 1) == list(sample.records)


def test_a_rewind_leaves_the_lines_behind_its_parent() -> None:
    lines = [line("user", number, message=text("user", f"prompt {number}")) for number in (1, 2, 3)]
    for parent, left in (("u1", [2, 4]), (None, [1, 4]), ("elsewhere", None)):
        rewind = line("system", 4, subtype="rewind", systemPayload={}) | {"parentUuid": parent}
        [event] = only(EventRecord, read_lines(*lines, rewind).records)
        assert event.kind == ("rewind" if left else "rewind_to_unknown_line")
        assert json.loads(event.payload).get("left") == left


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"uuid": "u9", "sessionId": "s"}, "$.type"),
        (line("tool_result", 9, message={"parts": [{"text": "lost"}]}), "$.message.parts"),
        (
            line("assistant", 9, message={"parts": [{"functionCall": {"name": "glob"}}]}),
            "$.message.parts[0].functionCall",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_the_others_are_read(bad: dict[str, Any], path: str) -> None:
    sample = read_lines(
        line("user", 1, message=text("user", "go")), bad, line("user", 3, message=text("user", "go on"))
    )
    assert [(problem.line, problem.path) for problem in sample.problems] == [(2, path)]
    assert len(only(MessageRecord, sample.records)) == 2


@pytest.mark.parametrize(
    ("response", "recorded", "expected"),
    [
        (
            {"error": "hook says no"},
            {"status": "error", "errorType": "execution_denied", "resultDisplay": "hook says no", "error": {}},
            (True, {"errorType": "execution_denied"}, {"resultDisplay": "hook says no"}),
        ),
        (
            {"error": "Command timed out"},
            {"status": "error", "errorType": "execution_timeout", "resultDisplay": {"type": "shell_result"}},
            (True, {"type": "shell_result"}, {"errorType": "execution_timeout"}),
        ),
        ({"error": 'Tool "list_directory" not found.'}, {"durationMs": 3}, (True, None, None)),
        ({"output": "a"}, {"durationMs": 3}, (None, None, None)),
        ({"output": "a"}, {"status": "success", "resultDisplay": "a view"}, (False, None, {"resultDisplay": "a view"})),
    ],
)
def test_a_failure_is_one_by_its_status_or_by_what_the_model_got(
    response: dict[str, str], recorded: dict[str, Any], expected: tuple[Any, Any, Any]
) -> None:
    """Lines of a subagent have no status."""
    answer = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": response}}
    message = {"role": "user", "parts": [answer]}
    sample = read_lines(line("tool_result", 1, message=message, toolCallResult={"callId": "c1", **recorded}))
    [result] = only(ResultRecord, sample.records)
    stored = [None if raw is None else json.loads(raw) for raw in (result.result, result.extra)]
    assert (result.is_error, *stored) == expected


def test_a_subagent_has_a_run_below_the_call_that_started_it() -> None:
    """Its lines are in a file of its own and have the session of the parent."""
    agent = {"agentId": "general-purpose-call_6_0", "agentName": "general-purpose", "isSidechain": True}
    asked = {"role": "model", "parts": [{"functionCall": {"id": "call_9_0", "name": "run_shell_command"}}]}
    sample = read_lines(
        line("user", 1, **agent, message=text("user", "look")), line("assistant", 2, **agent, message=asked)
    )
    run = only(RunRecord, sample.records)[0]
    assert (run.run, run.parent_run, run.parent_call) == ("s/general-purpose-call_6_0", "s", "call_6_0")
    assert {record.run for record in sample.records if not isinstance(record, LineProblem)} == {run.run}
    answer = {"functionResponse": {"id": "call_6_0", "name": "agent", "response": {"output": "It runs."}}}
    shown = {"type": "task_execution", "subagentName": "general-purpose", "status": "background"}
    result = {"callId": "call_6_0", "status": "success", "resultDisplay": shown}
    started = line("tool_result", 2, message={"role": "user", "parts": [answer]}, toolCallResult=result)
    parent = read_lines(line("user", 1, message=text("user", "do it")), started)
    assert [record.child_run for record in only(ResultRecord, parent.records)] == [run.run]
    named = {**agent, "agentName": "scout"}
    (other, *_) = only(RunRecord, read_lines(line("user", 1, **named, message=text("user", "look"))).records)
    assert (other.run, other.parent_call) == (run.run, None)
