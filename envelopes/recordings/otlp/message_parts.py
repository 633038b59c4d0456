"""The parts of messages, from the attributes and events of a span, in whichever convention it has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from envelopes.recordings.base import SYSTEM_PROMPT, TOOL_DEFINITIONS
from envelopes.recordings.otlp.call_names import ListedMessage, name_calls
from envelopes.recordings.otlp.conventions import (
    CHOICE,
    DOTTED,
    INPUT_LISTS,
    MESSAGE_EVENTS,
    NESTED,
    OUTPUT_LISTS,
    OUTPUTS,
    RUN_IS_TRACE,
    SCRUBBED,
    SYSTEM_PROMPTS,
    TOOL_LISTS,
    TOOL_SCHEMA,
    as_json,
    first_value,
    is_scrubbed_text,
)
from envelopes.recordings.otlp.spans import Attributes, SpanEvent, TraceSpan, objects_of, parsed_text
from envelopes.text.untrusted_json import dump_json

# Instrumentations that record answers before the adapter of a provider writes them: a failure of Pydantic AI that asks
# for another try is sent to OpenAI as `{"error": "…"}`, and the span does not say which answers are failures.
# So do those of Gemini, whose API takes an object, and writes calls without ids.
NAMELESS = "openinference.instrumentation.google_genai"
REWORDED = ("pydantic-ai", NAMELESS, "opentelemetry.instrumentation.google_generativeai")
# These have a list of blocks as a text of JSON, where the request itself cannot be read (`frameworks.openinference`).
BLOCKS_AS_JSON = ("openinference.instrumentation.anthropic", "openinference.instrumentation.bedrock")
CallEnd: TypeAlias = Literal["failed", "refused"]


class TracePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message: a `call` with its arguments, the `response` that the model got for one, or a `text`.

    `content` is JSON. `is_output`: the model wrote it in this span. `is_rebuilt`: it was recorded as a value, and the
    text that the model got of it is not known. `is_masked`: Logfire wrote another text in its place. `standing` is one
    of STANDING_KINDS, empty for a part of a message. `end` is that of the call, where a response states it. The content
    is empty for arguments that were not captured, and for a response of which only the end was recorded.
    """

    kind: Literal["call", "response", "text"]
    role: str
    content: bytes
    call: str = ""
    tool: str = ""
    is_output: bool = False
    is_rebuilt: bool = False
    is_masked: bool = False
    standing: str = ""
    end: CallEnd | None = None


class StatedAnswer(NamedTuple):
    """A response in a message, in the place of its content, of which a framework states more: see TracePart."""

    content: bytes
    is_rebuilt: bool = False
    end: CallEnd | None = None


def standing_parts(attributes: Attributes) -> Iterator[TracePart]:
    """The system prompt and the definitions of the tools, in whichever convention a span has them."""
    prompt = attributes.get(SYSTEM_PROMPTS)
    texts = [part.content for text in _objects_of(prompt) for part in _part(text, "system", is_output=False)]
    if not texts and isinstance(prompt, str) and prompt:
        texts = [dump_json(prompt)]
    if texts:
        content = texts[0] if len(texts) == 1 else b"[" + b",".join(texts) + b"]"
        yield TracePart(kind="text", role="system", content=content, standing=SYSTEM_PROMPT)
    tools = first_value(attributes, TOOL_LISTS)
    numbered = [
        (int(found[1]), as_json(attributes[name])) for name in attributes if (found := TOOL_SCHEMA.fullmatch(name))
    ]
    if tools is not None or numbered:
        listed = b"[" + b",".join(schema for _, schema in sorted(numbered)) + b"]"
        content = listed if tools is None else as_json(tools)
        yield TracePart(kind="text", role="system", content=content, standing=TOOL_DEFINITIONS)


def message_parts(span: TraceSpan) -> Iterator[TracePart]:
    """The parts of all messages of a model span in their order, in whichever convention it has them."""
    is_scrubbed, is_reworded = SCRUBBED in span.attributes, span.scope in REWORDED
    for part in _recorded_parts(span):
        if part.kind == "response" and (is_scrubbed or is_reworded):
            is_masked = is_scrubbed and is_scrubbed_text(part.content)
            yield msgspec.structs.replace(part, is_masked=is_masked, is_rebuilt=part.is_rebuilt or is_reworded)
        else:
            yield part


