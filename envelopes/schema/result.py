"""The tool-result envelope: everything that happened, and its bounded five-key projection.

    CompleteOutput   what the tool produced, whole; `result` is a family's typed struct
    CanonicalResult  the record that the runtime owns: five keys, bounded, JSON all the way down
    ToolError        the `error` payload of both
    ArtifactRef      a path and nothing else (RFC-086); an index in `result` gives its role

Handles in a result are what a model passes to another tool to follow up on it. Several families use them, and
families do not import each other, so they are defined here:

    TaskHandle        a task in the background: TaskStatus, TaskOutput and TaskStop take its id
    ChildSupervision  who supervises a child agent, and where a follow-up to it goes

Invariants (RFC-036, RFC-037, RFC-074 to RFC-076): success has a result and no error; error has an
error and no result. `JsonValue` stands for any value that JSON can hold.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from envelopes.schema.conversion import convert_json

JsonValue: TypeAlias = None | bool | int | float | str | list[Any] | dict[str, Any]
Status: TypeAlias = Literal["success", "error"]

SUMMARY_CHARACTERS = 200  # E-8: summary 200
CHILD_REPORT_CHARACTERS = 4_000  # E-8, RFC-114


class InvalidOutput(ValueError):
    """An envelope with both a result and an error or neither, with the wrong status, or without a summary."""


class ToolError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a tool failed (RFC-038). `retryable` is always explicit (E-10).

    >>> ToolError(kind="missing_file", message="plan.md does not exist", retryable=False).retryable
    False
    """

    kind: str
    message: str
    details: dict[str, Any] | None = None
    recovery_hint: str | None = None
    retryable: bool


class ArtifactRef(msgspec.Struct, frozen=True):
    path: str


class CompleteOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one tool call produced (RFC-062). `result` is the family's own struct, never raw JSON.

    >>> from envelopes import tools
    >>> result = tools()["ExecCommand"].read_data({"exit_status": 0, "stdout": "3 passed\\n", "stderr": ""})
    >>> output = CompleteOutput(
    ...     tool_name="ExecCommand", status="success", summary_text="command exited with status 0", result=result
    ... )
    >>> output.check()
    """

    tool_name: str
    status: Status
    summary_text: str
    result: msgspec.Struct | None = None
    error: ToolError | None = None

    @classmethod
    def success(cls, tool_name: str, summary: str, result: msgspec.Struct) -> CompleteOutput:
        """The output of a call that succeeded; its summary becomes one line of at most 200 characters."""
        return cls(tool_name=tool_name, status="success", summary_text=summarize(summary), result=result)

    def check(self) -> None:
        """Raises InvalidOutput unless exactly the half that `status` asks for is present."""
        _check_exclusive(self.status, self.result is not None, self.error is not None)
        if not self.summary_text.strip():
            raise InvalidOutput(f"{self.tool_name}: summary_text is empty (RFC-027)")


class CanonicalResult(msgspec.Struct, frozen=True, kw_only=True):
    """The bounded record of a call's result, with five keys (RFC-021).

    `artifacts` is a sixth key, present only when there are any (E-4).

    >>> canonical = CanonicalResult(tool_name="Ask", status="success", summary_text="asked", result={"answer": "yes"})
    >>> list(canonical.to_json())
    ['tool_name', 'status', 'summary_text', 'result', 'error']
    >>> CanonicalResult.from_json(canonical.to_json()) == canonical
    True
    """

    tool_name: str
    status: Status
    summary_text: str
    result: JsonValue = None
    error: ToolError | None = None
    artifacts: tuple[ArtifactRef, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The envelope as JSON members, in the RFC's order; nulls are explicit (E-24)."""
        document: dict[str, JsonValue] = {
            "tool_name": self.tool_name,
            "status": self.status,
            "summary_text": self.summary_text,
            "result": self.result,
            "error": msgspec.to_builtins(self.error),
        }
        if self.artifacts:
            document["artifacts"] = [{"path": artifact.path} for artifact in self.artifacts]
        return document

    @classmethod
    def from_json(cls, document: JsonValue) -> CanonicalResult:
        """The inverse of `to_json`. Raises msgspec.ValidationError with a `$.path`, or InvalidOutput."""
        canonical = convert_json(document, cls)
        if not canonical.summary_text.strip():
            raise msgspec.ValidationError("the summary is empty (RFC-027) - at `$.summary_text`")
        if len(canonical.summary_text) > SUMMARY_CHARACTERS:
            reason = f"the summary is longer than {SUMMARY_CHARACTERS} characters (RFC-029)"
            raise msgspec.ValidationError(f"{reason} - at `$.summary_text`")
        if "\n" in canonical.summary_text:
            raise msgspec.ValidationError("the summary has more than one line (RFC-029) - at `$.summary_text`")
        _check_exclusive(canonical.status, canonical.result is not None, canonical.error is not None)
        return canonical


def summarize(text: str) -> str:
    """One line of at most 200 characters, the cut marked by an ellipsis (RFC-029)."""
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARACTERS else line[: SUMMARY_CHARACTERS - 1] + "…"


def _check_exclusive(status: str, has_result: bool, has_error: bool) -> None:  # noqa: FBT001
    if has_result == has_error:
        halves = "both a result and an error" if has_result else "neither a result nor an error"
        raise InvalidOutput(f"{halves} in one output (RFC-076)")
    if status not in get_args(Status):  # the type of a member is checked only where it is decoded
        raise InvalidOutput(f"status {status!r} is neither success nor error (RFC-024)")
    if has_error != (status == "error"):
        raise InvalidOutput(f"status {status!r} does not match the half that is present")


class TaskHandle(msgspec.Struct, frozen=True, kw_only=True):
    # The docstrings of the handles are part of inventory.json: a change raises the inventory's version.
    """Written as {task_id, kind, status} (E-7); without a status that is not known, as the RFC has it."""

    task_id: str
    kind: str
    status: str | None = "running"


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    branch: str | None = None


class ChildSupervision(msgspec.Struct, frozen=True, kw_only=True):
    """`cleanup_owner` clears the child's workspace away; `followup_target` is whom to write to."""

    parent_agent_id: str
    child_agent_id: str
    supervision_task_id: str
    parent_work_item_id: str | None = None
    child_work_item_id: str | None = None
    delegation_id: str | None = None
    workspace_mode: str | None = None
    worktree: Worktree | None = None
    cleanup_owner: str
    cleanup_status: str | None = None
    followup_target: str


def to_members(struct: msgspec.Struct | None) -> JsonValue:
    """A struct as JSON members, without those that are None at any depth."""
    return None if struct is None else _without_nulls(msgspec.to_builtins(struct))


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(child) for child in value]
    return value
