"""Spans of the Vercel AI SDK, with the names and forms of the GenAI conventions.

1. Releases up to 6, and `LegacyOpenTelemetry` of release 7, have names of their own. Their span of a whole generation
   (`ai.generateText`) has the text and the usage of the requests in it once more: it is that of an agent.
2. The result of a tool is JSON whatever it is: of a text it is a JSON string.
3. Their answers of tools state the form in which the model gets them, and how the call ended. Of a value it gets JSON,
   and of several parts what the provider takes. Releases up to 4 send the JSON of texts too. The words for a call that
   was denied without a reason are the provider's.
4. `OpenTelemetry` of release 7 has the names of the conventions, which have no place for three ends of a call: that it
   failed before its tool ran (known by the name of the SDK's error), that a person denied it, that it returned nothing.
5. `LegacyOpenTelemetry` ends the span of a request after the tools that its answer calls. The answer is placed at its
   start, as it is with Google's ADK.
"""

from __future__ import annotations

from types import NoneType
from typing import Any

import msgspec

from envelopes.recordings.otlp.message_parts import CallEnd, StatedAnswer
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, objects_of, parsed_text
from envelopes.text.untrusted_json import dump_json

SCOPE = "gen_ai"  # of release 7
_OPERATION, _FUNCTION = "ai.operationId", "ai.telemetry.functionId"
_GENERATIONS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_FINISH, _CLIENT = "ai.response.finishReason", "ai.request.headers.user-agent"
_RESULTS = ("ai.toolCall.result", "gen_ai.tool.call.result")
_MESSAGES, _CONVENTIONAL = "ai.prompt.messages", ("gen_ai.input.messages", "gen_ai.output.messages")
_ERRORS = ("AI_NoSuchToolError: ", "AI_InvalidToolInputError: ")
_MARKS = (*_ERRORS, '"denied":true', '"response":null')


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of the SDK as the conventions have it; one of others as it is."""
    if _OPERATION not in span.attributes and span.scope != SCOPE:
        return span
    attributes: Attributes = {}
    if isinstance(name := span.attributes.get(_FUNCTION), str):
        attributes["gen_ai.agent.name"] = name
    if span.attributes.get(_OPERATION) in _GENERATIONS:
        attributes["gen_ai.operation.name"] = "invoke_agent"
    attributes |= span.attributes
    for name in _RESULTS:
        value = attributes.get(name)
        if isinstance(value, str) and not isinstance(parsed_text(value), (dict, list, NoneType)):
            attributes[name] = msgspec.Raw(value.strip().encode("utf-8", "surrogatepass"))
    _read_messages(attributes, is_conventional=span.scope == SCOPE)
    ends_with_tools = str(attributes.get(_CLIENT)).startswith("ai/7") and attributes.get(_FINISH) == "tool-calls"
    end = span.start + 1 if _OPERATION in attributes and ends_with_tools else span.end
    return msgspec.structs.replace(span, attributes=attributes, end=end)


def _read_messages(attributes: Attributes, *, is_conventional: bool) -> None:
    if _MESSAGES in attributes:
        messages = objects_of(parsed_text(attributes[_MESSAGES]))
        attributes[_MESSAGES] = [
            message | {"content": [_with_answer(part) for part in message["content"]]}
            if isinstance(message.get("content"), list)
            else message
            for message in messages
        ]
    for name in _CONVENTIONAL if is_conventional else ():
        value = attributes.get(name)
        if isinstance(value, str) and any(mark in value for mark in _MARKS):
            attributes[name] = [
                message | {"parts": [_with_end(part) for part in objects_of(message.get("parts"))]}
                for message in objects_of(parsed_text(value))
            ]


def _with_answer(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "tool-result":
        return part
    answer = _read_answer(part)
    return {"type": "tool_call_response", "id": part.get("toolCallId"), "response": answer}


def _read_answer(part: dict[str, Any]) -> StatedAnswer | None:
    match part:
        case {"output": {"type": "text", "value": str(text)}}:
            return StatedAnswer(dump_json(text))
        case {"output": {"type": "error-text", "value": str(text)}}:
            return StatedAnswer(dump_json(text), end="failed")
        case {"output": {"type": "content", "value": list(parts)}}:
            return StatedAnswer(dump_json(parts), is_rebuilt=True)
        case {"output": {"type": "execution-denied"} as output}:
            return _denied(output)
        case {"output": {"type": "json", "value": value}}:
            return _rebuilt(value)
        case {"output": {"type": "error-json", "value": value}}:
            return _rebuilt(value, "failed")
        case {"output": value} | {"result": value}:
            return _rebuilt(value, "failed" if part.get("isError") is True else None)
    return None


def _with_end(part: dict[str, Any]) -> dict[str, Any]:
    """A response of release 7 with the end that follows from its words."""
    if part.get("type") != "tool_call_response" or "response" not in part:
        return part
    match part["response"]:
        case None:
            answer = _rebuilt(None)
        case str(text) if text.startswith(_ERRORS):
            answer = StatedAnswer(dump_json(text), end="failed")
        case dict(denial) if denial.get("denied") is True and denial.keys() <= {"denied", "reason"}:
            answer = _denied(denial)
        case _:
            return part
    return part | {"response": answer}


def _rebuilt(value: Any, end: CallEnd | None = None) -> StatedAnswer:
    """The JSON of a value as a text."""
    return StatedAnswer(dump_json(dump_json(value).decode()), is_rebuilt=True, end=end)


def _denied(denial: dict[str, Any]) -> StatedAnswer:
    reason = denial.get("reason")
    return StatedAnswer(dump_json(reason) if isinstance(reason, str) else b"", is_rebuilt=True, end="refused")
