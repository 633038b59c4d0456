"""The definitions of the six work-item tools."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from envelopes.families.work_item.results import (
    Filter,
    PlanStatus,
    WorkItemChange,
    WorkItemPage,
    WorkItemPick,
    WorkItemReading,
)
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

LIMIT = 20
LIMITS = (1, 100)
RESULT_ONLY = ("work_item", "state", "focus", "readiness", "is_current", "plan_artifact", "completion_report")

WorkItemId = Annotated[NonEmpty, msgspec.Meta(description="Id of the work item, verbatim.")]
Objective = Annotated[NonEmpty, msgspec.Meta(description="What is to be reached, in a sentence or two.")]


class TodoInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("text",)

    text: Annotated[NonEmpty, msgspec.Meta(description="One step.")]
    state: Annotated[Literal["pending", "in_progress", "completed"], msgspec.Meta(description="How far the step is.")]


class CreateWorkItemInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("objective", "plan")

    objective: Objective
    plan: Annotated[NonEmpty | None, msgspec.Meta(description="First text of the plan's file.")] = None
    plan_status: Annotated[
        PlanStatus | None, msgspec.Meta(description="How far the plan is: draft, ready or needs_input.")
    ] = None
    todo_list: Annotated[list[TodoInput] | None, msgspec.Meta(description="The steps, in order.")] = None


class UpdateWorkItemInput(ToolInput, frozen=True, kw_only=True):
    """A null field is left as it is, like one that is not named."""

    trimmed: ClassVar[tuple[str, ...]] = ("work_item_id", "objective")

    work_item_id: WorkItemId
    objective: Annotated[Objective | None, msgspec.Meta(description="The new objective.")] = None
    plan_status: Annotated[
        PlanStatus | None, msgspec.Meta(description="How far the plan is: draft, ready or needs_input.")
    ] = None
    todo_list: Annotated[
        list[TodoInput] | None, msgspec.Meta(description="The whole new list; it replaces the old one.")
    ] = None

    def check(self) -> None:
        if self.objective is None and self.plan_status is None and self.todo_list is None:
            raise ValueError("name at least one of objective, plan_status, todo_list")


class PickWorkItemInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("work_item_id", "reason")

    work_item_id: WorkItemId
    reason: Annotated[
        NonEmpty | None, msgspec.Meta(description="Why the focus moves; expected when runnable work is left.")
    ] = None


class GetWorkItemInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("work_item_id",)

    work_item_id: WorkItemId
    include_todo_list: Annotated[bool, msgspec.Meta(description="Whether to return the todo list too.")] = False


class ListWorkItemsInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("after",)
    clamped: ClassVar[dict[str, tuple[int, int]]] = {"limit": LIMITS}

    filter: Annotated[
        Filter | None,
        msgspec.Meta(description="queued: open, runnable and not current; blocked: not current and blocked."),
    ] = "all"
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="Most items to return; clamped to 1..100, 20 when omitted."),
    ] = LIMIT
    include_todo_list: Annotated[bool, msgspec.Meta(description="Whether to return the todo lists too.")] = False
    after: Annotated[
        NonEmpty | None,
        msgspec.Meta(description="Id of the last item of the list before; the list goes on behind it."),
    ] = None


class CompleteWorkItemInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("work_item_id",)

    work_item_id: WorkItemId


_UNNAMED = {field: {"type": "null"} for field in ("objective", "plan_status", "todo_list")}
# When each of the three is null or not there, nothing fits.
UPDATE_CONDITIONS: dict[str, Any] = {"if": {"properties": _UNNAMED}, "then": {"not": {}}}

CREATE = ToolDefinition(
    name="CreateWorkItem",
    capability="core_agent",
    planes=("work_item",),
    risk="writes",
    destructive=False,
    effects=("create-work-item",),
    is_mutation=True,
    description=(
        "Create an open work item with an `objective`. `plan` becomes the first text of its plan file, whose path is "
        "in the result; change it later with ApplyPatch. `plan_status` says how far the plan is and `todo_list` holds "
        "the steps. The item gets no focus: use PickWorkItem for that."
    ),
    input=CreateWorkItemInput,
    result=(WorkItemChange,),
    result_only=RESULT_ONLY,
    misnamed={"title": "objective", "todos": "todo_list", "description": "objective"},
    hint="give `objective` as a non-empty string; each entry of `todo_list` has `text` and `state`",
    examples=(
        {"objective": "Make receipts readable"},
        {
            "objective": "Make receipts readable",
            "plan": "# Plan\n\n1. Collect",
            "plan_status": "draft",
            "todo_list": [{"text": "Collect", "state": "in_progress"}],
        },
        {"objective": "x", "plan": None, "plan_status": None, "todo_list": None},
    ),
    counter_examples=(
        {},
        {"objective": "\t"},
        {"objective": "x", "plan": ""},
        {"objective": "x", "plan_status": "done"},
        {"objective": "x", "todo_list": [{"text": "y"}]},
        {"objective": "x", "todo_list": [{"text": " ", "state": "pending"}]},
        {"objective": "x", "todo_list": [{"text": "y", "state": "pending", "owner": "z"}]},
        {"objective": "x", "state": "open"},
        {"title": "x"},
    ),
)

UPDATE = ToolDefinition(
    name="UpdateWorkItem",
    capability="core_agent",
    planes=("work_item",),
    risk="writes",
    effects=("update-work-item",),
    is_mutation=True,
    description=(
        "Change the `objective`, the `plan_status` or the `todo_list` of the open work item `work_item_id`; name at "
        "least one of the three. `todo_list` replaces the whole list. A wait is recorded with WaitFor, and the plan "
        "is changed with ApplyPatch on the path of its file."
    ),
    input=UpdateWorkItemInput,
    result=(WorkItemChange,),
    error_kinds=("unknown_work_item",),
    result_only=RESULT_ONLY,
    misnamed={"id": "work_item_id", "todos": "todo_list", "title": "objective"},
    hint="give `work_item_id` and at least one of `objective`, `plan_status`, `todo_list`",
    conditions=UPDATE_CONDITIONS,
    examples=(
        {"work_item_id": "wi_7", "plan_status": "ready"},
        {"work_item_id": "wi_7", "todo_list": []},
        {"work_item_id": " wi_7 ", "objective": "Narrower", "plan_status": None},
    ),
    counter_examples=(
        {"work_item_id": "wi_7"},
        {"work_item_id": "wi_7", "objective": None, "plan_status": None, "todo_list": None},
        {"work_item_id": "", "objective": "x"},
        {"objective": "x"},
        {"work_item_id": "wi_7", "objective": " "},
        {"work_item_id": "wi_7", "plan": "x"},
        {"work_item_id": "wi_7", "state": "completed"},
    ),
)

PICK = ToolDefinition(
    name="PickWorkItem",
    capability="core_agent",
    planes=("work_item",),
    risk="writes",
    effects=("pick-work-item",),
    is_mutation=True,
    description=(
        "Make the open work item `work_item_id` the current one. Give a `reason` when you leave current work that is "
        "runnable; without one the switch is made and a warning says so."
    ),
    input=PickWorkItemInput,
    result=(WorkItemPick,),
    error_kinds=("unknown_work_item",),
    result_only=("previous_work_item", "current_work_item", "current_work_item_id", "transition", "binding_note"),
    misnamed={"id": "work_item_id"},
    hint="give the `work_item_id` of an open work item; ListWorkItems names them",
    examples=({"work_item_id": "wi_7"}, {"work_item_id": "wi_7", "reason": "It unblocks wi_8"}),
    counter_examples=(
        {},
        {"work_item_id": "  "},
        {"work_item_id": "wi_7", "reason": ""},
        {"work_item_id": 7},
        {"work_item_id": "wi_7", "transition": {}},
    ),
)

GET = ToolDefinition(
    name="GetWorkItem",
    capability="core_agent",
    planes=("work_item",),
    risk="read-only",
    description=(
        "Read the work item `work_item_id` with the beginning and end of its plan; the result says whether the plan is "
        "complete and where its file is. `include_todo_list` adds the todo list."
    ),
    input=GetWorkItemInput,
    result=(WorkItemReading,),
    error_kinds=("unknown_work_item",),
    result_only=("context", *RESULT_ONLY),
    misnamed={"id": "work_item_id"},
    hint="give the `work_item_id` of a work item; ListWorkItems names them",
    examples=({"work_item_id": "wi_7"}, {"work_item_id": "wi_7", "include_todo_list": True}),
    counter_examples=(
        {},
        {"work_item_id": " "},
        {"work_item_id": "wi_7", "include_todo_list": None},
        {"work_item_id": "wi_7", "include_plan": True},
    ),
)

LIST = ToolDefinition(
    name="ListWorkItems",
    capability="core_agent",
    planes=("work_item",),
    risk="read-only",
    description=(
        "List work items, the one updated last first. `filter` picks by state: queued is open, runnable and not "
        "current; blocked is blocked and not current. `limit` is accepted whatever its size and clamped to 1..100. "
        "`include_todo_list` adds the todo lists. A list that does not show all items names the `after` to go on "
        "with. Use GetWorkItem for a plan."
    ),
    input=ListWorkItemsInput,
    result=(WorkItemPage,),
    result_only=("work_items", "returned", "total_matching", "context"),
    misnamed={"state": "filter", "status": "filter", "max_results": "limit"},
    hint="omit every field for the 20 items updated last, or see the ListWorkItems schema",
    examples=(
        {},
        {"filter": "queued", "limit": 500, "include_todo_list": True},
        {"filter": None, "limit": None},
        {"limit": 0},
    ),
    counter_examples=(
        {"filter": "done"},
        {"limit": -1},
        {"limit": "20"},
        {"status": "open"},
        {"include_todo_list": "yes"},
    ),
)

COMPLETE = ToolDefinition(
    name="CompleteWorkItem",
    capability="core_agent",
    planes=("work_item",),
    risk="writes",
    effects=("complete-work-item",),
    is_mutation=True,
    description=(
        "Mark the work item `work_item_id` complete. What you write beside this call becomes its completion report, so "
        "say there what was reached. Unfinished todos give a warning, and an item that is complete already stays so."
    ),
    input=CompleteWorkItemInput,
    result=(WorkItemChange,),
    error_kinds=("unknown_work_item",),
    result_only=("completed_transition", "warnings", *RESULT_ONLY),
    misnamed={"id": "work_item_id"},
    hint="give the `work_item_id` of an open work item; ListWorkItems names them",
    examples=({"work_item_id": "wi_7"},),
    counter_examples=({}, {"work_item_id": ""}, {"work_item_id": "wi_7", "completion_report": "Done"}),
)

TOOLS = (CREATE, UPDATE, PICK, GET, LIST, COMPLETE)
