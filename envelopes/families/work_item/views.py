"""Typed results of our own work-item tools: one item as its agent sees it, and what a tool did to it.

WorkItemView      one item; times are ISO 8601, ids are opaque
WorkItemChange    CreateWorkItem, UpdateWorkItem, CompleteWorkItem
WorkItemPick      PickWorkItem
WorkItemReading   GetWorkItem
WorkItemPage      ListWorkItems, newest update first
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envelopes.families.work_item.results import Todo

State: TypeAlias = Literal["open", "completed"]
Focus: TypeAlias = Literal["current", "queued", "blocked", "completed"]
Readiness: TypeAlias = Literal["runnable", "waiting_for_operator", "blocked", "completed"]
PlanStatus: TypeAlias = Literal["draft", "ready", "needs_input"]
Filter: TypeAlias = Literal[
    "all", "open", "completed", "current", "queued", "blocked", "waiting_for_operator", "runnable"
]
SwitchKind: TypeAlias = Literal["same_work_item", "explicit_focus_override", "explicit_focus_pick"]
FocusMode: TypeAlias = Literal["runnable", "inspection"]


class PlanArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """The file that holds the plan. `text` is all of it; the canonical result has `preview` instead."""

    owner_agent_id: str
    workspace_id: str
    workspace_alias: str | None = None
    relative_path: str
    path: str
    hash: str
    bytes: int
    updated_at: str
    text: str = ""


class CompletionReport(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    source: str
    delivery_summary_id: str | None = None
    source_turn_index: int | None = None
    created_at: str | None = None


class ActiveWait(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is task, external, operator, timer or system."""

    id: str
    kind: str
    waiting_for: str


class WorkItemView(msgspec.Struct, frozen=True, kw_only=True):
    """`todo_list` is None where the caller did not ask for it."""

    id: str
    agent_id: str
    workspace_id: str
    objective: str
    state: State
    focus: Focus
    readiness: Readiness
    is_current: bool
    is_runnable: bool
    plan_status: PlanStatus
    plan_artifact: PlanArtifact | None = None
    todo_list: tuple[Todo, ...] | None = None
    blocked_by: str | None = None
    recheck_at: str | None = None
    recheck_consumed_at: str | None = None
    completion_report: CompletionReport | None = None
    active_wait_conditions: tuple[ActiveWait, ...] = ()
    created_at: str
    updated_at: str


class UnfinishedTodos(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="unfinished_todos"):
    """`sample` holds at most five."""

    pending_count: int
    in_progress_count: int
    sample: tuple[str, ...] = ()


class WorkItemChange(msgspec.Struct, frozen=True, kw_only=True):
    """`changed_fields` is what UpdateWorkItem set; `completed_transition` is False when it was complete before."""

    work_item: WorkItemView
    changed_fields: tuple[str, ...] = ()
    warnings: tuple[UnfinishedTodos, ...] = ()
    completed_transition: bool | None = None


class FocusWarning(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str


class FocusTransition(msgspec.Struct, frozen=True, kw_only=True):
    previous_work_item_id: str | None = None
    current_work_item_id: str
    reason: str | None = None
    previous_readiness: Readiness | None = None
    current_readiness: Readiness
    switch_kind: SwitchKind
    current_focus_mode: FocusMode
    warnings: tuple[FocusWarning, ...] = ()


class WorkItemPick(msgspec.Struct, frozen=True, kw_only=True):
    """`binding_note` says what the next tool calls belong to."""

    previous_work_item: WorkItemView | None = None
    current_work_item: WorkItemView
    current_work_item_id: str
    transition: FocusTransition
    binding_note: str = ""


class QueryContext(msgspec.Struct, frozen=True, kw_only=True):
    current_work_item_id: str | None = None


class WorkItemReading(msgspec.Struct, frozen=True, kw_only=True):
    context: QueryContext
    work_item: WorkItemView


class WorkItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """`limit` is the one that was used, after clamping."""

    context: QueryContext
    filter: Filter = "all"
    returned: int
    total_matching: int
    limit: int
    work_items: tuple[WorkItemView, ...] = ()
