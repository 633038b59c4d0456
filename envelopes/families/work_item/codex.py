"""Codex's update_plan: the arguments are the plan, the receipt is `Plan updated`, and no result is recorded."""

from __future__ import annotations

from collections import Counter

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.work_item.results import Todo, TodoList

RECEIPT = "Plan updated"
STATES = ("completed", "in_progress", "pending")


def _read_plan(evidence: Evidence) -> Reading:
    """Reads the plan that the runtime confirmed; without its sentence nothing says that the plan holds."""
    if failure := read_failure(evidence):
        return failure
    plan = RecordedObject(evidence.args).items("plan")
    if evidence.receipt_text != RECEIPT or evidence.result is not None or not plan:
        return read_untyped(evidence)
    todos = tuple(Todo(item.text("step") or "", item.text("status") or "") for item in plan)
    states = Counter(todo.state for todo in todos)
    counts = ", ".join(f"{states[state]} {state.replace('_', ' ')}" for state in STATES)
    summary = f"Plan of {len(todos)}: {counts}"
    return reading(evidence, TodoList(todo_list=todos), summary, links={}, fidelity="parsed_from_receipt")


MAPPINGS = (ToolMapping(agent="codex", tools=("update_plan",), version=1, read=_read_plan, align=align_failure),)
