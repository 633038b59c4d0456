"""Handles in a result that a model passes to another tool to follow up on it.

    TaskHandle        a task in the background: TaskStatus, TaskOutput and TaskStop take its id
    ChildSupervision  who supervises a child agent, and where a follow-up to it goes

Several families use them, and families do not import each other, so they are defined here. The docstrings of
the structs are part of `families/inventory.json`: changing one raises the inventory's version.
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


def to_members(struct: msgspec.Struct | None) -> JsonValue:
    """A struct as JSON members, without those that are None at any depth."""
    return None if struct is None else _without_nulls(msgspec.to_builtins(struct))


def _without_nulls(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(child) for child in value]
    return value
