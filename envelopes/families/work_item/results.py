"""The results of work-item tools, our own and Claude Code's, and their bounded forms.

    WorkItemChange    CreateWorkItem, UpdateWorkItem, CompleteWorkItem
    WorkItemPick      PickWorkItem
    WorkItemReading   GetWorkItem
    WorkItemPage      ListWorkItems, newest update first
    TodoList, WorkItem, WorkItems, WorkItemUpdate   what Claude Code records

A plan stays in its file and an item behind GetWorkItem, so previews of them write nothing. Times are ISO 8601, ids are
opaque.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers, pick, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue

PLAN_CHARACTERS = 1_600
TODO_CHARACTERS = 4_000
OBJECTIVE_CHARACTERS = 1_000
REPORT_CHARACTERS = 4_000  # as a child's report, E-8
ROW_CHARACTERS = 200
ROW_TODO_CHARACTERS = 200
LIST_CHARACTERS = 1_000
WARNINGS_CHARACTERS = 2_000  # one warning with its five samples has up to 1,100
SAMPLE_TODOS = 5

State: TypeAlias = Literal["open", "completed"]
Focus: TypeAlias = Literal["current", "queued", "blocked", "completed"]
Readiness: TypeAlias = Literal["runnable", "waiting_for_operator", "blocked", "completed"]
PlanStatus: TypeAlias = Literal["draft", "ready", "needs_input"]
Filter: TypeAlias = Literal[
    "all", "open", "completed", "current", "queued", "blocked", "waiting_for_operator", "runnable"
]
SwitchKind: TypeAlias = Literal["same_work_item", "explicit_focus_override", "explicit_focus_pick"]
FocusMode: TypeAlias = Literal["runnable", "inspection"]


class Todo(msgspec.Struct, frozen=True):
    text: str
    state: str


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
    """`limit` is the one that was used, after clamping; `skipped` matching items precede the first one."""

    context: QueryContext
    filter: Filter = "all"
    returned: int
    total_matching: int
    skipped: int = 0
    limit: int
    work_items: tuple[WorkItemView, ...] = ()


class TodoList(msgspec.Struct, frozen=True, kw_only=True):
    todo_list: tuple[Todo, ...] = ()
    previous_todo_list: tuple[Todo, ...] | None = None


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is None when the item asked for does not exist."""

    id: str | None = None
    objective: str | None = None
    description: str | None = None
    state: str | None = None
    owner: str | None = None
    blocks: list[str] = []
    blocked_by: list[str] = []


class WorkItems(msgspec.Struct, frozen=True):
    work_items: tuple[WorkItem, ...] = ()


