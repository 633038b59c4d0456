"""Events of OpenHands' conversations: what was sent of each, what left the context, and files that are no events."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from envelopes.alignment.openhands_receipts import FAILED, shorten
from envelopes.halves import read_halves
from envelopes.recordings import UnknownFormat, detect_format
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
    ResultRecord,
    SourcePath,
)
from envelopes.recordings.openhands.event import PLACES
from tests.envelopes.recordings.event_files import (
    EDITOR,
    EVENTS,
    RUN,
    TERMINAL,
    Files,
    action,
    answer,
    blocks,
    event,
    key_of,
    read_events,
    read_file,
    sent_texts,
)
from tests.envelopes.recordings.samples import FOLDER
from tests.envelopes.recordings.test_damaged_samples import changed
from tests.envelopes.session_lines import only


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
    return {(place - 1) // PLACES for place in json.loads(condensed.payload)["kept"]}


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
        (key_of(4), [event(6, "HookExecutionEvent", parent_id=key_of(5))], [21, 25]),
    ],
)
def test_an_event_whose_parent_is_an_earlier_one_went_back_there(
    parent: str | None, between: list[tuple[str, bytes]], left: list[int] | None
) -> None:
    last = event(6 + len(between), "MessageEvent", parent_id=parent, llm_message={"role": "user", "content": "again"})
    records = read_file(last[1], f"{EVENTS}/{last[0]}", Files(dict([*TURN, *between, last])))
    rewinds = [json.loads(record.payload)["left"] for record in only(EventRecord, records) if record.kind == REWIND]
    assert rewinds == ([left] if left else [])


def said(number: int, parent: int) -> tuple[str, bytes]:
    text = {"role": "user", "content": str(number)}
    return event(number, "MessageEvent", parent_id=key_of(parent), llm_message=text)


def test_an_event_on_a_branch_that_was_left_returns_to_it() -> None:
    records = read_events(*TURN, said(6, 1), said(7, 6), said(8, 4))
    rewinds = [json.loads(record.payload) for record in only(EventRecord, records) if record.kind == REWIND]
    assert rewinds == [{"left": [9, 25]}, {"left": [21, 33], "returned": [9, 25]}]


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
