"""Cline's sessions and tasks: receipts are what was sent, both halves are right, and what left the context has left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from envelopes.families.registry import is_mapped
from envelopes.recordings import cline, detect_format
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
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
    UsageRecord,
)
from tests.envelopes.recordings.event_files import Files
from tests.envelopes.recordings.samples import FOLDER, Sample, Shares, lines_of
from tests.envelopes.session_lines import only

SESSION, TASK = cline.FORMATS
CLINE = FOLDER / "cline"
SESSIONS = ("3.0.65", "3.0.65-anthropic")
TASKS = ("1.0.6", "1.0.6-native", "2.18.0", "2.18.0-native", "2.18.0-truncated")


def read_files(content: dict[str, bytes], folder: str = "/srv/1795857700001") -> list[Record | LineProblem]:
    """The records of all files of one folder."""
    files, records = Files(content), []
    for name, raw in sorted(content.items()):
        path = SourcePath(f"{folder}/{name}", folder=files)
        records += list(detect_format(raw[:65_536], path).read(lines_of(raw), path, {}))
    return records


def read_folder(folder: Path) -> Sample:
    records = read_files({path.name: path.read_bytes() for path in folder.glob("*.json")}, folder.as_posix())
    assert not only(LineProblem, records)
    return Sample("", b"", SESSION, tuple(records))


SAMPLES = {name: read_folder(CLINE / name) for name in SESSIONS} | {
    name: read_folder(CLINE / "tasks" / name / "1795857700001") for name in TASKS
}


def text_of(record: ReceiptRecord | SupersedeRecord) -> str:
    return str(json.loads(record.content or b"null"))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_sent(name: str) -> Any:
    return json.loads((CLINE / f"{name}.sent.json").read_bytes())


@pytest.mark.parametrize("name", SESSIONS)
def test_receipts_of_a_session_are_what_was_sent(name: str) -> None:
    receipts = {record.call: record for record in only(ReceiptRecord, SAMPLES[name].records)}
    assert {call: digest(text_of(record)) for call, record in receipts.items()} == load_sent(name)
    for call, record in receipts.items():
        is_text = any(isinstance(block, str) for block in contents_of(name, call))
        assert (record.fidelity == "recorded") == is_text


def contents_of(name: str, call: str) -> Iterable[Any]:
    for path in (CLINE / name).glob("*.messages.json"):
        for message in json.loads(path.read_bytes())["messages"]:
            yield from (block["content"] for block in message["content"] if block.get("tool_use_id") == call)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "2.18.0-truncated"])
def test_receipts_of_a_task_are_what_was_sent(name: str) -> None:
    receipts = only(ReceiptRecord, SAMPLES[name].records)
    contents = [json.loads(record.content) for record in receipts]
    texts = [
        text
        for content in contents
        for text in ([content] if isinstance(content, str) else [block["text"] for block in content])
    ]
    [sent] = load_sent(f"tasks/{name}")
    assert [digest(text) for text in texts] == sent[: len(texts)]
    assert len(texts) >= min(len(sent), 6)
    assert {record.fidelity for record in receipts} == {"recorded"}


def receipts_at(records: Iterable[Record | LineProblem], place: int) -> list[str]:
    """The receipts that a request at this place has, in their order."""
    before = [record for record in records if not isinstance(record, LineProblem | RunRecord) and record.line]
    texts: dict[str, tuple[int, str]] = {}
    for record in sorted(only(ReceiptRecord, before), key=lambda record: record.place):
        texts[record.call] = (record.place, text_of(record))
    for end in only(SupersedeRecord, before):
        if end.place < place:
            texts[end.call] = (texts[end.call][0], text_of(end))
    for event in only(EventRecord, before):
        if event.kind == PARTIAL_COMPACTION and event.place < place:
            kept = json.loads(event.payload)["kept"]
            texts = {call: at for call, at in texts.items() if at[0] > event.place or at[0] in kept}
    return [digest(text) for at, text in sorted(texts.values()) if at < place]


def test_each_request_of_a_truncated_task_has_what_was_sent() -> None:
    records = SAMPLES["2.18.0-truncated"].records
    steps = sorted({record.step: record.place for record in reversed(only(CallRecord, records))}.values())
    places = [*steps, 10**9]  # the last answer is not in the history
    assert [receipts_at(records, place) for place in places] == load_sent("tasks/2.18.0-truncated")
    events = [record.message for record in only(EventRecord, records) if record.kind == PARTIAL_COMPACTION]
    assert events[0] == "messages 2 to 7 were left out of the next requests"
    assert len(events) == 4


@pytest.mark.parametrize(
    ("name", "tool", "words", "ends"),
    [
        ("3.0.65", "run_commands", "echo one", [0]),
        ("3.0.65", "run_commands", "exit 3", [3]),
        ("3.0.65", "run_commands", "exit 2", [None]),
        ("3.0.65", "nonexistent_tool", "", ["unknown_tool"]),
        ("3.0.65", "read_files", "missing.py", ["missing_file"]),
        ("3.0.65", "read_files", "numbers.txt", [None]),
        ("3.0.65", "apply_patch", "nothing like it", ["tool_execution_failed"]),
        ("3.0.65", "fetch_web_content", "", ["tool_execution_failed"]),
        ("3.0.65-anthropic", "editor", "nope", ["tool_execution_failed"]),
        ("3.0.65-anthropic", "editor", "there", [None]),
        ("2.18.0", "execute_command", "exit 3", [3]),
        ("2.18.0", "execute_command", "sleep 8", ["command_timed_out"]),
        ("2.18.0", "read_file", "missing.py", ["missing_file"]),
        ("2.18.0", "replace_in_file", "nothing", ["tool_execution_failed"]),
        ("2.18.0", "use_mcp_tool", "broken", ["tool_execution_failed"]),
        ("1.0.6", "execute_command", "exit 3", [None]),
        ("1.0.6", "execute_command", "sleep 8", ["command_timed_out"]),
        ("1.0.6", "read_file", "missing.py", ["missing_file"]),
        ("1.0.6-native", "execute_command", "sleep 8", ["command_timed_out"]),
    ],
)
def test_calls_end_as_they_did(name: str, tool: str, words: str, ends: list[Any]) -> None:
    assert SAMPLES[name].ends(tool, words) == ends


def summary_of(name: str, tool: str, words: str) -> str:
    sample = SAMPLES[name]
    pairs = zip(sample.calls, sample.halves(), strict=True)
    [halves] = [halves for call, halves in pairs if call.tool == tool and words in (call.args or b"").decode()]
    assert not halves.note
    return halves.projection.canonical.summary_text


@pytest.mark.parametrize(
    ("name", "tool", "words", "summary"),
    [
        ("3.0.65", "run_commands", "exit 2", "batch completed 1/2 commands, 1 failed"),
        ("3.0.65", "read_files", "src/b.py", "read 2 files"),
        ("3.0.65", "search_codebase", "def main", "1 match found for 'def main'"),
        ("3.0.65", "search_codebase", "nothing", "No matches found for 'nothing_like_it'"),
        ("3.0.65", "fake__weather", "Paris", "fake__weather returned 2 content blocks, 24 characters of text"),
        ("3.0.65", "spawn_agent", "Look", "The subagent reported: The sub agent is done."),
        ("3.0.65", "apply_patch", "new.txt", "applied patch to M:new.txt"),
        ("3.0.65-anthropic", "editor", "hello", "created /srv/demo/ed.txt"),
        ("2.18.0", "read_file", "a.py", "read 5 lines of a.py"),
        ("2.18.0", "read_file", "numbers.txt", "read 1000 lines of numbers.txt"),
        ("1.0.6", "read_file", "numbers.txt", "read 3000 lines of numbers.txt"),
        ("2.18.0", "write_to_file", "w.txt", "changed w.txt"),
        ("2.18.0", "search_files", "def main", "1 match found for 'def main'"),
        ("2.18.0", "list_files", ".", "5 files found"),
        ("2.18.0", "use_mcp_tool", "weather", "Sunny in Paris"),
        ("2.18.0-native", "use_subagents", "Look", "Subagent results:"),
    ],
)
def test_results_are_typed(name: str, tool: str, words: str, summary: str) -> None:
    assert summary_of(name, tool, words) == summary


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("3.0.65", {"seq 1 2500", "* 3000", "numbers.txt"}),
        ("3.0.65-anthropic", set()),
        ("2.18.0", {"seq 1 9000", "numbers.txt"}),
        ("1.0.6", {"seq 1 9000"}),
    ],
)
def test_an_output_that_was_shortened_is_cut_and_no_other(name: str, cut: set[str]) -> None:
    sample = SAMPLES[name]
    pairs = zip(sample.calls, sample.halves(), strict=True)
    found = [(call.args or b"").decode() for call, halves in pairs if halves.is_cut]
    assert {words for words in cut if any(words in args for args in found)} == cut
    assert len(found) == len(cut)


def test_nearly_all_calls_are_typed_and_nearly_all_repeated_text_is_linked() -> None:
    shares = Shares()
    for sample in SAMPLES.values():
        shares.add(sample)
    assert {call.tool for sample in SAMPLES.values() for call in sample.calls if not is_mapped("cline", call.tool)} == {
        "nonexistent_tool"
    }
    assert shares.linked >= 0.95 * shares.repeated
    assert shares.repeated > 10_000
    assert not shares.notes
    assert is_mapped("cline", "fake__weather")
    assert not is_mapped("cline", "nonexistent_tool")


def test_a_subagent_is_a_run_below_the_call_that_started_it() -> None:
    runs = only(RunRecord, SAMPLES["3.0.65"].records)
    [child] = [run for run in runs if run.parent_run]
    [call] = [call for call in SAMPLES["3.0.65"].calls if call.tool == "spawn_agent"]
    assert (child.parent_run, child.parent_call) == (call.run, call.call)
    about = next(run for run in runs if run.cwd)
    assert (about.run, about.title, about.cwd) == (call.run, "Work on it. Please.", "/srv/demo")
    assert {run.version for run in runs if run.version} == {"3.0.65"}


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("3.0.65", (700, 300, 0, 20)),
        ("3.0.65-anthropic", (1000, 300, 50, 20)),
        ("2.18.0", (700, 300, 0, 20)),
        ("2.18.0-native", (1200, 350, 0, 21)),
        ("1.0.6", (1000, 300, 0, 20)),  # the client had counted them so
    ],
)
def test_the_usage_of_a_request_stands_before_its_answer(name: str, counts: tuple[int, ...]) -> None:
    records = SAMPLES[name].records
    first = only(UsageRecord, records)[0]
    found = (first.input_tokens, first.cache_read_tokens, first.cache_creation_tokens, first.output_tokens)
    assert found == counts
    answers = [record for record in only(MessageRecord, records) if record.role == "assistant"]
    assert first.run == answers[0].run
    assert first.place <= min(record.place for record in only(CallRecord, records) if record.run == first.run)


def test_texts_beside_the_results_are_messages_of_the_client() -> None:
    messages = only(MessageRecord, SAMPLES["2.18.0"].records)
    assert json.loads(messages[0].content)[0]["text"] == "<task>\nWork on it. Please.\n</task>"
    added = [json.loads(message.content)[-1]["text"] for message in messages if message.kind == META]
    assert len(added) > 10
    assert all(text.startswith("<environment_details>") for text in added)
    session = only(MessageRecord, SAMPLES["3.0.65"].records)
    written = [json.loads(message.content) for message in session if message.role == "user"]
    assert written[0] == [{"type": "text", "text": "Work on it. Please."}]
    assert [message.kind for message in session if message.role == "system"] == [SYSTEM_PROMPT]


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
