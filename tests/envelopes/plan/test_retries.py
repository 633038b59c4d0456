"""Retries of failed calls: who requests them, what forbids them, and the limits of the policy."""

from __future__ import annotations

from typing import Any

import pytest

from envelopes.codecs import call as calls
from envelopes.plan.retries import NextAttempt, decide_retry, next_call
from envelopes.plan.schema import Defaults, RetryPolicy, Step
from envelopes.schema.call import CallError, Limits, ToolResult
from tests.cases import each
from tests.envelopes.settled import AT, call, settled

TWICE = RetryPolicy(max_attempts=2, backoff_ms=100)


def step(**fields: Any) -> Step:
    return Step(id="s1", tool="ExecCommand", args={}, **fields)


def failed(code: str = "INTERNAL_ERROR", *, attempt: int = 1, retryable: bool | None = None) -> ToolResult:
    ends = {"TIMEOUT": "timeout", "CANCELLED": "cancelled"}
    known: dict[str, Any] = {"call_id": "c1", "run_id": "r1", "step_id": "s1", "tool": "ExecCommand", "ok": False}
    known |= {"status": ends.get(code, "error"), "started_at": AT, "ended_at": AT, "duration_ms": 1}
    return ToolResult(attempt=attempt, error=CallError(code=code, message="it failed", retryable=retryable), **known)


def waits(result: ToolResult, failed_step: Step, defaults: Defaults | None = None, **limits: int) -> Any:
    """The wait before the next attempt in milliseconds, or what happens instead."""
    decision = decide_retry(result, failed_step, defaults or Defaults(), Limits(**limits), "writes")
    return decision.wait_ms if isinstance(decision, NextAttempt) else decision


@each(
    ("failed_step", "defaults", "expected"),
    [
        (step(), Defaults(), "stop"),
        (step(on_error="skip"), Defaults(), "skip"),
        (step(), Defaults(on_error="skip"), "skip"),
        (step(on_error="stop"), Defaults(on_error="skip"), "stop"),
        (step(on_error="retry"), Defaults(), 250),
        (step(on_error="retry"), Defaults(retry=TWICE), 100),
        (step(on_error="retry", retry=TWICE), Defaults(retry=RetryPolicy(max_attempts=9)), 100),
        (step(on_error="skip", retry=TWICE), Defaults(), 100),
        (step(), Defaults(on_error="retry"), 250),
        (step(), Defaults(retry=TWICE), 100),
    ],
)
def test_the_step_asks_before_the_plan_and_else_the_run_stops(
    failed_step: Step, defaults: Defaults, expected: Any
) -> None:
    assert waits(failed(), failed_step, defaults) == expected


@each("code", ["VALIDATION_ERROR", "POLICY_DENIED", "CANCELLED"])
def test_what_would_end_the_same_way_is_never_tried_again(code: str) -> None:
    assert waits(failed(code, retryable=True), step(retry=TWICE)) == "stop"


@pytest.mark.parametrize(
    ("retryable", "risk", "policy", "tried"),
    [
        (False, "read-only", TWICE, False),
        (None, "writes", TWICE, True),
        (True, "writes", TWICE, True),
        (True, "read-only", None, True),
        (True, "writes", None, False),
        (None, "read-only", None, False),
    ],
)
def test_an_error_that_says_no_wins_and_one_that_says_yes_is_enough_for_a_tool_that_reads(
    *, retryable: bool | None, risk: Any, policy: RetryPolicy | None, tried: bool
) -> None:
    decision = decide_retry(failed(retryable=retryable), step(retry=policy), Defaults(), Limits(), risk)
    assert isinstance(decision, NextAttempt) == tried


def test_a_skip_is_no_failure_to_try_again() -> None:
    skipped = calls.to_result(call(), settled("duplicate"))
    assert waits(skipped, step(retry=TWICE, on_error="skip")) == "skip"


def test_attempts_end_where_the_plan_or_the_policy_says() -> None:
    five = step(retry=RetryPolicy(max_attempts=5, backoff_ms=100), on_error="skip")
    assert [waits(failed(attempt=n), five) for n in range(1, 6)] == [100, 200, 400, 800, "skip"]
    assert [waits(failed(attempt=n), five, max_attempts=3) for n in range(1, 4)] == [100, 200, "skip"]
    assert [waits(failed(attempt=n), five, max_backoff_ms=250) for n in range(1, 6)] == [100, 200, 250, 250, "skip"]
    assert waits(failed(), five, max_attempts=1) == "skip"
    assert waits(failed(attempt=10), step(retry=RetryPolicy(max_attempts=10)), max_attempts=50) == "stop"


@pytest.mark.parametrize(
    ("limits", "clamped"), [({}, False), ({"max_attempts": 2}, True), ({"max_backoff_ms": 9}, True)]
)
def test_what_was_asked_for_and_what_holds_are_both_said(limits: dict[str, int], *, clamped: bool) -> None:
    decision = decide_retry(
        failed("TIMEOUT"), step(retry=RetryPolicy(max_attempts=4)), Defaults(), Limits(**limits), "commands"
    )
    assert isinstance(decision, NextAttempt)
    assert (decision.attempt, decision.requested, decision.is_clamped) == (
        2,
        RetryPolicy(max_attempts=4, backoff_ms=250),
        clamped,
    )
    assert decision.attempts == limits.get("max_attempts", 4)


def test_the_next_attempt_is_a_call_of_its_own_tied_by_step_and_run() -> None:
    first = call(call_id="c1", args={"cmd": "make"}, deadline_at=AT, confirmation_id="ok_1")
    second = next_call(first, call_id="c2", created_at="2025-12-16T18:13:00Z")
    assert (second.call_id, second.attempt, second.created_at) == ("c2", 2, "2025-12-16T18:13:00Z")
    assert (second.run_id, second.step_id, second.args) == (first.run_id, first.step_id, first.args)
    assert (second.deadline_at, second.confirmation_id) == (None, "ok_1")
    pairs = [
        (made_call, calls.to_result(made_call, settled("tool_error", call_id=made_call.call_id)))
        for made_call in (first, second)
    ]
    assert [(made_call.attempt, ended.attempt, ended.call_id) for made_call, ended in pairs] == [
        (1, 1, "c1"),
        (2, 2, "c2"),
    ]
