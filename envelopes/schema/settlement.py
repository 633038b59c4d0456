"""How a call ended, and THE mapping table: what each situation is called everywhere (spec/model.md E.3).

    Settlement   the stored truth of one call's end; exactly one a call
    SITUATIONS   a row a situation, a column a vocabulary
    code_of      error kind -> CALL code; the kind is stored, the code follows from it

    situation_of                                 settlement -> its row
    envelope_situation, call_situation,
    outcome_situation                            back from the vocabularies that hold less
    native_is_error                              the flag of a provider that has one

Only a settlement tells every row from every other. Where two rows read alike in a vocabulary, its
function says which one it takes.

A tool's verdict about the world is no situation: a command that exits with 2, a wait that times out,
input that a task refuses, a batch with failed items and the status of a failed task all come from
calls that ran and answered.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.schema.effects import Effects
from envelopes.schema.outcome import (
    CANCELLED,
    DeniedReason,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    fits_inline,
)
from envelopes.schema.result import CanonicalResult, Status, ToolError
from envelopes.schema.timestamps import check_instant

Phase: TypeAlias = Literal["pre_dispatch", "executed"]
End: TypeAlias = Literal["ok", "error", "timeout", "cancelled", "skipped"]
CallStatus: TypeAlias = End  # CALL-039 has the same five words
Code: TypeAlias = Literal[
    "VALIDATION_ERROR",
    "POLICY_DENIED",
    "NOT_FOUND",
    "CONFLICT",
    "PRECONDITION_FAILED",
    "TIMEOUT",
    "CANCELLED",
    "INTERNAL_ERROR",
]


class Situation(msgspec.Struct, frozen=True):
    """One row. `kind` is the default of the row, `kinds` what else says this row and no other.

    `code` is the default too: a kind's own code goes before it. None: CALL writes no error.
    """

    name: str
    phase: Phase
    end: End
    kind: str | None
    code: Code | None
    outcome: type[ToolOutcome]
    reason: DeniedReason | None = None
    kinds: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """The envelope's status: success and an ok end are the same thing."""
        return "success" if self.end == "ok" else "error"

    @property
    def native_is_error(self) -> bool:
        """A skipped call is nothing that the model has to repair, so no provider's flag is raised."""
        return self.end not in ("ok", "skipped")


_PRE: Phase = "pre_dispatch"
_RAN: Phase = "executed"
_NO_ENTRY = ("tool_not_exposed_for_round", "unsupported_agent_profile_capability")
_BAD_INPUT = ("validation_error", "unknown_tool", "truncated_mutation_tool_call")
# A dependency that was not ok is no row: such a step has no call, hence no settlement.
SITUATIONS = (
    Situation("fits", _RAN, "ok", None, None, ToolExecutionResult),
    Situation("large", _RAN, "ok", None, None, ToolArtifactReference),
    Situation("tool_error", _RAN, "error", "tool_execution_failed", "INTERNAL_ERROR", ToolFailure),
    Situation(
        "timed_out", _RAN, "timeout", "tool_timed_out", "TIMEOUT", ToolTimeout, kinds=("command_timed_out", "timeout")
    ),
    Situation("cancelled", _RAN, "cancelled", "cancelled", "CANCELLED", ToolFailure),
    # `skipped`: an imported skip that gives no reason. The envelope says so; an outcome has no third word.
    Situation("duplicate", _PRE, "skipped", "duplicate_tool_call", None, ToolDenied, "duplicate", ("skipped",)),
    Situation("blocked", _PRE, "skipped", "non_retryable_tool_failure", None, ToolDenied, "blocked"),
    Situation(
        "invalid_args", _PRE, "error", "invalid_tool_input", "VALIDATION_ERROR", ToolDenied, "validation", _BAD_INPUT
    ),
    Situation("hook_refused", _PRE, "error", "denied_by_hook", "POLICY_DENIED", ToolDenied, "pre_hook"),
    Situation("write_refused", _PRE, "error", "write_denied", "POLICY_DENIED", ToolDenied, "write_denied"),
    Situation("policy_denied", _PRE, "error", "policy_denied", "POLICY_DENIED", ToolDenied, "pre_hook", _NO_ENTRY),
    Situation("expired", _PRE, "timeout", "deadline_expired", "TIMEOUT", ToolDenied, "deadline"),
)
BY_NAME = {row.name: row for row in SITUATIONS}

