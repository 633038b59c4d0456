"""Retries: whether and when a failed call gets another attempt (CALL section 5; OD-4 to OD-7).

decide_retry   the next attempt and its wait, or what happens instead: stop or skip
next_call      the call of the next attempt, which has the step and the run of the one before
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envelopes.plan.schema import Defaults, OnError, RetryPolicy, Step
from envelopes.schema.call import Limits, ToolCall, ToolResult
from envelopes.schema.tool import RiskLevel

MAX_ATTEMPTS = 10
MAX_BACKOFF_MS = 600_000
DEFAULT_RETRY = RetryPolicy(max_attempts=3, backoff_ms=250)  # OD-5, for `onError: retry` without numbers
NOT_RETRYABLE = frozenset({"VALIDATION_ERROR", "POLICY_DENIED", "CANCELLED"})  # the next attempt would end the same

StepFailure: TypeAlias = Literal["stop", "skip"]


class NextAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """`requested` is what the plan asks for; the policy's limits are applied to `attempts` and `wait_ms`."""

    attempt: int
    attempts: int
    wait_ms: int
    requested: RetryPolicy

    @property
    def is_clamped(self) -> bool:
        requested_wait = _backoff(self.requested.backoff_ms, self.attempt)
        return (self.attempts, self.wait_ms) != (self.requested.max_attempts, requested_wait)


def decide_retry(
    result: ToolResult, step: Step, defaults: Defaults, limits: Limits, risk: RiskLevel
) -> NextAttempt | StepFailure:
    """Decides what follows a result that is not ok. `risk` is the tool's."""
    requested = _requested_retry(result, step, defaults, risk)
    if requested is not None and _is_retryable(result):
        allowed = MAX_ATTEMPTS if limits.max_attempts is None else min(limits.max_attempts, MAX_ATTEMPTS)
        attempts = min(requested.max_attempts, allowed)
        if result.attempt < attempts:
            longest = MAX_BACKOFF_MS if limits.max_backoff_ms is None else limits.max_backoff_ms
            wait = min(_backoff(requested.backoff_ms, result.attempt + 1), longest)
            return NextAttempt(attempt=result.attempt + 1, attempts=attempts, wait_ms=wait, requested=requested)
    return "skip" if on_error(step, defaults) == "skip" else "stop"


def on_error(step: Step, defaults: Defaults) -> OnError:
    """The step's setting, else the plan's, else stop."""
    return step.on_error or defaults.on_error or "stop"


def next_call(call: ToolCall, *, call_id: str, created_at: str, deadline_at: str | None = None) -> ToolCall:
    """Builds the next attempt with the same arguments: references are not resolved a second time."""
    return msgspec.structs.replace(
        call, call_id=call_id, attempt=call.attempt + 1, created_at=created_at, deadline_at=deadline_at
    )


def _requested_retry(result: ToolResult, step: Step, defaults: Defaults, risk: RiskLevel) -> RetryPolicy | None:
    """A retry is requested by the step, by the plan, or by a retryable error of a tool that only reads (OD-6)."""
    policy = step.retry or defaults.retry
    if policy is not None or on_error(step, defaults) == "retry":
        return policy or DEFAULT_RETRY
    is_marked_retryable = result.error is not None and result.error.retryable is True
    return DEFAULT_RETRY if is_marked_retryable and risk == "read-only" else None


def _is_retryable(result: ToolResult) -> bool:
    """An error marked as not retryable overrides the plan. A skip is not a failure of the tool."""
    error = result.error
    return result.status in ("error", "timeout") and not (
        error is not None and (error.retryable is False or error.code in NOT_RETRYABLE)
    )


def _backoff(base: int, attempt: int) -> int:
    """The base before the second attempt, then twice as long each time."""
    doubled: int = base * 2 ** (attempt - 2)
    return doubled
