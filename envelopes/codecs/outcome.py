"""The outcomes of a tool loop, a union of five, from settlements and back (the table `SITUATIONS`).

An outcome contains less than a settlement. `decode` takes the rest from `ended_at` and the table of situations;
encoding the settlement again gives the same outcome, if no point in time is finer than a microsecond.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from envelopes.schema.outcome import (
    CANCELLED,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    fits_inline,
    refer_to_output,
)
from envelopes.schema.result import SUMMARY_CHARACTERS, CanonicalResult, ToolError, summarize
from envelopes.schema.settlement import Settlement, Situation, StoredOutput, blocks_tool, outcome_situation
from envelopes.schema.timestamps import epoch_seconds, format_instant, subtract_milliseconds
from envelopes.storage.sinks import ArtifactSink

Fields: TypeAlias = dict[str, Any]


def encode(settled: Settlement, canonical: CanonicalResult, sink: ArtifactSink) -> ToolOutcome:
    """Builds the outcome of a settled call. `canonical` is the envelope of the same call.

    A large output becomes a reference to the first artifact of the envelope, or to the whole output as JSON, which
    is then written to `sink`. A failure that is not `retryable` there blocks the tool (E-26).
    """
    if settled.end == "ok":
        return _success(settled, canonical, sink)
    assert settled.error is not None  # a settlement's invariant
    tool, message = canonical.tool_name, settled.error.message
    if settled.denied_reason is not None:
        return ToolDenied(settled.call_id, tool, settled.denied_reason, message)
    match settled.end:
        case "timeout":
            deadline = epoch_seconds(settled.deadline_at or settled.ended_at)
            return ToolTimeout(settled.call_id, tool, deadline, settled.duration_ms, settled.retryable)
        case "cancelled":
            return ToolFailure(settled.call_id, tool, CANCELLED, retryable=True, elapsed_ms=settled.duration_ms)
    return ToolFailure(settled.call_id, tool, message, not blocks_tool(settled.error), settled.duration_ms)


def decode(outcome: ToolOutcome, *, ended_at: str) -> Settlement:
    """Builds the settlement of a call that ended at `ended_at`.

    Raises InvalidSettlement or ValueError for an outcome that no call can have (a negative duration).
    """
    row = outcome_situation(outcome)
    fields, elapsed = _fields(outcome, row)
    return Settlement(
        call_id=outcome.call_id,
        phase=row.phase,
        end=row.end,
        denied_reason=row.reason,
        started_at=subtract_milliseconds(ended_at, elapsed),
        ended_at=ended_at,
        duration_ms=elapsed,
        **fields,
    )


def _success(settled: Settlement, canonical: CanonicalResult, sink: ArtifactSink) -> ToolOutcome:
    call, tool = settled.call_id, canonical.tool_name
    if settled.stored is not None:
        summary = settled.stored.summary or canonical.summary_text
        if len(summary) > SUMMARY_CHARACTERS:  # OUT-026, whoever stored it
            summary = summarize(summary)
        return ToolArtifactReference(call, tool, settled.stored.artifact_id, summary, settled.stored.size_bytes)
    assert settled.data is not None  # a settlement's invariant
    if fits_inline(settled.data):
        return ToolExecutionResult(call, tool, settled.data, settled.duration_ms, settled.was_coerced)
    text = json.dumps(settled.data)
    artifact = canonical.artifacts[0] if canonical.artifacts else sink.write("result", text)
    return refer_to_output(call, tool, text, artifact, output_summary=canonical.summary_text)


def _fields(outcome: ToolOutcome, row: Situation) -> tuple[Fields, int]:
    """The fields that a settlement takes from the outcome, and the elapsed milliseconds."""
    match outcome:
        case ToolExecutionResult(output=output, elapsed_ms=elapsed, was_coerced=coerced):
            return {"data": output, "was_coerced": coerced}, elapsed
        case ToolArtifactReference(artifact_id=artifact, summary=summary, size_bytes=size):
            return {"stored": StoredOutput(artifact_id=artifact, summary=summary, size_bytes=size)}, 0
        case ToolTimeout(deadline_s=deadline, elapsed_ms=elapsed, retryable=retryable):
            error = _error(row, f"Tool execution timed out after {elapsed} ms.", retryable=retryable)
            return {"error": error, "deadline_at": format_instant(deadline)}, elapsed
        case ToolFailure(error=message, elapsed_ms=elapsed, retryable=retryable):
            return {"error": _error(row, message, retryable=retryable)}, elapsed
    return {"error": _error(row, outcome.details, retryable=False)}, 0


def _error(row: Situation, message: str, *, retryable: bool) -> ToolError:
    return ToolError(kind=row.kind or "tool_execution_failed", message=message, retryable=retryable)
