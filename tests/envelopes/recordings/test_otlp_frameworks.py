"""Calls of traces that have no id of their own, and values of frameworks that are missing, cut or of another kind."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.recordings import find_format
from envelopes.recordings.base import RunRecord, SourceLine, SourcePath
from envelopes.recordings.otlp.call_names import ListedMessage, name_calls
from envelopes.recordings.otlp.conventions import OPERATION, run_name, span_kind, tool_arguments
from envelopes.recordings.otlp.frameworks import google_adk, langchain, langsmith, openinference, strands
from envelopes.recordings.otlp.logs import decode_logs
from envelopes.recordings.otlp.message_parts import message_parts
from envelopes.recordings.otlp.span_lines import find_answer, part_lines, span_lines, span_parts
from envelopes.recordings.otlp.spans import SpanEvent, TraceSpan
from tests.cases import each
from tests.envelopes.session_lines import only

SPAN = TraceSpan(
    trace="ab" * 16,
    span="cd" * 8,
    parent="",
    name="chat",
    start=1_000_000,
    end=9_000_000,
    status=0,
    status_message="",
    attributes={},
    events=(),
    resource={},
    scope="",
)


def asked(text: str = "What is new?") -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def called(*parts: tuple[str | None, str, object]) -> dict[str, Any]:
    listed = [{"type": "tool_call", "id": call, "name": tool, "arguments": args} for call, tool, args in parts]
    return {"role": "assistant", "parts": listed}


def answered(*parts: tuple[str | None, object], **fields: str) -> dict[str, Any]:
    listed = [{"type": "tool_call_response", "id": call, "response": text, **fields} for call, text in parts]
    return {"role": "user", "parts": listed}


def links(*messages: dict[str, Any], is_run_a_turn: bool = False) -> list[tuple[int, object]]:
    """For each answer with a name the place of its call among all calls, and its text."""
    listed = [ListedMessage(entry, is_output=False) for entry in messages]
    parts = [part for message in name_calls(listed, is_run_a_turn=is_run_a_turn) for part in message.fields["parts"]]
    calls = [part.get("id") for part in parts if part["type"] == "tool_call"]
    named = [part for part in parts if part["type"] == "tool_call_response" and part.get("id")]
    assert len({*calls} - {None}) == len(calls) - calls.count(None), "two calls have one name"
    return [(calls.index(part["id"]) if part["id"] in calls else -1, part["response"]) for part in named]


ONE, TWO = called(("find_0", "find", {"q": 1})), called(("find_0", "find", {"q": 2}))
SIDE_BY_SIDE = [called((None, "find", 1), (None, "read", 1)), answered((None, "a"), (None, "b"))]
FIRST, SECOND = answered(("find_0", "a")), answered(("find_0", "b"))


@each(
    ("messages", "expected"),
    [
        # the places in the ids of answers are those of other calls
        ([asked(), ONE, FIRST, TWO, SECOND], [(0, "a"), (1, "b")]),
        ([asked(), ONE, FIRST, ONE, SECOND], [(0, "a"), (1, "b")]),
        # side by side: by tool, and of one tool in the order of the calls
        (
            [
                asked(),
                called(("find_0", "find", 1), ("read_1", "read", 2), ("find_2", "find", 3)),
                answered(("find_0", "a"), ("find_1", "c"), ("read_2", "b")),
            ],
            [(0, "a"), (2, "c"), (1, "b")],
        ),
        # without any id: by the tool of the answer, else where one call waits
        ([asked(), called((None, "find", 1)), answered((None, "a"))], [(0, "a")]),
        ([asked(), *SIDE_BY_SIDE], []),
        ([asked(), called((None, "find", 1)), answered((None, "a"), name="find")], [(0, "a")]),
        # an answer of a tool that was not called
        ([asked(), called(("find_0", "find", 1)), answered(("read_0", "a"))], [(-1, "a")]),
        # ids of their own stay
        ([asked(), called(("c1", "find", 1)), answered(("c1", "a"))], [(0, "a")]),
        (
            [asked(), called(("c1", "find", 1), (None, "read", 1)), answered(("c1", "a"), (None, "b"))],
            [(0, "a"), (1, "b")],
        ),
        # of several turns
        ([asked(), ONE, FIRST, called(), asked("And?"), TWO, SECOND], [(0, "a"), (1, "b")]),
        # once several calls are answered, whichever by which, the next one waits alone
        ([asked(), *SIDE_BY_SIDE, called((None, "find", 2)), answered((None, "c"))], [(2, "c")]),
        # a text beside the answers begins no turn
        ([asked(), ONE, FIRST, asked("a reminder"), TWO, SECOND], [(0, "a"), (1, "b")]),
    ],
)  # fmt: skip
def test_an_answer_is_that_of_the_call_before_it(messages: list[Any], expected: list[Any]) -> None:
    assert links(*messages) == expected


def test_calls_of_earlier_turns_have_no_name_where_a_run_is_one_turn() -> None:
    assert links(asked(), ONE, FIRST, called(), asked("And?"), TWO, SECOND, is_run_a_turn=True) == [(1, "b")]


def test_a_call_has_the_same_name_in_each_request_of_its_turn_and_another_in_the_next() -> None:
    def last_name(*messages: dict[str, Any]) -> object:
        named = name_calls([ListedMessage(entry, is_output=False) for entry in messages])
        parts = [part for message in named for part in message.fields["parts"]]
        return [part["id"] for part in parts if part["type"] == "tool_call" and "id" in part][-1]

    turn = [asked(), ONE]
    assert last_name(*turn) == last_name(*turn, answered(("find_0", "a")))
    assert last_name(*turn) != last_name(*turn, answered(("find_0", "a")), called(), asked("Again"), ONE)


@each(
    ("part", "expected"),
    [
        (
            {"type": "server_tool_call", "id": "s1", "name": "web_search", "server_tool_call": {"query": "x"}},
            ("call", "s1", "web_search", {"query": "x"}),
        ),
        (
            {"type": "server_tool_call", "id": "s1", "name": "run", "server_tool_call": {"input": {"c": 1}}},
            ("call", "s1", "run", {"c": 1}),
        ),
        (
            {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"hits": 1}},
            ("response", "s1", "", '{"hits":1}'),
        ),
        (
            {"type": "server_tool_call", "name": "web_search", "server_tool_call": {}},
            ("text", "", "", [{"type": "server_tool_call", "name": "web_search", "server_tool_call": {}}]),
        ),
    ],
)  # fmt: skip
def test_a_tool_that_the_provider_ran_is_a_call(part: dict[str, Any], expected: tuple[Any, ...]) -> None:
    attributes = {"gen_ai.input.messages": json.dumps([{"role": "assistant", "parts": [part]}])}
    [read] = message_parts(msgspec.structs.replace(SPAN, attributes=attributes))
    assert (read.kind, read.call, read.tool, json.loads(read.content)) == expected


def test_messages_may_stand_in_an_object_with_the_version_of_their_schema() -> None:
    wrapped = json.dumps({"version": "0.1.0", "messages": [asked()]})
    [read] = message_parts(msgspec.structs.replace(SPAN, attributes={"gen_ai.input.messages": wrapped}))
    assert json.loads(read.content) == "What is new?"


@pytest.mark.parametrize("scope", ["gcp.vertex.agent", "agent_framework"])
def test_a_framework_that_names_the_conversation_on_some_spans_has_runs_by_trace(scope: str) -> None:
    named = msgspec.structs.replace(SPAN, attributes={"gen_ai.conversation.id": "talk"})
    assert run_name(named) == "talk"
    assert run_name(msgspec.structs.replace(named, scope=scope)) == SPAN.trace


REQUEST = "gcp.vertex.agent.llm_request"
REASONING = {"type": "reasoning", "content": "so"}
FILE = {"type": "file_data", "file_data": {"a": 1}}
ANSWER = '[{"toolResult": {"toolUseId": "t", "content": [%s]}}]'


@each(
    ("contents", "expected"),
    [
        ([{"role": "user", "parts": [{"text": "Hi"}]}], [("user", "Hi")]),
        ([{"role": "model", "parts": [{"text": "so", "thought": True}]}], [("assistant", [REASONING])]),
        ([{"role": "user", "parts": [{"file_data": {"a": 1}}]}], [("user", [FILE])]),
        ([{"role": "user"}, 7], []),
    ],
)  # fmt: skip
def test_a_request_of_adk_is_read_in_the_form_of_its_api(contents: list[Any], expected: list[Any]) -> None:
    attributes = {REQUEST: json.dumps({"contents": contents}), "gcp.vertex.agent.llm_response": "{}"}
    span = google_adk.as_genai(msgspec.structs.replace(SPAN, scope=google_adk.SCOPE, attributes=attributes))
    assert span is not None
    assert [(part.role, json.loads(part.content)) for part in message_parts(span)] == expected
    assert span.end == SPAN.start + 1, "its end is after the tools that its answer calls"


@pytest.mark.parametrize("request_text", ['{"contents": [{"role": "us', "7", '{"contents": 1}', None])
def test_a_request_of_adk_that_was_cut_or_not_captured_stays_as_it_is(request_text: str | None) -> None:
    attributes = {REQUEST: request_text}
    span = msgspec.structs.replace(SPAN, scope=google_adk.SCOPE, attributes=attributes)
    assert google_adk.as_genai(span) == span


@each(
    ("content", "expected"),
    [
        ('[{"text": "Hi"}]', [("text", "Hi")]),
        ("no blocks", [("text", "no blocks")]),
        ('[{"text": "H', [("text", '[{"text": "H')]),
        ('[{"image": {"format": "png"}}]', [("text", [{"type": "image", "image": {"format": "png"}}])]),
        ('[{"reasoningContent": {"reasoningText": {"text": "so"}}}]', [("text", [REASONING])]),
        (ANSWER % '{"text": "a"}', [("response", [{"type": "text", "text": "a"}])]),
        (ANSWER % '{"json": {"a": 1}}', [("response", '[{"json":{"a":1}}]')]),
        ("", []),
    ],
)  # fmt: skip
def test_blocks_of_strands_are_read_as_parts(content: str, expected: list[Any]) -> None:
    span = msgspec.structs.replace(
        SPAN,
        attributes={"gen_ai.system": strands.PROVIDER, "gen_ai.operation.name": "chat"},
        events=(SpanEvent("gen_ai.user.message", {"content": content}),),
    )
    parts = list(message_parts(strands.as_genai(span)))
    assert [(part.kind, json.loads(part.content)) for part in parts] == expected


def test_a_log_event_of_such_a_framework_belongs_to_the_run_of_its_spans() -> None:
    name = {"key": "gen_ai.conversation.id", "value": {"stringValue": "talk"}}
    messages = {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps([asked()])}}
    event = {"eventName": OPERATION, "traceId": SPAN.trace, "timeUnixNano": "1000", "attributes": [name, messages]}
    scoped = {"scope": {"name": google_adk.SCOPE}, "logRecords": [event]}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [scoped]}]}).encode()
    assert {json.loads(line.raw)["run"] for line in decode_logs(body, is_json=True)} == {SPAN.trace}


ARGS = '{"q":1}'
TOOL_MESSAGE = {"content": "2 hits", "tool_call_id": "c1"}
SAVED = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"]}


@each(
    ("attributes", "expected"),
    [
        # the forms of OpenInference and of Traceloop
        ({"output.value": {"type": "tool", "data": TOOL_MESSAGE}}, ("c1", "2 hits", None)),
        ({"gen_ai.tool.call.result": {"output": SAVED | {"kwargs": TOOL_MESSAGE}}}, ("c1", "2 hits", None)),
        ({"output.value": {"type": "tool", "data": TOOL_MESSAGE | {"artifact": {"a": 1}}}}, ("c1", '{"a":1}', None)),
        # an argument without its name is not a second set of arguments
        ({"output.value": {"type": "tool", "data": TOOL_MESSAGE}, "input.value": "x"}, ("c1", "2 hits", None)),
        (
            {"output.value": {"type": "tool", "data": TOOL_MESSAGE}, "input.value": {"q": 1}},
            ("c1", "2 hits", '{"q":1}'),
        ),
        # the id of a call that failed stands beside its arguments alone
        (
            {"traceloop.entity.input": {"input_str": "", "inputs": {"q": 1}, "kwargs": {"tool_call_id": "c2"}}},
            ("c2", None, ARGS),
        ),
        # results that only look like one
        ({"output.value": {"tool_call_id": "c1"}}, (None, None, None)),
        ({"output.value": {"type": "tool", "data": {"tool_call_id": 7}}}, (None, None, None)),
    ],
)
def test_a_span_of_a_langchain_tool_has_the_id_and_the_result_of_its_message(
    attributes: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    written = {name: value if isinstance(value, str) else json.dumps(value) for name, value in attributes.items()}
    span = langchain.as_genai(msgspec.structs.replace(SPAN, attributes=written))
    names = ("gen_ai.tool.call.id", "gen_ai.tool.call.result", "gen_ai.tool.call.arguments")
    read = tuple(span.attributes.get(name) for name in names)
    assert read == expected
    assert (read[0] is None) == (span.attributes == written)


@each(
    ("scope", "attributes", "expected"),
    [
        (openinference.SMOLAGENTS, {"input.value": {"args": [], "kwargs": {"q": 1}}}, {"input.value": ARGS}),
        (openinference.LLAMA_INDEX, {"input.value": {"kwargs": {"q": 1}}}, {"input.value": ARGS}),
        (openinference.SMOLAGENTS, {"input.value": {"args": ["x"], "kwargs": {}}}, None),
        (
            openinference.LLAMA_INDEX,
            {"output.value": {"blocks": [], "tool_name": "find", "raw_output": [1], "is_error": True}},
            {"output.value": "[1]", "gen_ai.tool.status": "error"},
        ),
        (
            openinference.DSPY,
            {"input.value": {"kwargs": {"q": 1}}, "output.value": "2 hits"},
            {"tool.name": "chat", "input.value": ARGS, "output.value": msgspec.Raw(b'"2 hits"')},
        ),
        ("openinference.instrumentation.agno", {"input.value": {"kwargs": {"q": 1}}}, None),
        (openinference.SMOLAGENTS, {"output.value": {"blocks": [], "tool_name": "", "raw_output": 1}}, None),
    ],
)
def test_a_tool_of_openinference_has_its_own_values(scope: str, attributes: Any, expected: Any) -> None:
    written = {name: json.dumps(value) for name, value in attributes.items()} | {"openinference.span.kind": "TOOL"}
    span = openinference.as_genai(msgspec.structs.replace(SPAN, scope=scope, attributes=written))
    assert span.attributes == written | (expected or {})


def test_answers_of_autogen_stand_in_one_message() -> None:
    answers = [{"name": "find", "content": text, "call_id": call} for call, text in (("c1", "a"), ("c2", "b"))]
    message = "llm.input_messages.3."
    attributes = {f"{message}function.{place}": json.dumps(answer) for place, answer in enumerate(answers)}
    parts = message_parts(msgspec.structs.replace(SPAN, attributes={f"{message}message.role": "function"} | attributes))
    assert [(part.kind, part.call, json.loads(part.content)) for part in parts] == [
        ("response", "c1", "a"),
        ("response", "c2", "b"),
    ]


@each(
    ("parameters", "is_schema"),
    [
        ({"city": {"type": "string", "description": "the city"}}, True),
        ({"type": "object", "properties": {}}, True),
        ({"city": "Bonn"}, False),
        ({"city": {"type": "string"}}, False),
        ({}, False),
    ],
)
def test_the_schema_of_parameters_is_no_arguments(parameters: Any, *, is_schema: bool) -> None:
    read = tool_arguments({"tool.parameters": json.dumps(parameters)})
    assert (read is None) == is_schema


def test_calls_that_a_request_repeats_under_the_ids_of_their_items_are_left_out() -> None:
    repeated = [asked(), called(("fc_1", "find", 1)), answered(("call_1", "a"))]
    named = [part for message in names(repeated) for part in message["parts"] if part["type"] == "tool_call"]
    assert named == []
    own = [asked(), called(("fc_1", "find", 1)), answered(("fc_1", "a"))]
    assert names(own) == own
    answer = ListedMessage(called(("fc_2", "find", 2)), is_output=True)
    assert name_calls([*(ListedMessage(entry, is_output=False) for entry in repeated), answer])[-1] == answer


def names(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message.fields for message in name_calls([ListedMessage(entry, is_output=False) for entry in messages])]


def test_the_parts_of_a_request_and_of_its_answer_stand_in_their_order() -> None:
    """Also where a request repeats a conversation that no span before it has: all its parts are of one time."""
    request = [asked("a"), called(("c1", "find", 1)), answered(("c1", "b")), asked("c")]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": "prompt",
        "gen_ai.input.messages": json.dumps(request),
        "gen_ai.output.messages": json.dumps([called(("c2", "find", 2), ("c3", "find", 3))]),
    }
    for end in (SPAN.end, SPAN.start):
        changed = msgspec.structs.replace(SPAN, attributes=attributes, end=end)
        parts = span_parts(changed)
        lines = list(part_lines("run", parts, changed.start, find_answer(changed, parts), {}))
        times = [line.at for line in lines]
        assert times == sorted(set(times)), end
        contents = [json.loads(line.raw)["content"] for line in lines]
        assert contents == ["prompt", "a", 1, "b", "c", 2, 3]
    assert times[0] == SPAN.start


@pytest.mark.parametrize(
    ("service", "parent", "name", "title"),
    [
        ("shop", "", "gen_ai.agent.name", "shop"),
        ("unknown_service:python", "", "gen_ai.agent.name", "weather"),
        ("unknown_service:python", "ab" * 8, "gen_ai.agent.name", None),
        (None, "", "gen_ai.agent.name", "weather"),
        (None, "", "gen_ai.workflow.name", "weather"),
    ],
)
def test_a_run_is_named_by_its_service_or_by_its_first_agent(
    service: str | None, parent: str, name: str, title: str | None
) -> None:
    operation = "invoke_workflow" if "workflow" in name else "invoke_agent"
    attributes = {"gen_ai.operation.name": operation, name: "weather"}
    resource = {} if service is None else {"service.name": service}
    span = msgspec.structs.replace(SPAN, attributes=attributes, resource=resource, parent=parent)
    records = [record for line in span_lines([span]) for record in read_lines(line.raw)]
    assert [record.title for record in only(RunRecord, records)] == [title]


def read_lines(raw: bytes) -> list[Any]:
    return list(find_format("otlp").read([SourceLine(1, 0, raw)], SourcePath("traces.jsonl"), {}))


OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}


@each(
    ("messages", "expected"),
    [
        ([{"role": "user", "content": "Hi"}], [("text", "user", "Hi")]),
        ([{"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}], [("call", "assistant", {"q": 1})]),
        ([{"role": "tool", "tool_call_id": "c1", "content": "2 hits"}], [("response", "tool", "2 hits")]),
        ([[{"kwargs": {"type": "ai", "content": [{"type": "text", "text": "so"}]}}]], [("text", "assistant", "so")]),
        (
            [{"kwargs": {"type": "ai", "content": [{"type": "tool_use"}], "tool_calls": [{"id": "c", "name": "f"}]}}],
            [("call", "assistant", None)],
        ),
        ([{"type": "human", "content": [{"type": "image"}]}], [("text", "user", [{"type": "image"}])]),
        (7, []),
    ],
)  # fmt: skip
def test_messages_of_langsmith_are_those_of_langchain_and_of_openai(messages: Any, expected: list[Any]) -> None:
    written = {"langsmith.span.kind": "llm", "gen_ai.prompt": json.dumps({"messages": messages})}
    span = langsmith.as_genai(msgspec.structs.replace(SPAN, scope="langsmith", attributes=written))
    assert [(part.kind, part.role, json.loads(part.content or "null")) for part in message_parts(span)] == expected


def test_an_answer_of_langsmith_and_what_else_a_request_has_are_read() -> None:
    prompt = {"messages": [], "model": "m", "tools": [{"type": "function"}]}
    completion = {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}
    written = {
        "langsmith.span.kind": "llm",
        "gen_ai.prompt": json.dumps(prompt),
        "gen_ai.completion": json.dumps(completion),
    }
    span = langsmith.as_genai(msgspec.structs.replace(SPAN, scope="langsmith", attributes=written))
    assert [(json.loads(part.content), part.is_output) for part in message_parts(span)] == [("Done.", True)]
    assert span.attributes["gen_ai.tool.definitions"] == prompt["tools"]
    assert span.attributes["langsmith.request"] == {"model": "m"}


def test_a_text_of_langsmith_that_was_cut_stays_as_it_is() -> None:
    written = {"langsmith.span.kind": "llm", "gen_ai.prompt": '{"messages": [{"ro'}
    span = msgspec.structs.replace(SPAN, scope="langsmith", attributes=written)
    assert langsmith.as_genai(span) == span


@each(
    ("attributes", "kind"),
    [
        ({"mcp.method.name": "tools/call"}, "other"),
        ({"mcp.method.name": "tools/call", "gen_ai.tool.call.id": "c1"}, "tool"),
        ({"mcp.method.name": "tools/call", "gen_ai.tool.call.result": "2 hits"}, "tool"),
        ({}, "tool"),
    ],
)
def test_the_span_of_an_mcp_server_is_a_call_where_it_has_more_than_the_tool(attributes: Any, kind: str) -> None:
    called_tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    assert span_kind(msgspec.structs.replace(SPAN, attributes=called_tool | attributes)) == kind
