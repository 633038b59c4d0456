"""Spans of LangSmith's tracer, whose requests, answers, arguments and results are one JSON text each.

Messages are those of LangChain (`kwargs` with a `type`), or of OpenAI's chat completions where its client is traced.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.recordings.otlp.frameworks.langchain import message_attributes
from envelopes.recordings.otlp.frameworks.provider_messages import answer_attributes, request_attributes
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, parsed_text

SCOPE = "langsmith"
_KIND, _PROMPT, _COMPLETION = "langsmith.span.kind", "gen_ai.prompt", "gen_ai.completion"


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
    read = request_attributes(request)
    match completion:
        case {"generations": [[{"message": dict(answer)}, *_], *_]}:
            read |= answer_attributes({"message": answer})
        case _:
            read |= answer_attributes(completion)
    rest = {name: value for name, value in request.items() if name not in ("messages", "tools")}
    return read | ({"langsmith.request": rest} if rest else {})
