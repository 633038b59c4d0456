"""The state of a tool loop between its calls, and the outcome of a dispatch.

TurnState      the blocked tools of one turn (OUT-048)
ReplayControl  counts of calls by arguments, for as long as the loop keeps it; finds duplicates
apply_outcome  updates both with one outcome (OUT-044 to OUT-047)

outcome_from_output, outcome_from_exception, outcome_from_timeout, outcome_from_cancel
               build the outcome of a dispatch
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from envelopes.schema.outcome import (
    CANCELLED,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    fits_inline,
    outcome_blocks_tool,
    refer_to_output,
)
from envelopes.schema.tool import RiskLevel
from envelopes.storage.file_store import ArtifactSink
from envelopes.text.canonical_json import NotCanonical, named_hash

Key: TypeAlias = tuple[str, str]


@dataclass
class TurnState:
    blocked_tool_names: set[str] = field(default_factory=set)


@dataclass
class ReplayControl:
    """Counts calls by tool and hash of the arguments. Arguments without a hash (NaN) are never a duplicate."""

    succeeded: Counter[Key] = field(default_factory=Counter)
    failed: Counter[Key] = field(default_factory=Counter)
    timed_out: Counter[Key] = field(default_factory=Counter)
    denied: Counter[Key] = field(default_factory=Counter)

    def is_duplicate(self, tool: str, args: dict[str, Any], *, idempotent: bool) -> bool:
        """An idempotent tool has succeeded with these arguments before (OUT-019)."""
        return idempotent and _key(tool, args) in self.succeeded

    def record_success(self, tool: str, args: dict[str, Any]) -> None:
        _count(self.succeeded, tool, args)

    def record_failure(self, tool: str, args: dict[str, Any]) -> None:
        _count(self.failed, tool, args)

    def record_timeout(self, tool: str, args: dict[str, Any]) -> None:
        _count(self.timed_out, tool, args)

    def record_denied(self, tool: str, args: dict[str, Any]) -> None:
        """A denied call did not run, so the same call later is not a duplicate (spec/model.md E-13)."""
        _count(self.denied, tool, args)


def apply_outcome(outcome: ToolOutcome, args: dict[str, Any], state: TurnState, replay: ReplayControl) -> None:
    """Updates the turn with an outcome: a success counts for duplicates, a final failure blocks the tool.

    Rules: OUT-046, OUT-047, spec/model.md E-13.
    """
    tool = outcome.tool_name
    match outcome:
        case ToolExecutionResult() | ToolArtifactReference():
            replay.record_success(tool, args)
        case ToolFailure():
            replay.record_failure(tool, args)
        case ToolTimeout():
            replay.record_timeout(tool, args)
        case ToolDenied():
            replay.record_denied(tool, args)
        case _:
            assert_never(outcome)
    if outcome_blocks_tool(outcome):
        state.blocked_tool_names.add(tool)


def outcome_from_output(
    call_id: str,
    tool: str,
    output: dict[str, Any],
    *,
    elapsed_ms: int,
    sink: ArtifactSink,
    was_coerced: bool = False,
) -> ToolExecutionResult | ToolArtifactReference | ToolFailure:
    """Builds the outcome of an output: one with an `error` failed (OUT-015), one over 12,000 characters is stored."""
    if output.get("error") is not None:
        retryable = output.get("retryable", True) is not False
        error = output["error"]
        return ToolFailure(call_id, tool, error if isinstance(error, str) else json.dumps(error), retryable, elapsed_ms)
    if fits_inline(output):
        return ToolExecutionResult(call_id, tool, output, elapsed_ms, was_coerced)
    text = json.dumps(output)
    return refer_to_output(call_id, tool, text, sink.write("result", text))


def outcome_from_exception(
    call_id: str, tool: str, error: BaseException, *, risk: RiskLevel, elapsed_ms: int = 0
) -> ToolFailure:
    """An exception does not state whether to retry, so only tools that change nothing are (spec/model.md E-10)."""
    return ToolFailure(call_id, tool, str(error) or type(error).__name__, risk == "read-only", elapsed_ms)


def outcome_from_timeout(
    call_id: str, tool: str, *, deadline_s: float, elapsed_ms: int, metadata: Mapping[str, Any]
) -> ToolTimeout:
    """`retry_on_timeout` in the tool's `metadata` decides whether to retry (OUT-011); the default is true."""
    return ToolTimeout(call_id, tool, deadline_s, elapsed_ms, metadata.get("retry_on_timeout", True) is not False)


def outcome_from_cancel(call_id: str, tool: str, *, elapsed_ms: int = 0) -> ToolFailure:
    """Retryable, so that an operator's cancel does not block the tool (spec/model.md E-14)."""
    return ToolFailure(call_id, tool, CANCELLED, retryable=True, elapsed_ms=elapsed_ms)


def _key(tool: str, args: dict[str, Any]) -> Key | None:
    try:
        return tool, named_hash(args)
    except NotCanonical:
        return None


def _count(counter: Counter[Key], tool: str, args: dict[str, Any]) -> None:
    if (key := _key(tool, args)) is not None:
        counter[key] += 1
