"""What the model reads of our own work-item tools: what became of which item, then what it needs next."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import (
    indented,
    item_lines,
    label,
    line_break,
    member_line,
    omitted_line,
    preview,
    receipt_renderer,
    text_value,
    value,
)
from envelopes.families.work_item.results import body as recorded
from envelopes.families.work_item.results import todo_line
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue

ERROR_DETAILS = (("Field", "field"), ("Work item", "work_item_id"))
_COMPLETED = {True: "Work item completed: ", False: "Work item was complete already: "}


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    """Claude Code has other tools in this family; what is not one of ours is worded from its summary."""
    result = RecordedObject(canonical.result)
    ours = result.member("work_item").has_any(("focus",)) or result.has_any(("current_work_item", "total_matching"))
    return _BODIES[canonical.tool_name](canonical, result) if ours else recorded(canonical)


def _created(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item created: ", result, "work_item")
    yield from _item(canonical, "work_item")
    yield from _steps(result)
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _updated(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item updated: ", result, "work_item")
    for index, name in enumerate(result.strings("changed_fields")):
        yield line_break() if index == 0 else label(", ")
        yield from [label("Changed: ")] if index == 0 else []
        yield text_value(name, f"/result/changed_fields/{index}")
    yield from omitted_line(canonical, "/result/changed_fields")
    yield from _item(canonical, "work_item")
    yield from _steps(result)
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _completed(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome(_COMPLETED[result.flag("completed_transition") is not False], result, "work_item")
    yield from _told(result.member("work_item"), "Objective", "/result/work_item/objective")
    yield from member_line(canonical, "Report from", "/result/work_item/completion_report/source")
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _picked(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Now working on ", result, "current_work_item")
    if previous := result.member("previous_work_item").text("id"):
        yield label(" (was ")
        yield text_value(previous, "/result/previous_work_item/id")
        yield label(")")
    yield from _item(canonical, "current_work_item")
    yield from member_line(canonical, "Switch", "/result/transition/switch_kind")
    yield from member_line(canonical, "Mode", "/result/transition/current_focus_mode")
    yield from _told(result.member("transition"), "Reason", "/result/transition/reason")
    yield from item_lines(canonical, "/result/transition/warnings", _focus_warning)
    yield from _told(result, "Note", "/result/binding_note")


def _got(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item ", result, "work_item")
    yield from _item(canonical, "work_item")
    yield from member_line(canonical, "Current work item", "/result/context/current_work_item_id")
    yield from item_lines(canonical, "/result/work_item/active_wait_conditions", _wait_line)
    yield from item_lines(canonical, "/result/work_item/todo_list", todo_line)
    item = result.member("work_item")
    yield from _text(canonical, item.member("plan_artifact"), "plan_artifact/preview", "Plan text")
    yield from _text(canonical, item.member("completion_report"), "completion_report/text", "Report")


def _listed(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield value(canonical, "/result/returned")
    yield label(" of ")
    total = result.integer("total_matching")
    yield Segment(str(total), "headline", SegmentSource("canonical", "/result/total_matching"))
    yield label(f" work {'item' if total == 1 else 'items'} (")
    yield value(canonical, "/result/filter")
    yield label(")")
    yield from member_line(canonical, "Current work item", "/result/context/current_work_item_id")
    yield from item_lines(canonical, "/result/work_items", _row)


def _outcome(said: str, result: RecordedObject, member: str) -> Iterable[Segment]:
    """The outcome and the id, which the next call needs."""
    found = result.member(member).text("id") or ""
    yield label(said)
    yield Segment(found, "headline", SegmentSource("canonical", f"/result/{member}/id", 0, len(found)))


def _item(canonical: CanonicalResult, member: str) -> Iterable[Segment]:
    found = RecordedObject(canonical.result).member(member)
    yield from _told(found, "Objective", f"/result/{member}/objective")
    yield line_break()
    yield label("State: ")
    yield from _states(found, f"/result/{member}")
    yield from member_line(canonical, "Plan", f"/result/{member}/plan_artifact/path")
    yield from member_line(canonical, "Plan status", f"/result/{member}/plan_status")
    yield from _told(found, "Blocked by", f"/result/{member}/blocked_by")
    yield from member_line(canonical, "Recheck at", f"/result/{member}/recheck_at")


def _told(holder: RecordedObject, title: str, pointer: str) -> Iterable[Segment]:
    """A text that somebody wrote freely; its further lines are indented."""
    if text := holder.text(pointer.rpartition("/")[2]):
        yield line_break()
        yield label(f"{title}: ")
        yield from indented(text, pointer, "  ")


def _steps(result: RecordedObject) -> Iterable[Segment]:
    """How many there are: the model has just written them."""
    item = result.member("work_item")
    if item.get("todo_list") is not None:
        count = len(item.items("todo_list")) + (item.integer("todo_list_omitted") or 0)
        yield line_break()
        yield label("Todo list: ")
        said = f"{count} {'step' if count == 1 else 'steps'}"
        yield Segment(said, "value", SegmentSource("canonical", "/result/work_item/todo_list"))


def _states(found: RecordedObject, pointer: str) -> Iterable[Segment]:
    """`open, current, runnable`; a completed item says so once."""
    said: list[str] = []
    for name in ("state", "focus", "readiness"):
        text = found.text(name)
        if text and text not in said:
            yield from [label(", ")] if said else []
            yield text_value(text, f"{pointer}/{name}")
            said.append(text)


def _unfinished(item: JsonValue, pointer: str) -> Iterable[Segment]:
    warning = RecordedObject(item)
    yield label("Warning: unfinished todos, ")
    yield Segment(
        str(warning.integer("pending_count")), "value", SegmentSource("canonical", f"{pointer}/pending_count")
    )
    yield label(" pending and ")
    count = str(warning.integer("in_progress_count"))
    yield Segment(count, "value", SegmentSource("canonical", f"{pointer}/in_progress_count"))
    yield label(" in progress")
    for at, text in enumerate(warning.strings("sample")):
        yield line_break()
        yield label("- ")
        yield from indented(text, f"{pointer}/sample/{at}", "  ")


def _focus_warning(item: JsonValue, pointer: str) -> Iterable[Segment]:
    warning = RecordedObject(item)
    yield label("Warning: ")
    yield text_value(warning.text("code") or "", f"{pointer}/code")
    yield label(": ")
    yield from indented(warning.text("message") or "", f"{pointer}/message", "  ")


def _wait_line(item: JsonValue, pointer: str) -> Iterable[Segment]:
    wait = RecordedObject(item)
    yield label("Waiting: ")
    yield text_value(wait.text("id") or "", f"{pointer}/id")
    yield label(" (")
    yield text_value(wait.text("kind") or "", f"{pointer}/kind")
    yield label(") ")
    yield from indented(wait.text("waiting_for") or "", f"{pointer}/waiting_for", "  ")


def _row(item: JsonValue, pointer: str) -> Iterable[Segment]:
    view = RecordedObject(item)
    yield label("- ")
    yield text_value(view.text("id") or "", f"{pointer}/id")
    yield label(" [")
    yield from _states(view, pointer)
    yield label("] ")
    yield from indented(view.text("objective") or "", f"{pointer}/objective", "  ")
    for index, todo in enumerate(view.items("todo_list")):
        yield line_break()
        yield label("  ")
        yield from todo_line(todo.recorded, f"{pointer}/todo_list/{index}")
    if omitted := view.integer("todo_list_omitted"):
        yield line_break()
        yield Segment(f"  [{omitted} more todos]", "marker", SegmentSource("canonical", f"{pointer}/todo_list_omitted"))


def _text(canonical: CanonicalResult, holder: RecordedObject, path: str, title: str) -> Iterable[Segment]:
    """A large text; `holder` is the object that has it."""
    if (holder.text(path.rpartition("/")[2]) or "").strip():
        yield line_break(2)
        yield label(f"{title}:\n")
        yield preview(canonical, f"/result/work_item/{path}")


_BODIES: dict[str, Callable[[CanonicalResult, RecordedObject], Iterable[Segment]]] = {
    "CreateWorkItem": _created,
    "UpdateWorkItem": _updated,
    "CompleteWorkItem": _completed,
    "PickWorkItem": _picked,
    "GetWorkItem": _got,
    "ListWorkItems": _listed,
}

receipt = receipt_renderer(_body, details=ERROR_DETAILS)
