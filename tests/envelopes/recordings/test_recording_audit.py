"""The audit folder: four files and its receipts, each read by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envelopes.recordings import detect_format, find_format
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourcePath,
)
from tests.cases import each
from tests.envelopes.session_lines import source

FOLDER = Path(__file__).parent / "audit"
AUDIT = find_format("audit")


def read(content: bytes, path: str) -> list[Record | LineProblem]:
    return list(AUDIT.read(source(content), SourcePath(path), {}))


def shipped(name: str) -> list[Any]:
    return read((FOLDER / "run-7" / name).read_bytes(), f"run-7/{name}")


@pytest.mark.parametrize("name", ["run.json", "calls.jsonl", "results.jsonl", "events.jsonl", "receipts.jsonl"])
def test_each_file_of_the_folder_is_known_and_read_without_a_problem(name: str) -> None:
    content = (FOLDER / "run-7" / name).read_bytes()
    assert detect_format(content, SourcePath(f"run-7/{name}")) is AUDIT
    records = shipped(name)
    assert not [record for record in records if isinstance(record, LineProblem)]
    assert {record.run for record in records} == {"run-7"}
    assert isinstance(records[0], RunRecord)


def test_the_run_has_its_plan_and_keeps_what_has_no_place() -> None:
    [run] = shipped("run.json")
    assert (run.title, run.version, run.started_at) == ("Tidy the inbox", "1.0.0", "2025-12-16T18:11:58Z")
    assert json.loads(run.plan)["steps"][0]["id"] == "s1"
    assert json.loads(run.extra) == {
        "policy": {"confirmationsRequired": True},
        "confirmation": {"confirmationId": "k1", "decision": "approved"},
    }


def test_each_attempt_is_a_call_of_its_own() -> None:
    calls = [record for record in shipped("calls.jsonl") if isinstance(record, CallRecord)]
    assert [(call.call, call.step, call.attempt) for call in calls] == [("c1", "s1", 1), ("c2", "s1", 2)]
    assert calls[0].args == b'{"path":"Inbox/Done.md","content":"1.00"}'
    extra = json.loads(calls[0].extra or b"")
    assert extra == {"timeoutMs": 30000, "cancellable": True, "riskLevel": "writes"}


def test_a_failed_result_keeps_its_error() -> None:
    failed, done = (record for record in shipped("results.jsonl") if isinstance(record, ResultRecord))
    assert (failed.status, failed.is_error, failed.result, failed.fidelity) == ("error", True, None, "absent")
    assert json.loads(failed.error or b"") == {"code": "CONFLICT", "message": "It exists", "retryable": True}
    assert (done.status, done.is_error, done.duration_ms) == ("ok", False, 310)
    assert done.result == b'{"path":"Inbox/Done.md","etag":"abc123"}'
    assert done.effects == b'{"created":[{"path":"Inbox/Done.md","kind":"file"}]}'
    assert json.loads(done.extra or b"")["userMessage"] == "Created Inbox/Done.md"


def test_events_say_when_the_run_began_and_ended() -> None:
    records = shipped("events.jsonl")
    runs = [(run.started_at, run.ended_at) for run in records if isinstance(run, RunRecord)]
    assert runs == [(None, None), ("2025-12-16T18:11:59Z", None), (None, "2025-12-16T18:12:04Z")]
    failed = next(record for record in records if isinstance(record, EventRecord) and record.level == "error")
    assert (failed.kind, failed.call, failed.payload) == ("step.failed", "c1", b'{"attempt":1}')
    assert json.loads(failed.extra or b"") == {"stepId": "s1"}


def test_a_receipt_that_was_sent_is_exact() -> None:
    [receipt] = [record for record in shipped("receipts.jsonl") if isinstance(record, ReceiptRecord)]
    assert (receipt.call, receipt.content, receipt.fidelity) == ("c2", b'"Created Inbox/Done.md"', "exact")
    assert json.loads(receipt.extra or b"")["renderer"] == {"id": "work.receipt", "version": "1"}


def test_an_exported_call_is_known_by_the_agents_own_id_and_result() -> None:
    about = {"runId": "r", "callId": "ours", "providerCallId": "toolu_1", "status": "ok", "data": {"n": 1}}
    records = read(json.dumps({**about, "recorded": {"stdout": "1"}}).encode(), "results.jsonl")
    result = next(record for record in records if isinstance(record, ResultRecord))
    assert (result.call, result.result) == ("toolu_1", b'{"stdout": "1"}')
    assert json.loads(result.extra or b"") == {"callId": "ours", "data": {"n": 1}}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"runId":"r","callId":"c"}', "$.tool"),
        (b'{"runId":"r","callId":["c"],"tool":"t"}', "$.callId"),
        (b'{"callId":"c","tool":"t"}', "$.runId"),
        (b'{"runId":"r","callId":"c","tool":"t"', "$"),
        (b"[]", "$"),
        (b'"text"', "$"),
    ],
)
def test_a_refused_line_names_the_field_and_costs_no_line_beside_it(raw: bytes, path: str) -> None:
    good = b'{"runId":"r","callId":"c","tool":"t","args":{}}\n'
    records = read(good + raw + b"\n" + good, "calls.jsonl")
    assert [(record.line, record.path) for record in records if isinstance(record, LineProblem)] == [(2, path)]
    assert [record.line for record in records if isinstance(record, CallRecord)] == [1, 3]


@each("wrong", [None, True, -1, 1e300, 2**70, "", "\x00", "\ud800", [], {}])
@each("name", ["run.json", "calls.jsonl", "results.jsonl", "events.jsonl", "receipts.jsonl"])
def test_a_field_of_the_wrong_type_raises_nothing_and_is_not_lost(name: str, wrong: Any) -> None:
    content = (FOLDER / "run-7" / name).read_bytes()
    first = json.loads(content if name == "run.json" else content.splitlines()[0])
    for field in [*first, "providerCallId", "recorded", "parts"]:
        records = read(json.dumps({**first, field: wrong}).encode(), f"run-7/{name}")
        assert records
        for record in records:
            assert "\0" not in record.run.encode().decode() if not isinstance(record, LineProblem) else record.reason


def test_a_run_document_that_comes_in_two_parts_is_read_when_it_is_whole() -> None:
    lines = source((FOLDER / "run-7" / "run.json").read_bytes())
    state: dict[str, object] = {}
    [unfinished] = AUDIT.read(lines[:4], SourcePath("run-7/run.json"), state)
    assert isinstance(unfinished, LineProblem)
    assert unfinished.lines == 4
    assert list(AUDIT.read(lines[4:], SourcePath("run-7/run.json"), json.loads(json.dumps(state)))) == shipped(
        "run.json"
    )


def test_call_ids_are_unique_in_their_run_only() -> None:
    assert not AUDIT.is_global_call_id("c1")


def test_ids_that_a_text_column_refuses_merge_with_no_other_id() -> None:
    ids = ["a\0", "a\\u0000", "a␀", "a⟨U+0000⟩", "a\ud800", "a\\ud800", "a⟨U+D800⟩", "a⟨U+27E8⟩U+D800⟩"]
    lines = [json.dumps({"runId": "r", "callId": id_, "tool": "t", "args": {}}).encode() for id_ in ids]
    calls = [record.call for record in read(b"\n".join(lines), "calls.jsonl") if isinstance(record, CallRecord)]
    assert len({call.encode() for call in calls}) == len(ids)
    assert [call for call in calls if "\0" in call] == []
