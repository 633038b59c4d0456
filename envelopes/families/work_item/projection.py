"""The bounded canonical results of our own work-item tools.

A plan stays in its file and an item behind GetWorkItem, so previews of them write nothing.
"""

from __future__ import annotations

from functools import partial

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.families.work_item.results import Todo
from envelopes.families.work_item.views import (
    ActiveWait,
    FocusTransition,
    FocusWarning,
    PlanArtifact,
    UnfinishedTodos,
    WorkItemChange,
    WorkItemPage,
    WorkItemPick,
    WorkItemReading,
    WorkItemView,
)
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue

PLAN_CHARACTERS = 1_600  # spec/tools.md, CreateWorkItem
TODO_CHARACTERS = 4_000
OBJECTIVE_CHARACTERS = 1_000
REPORT_CHARACTERS = 4_000  # as a child's report, spec/model.md E-8
ROW_CHARACTERS = 200
ROW_TODO_CHARACTERS = 200
LIST_CHARACTERS = 1_000
WARNINGS_CHARACTERS = 2_000  # one warning with its five samples has up to 1,100
SAMPLE_TODOS = 5


def change(found: WorkItemChange, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    few = msgspec.structs.replace(policy, preview=min(policy.preview, WARNINGS_CHARACTERS))
    return {
        "work_item": _view(found.work_item, "work_item", projector, policy),
        **(projector.items("changed_fields", list(found.changed_fields), few) if found.changed_fields else {}),
        **(
            projector.build_items("warnings", found.warnings, few, partial(_unfinished, projector))
            if found.warnings
            else {}
        ),
        "completed_transition": found.completed_transition,
    }


def _unfinished(projector: Projector, warning: UnfinishedTodos, field: str) -> JsonValue:
    sample = projector.rows(f"{field}/sample", list(warning.sample), SAMPLE_TODOS)
    return {
        "kind": "unfinished_todos",
        "pending_count": warning.pending_count,
        "in_progress_count": warning.in_progress_count,
        "sample": [projector.line(f"{field}/sample/{at}", str(text), ROW_CHARACTERS) for at, text in enumerate(sample)],
    }


def pick(found: WorkItemPick, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    previous, note = found.previous_work_item, found.binding_note
    return {
        "previous_work_item": None if previous is None else _row(projector, policy, previous, "previous_work_item"),
        "current_work_item": _view(found.current_work_item, "current_work_item", projector, policy),
        "current_work_item_id": found.current_work_item_id,
        "transition": _transition(found.transition, projector, policy),
        "binding_note": projector.line("binding_note", note, ROW_CHARACTERS) if note else None,
    }


def _transition(found: FocusTransition, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    members = msgspec.to_builtins(found)
    if found.reason is not None:
        members["reason"] = projector.line("transition/reason", found.reason, OBJECTIVE_CHARACTERS)
    smaller = msgspec.structs.replace(policy, preview=min(policy.preview, LIST_CHARACTERS))
    build = partial(_focus_warning, projector)
    return _said(
        **{**members, **_members(projector.build_items("transition/warnings", found.warnings, smaller, build))}
    )


def _focus_warning(projector: Projector, warning: FocusWarning, field: str) -> JsonValue:
    return {
        "code": warning.code,
        "message": projector.line(f"{field}/message", warning.message, ROW_CHARACTERS),
    }


def reading(found: WorkItemReading, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "context": _said(current_work_item_id=found.context.current_work_item_id),
        "work_item": _view(found.work_item, "work_item", projector, policy),
    }


def page(found: WorkItemPage, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "context": _said(current_work_item_id=found.context.current_work_item_id),
        "filter": found.filter,
        "returned": found.returned,
        "total_matching": found.total_matching,
        "limit": found.limit,
        **projector.build_items("work_items", found.work_items, policy, partial(_row, projector, policy)),
    }


def _view(view: WorkItemView, field: str, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    objective, artifact = projector.preview(
        f"{field}/objective", view.objective, OBJECTIVE_CHARACTERS, role="objective"
    )
    return _said(
        **_head(view),
        objective=objective,
        objective_artifact=artifact,
        **_state(view, field, projector),
        plan_artifact=_plan(view.plan_artifact, f"{field}/plan_artifact", projector),
        **_todos(view, field, projector, policy),
        **_report(view, field, projector),
        **_waits(view, field, projector, policy),
        created_at=view.created_at,
        updated_at=view.updated_at,
    )


def _row(projector: Projector, policy: ProjectionPolicy, view: WorkItemView, field: str) -> JsonValue:
    """One of many: the plan is named without its text, and the report is behind GetWorkItem."""
    plan = view.plan_artifact
    return _said(
        **_head(view),
        objective=projector.line(f"{field}/objective", view.objective, ROW_CHARACTERS),
        **_state(view, field, projector),
        plan_artifact=None if plan is None else {"path": plan.path, "preview_complete": not plan.text},
        **_todos(view, field, projector, policy, ROW_TODO_CHARACTERS),
        created_at=view.created_at,
        updated_at=view.updated_at,
    )


def _head(view: WorkItemView) -> dict[str, JsonValue]:
    return {"id": view.id, "agent_id": view.agent_id, "workspace_id": view.workspace_id}


def _state(view: WorkItemView, field: str, projector: Projector) -> dict[str, JsonValue]:
    blocked_by = view.blocked_by
    return {
        "state": view.state,
        "focus": view.focus,
        "readiness": view.readiness,
        "is_current": view.is_current,
        "is_runnable": view.is_runnable,
        "plan_status": view.plan_status,
        "blocked_by": None if blocked_by is None else projector.line(f"{field}/blocked_by", blocked_by, ROW_CHARACTERS),
        "recheck_at": view.recheck_at,
        "recheck_consumed_at": view.recheck_consumed_at,
    }


def _plan(plan: PlanArtifact | None, field: str, projector: Projector) -> JsonValue:
    if plan is None:
        return None
    preview, is_complete = projector.excerpt(f"{field}/preview", plan.text, PLAN_CHARACTERS)
    members = msgspec.to_builtins(plan)
    del members["text"]
    return _said(**members, preview=preview, preview_complete=is_complete)


def _todos(
    view: WorkItemView, field: str, projector: Projector, policy: ProjectionPolicy, characters: int = TODO_CHARACTERS
) -> dict[str, JsonValue]:
    if view.todo_list is None:
        return {}
    smaller = msgspec.structs.replace(policy, preview=min(policy.preview, characters))
    return _members(projector.build_items(f"{field}/todo_list", view.todo_list, smaller, partial(_todo, projector)))


def _todo(projector: Projector, todo: Todo, field: str) -> JsonValue:
    return {"text": projector.line(f"{field}/text", todo.text, ROW_CHARACTERS), "state": todo.state}


def _report(view: WorkItemView, field: str, projector: Projector) -> dict[str, JsonValue]:
    report = view.completion_report
    if report is None:
        return {}
    place = f"{field}/completion_report"
    text, artifact = projector.preview(f"{place}/text", report.text, REPORT_CHARACTERS, role="completion-report")
    members = {**msgspec.to_builtins(report), "text": text, "text_artifact": artifact}
    return {"completion_report": _said(**members)}


def _waits(view: WorkItemView, field: str, projector: Projector, policy: ProjectionPolicy) -> dict[str, JsonValue]:
    if not view.active_wait_conditions:
        return {}
    smaller = msgspec.structs.replace(policy, preview=min(policy.preview, LIST_CHARACTERS))
    place = f"{field}/active_wait_conditions"
    return _members(projector.build_items(place, view.active_wait_conditions, smaller, partial(_wait, projector)))


def _wait(projector: Projector, wait: ActiveWait, field: str) -> JsonValue:
    waiting_for = projector.line(f"{field}/waiting_for", wait.waiting_for, ROW_CHARACTERS)
    return {"id": wait.id, "kind": wait.kind, "waiting_for": waiting_for}


def _members(listed: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The same members under their last names: a projector names a field by its path in the result."""
    return {path.rpartition("/")[2]: member for path, member in listed.items()}


def _said(**members: JsonValue) -> dict[str, JsonValue]:
    return {name: member for name, member in members.items() if member is not None}
