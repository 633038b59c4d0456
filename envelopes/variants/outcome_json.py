"""The tool-loop strings of `outcome_to_model_content` (OUT-031 to OUT-040), from an envelope alone.

What the envelope does not contain is replaced:

* a timeout has its stored message instead of the elapsed milliseconds;
* a result that has artifacts, and was bounded or is over 12,000 characters, becomes a reference to the first of
  them; any other output is the result, with its artifacts inside it.
"""

from __future__ import annotations

import json
from typing import Any

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.outcome import (
    CANCELLED,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    fits_inline,
    outcome_to_model_content,
)
from envelopes.schema.receipt import Segment, SegmentSource, Variant
from envelopes.schema.result import CanonicalResult, JsonValue, ToolError, summarize
from envelopes.schema.settlement import blocks_tool, envelope_situation
from envelopes.text.pointer import text_at
from envelopes.variants.canonical_json import JsonString, Tree, render_json, with_sources

UNREADABLE = "The output is too large to show here."  # for a model without a tool that reads it
# The fields that a member may come from: it does if it equals the field, or ends in it ("Blocked: …").
POINTERS = {
    "status": ("/status",),
    "error": ("/error/message", "/error/kind"),
    "details": ("/error/message",),
    "warning": ("/error/kind",),
    "artifact_reference": ("/artifacts/0/path",),
    "summary": ("/summary_text",),
}


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    outcome = build_outcome(canonical)
    if isinstance(outcome, ToolExecutionResult):
        tree = _output_tree(canonical, policy)
    else:
        content: dict[str, Any] = json.loads(outcome_to_model_content(outcome, read_tool=policy.read_tool or ""))
        if isinstance(outcome, ToolArtifactReference) and policy.read_tool is None:
            content.pop("artifact_reference")
            content["hint"] = UNREADABLE
        if isinstance(outcome, ToolTimeout) and canonical.error is not None:
            content["error"] = canonical.error.message
        tree = {name: _member_tree(name, value, canonical) for name, value in content.items()}
    return render_json(tree, policy, ascii_only=True)


def build_outcome(canonical: CanonicalResult) -> ToolOutcome:
    """Builds an outcome for the model's content only: without the call's id and times, which no envelope has."""
    tool, error = canonical.tool_name, canonical.error
    if error is not None:
        return _failure(tool, error)
    output = _output(canonical)
    if canonical.artifacts and (_is_bounded(canonical.result) or not fits_inline(output)):
        return ToolArtifactReference("", tool, canonical.artifacts[0].path, summarize(canonical.summary_text))
    return ToolExecutionResult("", tool, output, 0)


def _failure(tool: str, error: ToolError) -> ToolOutcome:
    row = envelope_situation("error", error.kind)
    if row.reason is not None:
        return ToolDenied("", tool, row.reason, error.message)
    if row.outcome is ToolTimeout:
        return ToolTimeout("", tool, 0.0, 0, error.retryable)
    if row.end == "cancelled":
        return ToolFailure("", tool, CANCELLED, retryable=True)
    return ToolFailure("", tool, error.message, not blocks_tool(error))


def _output(canonical: CanonicalResult) -> Any:
    """The result, with the artifacts that the envelope has beside it inside it (E-4)."""
    document = canonical.to_json()
    result = document["result"]
    if not canonical.artifacts or not isinstance(result, dict):
        return result
    return result | {"artifacts": document["artifacts"]}


def _output_tree(canonical: CanonicalResult, policy: RenderPolicy) -> Tree:
    tree = with_sources(canonical.result, "/result")
    if isinstance(tree, dict) and canonical.artifacts and policy.read_tool is not None:
        return tree | {"artifacts": with_sources(canonical.to_json()["artifacts"], "/artifacts")}
    return tree


def _is_bounded(value: JsonValue) -> bool:
    """Bounded by a `truncated` flag; in a family without flags, by an artifact or a number of omitted items."""
    if isinstance(value, list):
        return any(map(_is_bounded, value))
    if not isinstance(value, dict):
        return False
    flags = [child for name, child in value.items() if name == "truncated" or name.endswith("_truncated")]
    marks = flags or [name for name in value if name.endswith(("_artifact", "_omitted"))]
    return any(marks) or any(map(_is_bounded, value.values()))


def _member_tree(name: str, value: JsonValue, canonical: CanonicalResult) -> Tree:
    if name == "retryable":
        return with_sources(value, "/error/retryable")
    if not isinstance(value, str):
        return Segment(json.dumps(value), "label")
    document = canonical.to_json()
    for pointer in POINTERS.get(name, ()):
        field = text_at(document, pointer)
        if field and value.endswith(field):
            source = SegmentSource("canonical", pointer, 0, len(field))
            before = (Segment(value[: -len(field)], "label"),) if value != field else ()
            return JsonString((*before, Segment(field, "value", source)))
    return JsonString((Segment(value, "label"),))


VARIANT = Variant(id="outcome_json", version=3, title="Outcome as JSON", render=render)
