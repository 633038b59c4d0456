"""OpenHands' conversations: receipts are what was sent, both halves are right, and each request's context is."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envelopes.alignment.openhands_receipts import FAILED, shorten
from envelopes.halves import Halves, read_halves
from envelopes.recordings import UnknownFormat, detect_format, openhands
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    PARTIAL_COMPACTION,
    REWIND,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    LineRecord,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, Shares, lines_of
from tests.envelopes.recordings.test_damaged_samples import changed
from tests.envelopes.session_lines import only

[FORMAT] = openhands.FORMATS
VERSIONS = ("1.58.2", "1.1.0")
RUN = "0123456789abcdef0123456789abcdef"
EVENTS = f"/srv/{RUN}/events"
TERMINAL = {"kind": "TerminalObservation", "command": "ls", "is_error": False}
EDITOR = {"kind": "FileEditorObservation", "command": "view", "is_error": False}


@dataclass
class Files:
    """A folder of files: their bytes by name."""

    content: dict[str, bytes]

    def names(self) -> Sequence[str]:
        return sorted(self.content)

    def read(self, name: str) -> bytes:
        return self.content[name]


def read_file(raw: bytes, path: str, folder: Files | None = None) -> list[Record | LineProblem]:
    return list(FORMAT.read(lines_of(raw), SourcePath(path, folder=folder), {}))


def read_folder(folder: Path) -> list[Record | LineProblem]:
    """The records of all files of a conversation, also those of its subagents."""
    records: list[Record | LineProblem] = []
    for path in sorted(folder.rglob("*.json")):
        files = Files({file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()})
        assert detect_format(path.read_bytes()[:65_536], SourcePath(path.as_posix())) is FORMAT
        records += read_file(path.read_bytes(), path.as_posix(), files)
    return records


def build_sample(records: Iterable[Record | LineProblem]) -> Sample:
    return Sample("", b"", FORMAT, tuple(records))


SAMPLES = {version: build_sample(read_folder(FOLDER / "openhands" / version)) for version in VERSIONS}
SENT = {version: json.loads((FOLDER / f"openhands/{version}.sent.json").read_bytes()) for version in VERSIONS}
each_version = pytest.mark.parametrize("version", VERSIONS)


def event(number: int, kind: str, **members: Any) -> tuple[str, bytes]:
    """The name and the content of an event whose id has its number."""
    key = f"{number:08x}-0000-0000-0000-000000000000"
    about = {"id": key, "timestamp": "2026-11-28T06:51:15.694487", "source": "agent", "kind": kind}
    return f"event-{number:05}-{key}.json", json.dumps({**about, **members}).encode()


def key_of(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def read_events(*events: tuple[str, bytes]) -> list[Record | LineProblem]:
    files = Files(dict(events))
    return [record for name, raw in events for record in read_file(raw, f"{EVENTS}/{name}", files)]


def answer(number: int, observation: dict[str, Any], *, call: str = "c", tool: str = "terminal", **members: Any) -> Any:
    about = {"tool_name": tool, "tool_call_id": call, "action_id": key_of(number - 1)}
    return event(number, "ObservationEvent", observation=observation, **about, **members)


def action(number: int, call: str = "c", tool: str = "terminal", step: str = "r1", **members: Any) -> tuple[str, bytes]:
    asked = {"id": call, "name": tool, "arguments": json.dumps(members.pop("args", {"command": "ls"}))}
    about = {"tool_name": tool, "tool_call_id": call, "tool_call": asked, "llm_response_id": step, "thought": []}
    return event(number, "ActionEvent", **about, **members)


def blocks(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "cache_prompt": False} for text in texts]


def sent_texts(record: ReceiptRecord) -> list[str]:
    return [block["text"] for block in json.loads(record.content)]


def halves_of(sample: Sample) -> dict[str, Halves]:
    return {call.call: halves for call, halves in zip(sample.calls, sample.halves(), strict=True)}


@each_version
def test_receipts_are_what_it_sent(version: str) -> None:
    receipts = {record.call: record for record in only(ReceiptRecord, SAMPLES[version].records)}
    hashes = {
        call: hashlib.sha256(json.dumps(sent_texts(record)).encode()).hexdigest() for call, record in receipts.items()
    }
    assert {call: hashes[call] for call in SENT[version]["receipts"]} == SENT[version]["receipts"]
    assert {record.fidelity for record in receipts.values()} == {"reconstructed"}
    assert not SAMPLES[version].problems


def calls_in_context(records: Sequence[Record | LineProblem], run: str, place: int) -> set[str]:
    """The calls whose receipts a request at this place has: what neither was condensed nor left before."""
    events = [record for record in only(EventRecord, records) if record.run == run and record.place < place]
    spans = [json.loads(record.payload)["left"] for record in events if record.kind == REWIND]

    def has_left(line: int) -> bool:
        return any(start <= line < end for start, end in spans)

    condensed = [record for record in events if record.kind == PARTIAL_COMPACTION and not has_left(record.place)]
    return {
        receipt.call
        for receipt in only(ReceiptRecord, records)
        if receipt.run == run
        and receipt.place < place
        and not has_left(receipt.place)
        and all(receipt.place in json.loads(one.payload)["kept"] for one in condensed if one.place > receipt.place)
    }


@each_version
def test_each_request_has_the_receipts_that_are_in_the_context(version: str) -> None:
    records = SAMPLES[version].records
    steps: dict[str, tuple[str, int]] = {}
    for record in records:
        if isinstance(record, MessageRecord | CallRecord) and record.step:
            steps[record.step] = min(steps.get(record.step, (record.run, record.place)), (record.run, record.place))
    contexts = SENT[version]["contexts"]
    assert {step: calls_in_context(records, *steps[step]) for step in contexts} == {
        step: set(calls) for step, calls in contexts.items()
    }


@pytest.mark.parametrize(
    ("tool", "words", "end"),
    [
        ("terminal", "echo hello", 0),
        ("terminal", "exit 3", 3),
        ("terminal", "seq 1 9000", 0),
        ("terminal", "sleep 20", None),
        ("terminal", "rm -rf", "write_denied"),
        ("file_editor", "many.txt", None),
        ("file_editor", "missing.txt", "missing_file"),
        ("file_editor", "create", None),
        ("file_editor", "not there", "tool_execution_failed"),
        ("grep", "line two", None),
        ("task_tracker", "plan", None),
        ("no_such_tool", "", "unknown_tool"),
        ("demo_text", "", None),
        ("demo_fail", "", "tool_execution_failed"),
    ],
)
@each_version
def test_each_call_ended_as_it_did(version: str, tool: str, words: str, end: int | str | None) -> None:
    [halves] = [
        halves
        for call, halves in zip(SAMPLES[version].calls, SAMPLES[version].halves(), strict=True)
        if call.tool == tool and words in json.dumps(json.loads(call.args or b""))
    ]
    canonical = halves.projection.canonical
    result = canonical.result if isinstance(canonical.result, dict) else {}
    assert (canonical.error.kind if canonical.error else result.get("exit_status")) == end


@each_version
def test_an_output_that_was_shortened_is_cut_and_no_other(version: str) -> None:
    halves = zip(SAMPLES[version].calls, SAMPLES[version].halves(), strict=True)
    assert [json.loads(call.args or b"")["command"] for call, one in halves if one.is_cut] == ["seq 1 9000"]


@each_version
def test_nearly_all_calls_are_typed_and_all_repeated_text_is_linked(version: str) -> None:
    sample = SAMPLES[version]
    asked = [record for record in sample.records if not isinstance(record, CallRecord) or "demo" not in record.tool]
    shares = Shares()
    shares.add(build_sample(asked))
    assert not shares.notes
    assert shares.typed >= 0.95 * (shares.calls - 1)  # without a tool that there is not
    assert shares.linked == shares.repeated > 20_000


@pytest.mark.parametrize(
    ("tool", "words", "linked"),
    [
        ("terminal", "echo hello", {"/content/0/text", "/metadata/suffix", "/metadata/working_dir"}),
        ("file_editor", "many.txt", {"/content/0/text"}),
        ("demo_text", "", {"/content/0/text", "/content/1/text"}),
        ("task", "", {"/content/0/text", "/task_id", "/subagent", "/status"}),
    ],
)
def test_receipts_are_linked_with_the_result(tool: str, words: str, linked: set[str]) -> None:
    sample = SAMPLES["1.58.2"]
    [halves] = [
        halves
        for call, halves in zip(sample.calls, sample.halves(), strict=True)
        if call.tool == tool and words.encode() in (call.args or b"")
    ]
    assert halves.receipt is not None
    assert {part.source.pointer for part in halves.receipt.segments if part.source} == linked


def test_a_subagent_is_a_run_below_its_conversation() -> None:
    parents = {record.run: record.parent_run for record in only(RunRecord, SAMPLES["1.58.2"].records)}
    [(child, parent)] = [pair for pair in parents.items() if pair[1]]
    assert parents[parent or ""] is None
    assert child != parent


def test_the_run_has_its_first_message_as_title_and_the_model_of_its_state() -> None:
    runs = only(RunRecord, SAMPLES["1.1.0"].records)
    assert [run.title for run in runs if run.title] == ["Do the demo work, héllo ☃."]
    assert [(run.model, run.cwd) for run in runs if run.model] == [("openai/gpt-4o", "/srv/demo/app")]


def test_that_times_have_no_zone_is_noted_once() -> None:
    remarks = only(RemarkRecord, SAMPLES["1.1.0"].records)
    assert [remark.became for remark in remarks] == ["taken as UTC: it has no offset"]


def test_an_event_is_read_alike_in_whichever_order_the_files_come() -> None:
    events = [action(1), answer(2, {**TERMINAL, "content": blocks("a")}), action(3, "d", step="r2")]
    forwards, backwards = read_events(*events), read_events(*reversed(events))

    def place(record: Record | LineProblem) -> tuple[int, str]:
        return (record.place if isinstance(record, LineRecord) else 0), repr(record)

    assert sorted(forwards, key=place) == sorted(backwards, key=place)
    assert [record.place for record in only(CallRecord, forwards)] == [6, 14]


METADATA = {"exit_code": 0, "working_dir": "/srv", "prefix": "[before]\n", "suffix": "\n[done]"}
AROUND = "\n[Current working directory: /srv]\n[Command finished with exit code 0]"
LONG = "".join(f"{number}\n" for number in range(20_000))


@pytest.mark.parametrize(
    ("observation", "texts"),
    [
        ({**TERMINAL, "content": blocks("a"), "metadata": METADATA}, [f"[before]\na\n[done]{AROUND}"]),
        ({**TERMINAL, "content": blocks("a"), "is_error": True}, [FAILED, "a"]),
        (
            {**TERMINAL, "content": blocks("a"), "metadata": {"py_interpreter_path": "/p", "exit_code": -1}},
            ["a\n[Python interpreter: /p]"],
        ),
        ({**TERMINAL, "content": blocks(LONG)}, [shorten(LONG, 30_000)]),
        (
            {**TERMINAL, "content": blocks(LONG), "full_output_save_dir": "/o"},
            [shorten(LONG, 30_000, "/o", "terminal")],
        ),
        ({**EDITOR, "content": blocks("one", "two")}, ["one", "two"]),
        ({**EDITOR, "content": blocks(LONG)}, [shorten(LONG, 50_000)]),
        (
            {"kind": "TaskObservation", "task_id": "t", "subagent": "s", "status": "done", "content": blocks("end")},
            ["Task ID: t\nSubagent: s\nStatus: done", "end"],
        ),
        ({"kind": "BrowserObservation", "content": blocks("a", "b"), "is_error": True}, [FAILED, "ab"]),
        ({"kind": "OtherObservation", "content": blocks("a", "b")}, ["a", "b"]),
    ],
)
def test_receipts_are_computed_as_the_sdk_does(observation: dict[str, Any], texts: list[str]) -> None:
    [receipt] = only(ReceiptRecord, read_events(answer(1, observation)))
    assert sent_texts(receipt) == texts


@pytest.mark.parametrize("kind", ["ConsultTomObservation", "SleeptimeComputeObservation", "OwnObservation"])
def test_what_a_tool_words_itself_is_no_receipt(kind: str) -> None:
    content = [] if kind == "OwnObservation" else blocks("a")
    records = read_events(answer(1, {"kind": kind, "content": content, "suggestions": "b"}))
    assert not only(ReceiptRecord, records)
    assert only(ResultRecord, records)


def test_what_rules_add_to_a_result_is_part_of_its_receipt() -> None:
    [receipt] = only(
        ReceiptRecord,
        read_events(answer(1, {**EDITOR, "content": blocks("a")}, extended_content=blocks("a rule"))),
    )
    assert sent_texts(receipt) == ["a", "a rule"]


def test_a_long_output_is_sent_as_its_beginning_and_its_end() -> None:
    text = shorten(LONG, 30_000, "/o", "terminal")
    assert len(text) == 30_000
    digest = hashlib.sha256(LONG.encode()).hexdigest()[:8]
    assert f"has been saved to /o/terminal_output_{digest}.txt - you can" in text
    assert shorten("x" * 30_000, 30_000) == "x" * 30_000
    saved = {**TERMINAL, "content": blocks(LONG), "full_output_save_dir": "/o"}
    [artifact] = only(ArtifactRecord, read_events(answer(1, saved)))
    assert artifact.path == f"/o/terminal_output_{digest}.txt"


def test_the_end_and_the_beginning_of_a_long_output_are_linked() -> None:
    observation = {**EDITOR, "content": blocks(LONG)}
    [receipt] = only(ReceiptRecord, read_events(answer(1, observation, tool="file_editor")))
    halves = read_halves(
        agent="openhands",
        tool="file_editor",
        args=b"{}",
        result=json.dumps(observation).encode(),
        content=receipt.content,
        is_error=False,
    )
    assert halves.receipt is not None
    linked = [part.text for part in halves.receipt.segments if part.source]
    assert len(linked) == 2
    assert LONG.startswith(linked[0])
    assert LONG.endswith(linked[1])


@pytest.mark.parametrize("parent", [{"parent_id": key_of(3)}, {}])
def test_a_call_without_an_id_of_its_own_has_that_of_its_event(parent: dict[str, str]) -> None:
    records = read_events(
        action(1, "toolu_01"),
        answer(2, {**EDITOR, "content": blocks("a")}, call="toolu_01"),
        action(3, "toolu_01"),
        event(4, "AgentErrorEvent", error="no", tool_name="terminal", tool_call_id="toolu_01", **parent),
    )
    assert [call.call for call in only(CallRecord, records)] == [key_of(1), key_of(3)]
    receipts = {receipt.call: sent_texts(receipt) for receipt in only(ReceiptRecord, records)}
    assert receipts == {
        key_of(1): ["EXECUTION RESULT of [terminal]:\na"],
        key_of(3): ["EXECUTION RESULT of [terminal]:\nno"],
    }


@pytest.mark.parametrize(("source", "kind"), [("user", None), ("hook", "denied_by_hook")])
def test_a_refused_call_has_the_reason_as_its_receipt(source: str, kind: str | None) -> None:
    about = {"tool_name": "terminal", "tool_call_id": "c", "action_id": key_of(1), "rejection_source": source}
    records = read_events(action(1), event(2, "UserRejectObservation", rejection_reason="No.", **about))
    [result], [receipt] = only(ResultRecord, records), only(ReceiptRecord, records)
    assert (result.result, result.is_error, result.stated_kind) == (None, True, kind)
    assert sent_texts(receipt) == ["Action rejected: No."]


def test_an_image_is_an_event_because_the_model_may_take_none() -> None:
    image = {"type": "image", "image_urls": ["data:image/png;base64,AA=="]}
    records = read_events(answer(1, {**EDITOR, "content": [*blocks("read"), image]}))
    assert [sent_texts(receipt) for receipt in only(ReceiptRecord, records)] == [["read"]]
    assert [record.kind for record in only(EventRecord, records)] == ["attachment"]


def test_an_image_of_a_person_is_a_part_of_the_message() -> None:
    content = [*blocks("look"), {"type": "image", "image_urls": ["data:image/png;base64,AA=="]}]
    sent = {"role": "user", "content": content}
    [message] = only(MessageRecord, read_events(event(1, "MessageEvent", llm_message=sent)))
    assert json.loads(message.content)[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


TURN = [
    event(0, "SystemPromptEvent", system_prompt=blocks("p")[0], tools=[]),
    event(1, "MessageEvent", llm_message={"role": "user", "content": blocks("go")}),
    action(2, "c1"),
    action(3, "c2"),
    answer(4, {**TERMINAL, "content": blocks("a")}, call="c1"),
    answer(5, {**TERMINAL, "content": blocks("b")}, call="c2"),
]


def kept_numbers(records: Iterable[Record | LineProblem]) -> set[int]:
    [condensed] = [record for record in only(EventRecord, records) if record.kind == PARTIAL_COMPACTION]
    return {(place - 1) // openhands.PLACES for place in json.loads(condensed.payload)["kept"]}


@pytest.mark.parametrize(
    ("forgotten", "kept"),
    [
        ([2, 3, 4, 5], {0, 1}),
        ([1], {0, 2, 3, 4, 5}),
        ([2], {0, 1}),  # the other call of the answer is not sent without it
        ([5], {0, 1, 2, 4}),  # nor a call without its result
    ],
)
def test_a_condensation_keeps_what_it_does_not_name(forgotten: list[int], kept: set[int]) -> None:
    names = [key_of(number) for number in forgotten]
    last = event(6, "Condensation", forgotten_event_ids=names, summary="so far", llm_response_id="r9")
    records = read_events(*TURN, last)
    assert kept_numbers(records) == kept
    [summary] = [record for record in only(MessageRecord, records) if record.kind == COMPACTION_SUMMARY]
    assert json.loads(summary.content) == "so far"


@pytest.mark.parametrize("name", [f"{key_of(6)}-summary", "an id that is in no file"])
def test_a_later_condensation_leaves_the_earlier_summary_out(name: str) -> None:
    earlier = event(6, "Condensation", forgotten_event_ids=[], summary="so far", llm_response_id="r8")
    last = event(7, "Condensation", forgotten_event_ids=[name], summary="further", llm_response_id="r9")
    files = Files(dict([*TURN, earlier, last]))
    assert 6 not in kept_numbers(read_file(last[1], f"{EVENTS}/{last[0]}", files))


def test_what_a_condensation_kept_is_not_known_without_its_folder() -> None:
    name, raw = event(6, "Condensation", forgotten_event_ids=[key_of(2)], llm_response_id="r9")
    [record] = only(EventRecord, read_file(raw, f"{EVENTS}/{name}"))
    assert (record.kind, json.loads(record.payload)) == (PARTIAL_COMPACTION, {"kept": []})


@pytest.mark.parametrize(
    ("parent", "between", "left"),
    [
        (key_of(5), [], None),
        (None, [], None),
        ("another", [], None),
        (key_of(1), [], [9, 25]),
        ("__root__", [], [1, 25]),
        (key_of(5), [event(6, "HookExecutionEvent", parent_id=key_of(5))], None),
        (key_of(4), [event(6, "HookExecutionEvent", parent_id=key_of(5))], [21, 29]),
    ],
)
def test_an_event_whose_parent_is_an_earlier_one_went_back_there(
    parent: str | None, between: list[tuple[str, bytes]], left: list[int] | None
) -> None:
    last = event(6 + len(between), "MessageEvent", parent_id=parent, llm_message={"role": "user", "content": "again"})
    records = read_file(last[1], f"{EVENTS}/{last[0]}", Files(dict([*TURN, *between, last])))
    rewinds = [json.loads(record.payload)["left"] for record in only(EventRecord, records) if record.kind == REWIND]
    assert rewinds == ([left] if left else [])


@pytest.mark.parametrize(
    "path", ["event-00001-00000001-0000.json", "events/event-00001-00000001-0000.json", f"{RUN}/a.json"]
)
def test_a_file_that_names_no_conversation_is_none(path: str) -> None:
    _, raw = action(1)
    with pytest.raises(UnknownFormat):
        detect_format(raw, SourcePath(path))
    [problem] = read_file(raw, path)
    assert isinstance(problem, LineProblem)
    assert "folder" in problem.reason


@pytest.mark.parametrize(
    ("kind", "members", "reason"),
    [
        ("PauseEvent", {"id": None}, "no kind or no id"),
        ("ActionEvent", {}, "without an id or a tool"),
        ("ObservationEvent", {}, "without the id of its call"),
    ],
)
def test_an_event_that_cannot_be_read_is_a_problem(kind: str, members: dict[str, Any], reason: str) -> None:
    name, raw = event(1, kind, **members)
    [problem] = read_file(raw, f"{EVENTS}/{name}")
    assert isinstance(problem, LineProblem)
    assert reason in problem.reason


def test_changed_events_raise_nothing() -> None:
    chance = random.Random(7)
    for path in sorted((FOLDER / "openhands").rglob("*.json")):
        for _ in range(6):
            raw = changed(path.read_bytes(), path.name, chance)
            for record in read_file(raw, path.as_posix(), Files({path.name: raw})):
                assert not isinstance(record, LineProblem) or record.reason


def test_other_events_keep_their_kind() -> None:
    [record] = only(EventRecord, read_events(event(1, "PauseEvent", source="user")))
    assert (record.kind, record.message) == ("PauseEvent", "PauseEvent")
