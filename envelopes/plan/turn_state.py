"""The state of a tool loop between its calls.

TurnState      the blocked tools of one turn (OUT-048)
ReplayControl  counts of calls by arguments, for one turn; finds duplicates
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
SAME_FAILURES = 3  # after which a tool is blocked, however often it says that it may be retried (E-26)


@dataclass
class TurnState:
    """`failures` counts the calls that failed alike: with the same tool, arguments and error.

    `blocked_after` has for a blocked tool the id and the error of the call that blocked it. `ended_by` is the tool of
    a call that ended the turn (TOOLS-017): no call after it runs.
    """

    blocked_tool_names: set[str] = field(default_factory=set)
    blocked_after: dict[str, tuple[str, str]] = field(default_factory=dict)
    failures: Counter[tuple[Key | None, str]] = field(default_factory=Counter)
    ended_by: str | None = None


@dataclass
class ReplayControl:
    """Counts calls by tool and hash of the arguments. Arguments without a hash (NaN) are never a duplicate.

    `last_ids` has the id of the last call that succeeded, as the model knows it. A success counts until the end of the
    turn, and until a call that writes or runs commands: the same question may have another answer then.
    """

    succeeded: Counter[Key] = field(default_factory=Counter)
    failed: Counter[Key] = field(default_factory=Counter)
    timed_out: Counter[Key] = field(default_factory=Counter)
    denied: Counter[Key] = field(default_factory=Counter)
    last_ids: dict[Key, str] = field(default_factory=dict)

    def is_duplicate(self, tool: str, args: dict[str, Any], *, idempotent: bool) -> bool:
        """An idempotent tool has succeeded with these arguments before (OUT-019)."""
        return idempotent and _key(tool, args) in self.succeeded

    def earlier_id(self, tool: str, args: dict[str, Any]) -> str | None:
        """The id of the last call that succeeded with these arguments."""
        key = _key(tool, args)
        return None if key is None else self.last_ids.get(key)

    def record_success(self, tool: str, args: dict[str, Any], call_id: str | None = None) -> None:
        _count(self.succeeded, tool, args)
        if call_id is not None and (key := _key(tool, args)) is not None:
            self.last_ids[key] = call_id

    def forget_successes(self) -> None:
        self.succeeded.clear()
        self.last_ids.clear()

    def record_failure(self, tool: str, args: dict[str, Any]) -> None:
        _count(self.failed, tool, args)

    def record_timeout(self, tool: str, args: dict[str, Any]) -> None:
        _count(self.timed_out, tool, args)

    def record_denied(self, tool: str, args: dict[str, Any]) -> None:
        """A denied call did not run, so the same call later is not a duplicate (E-13)."""
        _count(self.denied, tool, args)


def apply_outcome(
    outcome: ToolOutcome,
    args: dict[str, Any],
    state: TurnState,
    replay: ReplayControl,
    provider_call_id: str | None = None,
) -> None:
    """Updates the turn with an outcome: a success counts for duplicates, a final failure blocks the tool.

    The third call that fails alike blocks it as well; a cancel is the operator's and counts for nothing. A refusal
    that follows names the call by `provider_call_id`, the only id of it that the model has seen.

    Rules: OUT-046, OUT-047, E-13.
    """
    tool = outcome.tool_name
    match outcome:
        case ToolExecutionResult() | ToolArtifactReference():
            replay.record_success(tool, args, provider_call_id)
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
    if tool in state.blocked_tool_names and isinstance(outcome, ToolFailure | ToolTimeout):
        error = outcome.error if isinstance(outcome, ToolFailure) else f"it timed out after {outcome.elapsed_ms} ms"
        state.blocked_after.setdefault(tool, (provider_call_id or "", error))


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
