"""What leaves the conversation of a Gemini CLI chat, what its client adds, and the files of its subagents."""

from __future__ import annotations

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
)
from tests.envelopes.recordings.samples import Sample, read_bytes, read_in_parts
from tests.envelopes.session_lines import only

PATH = "session-2026-10-05T08-00-5d3c5a2e.jsonl"
CONTEXT = "<session_context>\nToday is Monday.\n- **Workspace Directories:**\n  - /home/ann/shop\n</session_context>"
SNAPSHOT = "<state_snapshot>\nRepair the build\n</state_snapshot>"
MADE_UP = "Got it. Thanks for the additional context!"
MASKED = (
    "<tool_output_masked>\nOutput: one\n\n... [380 lines omitted] ...\n\ntwo\nExit Code: 2\n\n"
    "Output too large. Full output available at: /home/ann/.gemini/tmp/shop/tool-outputs/s/b.txt\n"
    "</tool_output_masked>"
)


def message(key: str, role: str, text: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": key, "type": role, "content": text, "timestamp": "2026-10-05T08:00:10.000Z"} | fields


def part(call: str, output: str) -> dict[str, Any]:
    return {"functionResponse": {"id": call, "name": "run_shell_command", "response": {"output": output}}}


def command(call: str, output: str = "", **fields: Any) -> dict[str, Any]:
    about = {"id": call, "name": "run_shell_command", "args": {"command": "make"}, "status": "success"}
    return about | ({"result": [part(call, output)]} if output else {}) | fields


def history(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"$set": {"messages": list(messages)}}


def chat(*lines: dict[str, Any], path: str = PATH, **header: Any) -> Sample:
    first = {"sessionId": "5d3c5a2e", "projectHash": "p", "kind": "main"} | header
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in (first, *lines))
    sample = read_bytes(raw, path)
    assert not sample.problems
    for size in (1, 2):
        assert read_in_parts(raw, path, size) == list(sample.records)
    return sample


def texts(sample: Sample) -> list[tuple[str, str | None]]:
    """The text and the kind of each message."""
    contents = [(json.loads(record.content), record.kind) for record in only(MessageRecord, sample.records)]
    return [(text if isinstance(text, str) else text[0]["text"], kind) for text, kind in contents]


def compactions(sample: Sample) -> list[tuple[str, int, str]]:
    events = only(EventRecord, sample.records)
    return [(event.kind, event.place, event.message) for event in events if "compact" in event.kind]


WORK = (
    message("u1", "user", "build it"),
    message("g1", "gemini", "I run make."),
    message("g1", "gemini", "I run make.", toolCalls=[command("c1", "Output: one\nExit Code: 2")]),
    message("u2", "user", "continue"),
    message("u3", "user", "continue"),
)
# The same as the client keeps it: texts in parts, the calls and their responses beside them.
COPY = (
    message("u1", "user", content=[{"text": "build it"}]),
    message(
        "g1",
        "gemini",
        content=[{"text": "I run make."}, {"functionCall": {"id": "c1", "name": "run_shell_command"}}],
        toolCalls=[command("c1", MASKED)],
    ),
    message("h1", "user", content=[part("c1", MASKED)]),
    message("h2", "user", content=[{"text": "continue"}]),
    message("u3", "user", content=[{"text": "continue"}]),
)


def test_the_history_of_the_client_adds_its_context_and_repeats_no_message() -> None:
    sample = chat(history(message("h0", "user", CONTEXT)), *WORK, history(*COPY))
    assert texts(sample) == [
        (CONTEXT, "meta"),
        ("build it", None),
        ("I run make.", None),
        ("continue", None),
        ("continue", None),
    ]
    runs = only(RunRecord, sample.records)
    assert [run.cwd for run in runs if run.cwd] == ["/home/ann/shop"]
    assert [run.title for run in runs if run.title] == ["build it"]


def test_a_masked_output_replaces_the_receipt_and_names_its_file() -> None:
    sample = chat(*WORK, history(*COPY))
    (first,) = only(ReceiptRecord, sample.records)
    (later,) = only(SupersedeRecord, sample.records)
    assert (first.line, json.loads(first.content)) == (4, "Output: one\nExit Code: 2")
    assert (later.line, later.reason, json.loads(later.content or b"")) == (7, "content-replacement", MASKED)
    (saved,) = only(ArtifactRecord, sample.records)
    assert (saved.call, saved.path) == ("c1", "/home/ann/.gemini/tmp/shop/tool-outputs/s/b.txt")
    assert not compactions(sample)


