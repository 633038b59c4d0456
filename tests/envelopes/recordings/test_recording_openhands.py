"""OpenHands' conversations: receipts are what was sent, both halves are right, and each request's context is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from envelopes.recordings import detect_format
from envelopes.recordings.base import (
    PARTIAL_COMPACTION,
    REWIND,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    RunRecord,
    SourcePath,
)
from tests.envelopes.recordings.event_files import FORMAT, Files, read_file, sent_texts
from tests.envelopes.recordings.samples import FOLDER, Sample, Shares
from tests.envelopes.session_lines import only

VERSIONS = ("1.58.2", "1.1.0")


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
    assert SAMPLES[version].ends(tool, words) == [end]


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
