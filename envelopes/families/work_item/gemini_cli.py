"""The Gemini CLI's write_todos and Qwen Code's todo_write: the arguments are the list, which the receipt repeats.

Qwen Code and later releases of the Gemini CLI record the list too.
"""

from __future__ import annotations

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, ItemLinks, Reading, ResultFidelity, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.work_item.results import Todo, TodoList
from envelopes.schema.receipt import Document

CONFIRMED = "Successfully updated the todo list."
CLEARED = "Successfully cleared the todo list."
CHANGED = "Todos have been modified successfully."
TODO_NAMES = {"description": "text", "content": "text", "status": "state"}


def _read_todos(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text or ""
    recorded = RecordedObject(evidence.result)
    is_recorded = recorded.has_any(("todos",))
    if not is_recorded and (evidence.result is not None or not receipt.startswith((CONFIRMED, CLEARED, CHANGED))):
        return read_untyped(evidence)
    items = (recorded if is_recorded else RecordedObject(evidence.args)).items("todos")
    todos = tuple(Todo(_description(item), item.text("status") or "") for item in items)
    done = sum(todo.state == "completed" for todo in todos)
    summary = f"Todo list of {len(todos)}: {done} completed" if todos else "The todo list is empty"
    links = ItemLinks("/todos", "/result/todo_list", len(todos), TODO_NAMES, {"/todos": "/result/todo_list"})
    fidelity: ResultFidelity = "structured" if is_recorded else "parsed_from_receipt"
    result = TodoList(todo_list=todos)
    return reading(evidence, result, summary, links=links if is_recorded else {}, fidelity=fidelity)


def _description(item: RecordedObject) -> str:
    return item.text("description") or item.text("content") or ""


def _align_todos(evidence: Evidence, text: str) -> list[Span]:
    """Links `1. [status] description`, in the order of the recorded list, or of the arguments."""
    spans: list[Span] = []
    at = text.find("\n") + 1
    recorded = RecordedObject(evidence.result)
    document: Document = "complete" if recorded.has_any(("todos",)) else "args"
    items = (recorded if document == "complete" else RecordedObject(evidence.args)).items("todos")
    for index, item in enumerate(items):
        number, description = f"{index + 1}. [{item.text('status')}] ", item.text("description") or ""
        if not at or not description or not text.startswith(number + description, at):
            break
        start = at + len(number)
        end, pointer = start + len(description), f"/todos/{index}/description"
        spans.append(Span(start, end, pointer, 0, len(description), document))
        at = start + len(description) + 1
    return spans or align_failure(evidence, text)


MAPPINGS = (ToolMapping(agent="gemini-cli", tools=("write_todos",), version=2, read=_read_todos, align=_align_todos),)
