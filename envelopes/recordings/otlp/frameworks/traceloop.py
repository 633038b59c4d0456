"""Spans of Traceloop (OpenLLMetry), as far as they have more, or other things, than its names.

1. Functions that its SDK observes have the arguments of a Python call, and their result as JSON, a text too.
2. Calls of OpenAI's Responses are named by their item (`fc_…`) and their answers by the call: an answer is that of the
   call before it where no other one waits, which `call_names` decides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.recordings.otlp.call_names import ANSWERS, is_item
from envelopes.recordings.otlp.frameworks.json_values import call_arguments, raw_json
from envelopes.recordings.otlp.spans import Attributes, TraceSpan, as_text, objects_of, parsed_text

SDK, OPENAI = "traceloop.tracer", "opentelemetry.instrumentation.openai.v1"
_ARGS, _RESULT, _MESSAGES = "traceloop.entity.input", "traceloop.entity.output", "gen_ai.input.messages"


def as_genai(span: TraceSpan) -> TraceSpan:
    """The span as the conventions have it; one of others as it is."""
    attributes = span.attributes
    if span.scope == SDK and attributes.get("traceloop.span.kind") == "tool":
        return msgspec.structs.replace(span, attributes=attributes | _tool(attributes))
    if span.scope == OPENAI and '"fc_' in str(attributes.get(_MESSAGES)):
        messages = [_without_call_ids(message) for message in objects_of(parsed_text(attributes[_MESSAGES]))]
        return msgspec.structs.replace(span, attributes=attributes | {_MESSAGES: messages})
    return span


def _tool(attributes: Attributes) -> Attributes:
    args, result = attributes.get(_ARGS), attributes.get(_RESULT)
    read: Attributes = {} if args is None else {_ARGS: as_text(call_arguments(parsed_text(args)))}
    return read if result is None else read | {_RESULT: raw_json(result)}


def _without_call_ids(message: dict[str, Any]) -> dict[str, Any]:
    """A message in which answers name no call, unless they name an item."""
    parts = [
        {name: value for name, value in part.items() if name != "id"}
        if part.get("type") in ANSWERS and not is_item(part.get("id"))
        else part
        for part in objects_of(message.get("parts"))
    ]
    return {**message, "parts": parts}