def test_a_masked_output_of_a_document_replaced_a_text_that_is_not_recorded() -> None:
    call = command("c1", MASKED)
    document = {"sessionId": "s", "projectHash": "p", "messages": [message("g1", "gemini", toolCalls=[call])]}
    sample = read_bytes(json.dumps(document, indent=1).encode(), "chat.json")
    assert not only(ReceiptRecord, sample.records)
    assert [json.loads(record.content or b"") for record in only(SupersedeRecord, sample.records)] == [MASKED]


@pytest.mark.parametrize(
    ("kept", "kind", "stayed"),
    [
        ((), "compact_boundary", ""),
        ((message("u3", "user", "continue"),), "partial_compact_boundary", ", but for 2 messages that stayed"),
        (COPY[1:3], "partial_compact_boundary", ", but for 1 message and 1 call that stayed"),
    ],
)
def test_a_compression_takes_out_what_the_new_history_lacks(
    kept: tuple[dict[str, Any], ...], kind: str, stayed: str
) -> None:
    summary = (message("h8", "user", SNAPSHOT), message("h9", "gemini", MADE_UP))
    again = history(*summary, *kept, message("g4", "gemini", "Done."))
    sample = chat(*WORK, history(*summary, *kept), message("g4", "gemini", "Done."), again)
    assert compactions(sample) == [(kind, 6, f"the conversation was compacted{stayed}")]
    assert texts(sample)[-3:] == [(SNAPSHOT, "compaction summary"), (MADE_UP, "meta"), ("Done.", None)]
    ended = [record.reason for record in only(SupersedeRecord, sample.records) if record.content is None]
    assert ended == ([] if "call" in stayed else ["compression"])


ANSWER = message("g2", "gemini", "Make failed.", tokens={"input": 900, "output": 20, "cached": 0})
HEADER = {"sessionId": "5d3c5a2e", "projectHash": "p", "kind": "main"}


def test_a_resumed_chat_was_not_compacted() -> None:
    """Its file begins again with the context alone, and has the rest before the next message."""
    first = message("h0", "user", content=[{"text": CONTEXT}])
    again = (HEADER, history(first), {"$set": {"sessionId": "5d3c5a2e"}}, history(first, *COPY, ANSWER))
    sample = chat(history(first), *WORK, ANSWER, *again, message("u5", "user", "go on"))
    assert not compactions(sample)
    assert [record.content for record in only(SupersedeRecord, sample.records)] == [json.dumps(MASKED).encode()]
    repeated = ["build it", "I run make.", "continue", "continue", "Make failed.", "go on"]
    assert [text for text, _ in texts(sample)] == [CONTEXT, *repeated]


@pytest.mark.parametrize(
    "behind",
    [(), (HEADER, {"$set": {"lastUpdated": "2026-10-05T08:00:12.000Z"}}), (message("i1", "info", "Bye."),)],
)
def test_what_a_history_lacks_leaves_with_the_next_message(behind: tuple[dict[str, Any], ...]) -> None:
    before = (*WORK, history(message("h8", "user", SNAPSHOT)), *behind)
    assert not compactions(chat(*before))
    assert not only(SupersedeRecord, chat(*before).records)
    sample = chat(*before, message("u5", "user", "go on"))
    assert compactions(sample) == [("compact_boundary", 6, "the conversation was compacted")]
    (ended,) = only(SupersedeRecord, sample.records)
    assert (ended.call, ended.place, ended.reason) == ("c1", 7, "compression")


def test_a_history_that_is_written_again_line_by_line_masks_receipts_and_repeats_nothing() -> None:
    """Its first two messages are the parts of one, and the responses are in no call."""
    asked = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}}}
    lines = (
        message("n1", "user", content=[{"text": CONTEXT}, {"text": "build it"}]),
        message("n2", "gemini", content=[{"text": "I run make."}, asked], tokens=None),
        message("n3", "user", content=[part("c1", MASKED)]),
        message("n4", "user", content=[{"text": "continue"}, {"text": "continue"}]),
        message("n5", "gemini", content=[{"text": "Make failed."}], tokens=None),
    )
    first = history(message("h0", "user", content=[{"text": CONTEXT}]))
    sample = chat(first, *WORK, ANSWER, *lines, history(*lines), message("u5", "user", "continue"))
    assert not compactions(sample)
    (masked,) = only(SupersedeRecord, sample.records)
    assert (masked.call, masked.line, json.loads(masked.content or b"")) == ("c1", 11, MASKED)
    (saved,) = only(ArtifactRecord, sample.records)
    assert saved.line == 11
    said = ["build it", "I run make.", "continue", "continue", "Make failed.", "continue"]
    assert [text for text, _ in texts(sample)] == [CONTEXT, *said]


