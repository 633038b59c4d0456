"""The five outcomes of a call that a tool loop distinguishes, and the message that the model reads of each.

    ToolExecutionResult    ran, and its output fits into the message
    ToolArtifactReference  ran, and its output of more than 12,000 characters is kept as an artifact
    ToolTimeout            ran into its deadline
    ToolFailure            raised, or returned an error
    ToolDenied             never ran: one of four gates stopped it (DENIAL_GATES)

`ToolOutcome` is the closed union of these: plain frozen dataclasses, so that a loop can match on them, and a type
checker reports a match that misses one. An outcome holds less than the settlement that is stored; see
`envelopes.schema.settlement`, and `envelopes.codecs.outcome` for both conversions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, Union, assert_never

from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.schema.result import ArtifactRef, summarize

TOOL_MESSAGE_MAX_CHARS = RECEIPT_CHARACTERS
READ_TOOL = "read_file"  # OUT-029; a runtime whose tool has another name passes that
CANCELLED = "cancelled"  # E-14: a cancelled call is a retryable failure with this error

Gate: TypeAlias = Literal["block_list", "replay", "authorisation", "readiness"]
DeniedReason: TypeAlias = Literal["duplicate", "blocked", "pre_hook", "validation", "deadline", "write_denied"]

# Six reasons, four gates (E-12).
DENIAL_GATES: dict[DeniedReason, Gate] = {
    "duplicate": "replay",
    "blocked": "block_list",
    "pre_hook": "authorisation",
    "validation": "readiness",
    "deadline": "readiness",
    "write_denied": "authorisation",
}


@dataclass(frozen=True)
class ToolExecutionResult:
    """The tool ran. `was_coerced`: the arguments were changed to fit the schema before.

    >>> ToolExecutionResult("call_1", "ExecCommand", {"exit_status": 0}, elapsed_ms=12).was_coerced
    False
    """

    call_id: str
    tool_name: str
    output: dict[str, Any]
    elapsed_ms: int
    was_coerced: bool = False


@dataclass(frozen=True)
class ToolTimeout:
    """The tool ran into its deadline: `deadline_s`, in seconds since 1970, not a duration (E-15).

    >>> ToolTimeout("call_1", "ExecCommand", deadline_s=1767607200.0, elapsed_ms=30_000).retryable
    True
    """

    call_id: str
    tool_name: str
    deadline_s: float
    elapsed_ms: int
    retryable: bool = True


@dataclass(frozen=True)
class ToolFailure:
    """The tool raised, or returned an error.

    >>> ToolFailure("call_1", "WebFetch", "no route to host").retryable
    True
    """

    call_id: str
    tool_name: str
    error: str
    retryable: bool = True
    elapsed_ms: int = 0


@dataclass(frozen=True)
class ToolDenied:
    """The call never ran. `reason` is a DeniedReason; any other word reads like a refusal to the model.

    >>> ToolDenied("call_1", "ApplyPatch", "write_denied", "the plan is read-only").reason
    'write_denied'
    """

    call_id: str
    tool_name: str
    reason: str
    details: str = ""


@dataclass(frozen=True)
class ToolArtifactReference:
    """The tool ran, and its output is an artifact. `summary` has at most 200 characters, `size_bytes` is of the output.

    >>> ToolArtifactReference("call_1", "ExecCommand", "artifacts/0123456789abcdef/stdout.txt", "5,000 lines").summary
    '5,000 lines'
    """

    call_id: str
    tool_name: str
    artifact_id: str
    summary: str
    size_bytes: int = 0


ToolOutcome: TypeAlias = Union[  # noqa: UP007 - the alias as its users know it; typing.get_args lists the five
    ToolExecutionResult,
    ToolTimeout,
    ToolFailure,
    ToolDenied,
    ToolArtifactReference,
]


def fits_inline(output: dict[str, Any]) -> bool:
    """True for an output whose JSON text has at most 12,000 characters (E-9)."""
    return len(json.dumps(output)) <= TOOL_MESSAGE_MAX_CHARS


def refer_to_output(
    call_id: str, tool: str, text: str, artifact: ArtifactRef, *, output_summary: str = ""
) -> ToolArtifactReference:
    """Replaces an output that is too long by a reference to the artifact that holds `text`, its JSON.

    Without `output_summary` the summary is the beginning of the JSON.
    """
    described = summarize(output_summary or text[:1_000])
    return ToolArtifactReference(call_id, tool, artifact.path, described, len(text.encode()))


def outcome_is_error(outcome: ToolOutcome) -> bool:
    """True for a call that failed. A denied call did not, though four of its messages show an error (E-11)."""
    return isinstance(outcome, ToolTimeout | ToolFailure)


def outcome_is_retryable(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolTimeout | ToolFailure) and outcome.retryable


def outcome_blocks_tool(outcome: ToolOutcome) -> bool:
    """True for an outcome after which the tool may not be called again in this turn (OUT-043)."""
    return isinstance(outcome, ToolTimeout | ToolFailure) and not outcome.retryable


def outcome_to_model_content(outcome: ToolOutcome, *, read_tool: str = READ_TOOL) -> str:
    """The JSON text of the tool message, keys in the order of OUT-032 to OUT-040.

    >>> outcome_to_model_content(ToolFailure("call_1", "WebFetch", "no route to host"))
    '{"status": "error", "error": "no route to host", "retryable": true}'
    """
    match outcome:
        case ToolExecutionResult(output=output):
            content = output
        case ToolTimeout(elapsed_ms=elapsed, retryable=retryable):
            error = f"Tool execution timed out after {elapsed} ms."
            content = {"status": "error", "error": error, "timed_out": True, "retryable": retryable}
        case ToolFailure(error=error, retryable=retryable):
            content = {"status": "error", "error": error, "retryable": retryable}
        case ToolDenied():
            content = _denied_content(outcome)
        case ToolArtifactReference():
            hint = f"The output is too large to show here. Use {read_tool} to retrieve the full content."
            content = {"artifact_reference": outcome.artifact_id, "summary": outcome.summary, "hint": hint}
        case _:
            assert_never(outcome)
    return json.dumps(content)


def _denied_content(denied: ToolDenied) -> dict[str, Any]:
    match denied.reason:
        case "duplicate":
            return {"warning": "duplicate_tool_call", "skipped": True}
        case "blocked":
            return {"warning": "non_retryable_tool_failure", "skipped": True}
        case "validation":
            hint = "Correct the arguments to match the tool's schema and call it again."
            return {"error": "argument_validation_failed", "details": denied.details, "hint": hint}
        case "deadline":
            return {"error": "Turn deadline expired; cannot execute tool.", "timed_out": True}
    return {"error": f"Blocked: {denied.details or denied.reason}", "blocked": True}


def tool_message(tool_call_id: str, outcome: ToolOutcome) -> dict[str, str]:
    """The message of OUT-045. `tool_call_id` is the provider's id, which is not the call's own (E-20)."""
    return {"role": "tool", "tool_call_id": tool_call_id, "content": outcome_to_model_content(outcome)}
