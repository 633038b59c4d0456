"""Sessions of pi: what it sent to its model is the receipt, both halves are right, and what left the context."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from envelopes.recordings.base import (
    ArtifactRecord,
    EventRecord,
    MessageRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

NEWEST, OLDER, OLDEST = "releases/pi_1.6.0.jsonl", "releases/pi_0.73.1.jsonl", "releases/pi_0.30.2.jsonl"
BRANCHES = "releases/pi_1.6.0_branches.jsonl"
SAMPLES = {path: read_sample(path) for path in (NEWEST, OLDER, OLDEST)}
HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-11-01T10:00:00Z", "cwd": "/srv"}
each_sample = pytest.mark.parametrize("path", SAMPLES)


def entry(key: str, parent: str | None, kind: str = "message", **members: Any) -> dict[str, Any]:
    return {"type": kind, "id": key, "parentId": parent, "timestamp": "2026-11-01T10:00:01Z", **members}


def user(key: str, parent: str | None) -> dict[str, Any]:
    return entry(key, parent, message={"role": "user", "content": f"text {key}"})


def asked(key: str, parent: str | None, *calls: str, tool: str = "bash", **members: Any) -> dict[str, Any]:
    arguments = members.pop("arguments", {"command": "ls", "path": "f"})
    content = [{"type": "toolCall", "id": call, "name": tool, "arguments": arguments} for call in calls]
    return entry(key, parent, message={"role": "assistant", "content": content, **members})


def answered(key: str, parent: str | None, call: str, text: str, **members: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": False}
    return entry(key, parent, message={**message, **members})


def read_entries(*entries: dict[str, Any], header: dict[str, Any] = HEADER) -> Sample:
    raw = b"".join(json.dumps(one).encode() + b"\n" for one in (header, *entries))
    return read_bytes(raw, "2026-11-01T10-00-00-000Z_s1.jsonl")


def read_answer(text: str, *, tool: str = "bash", arguments: dict[str, Any] | None = None, **members: Any) -> Any:
    """The halves of one call."""
    given = {"arguments": arguments} if arguments is not None else {}
    sample = read_entries(asked("a", None, "c1", tool=tool, **given), answered("b", "a", "c1", text, **members))
    [halves] = sample.halves()
    return halves


@each_sample
def test_receipts_are_what_it_sent(path: str) -> None:
    sent = json.loads((FOLDER / path).with_suffix(".sent.json").read_bytes())
    receipts = {record.call: record for record in only(ReceiptRecord, SAMPLES[path].records)}
    exact = {key: record for key, record in receipts.items() if record.fidelity == "recorded"}
    for key, record in exact.items():
        content = json.loads(record.content)
        text = content if isinstance(content, str) else "\n".join(block["text"] for block in content)
        # The second call with an id has a name of its own.
        assert key not in sent or hashlib.sha256(text.encode()).hexdigest() == sent[key], key
    assert len(exact.keys() & sent.keys()) >= len(sent) - 2
    assert {record.fidelity for record in receipts.values()} == {"recorded", "reconstructed"}
    assert not SAMPLES[path].problems


@each_sample
def test_an_image_and_a_blank_text_may_have_gone_out_in_other_words(path: str) -> None:
    tools = {call.call: call for call in SAMPLES[path].calls}
    rebuilt = [one for one in only(ReceiptRecord, SAMPLES[path].records) if one.fidelity == "reconstructed"]
    assert [json.loads(tools[one.call].args)["path"] for one in rebuilt] == ["img.png", "empty.txt"]


@each_sample
@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("bash", "hello", None),
        ("bash", "exit 3", 3),
        ("bash", "seq 1 2500; exit 2", 2),
        ("bash", "sleep 9", "command_timed_out"),
        ("bash", "{}", "invalid_tool_input"),
        ("read", "missing.txt", "missing_file"),
        ("read", "many.txt", None),
        ("edit", "return 8", "tool_execution_failed"),
        ("edit", "return 3", None),
        ("grep", "absent", None),
        ("ls", "nowhere", "missing_file"),
        ("no_such_tool", "", "unknown_tool"),
    ],
)
def test_each_call_ended_as_it_did(path: str, tool: str, words: str, end: int | str | None) -> None:
    assert SAMPLES[path].ends(tool, words)[:1] == [end]


@each_sample
def test_an_output_that_was_shortened_is_cut_and_no_other(path: str) -> None:
    sample = SAMPLES[path]
    cut = {
        str(next(iter(json.loads(one.args or b"").values())))
        for one, halves in zip(sample.calls, sample.halves(), strict=True)
        if halves.is_cut
    }
    assert cut == {"seq 1 2500", "seq 1 2500; exit 2", "many.txt", "needle"}


@pytest.mark.parametrize(("path", "count"), [(NEWEST, 500), (OLDER, 501), (OLDEST, 501)])
def test_the_end_of_an_output_is_linked_and_the_lines_before_it_are_counted(path: str, count: int) -> None:
    """Up to 0.73 what is behind the last line end counts as a line."""
    sample = SAMPLES[path]
    [halves] = [
        halves
        for one, halves in zip(sample.calls, sample.halves(), strict=True)
        if json.loads(one.args or b"") == {"command": "seq 1 2500"}
    ]
    assert halves.receipt is not None
    linked = {part.source.pointer: part.text for part in halves.receipt.segments if part.source}
    assert linked["/truncation/content"].strip() == "\n".join(map(str, range(count + 1, 2501)))
    [cut] = halves.reading.source_cuts
    assert (cut.unit, cut.count) == ("lines", count)
    [output] = halves.known_outputs
    assert (output.complete.total, output.complete.shown) == (2500, ((count, 2500),))


NOTE = "[Showing lines 87-171 of 171 (50.0KB limit). Full output: undefined]"


@pytest.mark.parametrize(
    ("size", "unit", "count"), [(30_000, "lines", 86), (100_000, "output", None), (150_000, "lines", 86)]
)
def test_lines_are_not_counted_where_a_release_may_have_kept_a_part_of_them(
    size: int, unit: str, count: int | None
) -> None:
    truncation = {"content": "x\n" * 84, "totalBytes": size, "totalLines": 171, "outputLines": 85}
    halves = read_answer("x\n" * 84 + f"\n\n{NOTE}", details={"truncation": truncation})
    [cut] = halves.reading.source_cuts
    assert (cut.unit, cut.count, cut.lines) == (unit, count, 86)
    assert "saved_output" not in halves.projection.canonical.result


@pytest.mark.parametrize(
    ("text", "is_error", "end", "output"),
    [
        ("(no output)", False, None, None),
        ("(no output)\n\nCommand exited with code 1", True, 1, None),
        ("x\n\nCommand exited with code 7", False, None, "x\n\nCommand exited with code 7"),
        ("Command exited with code 7", True, 7, None),
        ("x\n\nCommand aborted", True, "cancelled", None),
        ("Command timed out after 5 seconds. The shell exited with code 0", True, "command_timed_out", None),
        ("Operation aborted", True, "cancelled", None),
        ("Blocked by policy", True, "tool_execution_failed", None),
        ("Tool execution was blocked", True, "denied_by_hook", None),
    ],
)
def test_the_end_of_a_command_is_read_where_it_failed(
    *, text: str, is_error: bool, end: int | str | None, output: str | None
) -> None:
    canonical = read_answer(text, isError=is_error, details={}).projection.canonical
    result = canonical.result or {}
    assert (canonical.error.kind if canonical.error else result["exit_status"]) == end
    assert result.get("combined_output_preview") == output


OWN = "x\n\n[Showing lines 5-9 of 9. Full output: /t]"


@pytest.mark.parametrize(
    ("tool", "arguments", "text", "is_error", "field"),
    [
        ("bash", {"command": "cat f"}, OWN, False, "combined_output_preview"),
        ("bash", {"command": "cat f; exit 1"}, f"{OWN}\n\nCommand exited with code 1", True, "combined_output_preview"),
        ("read", {"path": "f"}, "a\n\n[7 more lines in file. Use offset=2 to continue.]", False, "content_preview"),
        ("grep", {"pattern": "a"}, "f:1: a\n\n[9 matches limit reached]", False, "content"),
    ],
)
def test_a_note_that_was_printed_or_read_is_a_part_of_the_output(
    *, tool: str, arguments: dict[str, Any], text: str, is_error: bool, field: str
) -> None:
    halves = read_answer(text, tool=tool, arguments=arguments, isError=is_error)
    assert halves.projection.canonical.result[field] == text.removesuffix("\n\nCommand exited with code 1")
    assert not halves.is_cut


LINES = " 1 a\n-2 b\n+2 c\n+3 d\n   ...\n 8 e\n-9 f"
PATCH = "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n@@ -8,2 +9,1 @@\n e\n-f\n"


@pytest.mark.parametrize("details", [{"diff": LINES}, {"diff": LINES, "patch": PATCH}])
def test_an_edit_has_the_same_hunks_in_each_release(details: dict[str, str]) -> None:
    halves = read_answer("Successfully replaced 2 block(s) in f.", tool="edit", details=details)
    change = halves.reading.complete.result
    assert [(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) for hunk in change.hunks] == [
        (1, 2, 1, 3),
        (8, 2, 9, 1),
    ]
    assert [line for hunk in change.hunks for line in hunk.lines] == [" a", "-b", "+c", "+d", " e", "-f"]


@pytest.mark.parametrize(
    ("tool", "arguments", "text", "details", "cut"),
    [
        ("read", {"path": "f", "limit": 1}, "a\n\n[7 more lines in file. Use offset=2 to continue.]", None, []),
        ("grep", {"pattern": "a"}, "f:1: a", None, []),
        ("grep", {"pattern": "a"}, "f:1: a\n\n[100 matches limit reached. Use]", {"matchLimitReached": 100}, [None]),
        ("grep", {"pattern": "a", "limit": 1}, "f:1: a\n\n[1 matches limit reached]", {"matchLimitReached": 1}, []),
        ("grep", {"pattern": "a"}, "f:1: a... [truncated]\n\n[Some lines truncated]", {"linesTruncated": True}, [1]),
        ("ls", {}, "a\nb/\n\n[500 entries limit reached. Use]", {"entryLimitReached": 500}, [None]),
    ],
)
def test_a_limit_that_the_call_set_cuts_nothing(
    tool: str, arguments: dict[str, Any], text: str, details: dict[str, Any] | None, cut: list[int | None]
) -> None:
    halves = read_answer(text, tool=tool, arguments=arguments, details=details)
    assert [one.count for one in halves.reading.source_cuts] == cut


def test_calls_with_one_id_are_named_by_their_lines_also_where_lines_are_repeated() -> None:
    lines = [asked("a", None, "c"), answered("b", "a", "c", "one"), asked("d", "b", "c"), answered("e", "d", "c", "2")]
    for entries in (lines, [*lines[:2], lines[0], *lines[2:], lines[3], lines[2], lines[1]]):
        sample = read_entries(*entries)
        receipts = {one.call: json.loads(one.content) for one in only(ReceiptRecord, sample.records)}
        assert [*receipts.values()] == ["one", "2"]
        assert [*receipts] == [*dict.fromkeys(one.call for one in sample.calls)]


def test_a_session_read_in_parts_has_the_same_records() -> None:
    for path in (*SAMPLES, BRANCHES):
        sample = read_sample(path)
        assert read_in_parts(sample.raw, path, 7) == [*sample.records]


def test_an_answer_that_failed_is_not_sent_and_its_calls_are_none() -> None:
    content = [{"type": "text", "text": "begun"}, {"type": "toolCall", "id": "c", "name": "bash", "arguments": {}}]
    sample = read_entries(
        entry("a", None, message={"role": "assistant", "content": content, "stopReason": "aborted"}),
        entry("b", "a", "context_edit", targetId="a", replacement=None),
    )
    [message] = only(MessageRecord, sample.records)
    assert (message.delivery, sample.calls) == ("withheld", [])
    kinds = [event.kind for event in only(EventRecord, sample.records)]
    assert kinds == ["unfinished_call", "answer_failed", "context_edit"]


@pytest.mark.parametrize(
    ("first", "kept", "place"),
    [
        ("b", [3, 4, 5], 5),
        ("e", [5], 5),
        ("elsewhere", None, 4),
    ],
)
def test_a_compaction_keeps_the_lines_from_its_first_one_on(first: str, kept: list[int] | None, place: int) -> None:
    compaction = entry("e", "d", "compaction", summary="all of it", firstKeptEntryId=first)
    sample = read_entries(user("a", None), user("b", "a"), user("d", "b"), compaction)
    [event] = only(EventRecord, sample.records)
    assert event.kind == "partial_compact_boundary"
    assert (json.loads(event.payload).get("kept"), event.place) == (kept, place)
    assert [one.kind for one in only(MessageRecord, sample.records)] == [None, None, None, "compaction summary"]


def test_entries_without_ids_are_counted() -> None:
    lines = [user("a", None), user("b", "a"), entry("c", "b", "compaction", summary="s", firstKeptEntryIndex=2)]
    bare = [{name: value for name, value in one.items() if name not in ("id", "parentId")} for one in lines]
    [event] = only(EventRecord, read_entries(*bare).records)
    assert json.loads(event.payload) == {"kept": [3, 4]}


def rewinds(sample: Sample) -> list[Any]:
    return [json.loads(one.payload) for one in only(EventRecord, sample.records) if one.kind == "rewind"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([user("a", None), user("b", "a"), user("c", "a")], [{"left": [3, 4], "returned": None}]),
        (
            [user("a", None), user("b", "a"), user("c", "a"), user("d", "b")],
            [{"left": [3, 4], "returned": None}, {"left": [4, 5], "returned": [3, 4]}],
        ),
        ([user("a", None), user("b", "a"), user("c", None)], [{"left": [2, 4], "returned": None}]),
        ([user("a", None), user("b", "a"), user("c", "lost")], []),
        (
            [user("a", None), user("b", "a"), user("c", "b"), user("d", "b"), user("e", "a"), user("f", "c")],
            [
                {"left": [4, 5], "returned": None},
                {"left": [3, 6], "returned": [4, 5]},
                {"left": [5, 7], "returned": [3, 6]},
            ],
        ),
    ],
)
def test_lines_on_no_way_to_the_last_one_have_left_the_conversation(
    entries: list[dict[str, Any]], expected: list[Any]
) -> None:
    assert rewinds(read_entries(*entries)) == expected


def test_an_edit_of_the_context_replaces_a_receipt_and_takes_a_message_out() -> None:
    sample = read_entries(
        user("u", None),
        asked("a", "u", "c", "d"),
        answered("b", "a", "c", "long"),
        answered("e", "b", "d", "gone"),
        entry("f", "e", "context_edit", targetId="b", replacement={"content": "short"}),
        entry("g", "f", "context_edit", targetId="e", replacement=None),
        entry("h", "g", "context_edit", targetId="u", replacement={"content": "other words"}),
    )
    ends = [(one.call, one.content) for one in only(SupersedeRecord, sample.records)]
    assert ends == [("c", b'"short"'), ("d", None)]
    [event] = [one for one in only(EventRecord, sample.records) if one.kind == "partial_compact_boundary"]
    assert json.loads(event.payload) == {"kept": [3, 4, 5, 6, 7, 8]}
    assert [json.loads(one.content) for one in only(MessageRecord, sample.records)] == ["text u", "other words"]


def test_a_fork_has_copied_calls() -> None:
    header = HEADER | {"timestamp": "2026-11-01T10:00:02Z", "parentSession": "/srv/first.jsonl"}
    later = asked("b", "a", "d") | {"timestamp": "2026-11-01T10:00:03Z"}
    sample = read_entries(asked("a", None, "c"), later, header=header)
    assert [(one.call, one.inherited) for one in sample.calls] == [("c", True), ("d", False)]


def test_the_run_has_its_facts_and_each_answer_its_usage() -> None:
    sample = SAMPLES[NEWEST]
    runs = only(RunRecord, sample.records)
    assert (runs[0].cwd, runs[0].agent) == ("/srv/demo/project", "pi")
    assert [run.model for run in runs if run.model] == ["scripted"]
    assert [run.title for run in runs if run.title] == ["Make a tour.", "A demonstration"]
    usages = only(UsageRecord, sample.records)
    assert len(usages) == len({usage.request for usage in usages}) > len({one.step for one in sample.calls})
    assert all(usage.context_tokens > 1_000 for usage in usages)


def test_messages_of_the_client_are_known() -> None:
    kinds = [(one.role, one.kind, one.delivery) for one in only(MessageRecord, SAMPLES[NEWEST].records)]
    assert kinds[:2] == [("system", "system prompt", "reworded"), ("system", "tool definitions", "reworded")]
    added = [one for one in kinds if one[1] == "meta"]
    assert added == [("user", "meta", "sent"), ("user", "meta", "reworded"), ("user", "meta", "withheld")]


def test_saved_outputs_are_artifacts_and_names_of_a_server_are_no_result() -> None:
    sample = SAMPLES[NEWEST]
    artifacts = {record.call for record in only(ArtifactRecord, sample.records)}
    assert {one.tool for one in sample.calls if one.call in artifacts} == {"bash"}
    answers = [one.call for one in sample.calls if one.tool.startswith("mcp__")]
    assert answers
    results = {record.call: record for record in only(ResultRecord, sample.records)}
    assert all(results[call].result is None and results[call].extra for call in answers)


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"id": "x"}, "$.type"),
        (entry("x", None, message={"role": "toolResult", "content": []}), "$.message.toolCallId"),
        (asked("x", None, ""), "$.message.content[0]"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_others_are_read(bad: dict[str, Any], path: str) -> None:
    sample = read_entries(bad, asked("y", None, "c9"))
    assert [problem.path for problem in sample.problems] == [path]
    assert [one.call for one in sample.calls] == ["c9"]
