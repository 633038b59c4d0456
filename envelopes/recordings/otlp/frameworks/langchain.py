"""Spans of LangChain's and LangGraph's tools, of which the result is a whole ToolMessage.

The message has the id of the call, the text for the model (`content`) and what the tool kept for the program
(`artifact`). The latter is the result where there is one. OpenInference writes the message as LangChain stores
messages (`type` and `data`), Traceloop as LangChain stores any object (`lc` and `kwargs`), within an `output`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.recordings.otlp.conventions import first_value
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, parsed_text

RESULTS = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
ARGS = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input")
CALL = "tool_call_id"


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of a tool with the id of its call, its own arguments and its own result; any other span as it is."""
    result, given = first_value(span.attributes, RESULTS), first_value(span.attributes, ARGS)
    message = _tool_message(parsed_text(result)) if isinstance(result, str) and CALL in result else {}
    asked = parsed_text(given) if isinstance(given, str) else None
    named, args = _arguments(asked)
    call = message.pop(CALL, None) or named
    if not isinstance(call, str):
        return span
    attributes = {name: value for name, value in span.attributes.items() if name not in ARGS}
    attributes |= {"gen_ai.tool.call.id": call}
    if args is not None:
        attributes["gen_ai.tool.call.arguments"] = as_text(args)
    if asked != args or asked is None:
        attributes["langchain.input"] = given
    if message:
        attributes = {name: value for name, value in attributes.items() if name not in RESULTS}
        attributes |= message_attributes(message)
    return msgspec.structs.replace(span, attributes=attributes)


def _arguments(asked: Any) -> tuple[Any, dict[str, Any] | None]:
    """The id of the call, which Traceloop has beside the arguments, and these; None for each that is not there.

    OpenInference has the text of a single argument without its name: the call of the model has the arguments whole.
    """
    match asked:
        case {"input_str": _, "inputs": inputs, "kwargs": dict(others)}:
            return others.get(CALL), inputs if isinstance(inputs, dict) else None
        case dict():
            return None, asked
        case _:
            return None, None


def message_attributes(message: dict[str, Any]) -> Attributes:
    """The result of a tool in its message, and the rest of that."""
    content, artifact = message.get("content"), message.get("artifact")
    rest = {name: value for name, value in message.items() if name not in ("content", "artifact", CALL)}
    result = content if artifact is None else artifact
    status = {"gen_ai.tool.status": "error"} if message.get("status") == "error" else {}
    return {"gen_ai.tool.call.result": as_text(result), "langchain.tool_message": rest, **status}


def _tool_message(value: Any) -> dict[str, Any]:
    match value:
        case {"output": dict(output)}:
            return _tool_message(output)
        case {"type": "tool", "data": dict(fields)}:
            return dict(fields)
        case {"lc": 1, "id": [*_, "ToolMessage"], "kwargs": dict(fields)}:
            return dict(fields)
        case _:
            return {}
