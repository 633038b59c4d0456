"""What Claude Code recorded of the work_item family's tools, and where its receipts took it from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.lenient_structs import (
    RecordedObject,
    lazy_reading,
    link_groups,
    reading,
    tool_mapping,
)
from envelopes.alignment.mapping import Evidence, ItemLinks, Reading
from envelopes.alignment.spans import Span
from envelopes.families.work_item.results import Todo, TodoList, WorkItem, WorkItems, WorkItemUpdate

AGENT = "claude-code"
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


def _read_todos(evidence: Evidence, recorded: RecordedObject) -> Reading:
    name = "newTodos" if recorded.get("newTodos") is not None else "todos"
    links = {f"/{name}": "/result/todo_list", "/oldTodos": "/result/previous_todo_list"}
    items = ItemLinks(f"/{name}", "/result/todo_list", len(recorded.elements(name)), TODO_NAMES, links)
    return lazy_reading(evidence, lambda: _todo_list(recorded, name), links=items)


def _todo_list(recorded: RecordedObject, name: str) -> tuple[TodoList, str]:
    previous = recorded.items("oldTodos") if recorded.get("oldTodos") is not None else None
    found = TodoList(
        todo_list=tuple(_todo(item) for item in recorded.items(name)),
        previous_todo_list=None if previous is None else tuple(_todo(item) for item in previous),
    )
    return found, _todo_summary(found.todo_list)


def _todo(item: RecordedObject) -> Todo:
    return Todo(item.text("content") or "", item.text("status") or "")


def _todo_summary(todos: Sequence[Todo]) -> str:
    if not todos:
        return "The todo list is empty"
    states = Counter(todo.state for todo in todos)
    return (
        f"Todo list of {len(todos)}: {states['completed']} completed, {states['in_progress']} in progress, "
        f"{states['pending']} pending"
    )


def _align_todos(recorded: RecordedObject, text: str) -> list[Span]:
    """The receipt is a fixed sentence; some versions repeat the list as JSON after it."""
    start = text.find("[{")
    name = "newTodos" if recorded.get("newTodos") is not None else "todos"
    end = text.rfind("}]") + 2
    return match_json(text[:end], recorded.get(name), f"/{name}", start=start) if 0 <= start < end else []


def _item(task: RecordedObject) -> WorkItem:
    return WorkItem(
        id=task.text("id"),
        objective=task.text("subject"),
        description=task.text("description"),
        state=task.text("status"),
        owner=task.text("owner"),
        blocks=task.strings("blocks"),
        blocked_by=task.strings("blockedBy"),
    )


def _item_links(recorded: str, canonical: str) -> dict[str, str]:
    return {f"{recorded}/{theirs}": f"{canonical}/{ours}" for theirs, ours in ITEM_NAMES.items()}


def _read_created(evidence: Evidence, recorded: RecordedObject) -> Reading:
    item = _item(recorded.member("task"))
    said = f"Work item created: {item.id or '(no id)'}"
    return reading(evidence, item, said, links=_item_links("/task", "/result/work_item"))


def _read_one(evidence: Evidence, recorded: RecordedObject) -> Reading:
    item = _item(recorded.member("task"))
    asked = RecordedObject(evidence.args).text("taskId")
    said = f"Work item {item.id}: {item.objective or ''}" if item.id else f"No work item {asked or ''} was found"
    return reading(evidence, item, said, links=_item_links("/task", "/result/work_item"))


_CREATED = re.compile(r"\ATask #(?P<id>\S+) created successfully: (?P<subject>.+)\Z", re.DOTALL)
_ONE = re.compile(r"\ATask #(?P<id>\S+): (?P<subject>[^\n]*)\nStatus: (?P<status>[^\n]*)")
_DESCRIPTION = re.compile(r"\nDescription: (?P<description>.*?)(?:\nBlock(?:ed by|s): [^\n]*)*\Z", re.DOTALL)


def _align_created(recorded: RecordedObject, text: str) -> list[Span]:
    return link_groups(_CREATED.match(text), recorded.member("task"), "/task")


def _align_one(recorded: RecordedObject, text: str) -> list[Span]:
    task, head = recorded.member("task"), _ONE.match(text)
    if head is None:
        return []
    return [
        *link_groups(head, task, "/task"),
        *link_groups(_DESCRIPTION.match(text, head.end()), task, "/task"),
    ]


def _read_updated(evidence: Evidence, recorded: RecordedObject) -> Reading:
    change = recorded.member("statusChange")
    found = WorkItemUpdate(
        id=recorded.text("taskId"),
        updated=recorded.flag("success"),
        updated_fields=recorded.strings("updatedFields"),
        previous_state=change.text("from"),
        state=change.text("to"),
        reason=recorded.text("error"),
    )
    links = {
        "/taskId": "/result/work_item_id",
        "/success": "/result/updated",
        "/updatedFields": "/result/updated_fields",
        "/statusChange/from": "/result/previous_state",
        "/statusChange/to": "/result/state",
        "/error": "/result/reason",
    }
    fields = ", ".join(found.updated_fields) or "nothing changed"
    verdict = "not updated" if found.updated is False else f"updated: {fields}"
    return reading(evidence, found, f"Work item {found.id or '(no id)'} {verdict}", links=links)


_UPDATED = re.compile(r"\AUpdated task #(?P<taskId>\S+) (?P<fields>[^\n]*)")


def _align_updated(recorded: RecordedObject, text: str) -> list[Span]:
    found = _UPDATED.match(text)
    if found is None:
        return match_excerpt(text, recorded.text("error") or "", "/error")
    spans = link_groups(re.match(r"\AUpdated task #(?P<taskId>\S+)", text), recorded)
    at = found.start("fields")
    for index, name in enumerate(recorded.strings("updatedFields")):
        if not name or not text.startswith(name, at):
            break
        spans.append(Span(at, at + len(name), f"/updatedFields/{index}", 0, len(name)))
        at += len(name) + len(", ")
    return spans


def _read_list(evidence: Evidence, recorded: RecordedObject) -> Reading:
    links = {"/tasks": "/result/work_items"}
    count = len(recorded.elements("tasks"))
    said = f"{count or 'No'} work {'item' if count == 1 else 'items'}"
    items = ItemLinks("/tasks", "/result/work_items", count, ITEM_NAMES, links)
    return lazy_reading(evidence, lambda: (_work_items(recorded), said), links=items)


def _work_items(recorded: RecordedObject) -> WorkItems:
    return WorkItems(tuple(_item(task) for task in recorded.items("tasks")))


_AFTER_SUBJECT = re.compile(r"(?: [(\[][^\n]*)?(?:\n|\Z)")


def _align_list(recorded: RecordedObject, text: str) -> Iterator[Span]:
    """`#1 [pending] subject` a line, with owner and blockers after the subject."""
    at = 0
    for index, task in enumerate(map(RecordedObject, recorded.elements("tasks"))):
        number, state, subject = task.text("id") or "", task.text("status") or "", task.text("subject") or ""
        line = f"#{number} [{state}] {subject}"
        end = at + len(line)
        ending = _AFTER_SUBJECT.match(text, end) if text.startswith(line, at) else None
        if ending is None:
            return
        pointer, stated = f"/tasks/{index}", at + len(number) + len("# [")
        if number:
            yield Span(at + 1, at + 1 + len(number), pointer + "/id", 0, len(number))
        if state:
            yield Span(stated, stated + len(state), pointer + "/status", 0, len(state))
        if subject:
            yield Span(end - len(subject), end, pointer + "/subject", 0, len(subject))
        at = ending.end()


TOOLS = (
    tool_mapping(
        agent=AGENT,
        tools=("TodoWrite", "TodoRead"),
        version=1,
        expects=("newTodos", "todos"),
        read=_read_todos,
        align=_align_todos,
    ),
    tool_mapping(
        agent=AGENT, tools=("TaskCreate",), version=1, expects=("task",), read=_read_created, align=_align_created
    ),
    tool_mapping(agent=AGENT, tools=("TaskGet",), version=1, expects=("task",), read=_read_one, align=_align_one),
    tool_mapping(
        agent=AGENT,
        tools=("TaskUpdate",),
        version=1,
        expects=("taskId", "success"),
        read=_read_updated,
        align=_align_updated,
    ),
    tool_mapping(
        agent=AGENT,
        tools=("TaskList",),
        version=1,
        expects=("tasks",),
        read=_read_list,
        align=_align_list,
        lists=("tasks",),
    ),
)
