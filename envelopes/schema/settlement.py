"""How a call ended, and the table of what each kind of end is called in every vocabulary.

    Settlement       the stored end of a call; each call has exactly one
    Effects          what the call created, modified, deleted and renamed
    SITUATIONS       the table: a row a situation, a column a vocabulary
    find_situation   settlement -> its row
    call_code        error kind -> CALL code; the kind is stored, the code follows from it
    read_end         a runtime's own word for an end -> what it means
    blocks_tool      error -> whether its tool may not be called again in the turn

    envelope_situation, call_situation, outcome_situation   back from the vocabularies that hold less
    native_is_error                                         the flag of a provider that has one

Only a settlement distinguishes all rows. Where two rows are the same in a vocabulary, the function that reads it
documents which one it takes.

A tool's verdict about the world is not a situation: a command that exits with 2, a wait that times out, input
that a task refuses, a batch with failed items and the status of a failed task all come from calls that ran and
returned a result.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec

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
EntryKind: TypeAlias = Literal["file", "folder"]
End: TypeAlias = Literal["ok", "error", "timeout", "cancelled", "skipped"]
CallStatus: TypeAlias = End  # the same five words in CALL-039
RecordedEnd: TypeAlias = Literal["ok", "error", "timeout", "cancelled", "skipped", "refused", "interrupted"]
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
    """A row of the table. `kind` is its usual error kind; `kinds` are others that belong to this row alone.

    `code` is the usual code, used where a kind has none of its own. None: CALL writes no error.
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
        """The envelope's status: success for an end that is ok."""
        return "success" if self.end == "ok" else "error"

    @property
    def native_is_error(self) -> bool:
        """The flag of a provider. It is not raised for a skipped call, which the model does not have to repair."""
        return self.end not in ("ok", "skipped")


