"""Sessions of Kimi Code: receipts are what it sent, both halves are right, and what left the context."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.recordings import kimi_code
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, lines_of, read_folder
from tests.envelopes.session_lines import only

[FORMAT] = kimi_code.FORMATS
RELEASES = ("0.10.0", "0.30.0", "2.1.0")
SAMPLES: dict[str, list[Sample]] = {
    release: [read_folder(folder) for folder in sorted((FOLDER / "kimi_code" / release).iterdir())]
    for release in RELEASES
}
NEWEST = max(SAMPLES["2.1.0"], key=lambda sample: len(sample.calls))
REFUSED = min(SAMPLES["2.1.0"], key=lambda sample: len(sample.calls))
PATH = SourcePath("/srv/session_1/agents/main/wire.jsonl")
each_release = pytest.mark.parametrize("release", RELEASES)
BEGIN = {"type": "metadata", "protocol_version": "1.5", "created_at": 1795868304784}


def loop(kind: str, **event: Any) -> dict[str, Any]:
    return {"type": "context.append_loop_event", "event": {"type": kind, **event}, "time": 1795868305035}


def asked(*calls: str, tool: str = "Bash", **args: Any) -> list[dict[str, Any]]:
    return [loop("tool.call", toolCallId=call, name=tool, args=args or {"command": "ls"}) for call in calls]


def answered(call: str, output: Any = "a", **result: Any) -> dict[str, Any]:
    return loop("tool.result", toolCallId=call, result={"output": output, **result})


def step(*calls: str) -> list[dict[str, Any]]:
    """A whole step, in which each call is answered by its id."""
    return [loop("step.begin"), *asked(*calls), *(answered(call, call) for call in calls), loop("step.end")]


def user(text: str, **origin: Any) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "origin": {"kind": "user"} | origin}
    return {"type": "context.append_message", "message": message, "time": 1795868304854}


def injection(text: str) -> dict[str, Any]:
    return user(text, kind="injection")


def read_lines(*lines: dict[str, Any], path: SourcePath = PATH) -> list[Record | LineProblem]:
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return list(FORMAT.read(lines_of(raw), path, {}))


def read_result(output: Any, *, tool: str = "Bash", args: Any = None, **result: Any) -> Halves:
    recorded = {"output": output, **result}
    return read_halves(
        agent="kimi-code",
        tool=tool,
        args=json.dumps(args or {"command": "ls"}).encode(),
        result=json.dumps(recorded).encode(),
        content=kimi_code.render_receipt(tool, recorded),
        is_error=bool(result.get("isError")),
    )


@each_release
def test_receipts_are_what_it_sent(release: str) -> None:
    sent = json.loads((FOLDER / "kimi_code" / f"{release}.sent.json").read_bytes())
    hashes = {}
    for sample in SAMPLES[release]:
        for record in only(ReceiptRecord, sample.records):
            content = json.loads(record.content)
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            hashes[record.call] = hashlib.sha256(text.encode()).hexdigest()
            assert record.fidelity == "reconstructed"
        assert not sample.problems
        assert not only(RemarkRecord, sample.records)
    assert {call: hashes[call] for call in sent} == sent
    assert len(hashes) - len(sent) == (release == "0.30.0")  # it sent a note in place of an image


@pytest.mark.parametrize(
    ("tool", "words", "ends"),
    [
        ("Bash", "exit 3", [3]),
        ("Bash", "echo err", [1]),
        ("Bash", "sleep 20", [None]),
        ("Bash", "echo hello", [0]),
        ("Bash", '"cmd"', ["invalid_tool_input"]),
        ("Read", "missing.txt", ["missing_file"]),
        ("Read", '"line_offset": 2}', [None]),
        ("Edit", "not there", ["context_not_found"]),
        ("Edit", "words", [None]),
        ("Write", "inplan", ["write_denied"]),
        ("no_such_tool", "", ["unknown_tool"]),
        ("FetchURL", ":9/", ["network_failed"]),
        ("TaskOutput", "nope", ["tool_execution_failed"]),
        ("mcp__demo__fail", "", ["tool_execution_failed"]),
        ("AskUserQuestion", "", ["write_denied"]),
    ],
)
def test_calls_end_as_their_results_state(tool: str, words: str, ends: list[Any]) -> None:
    assert NEWEST.ends(tool, words) == ends


def test_calls_that_a_person_refused_are_refused() -> None:
    halves = [read.projection.canonical.error for read in REFUSED.halves()]
    assert {error.kind if error else None for error in halves} == {"write_denied"}
    events = [event for event in only(EventRecord, REFUSED.records) if event.kind.startswith("permission")]
    assert len(events) == len(REFUSED.calls)
    assert all(event.call and event.level == "warn" for event in events)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("part\nInterrupted by user", "cancelled"),
        ("Command killed by timeout (2s)", "command_timed_out"),
        ('Tool "Bash" was denied by permission rule. Reason: not here', "write_denied"),
        ('Tool "Bash" was not run because the approval request was cancelled.', "cancelled"),
        ("Blocked by PreToolUse hook", "denied_by_hook"),
    ],
)
def test_sentences_of_failures_have_their_kinds(output: str, kind: str) -> None:
    error = read_result(output, isError=True).projection.canonical.error
    assert error is not None
    assert error.kind == kind


@pytest.mark.parametrize(
    ("tool", "result", "sent"),
    [
        ("Bash", {"output": "a\n", "durationMs": 17}, "Wall time: 0.017 seconds\na\n"),
        ("Read", {"output": "1\ta", "note": "<system>Read.</system>", "durationMs": 3}, "1\ta\n<system>Read.</system>"),
        ("Bash", {"output": ""}, "<system>Tool output is empty.</system>"),
        ("Bash", {"output": "no", "isError": True}, "<system>ERROR: Tool execution failed.</system>\nno"),
        (
            "mcp__a__b",
            {"output": [], "durationMs": 0},
            "Wall time: 0.000 seconds\n<system>Tool output is empty.</system>",
        ),
    ],
)
def test_a_receipt_is_computed_from_its_result(tool: str, result: dict[str, Any], sent: str) -> None:
    content = kimi_code.render_receipt(tool, result)
    assert content is not None
    assert json.loads(content) == sent


SAVED = "Tool output exceeded 50000 characters; the full output was saved to a file.\noutput_path: /t\n\n"
CUT = f"{SAVED}[preview: chars [0, 8)]\none\ntwo\n\n[elided: chars [8, 9000)]\n\n[preview: chars [9000, 9004)]\nend\n"


@pytest.mark.parametrize(
    ("tool", "output", "note", "cuts"),
    [
        ("Bash", CUT, None, [("output", None, False)]),
        ("mcp__demo__long", CUT, None, [("output", None, False)]),
        ("Bash", "an [elided: chars of its own\n", None, []),
        (
            "Read",
            "1\ta\n2\tb",
            "2 lines read from file starting from line 1. Total lines in file: 9.",
            [("lines", 7, True)],
        ),
        (
            "Read",
            "1\ta",
            "1 line read from file starting from line 1. Total lines in file: 9. Requested range complete.",
            [],
        ),
        (
            "Grep",
            "a\nb\nResults truncated to 2 lines (total: 9). Use offset=2 to see more.",
            None,
            [("files", 7, True)],
        ),
        ("Glob", "a\nb\nShowing matches 1–2 of 9.", None, [("files", 7, True)]),
    ],
)
def test_what_the_client_cut_is_a_cut(tool: str, output: str, note: str | None, cuts: list[Any]) -> None:
    given = {} if note is None else {"note": f"<system>{note}</system>"}
    halves = read_result(output, tool=tool, args={"path": "f"}, **given)
    assert [(cut.unit, cut.count, cut.is_limit) for cut in halves.reading.source_cuts] == cuts


def test_the_file_of_a_long_output_is_an_artifact_and_no_other_path() -> None:
    saved = CUT.replace("output_path: /t", "tool_name: Bash\noutput_path: /srv/out.txt\nnext_step: Read it.")
    early = (
        "x[...truncated]\nDone.\n\n[Full output saved]\ntask_id: bash-1\noutput_path: /srv/log.txt\nnext_step: Read."
    )
    lines = [BEGIN, loop("step.begin"), *asked("c1", "c2", "c3"), answered("c1", saved), answered("c2", early)]
    records = read_lines(*lines, answered("c3", "output_path: /srv/other.txt\n"))
    assert [record.path for record in only(ArtifactRecord, records)] == ["/srv/out.txt", "/srv/log.txt"]


def test_a_reminder_about_repeated_calls_is_no_output() -> None:
    reminder = "\n\n<system-reminder>\nThe same tool call has been repeated several times.\n</system-reminder>"
    halves = read_result(f"same\n{reminder}")
    assert halves.projection.canonical.result["combined_output_preview"] == "same\n"
    assert halves.receipt is not None
    assert halves.receipt.text.endswith("</system-reminder>")


def test_each_request_has_its_usage_but_that_of_a_compaction() -> None:
    usage = only(UsageRecord, [record for record in NEWEST.records if getattr(record, "run", "") == NEWEST.path])
    assert {record.output_tokens for record in usage} == {20}
    requests = {call.step for call in NEWEST.calls if call.run == NEWEST.path}
    assert requests <= {record.request for record in usage}


@each_release
def test_a_subagent_is_a_run_below_its_call(release: str) -> None:
    [sample] = [one for one in SAMPLES[release] if any(call.tool == "Agent" for call in one.calls)]
    runs = {record.run: record for record in only(RunRecord, sample.records) if record.parent_call}
    [call] = [call for call in sample.calls if call.tool == "Agent" and b"hello" in (call.args or b"")]
    child = runs[f"{sample.path}/agent-0"]
    assert (child.parent_run, child.parent_call) == (sample.path, call.call)
    assert [one.tool for one in sample.calls if one.run == child.run] == ["Bash", "Read"]


def test_a_compaction_keeps_what_a_person_wrote() -> None:
    lines = [BEGIN, user("one"), injection("note"), *step("c1")]
    summary = {"type": "context.apply_compaction", "contextSummary": "short", "compactedCount": 4}
    records = read_lines(*lines, summary | {"keptUserMessageCount": 1}, user("two"), *step("c2"))
    [event] = [event for event in only(EventRecord, records) if event.kind == PARTIAL_COMPACTION]
    place = len(lines) + 1
    assert json.loads(event.payload) == {"kept": [2, place]}
    kinds = [(record.kind, record.line) for record in only(MessageRecord, records)]
    assert kinds == [(None, 2), (META, 3), (COMPACTION_SUMMARY, place), (None, place + 1)]


def test_a_compaction_of_early_releases_keeps_the_end() -> None:
    lines = [BEGIN, user("one"), *step("c1"), *step("c2")]
    summary = {"type": "context.apply_compaction", "summary": "short", "compactedCount": 3}
    [event] = only(EventRecord, read_lines(*lines, summary))
    assert json.loads(event.payload) == {"kept": [7, 8, 9, 10, 11]}
    [all_left] = only(EventRecord, read_lines(*lines, summary | {"compactedCount": 9}))
    assert (all_left.kind, all_left.position) == (COMPACTION, 10)


def test_messages_that_were_taken_back_leave_with_all_behind_them() -> None:
    lines = [BEGIN, user("one"), *step("c1"), user("two"), *step("c2"), injection("note")]
    records = read_lines(*lines, {"type": "context.undo", "count": 1}, user("three"))
    [event] = only(EventRecord, records)
    assert (event.kind, json.loads(event.payload)["left"]) == (REWIND, [7, 13])
    records = read_lines(*lines, {"type": "agent.switched"}, {"type": "context.undo", "count": 1})
    assert [json.loads(event.payload)["left"] for event in only(EventRecord, records)] == [[7, 12]]  # not the note
    records = read_lines(*lines, {"type": "context.undo", "count": 3})
    assert not only(EventRecord, records)
    records = read_lines(*lines, {"type": "context.clear"}, user("three"))
    assert json.loads(only(EventRecord, records)[0].payload)["left"] == [2, 13]


def test_a_message_that_came_before_the_answers_is_placed_behind_them() -> None:
    lines = [BEGIN, loop("step.begin"), *asked("c1", "c2"), user("wait"), answered("c1"), answered("c2")]
    [message] = only(MessageRecord, read_lines(*lines))
    assert (message.line, message.place) == (5, 7)
    lines = [BEGIN, loop("step.begin"), *asked("c1"), user("go on"), loop("step.begin")]
    [message] = only(MessageRecord, read_lines(*lines))
    assert message.place == 4


def test_a_result_behind_the_end_of_its_step_is_in_no_request() -> None:
    lines = [BEGIN, loop("step.begin"), *asked("c1"), loop("step.begin"), answered("c1")]
    records = read_lines(*lines)
    assert not only(ReceiptRecord, records)
    assert len(only(ResultRecord, records)) == 1


def test_an_id_that_comes_again_names_another_call() -> None:
    records = read_lines(BEGIN, *step("Bash:0"), *step("Bash:0"))
    assert [record.call for record in only(CallRecord, records)] == ["Bash:0", "Bash:0-2"]
    assert [record.call for record in only(ReceiptRecord, records)] == ["Bash:0", "Bash:0-2"]


def test_a_file_that_no_folder_names_is_a_problem() -> None:
    [problem] = read_lines(BEGIN, path=SourcePath("wire.jsonl"))
    assert isinstance(problem, LineProblem)


def test_a_session_that_grows_has_the_same_records() -> None:
    path = next((FOLDER / "kimi_code/2.1.0").glob(f"{NEWEST.path}/agents/main/wire.jsonl"))
    raw, state = path.read_bytes(), dict[str, object]()
    lines, records = lines_of(raw), list[Record | LineProblem]()
    while part := list(islice(lines, 7)):
        records += FORMAT.read(iter(part), SourcePath(path.as_posix()), state)
        state = json.loads(json.dumps(state))
    assert records == list(FORMAT.read(lines_of(raw), SourcePath(path.as_posix()), {}))
