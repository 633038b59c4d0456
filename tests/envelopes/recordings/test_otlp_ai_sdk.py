"""Spans of the Vercel AI SDK: what the model got for a call, how the call ended, and which spans are requests."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from envelopes.recordings import find_format
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.otlp.conventions import run_name
from envelopes.recordings.otlp.span_lines import span_lines
from envelopes.recordings.otlp.spans import TraceSpan
from tests.cases import each
from tests.envelopes.recordings.test_otlp_frameworks import SPAN
from tests.envelopes.session_lines import only

OPERATION = "ai.generateText.doGenerate"
REQUEST = msgspec.structs.replace(SPAN, name=OPERATION, scope="ai", attributes={"ai.operationId": OPERATION})
CHAT = msgspec.structs.replace(SPAN, scope="gen_ai", attributes={"gen_ai.operation.name": "chat"})
NO_TOOL = "AI_NoSuchToolError: Model tried to call unavailable tool 'x'."


def read(span: TraceSpan, **attributes: object) -> list[Record]:
    changed = msgspec.structs.replace(span, attributes=span.attributes | attributes)
    lines = [SourceLine(number, 0, line.raw) for number, line in enumerate(span_lines([changed]), start=1)]
    records: list[Any] = list(find_format("otlp").read(lines, SourcePath("traces.jsonl"), {}))
    return records


def answer(records: list[Record]) -> tuple[object, ...]:
    """The receipt with its fidelity, and the error that the message states; None for what it does not have."""
    receipts, results = only(ReceiptRecord, records), only(ResultRecord, records)
    [receipt] = receipts or [None]
    [result] = results or [None]
    assert result is None or (result.result, result.fidelity, result.is_error) == (None, "absent", True)
    stated = None if result is None else result.stated_kind or "failed"
    return (None, None, stated) if receipt is None else (json.loads(receipt.content), receipt.fidelity, stated)


PARTS = [{"type": "text", "text": "a"}, {"type": "media", "data": "AA=="}]


@each(
    ("part", "expected"),
    [
        # releases 5 and 6
        ({"output": {"type": "text", "value": "2 hits"}}, ("2 hits", "exact", None)),
        ({"output": {"type": "json", "value": {"hits": 2}}}, ('{"hits":2}', "reconstructed", None)),
        ({"output": {"type": "json", "value": "2 hits"}}, ('"2 hits"', "reconstructed", None)),
        ({"output": {"type": "json", "value": None}}, ("null", "reconstructed", None)),
        ({"output": {"type": "content", "value": PARTS}}, (PARTS, "reconstructed", None)),
        ({"output": {"type": "error-text", "value": "no hits"}}, ("no hits", "exact", "failed")),
        ({"output": {"type": "error-json", "value": [1]}}, ("[1]", "reconstructed", "failed")),
        ({"output": {"type": "execution-denied", "reason": "no"}}, ("no", "reconstructed", "write_denied")),
        ({"output": {"type": "execution-denied"}}, (None, None, "write_denied")),
        ({"output": "a form of a later release"}, ('"a form of a later release"', "reconstructed", None)),
        # up to 4 the JSON of a text is sent
        ({"result": "2 hits"}, ('"2 hits"', "reconstructed", None)),
        ({"result": {"hits": 2}}, ('{"hits":2}', "reconstructed", None)),
        ({"result": "no hits", "isError": True}, ('"no hits"', "reconstructed", "failed")),
        ({}, (None, None, None)),
    ],
)
def test_an_answer_states_what_was_sent_and_how_the_call_ended(part: dict[str, Any], expected: tuple[object]) -> None:
    told = {"type": "tool-result", "toolCallId": "c1", "toolName": "search", **part}
    messages = json.dumps([{"role": "tool", "content": [told]}])
    assert answer(read(REQUEST, **{"ai.prompt.messages": messages})) == expected


@each(
    ("response", "expected"),
    [
        ("2 hits", ("2 hits", "exact", None)),
        ({"hits": 2}, ('{"hits":2}', "reconstructed", None)),
        (None, ("null", "reconstructed", None)),
        (NO_TOOL, (NO_TOOL, "exact", "failed")),
        (f"It says {NO_TOOL}", (f"It says {NO_TOOL}", "exact", None)),
        ({"denied": True, "reason": "no"}, ("no", "reconstructed", "write_denied")),
        ({"denied": True, "by": "me"}, ('{"denied":true,"by":"me"}', "reconstructed", None)),
    ],
)
def test_an_answer_of_release_7_is_known_by_its_words(response: object, expected: tuple[object]) -> None:
    part = {"type": "tool_call_response", "id": "c1", "response": response}
    # JavaScript writes no spaces.
    messages = json.dumps([{"role": "tool", "parts": [part]}], separators=(",", ":"))
    assert answer(read(CHAT, **{"gen_ai.input.messages": messages})) == expected
    other = msgspec.structs.replace(CHAT, scope="another")
    assert answer(read(other, **{"gen_ai.input.messages": messages}))[2] is None


@each(
    ("recorded", "result"),
    [
        ('"line one\\nline two"', b'"line one\\nline two"'),
        ('"{\\"a\\":1}"', b'"{\\"a\\":1}"'),
        ('{"a":1}', b'{"a":1}'),
        ("42", b"42"),
        ("false", b"false"),
        ("no JSON", b'"no JSON"'),
    ],
)
def test_the_result_of_a_tool_is_the_value_of_its_json(recorded: str, result: bytes) -> None:
    named = {"ai.operationId": "ai.toolCall", "ai.toolCall.id": "c1", "ai.toolCall.name": "search"}
    tool = msgspec.structs.replace(SPAN, name="ai.toolCall", scope="ai", attributes=named)
    assert [record.result for record in only(ResultRecord, read(tool, **{"ai.toolCall.result": recorded}))] == [result]
    conventional = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1"}
    tool = msgspec.structs.replace(SPAN, scope="gen_ai", attributes=conventional)
    records = read(tool, **{"gen_ai.tool.call.result": recorded})
    assert [record.result for record in only(ResultRecord, records)] == [result]


def test_the_span_of_a_generation_is_no_request() -> None:
    """It has the usage of all requests in it, which was shown as the weight of one."""
    attributes = {"ai.operationId": "ai.streamText", "ai.usage.inputTokens": 700, "ai.telemetry.functionId": "helper"}
    records = read(msgspec.structs.replace(SPAN, name="ai.streamText", scope="ai", attributes=attributes))
    assert not only(UsageRecord, records)
    assert {record.kind for record in only(EventRecord, records)} == {"agent.started", "agent.finished"}
    assert [(record.title, record.agent) for record in only(RunRecord, records)] == [("helper", "helper")]
    embedding = msgspec.structs.replace(CHAT, attributes={"gen_ai.operation.name": "embeddings"})
    assert read(embedding, **{"gen_ai.usage.input_tokens": 700}) == []


def test_calls_are_before_the_tools_that_run_within_the_span_of_their_request() -> None:
    """`LegacyOpenTelemetry` of release 7 ends that span after them."""
    calls = json.dumps([{"toolCallId": name, "toolName": "search", "input": "{}"} for name in ("c1", "c2")])
    for client, finish, places in (
        ("ai/7.0.173", "tool-calls", {"c1": SPAN.start + 1, "c2": SPAN.start + 2}),
        ("ai/6.0.326", "tool-calls", {"c1": SPAN.end - 1, "c2": SPAN.end}),
        ("ai/7.0.173", "stop", {"c1": SPAN.end - 1, "c2": SPAN.end}),
    ):
        ended = {"ai.request.headers.user-agent": client, "ai.response.finishReason": finish}
        records = read(REQUEST, **ended, **{"ai.response.toolCalls": calls, "ai.prompt.messages": "[]"})
        assert {record.call: record.position for record in only(CallRecord, records)} == places


def test_both_halves_of_release_4_are_in_the_run_of_the_trace() -> None:
    """Its spans of tools do not name the session."""
    named = {"ai.telemetry.metadata.sessionId": "talk"}
    for mark, run in (("ai.prompt.format", SPAN.trace), ("ai.settings.maxSteps", SPAN.trace), ("other", "talk")):
        assert run_name(msgspec.structs.replace(REQUEST, attributes={**named, mark: "x"})) == run
