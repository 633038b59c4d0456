"""The output of `codex exec --json`: one half of each call, the plan, the answer of the model."""

from __future__ import annotations

import json
from typing import Any

from envelopes.recordings.base import EventRecord, MessageRecord, ResultRecord, RunRecord, UsageRecord
from tests.envelopes.recordings.samples import read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

SAMPLE = "codex_exec.jsonl"
THREAD = "019e1625-789d-76c0-80ab-000000000001"
CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search")


def test_calls_and_results_are_those_of_the_completed_items() -> None:
    sample = read_sample(SAMPLE)
    assert sample.format.name == "codex-exec"
    events = [json.loads(line) for line in sample.raw.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed" and event["item"]["type"] in CALLS]
    assert list(dict.fromkeys(call.call for call in sample.calls)) == [item["id"] for item in items]
    assert {call.run for call in sample.calls} == {f"{THREAD} codex_exec"}
    recorded: dict[str, Any] = {call: json.loads(result.result or b"") for call, result in sample.results.items()}
    assert recorded == {
        item["id"]: item.get("error") or item.get("result") or item for item in items if item["type"] != "web_search"
    }
    failed = {result.call for result in only(ResultRecord, sample.records) if result.is_error}
    assert failed == {item["id"] for item in items if item.get("status") == "failed"}
    assert not sample.receipts
    assert not sample.problems
    assert read_in_parts(sample.raw, SAMPLE, 4) == list(sample.records)


def test_calls_are_read_by_their_families() -> None:
    sample = read_sample(SAMPLE)
    by_call = {call.call: halves for call, halves in zip(sample.calls, sample.halves(), strict=True)}
    families = {call: halves.family for call, halves in by_call.items()}
    assert families == {
        "item_1": "command",
        "item_2": "command",
        "item_3": "external",
        "item_4": "external",
        "item_5": "external",
        "item_7": "file",
    }
    command = by_call["item_2"].projection.canonical.result
    assert isinstance(command, dict)
    assert (command["exit_status"], command["combined_output_preview"]) == (2, "2 failed\n")
    changed = by_call["item_7"].projection.canonical.result
    assert isinstance(changed, dict)
    assert changed["changed_paths"] == ["a.py", "b.py"]
    error = by_call["item_4"].projection.canonical.error
    assert error is not None
    assert error.message == "no such page"
    assert not any(halves.is_cut or halves.note for halves in by_call.values())


def test_the_plan_the_messages_and_the_events_are_kept() -> None:
    records = read_sample(SAMPLE).records
    assert [json.loads(run.plan) for run in only(RunRecord, records) if run.plan][-1] == [
        {"text": "Look", "completed": True}
    ]
    assert [(message.role, message.content) for message in only(MessageRecord, records)] == [
        ("assistant", b'"Both are done."')
    ]
    events = [(event.kind, event.level) for event in only(EventRecord, records)]
    assert ("turn.completed", "info") in events
    assert ("turn.failed", "error") in events
    assert not only(UsageRecord, records)  # that of a turn is the sum over its requests


def test_a_thread_that_was_resumed_is_a_run_of_each_file() -> None:
    raw = read_sample(SAMPLE).raw
    runs = {call.run for name in ("one.jsonl", "two.jsonl") for call in read_bytes(raw, name).calls}
    assert runs == {f"{THREAD} one", f"{THREAD} two"}
    assert {call.run for call in read_bytes(raw, f"{THREAD}.jsonl").calls} == {THREAD}


def test_damaged_events_are_named_and_the_others_are_read() -> None:
    lines = [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": 7},
        {"type": "item.completed", "item": {"type": "web_search"}},
        {"item": {}},
        {"type": "item.completed", "item": {"id": "item_0", "type": "web_search", "query": "x"}},
    ]
    sample = read_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "t.jsonl")
    assert [(problem.line, problem.path) for problem in sample.problems] == [
        (2, "$.item"),
        (3, "$.item"),
        (4, "$.type"),
    ]
    assert [(call.call, call.args) for call in sample.calls] == [("item_0", b'{"query":"x"}')]
