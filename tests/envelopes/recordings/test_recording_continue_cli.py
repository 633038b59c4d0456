"""Sessions of the Continue CLI: receipts are what it sent, outcomes true, compactions take out what was before."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from envelopes.recordings import detect_format
from envelopes.recordings.base import (
    COMPACTION,
    EventRecord,
    LineRecord,
    MessageRecord,
    ReceiptRecord,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, FolderFiles, Sample, lines_of, read_bytes
from tests.envelopes.session_lines import only

NAMES = ("1.5.47", "1.5.47-denied", "1.5.47-compact")
each_session = pytest.mark.parametrize("name", NAMES)


def read_session(name: str) -> Sample:
    [path] = (FOLDER / "continue_cli" / name).glob("*-*.json")
    raw, place = path.read_bytes(), SourcePath(path.as_posix(), folder=FolderFiles(path.parent))
    recording = detect_format(raw, place)
    return Sample(path.name, raw, recording, tuple(recording.read(lines_of(raw), place, {})))


SAMPLES = {name: read_session(name) for name in NAMES}
MAIN = SAMPLES["1.5.47"]


def item(role: str, content: Any = "", **fields: Any) -> dict[str, Any]:
    return {"message": {"role": role, "content": content}, "contextItems": [], **fields}


def asked(call: str, output: str | None = None, status: str = "done", tool: str = "Bash") -> dict[str, Any]:
    function = {"name": tool, "arguments": '{"command":"ls"}'}
    state = {"toolCallId": call, "toolCall": {"id": call, "type": "function", "function": function}, "status": status}
    outputs = {} if output is None else {"output": [{"content": output, "name": "Tool Result"}]}
    return item("assistant", call, toolCallStates=[{**state, **outputs}])


def document(*items: dict[str, Any], **fields: Any) -> bytes:
    about = {"sessionId": "s-1", "title": "Untitled Session", "workspaceDirectory": "/srv/demo"}
    return json.dumps({**about, "history": items, **fields}).encode()


def read(*items: dict[str, Any], **fields: Any) -> Sample:
    return read_bytes(document(*items, **fields), "s-1.json")


@each_session
def test_receipts_are_what_it_sent(name: str) -> None:
    sent = json.loads((FOLDER / f"continue_cli/{name}.sent.json").read_bytes())
    receipts = only(ReceiptRecord, SAMPLES[name].records)
    hashes = {record.call: hashlib.sha256(json.loads(record.content).encode()).hexdigest() for record in receipts}
    assert hashes == {call: sent[call] for call in hashes}
    assert len(hashes) == len(SAMPLES[name].calls)
    assert {record.fidelity for record in receipts} == {"recorded"}
    assert not SAMPLES[name].problems
    assert not only(RemarkRecord, SAMPLES[name].records)


@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("Bash", "exit 3", None),  # it printed no error, and its status is not recorded
        ("Bash", "exit 4", 4),
        ("Bash", "sleep 20", "command_timed_out"),
        ("Bash", "{}", "invalid_tool_input"),
        ("Read", "missing.txt", "missing_file"),
        ("Read", "big.txt", "tool_execution_failed"),
        ("Edit", "not there", "context_not_found"),
        ("List", "nowhere", "missing_file"),
        ("Fetch", "none", "tool_execution_failed"),
        ("no_such_tool", "", "unknown_tool"),
        ("CheckBackgroundJob", "bg-1", "tool_execution_failed"),
        ("Checklist", "two", None),
    ],
)
def test_each_call_ended_as_it_did(tool: str, words: str, end: Any) -> None:
    assert MAIN.ends(tool, words) == [end]


def test_a_command_that_was_blocked_was_refused() -> None:
    assert SAMPLES["1.5.47-denied"].ends("Bash", "sudo") == ["write_denied"]


def test_a_long_output_has_lost_its_beginning() -> None:
    cuts = {
        call.args: [(cut.unit, cut.count) for cut in halves.reading.source_cuts]
        for call, halves in zip(MAIN.calls, MAIN.halves(), strict=True)
        if halves.reading.source_cuts
    }
    assert cuts == {b'{"command":"seq 1 3000"}': [("lines", 2001)], b'{"command":"seq 1 800"}': [("lines", 301)]}


@pytest.mark.parametrize(
    ("tool", "receipt", "cut"),
    [
        ("Bash", "(previous 10000 characters truncated)\n\nxx", ("characters", 10_000)),
        ("Bash", "(previous output truncated: 20 lines and 400 characters removed)\n\nxx", ("output", None)),
        ("Fetch", "page\n\n(400 characters truncated)", ("characters", 400)),
        ("Fetch", "page\n\n(400 characters of file content truncated)", ("characters", 400)),
        ("Bash", "page\n\n(400 characters truncated)", None),
        ("Bash", "It says (previous 20 lines truncated)\n\nxx", None),
    ],
)
def test_the_marks_of_cuts_are_those_at_their_places(tool: str, receipt: str, cut: Any) -> None:
    [halves] = read(asked("c1", receipt, tool=tool)).halves()
    assert [(one.unit, one.count) for one in halves.reading.source_cuts] == ([cut] if cut else [])


def test_changes_have_their_difference() -> None:
    halves = dict(zip([(call.tool, call.args) for call in MAIN.calls], MAIN.halves(), strict=True))
    [edit] = [one for (tool, _), one in halves.items() if tool == "Edit" and one.projection.canonical.error is None]
    result = edit.projection.canonical.result
    assert (result["additions"], result["deletions"]) == (1, 1)
    assert result["diff_preview"] == "@@ -1,2 +1,2 @@\n-x = 1\n+x = 3\n y = 2\n"


def test_a_job_in_the_background_is_known_by_its_id() -> None:
    running = {"job_id": "bg-1", "status": "running", "command": "ls", "output": "so far"}
    moved = "Command moved to background. Job ID: bg-1\nOutput so far:\na\nUse CheckBackgroundJob"
    sample = read(
        asked("c1", moved),
        asked("c2", json.dumps(running), tool="CheckBackgroundJob"),
        asked("c3", json.dumps({**running, "status": "completed", "exit_code": 2}), tool="CheckBackgroundJob"),
        asked("c4", "no JSON", tool="CheckBackgroundJob"),
        asked("c5", "{}", tool="CheckBackgroundJob"),
    )
    results = [halves.projection.canonical.result for halves in sample.halves()]
    assert [result["task_handle"]["task_id"] for result in results[:2]] == ["bg-1", "bg-1"]
    assert results[2]["exit_status"] == 2


@each_session
def test_facts_and_usage_of_the_requests(name: str) -> None:
    runs = only(RunRecord, SAMPLES[name].records)
    facts = {field: getattr(run, field) for run in runs for field in ("cwd", "model") if getattr(run, field)}
    assert facts == {"cwd": "/srv/demo/project", "model": "demo-model"}
    assert [run.started_at for run in runs if run.started_at][0].startswith("2026-11-28T")
    assert all(
        usage.context_tokens == json.loads(usage.usage)["prompt_tokens"]
        for usage in only(UsageRecord, SAMPLES[name].records)
    )


def test_tokens_of_anthropics_api_are_counted_apart() -> None:
    details = {"cached_tokens": 60, "cache_read_tokens": 60, "cache_write_tokens": 30}
    answer = item("assistant", "a")
    answer["message"]["usage"] = {"prompt_tokens": 10, "completion_tokens": 7, "prompt_tokens_details": details}
    [usage] = only(UsageRecord, read(answer).records)
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_creation_tokens) == (10, 60, 30)


def test_a_title_that_is_none_is_the_first_words_of_the_person() -> None:
    for title, expected in (("Untitled Session", "Look."), ("Fix it", "Fix it")):
        sample = read(item("user", [{"type": "text", "text": "Look."}]), item("user", "More."), title=title)
        assert [run.title for run in only(RunRecord, sample.records) if run.title] == [expected]


def test_a_call_without_an_output_was_cancelled_once_other_messages_follow() -> None:
    waiting, running = asked("c1", status="generated"), asked("c2", "so far", status="calling")
    assert not only(ReceiptRecord, read(waiting).records)
    assert not only(ReceiptRecord, read(running).records)
    sample = read(waiting, item("user", "Go on."))
    [receipt] = only(ReceiptRecord, sample.records)
    assert (receipt.content, receipt.fidelity) == (b'"Tool cancelled"', "reconstructed")
    [halves] = sample.halves()
    assert halves.projection.canonical.error.kind == "cancelled"


def test_several_outputs_are_joined_and_sessions_of_editors_were_not_checked() -> None:
    several = asked("c1", "a")
    several["toolCallStates"][0]["output"] *= 2
    [receipt] = only(ReceiptRecord, read(several).records)
    assert (receipt.content, receipt.fidelity) == (b'"a\\na"', "reconstructed")
    [receipt] = only(ReceiptRecord, read(asked("c1", "a"), mode="agent").records)
    assert receipt.fidelity == "reconstructed"


def test_a_message_with_files_was_sent_in_other_words_and_thoughts_are_events() -> None:
    attached = {**item("user", "Look."), "contextItems": [{"name": "a.txt", "content": "x"}]}
    sample = read(attached, item("thinking", "Hm."))
    assert [record.delivery for record in only(MessageRecord, sample.records)] == ["reworded"]
    assert [(event.kind, event.message) for event in only(EventRecord, sample.records)] == [("reasoning", "Hm.")]


def test_a_repeated_id_of_a_call_gets_another_name() -> None:
    names = [call.call for call in read(asked("c1", "a"), asked("c1", "b")).calls]
    assert names[0] == "c1"
    assert names[1].startswith("c1-")


def test_what_was_read_keeps_its_place_when_the_session_grows() -> None:
    look = item("user", "Look.")
    items = [look, asked("c1", "a"), item("assistant", "Done."), look, asked("c2", "b")]
    first, second = read(*items[:2]), read(*items)
    places = [(type(record).__name__, record.position) for record in first.records if isinstance(record, LineRecord)]
    assert (
        places
        == [(type(record).__name__, record.position) for record in second.records if isinstance(record, LineRecord)][
            : len(places)
        ]
    )
    assert str(second.format.name_place(second.calls[1].position or 0)) == "item 5"


def test_what_follows_a_compaction_is_another_run() -> None:
    summary = item("assistant", "We looked.", conversationSummary="We looked.")
    first, second = read(asked("c1", "a")), read(summary, asked("c2", "b"))
    assert {call.run for call in first.calls} == {"s-1"}
    [run] = {call.run for call in second.calls}
    assert run.startswith("s-1/")
    [event] = only(EventRecord, second.records)
    assert event.kind == COMPACTION
    assert event.position < second.calls[0].position
    assert {call.run for call in read(summary, asked("c2", "b"), asked("c3", "c")).calls} == {run}


def test_an_item_that_is_none_is_a_problem_and_the_others_are_read() -> None:
    sample = read({"message": {}, "contextItems": []}, asked("c1", "a"), {"contextItems": [], "toolCallStates": ["x"]})
    assert [problem.path for problem in sample.problems] == ["$.history[0].message", "$.history[2].message"]
    assert len(sample.calls) == 1


def test_errors_are_flagged_by_the_client() -> None:
    flags = {record.call: record.is_error for record in only(ResultRecord, MAIN.records)}
    assert set(flags.values()) == {True}
    assert len(flags) == 11
