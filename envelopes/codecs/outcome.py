"""The five-way union of a tool loop, from the settled truth and back (the Outcome column of E.3).

An outcome holds less than a settlement. `decode` fills in what it lacks from `ended_at` and the table;
encoding that again gives the same outcome, as long as no point in time is finer than a microsecond.
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
from envelopes.schema.settlement import Settlement, Situation, StoredOutput, outcome_situation
from envelopes.schema.timestamps import epoch_seconds, format_instant, subtract_milliseconds
from envelopes.storage.file_store import ArtifactSink

Fields: TypeAlias = dict[str, Any]


def encode(settled: Settlement, canonical: CanonicalResult, sink: ArtifactSink) -> ToolOutcome:
    """`canonical` gives the tool's name, the summary and the artifacts of the same call.

    A large output is referred to by the first artifact that its family made, else it is written to
    `sink` whole as JSON.
    """
    if settled.end == "ok":
        return _ran(settled, canonical, sink)
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
    return ToolFailure(settled.call_id, tool, message, settled.retryable, settled.duration_ms)


def decode(outcome: ToolOutcome, *, ended_at: str) -> Settlement:
    """Raises InvalidSettlement or ValueError for an outcome that no call can have (a negative duration)."""
    row = outcome_situation(outcome)
    known, elapsed = _known(outcome, row)
    return Settlement(
        call_id=outcome.call_id,
        phase=row.phase,
        end=row.end,
        denied_reason=row.reason,
        started_at=subtract_milliseconds(ended_at, elapsed),
        ended_at=ended_at,
        duration_ms=elapsed,
        **known,
    )


def _ran(settled: Settlement, canonical: CanonicalResult, sink: ArtifactSink) -> ToolOutcome:
    call, tool = settled.call_id, canonical.tool_name
    if settled.stored is not None:
        said = settled.stored.summary or canonical.summary_text
        said = said if len(said) <= SUMMARY_CHARACTERS else summarize(said)  # OUT-026, whoever stored it
        return ToolArtifactReference(call, tool, settled.stored.artifact_id, said, settled.stored.size_bytes)
    assert settled.data is not None  # a settlement's invariant
    if fits_inline(settled.data):
        return ToolExecutionResult(call, tool, settled.data, settled.duration_ms, settled.was_coerced)
    text = json.dumps(settled.data)
    artifact = canonical.artifacts[0] if canonical.artifacts else sink.write("result", text)
    return refer_to_output(call, tool, text, artifact, output_summary=canonical.summary_text)


def _known(outcome: ToolOutcome, row: Situation) -> tuple[Fields, int]:
    """What the settlement takes from the outcome, and the elapsed milliseconds."""
    match outcome:
        case ToolExecutionResult(output=output, elapsed_ms=elapsed, was_coerced=coerced):
            return {"data": output, "was_coerced": coerced}, elapsed
        case ToolArtifactReference(artifact_id=artifact, summary=said, size_bytes=size):
            return {"stored": StoredOutput(artifact_id=artifact, summary=said, size_bytes=size)}, 0
        case ToolTimeout(deadline_s=deadline, elapsed_ms=elapsed, retryable=retryable):
            error = _error(row, f"Tool execution timed out after {elapsed} ms.", retryable=retryable)
            return {"error": error, "deadline_at": format_instant(deadline)}, elapsed
        case ToolFailure(error=message, elapsed_ms=elapsed, retryable=retryable):
            return {"error": _error(row, message, retryable=retryable)}, elapsed
    return {"error": _error(row, outcome.details, retryable=False)}, 0


def _error(row: Situation, message: str, *, retryable: bool) -> ToolError:
    return ToolError(kind=row.kind or "tool_execution_failed", message=message, retryable=retryable)
