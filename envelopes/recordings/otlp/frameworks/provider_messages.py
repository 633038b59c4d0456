"""Requests and answers of providers, which instrumentations write into one JSON value, with the parts of messages.

They are those of OpenAI's chat completions (which Groq and Mistral have too) and Responses, of Anthropic's messages, of
Bedrock's Converse, and the messages of LangChain. Such a value is the request itself: its answers are what was sent.
"""

from __future__ import annotations

from typing import Any

from envelopes.recordings.otlp.frameworks.strands import answer_content, block_part
from envelopes.recordings.otlp.message_parts import StatedAnswer, state_answer
from envelopes.recordings.otlp.spans import Attributes, objects_of

_ROLES = {"ai": "assistant", "human": "user", "model": "assistant"}
_MESSAGES, _ANSWERS = "gen_ai.input.messages", "gen_ai.output.messages"


def request_attributes(request: Any) -> Attributes:
    """The messages, the system prompt and the tools of a request, or the messages of a list of them."""
    fields = {"messages": request} if isinstance(request, list) else request if isinstance(request, dict) else {}
    listed = fields.get("messages", fields.get("input"))
    if isinstance(listed, str):
        listed = [{"role": "user", "content": listed}]
    if isinstance(listed, list) and listed and isinstance(listed[0], list):
        listed = listed[0]  # of the first prompt of a batch, which has one
    prompt = next((fields[name] for name in ("system", "instructions") if fields.get(name)), None)
    lists = {
        _MESSAGES: [read_message(message) for message in objects_of(listed)],
        "gen_ai.system_instructions": [block_part(block) for block in objects_of(prompt)] or prompt,
        "gen_ai.tool.definitions": objects_of(fields.get("tools")),
    }
    return {name: value for name, value in lists.items() if value}


def answer_attributes(answer: Any) -> Attributes:
    """The messages of an answer: of each choice, of its items, or of the one message that it is."""
    match answer:
        case {"choices": list(choices)}:
            messages = [message for choice in objects_of(choices) for message in objects_of([choice.get("message")])]
        case {"message": dict(message)}:
            messages = [message]
        case {"output": list(items)} | list(items):
            messages = objects_of(items)
        case {"role": _} | {"type": "function_call"}:
            messages = [answer]
        case str(text) if text:
            messages = [{"role": "assistant", "content": text}]
        case _:
            messages = []
    return {_ANSWERS: [read_message(message) for message in messages]} if messages else {}


def read_message(written: dict[str, Any]) -> dict[str, Any]:
    """A message, or an item of Responses."""
    match written:
        case {"type": "function_call", "call_id": str(call)}:
            return {"role": "assistant", "parts": [_call({**written, "id": call})]}
        case {"type": "function_call_output", "call_id": str(call)}:
            return {"role": "tool", "parts": [_answer(call, state_answer(written.get("output")))]}
    fields = next((written[name] for name in ("kwargs", "data") if isinstance(written.get(name), dict)), written)
    kind = str(fields.get("role") or fields.get("type") or "")
    role, content = _ROLES.get(kind, kind), fields.get("content")
    if role == "tool":
        return {"role": role, "parts": [_answer(fields.get("tool_call_id"), state_answer(content))]}
    calls = [_call(call) for call in objects_of(fields.get("tool_calls"))]
    if isinstance(content, str):
        parts = [{"type": "text", "content": content}] if content else []
    else:
        parts = [_part(block) for block in objects_of(content) if not (calls and _is_call(block))]
    return {"role": role, "parts": [*parts, *calls]}


def _is_call(block: dict[str, Any]) -> bool:
    """True for a block that is in `tool_calls` too."""
    return block.get("type") in ("tool_use", "function_call")


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "tool_use", "id": str(_)}:
            return _call(block)
        case {"type": "tool_result", "tool_use_id": str(call)}:
            answer = state_answer(block.get("content"))
            return _answer(call, answer._replace(end="failed") if block.get("is_error") is True else answer)
        case {"toolResult": {"toolUseId": str(call)} as result}:
            content = answer_content(result.get("content"))
            is_rebuilt = any("json" in part for part in objects_of(content))  # how it was spelled is not recorded
            answer = state_answer(content)._replace(is_rebuilt=is_rebuilt)
            return _answer(call, answer._replace(end="failed") if result.get("status") == "error" else answer)
    return block_part(block) if "text" in block or "type" not in block else block


def _answer(call: Any, answer: StatedAnswer) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": call, "response": answer}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, dict) else call
    arguments = next((named[name] for name in ("arguments", "args", "input") if name in named), None)
    return {"type": "tool_call", "id": call.get("id"), "name": named.get("name"), "arguments": arguments}