_KINDS_OF_CODES: dict[Code, str] = {
    "VALIDATION_ERROR": """
        invalid_tool_input unknown_tool truncated_mutation_tool_call invalid_url
        invalid_patch_syntax missing_file_header invalid_git_header missing_git_header missing_rename_header
        invalid_hunk_header invalid_hunk_line invalid_hunk_empty_line missing_hunk path_header_mismatch
        duplicate_file_patch rename_path_mismatch unsupported_git_patch_feature
    """,
    "POLICY_DENIED": """
        tool_not_exposed_for_round unsupported_agent_profile_capability execution_root_violation path_escape
        network_denied web_fetch_disabled write_denied denied_by_hook
    """,
    "NOT_FOUND": "missing_file unknown_work_item unknown_task memory_source_not_found",
    "CONFLICT": "existing_file context_not_found ambiguous_context",
    "PRECONDITION_FAILED": "unsupported_runtime_capability task_not_running provider_unavailable",
    "TIMEOUT": "tool_timed_out command_timed_out deadline_expired",
    "CANCELLED": "",
    "INTERNAL_ERROR": """
        tool_execution_failed command_spawn_failed patch_failed network_failed rate_limited parse_failed
        response_too_large too_many_redirects redirect_without_location invalid_redirect_location
    """,
}
# Each code in lower case is a kind as well: that is how a foreign CALL file's codes come in.
CODES: dict[str, Code] = {
    kind: code for code, kinds in _KINDS_OF_CODES.items() for kind in (code.lower(), *kinds.split())
}
SKIPPED_KINDS = frozenset(
    kind for row in SITUATIONS if row.end == "skipped" and row.kind for kind in (row.kind, *row.kinds)
)
RETRYABLE_KINDS = frozenset({"truncated_mutation_tool_call", "network_failed", "rate_limited", CANCELLED})


def call_code(kind: str) -> Code | None:
    """INTERNAL_ERROR for an unknown kind, None for the kinds of a skipped call."""
    return None if kind in SKIPPED_KINDS else CODES.get(kind, "INTERNAL_ERROR")


def imported_kind(code: str) -> str:
    """The kind under which an imported code is stored, beside the code itself."""
    return code.lower()


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A complete output that is kept as an artifact. `summary` has at most 200 characters."""

    artifact_id: str
    summary: str = ""
    size_bytes: int = 0


class InvalidSettlement(ValueError):
    """A settlement that is no row of the table, or misses what its row needs."""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How one call ended. Times are ISO 8601 with an offset, `duration_ms` comes from a steady clock.

    `data` is the complete output, `stored` stands for it where it is kept as an artifact; a call that
    ended ok has one of them. `recorded_code` is the code of an imported CALL result, where it is not
    the one that the kind gives.
    """

    call_id: str
    phase: Phase = "executed"
    end: End = "ok"
    denied_reason: DeniedReason | None = None
    data: dict[str, Any] | None = None
    stored: StoredOutput | None = None
    data_hash: str | None = None
    error: ToolError | None = None
    recorded_code: str | None = None
    was_coerced: bool = False
    started_at: str
    ended_at: str
    duration_ms: int
    deadline_at: str | None = None
    effects: Effects | None = None
    user_message: str | None = None
    debug_message: str | None = None

    def __post_init__(self) -> None:
        if problem := _payload_problem(self) or _row_problem(self):
            raise InvalidSettlement(f"{self.call_id}: {problem}")
        check_instant("started_at", self.started_at)
        check_instant("ended_at", self.ended_at)
        check_instant("deadline_at", self.deadline_at)

    @property
    def retryable(self) -> bool:
        return self.error is not None and self.error.retryable

    @property
    def code(self) -> str | None:
        """What CALL writes; None where it writes no error, which a skip does only with a code of its own."""
        if self.error is None or self.end == "skipped":
            return self.recorded_code
        return self.recorded_code or call_code(self.error.kind) or "INTERNAL_ERROR"


