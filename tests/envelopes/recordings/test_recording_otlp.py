"""Traces: receipts that are exact, rebuilt or absent, names of earlier releases, and parts that are no text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.alignment.receipt_parts import parse_parts
from envelopes.halves import read_halves
from envelopes.recordings.base import CallRecord, EventRecord, MessageRecord, ReceiptRecord, RunRecord, UsageRecord
from envelopes.recordings.otlp import conventions
from envelopes.recordings.otlp.frameworks import openinference
from envelopes.recordings.otlp.message_parts import message_parts
from envelopes.recordings.otlp.span_lines import span_lines
from envelopes.recordings.otlp.spans import earliest_lines, json_spans
from envelopes.text.untrusted_json import dump_json
from tests.envelopes.recordings.samples import Sample, read_bytes
from tests.envelopes.session_lines import only


def trace_request(attributes: dict[str, str], *events: dict[str, Any], name: str = "chat") -> dict[str, Any]:
    """A request with one span."""
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": name,
        "startTimeUnixNano": "1767261600000000000",
        "endTimeUnixNano": "1767261601000000000",
        "attributes": [{"key": name, "value": {"stringValue": text}} for name, text in attributes.items()],
        "events": list(events),
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def trace(attributes: dict[str, str], *events: dict[str, Any], name: str = "chat") -> Sample:
    request = trace_request(attributes, *events, name=name)
    return read_bytes(json.dumps(request).encode() + b"\n", "traces.jsonl")


def receipts(sample: Sample) -> list[tuple[Any, str]]:
    return [(json.loads(record.content), record.fidelity) for record in only(ReceiptRecord, sample.records)]


PARTS = [{"type": "text", "text": "2 hits"}]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("2 hits", [("2 hits", "exact")]),
        (PARTS, [(PARTS, "exact")]),
        ({"hits": 2}, [('{"hits":2}', "reconstructed")]),
        (2, [("2", "reconstructed")]),
        (None, []),
    ],
)
def test_a_receipt_is_exact_only_where_its_text_was_recorded(response: object, expected: list[Any]) -> None:
    """A value was sent in a spelling that is not recorded; without a content nothing was captured."""
    part = {"type": "tool_call_response", "id": "c1", "response": response}
    messages = json.dumps([{"role": "tool", "parts": [part]}])
    assert receipts(trace({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages})) == expected


OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}
OPENAI_PARTS = [{"type": "text", "content": "a"}, {"type": "image_url"}]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}, [("call", {"q": 1})]),
        (
            {"role": "assistant", "parts": [{"type": "text", "content": ""}], "tool_calls": [OPENAI_CALL]},
            [("call", {"q": 1})],
        ),
        (
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1"}], "tool_calls": [OPENAI_CALL]},
            [("call", None)],
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": "2 hits"}, [("response", "2 hits")]),
        (
            {"role": "tool", "tool_call_id": "c1", "parts": [{"type": "text", "content": "2 hits"}]},
            [("response", "2 hits")],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": OPENAI_PARTS},
            [("response", [{"type": "text", "text": "a"}, {"type": "image_url"}])],
        ),
        ({"role": "tool", "tool_call_id": "", "content": "2 hits"}, [("text", "2 hits")]),
    ],
)
def test_messages_of_litellm_have_their_calls_and_answers_as_openai_has_them(
    message: dict[str, Any], expected: list[Any]
) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([message])}
    [span] = json_spans(trace_request(attributes))
    assert [(part.kind, json.loads(part.content or "null")) for part in message_parts(span)] == expected


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("openinference.instrumentation.anthropic", [("c1", True)]),
        ("openinference.instrumentation.openai", [("c1", False)]),
    ],
)
def test_blocks_as_json_are_not_what_was_sent_where_the_request_itself_was_cut(scope: str, expected: list[Any]) -> None:
    message = "llm.input_messages.0.message."
    answer = {f"{message}role": "tool", f"{message}tool_call_id": "c1", f"{message}content": '[{"type":"text"}]'}
    attributes = answer | {"openinference.span.kind": "LLM", "input.value": '{"messages":[{"role":"user","con'}
    [span] = json_spans(trace_request(attributes))
    span = openinference.as_genai(msgspec.structs.replace(span, scope=scope))
    assert [(part.call, part.is_rebuilt) for part in message_parts(span)] == expected


@pytest.mark.parametrize("args", [{}, {"arguments": None}])
def test_arguments_that_were_not_captured_are_not_null(args: dict[str, None]) -> None:
    listed = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", **args}]}]
    openai = [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "find", **args}}]}]
    dotted = {"gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "find"}
    for messages in (
        {"gen_ai.input.messages": json.dumps(listed)},
        {"gen_ai.input.messages": json.dumps(openai)},
        dotted,
    ):
        records = trace({"gen_ai.operation.name": "chat", **messages}).records
        assert {(call.tool, call.args) for call in only(CallRecord, records)} == {("find", None)}


INSTRUCTIONS = json.dumps([{"type": "text", "content": "Be brief."}])
TWO = json.dumps([{"type": "text", "content": "Be brief."}, {"type": "text", "content": "And kind."}])
SCHEMAS = ['{"type":"function","function":{"name":"a"}}', '{"name":"b"}']
TOOLS = [json.loads(schema) for schema in SCHEMAS]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.system_instructions": INSTRUCTIONS}, [("system prompt", "Be brief.")]),
        ({"gen_ai.system_instructions": "Be brief."}, [("system prompt", "Be brief.")]),
        ({"gen_ai.system_instructions": TWO}, [("system prompt", ["Be brief.", "And kind."])]),
        ({"gen_ai.tool.definitions": json.dumps(TOOLS)}, [("tool definitions", TOOLS)]),
        ({"ai.prompt.tools": json.dumps(SCHEMAS)}, [("tool definitions", SCHEMAS)]),
        (
            {f"llm.tools.{index}.tool.json_schema": schema for index, schema in reversed([*enumerate(SCHEMAS)])},
            [("tool definitions", TOOLS)],
        ),
        ({"gen_ai.system_instructions": "", "gen_ai.tool.definitions": ""}, []),
    ],
)
@pytest.mark.parametrize("operation", ["chat", "invoke_agent"])
def test_what_stands_in_every_request_is_a_message_of_its_kind(
    attributes: dict[str, str], expected: list[Any], operation: str
) -> None:
    """The spans of agents have it too, and no message of their model's spans a second time."""
    messages = {"gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}])}
    sample = trace({"gen_ai.operation.name": operation, **attributes, **messages})
    records = only(MessageRecord, sample.records)
    assert [(record.kind, json.loads(record.content)) for record in records if record.kind] == expected
    assert [record.role for record in records if not record.kind] == ["user"] * (operation == "chat")


def test_what_stands_in_every_request_is_stored_once_and_not_in_each_span() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.system_instructions": INSTRUCTIONS}
    [span] = json_spans(trace_request(attributes))
    later = msgspec.structs.replace(span, span="ef" * 8, start=span.start + 5)
    lines = earliest_lines(span_lines([later, span]))
    assert [line.at for line in lines if b"Be brief." in line.raw] == [span.start]


def test_a_request_has_all_that_came_before_its_answer() -> None:
    """Its place is the end of the span, where the model's own messages are; its time is the beginning."""
    said = {"gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"hi"}]}]'}
    [span] = json_spans(trace_request({"gen_ai.operation.name": "chat", **said}))
    counted = msgspec.structs.replace(span, attributes={**span.attributes, "gen_ai.usage.input_tokens": 40})
    lines = b"\n".join(line.raw for line in span_lines([counted]))
    sample = read_bytes(lines, "spans.jsonl")
    [usage], [answer] = only(UsageRecord, sample.records), only(MessageRecord, sample.records)
    assert (usage.position, usage.at) == (answer.position, "2026-01-01T10:00:00.000000Z")


PARALLEL = [{"type": "text", "content": "hi"}, *({"type": "tool_call", "id": call, "name": "find"} for call in "ab")]


def test_all_calls_of_an_answer_have_its_span_as_their_step_and_its_request_before_them() -> None:
    """A request that repeats them sets none, and neither does the span of their tool."""
    turn = json.dumps([{"role": "assistant", "parts": PARALLEL}])
    counted = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 40}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "a"}
    [base] = json_spans(trace_request({}))
    attributes = (counted | {"gen_ai.output.messages": turn}, tool, counted | {"gen_ai.input.messages": turn})
    spans = [
        msgspec.structs.replace(base, span=name * 16, parent="e" * 16, attributes=of_span)
        for name, of_span in zip("123", attributes, strict=True)
    ]
    sample = read_bytes(b"\n".join(line.raw for line in span_lines(spans)), "spans.jsonl")
    steps = {(call.call, call.step) for call in only(CallRecord, sample.records) if call.step}
    assert steps == {("a", "1" * 16), ("b", "1" * 16)}
    answer, _ = only(UsageRecord, sample.records)
    places = [call.position for call in only(CallRecord, sample.records) if call.step]
    assert (answer.request, places) == ("1" * 16, [base.end - 1, base.end])
    assert answer.position == base.end - 2