@pytest.mark.parametrize("answers", [(), (ANSWER,)])
def test_a_mask_took_the_place_of_a_text_that_the_model_had_where_it_answered_before(answers: Any) -> None:
    call = command("c1", "Output: one\nExit Code: 2")
    asked = message("g1", "gemini", toolCalls=[call], tokens={"input": 900})
    masked = message("h1", "user", content=[part("c1", MASKED)])
    sample = chat(message("u1", "user", "build it"), asked, *answers, masked)
    (later,) = only(SupersedeRecord, sample.records)
    is_later = later.reason == "another text in a later request: masked by the client"
    assert is_later == bool(answers)
    assert is_later or later.reason == "content-replacement"


@pytest.mark.parametrize(("target", "left"), [("u2", [5, 7]), ("g1", [3, 7]), ("unknown", [2, 7])])
def test_what_a_rewind_left_is_in_no_compaction(target: str, left: list[int]) -> None:
    """A rewind to an id that is not there leaves everything, as the client reads its own file."""
    ids = [line["id"] for line in WORK]
    stay = WORK[: ids.index(target)] if target in ids else ()
    sample = chat(
        *WORK, {"$rewindTo": target}, message("u4", "user", "again"), history(*stay, message("u4", "user", "again"))
    )
    (rewind,) = (event for event in only(EventRecord, sample.records) if event.kind == "rewind")
    assert json.loads(rewind.payload)["left"] == left
    assert not compactions(sample)
    assert texts(sample)[-1] == ("again", None)


def test_calls_with_an_id_that_came_before_are_calls_of_their_own() -> None:
    """Of those that a compressed history has, the last ones stayed."""
    outputs = ("Output: a", "Output: b", "Output: c")
    rounds = [
        message(f"g{number}", "gemini", toolCalls=[command("c1", output)]) for number, output in enumerate(outputs)
    ]
    asked = {"functionCall": {"id": "c1", "name": "run_shell_command"}}
    kept = [
        message(f"h{number}", role, content=[content])
        for number, output in enumerate(outputs[1:])
        for role, content in (("gemini", asked), ("user", part("c1", output)))
    ]
    summary = message("h9", "user", SNAPSHOT)
    sample = chat(*rounds, rounds[1], history(summary, *kept), message("u9", "user", "go on"))
    assert [call.call for call in sample.calls] == ["c1", "c1-3", "c1-4", "c1-3"]
    receipts = [(record.call, json.loads(record.content)) for record in only(ReceiptRecord, sample.records)]
    assert receipts == list(zip(("c1", "c1-3", "c1-4"), outputs, strict=True))
    ended = [(record.call, record.reason) for record in only(SupersedeRecord, sample.records)]
    assert ended == [("c1", "compression")]


def test_thoughts_are_events_once() -> None:
    thoughts = [{"subject": "Plan", "description": "Build first.", "timestamp": "2026-10-05T08:00:09.000Z"}]
    more = [*thoughts, {"subject": "", "description": "Then test."}]
    sample = chat(
        message("g1", "gemini", "a", thoughts=thoughts),
        message("g1", "gemini", "a", thoughts=more),
        history(message("g1", "gemini", "a", thoughts=more)),
    )
    events = only(EventRecord, sample.records)
    assert [(event.kind, event.message, event.line) for event in events] == [
        ("reasoning", "Plan", 2),
        ("reasoning", "Then test.", 3),
    ]


def test_a_subagent_has_a_run_below_that_of_the_call() -> None:
    call = command("c1", "Subagent 'scout' finished.", name="invoke_agent", agentId="k3x9qa")
    parent = chat(message("g1", "gemini", toolCalls=[call]))
    (result,) = only(ResultRecord, parent.records)
    header = {"sessionId": "k3x9qa", "kind": "subagent"}
    child = chat(message("u1", "user", "look"), path="/x/chats/5d3c5a2e/k3x9qa.jsonl", **header)
    first = only(RunRecord, child.records)[0]
    assert (first.run, first.parent_run) == (result.child_run, "5d3c5a2e") == ("5d3c5a2e/k3x9qa", "5d3c5a2e")
    bare = chat(message("u1", "user", "look"), path="k3x9qa.jsonl", **header)
    assert {(run.run, run.parent_run) for run in only(RunRecord, bare.records)} == {("k3x9qa", None)}


@pytest.mark.parametrize(
    ("call", "began"),
    [
        ("run_shell_command-1759651210000-1f3a", "2025-10-05T08:00:10+00:00"),
        ("run_shell_command_1759651210000_0", "2025-10-05T08:00:10+00:00"),
        ("run_shell_command__run_shell_command_1759651210000_0", "2025-10-05T08:00:10+00:00"),
        ("read_file__run_shell_command_1759651210000_0", None),
        ("run_shell_command__call_37515", None),
    ],
)
def test_the_beginning_of_a_call_is_in_its_id(call: str, began: str | None) -> None:
    (record,) = chat(message("g1", "gemini", toolCalls=[command(call, "Output: a")])).calls
    assert record.at == began
