"""Rollouts of Codex, of every release: calls, their records and receipts, polls, code mode, forks."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from envelopes.alignment.receipt_parts import join_contents
from envelopes.halves import Halves, read_halves
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    MessageRecord,
    ReceiptRecord,
    RunRecord,
    UsageRecord,
)
from envelopes.recordings.codex.rollout import is_global_call_id
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

EXTENDED = "codex/rollout-2026-05-11T11-26-55-019e1625-789d-76c0-80ab-3724b5ddb799.jsonl"  # 0.125, with records
PLAIN = "codex/rollout-2026-05-11T13-28-45-019e1695-0522-7c83-8b39-0dd379793f80.jsonl"  # 0.128, without
OUTPUTS = ("function_call_output", "custom_tool_call_output")
SESSION = re.compile(r"Process running with session ID (\d+)")
RECORDS = ("exec_command_end", "patch_apply_end")


def rollout(*payloads: tuple[str, dict[str, Any]], start: int = 0) -> Sample:
    lines = [
        {"timestamp": f"2026-05-01T10:00:{number:02}Z", "ordinal": number + start, "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]
    return read_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "rollout-a.jsonl")


def item(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "response_item", {"type": kind, **fields}


def event(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "event_msg", {"type": kind, **fields}


@pytest.mark.parametrize("path", [EXTENDED, PLAIN])
def test_calls_records_and_receipts_are_those_of_the_lines(path: str) -> None:
    """A poll is no call of its own: its output is a further receipt of the command that said which session runs on.

    Receipts that the reader rebuilds are those of `test_an_output_is_the_text_that_the_client_sent`.
    """
    sample = read_sample(path)
    payloads = [json.loads(line)["payload"] for line in (FOLDER / path).read_bytes().splitlines()]
    kinds = ("function_call", "custom_tool_call", "web_search_call")
    items = [
        {"name": "web_search", "call_id": ended.get("call_id")} | payload  # whose id is in the line before
        for ended, payload in itertools.pairwise([{}, *payloads])
        if payload.get("type") in kinds
    ]
    outputs = {payload["call_id"]: payload["output"] for payload in payloads if payload.get("type") in OUTPUTS}
    records = {payload["call_id"] for payload in payloads if payload.get("type") in RECORDS}
    running = [(found[1], call) for call, text in outputs.items() if (found := SESSION.search(text[:200]))]
    sessions = dict(reversed(running))  # the first of them is the command's own
    arguments = {item["call_id"]: json.loads(item["arguments"]) for item in items if item["name"] == "write_stdin"}
    polls = {
        call: sessions[str(sent["session_id"])]
        for call, sent in arguments.items()
        if not sent["chars"] and str(sent["session_id"]) in sessions
    }
    receipts: dict[str, list[str]] = {}
    read_receipts = only(ReceiptRecord, sample.records)
    rebuilt = {receipt.call: receipt for receipt in read_receipts if receipt.fidelity != "recorded"}
    for call, output in outputs.items():
        sent = json.loads(rebuilt[call].content) if call in rebuilt else output
        receipts.setdefault(polls.get(call, call), []).append(sent)
    assert [call.call for call in sample.calls] == [item["call_id"] for item in items if item["call_id"] not in polls]
    read: dict[str, list[str]] = {}
    for receipt in read_receipts:
        read.setdefault(receipt.call, []).append(json.loads(receipt.content))
    assert read == receipts
    assert set(sample.results) == records
    assert not sample.problems
    assert all(outputs[call].startswith('{"output":') for call in rebuilt)
    assert len(rebuilt) == (3 if path == EXTENDED else 0)
    print(f"\n{len(items)} items, {len(polls)} polls, {len(sample.calls)} calls, {len(outputs)} receipts")


@pytest.mark.parametrize("path", [EXTENDED, PLAIN])
def test_receipts_and_records_are_slices_of_their_lines(path: str) -> None:
    sample = read_sample(path)
    lines = sample.raw.splitlines(keepends=True)
    for record in only(ReceiptRecord, sample.records):
        assert record.content in lines[record.line - 1] or record.fidelity == "reconstructed"
    for result in sample.results.values():
        assert result.result is not None
        assert result.result in lines[result.line - 1]


def test_a_file_that_grows_gives_the_same_records() -> None:
    sample = read_sample(EXTENDED)
    assert read_in_parts(sample.raw, EXTENDED, 7) == list(sample.records)


def test_the_run_has_its_facts_its_plan_and_its_instructions() -> None:
    sample = read_sample(EXTENDED)
    runs = only(RunRecord, sample.records)
    assert {run.run for run in runs} == {"019e1625-789d-76c0-80ab-3724b5ddb799"}
    first = runs[0]
    assert (first.version, first.branch, first.started_at) == (
        "0.125.0",
        "feat/codex-agent-plugin",
        "2026-05-11T08:26:55.042Z",
    )
    assert [run.model for run in runs if run.model] == ["gpt-5.5"]
    assert [run.title for run in runs if run.title] == ["show tools"]
    assert b"in_progress" in [run.plan for run in runs if run.plan][-1]
    messages = only(MessageRecord, sample.records)
    assert (messages[0].kind, messages[0].content[:20]) == ("system prompt", b'"You are Codex, a co')
    assert [message.delivery for message in messages].count("sent") == len(messages)


def test_each_request_is_counted_once() -> None:
    usages = only(UsageRecord, read_sample(EXTENDED).records)
    assert len({usage.request for usage in usages}) == len(usages)
    assert (usages[1].input_tokens, usages[1].cache_read_tokens, usages[1].context_tokens) == (607, 18304, 18911)


def test_a_prompt_that_is_no_item_is_a_message_of_unclear_delivery() -> None:
    sample = read_sample(PLAIN)
    prompts = [message for message in only(MessageRecord, sample.records) if message.role == "user"]
    assert [message.delivery for message in prompts] == ["unclear"]
    titles = [run.title for run in only(RunRecord, sample.records) if run.title]
    assert titles[0].startswith("analyze trascript and summarzie action items")


def joined_halves(sample: Sample, call: str) -> Halves:
    """The halves of a call with all its receipts together."""
    record = next(record for record in sample.calls if record.call == call)
    contents = [receipt.content for receipt in only(ReceiptRecord, sample.records) if receipt.call == call]
    result = sample.results.get(call)
    return read_halves(
        agent="codex",
        tool=record.tool,
        args=record.args,
        result=result.result if result else None,
        content=join_contents(contents) if len(contents) > 1 else contents[0],
        is_error=False,
    )


def test_polls_are_further_receipts_of_their_command_and_events_of_it() -> None:
    sample = read_sample(EXTENDED)
    further = [record for record in only(ReceiptRecord, sample.records) if record.is_further]
    events = [record for record in only(EventRecord, sample.records) if record.kind == "poll"]
    assert {receipt.call for receipt in further} < {event.call for event in events}  # some outputs are not in the file
    assert events[0].message == "polled by call_QazIeAavKevvIILVQkrDdKKT"
    assert b"yield_time_ms" in events[0].payload
    halves = joined_halves(sample, further[0].call)
    (output,) = halves.outputs
    assert (output.cut.total, output.cut.is_whole, halves.is_cut) == (117, True, False)
    assert halves.receipt is not None
    assert len(halves.receipt.parts) == 2


RUNNING = "Chunk ID: 1\nProcess running with session ID 7\nOutput:\n"
ENDED = "Chunk ID: 2\nProcess exited with code 0\nOutput:\n"
OUTPUT = "".join(f"line {number}\n" for number in range(6))
COMMAND = {"type": "exec_command_end", "call_id": "c", "process_id": "7", "exit_code": 0, "aggregated_output": OUTPUT}


def polled(first: str, second: str, chars: str = "", record: dict[str, Any] | None = COMMAND) -> Sample:
    """A command that is polled, or gets some input, while it runs."""
    sent = json.dumps({"session_id": 7, "chars": chars})
    return rollout(
        item("function_call", name="exec_command", arguments='{"cmd": "x"}', call_id="c"),
        item("function_call_output", call_id="c", output=RUNNING + first),
        item("function_call", name="write_stdin", arguments=sent, call_id="p"),
        item("function_call_output", call_id="p", output=ENDED + second),
        *([("event_msg", record)] if record else []),
    )


@pytest.mark.parametrize(("first", "second"), [(OUTPUT[:14], OUTPUT[14:]), ("", OUTPUT), (OUTPUT, "")])
def test_outputs_of_polls_that_are_the_recorded_one_together_are_linked_and_not_cut(first: str, second: str) -> None:
    sample = polled(first, second)
    assert [call.call for call in sample.calls] == ["c"]
    halves = joined_halves(sample, "c")
    assert (halves.reading.is_cut_unknown, halves.is_cut, [cut.cut.is_whole for cut in halves.outputs]) == (
        False,
        False,
        [True],
    )
    assert halves.receipt is not None
    assert "".join(segment.text for segment in halves.receipt.segments if segment.source) == f"7{first}0{second}"


@pytest.mark.parametrize("second", [OUTPUT[21:], "another line\n"])
def test_it_is_not_known_what_is_cut_where_polls_do_not_have_all_of_the_output(second: str) -> None:
    halves = joined_halves(polled(OUTPUT[:14], second), "c")
    assert (halves.reading.is_cut_unknown, halves.is_cut, halves.outputs) == (True, False, ())


def test_without_a_record_the_last_poll_tells_the_end() -> None:
    halves = joined_halves(polled("line 0\n", "line 1\n", record=None), "c")
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["exit_status"], result["combined_output_preview"]) == (0, "line 0\nline 1\n")
    assert halves.reading.fidelity == "parsed_from_receipt"


def test_what_is_sent_to_a_session_is_a_call_that_its_record_answers_too() -> None:
    sample = polled(OUTPUT[:14], OUTPUT[14:], chars="y\n")
    assert [(call.call, json.loads(call.args)) for call in sample.calls][1] == ("p", {"session_id": 7, "chars": "y\n"})
    assert {call: json.loads(result.result or b"") for call, result in sample.results.items()} == {
        "c": COMMAND,
        "p": COMMAND,
    }
    (event,) = (record for record in only(EventRecord, sample.records) if record.kind == "input")
    assert (event.call, event.message) == ("c", "input by p, which reports its end")


def test_the_summary_of_an_input_that_reports_the_end_is_of_its_own_output() -> None:
    record = {**COMMAND, "exit_code": 3, "aggregated_output": f"{OUTPUT}bye\n"}
    end = ENDED.replace("code 0", "code 3")
    halves = read_halves(
        agent="codex",
        tool="write_stdin",
        args=b'{"session_id": 7, "chars": "exit\\n"}',
        result=json.dumps(record).encode(),
        content=json.dumps(f"{end}bye\n").encode(),
        is_error=None,
    )
    assert halves.projection.canonical.summary_text == "exit 3: bye"


def test_a_poll_of_a_session_that_no_receipt_names_is_a_call_of_its_own() -> None:
    sample = rollout(
        item("function_call", name="write_stdin", arguments='{"session_id": 9, "chars": ""}', call_id="p"),
        item("function_call_output", call_id="p", output=ENDED),
    )
    assert [call.call for call in sample.calls] == ["p"]
    assert not any(receipt.is_further for receipt in only(ReceiptRecord, sample.records))


def test_a_poll_of_a_session_that_has_ended_is_a_call_of_its_own() -> None:
    late = '{"session_id": 7, "chars": ""}'
    sample = rollout(
        item("function_call", name="exec_command", arguments='{"cmd": "x"}', call_id="c"),
        item("function_call_output", call_id="c", output=RUNNING),
        item("function_call", name="write_stdin", arguments=late, call_id="p"),
        item("function_call_output", call_id="p", output=ENDED + OUTPUT),
        item("function_call", name="write_stdin", arguments=late, call_id="q"),
        item("function_call_output", call_id="q", output="write_stdin failed: Unknown process id 7"),
    )
    assert [call.call for call in sample.calls] == ["c", "q"]
    receipts = only(ReceiptRecord, sample.records)
    assert [(receipt.call, receipt.is_further) for receipt in receipts] == [("c", False), ("c", True), ("q", False)]


def test_bare_items_of_early_releases_are_read() -> None:
    lines = [
        {"id": "0a", "timestamp": "2025-05-01T10:00:00Z", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list it"}]},
        {"record_type": "state"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_1"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": '{"output":"a\\nb\\n","metadata":{"exit_code":2,"duration_seconds":0.1}}',
        },
    ]
    sample = read_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "rollout-b.jsonl")
    assert sample.format.name == "codex"
    assert [call.run for call in sample.calls] == ["0a"]
    halves = next(sample.halves())
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["exit_status"], result["combined_output_preview"]) == (2, "a\nb\n")
    assert halves.reading.fidelity == "parsed_from_receipt"


def test_items_of_a_paginated_history_are_results_of_their_calls() -> None:
    command = {
        "type": "CommandExecution",
        "id": "c",
        "status": "failed",
        "exit_code": 1,
        "aggregated_output": "no such file or directory\n",
    }
    sample = rollout(
        item("function_call", name="exec_command", arguments='{"cmd": "cat x"}', call_id="c"),
        event("item_completed", turn_id="t", item=command, started_at_ms=1_000, completed_at_ms=1_250),
        item(
            "function_call_output",
            call_id="c",
            output="Exit code: 1\nWall time: 0.2 seconds\nOutput:\nno such file or directory\n",
        ),
    )
    (result,) = sample.results.values()
    assert (result.is_error, result.duration_ms) == (True, 250)
    (halves,) = sample.halves()
    assert halves.projection.canonical.status == "success"  # a non-zero exit is a verdict
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == [
        "1",
        "no such file or directory\n",
    ]


def test_what_a_program_of_code_mode_runs_is_an_event_of_the_one_open_call() -> None:
    nested = {"type": "CommandExecution", "id": "exec-1", "status": "completed", "exit_code": 0}
    alone = rollout(
        item("custom_tool_call", name="exec", input="await tools.exec_command({cmd: 'ls'})", call_id="outer"),
        event("item_completed", item=nested),
        item("custom_tool_call_output", call_id="outer", output=[{"type": "input_text", "text": "done"}]),
        event("item_completed", item=nested),
    )
    assert [record.call for record in only(EventRecord, alone.records)] == ["outer", None]
    assert not alone.results
    two = rollout(
        item("custom_tool_call", name="exec", input="1", call_id="a"),
        item("custom_tool_call", name="exec", input="2", call_id="b"),
        event("item_completed", item=nested),
    )
    assert [record.call for record in only(EventRecord, two.records)] == [None]


def test_calls_of_servers_have_the_servers_own_result() -> None:
    end = {"invocation": {"server": "s", "tool": "t"}, "duration": {"secs": 1, "nanos": 5_000_000}}
    sample = rollout(
        item("function_call", name="t", namespace="mcp__s__", arguments="{}", call_id="good"),
        event("mcp_tool_call_end", call_id="good", result={"Ok": {"content": [{"type": "text", "text": "x"}]}}, **end),
        item("function_call", name="t", namespace="mcp__s__", arguments="{}", call_id="bad"),
        event("mcp_tool_call_end", call_id="bad", result={"Err": "no server"}, **end),
    )
    assert [call.tool for call in sample.calls] == ["mcp__s__t", "mcp__s__t"]
    good, bad = sample.results["good"], sample.results["bad"]
    assert (good.is_error, good.duration_ms) == (False, 1005)
    assert json.loads(good.result or b"") == {"content": [{"type": "text", "text": "x"}]}
    assert (bad.is_error, bad.result) == (True, b'"no server"')


def test_a_subagent_knows_its_parent_and_which_lines_it_copied() -> None:
    meta = {
        "id": "child",
        "source": {"subagent": {"thread_spawn": {"parent_thread_id": "parent"}}},
        "subagent_history_start_ordinal": 3,
    }
    sample = rollout(
        ("session_meta", meta),
        ("session_meta", {"id": "parent"}),
        item("function_call", name="exec_command", arguments="{}", call_id="old"),
        item("function_call", name="exec_command", arguments="{}", call_id="new"),
    )
    assert only(RunRecord, sample.records)[0].parent_run == "parent"
    assert [(call.run, call.inherited) for call in sample.calls] == [("child", True), ("child", False)]


def test_ids_are_global_only_where_the_provider_drew_them() -> None:
    assert is_global_call_id("call_Y2p6KmqwoTtpi6atpDPuxC5M")
    assert not any(is_global_call_id(call) for call in ("call_0", "1", "exec-call_Y2p6KmqwoTtpi6atpDPuxC5M"))


@pytest.mark.parametrize("printed", ["line 0\n", "…12 chars truncated…\n"])
def test_both_sides_may_lack_the_middle_of_an_output(printed: str) -> None:
    output = printed + "".join(f"line {number}\n" for number in range(1, 3_000))
    recorded = output[:5_000] + f"…{len(output) - 10_000} chars truncated…" + output[-5_000:]
    receipt = f"Exit code: 0\nWall time: 1 seconds\nOutput:\nTotal output lines: 3000\n\n{output[:3_000]}"
    receipt += f"…4000 tokens truncated…{output[-6_000:]}"
    result = {"exit_code": 0, "aggregated_output": recorded, "stdout": "", "stderr": ""}
    halves = read_halves(
        agent="codex",
        tool="shell",
        args=b"{}",
        result=json.dumps(result).encode(),
        content=json.dumps(receipt).encode(),
        is_error=False,
    )
    assert halves.reading.fidelity == "bounded"
    assert halves.receipt is not None
    linked = [segment.text for segment in halves.receipt.segments if segment.source]
    assert linked == ["0", output[:3_000], output[-5_000:]]
    assert halves.is_cut


def test_a_receipt_with_more_than_the_record_is_not_cut() -> None:
    output = "".join(f"line {number}\n" for number in range(1_500))
    recorded = output[:5_000] + f"…{len(output) - 10_000} chars truncated…" + output[-5_000:]
    result = json.dumps({"exit_code": 0, "aggregated_output": recorded, "stdout": "", "stderr": ""}).encode()
    for text, is_cut in ((output, False), (output[:-1] + "!", True)):
        receipt = json.dumps(f"Process exited with code 0\nOutput:\n{text}").encode()
        halves = read_halves(
            agent="codex", tool="write_stdin", args=b"{}", result=result, content=receipt, is_error=False
        )
        assert (halves.reading.fidelity, halves.is_cut) == ("bounded", is_cut)
        assert halves.reading.is_cut_unknown is not is_cut


def test_damaged_lines_are_named_and_the_others_are_read() -> None:
    raw = (
        b'{"timestamp":"2026-05-01T10:00:00Z","type":"session_meta","payload":{"id":"r"}}\n'
        b'{"type":"response_item","payload":7}\n'
        b'{"type":"response_item","payload":{"type":"function_call","name":"shell"}}\n'
        b'{"type":"response_item","payload":{"type":"function_call","name":"shell","call_id":"c"}}\n'
        b'{"type":"response_item","pay'
    )
    sample = read_bytes(raw, "rollout-c.jsonl")
    assert [(problem.line, problem.path) for problem in sample.problems][:2] == [
        (2, "$.payload"),
        (3, "$.payload.call_id"),
    ]
    assert sample.problems[-1].line == 5
    assert [call.call for call in only(CallRecord, sample.records)] == ["c"]


def test_a_local_shell_call_is_a_command() -> None:
    action = {"type": "exec", "command": ["bash", "-lc", "ls"], "working_directory": "/srv"}
    sample = rollout(
        item("local_shell_call", call_id="c", status="completed", action=action),
        item("function_call_output", call_id="c", output='{"output":"a\n","metadata":{"exit_code":0}}'),
    )
    assert [(call.tool, json.loads(call.args)) for call in sample.calls] == [("local_shell", action)]
    assert next(sample.halves()).family == "command"
