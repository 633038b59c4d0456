"""Spans of OpenInference, as far as they have more, or other things, than its names.

1. Tools of smolagents and of LlamaIndex are within the values of the frameworks themselves. The arguments are the
   `kwargs` of a Python call. The result of LlamaIndex is a ToolOutput, which has what the tool returned (`raw_output`)
   beside the blocks that the model got. A tool of DSPy is named by its span, and its result is JSON, a text too.
2. Messages of Anthropic, Bedrock and Mistral are read from the request itself (`input.value`). In the attributes of
   messages a list of blocks is a text of JSON, calls of Mistral have no ids, and no answer is marked as a failure.
"""

from __future__ import annotations

import msgspec

from envelopes.recordings.otlp.conventions import DOTTED
from envelopes.recordings.otlp.frameworks.json_values import call_arguments, raw_json
from envelopes.recordings.otlp.frameworks.provider_messages import answer_attributes, request_attributes
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, parsed_text

_PREFIX = "openinference.instrumentation."
LLAMA_INDEX = f"{_PREFIX}llama_index"
DSPY, METHOD = f"{_PREFIX}dspy", ".__call__"
SMOLAGENTS = f"{_PREFIX}smolagents"
REQUESTS = (f"{_PREFIX}anthropic", f"{_PREFIX}bedrock", f"{_PREFIX}mistralai")
_ARGS, _RESULT = "input.value", "output.value"


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span with its own arguments and result, or the messages of its request; any other span as it is."""
    kind = span.attributes.get("openinference.span.kind")
    if kind == "LLM" and span.scope in REQUESTS:
        return msgspec.structs.replace(span, attributes=_with_messages(span.attributes))
    if kind != "TOOL" or span.scope not in (SMOLAGENTS, LLAMA_INDEX, DSPY):
        return span
    name = {"tool.name": span.name.removesuffix(METHOD)} if span.scope == DSPY else {}
    return msgspec.structs.replace(span, attributes=span.attributes | name | _arguments(span) | _result(span))


def _with_messages(attributes: Attributes) -> Attributes:
    request = request_attributes(parsed_text(attributes.get(_ARGS)))
    answer = answer_attributes(parsed_text(attributes.get(_RESULT)))
    replaced = [name for name, read in (("llm.input_messages", request), ("llm.output_messages", answer)) if read]
    system = "llm.input_messages.0.message"
    if attributes.get(f"{system}.role") == "system" and request:  # not in the value that Bedrock's spans have
        text = attributes.get(f"{system}.contents.0.message_content.text")
        request = {"gen_ai.system_instructions": text} | request if text else request
    rest = {
        name: value
        for name, value in attributes.items()
        if not ((found := DOTTED.fullmatch(name)) and found[1] in replaced)
    }
    return rest | request | answer


def _arguments(span: TraceSpan) -> Attributes:
    given = parsed_text(span.attributes.get(_ARGS))
    args = call_arguments(given)
    return {} if args is given else {_ARGS: as_text(args)}


def _result(span: TraceSpan) -> Attributes:
    result = parsed_text(written := span.attributes.get(_RESULT))
    match result:
        case str() if span.scope == DSPY:
            return {_RESULT: raw_json(written)}
        case {"blocks": list(), "tool_name": str(), "raw_output": returned, **others} if span.scope == LLAMA_INDEX:
            status = {"gen_ai.tool.status": "error"} if others.get("is_error") is True else {}
            return {_RESULT: as_text(returned), **status}
        case _:
            return {}
