"""MCP frames: calls, what the server offered, errors of both kinds, progress, connections."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord, ResultRecord, RunRecord
from tests.envelopes.recordings.samples import Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

FRAMES = "mcp_frames/generated_mcp_2.3.0_stdio_frames.jsonl"


def frames(*objects: dict[str, Any]) -> Sample:
    return read_bytes(b"".join(json.dumps(frame).encode() + b"\n" for frame in objects), "frames.jsonl")


def request(number: int, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {"name": "weather", "arguments": {}, **params}}


def test_calls_results_and_receipts_are_those_of_the_frames() -> None:
    sample = read_sample(FRAMES)
    messages = [json.loads(line)["msg"] for line in sample.raw.splitlines()]
    asked = {message["id"]: message["params"] for message in messages if message.get("method") == "tools/call"}
    answers = {message["id"]: message["result"] for message in messages if "result" in message}
    assert [(int(call.call), call.tool, json.loads(call.args)) for call in sample.calls] == [
        (number, params["name"], params["arguments"]) for number, params in asked.items()
    ]
    assert {int(call): json.loads(result.result or b"") for call, result in sample.results.items()} == {
        number: answers[number] for number in asked
    }
    assert {int(call): json.loads(receipt.content) for call, receipt in sample.receipts.items()} == {
        number: answers[number]["content"] for number in asked
    }
    assert {receipt.fidelity for receipt in sample.receipts.values()} == {"reconstructed"}
    assert not sample.problems


def test_structured_content_is_the_result_and_failures_are_errors() -> None:
    sample = read_sample(FRAMES)
    halves = {call.call: half for call, half in zip(sample.calls, sample.halves(), strict=True)}
    canonical = halves["3"].projection.canonical
    assert isinstance(canonical.result, dict)
    assert canonical.result["structured_content"] == {"city": "Oslo", "temp_c": 21.5, "sky": "clear"}
    kinds = {
        call: half.projection.canonical.error.kind for call, half in halves.items() if half.projection.canonical.error
    }
    assert kinds == {"4": "tool_execution_failed", "6": "invalid_tool_input", "7": "unknown_tool"}


def test_progress_is_an_event_of_its_call() -> None:
    sample = read_sample(FRAMES)
    progress = [event for event in only(EventRecord, sample.records) if event.kind == "progress"]
    assert [(event.call, event.message) for event in progress] == [("5", f"step {number}") for number in (1, 2, 3)]
    assert read_in_parts(sample.raw, FRAMES, 3) == list(sample.records)


def test_times_are_read_in_seconds_milliseconds_and_iso() -> None:
    sample = frames(
        request(1) | {"timestamp": "2026-01-01T10:00:00Z"},
        {"ts": 1_767_261_600, "payload": request(2)},
        {"time": 1_767_261_600_500, "json": json.dumps(request(3))},
    )
    assert [call.at for call in sample.calls] == [
        "2026-01-01T10:00:00Z",
        "2026-01-01T10:00:00+00:00",
        "2026-01-01T10:00:00.500000+00:00",
    ]


def test_each_connection_is_a_run_whose_ids_begin_anew() -> None:
    start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    sample = frames(start, request(1), start | {"id": 9}, request(1), {"session_id": "s", "msg": start}, request(1))
    runs = [run.run for run in only(RunRecord, sample.records)]
    assert len(set(runs)) == 3
    assert runs[2] == "s"
    assert [call.run for call in sample.calls] == runs


def test_an_error_of_the_protocol_is_a_result_without_a_receipt() -> None:
    sample = frames(
        request(1), {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Unknown tool: weather"}}
    )
    assert not sample.receipts
    (halves,) = sample.halves()
    assert halves.projection.canonical.error is not None
    assert (halves.projection.canonical.error.kind, halves.projection.canonical.error.message) == (
        "unknown_tool",
        "Unknown tool: weather",
    )


@pytest.mark.parametrize(
    ("frame", "path"),
    [({"ts": 1}, "$"), ({"jsonrpc": "2.0", "id": 1}, "$"), (request(1, name=""), "$.params.name")],
)
def test_damaged_frames_are_named_and_the_others_are_read(frame: dict[str, Any], path: str) -> None:
    sample = frames(frame, request(2))
    assert [(problem.line, problem.path) for problem in sample.problems] == [(1, path)]
    assert [call.call for call in sample.calls] == ["2"]


ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "fine"}]}}
ROOTS = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
LISTED = {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}


@pytest.mark.parametrize("named", [True, False])
def test_an_answer_belongs_to_a_request_of_the_other_side(*, named: bool) -> None:
    """Both sides count their requests from one: the client's answer to the server has the id of an open call."""
    sent = {"dir": "client->server"} if named else {}
    got = {"direction": "server->client"} if named else {}
    sample = frames(sent | {"msg": request(1)}, got | {"msg": ROOTS}, sent | {"msg": LISTED}, got | {"msg": ANSWER})
    assert {call: json.loads(result.result or b"") for call, result in sample.results.items()} == {
        "1": ANSWER["result"]
    }
    assert list(sample.receipts) == ["1"]