class WorkItemUpdate(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None = None
    updated: bool | None = None
    updated_fields: list[str] = []
    previous_state: str | None = None
    state: str | None = None
    reason: str | None = None


def _project_change(result: WorkItemChange, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members: ResultMembers = {"work_item": _project_view(result.work_item, "work_item", projector, policy)}
    if result.changed_fields:
        members |= projector.items("changed_fields", result.changed_fields, policy, characters=WARNINGS_CHARACTERS)
    if result.warnings:
        build = partial(_project_unfinished, projector)
        members |= projector.build_items("warnings", result.warnings, policy, build, characters=WARNINGS_CHARACTERS)
    return {**members, "completed_transition": result.completed_transition}


def _project_unfinished(projector: Projector, warning: UnfinishedTodos, field: str) -> JsonValue:
    sample = projector.rows(f"{field}/sample", warning.sample, SAMPLE_TODOS)
    texts = [projector.line(f"{field}/sample/{at}", str(text), ROW_CHARACTERS) for at, text in enumerate(sample)]
    return {"kind": "unfinished_todos", **pick(warning, "pending_count", "in_progress_count"), "sample": texts}


def _project_pick(result: WorkItemPick, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    previous = result.previous_work_item
    row = None if previous is None else _project_row(projector, policy, previous, "previous_work_item")
    return {
        "previous_work_item": row,
        "current_work_item": _project_view(result.current_work_item, "current_work_item", projector, policy),
        "current_work_item_id": result.current_work_item_id,
        "transition": _project_transition(result.transition, projector, policy),
        "binding_note": projector.line("binding_note", result.binding_note or None, ROW_CHARACTERS),
    }


def _project_transition(transition: FocusTransition, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    members = msgspec.to_builtins(transition)
    members["reason"] = projector.line("transition/reason", transition.reason, OBJECTIVE_CHARACTERS)
    build = partial(_project_focus_warning, projector)
    members |= projector.build_items(
        "transition/warnings", transition.warnings, policy, build, characters=LIST_CHARACTERS
    )
    return without_nulls(members)


def _project_focus_warning(projector: Projector, warning: FocusWarning, field: str) -> JsonValue:
    return {
        "code": warning.code,
        "message": projector.line(f"{field}/message", warning.message, ROW_CHARACTERS),
    }


def _project_reading(result: WorkItemReading, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "context": without_nulls(pick(result.context, "current_work_item_id")),
        "work_item": _project_view(result.work_item, "work_item", projector, policy),
    }


def _project_page(result: WorkItemPage, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "context": without_nulls(pick(result.context, "current_work_item_id")),
        **pick(result, "filter", "returned", "total_matching", "limit"),
        **projector.build_items("work_items", result.work_items, policy, partial(_project_row, projector, policy)),
    }


def _project_view(view: WorkItemView, field: str, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    members: ResultMembers = {
        **pick(view, "id", "agent_id", "workspace_id"),
        **projector.text(f"{field}/objective", view.objective, OBJECTIVE_CHARACTERS, role="objective"),
        **_project_states(view, field, projector),
    }
    if (plan := view.plan_artifact) is not None:
        at = f"{field}/plan_artifact"
        preview, is_complete = projector.excerpt(f"{at}/preview", plan.text, PLAN_CHARACTERS)
        facts = {name: member for name, member in msgspec.to_builtins(plan).items() if name != "text"}
        members["plan_artifact"] = without_nulls({**facts, "preview": preview, "preview_complete": is_complete})
    members |= _project_todos(view, field, projector, policy, TODO_CHARACTERS)
    if (report := view.completion_report) is not None:
        at = f"{field}/completion_report"
        text = projector.text(f"{at}/text", report.text, REPORT_CHARACTERS, role="completion-report")
        members["completion_report"] = without_nulls({**msgspec.to_builtins(report), **text})
    if waits := view.active_wait_conditions:
        at, build = f"{field}/active_wait_conditions", partial(_project_wait, projector)
        members |= projector.build_items(at, waits, policy, build, characters=LIST_CHARACTERS)
    return without_nulls({**members, **pick(view, "created_at", "updated_at")})


def _project_row(projector: Projector, policy: ProjectionPolicy, view: WorkItemView, field: str) -> JsonValue:
    """One of many: the plan is named without its text, and GetWorkItem gives the report."""
    plan = view.plan_artifact
    return without_nulls(
        {
            **pick(view, "id", "agent_id", "workspace_id"),
            "objective": projector.line(f"{field}/objective", view.objective, ROW_CHARACTERS),
            **_project_states(view, field, projector),
            "plan_artifact": None if plan is None else {"path": plan.path, "preview_complete": not plan.text},
            **_project_todos(view, field, projector, policy, ROW_TODO_CHARACTERS),
            **pick(view, "created_at", "updated_at"),
        }
    )


def _project_states(view: WorkItemView, field: str, projector: Projector) -> ResultMembers:
    return {
        **pick(view, "state", "focus", "readiness", "is_current", "is_runnable", "plan_status"),
        "blocked_by": projector.line(f"{field}/blocked_by", view.blocked_by, ROW_CHARACTERS),
        **pick(view, "recheck_at", "recheck_consumed_at"),
    }


def _project_todos(
    view: WorkItemView, field: str, projector: Projector, policy: ProjectionPolicy, characters: int
) -> ResultMembers:
    if view.todo_list is None:
        return {}
    build = partial(_project_todo, projector)
    return projector.build_items(f"{field}/todo_list", view.todo_list, policy, build, characters=characters)


def _project_todo(projector: Projector, todo: Todo, field: str) -> JsonValue:
    return {"text": projector.line(f"{field}/text", todo.text, ROW_CHARACTERS), "state": todo.state}


def _project_wait(projector: Projector, wait: ActiveWait, field: str) -> JsonValue:
    waiting_for = projector.line(f"{field}/waiting_for", wait.waiting_for, ROW_CHARACTERS)
    return {"id": wait.id, "kind": wait.kind, "waiting_for": waiting_for}


def _project_todo_list(result: TodoList, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members = projector.items("todo_list", _list_todos(result.todo_list), policy)
    if result.previous_todo_list is not None:
        members |= projector.items("previous_todo_list", _list_todos(result.previous_todo_list), policy)
    return members


def _list_todos(todos: Sequence[Todo]) -> list[JsonValue]:
    return [pick(todo, "text", "state") for todo in todos]


def _project_item(result: WorkItem, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    description = projector.text("work_item/description", result.description, policy.preview, role="description")
    row = {**_list_item(result), **description}
    return {"work_item": row or None}


def _list_item(item: WorkItem) -> ResultMembers:
    lists = {"blocks": list(item.blocks) or None, "blocked_by": list(item.blocked_by) or None}
    return without_nulls({**pick(item, "id", "objective", "state", "owner"), **lists})


def _project_items(result: WorkItems, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.items("work_items", [_list_item(item) for item in result.work_items], policy)


def _project_update(result: WorkItemUpdate, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "work_item_id": result.id,
        "updated": result.updated,
        **projector.items("updated_fields", result.updated_fields, policy),
        **pick(result, "previous_state", "state"),
        **projector.text("reason", result.reason, policy.details, role="reason"),
    }


def change_outcome(change: WorkItemChange) -> str:
    """Fields are named by an update alone, and a transition by a completion."""
    if change.completed_transition is None:
        words = "updated" if change.changed_fields else "created"
    else:
        words = "completed" if change.completed_transition else "was completed before"
    return f"work item {change.work_item.id} {words}"


def pick_outcome(pick: WorkItemPick) -> str:
    return f"now working on {pick.current_work_item_id}"


def reading_outcome(reading: WorkItemReading) -> str:
    return f"work item {reading.work_item.id} is {reading.work_item.state}"


def page_outcome(page: WorkItemPage) -> str:
    return f"{page.returned} of {page.total_matching} work items"


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    WorkItemChange: _project_change,
    WorkItemPick: _project_pick,
    WorkItemReading: _project_reading,
    WorkItemPage: _project_page,
    TodoList: _project_todo_list,
    WorkItem: _project_item,
    WorkItems: _project_items,
    WorkItemUpdate: _project_update,
}
