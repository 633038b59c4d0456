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
    META,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
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
