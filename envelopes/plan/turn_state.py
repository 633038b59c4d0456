"""The state of a tool loop between its calls.

TurnState      the blocked tools of one turn (OUT-048)
ReplayControl  counts of calls by arguments, for as long as the loop keeps it; finds duplicates
apply_outcome  updates both with one outcome (OUT-044 to OUT-047)
"""

from __future__ import annotations

from collections import Counter
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
    outcome_blocks_tool,
)
from envelopes.text.canonical_json import NotCanonical, named_hash

Key: TypeAlias = tuple[str, str]
SAME_FAILURES = 3  # after which a tool is blocked, however often it says that it may be retried (spec/model.md E-26)


@dataclass
class TurnState:
    """`failures` counts the calls that failed alike: with the same tool, arguments and error."""

    blocked_tool_names: set[str] = field(default_factory=set)
    failures: Counter[tuple[Key | None, str]] = field(default_factory=Counter)


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

    The third call that fails alike blocks it as well; a cancel is the operator's and counts for nothing.

    Rules: OUT-046, OUT-047, spec/model.md E-13.
    """
    tool = outcome.tool_name
    match outcome:
        case ToolExecutionResult() | ToolArtifactReference():
            replay.record_success(tool, args)
        case ToolFailure():
            replay.record_failure(tool, args)
            if outcome.error != CANCELLED:
                _count_failure(tool, args, outcome.error, state)
        case ToolTimeout():
            replay.record_timeout(tool, args)
            _count_failure(tool, args, "timeout", state)
        case ToolDenied():
            replay.record_denied(tool, args)
        case _:
            assert_never(outcome)
    if outcome_blocks_tool(outcome):
        state.blocked_tool_names.add(tool)


def _count_failure(tool: str, args: dict[str, Any], error: str, state: TurnState) -> None:
    failure = _key(tool, args), error
    state.failures[failure] += 1
    if state.failures[failure] >= SAME_FAILURES:
        state.blocked_tool_names.add(tool)


def _key(tool: str, args: dict[str, Any]) -> Key | None:
    try:
        return tool, named_hash(args)
    except NotCanonical:
        return None


def _count(counter: Counter[Key], tool: str, args: dict[str, Any]) -> None:
    if (key := _key(tool, args)) is not None:
        counter[key] += 1