def _recorded_parts(span: TraceSpan) -> Iterator[TracePart]:
    attributes = span.attributes
    listed = [
        ListedMessage(message, is_output=name in OUTPUT_LISTS)
        for name in (*INPUT_LISTS, *OUTPUT_LISTS)
        for message in _objects_of(attributes.get(name))
    ]
    listed += _dotted_messages(span)
    for message in name_calls(listed, is_run_a_turn=span.scope in RUN_IS_TRACE):
        yield from _listed_parts(message.fields, is_output=message.is_output)
    for call in _objects_of(attributes.get("ai.response.toolCalls")):
        yield from _part({"type": "tool-call", **call}, "assistant", is_output=True)
    if isinstance(text := attributes.get("ai.response.text"), str) and text:
        yield TracePart(kind="text", role="assistant", content=dump_json(text), is_output=True)
    for event in span.events:
        if event.name in MESSAGE_EVENTS:
            yield from _event_parts(event)


def _event_parts(event: SpanEvent) -> Iterator[TracePart]:
    """The message of an event; a choice may have it as an object, or as the JSON of one."""
    is_output, message = event.name == CHOICE, event.attributes.get("message")
    message = next(_objects_of([message]), None) or next(_objects_of(f"[{message}]"), {}) if is_output else {}
    fields = {**event.attributes, **message}
    role, content = str(fields.get("role") or MESSAGE_EVENTS[event.name]), fields.get("content")
    call = fields.get("id") or fields.get("tool_call_id")
    if role == "tool" and isinstance(call, str) and call:
        yield from _response(content, role, call)
    elif content:
        yield TracePart(kind="text", role=role, content=as_json(content), is_output=is_output)
    yield from _called(fields, role, is_output=is_output)


def _called(fields: dict[str, Any], role: str, *, is_output: bool) -> Iterator[TracePart]:
    """The calls of a message in the form of OpenAI's API."""
    for entry in _objects_of(fields.get("tool_calls")):
        function = entry.get("function")
        if isinstance(function, dict) and isinstance(entry.get("id"), str):
            yield _call_part(entry["id"], role, function.get("name"), function.get("arguments"), is_output=is_output)


def _call_part(call: str, role: str, tool: Any, args: Any, *, is_output: bool) -> TracePart:
    content = b"" if args is None else as_json(args)
    return TracePart(kind="call", role=role, content=content, call=call, tool=str(tool or ""), is_output=is_output)


