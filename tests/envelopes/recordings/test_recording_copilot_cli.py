"""Copilot CLI sessions: what was sent is the receipt or the receipt states that it is not recorded, and what left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from envelopes.families.registry import is_mapped
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    NEW_CONVERSATION,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    MessageRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, Shares, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

NEWER, OLDER = "releases/copilot_cli_1.0.102.jsonl", "releases/copilot_cli_1.0.12.jsonl"
SAMPLES = {path: read_sample(path) for path in (NEWER, OLDER)}
each_release = pytest.mark.parametrize("path", SAMPLES)
EMPTY_VIEW = "\ndiff --git a/f b/f\nindex 0000000..0000000 100644\n--- a/f\n+++ b/f\n@@ -1,0 +1,0 @@\n\n"
NOTHING_LEFT = "The execution of this tool, or a previous tool was interrupted."


def event(kind: str, data: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": "e", "timestamp": "2026-11-28T07:00:00.000Z", "parentId": None, **members}


def asked(*calls: str, tool: str = "bash", **data: Any) -> dict[str, Any]:
    requests = [{"toolCallId": call, "name": tool, "arguments": {"command": "ls"}} for call in calls]
    return event("assistant.message", {"messageId": "m", "content": "", "toolRequests": requests, **data})


def ended(call: str, content: str = "done", **data: Any) -> dict[str, Any]:
    given = {"toolCallId": call, "success": True, "result": {"content": content}, **data}
    return event("tool.execution_complete", given)


def failed(call: str, message: str, code: str = "failure") -> dict[str, Any]:
    error = {"message": message, "code": code}
    return event("tool.execution_complete", {"toolCallId": call, "success": False, "error": error})


START = event("session.start", {"sessionId": "s1", "copilotVersion": "1.0.102", "context": {"cwd": "/srv"}})


def read_events(*events: dict[str, Any]) -> Sample:
    lines = [json.dumps(line) for line in (START, *events)]
    return read_bytes("\n".join(lines).encode() + b"\n", "session-state/s1/events.jsonl")


def digest(content: bytes | None) -> str:
    return hashlib.sha256(json.loads(content or b'""').encode()).hexdigest()[:16]


def sent_requests(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    for request in json.loads((FOLDER / path).with_suffix(".sent.json").read_bytes()):
        yield request["at"], request["results"]


def text_at(sample: Sample, call: str, at: str) -> ReceiptRecord | SupersedeRecord:
    """The text of a call that a request at this time has."""
    records: list[ReceiptRecord | SupersedeRecord] = [
        *only(ReceiptRecord, sample.records),
        *only(SupersedeRecord, sample.records),
    ]
    return [record for record in records if record.call == call and (record.at or "") <= at][-1]


def calls_at(sample: Sample, run: str, at: str) -> set[str]:
    """The calls whose receipts a request of this run has at this time."""
    receipts = [one for one in only(ReceiptRecord, sample.records) if one.run == run and one.at <= at]
    for done in only(EventRecord, sample.records):
        if done.kind in (COMPACTION, PARTIAL_COMPACTION) and done.run == run and done.at <= at:
            kept = json.loads(done.payload).get("kept", ())
            receipts = [one for one in receipts if one.line > done.line or one.line in kept]
    return {receipt.call for receipt in receipts}


@each_release
def test_a_receipt_is_what_was_sent_or_states_that_it_is_not_recorded(path: str) -> None:
    sample, states = SAMPLES[path], set()
    for at, results in sent_requests(path):
        for call, sent in results.items():
            text = text_at(sample, call, at)
            is_same = digest(text.content) == sent
            is_recorded = isinstance(text, SupersedeRecord) or text.fidelity == "recorded"
            assert is_same or not is_recorded, call
            states.add((is_recorded, is_same))
    assert states == {(True, True), (False, True), (False, False)}
    assert not sample.problems


@each_release
def test_each_request_has_the_calls_of_its_context(path: str) -> None:
    sample = SAMPLES[path]
    runs = {call.call: call.run for call in sample.calls}
    for at, results in sent_requests(path):
        if results:
            [run] = {runs[call] for call in results}
            assert calls_at(sample, run, at) == results.keys(), at


@each_release
@pytest.mark.parametrize("size", [1, 7])
def test_a_session_that_grows_has_the_same_records(path: str, size: int) -> None:
    assert read_in_parts((FOLDER / path).read_bytes(), path, size) == list(SAMPLES[path].records)


ENDS = [
    ("bash", "exit 3", 3),
    ("bash", "seq 1 9000", 0),
    ("bash", "rm -rf", "write_denied"),
    ("bash", "never", "cancelled"),
    ("view", "missing.txt", "missing_file"),
    ("view", "wrong", "invalid_tool_input"),
    ("view", "[2, 3]", None),
    ("edit", "BETA", None),
    ("edit", "nowhere", "tool_execution_failed"),
    ("grep", "zzz", None),
    ("glob", "log", None),
    ("sql", "SELECT", None),
    ("no_such_tool", "", "unknown_tool"),
    ("demo-fail", "", "tool_execution_failed"),
    ("demo-structured", "", None),
    ("task", "Look around", None),
]


@each_release
@pytest.mark.parametrize(("tool", "words", "end"), ENDS)
def test_each_call_ended_as_it_did(path: str, tool: str, words: str, end: int | str | None) -> None:
    assert SAMPLES[path].ends(tool, words)[:1] == [end]


@each_release
def test_an_output_that_was_shortened_is_cut_and_no_other(path: str) -> None:
    sample = SAMPLES[path]
    cut = {
        json.loads(one.args or b"").get("command") or one.tool: [str(output.complete) for output in halves.outputs]
        for one, halves in zip(sample.calls, sample.halves(), strict=True)
        if halves.is_cut
    }
    assert cut.keys() == {"seq 1 9000", "demo-huge"}
    assert "total=1200, shown=((0, 22),)" in cut["demo-huge"][0]


@each_release
def test_built_in_tools_are_typed_and_repeated_text_is_linked(path: str) -> None:
    sample, shares = SAMPLES[path], Shares()
    shares.add(sample)
    others = {one.tool for one in sample.calls if not is_mapped("copilot-cli", one.tool)}
    assert others == {"no_such_tool", "demo-structured", "demo-fail", "demo-huge", "demo-mixed"}
    assert shares.linked >= 0.95 * shares.repeated > 0
    assert not shares.notes


@each_release
def test_a_subagent_is_a_run_below_its_call(path: str) -> None:
    sample = SAMPLES[path]
    [task] = [one for one in sample.calls if one.tool == "task"]
    [child] = [run for run in only(RunRecord, sample.records) if run.parent_run]
    assert (child.parent_run, child.parent_call, child.run) == (task.run, task.call, f"{task.run}/{task.call}")
    assert [one.tool for one in sample.calls if one.run == child.run] == ["glob"]
    [end] = [one for one in only(ResultRecord, sample.records) if one.child_run]
    assert (end.call, end.child_run) == (task.call, child.run)


def test_the_run_has_its_facts_and_each_request_its_usage() -> None:
    sample = SAMPLES[NEWER]
    run = sample.calls[0].run
    names = ("title", "model", "version", "cwd")
    records = [one for one in only(RunRecord, sample.records) if one.run == run]
    facts = {name: value for one in records for name in names if (value := getattr(one, name))}
    assert facts == {
        "title": "Please look around",
        "model": "gpt-4.1",
        "version": "1.0.102",
        "cwd": "/srv/demo/project",
    }
    usages = only(UsageRecord, sample.records)
    assert len({usage.request for usage in usages}) == len(usages) == len(list(sent_requests(NEWER)))
    messages = only(MessageRecord, sample.records)
    assert {message.kind for message in messages} >= {None, SYSTEM_PROMPT, COMPACTION_SUMMARY}
    assert [one.role for one in only(ArtifactRecord, sample.records)] == ["output", "output"]


def test_a_view_that_sent_nothing_has_no_text_until_the_session_is_resumed() -> None:
    view = ended("c1", EMPTY_VIEW, result={"content": EMPTY_VIEW, "detailedContent": EMPTY_VIEW})
    sample = read_events(asked("c1", tool="view"), view, event("session.resume", {}))
    [receipt], [later] = only(ReceiptRecord, sample.records), only(SupersedeRecord, sample.records)
    assert (json.loads(receipt.content), receipt.fidelity) == ("", "reconstructed")
    assert json.loads(later.content) == EMPTY_VIEW
    [halves] = sample.halves()
    assert halves.projection.canonical.summary_text == "read 0 lines of a file"


def test_a_view_that_left_the_context_gets_no_text_when_the_session_is_resumed() -> None:
    view = ended("c1", result={"content": EMPTY_VIEW, "detailedContent": EMPTY_VIEW})
    start, done = (event(f"session.compaction_{part}", {"success": True}) for part in ("start", "complete"))
    sample = read_events(asked("c1", tool="view"), view, start, done, event("session.resume", {}))
    assert not only(SupersedeRecord, sample.records)


@pytest.mark.parametrize(
    ("code", "message", "stated"),
    [("denied", "Permission denied", "write_denied"), ("failure", "No match found", None)],
)
def test_the_receipt_of_a_failure_is_reconstructed_from_its_message(
    code: str, message: str, stated: str | None
) -> None:
    sample = read_events(asked("c1"), failed("c1", message, code))
    [result], [receipt] = only(ResultRecord, sample.records), only(ReceiptRecord, sample.records)
    assert (result.is_error, result.stated_kind, json.loads(result.result)) == (True, stated, message)
    assert (receipt.fidelity, json.loads(receipt.content)) == ("reconstructed", message)


def test_a_call_without_an_end_is_stopped_when_the_program_ends() -> None:
    sample = read_events(asked("c1"), event("session.shutdown", {}), event("session.resume", {}), ended("c2"))
    [stopped, _] = only(ResultRecord, sample.records)
    assert (stopped.call, stopped.line, stopped.stated_kind) == ("c1", 3, "cancelled")
    [receipt, _] = only(ReceiptRecord, sample.records)
    assert (receipt.line, receipt.fidelity, json.loads(receipt.content)) == (4, "reconstructed", NOTHING_LEFT)


def test_what_came_after_the_start_of_a_compaction_stays() -> None:
    done = event("session.compaction_complete", {"success": True, "summaryContent": "short"})
    sample = read_events(
        asked("c1"), ended("c1"), event("session.compaction_start", {}), asked("c2"), ended("c2"), done
    )
    [compaction] = [one for one in only(EventRecord, sample.records) if one.kind == PARTIAL_COMPACTION]
    assert (compaction.position, json.loads(compaction.payload)) == (6, {"kept": [5, 6]})
    [summary] = only(MessageRecord, sample.records)
    assert (summary.line, summary.kind, summary.delivery) == (7, COMPACTION_SUMMARY, "reworded")


@pytest.mark.parametrize("end", [{"success": False, "error": "no"}, {"success": True, "outcome": "cancelled"}])
def test_a_compaction_that_was_not_applied_removes_nothing(end: dict[str, Any]) -> None:
    sample = read_events(event("session.compaction_start", {}), event("session.compaction_complete", end))
    kinds = [one.kind for one in only(EventRecord, sample.records)]
    assert kinds == ["session.compaction_start", "session.compaction_complete"]


@pytest.mark.parametrize(("text", "delivery"), [("Be kind.", "sent"), ("Another text.", "reworded")])
def test_the_text_of_a_skill_is_a_message_of_the_client(text: str, delivery: str) -> None:
    name = f"sha256:{hashlib.sha256(b'Be kind.').hexdigest()}"
    given = event("skill.context_delivered_ref", {"contentId": name, "prefix": "<skill>", "suffix": "</skill>"})
    sample = read_events(event("skill.invoked", {"name": "manners", "content": text}), given)
    [message] = only(MessageRecord, sample.records)
    assert (message.kind, message.delivery, json.loads(message.content)) == (META, delivery, f"<skill>{text}</skill>")


def test_a_conversation_that_was_cleared_begins_anew() -> None:
    [cleared] = only(EventRecord, read_events(event("session.context_cleared", {"messagesCleared": 3})).records)
    assert cleared.kind == NEW_CONVERSATION


def test_a_call_whose_id_came_before_is_a_call_of_its_own() -> None:
    again = asked("c1") | {"id": "e2"}
    sample = read_events(asked("c1"), ended("c1", "one"), again, ended("c1", "two"), again)
    assert [one.call for one in only(CallRecord, sample.records)] == ["c1", "c1-4", "c1-4"]
    receipts = only(ReceiptRecord, sample.records)
    assert [(one.call, json.loads(one.content)) for one in receipts] == [("c1", "one"), ("c1-4", "two")]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ({"data": {}}, "$.type"),
        (event("tool.execution_complete", {"toolCallId": "c1"}), "$.data"),
        (event("subagent.started", {}), "$.data.toolCallId"),
        (event("assistant.message", {"toolRequests": [{"name": "bash"}]}), "$.data.toolRequests[0]"),
    ],
)
def test_an_event_that_cannot_be_read_is_a_problem(line: dict[str, Any], place: str) -> None:
    sample = read_events(line, ended("c2"))
    assert [problem.path for problem in sample.problems] == [place]
    assert len(only(ReceiptRecord, sample.records)) == 1
