"""Claude Code's todo list and its Task tools: what it recorded, and where its receipts took it from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from envelopes.alignment.json_spans import match_json
from envelopes.alignment.lenient_structs import (
    RecordedObject,
    lazy_reading,
    link_groups,
    link_names,
    read_struct,
    reading,
    tool_mapping,
)
from envelopes.alignment.mapping import Evidence, ItemLinks, Reading
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.families.work_item.results import Todo, TodoList, WorkItem, WorkItems, WorkItemUpdate

_mapping = partial(tool_mapping, agent="claude-code")
STATES = {"completed": "completed", "in_progress": "in progress", "pending": "pending"}
TODO_NAMES = {"content": "text", "status": "state"}
ITEM_NAMES = {
    "id": "id",
    "subject": "objective",
    "description": "description",
    "status": "state",
    "owner": "owner",
    "blocks": "blocks",
    "blockedBy": "blocked_by",
}
UPDATE_NAMES = {"taskId": "id", "success": "updated", "updatedFields": "updated_fields", "error": "reason"}


def _read_todos(evidence: Evidence, recorded: RecordedObject) -> Reading:
    name = "newTodos" if recorded.get("newTodos") is not None else "todos"
    links = {f"/{name}": "/result/todo_list", "/oldTodos": "/result/previous_todo_list"}
    items = ItemLinks(f"/{name}", "/result/todo_list", len(recorded.elements(name)), TODO_NAMES, links)
    return lazy_reading(evidence, lambda: _build_todo_list(recorded, name), links=items)


def _build_todo_list(recorded: RecordedObject, name: str) -> tuple[TodoList, str]:
    todos = _read_todo_items(recorded, name)
    previous = None if recorded.get("oldTodos") is None else _read_todo_items(recorded, "oldTodos")
    result = TodoList(todo_list=todos, previous_todo_list=previous)
    if not todos:
        return result, "The todo list is empty"
    states = Counter(todo.state for todo in todos)
    counts = ", ".join(f"{states[state]} {words}" for state, words in STATES.items())
    return result, f"Todo list of {len(todos)}: {counts}"


def _read_todo_items(recorded: RecordedObject, name: str) -> tuple[Todo, ...]:
    return tuple(Todo(item.text("content") or "", item.text("status") or "") for item in recorded.items(name))


def _align_todos(recorded: RecordedObject, text: str) -> list[Span]:
    """Links the list that some versions repeat as JSON after their fixed sentence."""
    start = text.find("[{")
    name = "newTodos" if recorded.get("newTodos") is not None else "todos"
    end = text.rfind("}]") + 2
    return match_json(text[:end], recorded.get(name), f"/{name}", start=start) if 0 <= start < end else []


def _read_created(evidence: Evidence, recorded: RecordedObject) -> Reading:
    item = read_struct(WorkItem, recorded.member("task"), ITEM_NAMES)
    summary = f"Work item created: {item.id or '(no id)'}"
    return reading(evidence, item, summary, links=link_names(ITEM_NAMES, "/task", "/result/work_item"))


def _read_item(evidence: Evidence, recorded: RecordedObject) -> Reading:
    item = read_struct(WorkItem, recorded.member("task"), ITEM_NAMES)
    missing = f"No work item {RecordedObject(evidence.args).text('taskId') or ''} was found"
    summary = f"Work item {item.id}: {item.objective or ''}" if item.id else missing
    return reading(evidence, item, summary, links=link_names(ITEM_NAMES, "/task", "/result/work_item"))


_CREATED = re.compile(r"\ATask #(?P<id>\S+) created successfully: (?P<subject>.+)\Z", re.DOTALL)
_ITEM = re.compile(r"\ATask #(?P<id>\S+): (?P<subject>[^\n]*)\nStatus: (?P<status>[^\n]*)")
_DESCRIPTION = re.compile(r"\nDescription: (?P<description>.*?)(?:\nBlock(?:ed by|s): [^\n]*)*\Z", re.DOTALL)


def _align_created(recorded: RecordedObject, text: str) -> list[Span]:
    return link_groups(_CREATED.match(text), recorded.member("task"), "/task")


def _align_item(recorded: RecordedObject, text: str) -> list[Span]:
    task, head = recorded.member("task"), _ITEM.match(text)
    if head is None:
        return []
    return [
        *link_groups(head, task, "/task"),
        *link_groups(_DESCRIPTION.match(text, head.end()), task, "/task"),
    ]


def _read_updated(evidence: Evidence, recorded: RecordedObject) -> Reading:
    change = recorded.member("statusChange")
    states = {"previous_state": change.text("from"), "state": change.text("to")}
    result = read_struct(WorkItemUpdate, recorded, UPDATE_NAMES, **states)
    links = {
        "/taskId": "/result/work_item_id",
        "/success": "/result/updated",
        "/updatedFields": "/result/updated_fields",
        "/statusChange/from": "/result/previous_state",
        "/statusChange/to": "/result/state",
        "/error": "/result/reason",
    }
    fields = ", ".join(result.updated_fields) or "nothing changed"
    verdict = "not updated" if result.updated is False else f"updated: {fields}"
    return reading(evidence, result, f"Work item {result.id or '(no id)'} {verdict}", links=links)


_UPDATED = re.compile(r"\AUpdated task #(?P<taskId>\S+) (?P<fields>[^\n]*)")


def _align_updated(recorded: RecordedObject, text: str) -> list[Span]:
    updated = _UPDATED.match(text)
    if updated is None:
        return match_excerpt(text, recorded.text("error") or "", "/error")
    spans = link_groups(re.match(r"\AUpdated task #(?P<taskId>\S+)", text), recorded)
    at = updated.start("fields")
    for index, name in enumerate(recorded.strings("updatedFields")):
        if not name or not text.startswith(name, at):
            break
        spans.append(Span(at, at + len(name), f"/updatedFields/{index}", 0, len(name)))
        at += len(name) + len(", ")
    return spans


def _read_list(evidence: Evidence, recorded: RecordedObject) -> Reading:
    count = len(recorded.elements("tasks"))
    summary = f"{count or 'No'} work {'item' if count == 1 else 'items'}"

    def build() -> tuple[WorkItems, str]:
        return WorkItems(tuple(read_struct(WorkItem, task, ITEM_NAMES) for task in recorded.items("tasks"))), summary

    links = ItemLinks("/tasks", "/result/work_items", count, ITEM_NAMES, {"/tasks": "/result/work_items"})
    return lazy_reading(evidence, build, links=links)


_AFTER_SUBJECT = re.compile(r"(?: [(\[][^\n]*)?(?:\n|\Z)")


def _align_list(recorded: RecordedObject, text: str) -> Iterator[Span]:
    """Links lines of `#1 [pending] subject`, with owner and blockers after the subject."""
    at = 0
    for index, task in enumerate(map(RecordedObject, recorded.elements("tasks"))):
        number, state, subject = task.text("id") or "", task.text("status") or "", task.text("subject") or ""
        line = f"#{number} [{state}] {subject}"
        end = at + len(line)
        ending = _AFTER_SUBJECT.match(text, end) if text.startswith(line, at) else None
        if ending is None:
            return
        pointer, state_at = f"/tasks/{index}", at + len(number) + len("# [")
        if number:
            yield Span(at + 1, at + 1 + len(number), pointer + "/id", 0, len(number))
        if state:
            yield Span(state_at, state_at + len(state), pointer + "/status", 0, len(state))
        if subject:
            yield Span(end - len(subject), end, pointer + "/subject", 0, len(subject))
        at = ending.end()


MAPPINGS = (
    _mapping(
        tools=("TodoWrite", "TodoRead"), version=1, expects=("newTodos", "todos"), read=_read_todos, align=_align_todos
    ),
    _mapping(tools=("TaskCreate",), version=1, expects=("task",), read=_read_created, align=_align_created),
    _mapping(tools=("TaskGet",), version=1, expects=("task",), read=_read_item, align=_align_item),
    _mapping(tools=("TaskUpdate",), version=1, expects=("taskId", "success"), read=_read_updated, align=_align_updated),
    _mapping(tools=("TaskList",), version=1, expects=("tasks",), read=_read_list, align=_align_list, lists=("tasks",)),
)
