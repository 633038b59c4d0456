"""The five outcomes: their fields, the message of each for the model, and how a loop uses them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from envelopes.plan import turn_state
from envelopes.plan.turn_state import ReplayControl, TurnState, apply_outcome
from envelopes.schema.outcome import (
    DENIAL_GATES,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    fits_inline,
    outcome_blocks_tool,
    outcome_is_error,
    outcome_is_retryable,
    outcome_to_model_content,
    tool_message,
)
from tests.conftest import CHECKOUT

RAN = ToolExecutionResult("c1", "Search", {"hits": [1, 2], "café": None}, 12)
KEPT = ToolArtifactReference("c1", "Search", "artifacts/ab/result.txt", "40 hits", 13_000)
TIMED_OUT = ToolTimeout("c1", "Search", 1765908721.5, 1200)
FAILED = ToolFailure("c1", "Search", "no index")
STUCK = ToolTimeout("c1", "Search", 1765908721.5, 1200, retryable=False)
BROKEN = ToolFailure("c1", "Search", "no index", retryable=False)


def denied(reason: str, details: str = "") -> ToolDenied:
    return ToolDenied("c1", "Search", reason, details)


DENIED = [denied(reason) for reason in DENIAL_GATES]
ALL: list[ToolOutcome] = [RAN, KEPT, TIMED_OUT, FAILED, STUCK, BROKEN, *DENIED]


def test_the_union_has_these_five_members_and_no_other() -> None:
    assert get_args(ToolOutcome) == (
        *(ToolExecutionResult, ToolTimeout, ToolFailure, ToolDenied, ToolArtifactReference),
    )


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ToolExecutionResult, "call_id tool_name output elapsed_ms was_coerced=False"),
        (ToolTimeout, "call_id tool_name deadline_s elapsed_ms retryable=True"),
        (ToolFailure, "call_id tool_name error retryable=True elapsed_ms=0"),
        (ToolDenied, "call_id tool_name reason details="),
        (ToolArtifactReference, "call_id tool_name artifact_id summary size_bytes=0"),
    ],
)
def test_an_outcome_has_these_fields_in_this_order(kind: Any, fields: str) -> None:
    actual = [
        field.name if field.default is dataclasses.MISSING else f"{field.name}={field.default}"
        for field in dataclasses.fields(kind)
    ]
    assert " ".join(actual) == fields


@pytest.mark.parametrize("outcome", ALL)
def test_an_outcome_cannot_be_changed(outcome: ToolOutcome) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.call_id = "c2"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("outcome", "content"),
    [
        (RAN, '{"hits": [1, 2], "caf\\u00e9": null}'),
        (
            TIMED_OUT,
            '{"status": "error", "error": "Tool execution timed out after 1200 ms.",'
            ' "timed_out": true, "retryable": true}',
        ),
        (
            STUCK,
            '{"status": "error", "error": "Tool execution timed out after 1200 ms.",'
            ' "timed_out": true, "retryable": false}',
        ),
        (FAILED, '{"status": "error", "error": "no index", "retryable": true}'),
        (BROKEN, '{"status": "error", "error": "no index", "retryable": false}'),
        (denied("duplicate"), '{"warning": "duplicate_tool_call", "skipped": true}'),
        (denied("blocked"), '{"warning": "non_retryable_tool_failure", "skipped": true}'),
        (
            denied("validation", "q: missing"),
            '{"error": "argument_validation_failed", "details": "q: missing",'
            ' "hint": "Correct the arguments to match the tool\'s schema and call it again."}',
        ),
        (denied("deadline"), '{"error": "Turn deadline expired; cannot execute tool.", "timed_out": true}'),
        (denied("pre_hook", "not on Fridays"), '{"error": "Blocked: not on Fridays", "blocked": true}'),
        (denied("pre_hook"), '{"error": "Blocked: pre_hook", "blocked": true}'),
        (denied("write_denied", "no"), '{"error": "Blocked: no", "blocked": true}'),
        (denied("quota"), '{"error": "Blocked: quota", "blocked": true}'),
        (
            KEPT,
            '{"artifact_reference": "artifacts/ab/result.txt", "summary": "40 hits",'
            ' "hint": "The output is too large to show here. Use read_file to retrieve the full content."}',
        ),
    ],
)
def test_the_model_reads(outcome: ToolOutcome, content: str) -> None:
    assert outcome_to_model_content(outcome) == content


def test_a_provider_may_call_its_reading_tool_otherwise() -> None:
    hint = json.loads(outcome_to_model_content(KEPT, read_tool="ReadArtifact"))["hint"]
    assert hint == "The output is too large to show here. Use ReadArtifact to retrieve the full content."


def test_a_value_other_than_an_outcome_is_refused() -> None:
    with pytest.raises(AssertionError):
        outcome_to_model_content({"error": "a dict"})  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        apply_outcome(SimpleNamespace(tool_name="T"), {}, TurnState(), ReplayControl())  # type: ignore[arg-type]


@pytest.mark.extended
def test_mypy_reports_a_match_that_lacks_an_outcome(tmp_path: Path) -> None:
    """`assert_never` gets the missing case: a match without one of the five is an error before anything runs."""
    source = Path(turn_state.__file__).read_text("utf-8")
    forgetful = source.replace("        case ToolTimeout():\n            replay.record_timeout(tool, args)\n", "")
    assert forgetful != source
    (tmp_path / "forgetful.py").write_text(forgetful, "utf-8")
    cache = CHECKOUT / ".mypy_cache" / "outcome"  # its own: the house's has other options
    command = ["-m", "mypy", "--strict", "--config-file=", "--cache-dir", cache, tmp_path / "forgetful.py"]
    environment = os.environ | {"MYPYPATH": str(CHECKOUT)}
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert 'Argument 1 to "assert_never" has incompatible type "ToolTimeout"' in done.stdout


def test_the_tool_message_carries_the_providers_id() -> None:
    assert tool_message("toolu_1", FAILED) == {
        "role": "tool",
        "tool_call_id": "toolu_1",
        "content": '{"status": "error", "error": "no index", "retryable": true}',
    }


@pytest.mark.parametrize("outcome", ALL)
def test_the_predicates_are_about_timeouts_and_failures_alone(outcome: ToolOutcome) -> None:
    broke = isinstance(outcome, ToolTimeout | ToolFailure)
    again = outcome in (TIMED_OUT, FAILED)
    assert outcome_is_error(outcome) is broke
    assert outcome_is_retryable(outcome) is again
    assert outcome_blocks_tool(outcome) is (broke and not again)


def test_six_reasons_come_from_four_gates() -> None:
    assert DENIAL_GATES == {
        "duplicate": "replay",
        "blocked": "block_list",
        "pre_hook": "authorisation",
        "write_denied": "authorisation",
        "validation": "readiness",
        "deadline": "readiness",
    }


def test_an_output_is_measured_as_it_is_sent_with_escapes() -> None:
    assert fits_inline({"t": "é" * 1_998})
    assert not fits_inline({"t": "é" * 1_999})


def replayed(*outcomes: ToolOutcome) -> tuple[TurnState, ReplayControl]:
    state, replay = TurnState(), ReplayControl()
    for outcome in outcomes:
        apply_outcome(outcome, {"q": 1}, state, replay)
    return state, replay


@pytest.mark.parametrize("outcome", ALL)
def test_only_a_call_that_succeeded_makes_the_next_one_a_duplicate(outcome: ToolOutcome) -> None:
    _, replay = replayed(outcome)
    assert replay.is_duplicate("Search", {"q": 1}, idempotent=True) is (outcome in (RAN, KEPT))


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (RAN, "succeeded"),
        (KEPT, "succeeded"),
        (FAILED, "failed"),
        (BROKEN, "failed"),
        (TIMED_OUT, "timed_out"),
        *[(outcome, "denied") for outcome in DENIED],
    ],
)
def test_each_outcome_is_recorded_as_what_it_was(outcome: ToolOutcome, counted: str) -> None:
    _, replay = replayed(outcome, outcome)
    counts = {
        field.name: sum(getattr(replay, field.name).values())
        for field in dataclasses.fields(replay)
        if field.name != "last_ids"
    }
    assert counts == {"succeeded": 0, "failed": 0, "timed_out": 0, "denied": 0} | {counted: 2}


def test_a_duplicate_has_the_same_tool_and_the_same_arguments() -> None:
    replay = ReplayControl()
    replay.record_success("Search", {"q": 1, "limit": 2})
    assert replay.is_duplicate("Search", {"limit": 2, "q": 1.0}, idempotent=True)
    assert not replay.is_duplicate("Search", {"limit": 2, "q": 1}, idempotent=False)
    assert not replay.is_duplicate("Search", {"limit": 2, "q": 2}, idempotent=True)
    assert not replay.is_duplicate("Fetch", {"limit": 2, "q": 1}, idempotent=True)


def test_arguments_without_a_hash_are_never_a_duplicate() -> None:
    replay = ReplayControl()
    replay.record_success("Search", {"q": float("nan")})
    assert not replay.is_duplicate("Search", {"q": float("nan")}, idempotent=True)
    assert not replay.succeeded


@pytest.mark.parametrize("outcome", ALL)
def test_a_tool_is_blocked_by_a_failure_that_may_not_be_retried_and_by_nothing_else(outcome: ToolOutcome) -> None:
    state, _ = replayed(outcome)
    assert state.blocked_tool_names == ({"Search"} if outcome in (STUCK, BROKEN) else set())


def test_a_block_lasts_for_the_turn_and_a_success_does_not_lift_it() -> None:
    state, _ = replayed(BROKEN, RAN)
    assert state.blocked_tool_names == {"Search"}
    assert TurnState().blocked_tool_names == set()


def test_an_operators_cancel_does_not_block_the_tool() -> None:
    state, replay = replayed(*[ToolFailure("c1", "Search", "cancelled", retryable=True)] * 5)
    assert not state.blocked_tool_names
    assert not replay.is_duplicate("Search", {"q": 1}, idempotent=True)


@pytest.mark.parametrize("outcome", [FAILED, TIMED_OUT])
def test_the_third_call_that_fails_alike_blocks_its_tool(outcome: ToolOutcome) -> None:
    assert not replayed(outcome, outcome)[0].blocked_tool_names
    assert replayed(outcome, outcome, outcome)[0].blocked_tool_names == {"Search"}
    state, replay = TurnState(), ReplayControl()
    for number in range(4):  # other arguments are another failure, and so is another error
        apply_outcome(outcome, {"q": number}, state, replay)
        apply_outcome(ToolFailure("c1", "Search", f"error {number}"), {"q": 1}, state, replay)
    assert not state.blocked_tool_names
