"""The tool-loop strings of `outcome_to_model_content` (OUT-031 to OUT-040), from an envelope alone.

What the envelope does not keep is not made up:

* of a timeout the message that was stored stands in the place of the elapsed milliseconds;
* a result that has artifacts, and was bounded or is over 12,000 characters, is the reference to the first
  of them; else the output is the result, with its artifacts inside it.
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
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue, ToolError, summarize
from envelopes.schema.settlement import envelope_situation
from envelopes.schema.variant import Variant
from envelopes.text.pointer import text_at
from envelopes.variants.json_writing import Text, Tree, bounded, own, sourced

# Where a member may come from; it does where it equals the field, or ends in it ("Blocked: …").
POINTERS = {
    "status": ("/status",),
    "error": ("/error/message", "/error/kind"),
    "details": ("/error/message",),
    "warning": ("/error/kind",),
    "artifact_reference": ("/artifacts/0/path",),
    "summary": ("/summary_text",),
}


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    outcome = outcome_of(canonical)
    if isinstance(outcome, ToolExecutionResult):
        tree = _output(canonical)
    else:
        content = _content(outcome, canonical)
        tree = {name: _member(name, value, canonical) for name, value in content.items()}
    return bounded(tree, policy, ascii_only=True)


def outcome_of(canonical: CanonicalResult) -> ToolOutcome:
    """Without a call's id and times, which an envelope does not hold: for the model's content alone."""
    tool, error = canonical.tool_name, canonical.error
    if error is not None:
        return _failure(tool, error)
    output = _nested(canonical)
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
    return ToolFailure("", tool, error.message, error.retryable)


def _content(outcome: ToolOutcome, canonical: CanonicalResult) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(outcome_to_model_content(outcome))
    if isinstance(outcome, ToolTimeout) and canonical.error is not None:
        content["error"] = canonical.error.message
    return content


def _nested(canonical: CanonicalResult) -> Any:
    """The output: the result, and in it the artifacts that the envelope keeps beside it (spec/model.md E-4)."""
    document = canonical.to_json()
    result = document["result"]
    if not canonical.artifacts or not isinstance(result, dict):
        return result
    return result | {"artifacts": document["artifacts"]}


def _output(canonical: CanonicalResult) -> Tree:
    tree = sourced(canonical.result, "/result")
    nested = _nested(canonical)
    if isinstance(tree, dict) and canonical.artifacts:
        return tree | {"artifacts": sourced(nested["artifacts"], "/artifacts")}
    return tree


def _is_bounded(value: JsonValue) -> bool:
    """A flag says so; a family without flags for it names the artifact or the number of what is left out."""
    if isinstance(value, list):
        return any(map(_is_bounded, value))
    if not isinstance(value, dict):
        return False
    flags = [child for name, child in value.items() if name == "truncated" or name.endswith("_truncated")]
    marks = flags or [name for name in value if name.endswith(("_artifact", "_omitted"))]
    return any(marks) or any(map(_is_bounded, value.values()))


def _member(name: str, value: JsonValue, canonical: CanonicalResult) -> Tree:
    if name == "retryable":
        return sourced(value, "/error/retryable")
    if not isinstance(value, str):
        return Segment(json.dumps(value), "label")
    document = canonical.to_json()
    for pointer in POINTERS.get(name, ()):
        field = text_at(document, pointer)
        if field and value.endswith(field):
            source = SegmentSource("canonical", pointer, 0, len(field))
            before = (Segment(value[: -len(field)], "label"),) if value != field else ()
            return Text((*before, Segment(field, "value", source)))
    return own(value)


VARIANT = Variant(id="outcome_json", version=1, title="Outcome as JSON", render=render)
