"""Spans of Strands Agents, whose messages, arguments and results are events, as the GenAI conventions have them.

The content of these events is lists of blocks of the Bedrock API, or with `gen_ai_latest_experimental` messages of the
conventions in which the answers of tools are such lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from envelopes.recordings.otlp.conventions import CHOICE, MESSAGE_EVENTS, OPERATION
from envelopes.recordings.otlp.spans import Attributes, SpanEvent, TraceSpan, as_text, objects_of, parsed_text

PROVIDER = "strands-agents"
SYSTEM = "gen_ai.system.message"
TOOL = "gen_ai.tool.message"
BLOCKS = frozenset(
    (
        *("text", "toolUse", "toolResult", "reasoningContent", "image", "document", "video", "audio", "cachePoint"),
        *("guardContent", "citationsContent", "interruptResponse"),
    )
)


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of Strands as the conventions have it; one of others as it is."""
    if PROVIDER not in (span.attributes.get("gen_ai.system"), span.attributes.get("gen_ai.provider.name")):
        return span
    read = {"execute_tool": _tool_attributes, "chat": _model_attributes, "invoke_agent": _agent_attributes}
    operation = str(span.attributes.get("gen_ai.operation.name"))
    if operation not in read:
        return span
    # Attributes of the span itself win: later versions have arguments and results there too.
    attributes = read[operation](span.events) | span.attributes
    events = tuple(event for event in span.events if event.name not in (*MESSAGE_EVENTS, OPERATION))
    return msgspec.structs.replace(span, attributes=attributes, events=events)


def _tool_attributes(events: tuple[SpanEvent, ...]) -> Attributes:
    attributes: Attributes = {}
    for event in events:
        if event.name == TOOL:
            attributes["gen_ai.tool.call.arguments"] = event.attributes.get("content")
        elif event.name == CHOICE:
            attributes["gen_ai.tool.call.result"] = event.attributes.get("message")
        for part in (part for message in _listed(event) for part in objects_of(message.get("parts"))):
            if part.get("type") == "tool_call":
                attributes["gen_ai.tool.call.arguments"] = as_text(part.get("arguments"))
            elif part.get("type") == "tool_call_response":
                attributes["gen_ai.tool.call.result"] = as_text(part.get("response"))
    return attributes


def _model_attributes(events: tuple[SpanEvent, ...]) -> Attributes:
    inputs, outputs = list[dict[str, Any]](), list[dict[str, Any]]()
    for event in events:
        role = MESSAGE_EVENTS.get(event.name)
        if event.name == CHOICE:
            outputs.append({"role": role, "parts": _block_parts(event.attributes.get("message"))})
        elif role and event.name != SYSTEM:
            inputs.append({"role": role, "parts": _block_parts(event.attributes.get("content"))})
        inputs += map(_typed_answers, _listed(event, "gen_ai.input.messages"))
        outputs += map(_typed_answers, _listed(event, "gen_ai.output.messages"))
    lists = {"gen_ai.input.messages": inputs, "gen_ai.output.messages": outputs}
    return {name: messages for name, messages in lists.items() if messages} | _agent_attributes(events)


def _agent_attributes(events: tuple[SpanEvent, ...]) -> Attributes:
    for event in events:
        prompt = event.attributes.get("gen_ai.system_instructions")
        if event.name == SYSTEM:
            return {"gen_ai.system_instructions": _block_parts(event.attributes.get("content"))}
        if event.name == OPERATION and prompt:
            return {"gen_ai.system_instructions": prompt}
    return {}


def _listed(event: SpanEvent, *names: str) -> Iterator[dict[str, Any]]:
    """The messages in an event of the conventions."""
    for name in names or ("gen_ai.input.messages", "gen_ai.output.messages"):
        if event.name == OPERATION:
            yield from objects_of(parsed_text(event.attributes.get(name)))


def _typed_answers(message: dict[str, Any]) -> dict[str, Any]:
    parts = [
        {**part, "response": answer_content(part.get("response"))} if part.get("type") == "tool_call_response" else part
        for part in objects_of(message.get("parts"))
    ]
    return {**message, "parts": parts}


def _block_parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a list of blocks in JSON; a text that is none is one part."""
    blocks = parsed_text(content)
    if isinstance(blocks, list) and all(isinstance(block, dict) for block in blocks):
        return [block_part(block) for block in blocks]
    return [{"type": "text", "content": content}] if isinstance(content, str) and content else []


def block_part(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the Bedrock API."""
    match block:
        case {"text": str(text)}:
            return {"type": "text", "content": text}
        case {"toolUse": {"toolUseId": str(call), "name": str(tool)} as use}:
            return {"type": "tool_call", "id": call, "name": tool, "arguments": use.get("input")}
        case {"toolResult": {"toolUseId": str(call)} as answer}:
            return {"type": "tool_call_response", "id": call, "response": answer_content(answer.get("content"))}
        case {"reasoningContent": {"reasoningText": {"text": str(text)}}}:
            return {"type": "reasoning", "content": text}
        case _:
            return {"type": next(iter(block), "empty"), **block}


def answer_content(content: Any) -> Any:
    """The blocks of an answer as typed parts, so that a text stays the text that the model got.

    How a block of JSON was spelled for the model is not recorded: with one the content stays the value that it is.
    """
    blocks = objects_of(content)
    if not blocks or any("type" in block or not block.keys() <= BLOCKS for block in blocks):
        return content
    return [
        {"type": "text", "text": block["text"]} if "text" in block else {"type": next(iter(block), "empty"), **block}
        for block in blocks
    ]
