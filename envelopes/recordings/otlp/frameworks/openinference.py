"""Tools of smolagents and of LlamaIndex, as OpenInference writes them: within the values of the frameworks themselves.

The arguments are the `kwargs` of a Python call. The result of LlamaIndex is a ToolOutput, which has what the tool
returned (`raw_output`) beside the blocks that the model got.
"""

from __future__ import annotations

import msgspec

from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, parsed_text

SMOLAGENTS = "openinference.instrumentation.smolagents"
LLAMA_INDEX = "openinference.instrumentation.llama_index"
_ARGS, _RESULT = "input.value", "output.value"


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span of a tool with its own arguments and result; any other span as it is."""
    if span.scope not in (SMOLAGENTS, LLAMA_INDEX) or span.attributes.get("openinference.span.kind") != "TOOL":
        return span
    return msgspec.structs.replace(span, attributes=span.attributes | _arguments(span) | _result(span))


def _arguments(span: TraceSpan) -> Attributes:
    match parsed_text(span.attributes.get(_ARGS)):
        case {"kwargs": dict(named), **others} if not others.get("args"):
            return {_ARGS: as_text(named)}
        case _:
            return {}


def _result(span: TraceSpan) -> Attributes:
    match parsed_text(span.attributes.get(_RESULT)):
        case {"blocks": list(), "tool_name": str(), "raw_output": returned, **others} if span.scope == LLAMA_INDEX:
            status = {"gen_ai.tool.status": "error"} if others.get("is_error") is True else {}
            return {_RESULT: as_text(returned), **status}
        case _:
            return {}
