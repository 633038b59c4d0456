"""The task family's receipts: the outcome first, then the lines that the next call needs (RFC-046, RFC-128)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import (
    artifact_lines,
    error_receipt,
    headline,
    item_lines,
    label,
    line_break,
    member_line,
    text_block,
    text_value,
    value,
)
from envelopes.families.task.results import NO_ID, NO_STATUS, counted, verdict
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.fit_receipt import fit

DETAILS = (("Field", "field"), ("Task", "task_id"), ("Status", "status"))
_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = {"task": ("/result/task/task_id", NO_ID), "status": ("/result/task/status", NO_STATUS)}


def receipt(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    if canonical.error is not None:
        error = error_receipt(canonical, DETAILS)
        return fit(error, policy, tail=artifact_lines(canonical))
    body = list(_body(canonical))
    return fit(body, policy, tail=_artifacts(canonical, is_ended=body[-1].text.endswith("\n")))


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    match canonical.result:
        case {"tasks": list()}:
            return _list(canonical)
        case {"accepted_input": bool()}:
            return _input(canonical)
        case {"stop_requested": True}:
            return _stop(canonical)
        case {"task": {"output_preview": str()}}:
            return _output(canonical)
        case {"task": dict()}:
            return _state(canonical)
    return _text(canonical)


def _artifacts(canonical: CanonicalResult, *, is_ended: bool) -> Iterator[Segment]:
    """After one blank line, whether or not the output ended its last line itself."""
    if canonical.artifacts:
        if not is_ended:
            yield line_break()
        yield from artifact_lines(canonical)


def _list(canonical: CanonicalResult) -> Iterator[Segment]:
    found = RecordedObject(canonical.result)
    number = len(found.items("tasks")) + (found.integer("tasks_omitted") or 0)
    yield headline(counted(number), "/result/tasks")
    yield from item_lines(canonical, "/result/tasks", _row)


def _row(task: JsonValue, pointer: str) -> Iterator[Segment]:
    found = RecordedObject(task)
    yield text_value(found.text("id") or "", f"{pointer}/id")
    for mark, member in ((" [", "kind"), ("] ", "status"), (": ", "summary")):
        if text := found.text(member):
            yield label(mark)
            yield text_value(text, f"{pointer}/{member}")


def _output(canonical: CanonicalResult) -> Iterator[Segment]:
    retrieval = RecordedObject(canonical.result).text("retrieval_status")
    said_at = "/result/task" if retrieval is None else "/result/retrieval_status"
    yield from _sentence(canonical, verdict(retrieval), said_at)
    yield from member_line(canonical, "Retrieval", "/result/retrieval_status")
    yield from _task_lines(canonical)
    yield from _failure(canonical)
    yield from text_block(canonical, "/result/task/failure", "Failure")
    yield from text_block(canonical, "/result/task/output_preview", "Output")
    yield from text_block(canonical, "/result/task/result_summary", "Result")


def _failure(canonical: CanonicalResult) -> Iterator[Segment]:
    at = "/result/task/failure_artifact"
    found = RecordedObject(canonical.result).member("task").member("failure_artifact")
    if found.text("summary") is None:
        return
    yield line_break()
    yield label("Failure: ")
    yield value(canonical, f"{at}/summary")
    for title, member in (("Failure kind", "kind"), ("Failure category", "category")):
        yield from member_line(canonical, title, f"{at}/{member}")
    yield from item_lines(canonical, f"{at}/source_chain", _cause)


def _cause(cause: JsonValue, pointer: str) -> Iterator[Segment]:
    yield label("Caused by: ")
    yield text_value(str(cause), pointer)


def _state(canonical: CanonicalResult) -> Iterator[Segment]:
    yield from _sentence(canonical, "Task {task} is {status}", "/result/task")
    yield from _task_lines(canonical)
    yield from member_line(canonical, "Input goes to", "/result/task/command/input_target")
    yield from member_line(canonical, "Child agent", "/result/task/child_agent_id")
    for title, member in (("Phase", "phase"), ("Waiting for", "waiting_reason"), ("Blocked by", "blocked_reason")):
        yield from member_line(canonical, title, f"/result/task/child_observability/{member}")
    yield from member_line(canonical, "Updated", "/result/task/updated_at")
    yield from text_block(canonical, "/result/task/child_observability/last_progress", "Progress")
    yield from text_block(canonical, "/result/task/child_observability/last_result", "Report")


def _input(canonical: CanonicalResult) -> Iterator[Segment]:
    found = RecordedObject(canonical.result)
    if found.flag("accepted_input"):
        yield from _sentence(canonical, "Input delivered to task {task}", "/result/accepted_input")
        yield from _written(canonical, found.integer("bytes_written"))
    else:
        yield headline("Input not accepted: ", "/result/accepted_input")
        yield from _refusal(canonical, found.text("refusal"))
    yield from member_line(canonical, "Target", "/result/input_target")
    yield from _task_lines(canonical)


def _written(canonical: CanonicalResult, number: int | None) -> Iterator[Segment]:
    if number is not None:
        yield label(" (")
        yield value(canonical, "/result/bytes_written")
        yield label(" byte)" if number == 1 else " bytes)")


def _refusal(canonical: CanonicalResult, refusal: str | None) -> Iterable[Segment]:
    if refusal:
        return [value(canonical, "/result/refusal")]
    return _sentence(canonical, "task {task} is {status}", "/result/task")


def _stop(canonical: CanonicalResult) -> Iterator[Segment]:
    found = RecordedObject(canonical.result)
    force = found.flag("force_stop_requested")
    words = "Force stop requested for task {task}" if force else "Stop requested for task {task}"
    if found.member("task").text("status") == "cancelled":
        words = "Task {task} cancelled"
    yield from _sentence(canonical, words, "/result/stop_requested")
    yield from _task_lines(canonical)
    if force is None:  # a foreign agent's: nothing but the command says what was stopped
        yield from member_line(canonical, "Command", "/result/task/command/cmd")
    yield from text_block(canonical, "/result/message")


def _text(canonical: CanonicalResult) -> Iterator[Segment]:
    yield headline(canonical.summary_text)
    yield from text_block(canonical, "/result/text")


def _task_lines(canonical: CanonicalResult) -> Iterator[Segment]:
    for title, member in (
        ("Task", "task_id"),
        ("Kind", "kind"),
        ("Status", "status"),
        ("Exit status", "exit_status"),
        ("Exit status", "command/exit_status"),
    ):
        yield from member_line(canonical, title, f"/result/task/{member}")
    accepts_input = RecordedObject(canonical.result).member("task").member("command").flag("accepts_input")
    if accepts_input is not None:
        yield line_break()
        yield label("Accepts input: ")
        yield value(canonical, "/result/task/command/accepts_input", "yes" if accepts_input else "no")
    yield from member_line(canonical, "Summary", "/result/task/summary")


def _sentence(canonical: CanonicalResult, words: str, pointer: str) -> Iterator[Segment]:
    """`words`, with {task} and {status} in the very characters of their fields."""
    for index, piece in enumerate(_FIELD.split(words)):
        if index % 2 == 0:
            if piece:
                yield headline(piece, pointer)
            continue
        at, missing = _FIELDS[piece]
        name = at.rpartition("/")[2]
        said = RecordedObject(canonical.result).member("task").text(name)
        yield value(canonical, at) if said else label(missing)
