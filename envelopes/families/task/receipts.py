"""The task family's receipts: the outcome first, then the lines that the next call needs (RFC-046, RFC-128)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.fitting import fit
from envelopes.families.indented_values import with_indented_values
from envelopes.families.json_outputs import JSON_LAID_OUT, LAID_OUT, lay_out_output
from envelopes.families.segments import (
    artifact_lines,
    error_receipt,
    headline,
    item_lines,
    label,
    line_break,
    marked_values,
    member_line,
    member_lines,
    output_block,
    phrase,
    text_block,
    text_value,
    value,
    with_ways_to_read,
)
from envelopes.families.task.results import NO_ID, NO_STATUS, count_tasks, fit_verb, verdict
from envelopes.families.task.tools import TOOLS
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue

ERROR_DETAILS = (("Field", "field"), ("Task", "task_id"), ("Status", "status"))
# The first line of each receipt has the task's id and its status.
TASK_LINES = (
    ("Kind", "kind"),
    ("Exit status", "exit_status"),
    ("Exit status", "command/exit_status"),
)
ENDED = frozenset({"completed", "failed", "cancelled", "interrupted"})
STATE_LINES = (
    ("Input goes to", "command/input_target"),
    ("Child agent", "child_agent_id"),
    ("Phase", "child_observability/phase"),
    ("Waiting for", "child_observability/waiting_reason"),
    ("Blocked by", "child_observability/blocked_reason"),
    ("Updated", "updated_at"),
)
WORKTREE_LINES = (("Worktree", "worktree/path"), ("Branch", "worktree/branch"), ("Worktree was", "cleanup_status"))
_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = {"task": ("task_id", NO_ID), "status": ("status", NO_STATUS)}


def receipt(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    if canonical.error is not None:
        return fit(error_receipt(canonical, ERROR_DETAILS, tools=TOOLS), policy, tail=artifact_lines(canonical, policy))
    body = list(_body(canonical, policy))
    # The artifacts follow one blank line, whether or not the output ended its last line itself.
    last = list(artifact_lines(canonical, policy))
    is_open = last and not body[-1].text.endswith("\n")
    whole = fit(body, policy, tail=(*([line_break()] if is_open else []), *last))
    return with_ways_to_read(whole, canonical, policy)


@with_indented_values
def _body(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    match canonical.result:
        case {"tasks": list()}:
            return _list(canonical)
        case {"accepted_input": bool()}:
            return _input(canonical)
        case {"stop_requested": True}:
            return _stop(canonical)
        case {"task": {"output_preview": str()}}:
            return _output(canonical, policy)
        case {"task": dict()}:
            return _state(canonical)
    return [headline(canonical.summary_text), *text_block(canonical, "/result/text")]


def _list(canonical: CanonicalResult) -> Iterable[Segment]:
    result = RecordedObject(canonical.result)
    number = len(result.items("tasks")) + (result.integer("tasks_omitted") or 0)
    yield headline(count_tasks(number), "/result/tasks")
    yield from item_lines(canonical, "/result/tasks", _row)


def _row(item: JsonValue, pointer: str) -> Iterable[Segment]:
    task = RecordedObject(item)
    yield text_value(task.text("id") or "", f"{pointer}/id")
    yield from marked_values(task, pointer, ((" [", "kind"), ("] ", "status"), (": ", "summary")))


def _output(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    retrieval = RecordedObject(canonical.result).text("retrieval_status")
    pointer = "/result/task" if retrieval is None else "/result/retrieval_status"
    yield from _sentence(canonical, verdict(retrieval), pointer)
    yield from _task_lines(canonical)
    yield from member_lines(canonical, WORKTREE_LINES, "/result/task/child_supervision")
    yield from _failure(canonical)
    yield from text_block(canonical, "/result/task/failure", "Failure")
    task = RecordedObject(canonical.result).member("task")
    yield from _output_text(canonical, task, policy)
    if not (task.text("output_preview") or "").strip() and task.text("status") in ENDED:
        yield line_break()
        yield label("Output: (none)")
    if retrieval in ("timeout", "not_ready") and task.text("task_id"):
        yield from phrase(canonical, "\nWait on: TaskOutput {task_id}; end: TaskStop {task_id}", "/result/task")
    yield from text_block(canonical, "/result/task/result_summary", "Result")


def _output_text(canonical: CanonicalResult, task: RecordedObject, policy: RenderPolicy) -> Iterable[Segment]:
    """The output; JSON on one line is laid out where that takes no more than half of the receipt (RFC-102)."""
    pointer = "/result/task/output_preview"
    if task.text("output_layout") == LAID_OUT:
        return text_block(canonical, pointer, f"Output{JSON_LAID_OUT}")
    text = task.text("output_preview") or ""
    laid_out = lay_out_output(text)
    if laid_out is None or laid_out == text.strip() or len(laid_out) > policy.characters // 2:
        return output_block(canonical, pointer, "Output")
    document = Segment(laid_out, "preview", SegmentSource("canonical", pointer))
    return [line_break(2), label(f"Output{JSON_LAID_OUT}:\n"), document]


def _failure(canonical: CanonicalResult) -> Iterable[Segment]:
    pointer = "/result/task/failure_artifact"
    if RecordedObject(canonical.result).member("task").member("failure_artifact").text("summary") is None:
        return
    yield from phrase(canonical, "\nFailure: {summary}", pointer)
    yield from member_lines(canonical, (("Failure kind", "kind"), ("Failure category", "category")), pointer)
    yield from item_lines(canonical, f"{pointer}/source_chain", _cause)


def _cause(cause: JsonValue, pointer: str) -> Iterable[Segment]:
    yield label("Caused by: ")
    yield text_value(str(cause), pointer)


def _state(canonical: CanonicalResult) -> Iterable[Segment]:
    yield from _sentence(canonical, "Task {task} is {status}", "/result/task")
    yield from _task_lines(canonical)
    yield from member_lines(canonical, STATE_LINES, "/result/task")
    yield from text_block(canonical, "/result/task/child_observability/last_progress", "Progress")
    yield from text_block(canonical, "/result/task/child_observability/last_result", "Report")


def _input(canonical: CanonicalResult) -> Iterable[Segment]:
    result = RecordedObject(canonical.result)
    if result.flag("accepted_input"):
        yield from _sentence(canonical, "Input delivered to task {task}", "/result/accepted_input")
        if (number := result.integer("bytes_written")) is not None:
            yield from phrase(canonical, " ({bytes_written} byte)" if number == 1 else " ({bytes_written} bytes)")
    else:
        if result.text("refusal"):
            is_named = (result.member("task").text("task_id") or "") in (result.text("refusal") or "")
            words = "Input not accepted: " if is_named else "Input not accepted by task {task}: "
            yield from _sentence(canonical, words, "/result/accepted_input")
            yield value(canonical, "/result/refusal")
        else:
            yield from _sentence(canonical, "Input not accepted: task {task} is {status}", "/result/task")
    yield from member_line(canonical, "Target", "/result/input_target")
    yield from _task_lines(canonical)


def _stop(canonical: CanonicalResult) -> Iterable[Segment]:
    result = RecordedObject(canonical.result)
    force = result.flag("force_stop_requested")
    words = "Force stop requested for task {task}" if force else "Stop requested for task {task}"
    if result.member("task").text("status") == "cancelled":
        words = "Task {task} cancelled"
    yield from _sentence(canonical, words, "/result/stop_requested")
    yield from _task_lines(canonical)
    if result.member("task").text("status") == "cancelling":
        end = "" if force else "; a second TaskStop {task_id} forces it"
        yield from phrase(canonical, f"\nWait for its end: TaskOutput {{task_id}}{end}", "/result/task")
    if force is None:  # a foreign agent's: nothing but the command says what was stopped
        yield from member_line(canonical, "Command", "/result/task/command/cmd")
    yield from text_block(canonical, "/result/message")


def _task_lines(canonical: CanonicalResult) -> Iterable[Segment]:
    yield from member_lines(canonical, TASK_LINES, "/result/task")
    accepts_input = RecordedObject(canonical.result).member("task").member("command").flag("accepts_input")
    if accepts_input is not None:
        yield line_break()
        yield label("Accepts input: ")
        yield value(canonical, "/result/task/command/accepts_input", "yes" if accepts_input else "no")
    yield from member_line(canonical, "Summary", "/result/task/summary")


def _sentence(canonical: CanonicalResult, words: str, pointer: str) -> Iterable[Segment]:
    """`words` as a headline, with the task's id and status in place of {task} and {status}."""
    task = RecordedObject(canonical.result).member("task")
    for index, part in enumerate(_FIELD.split(fit_verb(words, task.text("status")))):
        if index % 2:
            name, missing = _FIELDS[part]
            yield value(canonical, f"/result/task/{name}") if task.text(name) else label(missing)
        elif part:
            yield headline(part, pointer)