def find_situation(settlement: Settlement) -> Situation:
    """The one row. Raises InvalidSettlement, which no constructed settlement does."""
    rows = [row for row in SITUATIONS if _key(row) == (settlement.phase, settlement.end, settlement.denied_reason)]
    if not rows:
        raise InvalidSettlement(f"{settlement.phase} / {settlement.end} / {settlement.denied_reason} is no situation")
    if settlement.end == "ok":
        return BY_NAME["fits" if settlement.data is not None and fits_inline(settlement.data) else "large"]
    kind = settlement.error.kind if settlement.error else None
    # Two rows share the reason pre_hook: only `denied_by_hook` is the hook's, any other kind the policy's.
    return next((row for row in rows if row.kind == kind), rows[-1])


def envelope_situation(status: Status, kind: str | None = None) -> Situation:
    """From an envelope's status and error kind. A success reads as `fits`, an unknown kind as `tool_error`.

    Kinds that a running tool raises as well (`path_escape`, `network_denied`) read as the tool's.
    """
    return BY_NAME["fits"] if status == "success" else _BY_KIND.get(kind or "", BY_NAME["tool_error"])


def native_is_error(canonical: CanonicalResult) -> bool:
    """The flag for a provider that has one; see the table's last column."""
    kind = canonical.error.kind if canonical.error else None
    return envelope_situation(canonical.status, kind).native_is_error


def call_situation(status: CallStatus, code: str | None = None) -> Situation:
    """From a CALL result alone, which does not say whether the tool ran.

    VALIDATION_ERROR and POLICY_DENIED read as calls that were stopped before (CALL-081, CALL-082), a
    timeout as one while running, a skip as `duplicate`, a success as `fits`.
    """
    if status == "error":
        return BY_NAME[_STOPPED.get(code or "", "tool_error")]
    return next(row for row in SITUATIONS if row.end == status)


def outcome_situation(outcome: ToolOutcome) -> Situation:
    """From an outcome. A denial by `pre_hook` reads as the hook's, an unknown reason as the policy's."""
    match outcome:
        case ToolDenied(reason=reason):
            return next((row for row in SITUATIONS if row.reason == reason), BY_NAME["policy_denied"])
        case ToolFailure(error=error, retryable=True) if error == CANCELLED:
            return BY_NAME["cancelled"]
    return next(row for row in SITUATIONS if row.outcome is type(outcome))


_STOPPED = {"VALIDATION_ERROR": "invalid_args", "POLICY_DENIED": "policy_denied"}
_BY_KIND = {kind: row for row in SITUATIONS if row.kind for kind in (row.kind, *row.kinds)}


def _key(row: Situation) -> tuple[Phase, End, DeniedReason | None]:
    return row.phase, row.end, row.reason


def _payload_problem(settled: Settlement) -> str | None:
    has_output = (settled.data is not None) + (settled.stored is not None)
    if settled.end == "ok" and (has_output != 1 or settled.error is not None):
        return "a call that ended ok has an output, inline or stored, and no error"
    if settled.end != "ok" and (has_output or settled.error is None):
        return "a call that did not end ok has an error and no output"
    if settled.duration_ms < 0:
        return "duration_ms is negative"
    if settled.phase == "pre_dispatch" and settled.effects is not None:
        return "a call that was never dispatched has no effects"
    return None


def _row_problem(settled: Settlement) -> str | None:
    """Also holds the ends to their codes: timeout has TIMEOUT and no other end has, so with CANCELLED (OD-28)."""
    try:
        row = find_situation(settled)
    except InvalidSettlement as error:
        return str(error)
    for end, code in (("timeout", "TIMEOUT"), ("cancelled", "CANCELLED")):
        if (row.end == end) != (settled.code == code):
            return f"end {row.end!r} does not go with code {settled.code}"
    return None