def test_an_answer_may_stand_before_its_call() -> None:
    sample = frames(ANSWER, request(1))
    assert (list(sample.results), list(sample.receipts), [call.call for call in sample.calls]) == (["1"], ["1"], ["1"])


def test_an_answer_to_a_request_that_is_not_there_is_an_event() -> None:
    sample = frames(LISTED, request(2))
    assert not sample.results
    (event,) = (record for record in only(EventRecord, sample.records) if record.kind == "answer")
    assert event.payload == json.dumps(LISTED).encode()


CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "by the user"}}
FAILED = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": "Request cancelled"}}


@pytest.mark.parametrize("late", [[], [ANSWER], [FAILED]])
def test_a_cancelled_call_is_cancelled_and_an_answer_that_comes_later_is_an_event(late: list[dict[str, Any]]) -> None:
    sample = frames(request(1), CANCELLED, *late, request(2))
    [result] = only(ResultRecord, sample.records)
    assert (result.result, result.is_error, result.stated_kind, sample.receipts) == (None, True, "cancelled", {})
    events = only(EventRecord, sample.records)
    assert [(event.kind, event.message, event.call) for event in events] == [
        ("notifications/cancelled", "cancelled: by the user", "1"),
        *[("answer", "the answer to a cancelled call, which the host ignores", "1")] * len(late),
    ]
    assert [event.payload for event in events[1:]] == [json.dumps(frame).encode() for frame in late]


@pytest.mark.parametrize(
    "sent",
    [
        [request(1), ANSWER, CANCELLED],
        [request(1), CANCELLED | {"params": {"requestId": "1"}}, ANSWER],
        [request(1), CANCELLED | {"params": {}}, ANSWER],
        # The server cancels a request of its own that has the same id.
        [{"dir": "out", "msg": request(1)}, {"dir": "in", "msg": CANCELLED}, {"dir": "in", "msg": ANSWER}],
        [request(1), ROOTS, CANCELLED, LISTED, ANSWER],
    ],
)
def test_a_cancellation_of_another_request_ends_no_call(sent: list[dict[str, Any]]) -> None:
    sample = frames(*sent)
    assert {call: (result.is_error, result.stated_kind) for call, result in sample.results.items()} == {
        "1": (False, None)
    }
    assert list(sample.receipts) == ["1"]


def test_a_text_and_a_number_are_two_ids() -> None:
    sample = frames(
        request(1),
        request(1) | {"id": "1"},
        request(1) | {"id": "a-1"},
        ANSWER | {"id": "1", "result": {"content": []}},
    )
    assert [call.call for call in sample.calls] == ["1", '"1"', "a-1"]
    assert list(sample.results) == ['"1"']


def test_an_id_that_is_given_again_after_its_answer_is_another_call() -> None:
    again = [request(1, arguments={"try": number}) for number in range(3)]
    sample = frames(request(1), request(1), ANSWER, again[0], FAILED, again[1], CANCELLED, again[2], ANSWER)
    assert [call.call for call in sample.calls] == ["1", "1", "1#4", "1#6", "1#8"]
    results = only(ResultRecord, sample.records)
    assert [(result.call, result.is_error, result.stated_kind) for result in results] == [
        ("1", False, None),
        ("1#4", True, None),
        ("1#6", True, "cancelled"),
        ("1#8", False, None),
    ]
