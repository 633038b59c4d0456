"""Outputs that show the family: success, empty, large, error."""

from __future__ import annotations

from envelopes.families.work_item.results import Todo, TodoList, WorkItem, WorkItems, WorkItemUpdate
from envelopes.schema.result import CompleteOutput, ToolError

_TODOS = (Todo("Read the log", "completed"), Todo("Write the test", "in_progress"), Todo("Run it", "pending"))

SAMPLES = (
    CompleteOutput(
        tool_name="TodoWrite",
        status="success",
        summary_text="Todo list of 3: 1 completed, 1 in progress, 1 pending",
        result=TodoList(todo_list=_TODOS, previous_todo_list=()),
    ),
    CompleteOutput(tool_name="TodoWrite", status="success", summary_text="The todo list is empty", result=TodoList()),
    CompleteOutput(
        tool_name="TaskCreate",
        status="success",
        summary_text="Work item created: 1",
        result=WorkItem(id="1", objective="Add the settings page"),
    ),
    CompleteOutput(
        tool_name="TaskUpdate",
        status="success",
        summary_text="Work item 1 updated: status",
        result=WorkItemUpdate(
            id="1", updated=True, updated_fields=["status"], previous_state="pending", state="in_progress"
        ),
    ),
    CompleteOutput(
        tool_name="TaskList",
        status="success",
        summary_text="400 work items",
        result=WorkItems(
            tuple(WorkItem(id=str(number), objective=f"Step {number}", state="pending") for number in range(400))
        ),
    ),
    CompleteOutput(
        tool_name="TaskUpdate",
        status="error",
        summary_text="The user declined",
        error=ToolError(kind="write_denied", message="The user declined", retryable=False),
    ),
)
