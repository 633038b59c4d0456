"""Spans of MLflow, of Langfuse and of Logfire, whose requests, answers, arguments and results are one JSON value each.

1. MLflow writes every attribute as JSON, a text too. With `MLFLOW_ENABLE_OTEL_GENAI_SEMCONV` it has the names of the
   conventions, and results of tools are JSON still.
2. Langfuse writes a text as it is. The arguments of a function that it observes are those of a Python call.
3. Logfire's version 1 of its spans of OpenAI and Anthropic has a `request_data`, and those of Responses `events`, of
   which the last ones of the assistant are the answer. Its spans of the OpenAI Agents SDK have a call's values in
   `name`, `input` and `output`.
4. OpenLIT writes the blocks of an answer to Anthropic as Python prints them, and the system prompt twice.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable
from typing import Any

import msgspec

from envelopes.recordings.otlp.conventions import CHOICE, MESSAGE_EVENTS
from envelopes.recordings.otlp.frameworks.provider_messages import answer_attributes, request_attributes
from envelopes.recordings.otlp.message_parts import StatedAnswer, state_answer
from envelopes.recordings.otlp.spans import Attributes, SpanEvent, TraceSpan, as_text, objects_of, parsed_text

MLFLOW, LANGFUSE, AGENTS = "mlflow.tracing.provider", "langfuse-sdk", "logfire.openai_agents"
OPENLIT = "openlit.instrumentation."
ANTHROPIC = "logfire.anthropic"
LOGFIRE = ("logfire.openai", ANTHROPIC, AGENTS)
_REQUEST, _ANSWER = "gen_ai.input.messages", "gen_ai.output.messages"
_RESULT = "gen_ai.tool.call.result"
# Attributes of Logfire whose content is in the parts.
_CONTENTS = (
    "request_data",
    "response_data",
    "events",
    "input",
    "output",
    "raw_input",
    "response",
    "logfire.json_schema",
)
_MOST_PRINTED = 256 * 1024  # characters: Python takes a hundred times the memory to read them
_INPUT_COUNTS = ("input_tokens", "prompt_tokens", "input")
_OUTPUT_COUNTS = ("output_tokens", "completion_tokens", "output")
_OPERATIONS = {
    **dict.fromkeys(("CHAT_MODEL", "LLM", "generation"), "chat"),
    **dict.fromkeys(("TOOL", "tool"), "execute_tool"),
    **dict.fromkeys(("AGENT", "agent"), "invoke_agent"),
}


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of one of them as the conventions have it; one of others as it is."""
    readers: dict[str, Callable[[TraceSpan], TraceSpan]] = {MLFLOW: _mlflow, LANGFUSE: _langfuse}
    readers |= dict.fromkeys(LOGFIRE, _logfire)
    reader = _openlit if span.scope.startswith(OPENLIT) else readers.get(span.scope)
    return span if reader is None else reader(span)


def _mlflow(span: TraceSpan) -> TraceSpan:
    attributes = dict(span.attributes)
    if _RESULT in attributes:
        attributes[_RESULT] = raw_json(attributes[_RESULT])
    read = {name: parsed_text(attributes.get(f"mlflow.{name}")) for name in ("spanType", "spanInputs", "spanOutputs")}
    usage = parsed_text(attributes.get("mlflow.chat.tokenUsage"))
    model = {"gen_ai.request.model": parsed_text(attributes.get("mlflow.llm.model"))}
    named = _observation(span, read["spanType"], read["spanInputs"], attributes.get("mlflow.spanOutputs"), usage)
    used = ("mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.tools", "tools") if named else ()
    rest = {name: value for name, value in attributes.items() if name not in used}
    return msgspec.structs.replace(span, attributes=rest | named | (model if named else {}))


def _langfuse(span: TraceSpan) -> TraceSpan:
    prefix = "langfuse.observation."
    given = parsed_text(span.attributes.get(f"{prefix}input"))
    kind, output = span.attributes.get(f"{prefix}type"), span.attributes.get(f"{prefix}output")
    usage = parsed_text(span.attributes.get(f"{prefix}usage_details"))
    named = _observation(span, kind, given, output, usage)
    if not named:
        return span
    rest = {
        name: span.attributes[name] for name in span.attributes if name not in (f"{prefix}input", f"{prefix}output")
    }
    model = {"gen_ai.request.model": span.attributes.get(f"{prefix}model.name")}
    return msgspec.structs.replace(span, attributes=rest | model | named)


