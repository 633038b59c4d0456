"""Settlements as CALL's results and as a loop's outcomes, and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.codecs import call as calls
from envelopes.codecs import outcome as outcomes
from envelopes.schema.call import ToolCall, ToolResult
from envelopes.schema.outcome import (
    DENIAL_GATES,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolTimeout,
)
from envelopes.schema.result import ArtifactRef, ToolError
from envelopes.schema.settlement import Settlement, StoredOutput
from envelopes.storage.sinks import MemorySink
from tests.envelopes.settled import (
    AT,
    CALLS,
    COUNT,
    NAME,
    OBJECT,
    TEXT,
    call,
    canonical_of,
    output_of,
    settled,
    settlements,
)


@given(CALLS, settlements())
def test_a_settlement_comes_back_from_its_result_but_for_the_error_of_a_skip(
    settled_call: ToolCall, settlement: Settlement
) -> None:
    again = calls.to_settlement(calls.to_result(settled_call, settlement))
    if settlement.end == "skipped":  # CALL writes no error for it
        assert (again.phase, again.end, again.denied_reason) == ("pre_dispatch", "skipped", settlement.denied_reason)
        assert again.error is not None
        assert again.error.message == (settlement.user_message or (settlement.error and settlement.error.message))
    else:
        assert again == msgspec.structs.replace(settlement, call_id=settled_call.call_id)


@given(CALLS, settlements())
def test_a_result_comes_back_from_its_settlement(settled_call: ToolCall, settlement: Settlement) -> None:
    result = calls.to_result(settled_call, settlement)
    assert calls.to_result(settled_call, calls.to_settlement(result)) == result


def test_a_result_belongs_to_the_attempt_of_its_call() -> None:
    made = call(call_id="c7", run_id="r7", step_id="s7", tool="T7", attempt=3, provider_call_id="toolu_7")
    result = calls.to_result(made, settled("fits"))
    assert (result.call_id, result.run_id, result.step_id, result.tool) == ("c7", "r7", "s7", "T7")
    assert (result.attempt, result.provider_call_id) == (3, "toolu_7")


def test_a_success_needs_none_of_our_own_fields() -> None:
    document = calls.encode(calls.to_result(call(), settled("fits", data={})))
    assert not document.keys() & {
        "phase",
        "deniedReason",
        "dataRef",
        "wasCoerced",
        "deadlineAt",
        "providerCallId",
        "error",
    }


def test_a_refused_call_has_this_result() -> None:
    result = calls.to_result(call(), settled("policy_denied", was_coerced=True, deadline_at=AT))
    assert calls.encode(result) == {
        "callId": "c1",
        "runId": "r1",
        "stepId": "s1",
        "tool": "ExecCommand",
        "attempt": 1,
        "status": "error",
        "ok": False,
        "error": {
            "code": "POLICY_DENIED",
            "message": "this is policy_denied",
            "retryable": False,
            "kind": "policy_denied",
        },
        "startedAt": AT,
        "endedAt": AT,
        "durationMs": 0,
        "phase": "pre_dispatch",
        "deniedReason": "pre_hook",
        "wasCoerced": True,
        "deadlineAt": AT,
    }


def test_a_large_output_is_written_by_reference() -> None:
    stored = StoredOutput(artifact_id="a1", summary="40 rows", size_bytes=13_000)
    result = calls.to_result(call(), settled("large", data=None, stored=stored, data_hash="sha256:ab"))
    written = calls.encode(result)
    assert written["dataRef"] == {"artifactId": "a1", "summary": "40 rows", "sizeBytes": 13_000}
    assert written["dataHash"] == "sha256:ab"
    assert "data" not in written


@pytest.mark.parametrize("name", ["duplicate", "blocked"])
def test_a_skip_gives_its_reason_in_the_user_message(name: str) -> None:
    result = calls.to_result(call(), settled(name))
    assert (result.error, result.user_message) == (None, f"this is {name}")
    told = calls.to_result(call(), settled(name, user_message="Already done."))
    assert told.user_message == "Already done."
    silent = ToolError(kind="duplicate_tool_call", message="", retryable=False)
    assert calls.to_result(call(), settled("duplicate", error=silent)).user_message == "duplicate_tool_call"
    found = calls.to_settlement(result).error
    assert found is not None
    assert found.kind == settled(name).error.kind  # type: ignore[union-attr]


def foreign(status: str, error: dict[str, Any] | None = None, **fields: Any) -> Settlement:
    document = {"callId": "c", "runId": "r", "stepId": "s", "tool": "T", "attempt": 1, "status": status, "ok": False}
    document |= {"startedAt": AT, "endedAt": AT, "durationMs": 4} | ({"error": error} if error else {}) | fields
    return calls.to_settlement(calls.decode(document, ToolResult))


@pytest.mark.parametrize(
    ("status", "code", "row", "kind", "retryable"),
    [
        ("error", "VALIDATION_ERROR", ("pre_dispatch", "error", "validation"), "validation_error", False),
        ("error", "POLICY_DENIED", ("pre_dispatch", "error", "pre_hook"), "policy_denied", False),
        ("error", "NOT_FOUND", ("executed", "error", None), "not_found", False),
        ("error", "CONFLICT", ("executed", "error", None), "conflict", False),
        ("error", "PRECONDITION_FAILED", ("executed", "error", None), "precondition_failed", False),
        ("error", "INTERNAL_ERROR", ("executed", "error", None), "internal_error", False),
        ("error", "NETWORK_FAILED", ("executed", "error", None), "network_failed", True),
        ("timeout", "TIMEOUT", ("executed", "timeout", None), "timeout", False),
        ("cancelled", "CANCELLED", ("executed", "cancelled", None), "cancelled", True),
        ("skipped", "E_SKIP", ("pre_dispatch", "skipped", "duplicate"), "e_skip", False),
    ],
)
def test_a_foreign_result_is_settled_by_its_code(
    status: str, code: str, row: tuple[Any, ...], kind: str, *, retryable: bool
) -> None:
    settlement = foreign(status, {"code": code, "message": "m"})
    assert (settlement.phase, settlement.end, settlement.denied_reason) == row
    assert settlement.error == ToolError(kind=kind, message="m", retryable=retryable)
    assert settlement.code == code


def test_a_foreign_code_is_kept_as_it_was_written() -> None:
    assert foreign("error", {"code": "E_Odd", "message": "m"}).recorded_code == "E_Odd"
    assert foreign("error", {"code": "NOT_FOUND", "message": "m"}).recorded_code is None


@pytest.mark.parametrize("retryable", [True, False])
def test_what_a_foreign_result_says_of_retrying_counts(*, retryable: bool) -> None:
    assert foreign("error", {"code": "NETWORK_FAILED", "message": "m", "retryable": retryable}).retryable is retryable


def test_a_foreign_skip_without_a_reason_says_no_more_than_that() -> None:
    settlement = foreign("skipped", userMessage="not needed")
    assert settlement.error == ToolError(kind="skipped", message="not needed", retryable=False)


def test_a_denial_alone_says_that_the_call_never_ran() -> None:
    settlement = foreign("timeout", {"code": "TIMEOUT", "message": "m"}, deniedReason="deadline")
    assert (settlement.phase, settlement.denied_reason) == ("pre_dispatch", "deadline")


AGO = st.integers(-(2**40), 2**40).map(lambda microseconds: microseconds / 1_000_000)
SPAN = st.integers(0, 2**31)
OUTCOMES = st.one_of(
    st.builds(
        ToolExecutionResult, call_id=NAME, tool_name=NAME, output=OBJECT, elapsed_ms=SPAN, was_coerced=st.booleans()
    ),
    st.builds(ToolTimeout, call_id=NAME, tool_name=NAME, deadline_s=AGO, elapsed_ms=SPAN, retryable=st.booleans()),
    st.builds(ToolFailure, call_id=NAME, tool_name=NAME, error=TEXT, retryable=st.booleans(), elapsed_ms=SPAN),
    st.just(ToolFailure("c1", "T", "cancelled")),
    st.builds(ToolDenied, call_id=NAME, tool_name=NAME, reason=st.sampled_from(sorted(DENIAL_GATES)), details=TEXT),
    st.builds(
        ToolArtifactReference,
        **dict.fromkeys(("call_id", "tool_name", "artifact_id"), NAME),
        summary=st.text(min_size=1, max_size=200),
        size_bytes=COUNT,
    ),
)


@given(OUTCOMES)
def test_any_outcome_comes_back_from_its_settlement(outcome: Any) -> None:
    settlement = outcomes.decode(outcome, ended_at=AT)
    assert outcomes.encode(settlement, canonical_of(settlement, outcome.tool_name), MemorySink()) == outcome


def test_a_settlement_of_an_outcome_ends_at_the_given_time() -> None:
    settlement = outcomes.decode(ToolExecutionResult("c1", "T", {}, 1_500, was_coerced=True), ended_at=AT)
    assert (settlement.started_at, settlement.ended_at, settlement.duration_ms) == (
        "2025-12-16T18:11:59.500000+00:00",
        AT,
        1_500,
    )
    assert settlement.was_coerced


def test_a_timeout_carries_its_deadline_as_a_point_in_time() -> None:
    settlement = outcomes.decode(ToolTimeout("c1", "T", 1765908721.25, 10, retryable=False), ended_at=AT)
    assert settlement.deadline_at == "2025-12-16T18:12:01.250000Z"
    assert settlement.error == ToolError(
        kind="tool_timed_out", message="Tool execution timed out after 10 ms.", retryable=False
    )
    assert outcomes.encode(settled("timed_out"), canonical_of(settled("timed_out")), MemorySink()) == ToolTimeout(
        "c1", "ExecCommand", 1765908721.0, 0, retryable=False
    )


def test_an_operators_cancel_is_a_failure_that_may_be_retried_whatever_was_stored() -> None:
    stored = settled("cancelled", error=ToolError(kind="cancelled", message="by olga", retryable=False), duration_ms=9)
    assert outcomes.encode(stored, canonical_of(stored), MemorySink()) == ToolFailure(
        "c1", "ExecCommand", "cancelled", retryable=True, elapsed_ms=9
    )


def test_a_failure_keeps_its_words_and_its_time() -> None:
    stored = settled("tool_error", duration_ms=9)
    assert outcomes.encode(stored, canonical_of(stored), MemorySink()) == ToolFailure(
        "c1", "ExecCommand", "this is tool_error", retryable=False, elapsed_ms=9
    )


def test_a_large_output_is_referred_to_by_the_familys_first_artifact() -> None:
    settlement = settled("large")
    canonical = msgspec.structs.replace(canonical_of(settlement), artifacts=(ArtifactRef("a/0"), ArtifactRef("a/1")))
    sink = MemorySink()
    outcome = outcomes.encode(settlement, canonical, sink)
    assert outcome == ToolArtifactReference("c1", "ExecCommand", "a/0", "it ran", 12_001)
    assert not sink.texts


def test_a_large_output_without_an_artifact_is_kept_whole() -> None:
    sink = MemorySink()
    outcome = outcomes.encode(settled("large"), canonical_of(settled("large")), sink)
    assert isinstance(outcome, ToolArtifactReference)
    assert sink.texts == {outcome.artifact_id: json.dumps(output_of(12_001))}


def test_a_stored_output_without_a_summary_takes_the_envelopes() -> None:
    settlement = settled("large", data=None, stored=StoredOutput(artifact_id="a1", size_bytes=5))
    assert outcomes.encode(settlement, canonical_of(settlement), MemorySink()) == ToolArtifactReference(
        "c1", "ExecCommand", "a1", "it ran", 5
    )


@pytest.mark.parametrize(("stored_summary", "summary"), [("x" * 200, "x" * 200), ("x" * 201, "x" * 199 + "…")])
def test_a_stored_output_is_referred_to_with_at_most_200_characters(stored_summary: str, summary: str) -> None:
    settlement = settled("large", data=None, stored=StoredOutput(artifact_id="a1", summary=stored_summary))
    outcome = outcomes.encode(settlement, canonical_of(settlement), MemorySink())
    assert isinstance(outcome, ToolArtifactReference)
    assert outcome.summary == summary


def test_each_outcome_gives_its_settlement_what_it_holds() -> None:
    referred = outcomes.decode(ToolArtifactReference("c1", "T", "a1", "40 hits", 9), ended_at=AT)
    assert referred.stored == StoredOutput(artifact_id="a1", summary="40 hits", size_bytes=9)
    failed = outcomes.decode(ToolFailure("c1", "T", "no disk", retryable=False, elapsed_ms=7), ended_at=AT)
    assert failed.error == ToolError(kind="tool_execution_failed", message="no disk", retryable=False)
    assert failed.duration_ms == 7
    denied = outcomes.decode(ToolDenied("c1", "T", "blocked", "it failed before"), ended_at=AT)
    assert denied.error == ToolError(kind="non_retryable_tool_failure", message="it failed before", retryable=False)
    assert (denied.phase, denied.end) == ("pre_dispatch", "skipped")
