"""Outputs of our own work-item tools of each sort, by `tool/sort`."""

from __future__ import annotations

import msgspec

from envelopes.families.work_item.results import Todo
from envelopes.families.work_item.tools import CREATE, LIST, UPDATE
from envelopes.families.work_item.views import (
    ActiveWait,
    CompletionReport,
    FocusTransition,
    FocusWarning,
    PlanArtifact,
    QueryContext,
    UnfinishedTodos,
    WorkItemChange,
    WorkItemPage,
    WorkItemPick,
    WorkItemReading,
    WorkItemView,
)
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.schema.tool import InvalidToolInput, ToolDefinition

_AT = "2026-05-27T08:00:00Z"
_LATER = "2026-05-27T09:15:00Z"
_PLAN = PlanArtifact(
    owner_agent_id="ada",
    workspace_id="ws_1",
    workspace_alias="ledger",
    relative_path="plans/wi_7.md",
    path="work-items/wi_7/plan.md",
    hash="sha256:8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
    bytes=48,
    updated_at=_AT,
    text="# Plan\n\n1. Collect receipts\n2. Write them anew\n",
)
_LONG_PLAN = msgspec.structs.replace(
    _PLAN, bytes=14_893, text="".join(f"{number}. A step that takes a line\n" for number in range(1, 501))
)
_TODOS = (Todo("Collect receipts", "completed"), Todo("Write them anew", "in_progress"), Todo("Review", "pending"))
_ITEM = WorkItemView(
    id="wi_7",
    agent_id="ada",
    workspace_id="ws_1",
    objective="Make receipts readable",
    state="open",
    focus="queued",
    readiness="runnable",
    is_current=False,
    is_runnable=True,
    plan_status="draft",
    plan_artifact=_PLAN,
    todo_list=_TODOS,
    created_at=_AT,
    updated_at=_AT,
)
_CURRENT = msgspec.structs.replace(_ITEM, focus="current", is_current=True, updated_at=_LATER)
_BARE = msgspec.structs.replace(_ITEM, plan_artifact=None, todo_list=None, plan_status="needs_input")
_LARGE = msgspec.structs.replace(
    _ITEM,
    objective="Make receipts readable, each of them. " * 60,
    plan_artifact=_LONG_PLAN,
    todo_list=tuple(Todo(f"Rewrite receipt {number}", "pending") for number in range(500)),
)
_BLOCKED = msgspec.structs.replace(
    _ITEM,
    id="wi_9",
    objective='Ask "why"\n- wi_8 [open] a line that looks like a row',
    focus="blocked",
    readiness="waiting_for_operator",
    is_runnable=False,
    blocked_by="the operator's answer",
    recheck_at=_LATER,
    active_wait_conditions=(ActiveWait(id="wait_3", kind="operator", waiting_for="which name to use"),),
)
_REPORT = CompletionReport(text="All receipts are text now.", source="assistant_text", source_turn_index=12)
_DONE = msgspec.structs.replace(
    _ITEM, state="completed", focus="completed", readiness="completed", is_runnable=False, completion_report=_REPORT
)
_UNKNOWN = ToolError(
    kind="unknown_work_item",
    message="work item `wi_99` does not exist",
    details={"work_item_id": "wi_99"},
    recovery_hint="use ListWorkItems to find the id",
    retryable=False,
)
_IS_COMPLETE = ToolError(
    kind="invalid_tool_input",
    message="work item `wi_7` is completed and cannot be picked",
    details={"tool_name": "PickWorkItem", "field": "work_item_id", "work_item_id": "wi_7"},
    recovery_hint="pick an open work item, or create a new one",
    retryable=False,
)
_AGENT = QueryContext(current_work_item_id="wi_7")


def _success(tool: str, said: str, result: msgspec.Struct) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=said, result=result)


def _error(tool: str, error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)


def _refused(tool: ToolDefinition, arguments: dict[str, object]) -> CompleteOutput:
    parsed: object = None
    try:
        parsed = tool.parse(arguments)
    except InvalidToolInput as refused:
        parsed = refused.error
    assert isinstance(parsed, ToolError), f"{tool.name} took {arguments}"
    return _error(tool.name, parsed)


def _created(item: WorkItemView) -> CompleteOutput:
    return _success("CreateWorkItem", f"Work item {item.id} created", WorkItemChange(work_item=item))


def _updated(item: WorkItemView, *fields: str) -> CompleteOutput:
    said = f"Work item {item.id} updated: {', '.join(fields)}"
    return _success("UpdateWorkItem", said, WorkItemChange(work_item=item, changed_fields=fields))


def _completed(item: WorkItemView, *warnings: UnfinishedTodos, is_new: bool = True) -> CompleteOutput:
    result = WorkItemChange(work_item=item, warnings=warnings, completed_transition=is_new)
    return _success("CompleteWorkItem", f"Work item {item.id} completed", result)


