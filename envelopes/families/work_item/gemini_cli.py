"""Gemini CLI's write_todos: the arguments are the list, and the receipt repeats it."""

from __future__ import annotations

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.work_item.results import Todo, TodoList

CONFIRMED = "Successfully updated the todo list."
CLEARED = "Successfully cleared the todo list."


def _read_todos(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text or ""
    if evidence.result is not None or not receipt.startswith((CONFIRMED, CLEARED)):
        return read_untyped(evidence)
    items = RecordedObject(evidence.args).items("todos")
    todos = tuple(Todo(item.text("description") or "", item.text("status") or "") for item in items)
    done = sum(todo.state == "completed" for todo in todos)
    summary = f"Todo list of {len(todos)}: {done} completed" if todos else "The todo list is empty"
    return reading(evidence, TodoList(todo_list=todos), summary, links={}, fidelity="parsed_from_receipt")


def _align_todos(evidence: Evidence, text: str) -> list[Span]:
    """Links `1. [status] description`, in the order of the arguments."""
    spans: list[Span] = []
    at = text.find("\n") + 1
    for index, item in enumerate(RecordedObject(evidence.args).items("todos")):
        number, description = f"{index + 1}. [{item.text('status')}] ", item.text("description") or ""
        if not at or not description or not text.startswith(number + description, at):
            break
        start = at + len(number)
        spans.append(Span(start, start + len(description), f"/todos/{index}/description", 0, len(description), "args"))
        at = start + len(description) + 1
    return spans or align_failure(evidence, text)


MAPPINGS = (ToolMapping(agent="gemini-cli", tools=("write_todos",), version=1, read=_read_todos, align=_align_todos),)