def _observation(span: TraceSpan, kind: Any, given: Any, output: Any, usage: Any) -> Attributes:
    """`given` is a value, `output` the text that may be JSON."""
    operation = _OPERATIONS.get(kind) if isinstance(kind, str) else None
    match operation:
        case "chat":
            answer = parsed_text(output)
            read = request_attributes(given) | answer_attributes(output if answer is None else answer)
            counts = usage if isinstance(usage, dict) else {}
            read["gen_ai.usage.input_tokens"] = next((counts[name] for name in _INPUT_COUNTS if name in counts), None)
            read["gen_ai.usage.output_tokens"] = next((counts[name] for name in _OUTPUT_COUNTS if name in counts), None)
        case "execute_tool":
            read = {"gen_ai.tool.name": span.name, "gen_ai.tool.call.arguments": as_text(call_arguments(given))}
            read[_RESULT] = raw_json(output) if span.scope == MLFLOW else output
        case "invoke_agent":
            read = {"gen_ai.agent.name": span.name}
        case _:
            return {}
    return {"gen_ai.operation.name": operation, **{name: value for name, value in read.items() if value is not None}}


def raw_json(value: Any) -> Any:
    """A text of JSON as the JSON that it is, so that a text in it is no text of a text; any other value as it is."""
    is_json = isinstance(value, str) and parsed_text(value) is not None
    return msgspec.Raw(value.encode("utf-8", "surrogatepass")) if is_json else value


def call_arguments(given: Any) -> Any:
    """The arguments of a Python call that has none but named ones; any other value as it is."""
    match given:
        case {"kwargs": dict(named), **others} if not others.get("args"):
            return named
    return given


def _logfire(span: TraceSpan) -> TraceSpan:
    attributes = span.attributes
    read = _agents_values(span) if span.scope == AGENTS else {}
    request, answer = (parsed_text(attributes.get(name)) for name in ("request_data", "response_data"))
    if not read and isinstance(request, dict) and "messages" in request:
        read = request_attributes(request) | answer_attributes(answer)
        for part in (part for message in read.get(_ANSWER, ()) for part in message["parts"]):
            match parsed_text(part.get("arguments")):
                case {"input": dict(arguments), **others} if span.scope == ANTHROPIC and not others:
                    part["arguments"] = arguments
    events = [] if read else _listed_events(parsed_text(attributes.get("events")))
    rest = (
        {name: value for name, value in attributes.items() if name not in _CONTENTS} if read or events else attributes
    )
    return msgspec.structs.replace(span, attributes=rest | read, events=(*span.events, *events))


def _agents_values(span: TraceSpan) -> Attributes:
    attributes = span.attributes
    given, output, name = (attributes.get(key) for key in ("input", "output", "name"))
    if span.name == "Function: {name}":
        read = {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": given, _RESULT: output}
        return {"gen_ai.operation.name": "execute_tool", **read}
    if span.name == "Agent run: {name!r}":
        return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    messages = parsed_text(given)
    return request_attributes(messages) | answer_attributes(parsed_text(output)) if isinstance(messages, list) else {}


def _listed_events(listed: Any) -> list[SpanEvent]:
    """The events of an attribute, of which the last ones of the assistant are the answer."""
    events = [SpanEvent(str(event.get("event.name")), event) for event in objects_of(listed)]
    answer = len(events)
    while answer and MESSAGE_EVENTS.get(events[answer - 1].name) == "assistant":
        answer -= 1
    return [*events[:answer], *(SpanEvent(CHOICE, event.attributes) for event in events[answer:])]


def _openlit(span: TraceSpan) -> TraceSpan:
    attributes = dict(span.attributes)
    messages = objects_of(parsed_text(attributes.get(_REQUEST)))
    if messages and messages[0].get("role") == "system":
        attributes.pop("gen_ai.system_instructions", None)
    for part in (part for message in messages for part in objects_of(message.get("parts"))):
        if isinstance(answer := part.get("response"), str) and answer.startswith("[{'"):
            part["response"] = _printed_answer(answer)
    return msgspec.structs.replace(span, attributes=attributes | ({_REQUEST: messages} if messages else {}))


def _printed_answer(printed: str) -> StatedAnswer:
    """The blocks that Python printed so; the tool may have returned the very text, but hardly."""
    try:
        answer = state_answer(literal_eval(printed) if len(printed) <= _MOST_PRINTED else printed)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        answer = state_answer(printed)
    return answer._replace(is_rebuilt=True)
