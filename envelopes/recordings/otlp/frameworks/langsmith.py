"""Spans of LangSmith's tracer, whose requests, answers, arguments and results are one JSON text each.

Messages are those of LangChain (`kwargs` with a `type`), or of OpenAI's chat completions where its client is traced.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.recordings.otlp.frameworks.langchain import message_attributes
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, objects_of, parsed_text

SCOPE = "langsmith"
_KIND, _PROMPT, _COMPLETION = "langsmith.span.kind", "gen_ai.prompt", "gen_ai.completion"
_ROLES = {"ai": "assistant", "human": "user"}


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of LangSmith as the conventions have it; one of others as it is."""
    kind = span.attributes.get(_KIND)
    if span.scope != SCOPE or kind not in ("tool", "llm"):
        return span
    prompt, completion = parsed_text(span.attributes.get(_PROMPT)), parsed_text(span.attributes.get(_COMPLETION))
    is_read = {_PROMPT: prompt is not None, _COMPLETION: completion is not None}  # else cut by a limit of the exporter
    attributes = {name: value for name, value in span.attributes.items() if not is_read.get(name)}
    read = _tool(prompt, completion) if kind == "tool" else _model(prompt, completion)
    return msgspec.structs.replace(span, attributes=attributes | read)


def _tool(prompt: Any, completion: Any) -> Attributes:
    args = {} if prompt is None else {"gen_ai.tool.call.arguments": as_text(prompt)}
    match completion:
        case {"output": {"tool_call_id": _} as message}:
            return args | message_attributes(message)
        case {"output": str(text)}:
            return args | {"gen_ai.tool.call.result": text}
        case None:
            return args
        case _:
            return args | {"gen_ai.tool.call.result": as_text(completion)}


def _model(prompt: Any, completion: Any) -> Attributes:
    request = dict(prompt) if isinstance(prompt, dict) else {}
    messages, tools = request.pop("messages", None), request.pop("tools", None)
    if isinstance(messages, list) and messages and isinstance(messages[0], list):
        messages = messages[0]  # of the first prompt of a batch, which has one
    match completion:
        case {"generations": [[{"message": dict(answer)}, *_], *_]}:
            answers = [answer]
        case {"choices": list(choices)}:
            answers = [message for choice in objects_of(choices) for message in objects_of([choice.get("message")])]
        case _:
            answers = []
    lists = {
        "gen_ai.input.messages": [_message(message) for message in objects_of(messages)],
        "gen_ai.output.messages": [_message(message) for message in answers],
        "gen_ai.tool.definitions": objects_of(tools),
        "langsmith.request": request,
    }
    return {name: value for name, value in lists.items() if value}


def _message(written: dict[str, Any]) -> dict[str, Any]:
    fields = next((written[name] for name in ("kwargs", "data") if isinstance(written.get(name), dict)), written)
    kind = str(fields.get("role") or fields.get("type") or "")
    role, content = _ROLES.get(kind, kind), fields.get("content")
    if role == "tool":
        answer = {"type": "tool_call_response", "id": fields.get("tool_call_id"), "response": content}
        return {"role": role, "parts": [answer]}
    calls = [_call(call) for call in objects_of(fields.get("tool_calls"))]
    return {"role": role, "parts": [*_content_parts(content, has_calls=bool(calls)), *calls]}


def _content_parts(content: Any, *, has_calls: bool) -> list[dict[str, Any]]:
    """A text, or blocks of a provider; those of calls are in `tool_calls` too."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    return [
        {"type": "text", "content": block["text"]} if isinstance(block.get("text"), str) else block
        for block in objects_of(content)
        if not (has_calls and block.get("type") in ("tool_use", "function_call"))
    ]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    arguments = named.get("arguments", named.get("args"))
    return {"type": "tool_call", "id": call.get("id"), "name": named.get("name"), "arguments": arguments}