_PRE: Phase = "pre_dispatch"
_RAN: Phase = "executed"
_NO_ENTRY = ("tool_not_exposed_for_round", "unsupported_agent_profile_capability")
_BAD_INPUT = ("validation_error", "unknown_tool", "truncated_mutation_tool_call")
# A failed dependency has no row: such a step has no call, hence no settlement.
SITUATIONS = (
    Situation("fits", _RAN, "ok", None, None, ToolExecutionResult),
    Situation("large", _RAN, "ok", None, None, ToolArtifactReference),
    Situation("tool_error", _RAN, "error", "tool_execution_failed", "INTERNAL_ERROR", ToolFailure),
    Situation(
        "timed_out", _RAN, "timeout", "tool_timed_out", "TIMEOUT", ToolTimeout, kinds=("command_timed_out", "timeout")
    ),
    Situation("cancelled", _RAN, "cancelled", "cancelled", "CANCELLED", ToolFailure),
    # `skipped` is an imported skip without a reason; an outcome has only `duplicate` and `blocked` for it.
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
        line_out_of_range
    """,
    "POLICY_DENIED": """
        tool_not_exposed_for_round unsupported_agent_profile_capability execution_root_violation path_escape
        network_denied web_fetch_disabled tool_disabled write_denied denied_by_hook
    """,
    "NOT_FOUND": "missing_file artifact_not_found unknown_work_item unknown_task memory_source_not_found",
    "CONFLICT": "existing_file context_not_found ambiguous_context",
    "PRECONDITION_FAILED": "unsupported_runtime_capability task_not_running provider_unavailable missing_credentials",
    "TIMEOUT": "tool_timed_out command_timed_out deadline_expired",
    "CANCELLED": "",
    "INTERNAL_ERROR": """
        tool_execution_failed command_spawn_failed patch_failed network_failed rate_limited parse_failed
        response_too_large too_many_redirects redirect_without_location invalid_redirect_location
    """,
}
# Each code in lower case is a kind as well: the kind of an error that is imported with that code.
CODES: dict[str, Code] = {
    kind: code for code, kinds in _KINDS_OF_CODES.items() for kind in (code.lower(), *kinds.split())
}
SKIPPED_KINDS = frozenset(
    kind for row in SITUATIONS if row.end == "skipped" and row.kind for kind in (row.kind, *row.kinds)
)
RETRYABLE_KINDS = frozenset({"truncated_mutation_tool_call", "network_failed", "rate_limited", CANCELLED})
# Kinds that no other arguments cure (E-26). Of an exception without a kind, `tool_execution_failed`, only
# that of a tool that writes is not retryable, because nobody knows how far it came.
BLOCKING_KINDS = frozenset(
    {
        *("provider_unavailable", "missing_credentials", "tool_disabled", "web_fetch_disabled"),
        *("tool_not_exposed_for_round", "unsupported_agent_profile_capability", "tool_execution_failed"),
    }
)


_END_WORDS: dict[RecordedEnd, str] = {
    "ok": "ok success succeeded successful complete completed done finished",
    "error": "error errored fail failed failure exception",
    "timeout": "timeout timed_out",
    "cancelled": "cancelled canceled aborted",
    "skipped": "skipped",
    "refused": "refused denied rejected declined blocked forbidden",
    "interrupted": "interrupted",
}
_ENDS_BY_WORD = {word: end for end, words in _END_WORDS.items() for word in words.split()}


def read_end(word: str) -> RecordedEnd | None:
    """Returns what a runtime's own word for the end of a call means; None for an unknown word.

    >>> read_end("Timed out"), read_end("denied"), read_end("pending")
    ('timeout', 'refused', None)
    """
    return _ENDS_BY_WORD.get(re.sub("[ -]", "_", word.strip().lower()))


def call_code(kind: str) -> Code | None:
    """INTERNAL_ERROR for an unknown kind, None for the kinds of a skipped call."""
    return None if kind in SKIPPED_KINDS else CODES.get(kind, "INTERNAL_ERROR")


def blocks_tool(error: ToolError) -> bool:
    """Decides whether a failed call blocks its tool for the rest of the turn (OUT-050, E-26).

    `error.retryable` answers another question: whether the same call may succeed later. A failure that the model can
    correct by other arguments is not retryable, and the tool stays available.
    """
    return error.kind in BLOCKING_KINDS and not error.retryable


class Created(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: EntryKind


class Modified(msgspec.Struct, frozen=True, kw_only=True):
    """A file with new content; a folder has none."""

    path: str
    kind: Literal["file"]
    before_etag: str | None = None
    after_etag: str | None = None


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: EntryKind
    trashed: bool | None = None


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    from_path: str
    to_path: str


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of a call, as observed and not as intended (CALL-045 to CALL-050, CALL-056).

    None stands for a kind of effect that was not observed; an empty list means that none happened.
    """

    side_effects_observed: tuple[str, ...] | None = None
    created: tuple[Created, ...] | None = None
    modified: tuple[Modified, ...] | None = None
    deleted: tuple[Deleted, ...] | None = None
    renamed: tuple[Renamed, ...] | None = None


class StoredOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A complete output that was stored as an artifact. `summary` has at most 200 characters."""

    artifact_id: str
    summary: str = ""
    size_bytes: int = 0


class InvalidSettlement(ValueError):
    """A settlement that fits no row of the table, or lacks what its row needs."""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How one call ended. Times are ISO 8601 with an offset, `duration_ms` comes from a steady clock.

    `data` is the complete output; `stored` replaces it where the output is an artifact. A call that ended ok has
    one of them. `recorded_code` is the code of an imported CALL result where it is not that of the kind.

    >>> settlement = Settlement(
    ...     call_id="c1", data={"exit_status": 0}, started_at="2026-01-05T10:00:00Z",
    ...     ended_at="2026-01-05T10:00:02Z", duration_ms=2_000,
    ... )
    >>> settlement.code is None
    True
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
        """The CALL code; None where CALL writes no error, as for a skip without a recorded code."""
        if self.error is None or self.end == "skipped":
            return self.recorded_code
        return self.recorded_code or call_code(self.error.kind) or "INTERNAL_ERROR"


def find_situation(settlement: Settlement) -> Situation:
    """The row of a settlement. Raises InvalidSettlement, but for no settlement that could be constructed."""
    ending = settlement.phase, settlement.end, settlement.denied_reason
    rows = [row for row in SITUATIONS if (row.phase, row.end, row.reason) == ending]
    if not rows:
        raise InvalidSettlement(
            f"{settlement.phase} / {settlement.end} / {settlement.denied_reason} is not a situation"
        )
    if settlement.end == "ok":
        return BY_NAME["fits" if settlement.data is not None and fits_inline(settlement.data) else "large"]
    kind = settlement.error.kind if settlement.error else None
    # Two rows have the reason pre_hook: `denied_by_hook` is the hook's, any other kind the policy's.
    return next((row for row in rows if row.kind == kind), rows[-1])


def envelope_situation(status: Status, kind: str | None = None) -> Situation:
    """The row for an envelope's status and error kind: `fits` for a success, `tool_error` for an unknown kind.

    Kinds that a running tool raises as well (`path_escape`, `network_denied`) give `tool_error` too.
    """
    return BY_NAME["fits"] if status == "success" else _BY_KIND.get(kind or "", BY_NAME["tool_error"])


def native_is_error(canonical: CanonicalResult) -> bool:
    """The error flag for a provider that has one."""
    kind = canonical.error.kind if canonical.error else None
    return envelope_situation(canonical.status, kind).native_is_error


def call_situation(status: CallStatus, code: str | None = None) -> Situation:
    """The row for a CALL result alone, from which nobody can tell whether the tool ran.

    VALIDATION_ERROR and POLICY_DENIED give calls that were stopped before they ran (CALL-081, CALL-082), a timeout
    gives one that ran, a skip gives `duplicate`, a success `fits`.
    """
    if status == "error":
        return BY_NAME[_STOPPED.get(code or "", "tool_error")]
    return next(row for row in SITUATIONS if row.end == status)


def outcome_situation(outcome: ToolOutcome) -> Situation:
    """The row for an outcome: a denial by `pre_hook` is the hook's, an unknown reason the policy's."""
    match outcome:
        case ToolDenied(reason=reason):
            return next((row for row in SITUATIONS if row.reason == reason), BY_NAME["policy_denied"])
        case ToolFailure(error=error, retryable=True) if error == CANCELLED:
            return BY_NAME["cancelled"]
    return next(row for row in SITUATIONS if row.outcome is type(outcome))


_STOPPED = {"VALIDATION_ERROR": "invalid_args", "POLICY_DENIED": "policy_denied"}
_BY_KIND = {kind: row for row in SITUATIONS if row.kind for kind in (row.kind, *row.kinds)}


def _payload_problem(settlement: Settlement) -> str | None:
    has_output = (settlement.data is not None) + (settlement.stored is not None)
    if settlement.end == "ok" and (has_output != 1 or settlement.error is not None):
        return "a call that ended ok has an output, inline or stored, and no error"
    if settlement.end != "ok" and (has_output or settlement.error is None):
        return "a call that did not end ok has an error and no output"
    if settlement.duration_ms < 0:
        return "duration_ms is negative"
    if settlement.phase == "pre_dispatch" and settlement.effects is not None:
        return "a call that was never dispatched has no effects"
    return None


def _row_problem(settlement: Settlement) -> str | None:
    """Checks the code too: TIMEOUT belongs to the end timeout and to no other, CANCELLED to cancelled (OD-28)."""
    try:
        row = find_situation(settlement)
    except InvalidSettlement as error:
        return str(error)
    for end, code in (("timeout", "TIMEOUT"), ("cancelled", "CANCELLED")):
        if (row.end == end) != (settlement.code == code):
            return f"end {row.end!r} does not go with code {settlement.code}"
    return None