@pytest.mark.parametrize(("retry", "attempt"), [(None, 1), (1, 1), (2, 2), (0, 1), ("2", 1)])
def test_the_attempt_of_a_call_is_the_number_of_the_try_that_failed(retry: int | str | None, attempt: int) -> None:
    """Pydantic AI counts them from 1 on the spans of calls that the model may try again."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "a"}
    [base] = json_spans(trace_request({}))
    changed = msgspec.structs.replace(base, attributes=tool | {"pydantic_ai.tool.retry.attempt": retry})
    sample = read_bytes(b"\n".join(line.raw for line in span_lines([changed])), "spans.jsonl")
    assert [call.attempt for call in only(CallRecord, sample.records)] == [attempt]


def test_what_a_provider_answers_itself_comes_behind_the_call_in_the_answer() -> None:
    parts = [
        {"type": "server_tool_call", "id": "s", "name": "web", "server_tool_call": {"q": 1}},
        {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": "hit"},
    ]
    sample = trace({"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])})
    [receipt] = only(ReceiptRecord, sample.records)
    assert {call.position for call in only(CallRecord, sample.records)} == {receipt.position - 1}


def test_an_answer_without_its_content_is_no_receipt() -> None:
    dotted = {"llm.input_messages.0.message.role": "tool", "llm.input_messages.0.message.tool_call_id": "c1"}
    event = {"name": "gen_ai.tool.message", "attributes": [{"key": "id", "value": {"stringValue": "c1"}}]}
    assert receipts(trace({"openinference.span.kind": "LLM", **dotted}, event)) == []


def test_names_of_earlier_releases_of_pydantic_ai_are_read() -> None:
    tool = {"gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1", "tool_arguments": '{"q":"x"}'}
    sample = trace(tool | {"tool_response": '{"hits":2}'}, name="running tool")
    assert [(call.call, call.tool, call.args) for call in sample.calls] == [("c1", "search", b'{"q":"x"}')]
    assert [(result.result, result.fidelity) for result in sample.results.values()] == [(b'{"hits":2}', "structured")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "blob", "mime_type": "image/png", "content": "AAAA"},
        {"type": "file", "file_id": "file-1"},
        {"type": "uri", "uri": "https://example.org/a.png"},
    ],
)
def test_parts_that_are_no_text_are_kept_as_they_are(part: dict[str, str]) -> None:
    answer = {"type": "tool_call_response", "id": "c1", "response": [{"type": "text", "content": "see"}, part]}
    messages = [{"role": "user", "parts": [part]}, {"role": "tool", "parts": [answer]}]
    sample = trace({"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)})
    (message,) = only(MessageRecord, sample.records)
    assert json.loads(message.content) == [part]
    ((content, fidelity),) = receipts(sample)
    assert (content, fidelity) == ([{"type": "text", "text": "see"}, part], "exact")
    assert len(parse_parts(content)) == 2


def test_an_attribute_that_a_limit_of_the_exporter_cut_stays_as_it_is() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c1"}
    sample = trace(tool | {"gen_ai.tool.call.arguments": '{"q":"x', "gen_ai.tool.call.result": '{"hits":[1,2'})
    (call,), (result,) = sample.calls, sample.results.values()
    assert json.loads(call.args) == '{"q":"x'
    assert (json.loads(result.result or b""), result.fidelity) == ('{"hits":[1,2', "stringified")


def span(number: int, parent: int, conversation: str, **attributes: str) -> dict[str, Any]:
    pairs = {"gen_ai.conversation.id": conversation} | {
        name.replace("__", "."): text for name, text in attributes.items()
    }
    return {
        "traceId": "ab" * 16,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": "span",
        "startTimeUnixNano": f"{1767261600 + number}000000000",
        "endTimeUnixNano": f"{1767261700 - number}000000000",
        "attributes": [{"key": name, "value": {"stringValue": text}} for name, text in pairs.items()],
    }


TOOL = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "ask", "gen_ai__tool__call__id": "c1"}
AGENT = {"gen_ai__operation__name": "invoke_agent"}


@pytest.mark.parametrize(
    ("spans", "links"),
    [
        ([span(3, 2, "helper", **AGENT), span(2, 1, "boss", **TOOL)], [("helper", "boss", "c1")]),
        ([span(4, 3, "helper", **AGENT), span(3, 2, "helper"), span(2, 1, "boss", **TOOL)], [("helper", "boss", "c1")]),
        ([span(3, 2, "boss", **AGENT), span(2, 1, "boss", **TOOL)], []),
        ([span(3, 2, "helper", **AGENT), span(2, 1, "boss", **AGENT)], []),
        ([span(3, 9, "helper", **AGENT), span(2, 1, "boss", **TOOL)], []),
        ([span(3, 3, "helper", **AGENT)], []),
    ],
    ids=["in a tool", "further in", "of the same conversation", "in an agent", "elsewhere", "in itself"],
)
def test_an_agent_within_the_call_of_another_run_is_its_child(spans: list[Any], links: list[Any]) -> None:
    request = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    sample = read_bytes(json.dumps(request).encode() + b"\n", "traces.jsonl")
    runs = only(RunRecord, sample.records)
    assert [(run.run, run.parent_run, run.parent_call) for run in runs if run.parent_run] == links
    assert not sample.problems


@pytest.mark.parametrize(
    ("name", "attributes", "is_event"),
    [
        ("handoff to Refunds", {}, True),
        ("handoff", {}, True),
        ("handoff to Refunds", {"tool.name": "handoff to Refunds"}, False),
        ("handoff to Refunds", {"output.value": "done"}, False),
        ("handoffs", {}, False),
    ],
)
def test_a_handoff_is_an_event_and_no_call(name: str, attributes: dict[str, str], *, is_event: bool) -> None:
    """OpenInference writes that of the OpenAI Agents SDK as a tool; the model's call of `transfer_to_…` is the call."""
    sample = trace({"openinference.span.kind": "TOOL", **attributes}, name=name)
    assert [(event.kind, event.message) for event in only(EventRecord, sample.records)] == (
        [("agent.handoff", name)] if is_event else []
    )
    assert [call.tool for call in sample.calls] == ([] if is_event else [name])


@pytest.mark.parametrize(
    ("attributes", "exception", "kind", "message"),
    [
        ({"error.type": "timeout"}, None, "timeout", "no answer"),
        ({"error.type": "OSError"}, {"exception.type": "Other", "exception.message": "refused"}, "OSError", "refused"),
        ({"error.type": "_OTHER"}, {"exception.type": "builtins.KeyError"}, "builtins.KeyError", "no answer"),
        ({}, None, "tool_execution_failed", "no answer"),
    ],
)
def test_the_kind_of_a_failed_tool_is_its_error_type_or_that_of_its_exception(
    attributes: dict[str, str], exception: dict[str, str] | None, kind: str, message: str
) -> None:
    events = [] if exception is None else [["exception", exception]]
    error = dump_json(conventions.failure(attributes, events, "no answer"))
    halves = read_halves(agent="otlp", tool="search", args=b"{}", result=error, content=None, is_error=True)
    canonical = halves.projection.canonical
    assert canonical.error is not None
    assert (canonical.error.kind, canonical.error.message) == (kind, message)
