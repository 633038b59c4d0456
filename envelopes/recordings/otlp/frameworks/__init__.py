"""Agent frameworks whose spans have names and forms of their own, each brought into those of the GenAI conventions."""

from __future__ import annotations

from envelopes.recordings.otlp.frameworks import (
    ai_sdk,
    google_adk,
    json_values,
    langchain,
    langsmith,
    openinference,
    strands,
    traceloop,
)
from envelopes.recordings.otlp.spans import TraceSpan


def as_genai(span: TraceSpan) -> TraceSpan | None:
    """The span with the names of the conventions; None for one that repeats others."""
    named = google_adk.as_genai(span)
    for framework in (strands, langchain, langsmith, openinference, ai_sdk, json_values, traceloop):
        named = None if named is None else framework.as_genai(named)
    return named
