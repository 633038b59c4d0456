"""What Claude Code's work-item tools yield: typed results, their bounded projection and their receipt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import Projection, Projector, ResultMembers
from envelopes.families.segments import headline, item_lines, label, line_break, member_line, text_block, text_value
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue


class Todo(msgspec.Struct, frozen=True):
    text: str
    state: str


class TodoList(msgspec.Struct, frozen=True, kw_only=True):
    todo_list: tuple[Todo, ...] = ()
    previous_todo_list: tuple[Todo, ...] | None = None


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is None when the item asked for does not exist."""

    id: str | None = None
    objective: str | None = None
    description: str | None = None
    state: str | None = None
    owner: str | None = None
    blocks: list[str] = []
    blocked_by: list[str] = []


class WorkItems(msgspec.Struct, frozen=True):
    work_items: tuple[WorkItem, ...] = ()


class WorkItemUpdate(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None = None
    updated: bool | None = None
    updated_fields: list[str] = []
    previous_state: str | None = None
    state: str | None = None
    reason: str | None = None


def _todo_list(found: TodoList, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members = projector.items("todo_list", _todo_rows(found.todo_list), policy)
    if found.previous_todo_list is not None:
        members |= projector.items("previous_todo_list", _todo_rows(found.previous_todo_list), policy)
    return members


def _todo_rows(todos: Sequence[Todo]) -> list[JsonValue]:
    return [{"text": todo.text, "state": todo.state} for todo in todos]


def _work_item(found: WorkItem, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    row = _item_row(found)
    if found.description is not None:
        field = "work_item/description"
        row["description"], artifact = projector.preview(field, found.description, policy.preview, role="description")
        row |= {} if artifact is None else {"description_artifact": artifact}
    return {"work_item": row if found.id is not None or row else None}


def _work_items(found: WorkItems, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.items("work_items", [_item_row(item) for item in found.work_items], policy)


def _item_row(item: WorkItem) -> dict[str, JsonValue]:
    row: dict[str, JsonValue] = {
        "id": item.id,
        "objective": item.objective,
        "state": item.state,
        "owner": item.owner,
        "blocks": list(item.blocks) or None,
        "blocked_by": list(item.blocked_by) or None,
    }
    return {name: member for name, member in row.items() if member is not None}


def _update(found: WorkItemUpdate, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    reason = {} if found.reason is None else projector.text("reason", found.reason, policy.details, role="reason")
    return {
        "work_item_id": found.id,
        "updated": found.updated,
        **projector.items("updated_fields", list(found.updated_fields), policy),
        "previous_state": found.previous_state,
        "state": found.state,
        **reason,
    }


def body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    yield from item_lines(canonical, "/result/todo_list", todo_line)
    yield from item_lines(canonical, "/result/work_items", _item_line)
    yield from member_line(canonical, "Was", "/result/previous_state")
    yield from member_line(canonical, "State", "/result/state")
    yield from text_block(canonical, "/result/reason")
    yield from _item_lines(canonical)
    yield from text_block(canonical, "/result/text")


def _item_lines(canonical: CanonicalResult) -> Iterable[Segment]:
    for title, member in (("Work item", "id"), ("Objective", "objective"), ("State", "state"), ("Owner", "owner")):
        yield from member_line(canonical, title, f"/result/work_item/{member}")
    for title, member in (("Blocks", "blocks"), ("Blocked by", "blocked_by")):
        found = RecordedObject(canonical.result).member("work_item").strings(member)
        for index, number in enumerate(found):
            yield line_break()
            yield label(f"{title}: ")
            yield text_value(number, f"/result/work_item/{member}/{index}")
    yield from text_block(canonical, "/result/work_item/description", "Description")


def todo_line(item: JsonValue, pointer: str) -> Iterable[Segment]:
    yield from _stated(RecordedObject(item).text("state"), pointer)
    yield text_value(RecordedObject(item).text("text") or "", f"{pointer}/text")


def _item_line(item: JsonValue, pointer: str) -> Iterable[Segment]:
    found = RecordedObject(item)
    if number := found.text("id"):
        yield label("#")
        yield text_value(number, f"{pointer}/id")
        yield label(" ")
    yield from _stated(found.text("state"), pointer)
    if objective := found.text("objective"):
        yield text_value(objective, f"{pointer}/objective")
    if owner := found.text("owner"):
        yield label(", owner ")
        yield text_value(owner, f"{pointer}/owner")


def _stated(state: str | None, pointer: str) -> Iterable[Segment]:
    if state:
        yield label("[")
        yield text_value(state, f"{pointer}/state")
        yield label("] ")


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    TodoList: _todo_list,
    WorkItem: _work_item,
    WorkItems: _work_items,
    WorkItemUpdate: _update,
}
