"""The table of situations, cell by cell, from the settlement to each vocabulary and back."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from envelopes.codecs import outcome as outcome_codec
from envelopes.codecs.call import to_result, to_settlement
from envelopes.families.registry import tools
from envelopes.schema import settlement
from envelopes.schema.outcome import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolTimeout,
    outcome_blocks_tool,
)
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.schema.settlement import (
    BY_NAME,
    RETRYABLE_KINDS,
    SITUATIONS,
    Effects,
    InvalidSettlement,
    Settlement,
    StoredOutput,
    blocks_tool,
    call_code,
    call_situation,
    envelope_situation,
    find_situation,
    native_is_error,
    outcome_situation,
)
from envelopes.schema.tool import DISPATCH_KINDS
from envelopes.storage.sinks import MemorySink
from tests.cases import each
from tests.envelopes.settled import AT, call, canonical_of, output_of, settled

# situation: phase, end, envelope, default kind, CALL status, CALL code, outcome class, its reason, native flag
TABLE: dict[str, tuple[Any, ...]] = {
    "fits": ("executed", "ok", "success", None, "ok", None, ToolExecutionResult, None, False),
    "large": ("executed", "ok", "success", None, "ok", None, ToolArtifactReference, None, False),
    "tool_error": (
        *("executed", "error", "error", "tool_execution_failed", "error", "INTERNAL_ERROR", ToolFailure, None, True),
    ),
    "timed_out": (*("executed", "timeout", "error", "tool_timed_out", "timeout", "TIMEOUT", ToolTimeout, None, True),),
    "cancelled": (*("executed", "cancelled", "error", "cancelled", "cancelled", "CANCELLED", ToolFailure, None, True),),
    "duplicate": (
        *("pre_dispatch", "skipped", "error", "duplicate_tool_call", "skipped", None, ToolDenied, "duplicate", False),
    ),
    "blocked": (
        *("pre_dispatch", "skipped", "error", "non_retryable_tool_failure", "skipped"),
        *(None, ToolDenied, "blocked", False),
    ),
    "invalid_args": (
        *("pre_dispatch", "error", "error", "invalid_tool_input", "error"),
        *("VALIDATION_ERROR", ToolDenied, "validation", True),
    ),
    "hook_refused": (
        *("pre_dispatch", "error", "error", "denied_by_hook", "error", "POLICY_DENIED", ToolDenied, "pre_hook", True),
    ),
    "write_refused": (
        *("pre_dispatch", "error", "error", "write_denied", "error", "POLICY_DENIED", ToolDenied, "write_denied", True),
    ),
    "policy_denied": (
        *("pre_dispatch", "error", "error", "policy_denied", "error", "POLICY_DENIED", ToolDenied, "pre_hook", True),
    ),
    "expired": (
        *("pre_dispatch", "timeout", "error", "deadline_expired", "timeout", "TIMEOUT", ToolDenied, "deadline", True),
    ),
}
CODES = {
    "VALIDATION_ERROR": """invalid_tool_input unknown_tool invalid_patch_syntax missing_file_header invalid_git_header
        missing_git_header missing_rename_header invalid_hunk_header invalid_hunk_line invalid_hunk_empty_line
        missing_hunk path_header_mismatch duplicate_file_patch rename_path_mismatch unsupported_git_patch_feature
        invalid_url truncated_mutation_tool_call""",
    "POLICY_DENIED": """tool_not_exposed_for_round unsupported_agent_profile_capability execution_root_violation
        path_escape network_denied web_fetch_disabled tool_disabled policy_denied write_denied denied_by_hook""",
    "NOT_FOUND": "missing_file unknown_work_item unknown_task memory_source_not_found",
    "CONFLICT": "existing_file context_not_found ambiguous_context",
    "PRECONDITION_FAILED": "unsupported_runtime_capability task_not_running provider_unavailable missing_credentials",
    "TIMEOUT": "tool_timed_out command_timed_out deadline_expired",
    "CANCELLED": "cancelled",
    "INTERNAL_ERROR": """tool_execution_failed command_spawn_failed patch_failed network_failed rate_limited
        parse_failed response_too_large too_many_redirects redirect_without_location invalid_redirect_location
        a_kind_that_nobody_knows""",
}


def test_the_table_has_these_rows_in_this_order() -> None:
    assert [row.name for row in SITUATIONS] == list(TABLE)


@each("name", TABLE)
def test_a_situation_is_called_in_each_vocabulary_as_the_table_says(name: str) -> None:
    phase, end, status, kind, call_status, code, outcome, reason, native = TABLE[name]
    row = BY_NAME[name]
    assert (row.phase, row.end, row.status, row.kind, row.code) == (phase, end, status, kind, code)
    assert (row.outcome, row.reason, row.native_is_error) == (outcome, reason, native)
    assert row.end == call_status


@each("name", TABLE)
def test_a_settlement_leads_to_its_row(name: str) -> None:
    assert find_situation(settled(name)).name == name


@each("name", TABLE)
def test_a_settlement_is_written_as_its_row_says(name: str) -> None:
    _, _, _, kind, status, code, outcome, reason, native = TABLE[name]
    settlement = settled(name)
    result = to_result(call(), settlement)
    assert (result.status, result.error and result.error.code) == (status, code)
    assert result.ok == (status == "ok")
    encoded = outcome_codec.encode(settlement, canonical_of(settlement), MemorySink())
    assert type(encoded) is outcome
    assert getattr(encoded, "reason", None) == reason
    assert native_is_error(canonical_of(settlement)) is native
    assert (settlement.error and settlement.error.kind) == kind


@each("name", TABLE)
def test_a_call_result_of_ours_leads_back_to_the_row(name: str) -> None:
    assert find_situation(to_settlement(to_result(call(), settled(name)))).name == name


@each(
    ("name", "row"),
    [(name, {"large": "fits"}.get(name, name)) for name in TABLE],
)
def test_an_envelope_leads_back_to_the_row(name: str, row: str) -> None:
    assert envelope_situation(TABLE[name][2], TABLE[name][3]).name == row


@each(
    ("name", "row"),
    [
        (name, {"large": "fits", "blocked": "duplicate", "hook_refused": "policy_denied"}.get(name, name))
        if name not in ("write_refused", "expired")
        else (name, {"write_refused": "policy_denied", "expired": "timed_out"}[name])
        for name in TABLE
    ],
)
def test_a_foreign_call_result_leads_to_the_row_that_reads_alike(name: str, row: str) -> None:
    assert call_situation(TABLE[name][4], TABLE[name][5]).name == row


@pytest.mark.parametrize("code", ["NOT_FOUND", "CONFLICT", "PRECONDITION_FAILED", "INTERNAL_ERROR", "ODD", None])
def test_any_other_code_of_a_failed_call_is_the_tools_own(code: str | None) -> None:
    assert call_situation("error", code).name == "tool_error"


@each(("name", "row"), [(name, {"policy_denied": "hook_refused"}.get(name, name)) for name in TABLE])
def test_an_outcome_leads_back_to_the_row(name: str, row: str) -> None:
    settlement = settled(name)
    outcome = outcome_codec.encode(settlement, canonical_of(settlement), MemorySink())
    assert outcome_situation(outcome).name == row


def test_a_denial_of_another_reason_reads_as_the_policys() -> None:
    assert outcome_situation(ToolDenied("c1", "T", "quota")).name == "policy_denied"


@pytest.mark.parametrize(
    ("error", "retryable", "name"),
    [("cancelled", True, "cancelled"), ("cancelled", False, "tool_error"), ("no disk", True, "tool_error")],
)
def test_a_failure_is_a_cancel_only_when_it_says_so_and_may_be_retried(
    error: str, name: str, *, retryable: bool
) -> None:
    assert outcome_situation(ToolFailure("c1", "T", error, retryable)).name == name


@each(("code", "kind"), [(code, kind) for code, kinds in CODES.items() for kind in kinds.split()])
def test_a_kind_has_this_code(code: str, kind: str) -> None:
    assert call_code(kind) == code


def test_no_other_kind_has_a_code_of_its_own() -> None:
    named = {kind for kinds in CODES.values() for kind in kinds.split()} - {"a_kind_that_nobody_knows"}
    named |= {"artifact_not_found", "line_out_of_range"}  # of ReadArtifact, which the seeds lack
    assert set(settlement.CODES) == named | {code.lower() for code in CODES}


def test_every_kind_that_a_tool_names_has_its_place_in_the_table() -> None:
    """A kind without a row would become INTERNAL_ERROR, like the kinds that are meant to."""
    named = {kind for tool in tools().values() for kind in (*tool.error_kinds, *DISPATCH_KINDS)}
    assert not named - set(settlement.CODES)


@pytest.mark.parametrize("code", CODES)
def test_an_imported_code_is_its_own_kind_in_lower_case(code: str) -> None:
    assert call_code(code.lower()) == code


@pytest.mark.parametrize("kind", ["duplicate_tool_call", "non_retryable_tool_failure", "skipped"])
def test_the_kinds_of_a_skip_have_no_code(kind: str) -> None:
    assert call_code(kind) is None


def test_only_these_kinds_may_be_retried_where_nobody_says() -> None:
    assert {"truncated_mutation_tool_call", "network_failed", "rate_limited", "cancelled"} == RETRYABLE_KINDS


@each(
    ("kind", "name"),
    [
        ("unknown_tool", "invalid_args"),
        ("truncated_mutation_tool_call", "invalid_args"),
        ("validation_error", "invalid_args"),
        ("tool_not_exposed_for_round", "policy_denied"),
        ("unsupported_agent_profile_capability", "policy_denied"),
        ("command_timed_out", "timed_out"),
        ("timeout", "timed_out"),
        ("skipped", "duplicate"),
        ("path_escape", "tool_error"),
        ("network_denied", "tool_error"),
        ("not_heard_of", "tool_error"),
        (None, "tool_error"),
    ],
)
def test_an_envelopes_kind_leads_to_its_row(kind: str | None, name: str) -> None:
    assert envelope_situation("error", kind).name == name


@pytest.mark.parametrize("kind", ["tool_not_exposed_for_round", "path_escape", "unsupported_agent_profile_capability"])
def test_a_specific_refusal_is_the_policys(kind: str) -> None:
    error = ToolError(kind=kind, message="no", retryable=False)
    settlement = settled("policy_denied", error=error)
    assert find_situation(settlement).name == "policy_denied"
    assert settlement.code == "POLICY_DENIED"


@pytest.mark.parametrize(
    "verdict",
    [
        {
            "disposition": "completed",
            "exit_status": 2,
            "stdout_preview": None,
            "stderr_preview": "no",
            "truncated": False,
        },
        {"retrieval_status": "timeout", "task": {"task_id": "t1", "status": "running"}},
        {"retrieval_status": "not_ready", "task": {"task_id": "t1", "status": "queued"}},
        {"accepted_input": False, "task": {"task_id": "t1", "status": "completed"}},
        {"item_count": 2, "failed_count": 1, "rejected_count": 0, "skipped_count": 1},
        {"retrieval_status": "success", "task": {"task_id": "t1", "status": "failed"}},
    ],
)
def test_a_verdict_about_the_world_is_not_how_the_call_ended(verdict: dict[str, Any]) -> None:
    canonical = CanonicalResult(tool_name="TaskOutput", status="success", summary_text="it answered", result=verdict)
    assert envelope_situation(canonical.status).name == "fits"
    assert native_is_error(canonical) is False
    settlement = settled("fits", data=verdict)
    assert find_situation(settlement).name == "fits"
    assert to_result(call(), settlement).ok


def test_an_output_is_large_from_12_001_characters_on() -> None:
    assert find_situation(settled("fits", data=output_of(12_000))).name == "fits"
    assert find_situation(settled("fits", data=output_of(12_001))).name == "large"
    assert find_situation(settled("fits", data=None, stored=StoredOutput(artifact_id="a1"))).name == "large"


OK_HAS = "c1: a call that ended ok has an output, inline or stored, and no error"
FAILED_HAS = "c1: a call that did not end ok has an error and no output"


def odd(kind: str) -> dict[str, ToolError]:
    return {"error": ToolError(kind=kind, message="m", retryable=True)}


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("fits", {"data": None}, OK_HAS),
        ("fits", {"stored": StoredOutput(artifact_id="a1")}, OK_HAS),
        ("fits", odd("k"), OK_HAS),
        ("tool_error", {"error": None}, FAILED_HAS),
        ("tool_error", {"data": {}}, FAILED_HAS),
        ("tool_error", {"stored": StoredOutput(artifact_id="a1")}, FAILED_HAS),
        ("fits", {"duration_ms": -1}, "c1: duration_ms is negative"),
        ("blocked", {"effects": Effects(created=())}, "c1: a call that was never dispatched has no effects"),
        ("fits", {"phase": "pre_dispatch"}, "c1: pre_dispatch / ok / None is not a situation"),
        ("fits", {"started_at": "yesterday"}, "started_at: 'yesterday' is not an ISO 8601 time with an offset"),
        (
            "fits",
            {"ended_at": "2025-12-16T18:12:01"},
            "ended_at: '2025-12-16T18:12:01' is not an ISO 8601 time with an offset",
        ),
        (
            "fits",
            {"deadline_at": "2025-12-16T18:12"},
            "deadline_at: '2025-12-16T18:12' is not an ISO 8601 time with an offset",
        ),
        ("tool_error", {"denied_reason": "blocked"}, "c1: executed / error / blocked is not a situation"),
        ("blocked", {"denied_reason": None}, "c1: pre_dispatch / skipped / None is not a situation"),
        ("blocked", {"phase": "executed"}, "c1: executed / skipped / blocked is not a situation"),
        ("timed_out", odd("parse_failed"), "c1: end 'timeout' does not go with code INTERNAL_ERROR"),
        ("tool_error", odd("tool_timed_out"), "c1: end 'error' does not go with code TIMEOUT"),
        ("tool_error", odd("cancelled"), "c1: end 'error' does not go with code CANCELLED"),
        ("cancelled", odd("parse_failed"), "c1: end 'cancelled' does not go with code INTERNAL_ERROR"),
    ],
)
def test_a_settlement_that_contradicts_itself_is_refused(name: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        settled(name, **changed)


def test_a_success_with_a_denial_is_refused_by_its_call() -> None:
    with pytest.raises(InvalidSettlement, match="^c1: executed / ok / blocked is not a situation"):
        settled("fits", denied_reason="blocked")


def test_a_settlement_knows_whether_to_try_again() -> None:
    assert settled("cancelled").retryable
    assert not settled("tool_error").retryable
    assert not settled("fits").retryable


def test_an_imported_code_goes_before_the_kinds() -> None:
    error = ToolError(kind="e_odd", message="odd", retryable=False)
    assert settled("tool_error", error=error).code == "INTERNAL_ERROR"
    assert settled("tool_error", error=error, recorded_code="E_ODD").code == "E_ODD"
    assert settled("fits").code is None
    assert settled("blocked").code is None
    assert settled("blocked", recorded_code="SKIPPED").code == "SKIPPED"


def test_a_running_tool_may_use_the_word_of_a_skip() -> None:
    error = ToolError(kind="duplicate_tool_call", message="the tool says so", retryable=False)
    settlement = settled("tool_error", error=error)
    assert (find_situation(settlement).name, settlement.code) == ("tool_error", "INTERNAL_ERROR")


def test_what_is_settled_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        settled("fits").end = "error"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        BY_NAME["fits"].kind = "odd"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        StoredOutput(artifact_id="a1").summary = "odd"  # type: ignore[misc]


def test_the_fields_of_a_stored_output_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        StoredOutput("a1")  # type: ignore[call-arg, misc]


def test_a_call_ran_and_ended_ok_unless_it_says_otherwise() -> None:
    settlement = Settlement(call_id="c1", data={}, started_at=AT, ended_at=AT, duration_ms=1)
    assert (settlement.phase, settlement.end, settlement.was_coerced) == ("executed", "ok", False)
    stored = StoredOutput(artifact_id="a1")
    assert (stored.summary, stored.size_bytes) == ("", 0)


def test_a_stored_settlement_is_checked_when_it_is_read() -> None:
    stored = msgspec.to_builtins(settled("fits"))
    assert msgspec.convert(stored, Settlement) == settled("fits")
    with pytest.raises(msgspec.ValidationError, match="has an error"):
        msgspec.convert(stored | {"end": "error"}, Settlement)
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value"):
        msgspec.convert(stored | {"end": "deferred"}, Settlement)


def test_the_first_moment_of_a_call_may_be_its_last() -> None:
    assert (settled("fits").started_at, settled("fits").ended_at) == (AT, AT)


@each(
    ("kind", "retryable", "blocks"),
    [
        *((kind, False, False) for kind in ("invalid_tool_input", "unknown_task", "missing_file", "context_not_found")),
        *((kind, False, False) for kind in ("execution_root_violation", "path_escape", "a_kind_of_ones_own")),
        *((kind, False, True) for kind in ("provider_unavailable", "tool_disabled", "missing_credentials")),
        *((kind, False, True) for kind in ("unsupported_agent_profile_capability", "tool_execution_failed")),
        *((kind, True, False) for kind in ("provider_unavailable", "tool_execution_failed", "network_failed")),
    ],
)
def test_a_failure_that_other_arguments_cure_blocks_no_tool(kind: str, *, retryable: bool, blocks: bool) -> None:
    error = ToolError(kind=kind, message="it failed", retryable=retryable)
    assert blocks_tool(error) is blocks
    settlement = settled("tool_error", error=error)
    outcome = outcome_codec.encode(settlement, canonical_of(settlement), MemorySink())
    assert outcome_blocks_tool(outcome) is blocks
    assert settlement.retryable is retryable  # the envelope's word stays the tool's
