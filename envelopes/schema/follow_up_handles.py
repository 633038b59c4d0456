"""What a result hands to the model so that it can follow up with another tool.

    TaskHandle        the task that now runs in the background: TaskStatus, TaskOutput and TaskStop take its id
    ChildSupervision  who watches over a child agent, and where a follow-up to it goes

Both are said by more than one family, and families do not import each other.
"""

from __future__ import annotations

import msgspec

from envelopes.schema.result import JsonValue

CHILD_REPORT_CHARACTERS = 4_000  # spec/model.md E-8, RFC-114


class TaskHandle(msgspec.Struct, frozen=True, kw_only=True):
    """Written as {task_id, kind, status} (spec/model.md E-7); without a status that is not known, as the RFC has it."""

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


def read_handle(recorded: JsonValue) -> TaskHandle:
    """A handle in either spelling, `kind` or `task_kind`. Raises msgspec.ValidationError.

    Members that a sibling contract adds (`initial_output`) are not part of the handle.
    """
    if isinstance(recorded, dict) and "task_kind" in recorded:
        recorded = {"kind": recorded["task_kind"], **recorded}
    return msgspec.convert(recorded, TaskHandle)


def to_members(struct: msgspec.Struct | None) -> JsonValue:
    """A struct as JSON members, without those that nobody said."""
    if struct is None:
        return None
    return _without_nulls(msgspec.to_builtins(struct))


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(child) for child in value]
    return value