def _picked(
    item: WorkItemView, previous: WorkItemView | None, transition: FocusTransition, note: str = ""
) -> CompleteOutput:
    result = WorkItemPick(
        previous_work_item=previous,
        current_work_item=item,
        current_work_item_id=item.id,
        transition=transition,
        binding_note=note,
    )
    return _success("PickWorkItem", f"Now working on {item.id}", result)


def _got(item: WorkItemView, context: QueryContext = _AGENT) -> CompleteOutput:
    return _success("GetWorkItem", f"Work item {item.id}", WorkItemReading(context=context, work_item=item))


def _page(*items: WorkItemView, total: int, limit: int = 20, context: QueryContext = _AGENT) -> CompleteOutput:
    page = WorkItemPage(context=context, returned=len(items), total_matching=total, limit=limit, work_items=items)
    return _success("ListWorkItems", f"{len(items)} of {total} work items", page)


_FIRST_PICK = FocusTransition(
    current_work_item_id="wi_7",
    current_readiness="runnable",
    switch_kind="explicit_focus_pick",
    current_focus_mode="runnable",
)
_OVERRIDE = FocusTransition(
    previous_work_item_id="wi_9",
    current_work_item_id="wi_7",
    previous_readiness="runnable",
    current_readiness="runnable",
    switch_kind="explicit_focus_override",
    current_focus_mode="inspection",
    warnings=(FocusWarning(code="missing_reason", message="wi_9 was runnable and no reason was given"),),
)

GALLERY = {
    "CreateWorkItem/success": _created(_ITEM),
    "CreateWorkItem/error": _refused(CREATE, {"objective": " "}),
    "CreateWorkItem/large": _created(_LARGE),
    "CreateWorkItem/empty": _created(_BARE),
    "CreateWorkItem/odd": _created(_BLOCKED),
    "UpdateWorkItem/success": _updated(_CURRENT, "plan_status", "todo_list"),
    "UpdateWorkItem/error": _refused(UPDATE, {"work_item_id": "wi_7"}),
    "UpdateWorkItem/large": _updated(_LARGE, "objective"),
    "UpdateWorkItem/empty": _updated(msgspec.structs.replace(_ITEM, todo_list=()), "todo_list"),
    "UpdateWorkItem/odd": _updated(_BLOCKED, "objective"),
    "PickWorkItem/success": _picked(_CURRENT, None, _FIRST_PICK, "Later calls belong to wi_7."),
    "PickWorkItem/error": _error("PickWorkItem", _IS_COMPLETE),
    "PickWorkItem/large": _picked(
        _LARGE, _LARGE, msgspec.structs.replace(_OVERRIDE, reason="It unblocks the others. " * 100)
    ),
    "PickWorkItem/empty": _picked(_BARE, None, _FIRST_PICK),
    "PickWorkItem/odd": _picked(_CURRENT, _BLOCKED, _OVERRIDE),
    "GetWorkItem/success": _got(_CURRENT),
    "GetWorkItem/error": _error("GetWorkItem", _UNKNOWN),
    "GetWorkItem/large": _got(
        msgspec.structs.replace(
            _LARGE, completion_report=msgspec.structs.replace(_REPORT, text="A line of the report.\n" * 400)
        )
    ),
    "GetWorkItem/empty": _got(_BARE, QueryContext()),
    "GetWorkItem/odd": _got(_BLOCKED),
    "ListWorkItems/success": _page(_CURRENT, _BLOCKED, total=2),
    "ListWorkItems/error": _refused(LIST, {"filter": "done"}),
    "ListWorkItems/large": _page(
        *(msgspec.structs.replace(_LARGE, id=f"wi_{number}") for number in range(100)), total=240, limit=100
    ),
    "ListWorkItems/empty": _page(total=0, context=QueryContext()),
    "ListWorkItems/odd": _page(_BLOCKED, _DONE, total=40, limit=2),
    "CompleteWorkItem/success": _completed(_DONE),
    "CompleteWorkItem/error": _error("CompleteWorkItem", _UNKNOWN),
    "CompleteWorkItem/large": _completed(
        msgspec.structs.replace(_DONE, completion_report=msgspec.structs.replace(_REPORT, text="Reported. " * 1_000)),
        UnfinishedTodos(
            pending_count=498,
            in_progress_count=2,
            sample=tuple(f"Rewrite receipt {number}, " * 20 for number in range(5)),
        ),
    ),
    "CompleteWorkItem/empty": _completed(
        msgspec.structs.replace(_DONE, completion_report=None, plan_artifact=None, todo_list=())
    ),
    "CompleteWorkItem/odd": _completed(_DONE, is_new=False),
}
