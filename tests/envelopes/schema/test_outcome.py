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
from hypothesis import given
from hypothesis import strategies as st

from envelopes.plan import tool_loop
from envelopes.plan.tool_loop import (
    ReplayControl,
    TurnState,
    apply_outcome,
    outcome_from_cancel,
    outcome_from_exception,
    outcome_from_output,
    outcome_from_timeout,
)
from envelopes.schema.outcome import (
    DENIAL_GATES,
    TOOL_MESSAGE_MAX_CHARS,
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
from envelopes.storage.file_store import MemorySink
from tests.conftest import CHECKOUT
from tests.envelopes.settled import output_of

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
    source = Path(tool_loop.__file__).read_text("utf-8")
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


def test_12_000_characters_of_json_are_inline_and_12_001_are_an_artifact() -> None:
    sink = MemorySink()
    assert TOOL_MESSAGE_MAX_CHARS == 12_000
    inline = outcome_from_output("c1", "T", output_of(12_000), elapsed_ms=5, sink=sink)
    assert inline == ToolExecutionResult("c1", "T", output_of(12_000), 5)
    assert len(outcome_to_model_content(inline)) == 12_000
    assert not sink.texts
    reference = outcome_from_output("c1", "T", output_of(12_001), elapsed_ms=5, sink=sink)
    assert isinstance(reference, ToolArtifactReference)
    assert sink.texts == {reference.artifact_id: json.dumps(output_of(12_001))}
    assert reference.artifact_id.endswith("/result.txt")
    assert reference.size_bytes == 12_001


def test_an_output_is_measured_as_it_is_sent_with_escapes() -> None:
    assert fits_inline({"t": "é" * 1_998})
    assert not fits_inline({"t": "é" * 1_999})


def test_a_reference_begins_like_its_output_and_stays_within_200_characters() -> None:
    reference = outcome_from_output("c1", "T", output_of(20_000), elapsed_ms=5, sink=MemorySink())
    assert isinstance(reference, ToolArtifactReference)
    assert reference.summary == '{"text": "' + "x" * 189 + "…"
    assert len(reference.summary) == 200
    assert len(outcome_to_model_content(reference)) < 500


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ({"error": "no disk"}, ToolFailure("c1", "T", "no disk", retryable=True, elapsed_ms=5)),
        ({"error": "no", "retryable": False}, ToolFailure("c1", "T", "no", retryable=False, elapsed_ms=5)),
        ({"error": {"kind": "odd"}}, ToolFailure("c1", "T", '{"kind": "odd"}', retryable=True, elapsed_ms=5)),
        ({"error": ""}, ToolFailure("c1", "T", "", retryable=True, elapsed_ms=5)),
        ({"error": None, "rows": 1}, ToolExecutionResult("c1", "T", {"error": None, "rows": 1}, 5, was_coerced=True)),
    ],
)
def test_an_output_with_an_error_in_it_failed(output: dict[str, Any], outcome: ToolOutcome) -> None:
    assert outcome_from_output("c1", "T", output, elapsed_ms=5, sink=MemorySink(), was_coerced=True) == outcome


@pytest.mark.parametrize(("risk", "retryable"), [("read-only", True), ("writes", False), ("commands", False)])
def test_an_exception_may_be_retried_when_the_tool_changes_nothing(risk: Any, *, retryable: bool) -> None:
    outcome = outcome_from_exception("c1", "T", OSError("no disk"), risk=risk, elapsed_ms=7)
    assert outcome == ToolFailure("c1", "T", "no disk", retryable, 7)


def test_an_exception_without_words_is_called_by_its_class() -> None:
    assert outcome_from_exception("c1", "T", KeyError(), risk="writes").error == "KeyError"
    assert outcome_from_exception("c1", "T", KeyError(), risk="writes").elapsed_ms == 0


@pytest.mark.parametrize(
    ("metadata", "retryable"), [({"retry_on_timeout": False}, False), ({"retry_on_timeout": True}, True), ({}, True)]
)
def test_the_tools_metadata_says_whether_a_timeout_may_be_retried(
    metadata: dict[str, bool], *, retryable: bool
) -> None:
    outcome = outcome_from_timeout("c1", "T", deadline_s=1.5, elapsed_ms=9, metadata=metadata)
    assert outcome == ToolTimeout("c1", "T", 1.5, 9, retryable)


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
    counts = {field.name: sum(getattr(replay, field.name).values()) for field in dataclasses.fields(replay)}
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
    cancelled = outcome_from_cancel("c1", "Search", elapsed_ms=3)
    assert cancelled == ToolFailure("c1", "Search", "cancelled", retryable=True, elapsed_ms=3)
    assert outcome_from_cancel("c1", "Search").elapsed_ms == 0
    state, replay = replayed(cancelled)
    assert not state.blocked_tool_names
    assert not replay.is_duplicate("Search", {"q": 1}, idempotent=True)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.integers(0, 9))
def test_what_the_model_reads_of_an_output_is_its_json(output: dict[str, str], elapsed: int) -> None:
    outcome = outcome_from_output("c1", "T", {"wrapped": output}, elapsed_ms=elapsed, sink=MemorySink())
    assert json.loads(outcome_to_model_content(outcome)) == {"wrapped": output}
