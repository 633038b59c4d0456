"""Spans of Google's Agent Development Kit (ADK), with the names and forms of the GenAI conventions.

1. The id on the span of a tool (`adk-…`) is one that ADK removes from the messages, so the span counts as one without
   a call id (`dashboard.ingest.span_pairs`).
2. `execute_tool (merged)` repeats the results of the tools beside it, and is left out. So is the span of a model that
   names a system and no provider: it repeats the usage of the `call_llm` around it.
3. Earlier versions, and those of 2026 by a setting, have the request and the answer of a model in the form of the
   Gemini API, on a span that ends only after the tools which the answer calls. The answer is placed at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from envelopes.recordings.otlp.spans import Attributes, TraceSpan, objects_of, parsed_text

SCOPE = "gcp.vertex.agent"  # of all its languages
_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_ARGS, _RESULT = "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
_MERGED = "(merged tools)"
_OWN_CALL = "adk-"
_NOT_CAPTURED = "{}"


def as_genai(span: TraceSpan) -> TraceSpan | None:
    """The span of ADK as the conventions have it; None for one that repeats others. Spans of others as they are."""
    if span.scope != SCOPE:
        return span
    attributes = dict(span.attributes)
    operation = attributes.get("gen_ai.operation.name")
    if attributes.get("gen_ai.tool.name") == _MERGED:
        return None
    if operation == "generate_content" and "gen_ai.provider.name" not in attributes:
        return None
    if operation == "execute_tool":
        _read_tool(attributes)
    elif _REQUEST in attributes and _read_request(attributes):
        return msgspec.structs.replace(span, attributes=attributes, end=span.start + 1)
    return msgspec.structs.replace(span, attributes=attributes)


def _read_tool(attributes: Attributes) -> None:
    args, result = attributes.pop(_ARGS, None), attributes.pop(_RESULT, None)
    if result not in (None, _NOT_CAPTURED):
        attributes |= {"gen_ai.tool.call.arguments": args, "gen_ai.tool.call.result": result}
    for name in (_REQUEST, _RESPONSE):  # empty, for a page of ADK
        attributes.pop(name, None)
    if str(attributes.get("gen_ai.tool.call.id")).startswith(_OWN_CALL):
        attributes["gcp.vertex.agent.tool_call_id"] = attributes.pop("gen_ai.tool.call.id")


def _read_request(attributes: Attributes) -> bool:
    """Gives the attributes the messages of the request and its answer; False where it was not captured, or was cut."""
    request, response = parsed_text(attributes.get(_REQUEST)), parsed_text(attributes.get(_RESPONSE))
    response = response if isinstance(response, dict) else {}
    contents = request.pop("contents", None) if isinstance(request, dict) else None
    if not isinstance(contents, list):
        return False
    config = request["config"] if isinstance(request.get("config"), dict) else {}
    prompt = config.pop("system_instruction", None)
    prompts = prompt if isinstance(prompt, list) else [prompt]
    tools = [
        {"type": "function", **declared}
        for tool in objects_of(config.pop("tools", None))
        for declared in objects_of(tool.get("function_declarations"))
    ]
    attributes |= {
        "gen_ai.input.messages": [_message(content) for content in objects_of(contents)],
        "gen_ai.output.messages": [_message(content) for content in objects_of([response.pop("content", None)])],
        "gen_ai.system_instructions": [part for entry in prompts for part in _prompt_parts(entry)],
        _REQUEST: request,
        _RESPONSE: response,
    } | ({"gen_ai.tool.definitions": tools} if tools else {})
    return True


def _prompt_parts(prompt: Any) -> Iterator[dict[str, Any]]:
    """The parts of a text, or of a content of the API."""
    if isinstance(prompt, str):
        yield {"type": "text", "content": prompt}
    elif isinstance(prompt, dict):
        yield from map(_part, objects_of(prompt.get("parts", [prompt])))


def _message(content: dict[str, Any]) -> dict[str, Any]:
    role = "assistant" if content.get("role") == "model" else content.get("role")
    return {"role": role, "parts": [_part(part) for part in objects_of(content.get("parts"))]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"function_call": dict(call)}:
            return {"type": "tool_call", "id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
        case {"function_response": dict(answer)}:
            return {"type": "tool_call_response", **answer}
        case {"text": str(text)}:
            return {"type": "reasoning" if part.get("thought") else "text", "content": text}
        case _:
            return {"type": next(iter(part), "empty"), **part}
