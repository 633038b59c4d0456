"""OpenHands' task_tracker, which records its list: `{content, command, task_list: [{title, notes, status}]}`.

The receipt is the text in `content`: how many items a plan has, or the list as Markdown.
"""

from __future__ import annotations

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, ItemLinks, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import AGENT, align_observation
from envelopes.families.work_item.results import Todo, TodoList

NAMES = {"title": "text", "status": "state"}
STATES = {"todo": "pending", "done": "completed"}


def _read_tasks(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    if failure := read_failure(evidence):
        return failure
    if not recorded.has_any(("task_list",)):
        return read_untyped(evidence)
    states = [item.text("status") or "" for item in recorded.items("task_list")]
    titles = [item.text("title") or "" for item in recorded.items("task_list")]
    todos = tuple(Todo(title, STATES.get(state, state)) for title, state in zip(titles, states, strict=True))
    done = states.count("done")
    summary = f"Task list of {len(todos)}: {done} completed" if todos else "The task list is empty"
    links = ItemLinks("/task_list", "/result/todo_list", len(todos), NAMES, {"/task_list": "/result/todo_list"})
    return reading(evidence, TodoList(todo_list=todos), summary, links=links)


MAPPINGS = (ToolMapping(agent=AGENT, tools=("task_tracker",), version=1, read=_read_tasks, align=align_observation),)
