"""The receipts of work-item tools: the outcome and the item, then the fields that the next call needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.indented_values import with_indented_values
from envelopes.families.segments import (
    headline,
    indented,
    item_lines,
    item_phrase,
    label,
    line_break,
    marked_values,
    member_line,
    member_lines,
    omitted_line,
    phrase,
    preview,
    receipt_renderer,
    text_block,
    text_value,
    value,
)
from envelopes.families.work_item.tools import TOOLS
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue

ERROR_DETAILS = (("Field", "field"), ("Work item", "work_item_id"))
COMPLETED = {True: "Work item completed: ", False: "Work item was complete already: "}
ITEM_LINES = (("Work item", "id"), ("Objective", "objective"), ("State", "state"), ("Owner", "owner"))


@with_indented_values
def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    """Claude Code has other tools in this family; a result that is not of ours is worded from its summary."""
    result = RecordedObject(canonical.result)
    is_ours = result.member("work_item").has_any(("focus",)) or result.has_any(("current_work_item", "total_matching"))
    return _BODIES[canonical.tool_name](canonical, result) if is_ours else _recorded(canonical)


def _recorded(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    yield from item_lines(canonical, "/result/todo_list", _todo)
    yield from item_lines(canonical, "/result/work_items", _recorded_item)
    yield from member_lines(canonical, (("Was", "previous_state"), ("State", "state")))
    yield from text_block(canonical, "/result/reason")
    yield from member_lines(canonical, ITEM_LINES, "/result/work_item")
    for title, member in (("Blocks", "blocks"), ("Blocked by", "blocked_by")):
        numbers = RecordedObject(canonical.result).member("work_item").strings(member)
        for index, number in enumerate(numbers):
            yield line_break()
            yield label(f"{title}: ")
            yield text_value(number, f"/result/work_item/{member}/{index}")
    yield from text_block(canonical, "/result/work_item/description", "Description")
    yield from text_block(canonical, "/result/text")


def _todo(item: JsonValue, pointer: str) -> Iterable[Segment]:
    todo = RecordedObject(item)
    return item_phrase(todo, pointer, "[{state}] {text}" if todo.text("state") else "{text}")


def _recorded_item(item: JsonValue, pointer: str) -> Iterable[Segment]:
    work_item = RecordedObject(item)
    for name, words in (("id", "#{id} "), ("state", "[{state}] ")):
        if work_item.text(name):
            yield from item_phrase(work_item, pointer, words)
    yield from marked_values(work_item, pointer, (("", "objective"), (", owner ", "owner")))


def _created(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item created: ", result, "work_item")
    yield from _item(canonical, "work_item", has_objective=False)
    yield from _steps(canonical, result)
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _updated(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item updated: ", result, "work_item")
    for index, name in enumerate(result.strings("changed_fields")):
        yield line_break() if index == 0 else label(", ")
        yield from [label("Changed: ")] if index == 0 else []
        yield text_value(name, f"/result/changed_fields/{index}")
    yield from omitted_line(canonical, "/result/changed_fields")
    yield from _item(canonical, "work_item", has_objective="objective" not in result.strings("changed_fields"))
    yield from _steps(canonical, result)
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _completed(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome(COMPLETED[result.flag("completed_transition") is not False], result, "work_item")
    yield from _free_text(result.member("work_item"), "Objective", "/result/work_item/objective")
    if result.member("work_item").member("completion_report").text("source") == "assistant_text":
        yield line_break()
        yield value(canonical, "/result/work_item/completion_report/source", "Report: the text beside this call")
    yield from item_lines(canonical, "/result/warnings", _unfinished)


def _picked(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Now working on ", result, "current_work_item")
    if result.member("previous_work_item").text("id"):
        yield from phrase(canonical, " (was {previous_work_item/id})")
    yield from _item(canonical, "current_work_item")
    if result.member("transition").text("current_focus_mode") == "inspection":
        yield line_break()
        words = "For inspection only."
        yield value(canonical, "/result/transition/current_focus_mode", words)
    yield from item_lines(canonical, "/result/transition/warnings", _focus_warning)
    yield from _free_text(result, "Note", "/result/binding_note")


def _got(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    yield from _outcome("Work item ", result, "work_item")
    yield from _item(canonical, "work_item")
    yield from member_line(canonical, "Current work item", "/result/context/current_work_item_id")
    yield from item_lines(canonical, "/result/work_item/active_wait_conditions", _wait)
    yield from item_lines(canonical, "/result/work_item/todo_list", _todo)
    for part, name, title in (("plan_artifact", "preview", "Plan text"), ("completion_report", "text", "Report")):
        if (result.member("work_item").member(part).text(name) or "").strip():
            yield line_break(2)
            yield label(f"{title}:\n")
            yield preview(canonical, f"/result/work_item/{part}/{name}")


def _listed(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    """The range of the items, the items, and the cursor of the next call."""
    total, rows = result.integer("total_matching") or 0, result.items("work_items")
    first = (result.integer("skipped") or 0) + 1
    if not rows:
        words = f"None of {total} work items is behind the last" if total else "No work items"
        yield headline(words, "/result/total_matching")
        return
    last = first + len(rows) - 1
    items = f"Item {first}" if first == last else f"Items {first}–{last}"
    yield headline(f"{items} of {total}", "/result/total_matching")
    if last < total:
        yield label("; next: after=")
        yield text_value(rows[-1].text("id") or "", f"/result/work_items/{len(rows) - 1}/id")
    yield from member_line(canonical, "Current work item", "/result/context/current_work_item_id")
    for index, item in enumerate(result.elements("work_items")):
        yield line_break()
        yield from _row(item, f"/result/work_items/{index}")


def _outcome(words: str, result: RecordedObject, member: str) -> Iterable[Segment]:
    """The outcome and the id, which the next call needs."""
    yield label(words)
    yield text_value(result.member(member).text("id") or "", f"/result/{member}/id", role="headline")


def _item(canonical: CanonicalResult, member: str, *, has_objective: bool = True) -> Iterable[Segment]:
    """Without the objective where the call has just written it."""
    item, pointer = RecordedObject(canonical.result).member(member), f"/result/{member}"
    if has_objective:
        yield from _free_text(item, "Objective", f"{pointer}/objective")
    yield line_break()
    yield label("State: ")
    yield from _states(item, pointer)
    yield from member_lines(canonical, (("Plan", "plan_artifact/path"), ("Plan status", "plan_status")), pointer)
    yield from _free_text(item, "Blocked by", f"{pointer}/blocked_by")
    yield from member_line(canonical, "Recheck at", f"{pointer}/recheck_at")


def _free_text(holder: RecordedObject, title: str, pointer: str) -> Iterable[Segment]:
    """A text that somebody wrote freely; its further lines are indented."""
    if text := holder.text(pointer.rpartition("/")[2]):
        yield line_break()
        yield label(f"{title}: ")
        yield from indented(text, pointer, "  ")


def _steps(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    """The number of todos alone: the model has just written them."""
    item = result.member("work_item")
    if item.get("todo_list") is not None:
        count = len(item.items("todo_list")) + (item.integer("todo_list_omitted") or 0)
        yield line_break()
        yield label("Todo list: ")
        yield value(canonical, "/result/work_item/todo_list", f"{count} {'step' if count == 1 else 'steps'}")


def _states(item: RecordedObject, pointer: str) -> Iterable[Segment]:
    """`open, current, runnable`; each word once, so a completed item is `completed`."""
    words: list[str] = []
    for name in ("state", "focus", "readiness"):
        text = item.text(name)
        if text and text not in words:
            yield from [label(", ")] if words else []
            yield text_value(text, f"{pointer}/{name}")
            words.append(text)


def _unfinished(item: JsonValue, pointer: str) -> Iterable[Segment]:
    warning = RecordedObject(item)
    words = "Warning: unfinished todos, {pending_count} pending and {in_progress_count} in progress"
    yield from item_phrase(warning, pointer, words)
    for index, text in enumerate(warning.strings("sample")):
        yield line_break()
        yield label("- ")
        yield from indented(text, f"{pointer}/sample/{index}", "  ")


def _focus_warning(item: JsonValue, pointer: str) -> Iterable[Segment]:
    warning = RecordedObject(item)
    yield label("Warning: ")
    yield from indented(warning.text("message") or "", f"{pointer}/message", "  ")


def _wait(item: JsonValue, pointer: str) -> Iterable[Segment]:
    wait = RecordedObject(item)
    yield from item_phrase(wait, pointer, "Waiting: {id} ({kind}) ")
    yield from indented(wait.text("waiting_for") or "", f"{pointer}/waiting_for", "  ")


def _row(item: JsonValue, pointer: str) -> Iterable[Segment]:
    view = RecordedObject(item)
    yield from item_phrase(view, pointer, "- {id} [")
    yield from _states(view, pointer)
    yield label("] ")
    yield from indented(view.text("objective") or "", f"{pointer}/objective", "  ")
    for index, todo in enumerate(view.elements("todo_list")):
        yield line_break()
        yield label("  ")
        yield from _todo(todo, f"{pointer}/todo_list/{index}")
    if omitted := view.integer("todo_list_omitted"):
        yield line_break()
        yield Segment(f"  [{omitted} more todos]", "marker", SegmentSource("canonical", f"{pointer}/todo_list_omitted"))


_BODIES: dict[str, Callable[[CanonicalResult, RecordedObject], Iterable[Segment]]] = {
    "CreateWorkItem": _created,
    "UpdateWorkItem": _updated,
    "CompleteWorkItem": _completed,
    "PickWorkItem": _picked,
    "GetWorkItem": _got,
    "ListWorkItems": _listed,
}

receipt = receipt_renderer(_body, details=ERROR_DETAILS, tools=TOOLS)
