"""Documents of Cline that are built from visible values: what is sent of a result, what replaces it, and what left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourcePath,
    SupersedeRecord,
)
from tests.envelopes.recordings.samples import Sample, lines_of
from tests.envelopes.recordings.test_recording_cline import SESSION, TASK, read_files, text_of
from tests.envelopes.session_lines import only


def message(key: str, role: str, *blocks: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"id": key, "role": role, "content": list(blocks), "ts": 1795857600000, **members}


def read(number: int, path: str, text: str) -> list[dict[str, Any]]:
    call = f"c{number}"
    asked = {"type": "tool_use", "id": call, "name": "read_files", "input": {"files": [{"path": path}]}}
    entries = [{"query": path, "result": text, "success": True}]
    result = {"type": "tool_result", "tool_use_id": call, "name": "read_files", "content": entries}
    return [message(f"a{number}", "assistant", asked), message(f"u{number}", "user", result)]


def read_session(messages: list[dict[str, Any]], **beside: Any) -> list[Record | LineProblem]:
    document = {"version": 1, "agent": "lead", "sessionId": "s", "messages": messages}
    files = {"s.messages.json": document, **{name.replace("_", "."): content for name, content in beside.items()}}
    return read_files({name: json.dumps(content).encode() for name, content in files.items()})


def test_a_session_that_has_just_begun_has_no_messages() -> None:
    [run] = read_session([])
    assert isinstance(run, RunRecord)
    assert run.run == "s"


def test_reads_that_are_outdated_are_replaced_once_they_are_many() -> None:
    text = "x" * 8_000
    ask = message("u", "user", {"type": "text", "text": '<user_input mode="act">Go</user_input>'})
    end = message("end", "assistant", {"type": "text", "text": "Done."})
    first = [part for number in range(9) for part in read(number, f"/srv/{number}.txt", text)]
    again = [part for number in range(9) for part in read(9 + number, f"/srv/{number}.txt", text)]
    ends = only(SupersedeRecord, read_session([ask, *first, *again, end]))
    assert [record.call for record in ends] == [f"c{number}" for number in range(9)]
    assert len({record.place // 1_000 for record in ends}) == 1  # 64 KiB are outdated with the ninth of them
    note = '[{"query":"/srv/0.txt","result":"[outdated - see the latest file content]","success":true}]'
    assert text_of(ends[0]) == note
    assert not only(SupersedeRecord, read_session([ask, *first, *again[:-2], end]))


def test_a_read_of_a_part_is_outdated_by_one_of_the_whole_file() -> None:
    text = "x" * 8_000
    parts = [part for number in range(9) for part in read(number, f"/srv/{number}.txt:1-5", text)]
    whole = [part for number in range(9) for part in read(9 + number, f"/srv/{number}.txt", "short")]
    end = message("end", "assistant", {"type": "text", "text": "Done."})
    ends = only(SupersedeRecord, read_session([*parts, *whole, end]))
    assert [record.call for record in ends] == [f"c{number}" for number in range(9)]


def test_what_the_client_did_not_read_of_a_file_is_a_cut_unless_lines_were_asked_for() -> None:
    lines = "1 | a\n2 | b\n\n[Showing lines 1-2 of 9. Use start_line/end_line to read other sections.]"
    for path, is_cut in (("/srv/a.txt", True), ("/srv/a.txt:1-2", False)):
        sample = Sample("", b"", SESSION, tuple(read_session(read(0, path, lines))))
        [halves] = sample.halves()
        assert halves.projection.canonical.summary_text == "read 2 lines of /srv/a.txt"
        assert halves.is_cut == is_cut
        assert halves.receipt
        sources = {segment.source.pointer for segment in halves.receipt.segments if segment.source}
        assert sources == {"/0/query", "/0/result", "/0/success"}


def test_reads_that_a_compaction_left_out_are_not_replaced() -> None:
    text = "x" * 8_000
    first = [part for number in range(9) for part in read(number, f"/srv/{number}.txt", text)]
    again = [part for number in range(9) for part in read(9 + number, f"/srv/{number}.txt", text)]
    end = message("end", "assistant", {"type": "text", "text": "Done."})
    beside = {"source_message_count": 18, "source_last_message_key": "id:u8", "conversation_id": "s", "messages": []}
    assert len(only(SupersedeRecord, read_session([*first, *again, end]))) == 9
    assert not only(SupersedeRecord, read_session([*first, *again, end], s_compaction_json=beside))


def test_a_compaction_keeps_the_messages_of_its_document() -> None:
    parts = [part for number in range(3) for part in read(number, f"/srv/{number}.txt", "one")]
    end = message("end", "assistant", {"type": "text", "text": "Done."})
    summary = {**message("", "user", {"type": "text", "text": "Context summary:"}), "id": None}
    beside = {
        "conversation_id": "s",
        "source_message_count": 6,
        "source_last_message_key": "id:u2",
        "updated_at": "2026-11-28T09:00:00.000Z",
        "messages": [summary, *parts[4:]],
    }
    records = read_session([*parts, end], s_compaction_json=beside)
    [event] = [record for record in only(EventRecord, records) if record.kind == PARTIAL_COMPACTION]
    kept = json.loads(event.payload)["kept"]
    places = {record.call: record.place for record in only(ReceiptRecord, records)}
    assert [call for call, place in places.items() if place in kept] == ["c2"]
    assert max(places.values()) < event.place
    [added] = [record for record in only(MessageRecord, records) if record.kind == COMPACTION_SUMMARY]
    assert added.place > event.place
    other = {**beside, "source_last_message_key": "id:other"}
    assert not only(EventRecord, read_session([*parts, end], s_compaction_json=other))


@pytest.mark.parametrize(
    ("recorded", "sent", "fidelity"),
    [
        ("y" * 8_000, "y" * 8_000, "recorded"),
        ("y" * 8_001, "y" * 3_985 + "\n\n...[truncated 31 chars]...\n\n" + "y" * 3_985, "reconstructed"),
        (
            [{"query": "a", "result": "b\u001b", "n": 1.50}],
            '[{"query":"a","result":"b\\u001b","n":1.5}]',
            "reconstructed",
        ),
        ('{"a": 1}', '{"a": 1}', "recorded"),
    ],
)
def test_a_result_is_sent_as_the_client_writes_it(recorded: Any, sent: str, fidelity: str) -> None:
    asked = {"type": "tool_use", "id": "c", "name": "ask_question", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": recorded}
    [receipt] = only(ReceiptRecord, read_session([message("a", "assistant", asked), message("b", "user", result)]))
    assert (text_of(receipt), receipt.fidelity) == (sent, fidelity)


def test_what_a_provider_gets_of_an_image_is_known_of_one_alone() -> None:
    asked = {"type": "tool_use", "id": "c", "name": "read_files", "input": {}}
    image = [
        {"type": "text", "text": "Successfully read image"},
        {"type": "image", "data": "AA", "mediaType": "image/png"},
    ]
    result = {
        "type": "tool_result",
        "tool_use_id": "c",
        "content": [{"query": "/d.png", "result": image, "success": True}],
    }
    for provider, count in (("anthropic", 1), ("openai-compatible", 0)):
        answer = message("a", "assistant", asked, modelInfo={"id": "m", "provider": provider})
        records = read_session([answer, message("b", "user", result)])
        receipts = [text_of(record) for record in only(ReceiptRecord, records)]
        assert receipts == ['[{"query":"/d.png","result":["Successfully read image"],"success":true}]'] * count
        assert [record.message for record in only(EventRecord, records)] == ["image/png was read for the model"]


def read_task(*messages: tuple[str, list[dict[str, Any]]]) -> list[Record | LineProblem]:
    start = ("user", [{"type": "text", "text": "<task>\nGo\n</task>"}])
    history = [{"role": role, "content": content} for role, content in (start, *messages)]
    return read_files({"api_conversation_history.json": json.dumps(history).encode()})


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_a_result_of_earlier_releases_is_a_block_behind_the_line_that_names_the_call() -> None:
    call = "<read_file>\n<path>a.py</path>\n</read_file>"
    line, state = "[read_file for 'a.py'] Result:", "<environment_details>\n</environment_details>"
    records = read_task(
        ("assistant", [text(f"I read. {call}")]),
        ("user", [text(line), text("import os\n"), text("<feedback>\nNo.\n</feedback>"), text(state)]),
    )
    [receipt] = only(ReceiptRecord, records)
    assert json.loads(receipt.content) == [text(line), text("import os\n")]
    assert receipt.fidelity == "reconstructed"
    [asked] = only(CallRecord, records)
    assert (asked.tool, asked.args) == ("read_file", b'{"path":"a.py"}')
    kinds = [(json.loads(record.content), record.kind) for record in only(MessageRecord, records)][-2:]
    assert kinds == [([text("<feedback>\nNo.\n</feedback>")], None), ([text(state)], META)]
    [halves] = Sample("", b"", TASK, tuple(records)).halves()
    assert halves.projection.canonical.summary_text == "read 1 line of a.py"


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("<read_file><path>a</path></read_file>", [{"path": "a"}]),
        ("<read_file><path>a</path>", []),
        (
            "<write_to_file><path>a</path><content>\n<b></content></content>\n</write_to_file>",
            [{"path": "a", "content": "\n<b></content>".removeprefix("\n")}],
        ),
        ("<tool><path>a</path></tool>", []),
    ],
)
def test_calls_are_read_from_tags(words: str, args: list[dict[str, str]]) -> None:
    calls = only(CallRecord, read_task(("assistant", [text(words)])))
    assert [json.loads(call.args or b"") for call in calls] == args


def test_a_denied_call_is_refused() -> None:
    records = read_task(
        ("assistant", [text("<execute_command>\n<command>rm a</command>\n</execute_command>")]),
        ("user", [text("[execute_command for 'rm a'] Result:\nThe user denied this operation.")]),
    )
    assert Sample("", b"", TASK, tuple(records)).ends("execute_command", "rm") == ["write_denied"]


@pytest.mark.parametrize("words", ["<user_message>\nGo\n</user_message>", "<task>\nGo\n</task>\n<slug>code</slug>"])
def test_tasks_of_other_agents_are_none_of_cline(words: str) -> None:
    raw = json.dumps([{"role": "user", "content": [text(words)]}, {"role": "assistant", "content": []}]).encode()
    path = SourcePath("/srv/1/api_conversation_history.json")
    assert not TASK.sniff(raw, path)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"sessionId": "s", "agent": "lead", "messages": [{"role": "robot", "content": []}]}', "no role"),
        (b'{"sessionId": "s", "messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}', "id"),
        (b'{"sessionId": "s", "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}', "call"),
        (b'{"sessionId": "s", "agent": "lead", "messages": [', "JSON"),
    ],
)
def test_what_cannot_be_read_is_a_problem(raw: bytes, reason: str) -> None:
    [problem] = only(LineProblem, list(SESSION.read(lines_of(raw), SourcePath("s.messages.json"), {})))
    assert reason in problem.reason


def test_a_call_without_a_result_was_interrupted_once_the_session_goes_on() -> None:
    asked = message("a", "assistant", {"type": "tool_use", "id": "c", "name": "run_commands", "input": {}})
    further = message("b", "user", {"type": "text", "text": "Go on."})
    assert not only(ResultRecord, read_session([asked]))
    [end] = only(ResultRecord, read_session([asked, further]))
    assert (end.call, end.stated_kind, end.result) == ("c", "cancelled", None)
    assert end.place < 1_000


def test_what_a_person_writes_when_a_task_goes_on_is_theirs() -> None:
    resumed, words = "[TASK RESUMPTION] It was interrupted.", "New instructions for task continuation:\nGo on."
    messages = only(MessageRecord, read_task(("user", [text(resumed), text(words)])))
    assert [(json.loads(record.content)[0]["text"], record.kind) for record in messages[1:]] == [
        (words, None),
        (resumed, META),
    ]