def _objects_of(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list, of a list in a JSON string or of the `messages` of an object, or nothing."""
    value = parsed_text(value)
    if isinstance(value, dict):  # Microsoft's Agent 365 names the version of its schema beside them
        value = value.get("messages")
    yield from objects_of(value)


def _listed_parts(message: dict[str, Any], *, is_output: bool) -> Iterator[TracePart]:
    """The parts of a message. LiteLLM has calls and their answers as OpenAI's API has them, beside parts or without."""
    role = str(message.get("role") or "")
    parts = message.get("parts", message.get("content"))
    if role == "tool" and isinstance(call := message.get("tool_call_id"), str) and call:
        yield from _response(_only_text(parts), role, call, is_output=is_output)
        return
    if isinstance(parts, str) and parts:
        yield TracePart(kind="text", role=role, content=dump_json(parts), is_output=is_output)
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            yield from _part(part, role, is_output=is_output)
    if not any(part.get("type") == "tool_call" for part in objects_of(parts)):
        yield from _called(message, role, is_output=is_output)


def _only_text(parts: Any) -> Any:
    """The text of a list that is one text."""
    match parts:
        case [{"type": "text", "content": str(text)}] | [{"type": "text", "text": str(text)}]:
            return text
    return parts


def _part(part: dict[str, Any], role: str, *, is_output: bool) -> Iterator[TracePart]:
    call = part.get("id") or part.get("toolCallId")
    match part.get("type"):
        case "tool_call" | "tool-call" | "server_tool_call" if isinstance(call, str):
            args = _first_of(_call_fields(part), ("arguments", "input", "args"))
            yield _call_part(call, role, part.get("name") or part.get("toolName"), args, is_output=is_output)
        case "tool_call_response" | "tool-result" if isinstance(call, str):
            yield from _response(_first_of(part, ("response", "result", "output")), role, call, is_output=is_output)
        case "server_tool_call_response" if isinstance(call, str):
            yield from _response(part.get("server_tool_call_response"), role, call, is_output=is_output)
        case "text" if isinstance(text := part.get("content", part.get("text")), str):
            if not text:
                return
            yield TracePart(kind="text", role=role, content=dump_json(text), is_output=is_output)
        case _:
            yield TracePart(kind="text", role=role, content=dump_json([part]), is_output=is_output)


def _call_fields(part: dict[str, Any]) -> dict[str, Any]:
    """The fields of a call: those of the part, or for one that the provider ran those of an object in it."""
    details = part.get("server_tool_call")
    if not isinstance(details, dict):
        return part
    return details if {"arguments", "input", "args"} & details.keys() else {"arguments": details}


def _first_of(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _response(content: Any, role: str, call: str, *, is_output: bool = False) -> Iterator[TracePart]:
    """The answer to a call; nothing where its content was not recorded."""
    if content is not None:
        answer = content if isinstance(content, StatedAnswer) else state_answer(content)
        yield TracePart(
            kind="response",
            role=role,
            content=answer.content,
            call=call,
            is_output=is_output,
            is_rebuilt=answer.is_rebuilt,
            end=answer.end,
        )


def state_answer(content: Any) -> StatedAnswer:
    """The text that the model got, or the list of its parts. Another value is the JSON that it may have got."""
    if content is None:
        return StatedAnswer(b"")
    if isinstance(content, list) and all(isinstance(item, dict) and "type" in item for item in content):
        return StatedAnswer(dump_json([_content_part(item) for item in content]))
    text = content if isinstance(content, str) else dump_json(content).decode()
    return StatedAnswer(dump_json(text), is_rebuilt=not isinstance(content, str))


def _content_part(item: dict[str, Any]) -> dict[str, Any]:
    """A part of an answer, of which the conventions have the text as `content`, as providers have it."""
    match item:
        case {"type": "text", "content": str(text), **others} if not others:
            return {"type": "text", "text": text}
    return item


def _dotted_messages(span: TraceSpan) -> Iterator[ListedMessage]:
    """The messages that are spread over attributes: `llm.input_messages.0.message.role` and the like."""
    attributes = span.attributes
    messages: dict[tuple[bool, int], dict[str, Any]] = defaultdict(dict)
    for name, value in attributes.items():
        if found := DOTTED.fullmatch(name):
            messages[found[1] in OUTPUTS, int(found[2])][found[3]] = value
    limit = _find_limit(attributes) if messages else -1
    for (is_output, _), fields in sorted(messages.items(), key=lambda entry: entry[0]):
        items = _nested(fields)
        role, content, call = str(fields.get("role") or ""), fields.get("content"), fields.get("tool_call_id")
        texts = [item.get("text") for kind, item in items if kind == "contents"]
        content = content if content is not None else "".join(str(text) for text in texts if text) or None
        parts: list[dict[str, Any]] = []
        if call or (role == "tool" and span.scope == NAMELESS):
            is_rebuilt = span.scope in BLOCKS_AS_JSON or limit in map(len, map(str, (content, *texts)))
            answer = None if content is None else state_answer(content)
            answer = answer._replace(is_rebuilt=True) if answer and is_rebuilt else answer
            parts.append({"type": "tool_call_response", "id": call, "name": fields.get("name"), "response": answer})
        elif content:
            parts.append({"type": "text", "content": content})
        parts += _function_answers(fields)
        calls = [{"type": "tool_call", **item} for kind, item in items if kind == "tool_calls"]
        parts += [call for call in calls if call.get("id") or span.scope == NAMELESS]
        yield ListedMessage({"role": "assistant" if role == "model" else role, "parts": parts}, is_output)


def _nested(fields: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls and the contents of a dotted message, each with its kind, in their order."""
    nested: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for name, value in fields.items():
        if found := NESTED.fullmatch(name):
            nested[found[1], int(found[2])][found[3].removeprefix("function.")] = value
    return [(kind, item) for (kind, _), item in sorted(nested.items(), key=lambda entry: entry[0])]


def _find_limit(attributes: Attributes) -> int:
    """The length at which the exporter cut texts: that of the longest ones, where different texts have it; else -1."""
    texts = {value for value in attributes.values() if isinstance(value, str)}
    longest = max(map(len, texts), default=0)
    return longest if sum(len(text) == longest for text in texts) > 1 else -1


def _function_answers(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The answers that AutoGen has in one message: `function.0` and the like, each the JSON of an object."""
    for name in sorted(name for name in fields if name.startswith("function.")):
        match parsed_text(fields[name]):
            case {"call_id": str(call), "content": content, **others}:
                answer = state_answer(content)._replace(end="failed" if others.get("is_error") is True else None)
                yield {"type": "tool_call_response", "id": call, "response": answer}
