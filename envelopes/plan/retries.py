"""Whether a failed call is tried again, and when (CALL section 5; OD-4 to OD-7).

decide      the next attempt's wait, or what the step does instead: stop or skip
next_call   the call of the next attempt, tied to the one before by step and run
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envelopes.plan.schema import Defaults, OnError, Retry, Step
from envelopes.schema.call import Limits, ToolCall, ToolResult
from envelopes.schema.tool import RiskLevel

MOST_ATTEMPTS = 10
USUAL = Retry(max_attempts=3, backoff_ms=250)  # OD-5, for a step that asks for retries and says no more
NEVER = frozenset({"VALIDATION_ERROR", "POLICY_DENIED", "CANCELLED"})  # the next attempt would end the same way

Ending: TypeAlias = Literal["stop", "skip"]


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """`requested` is what the plan asks for; `attempts` and `wait_ms` hold after the policy's limits."""

    attempt: int
    attempts: int
    wait_ms: int
    requested: Retry

    @property
    def is_clamped(self) -> bool:
        asked = _backoff(self.requested.backoff_ms, self.attempt)
        return (self.attempts, self.wait_ms) != (self.requested.max_attempts, asked)


def decide(result: ToolResult, step: Step, defaults: Defaults, limits: Limits, risk: RiskLevel) -> Again | Ending:
    """For a result that is not ok. `risk` is the tool's."""
    asked = _asked(result, step, defaults, risk)
    if asked is not None and _may_again(result):
        attempts = min(asked.max_attempts, _limit(limits.max_attempts, MOST_ATTEMPTS), MOST_ATTEMPTS)
        if result.attempt < attempts:
            wait = min(_backoff(asked.backoff_ms, result.attempt + 1), _limit(limits.max_backoff_ms, 600_000))
            return Again(attempt=result.attempt + 1, attempts=attempts, wait_ms=wait, requested=asked)
    return "skip" if on_error(step, defaults) == "skip" else "stop"


def on_error(step: Step, defaults: Defaults) -> OnError:
    """The step's, else the plan's, else stop."""
    return step.on_error or defaults.on_error or "stop"


def next_call(call: ToolCall, *, call_id: str, created_at: str, deadline_at: str | None = None) -> ToolCall:
    """The same arguments: what a reference gave is not asked for again."""
    return msgspec.structs.replace(
        call, call_id=call_id, attempt=call.attempt + 1, created_at=created_at, deadline_at=deadline_at
    )


def _asked(result: ToolResult, step: Step, defaults: Defaults, risk: RiskLevel) -> Retry | None:
    """What asks for a retry: the step, the plan, or an error of a tool that only reads (OD-6)."""
    asked = step.retry or defaults.retry
    if asked is not None or on_error(step, defaults) == "retry":
        return asked or USUAL
    says_so = result.error is not None and result.error.retryable is True
    return USUAL if says_so and risk == "read-only" else None


def _may_again(result: ToolResult) -> bool:
    """An error that says no is believed, whatever the plan asks for. A skip was no failure of the tool."""
    error = result.error
    return result.status in ("error", "timeout") and not (
        error is not None and (error.retryable is False or error.code in NEVER)
    )


def _backoff(base: int, attempt: int) -> int:
    """Before the second attempt the base, then twice as long each time."""
    doubled: int = base * 2 ** (attempt - 2)
    return doubled


def _limit(given: int | None, usual: int) -> int:
    return usual if given is None else given
