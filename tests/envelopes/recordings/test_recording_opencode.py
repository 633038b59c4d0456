"""OpenCode's exports: what it sent to its model is the receipt, both halves are right, and what left the context."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from envelopes.recordings import UnknownFormat
from envelopes.recordings.base import (
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
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_sample
from tests.envelopes.session_lines import only

PATH, COMPACTED = "releases/opencode_1.18.33.json", "releases/opencode_1.18.33_compacted.json"
SENT: dict[str, str] = json.loads((FOLDER / PATH).with_suffix(".sent.json").read_bytes())
OLDER = "releases/opencode_1.1.65.json"
SAMPLE = read_sample(PATH)
CALLS = dict(zip(SAMPLE.calls, SAMPLE.halves(), strict=True))
START = 1_795_788_000_000
TRUNCATED = (
    "\n\n...7 bytes truncated...\n\nThe tool call succeeded but the output was truncated. "
    "Full output saved to: /t\nUse Grep."
)
LIMITED = "\n\n<bash_metadata>\nbash tool truncated output as it exceeded 30000 char limit\n</bash_metadata>"
HEAD = "<path>/f</path>\n<type>file</type>\n"
MORE = "File has more lines. Use 'offset' parameter to read beyond line 2000"


def call(key: str, at: int, *, tool: str = "bash", **state: Any) -> dict[str, Any]:
    times = {"start": START + at, "end": START + at + 1, **state.pop("time", {})}
    given = {"status": "completed", "input": {"command": "ls"}, "output": key, **state, "time": times}
    return {"type": "tool", "id": f"prt_{key}", "callID": key, "tool": tool, "state": given}


def message(key: str, at: int, *parts: dict[str, Any], role: str = "assistant", **info: Any) -> dict[str, Any]:
    return {"info": {"id": key, "role": role, "time": {"created": START + at}, **info}, "parts": list(parts)}


def read_messages(*messages: dict[str, Any]) -> Sample:
    document = {"info": {"id": "ses_1", "directory": "/srv", "time": {"created": START}}, "messages": list(messages)}
    return read_bytes(json.dumps(document, indent=2).encode(), "export.json")


def test_receipts_are_what_it_sent() -> None:
    receipts = {record.call: record.content for record in only(ReceiptRecord, SAMPLE.records)}
    hashes = {key: hashlib.sha256(json.loads(content).encode()).hexdigest() for key, content in receipts.items()}
    [*earlier, last] = hashes  # the run ended with the last one, before another request
    assert {key: hashes[key] for key in earlier} == SENT
    assert "rejected permission" in receipts[last].decode()
    assert not SAMPLE.problems


@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("bash", "cat a.txt", 0),
        ("bash", "exit 3", 3),
        ("bash", "seq 1 9000", 0),
        ("bash", "echo out", 1),
        ("bash", "sleep 20", "command_timed_out"),
        ("bash", '"cmd"', "invalid_tool_input"),
        ("bash", "rm -rf", "write_denied"),
        ("bash", "curl", "write_denied"),
        ("read", "missing.txt", "missing_file"),
        ("read", "many.txt", None),
        ("edit", "line two", None),
        ("edit", "not there", "tool_execution_failed"),
        ("grep", "nothing here", None),
        ("webfetch", "127.0.0.1:9/", "tool_execution_failed"),
        ("demo_fail", "", "tool_execution_failed"),
        ("invalid", "no_such_tool", "unknown_tool"),
        ("task", "Say hello", None),
    ],
)
def test_each_call_ended_as_it_did(tool: str, words: str, end: int | str | None) -> None:
    assert SAMPLE.ends(tool, words) == [end]


def test_an_output_that_was_shortened_is_cut_and_no_other() -> None:
    cut = {
        str(json.loads(one.args or b"").get(name) or one.tool)
        for one, halves in CALLS.items()
        if halves.is_cut
        for name in [{"bash": "command", "read": "filePath", "grep": "pattern"}.get(one.tool, "")]
    }
    project = "/srv/demo/project"
    assert cut == {"seq 1 9000", f"{project}/many.txt", f"{project}/long.txt", "return 1", "demo_table"}


@pytest.mark.parametrize(
    ("tool", "words", "linked"),
    [
        ("bash", "seq 1 9000", {"/output", "/outputPath"}),
        ("bash", "sleep 20", {"/output"}),
        ("read", '"offset": 100', {"/display/path", "/display/text"}),
        ("read", '"/srv/demo/project"', {"/display/path", *(f"/display/entries/{number}" for number in range(6))}),
        ("grep", "hi there", {"/matches"}),
        ("task", "Say hello", {"/sessionId"}),
    ],
)
def test_receipts_are_linked_with_the_result(tool: str, words: str, linked: set[str]) -> None:
    [halves] = [
        halves for one, halves in CALLS.items() if one.tool == tool and words in json.dumps(json.loads(one.args or b""))
    ]
    assert halves.receipt is not None
    assert {part.source.pointer for part in halves.receipt.segments if part.source} == linked


def test_the_end_of_a_long_output_is_linked_with_the_end_of_what_was_recorded() -> None:
    [halves] = [halves for one, halves in CALLS.items() if b"seq 1 9000" in (one.args or b"")]
    assert halves.receipt is not None
    [output] = [part for part in halves.receipt.segments if part.source and part.source.pointer == "/output"]
    assert output.text == "".join(f"{number}\n" for number in range(7002, 9001))
    assert halves.reading.fidelity == "bounded"


@pytest.mark.parametrize(
    ("recorded", "receipt", "is_cut", "linked"),
    [
        ("...\n\n" + "x" * 30_000, "first\n" + "x" * 30_000, False, 30_000),
        ("...\n\n" + "x" * 30_000, "...output truncated...\n\nFull output saved to: /t\n\nxx", True, 4),
        ("...\n\n1\n", "...\n\n1\n", False, 7),
        ("one\n", "another\n", False, 0),  # whose words these are is not known
        ("(no output)", "(no output)", False, 0),
    ],
)
def test_a_record_may_have_less_of_an_output_than_the_receipt(
    *, recorded: str, receipt: str, is_cut: bool, linked: int
) -> None:
    metadata = {"output": recorded, "exit": 0, "truncated": False, "outputPath": "/t"}
    [halves] = read_messages(message("m", 1, call("c", 1, output=receipt, metadata=metadata))).halves()
    assert halves.receipt is not None
    assert halves.is_cut == is_cut
    assert sum(len(part.text) for part in halves.receipt.segments if part.source) == linked


def test_an_older_release_has_the_same_halves() -> None:
    sample = read_sample(OLDER)
    sent = json.loads((FOLDER / OLDER).with_suffix(".sent.json").read_bytes())
    receipts = {record.call: json.loads(record.content) for record in only(ReceiptRecord, sample.records)}
    assert {key: hashlib.sha256(text.encode()).hexdigest() for key, text in receipts.items()} == sent
    calls = [json.loads(one.args or b"") for one in sample.calls]
    ends = {}
    for given, halves in zip(calls, sample.halves(), strict=True):
        asked = next(
            str(given[name]) for name in ("command", "oldString", "filePath", "pattern", "prompt") if name in given
        )
        canonical, result = halves.projection.canonical, halves.projection.canonical.result
        status = result.get("exit_status") if isinstance(result, dict) else None
        ends[asked.removeprefix("/srv/demo/project")] = (
            canonical.error.kind if canonical.error else status,
            halves.is_cut,
        )
    assert ends == {
        "seq 1 9000": (0, True),
        "exit 3": (3, False),
        "echo begun; sleep 20": ("command_timed_out", False),
        "/a.txt": (None, False),
        "/many.txt": (None, False),  # a part, as it was asked for
        "/long.txt": (None, True),
        "": (None, False),
        "/missing.txt": ("missing_file", False),
        "return 1": (None, True),
        "not there": ("tool_execution_failed", False),
        "Say hello": (None, False),
        "rm -rf new.txt": ("write_denied", False),
    }


@pytest.mark.parametrize(
    ("recorded", "receipt", "is_cut", "linked"),
    [
        ("x" * 30_000 + "\n\n...", "x" * 30_000 + "\nlast", False, 30_000),
        ("x" * 30_000 + "\n\n...", f"xx{TRUNCATED}", True, 4),
        ("1\n\n...", "1\n\n...", False, 6),
        (f"1\n2{LIMITED}", f"1\n2{LIMITED}", True, 3 + len(LIMITED)),
    ],
)
def test_older_releases_recorded_the_beginning_of_an_output(
    *, recorded: str, receipt: str, is_cut: bool, linked: int
) -> None:
    metadata = {"output": recorded, "exit": 0, "outputPath": "/t"}
    [halves] = read_messages(message("m", 1, call("c", 1, output=receipt, metadata=metadata))).halves()
    assert halves.receipt is not None
    assert halves.is_cut == is_cut
    assert sum(len(part.text) for part in halves.receipt.segments if part.source) == linked


@pytest.mark.parametrize(
    ("receipt", "cut", "content"),
    [
        ("<file>\n00001| a\n00002| b\n\n(End of file - total 2 lines)\n</file>", [], "a\nb"),
        (f"<file>\n00001| a\n\n({MORE})\n</file>", [("lines", None)], "a"),
        (f"{HEAD}<content>2: b\n\n(Showing lines 2-2 of 9. Use offset=3.)\n</content>", [("lines", 7)], "b"),
        (f"{HEAD}<content>1: {'x' * 2_000}...\n\n({MORE})\n</content>", [("line ends", 1), ("lines", None)], None),
        ("<path>/f</path>\n<type>directory</type>\n<entries>\na\nb\n\n(2 entries)\n</entries>", [], "a\nb"),
        (f"{HEAD}<entries>\na\n\n(Showing 1 of 7 entries. Use offset.)\n</entries>", [("files", None)], "a"),
        (f"{HEAD}<content>\nno number\n</content>", [], None),
    ],
)
def test_the_lines_of_a_read_are_read_from_the_receipt_where_they_are_not_recorded(
    receipt: str, cut: list[tuple[str, int | None]], content: str | None
) -> None:
    part = call("c", 1, tool="read", input={"filePath": "/f"}, output=receipt, metadata={"preview": "a"})
    [halves] = read_messages(message("m", 1, part)).halves()
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert [(one.unit, one.count) for one in halves.reading.source_cuts] == cut
    assert content is None or result["content_preview"] == content


@pytest.mark.parametrize(
    ("last", "end", "lines"),
    [
        (693, "(Output capped at 50 KB. Showing lines 1-693. Use offset=694 to continue.)", None),
        (693, "(Showing lines 1-693 of 694. Use offset=694 to continue.)", 1),
        (694, "(End of file - total 694 lines)", 0),
    ],
)
def test_a_capped_read_counts_no_lines_that_were_not_read(last: int, end: str, lines: int | None) -> None:
    shown = {"type": "file", "path": "/f", "text": "a\n" * last, "lineStart": 1, "lineEnd": last, "totalLines": 694}
    text = "".join(f"{number}: a\n" for number in range(1, last + 1))
    receipt = f"<path>/f</path>\n<type>file</type>\n<content>\n{text}\n{end}\n</content>"
    part = call("c", 1, tool="read", input={"filePath": "/f"}, output=receipt, metadata={"display": shown})
    [halves] = read_messages(message("m", 1, part)).halves()
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert result["total_lines"] == (None if lines is None else 694)
    assert [cut.count for cut in halves.reading.source_cuts] == ([] if lines == 0 else [lines])


def test_the_run_has_its_facts_and_each_request_its_usage() -> None:
    [first, *others] = only(RunRecord, SAMPLE.records)
    assert (first.title, first.version, first.cwd) == ("A tour", "1.18.33", "/srv/demo/project")
    assert [record.model for record in others] == ["demo-model"]
    usages = only(UsageRecord, SAMPLE.records)
    assert len(usages) == len({one.step for one in SAMPLE.calls})
    assert all(usage.context_tokens > 7_000 for usage in usages)


def test_the_subagent_is_a_run_below_its_call() -> None:
    [task] = [one.call for one in SAMPLE.calls if one.tool == "task"]
    children = {record.call: record.child_run for record in only(ResultRecord, SAMPLE.records) if record.child_run}
    assert [*children] == [task]
    assert children[task] in json.loads(SAMPLE.receipts[task].content)


def test_saved_outputs_are_artifacts_and_attachments_are_events() -> None:
    artifacts = {record.call for record in only(ArtifactRecord, SAMPLE.records)}
    assert {one.tool for one in SAMPLE.calls if one.call in artifacts} == {"bash", "demo_table"}
    [attachment] = [event for event in only(EventRecord, SAMPLE.records) if event.kind == "attachment"]
    assert attachment.message == "image/png was read for the model"
    assert b"pic.png" in next(one.args or b"" for one in SAMPLE.calls if one.call == attachment.call)


def test_a_compaction_keeps_the_messages_from_its_tail_on() -> None:
    sample = read_sample(COMPACTED)
    [event] = [event for event in only(EventRecord, sample.records) if "compact" in event.kind]
    kept = json.loads(event.payload)["kept"]
    calls = [json.loads(one.args or b"")["command"] for one in sample.calls if one.place in kept]
    assert (event.kind, calls) == ("partial_compact_boundary", ["seq 1 1200", "echo after"])
    [summary] = [one for one in only(MessageRecord, sample.records) if one.kind == "compaction summary"]
    assert event.place < summary.place
    assert len(only(UsageRecord, sample.records)) == 10  # the request of the summary had none of the conversation


@pytest.mark.parametrize(
    ("tail", "error", "kind"),
    [("m2", None, "partial_compact_boundary"), ("elsewhere", None, "compact_boundary"), ("m2", {"name": "E"}, "E")],
)
def test_a_compaction_is_known_by_its_summary(tail: str, error: dict[str, Any] | None, kind: str) -> None:
    ask = {"type": "compaction", "id": "prt_ask", "auto": True, "tail_start_id": tail}
    facts = {"summary": True} | ({"error": error} if error else {})
    sample = read_messages(
        message("m1", 1, call("c1", 1)),
        message("m2", 2, call("c2", 2)),
        message("m3", 3, ask, role="user"),
        message("m4", 4, {"type": "text", "id": "prt_s", "text": "summary"}, **facts),
    )
    assert [event.kind for event in only(EventRecord, sample.records)] == [kind]


def test_an_output_that_was_cleared_leaves_before_the_next_message() -> None:
    sample = read_messages(
        message("m1", 1, call("c1", 1, time={"compacted": START + 25}), call("c2", 2, time={"compacted": START + 24})),
        message("m2", 20, call("c3", 20)),
        message("m3", 30, call("c4", 30)),
    )
    assert [(one.call, one.content) for one in only(SupersedeRecord, sample.records)] == [("c2", None), ("c1", None)]
    places = {one.call: one.place for one in only(CallRecord, sample.records)}
    [place] = {one.place for one in only(SupersedeRecord, sample.records)}
    assert places["c3"] < place < places["c4"]


def test_texts_of_the_client_are_known_and_texts_that_it_keeps_are_not_sent() -> None:
    texts = [{"type": "text", "id": "a", "text": "hello"}, {"type": "text", "id": "b", "text": "go", "synthetic": True}]
    kept = {"type": "text", "id": "c", "text": "for the person", "ignored": True}
    found = only(MessageRecord, read_messages(message("m", 1, *texts, kept, role="user")).records)
    assert [(one.kind, one.delivery) for one in found] == [(None, "sent"), ("meta", "sent"), (None, "withheld")]


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"info": {"id": "m"}, "parts": []}, "$.messages[0].info.role"),
        (message("m", 1, {"id": "prt"}), "$.messages[0].parts[0].type"),
        (message("m", 1, {"type": "tool", "tool": "bash"}), "$.messages[0].parts[0]"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_others_are_read(bad: dict[str, Any], path: str) -> None:
    sample = read_messages(bad, message("m9", 9, call("c9", 9)))
    assert [problem.path for problem in sample.problems] == [path]
    assert [one.call for one in sample.calls] == ["c9"]


def test_a_call_without_an_end_has_no_receipt() -> None:
    sample = read_messages(message("m", 1, call("c", 1, status="running")))
    assert [one.call for one in sample.calls] == ["c"]
    assert not only(ReceiptRecord, sample.records)
    assert not only(ResultRecord, sample.records)


def test_documents_with_other_members_are_not_recognised() -> None:
    with pytest.raises(UnknownFormat):
        read_bytes(b'{"info": {"id": "x"}, "messages": []}', "export.json")
