"""Inspect logs: documents and archives, one surface, errors, attachments, and limits while unpacking."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any

import pytest
import pyzstd

from envelopes.halves import read_halves
from envelopes.recordings.base import (
    PARTIAL_COMPACTION,
    EventRecord,
    LineRecord,
    MessageRecord,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.inspect_ai import archive
from envelopes.text.untrusted_json import Untrusted
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_sample
from tests.envelopes.session_lines import only

DOCUMENT = "inspect_ai/2026-11-21T20-37-26-00-00_task_Y5LYfnBnFHBzMyi4aqKPRe.json"
ZSTD = "inspect_ai/2026-11-21T20-37-25-00-00_task_iYRsRBCWEZdAxhifj82vRa.eval"
DEFLATE = "inspect_ai/log_message_deduplication.eval"
OLD = ("inspect_ai/log_formats.json", "inspect_ai/log_formats.eval")


def samples_of(path: str) -> list[dict[str, Any]]:
    raw = (FOLDER / path).read_bytes()
    if path.endswith(".json"):
        return list(json.loads(raw)["samples"])
    members = zipfile.ZipFile(io.BytesIO(raw)).infolist()
    return [
        json.loads(archive.unpack(raw, member, 2**26)) for member in members if member.filename.startswith("samples/")
    ]


def log(*messages: dict[str, Any], **members: Any) -> Sample:
    sample = {"id": "s", "epoch": 1, "uuid": "u", "messages": list(messages), **members}
    document = {"version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"}, "samples": [sample]}
    return read_bytes(json.dumps(document).encode(), "log.json")


def call(name: str = "c", tool: str = "bash", **arguments: Any) -> dict[str, Any]:
    asked = {"id": name, "function": tool, "arguments": arguments, "type": "function"}
    return {"id": f"m-{name}", "role": "assistant", "content": "", "tool_calls": [asked]}


@pytest.mark.parametrize("path", [DOCUMENT, ZSTD, DEFLATE, *OLD])
def test_calls_results_and_receipts_are_those_of_the_samples(path: str) -> None:
    sample = read_sample(path)
    samples = samples_of(path)
    messages = [message for one in samples for message in one["messages"]]
    calls = [entry for message in messages for entry in message.get("tool_calls") or ()]
    answers = [message for message in messages if message["role"] == "tool"]
    events = [event for one in samples for event in one.get("events") or () if event["event"] == "tool"]
    assert [entry.call for entry in sample.calls] == [entry["id"] for entry in calls]
    assert [json.loads(entry.args) for entry in sample.calls] == [entry["arguments"] for entry in calls]
    assert len(sample.results) == len(events)
    texts = {message["tool_call_id"]: message["content"] for message in answers if not message.get("error")}
    errors = {message["tool_call_id"]: message["error"]["message"] for message in answers if message.get("error")}
    assert {name: json.loads(receipt.content) for name, receipt in sample.receipts.items()} == texts | errors
    fidelities = {name: "reconstructed" if name in errors else "recorded" for name in texts | errors}
    if path != DEFLATE:  # whose requests were logged as they went to a provider
        assert {name: receipt.fidelity for name, receipt in sample.receipts.items()} == fidelities
    assert not sample.problems


def test_both_forms_of_a_log_give_the_same() -> None:
    document, packed = read_sample(DOCUMENT), read_sample(ZSTD)
    assert (document.format.name, packed.format.name) == ("inspect", "inspect-eval")
    assert [entry.tool for entry in packed.calls] == [entry.tool for entry in document.calls]
    assert [receipt.content for receipt in packed.receipts.values()] == [
        receipt.content for receipt in document.receipts.values()
    ]


def test_a_run_is_a_sample_with_its_facts_and_the_weight_of_its_requests() -> None:
    sample = read_sample(DOCUMENT)
    (run,) = only(RunRecord, sample.records)
    assert (run.run, run.title, run.model) == ("kGUjoKcZGhEVCWHJBR8rPf", "task, sample 1-1", "mockllm/model")
    assert run.ended_at == "2026-11-21T20:37:26.279345+00:00"
    assert len(only(UsageRecord, sample.records)) == 5
    assert [message.role for message in only(MessageRecord, sample.records)] == ["user", *["assistant"] * 5]


def test_an_output_that_inspect_cut_is_bounded_and_says_so() -> None:
    sample = read_sample(DOCUMENT)
    halves = next(half for half in sample.halves() if half.evidence.tool == "big")
    assert halves.reading.fidelity == "bounded"
    assert halves.is_cut
    assert [cut.unit for cut in halves.reading.source_cuts] == ["output"]


@pytest.mark.parametrize(
    ("type_", "kind"),
    [("parsing", "invalid_tool_input"), ("timeout", "command_timed_out"), ("approval", "write_denied"), ("new", None)],
)
def test_the_type_of_an_error_decides_its_kind(type_: str, kind: str | None) -> None:
    error = {"type": type_, "message": "it was refused"}
    halves = read_halves(
        agent="inspect-ai",
        tool="bash",
        args=b"{}",
        result=json.dumps(error).encode(),
        content=b'"Error: it was refused"',
        is_error=True,
    )
    assert halves.projection.canonical.error is not None
    assert halves.projection.canonical.error.kind == (kind or "tool_execution_failed")
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == ["it was refused"]


def test_a_request_to_the_provider_has_the_exact_receipt() -> None:
    answer = {"role": "tool", "content": "", "tool_call_id": "c", "error": {"type": "timeout", "message": "too slow"}}
    sent = {"role": "tool", "content": "Error: too slow", "tool_call_id": "c"}
    request = {"event": "model", "call": {"request": {"messages": [sent]}}}
    receipt = log(call(), answer, events=[request]).receipts["c"]
    assert (receipt.content, receipt.fidelity) == (b'"Error: too slow"', "exact")
    blocks = [{"type": "tool_result", "tool_use_id": "c", "content": "too slow"}]
    shared = log(call(), answer, events=[], events_data={"calls": [{"role": "user", "content": blocks}]})
    assert (shared.receipts["c"].content, shared.receipts["c"].fidelity) == (b'"too slow"', "exact")


def test_a_log_without_events_has_the_errors_of_its_messages() -> None:
    sample = read_sample("inspect_ai/log_tool_call_error.json")
    answers = json.loads(sample.raw)["samples"][0]["messages"]
    errors = {message["tool_call_id"]: message["error"] for message in answers}
    assert {name: json.loads(result.result or b"") for name, result in sample.results.items()} == errors
    assert all(result.is_error for result in sample.results.values())
    assert {entry.call: (entry.tool, entry.args) for entry in sample.calls} == {
        message["tool_call_id"]: (message["function"], b"null") for message in answers
    }
    beside = json.loads(sample.results["bash_11"].extra or b"")
    assert beside == {"content": answers[-1]["content"]}


def test_an_output_beside_an_error_is_kept() -> None:
    error = {"type": "output_limit", "message": "too long"}
    event = {"event": "tool", "id": "c", "function": "bash", "result": "first lines", "error": error}
    (result,) = log(call(), events=[event]).results.values()
    assert (json.loads(result.result or b""), result.extra) == (error, b'{"result":"first lines"}')


def test_attachments_are_read_in_their_place() -> None:
    sample = log(
        {"role": "system", "content": "attachment://a1"},
        call(cmd="ls"),
        {"role": "tool", "content": "attachment://a2", "tool_call_id": "c"},
        attachments={"a1": "be brief", "a2": "bin\netc"},
        events=[{"event": "tool", "id": "c", "function": "bash", "result": "attachment://a2", "working_time": 0.25}],
    )
    assert [message.content for message in only(MessageRecord, sample.records)] == [b'"be brief"']
    assert sample.receipts["c"].content == sample.results["c"].result == b'"bin\\netc"'
    assert sample.results["c"].duration_ms == 250


def test_calls_of_other_agents_and_events_are_kept() -> None:
    sample = log(
        events=[
            {"event": "tool", "id": "x", "function": "python", "arguments": {"code": "1"}, "result": "1"},
            {"event": "error", "error": {"message": "stopped"}},
            {"event": "state", "changes": []},
        ]
    )
    assert [(entry.call, entry.tool) for entry in sample.calls] == [("x", "python")]
    assert [event.kind for event in only(EventRecord, sample.records)] == ["error"]


def answer(name: str, content: str = "all lines") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": name}


def request(key: str, **members: Any) -> dict[str, Any]:
    return {"event": "model", "output": {"choices": [{"message": {"id": key}}]}, **members}


REMOVED = "(Tool result removed)"
COMPACTED = {"event": "compaction", "type": "edit", "tokens_before": 9_000, "tokens_after": 1_000}


@pytest.mark.parametrize(
    "sent",
    [
        {"input": [answer("a", REMOVED), answer("b")]},
        {"input": [answer("b")]},
        {"input": [], "input_refs": [[1, 2], [2, 3]]},
    ],
)
def test_a_compaction_supersedes_the_receipts_that_the_next_request_lacks(sent: dict[str, Any]) -> None:
    events = [request("m-a"), request("m-b"), COMPACTED, request("m-c", **sent)]
    pool = [answer("a"), answer("a", REMOVED), answer("b")]
    messages = [call("a"), answer("a"), call("b"), answer("b"), call("c"), answer("c")]
    sample = log(*messages, events=events, events_data={"messages": pool})
    assert [record.call for record in only(SupersedeRecord, sample.records)] == ["a"]
    (event,) = only(EventRecord, sample.records)
    assert (event.kind, event.message) == (
        PARTIAL_COMPACTION,
        "the conversation was compacted from 9,000 to 1,000 tokens",
    )
    order = [getattr(record, "call", None) or getattr(record, "kind", None) for record in sample.records]
    assert order.index("b") < order.index(PARTIAL_COMPACTION) < order.index("c")


def test_records_are_in_the_order_of_the_conversation_where_events_stand_behind_it() -> None:
    messages = [call("a"), answer("a"), call("b")]
    events = [request("m-a"), COMPACTED, request("m-b", input=[answer("b")])]
    for event in events[::2]:
        event["output"]["usage"] = {"input_tokens": 1}
    sample = {"id": "s", "uuid": "u", "messages": messages, "events": events}
    document = {"version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"}, "samples": [sample]}
    records = read_bytes(json.dumps(document, indent=1).encode(), "log.json").records
    placed = sorted((record for record in records if isinstance(record, LineRecord)), key=lambda record: record.place)
    kinds = [type(record).__name__.removesuffix("Record") for record in placed]
    assert kinds == ["Usage", "Call", "Receipt", "Event", "Supersede", "Usage", "Call"]


def test_a_compaction_whose_next_request_is_not_recorded_supersedes_nothing() -> None:
    sample = log(call("a"), answer("a"), call("b"), events=[COMPACTED, request("m-b")])
    assert [event.kind for event in only(EventRecord, sample.records)] == [PARTIAL_COMPACTION]
    assert not only(SupersedeRecord, sample.records)


def test_the_first_request_with_a_result_has_the_receipt() -> None:
    sent = [{"event": "model", "call": {"request": {"messages": [answer("c", text)]}}} for text in ("1", REMOVED)]
    receipt = log(call(), answer("c", "1"), events=sent).receipts["c"]
    assert (receipt.content, receipt.fidelity) == (b'"1"', "exact")


def test_a_request_in_items_of_responses_has_the_exact_receipt() -> None:
    item = {"type": "function_call_output", "call_id": "c", "output": "Error: too slow"}
    failed = {**answer("c", ""), "error": {"type": "timeout", "message": "too slow"}}
    receipt = log(call(), failed, events=[{"event": "model", "call": {"request": {"input": [item]}}}]).receipts["c"]
    assert (receipt.content, receipt.fidelity) == (b'"Error: too slow"', "exact")


def test_a_call_that_the_provider_ran_has_its_result_as_receipt() -> None:
    blocks = [
        {"type": "text", "text": "I search."},
        {"type": "tool_use", "id": "s", "name": "web_search", "arguments": '{"query": "x"}', "result": "[]"},
        {"type": "tool_use", "id": "f", "name": "web_search", "arguments": "{}", "result": "", "error": "no network"},
    ]
    sample = log({"id": "m", "role": "assistant", "content": blocks}, events=[COMPACTED, request("m")])
    assert [(entry.call, entry.args) for entry in sample.calls] == [("s", b'{"query": "x"}'), ("f", b"{}")]
    assert {name: receipt.content for name, receipt in sample.receipts.items()} == {"s": b'"[]"', "f": b'"no network"'}
    assert [(entry.call, entry.is_error) for entry in only(ResultRecord, sample.records)] == [("f", True)]
    (message,) = only(MessageRecord, sample.records)
    assert json.loads(message.content) == blocks[:1]


def test_a_tool_event_that_failed_is_an_error() -> None:
    event = {"event": "tool", "id": "c", "function": "bash", "result": "", "failed": True}
    assert log(call(), events=[event]).results["c"].is_error


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return buffer.getvalue()


HEADER = b'{"version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"}}'


def test_a_damaged_member_is_named_and_the_others_are_read() -> None:
    good = json.dumps({"id": 1, "epoch": 1, "messages": [call()]}).encode()
    raw = packed(
        {"header.json": HEADER, "samples/1_epoch_1.json": good, "samples/2_epoch_1.json": b"{", "samples/3.json": b"7"}
    )
    sample = read_bytes(raw, "log.eval")
    assert [entry.run for entry in sample.calls] == ["r-1-1"]
    assert [problem.reason.partition(":")[0] for problem in sample.problems] == [
        "samples/2_epoch_1.json",
        "samples/3.json",
    ]
    assert all(problem.part for problem in sample.problems)
    (cut,) = read_bytes(raw[: len(raw) // 2], "log.eval").problems
    assert not cut.part
    assert "not a whole archive" in cut.reason


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_is_unpacked_no_further_than_its_limit(method: int) -> None:
    raw = packed({"header.json": b" " * 5_000}, method)
    (member,) = zipfile.ZipFile(io.BytesIO(raw)).infolist()
    assert archive.unpack(raw, member, 5_000) == b" " * 5_000
    with pytest.raises(Untrusted, match="longer than 4,999 bytes"):
        archive.unpack(raw, member, 4_999)
    damaged = bytearray(raw)
    damaged[45] ^= 1
    with pytest.raises(Untrusted):
        archive.unpack(bytes(damaged), member, 5_000)


def test_a_zstd_member_is_unpacked_no_further_than_its_limit() -> None:
    content = b" " * 8_000_000
    squeezed = pyzstd.compress(content)
    raw = bytearray(packed({"header.json": squeezed}, zipfile.ZIP_STORED))
    (member,) = zipfile.ZipFile(io.BytesIO(bytes(raw))).infolist()
    member.compress_type, member.CRC = 93, zlib.crc32(content)
    assert archive.unpack(bytes(raw), member, len(content)) == content
    with pytest.raises(Untrusted, match="longer than 1,000,000 bytes"):
        archive.unpack(bytes(raw), member, 1_000_000)
    member.compress_size -= 5
    with pytest.raises(Untrusted, match="in the middle"):
        archive.unpack(bytes(raw), member, len(content))
    member.compress_type = 12
    with pytest.raises(Untrusted, match="method 12"):
        archive.unpack(bytes(raw), member, len(content))
