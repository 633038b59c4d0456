"""Tools that look after background tasks: TaskOutput and TaskStop of Claude Code, under all their names.

    TaskRead     what a task has written so far, and how the wait for it ended
    TaskStopped  a task that was asked to stop

A wait that timed out and a task that failed are verdicts inside a success: the reading worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from envelopes.alignment import Span
from envelopes.budget import ProjectionPolicy
from envelopes.excerpts import match_excerpt
from envelopes.families.base import (
    Facet,
    Family,
    Projector,
    ResultMembers,
    bounded,
    headline,
    member_line,
    project_by_type,
    text_block,
)
from envelopes.foreign import Evidence, OutputField, Reading
from envelopes.json_text import match_json
from envelopes.receipt import Segment
from envelopes.recorded import Members, RecordedText, named_spans, reading, typed_tool
from envelopes.result import CanonicalResult, CompleteOutput, JsonValue, ToolError


class TaskRead(msgspec.Struct, frozen=True, kw_only=True):
    """`result_summary` is what the task reported besides its output; None when it is the same text."""

    retrieval_status: str | None = None
    task_id: str | None = None
    kind: str | None = None
    status: str | None = None
    summary: str | None = None
    exit_status: int | None = None
    output: str = ""
    result_summary: str | None = None
    failure: str | None = None


class TaskStopped(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str | None = None
    kind: str | None = None
    command: str | None = None
    message: str | None = None


def _task_read(found: TaskRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    task: dict[str, JsonValue] = {
        "task_id": found.task_id,
        "kind": found.kind,
        "status": found.status,
        "summary": _short(found.summary, projector, policy, "summary"),
        "exit_status": found.exit_status,
        "result_summary": _short(found.result_summary, projector, policy, "result_summary"),
        "failure": _short(found.failure, projector, policy, "failure"),
    }
    shown, artifact = projector.preview("task/output_preview", found.output, policy.preview, role="output")
    task |= {"output_preview": shown, "output_truncated": artifact is not None, "output_artifact": artifact}
    return {
        "retrieval_status": found.retrieval_status,
        "task": {name: member for name, member in task.items() if member is not None},
    }


def _short(text: str | None, projector: Projector, policy: ProjectionPolicy, field: str) -> str | None:
    return None if text is None else projector.preview(f"task/{field}", text, policy.details, role=field)[0]


def _task_stopped(found: TaskStopped, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    task: dict[str, JsonValue] = {
        "task_id": found.task_id,
        "kind": found.kind,
        "command": _short(found.command, projector, policy, "command"),
    }
    message = {} if found.message is None else projector.text("message", found.message, policy.details, role="message")
    return {
        "task": {name: member for name, member in task.items() if member is not None},
        "stop_requested": True,
        **message,
    }


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    yield from member_line(canonical, "Retrieval", "/result/retrieval_status")
    yield from member_line(canonical, "Task", "/result/task/task_id")
    yield from member_line(canonical, "Kind", "/result/task/kind")
    yield from member_line(canonical, "Status", "/result/task/status")
    yield from member_line(canonical, "Exit status", "/result/task/exit_status")
    yield from member_line(canonical, "Summary", "/result/task/summary")
    yield from member_line(canonical, "Command", "/result/task/command")
    yield from text_block(canonical, "/result/message")
    yield from text_block(canonical, "/result/task/failure", "Failure")
    yield from text_block(canonical, "/result/task/output_preview", "Output")
    yield from text_block(canonical, "/result/task/result_summary", "Result")
    yield from text_block(canonical, "/result/text")


def _read_output(evidence: Evidence, recorded: Members) -> Reading:
    task = recorded.member("task")
    output, result = task.text("output") or "", task.text("result")
    found = TaskRead(
        retrieval_status=recorded.text("retrieval_status"),
        task_id=task.text("task_id"),
        kind=task.text("task_type"),
        status=task.text("status"),
        summary=task.text("description"),
        exit_status=task.integer("exitCode"),
        output=output,
        result_summary=None if result == output else result,
        failure=task.text("error"),
    )
    links = {
        "/retrieval_status": "/result/retrieval_status",
        "/task/task_id": "/result/task/task_id",
        "/task/task_type": "/result/task/kind",
        "/task/status": "/result/task/status",
        "/task/description": "/result/task/summary",
        "/task/exitCode": "/result/task/exit_status",
        "/task/output": "/result/task/output_preview",
        "/task/result": "/result/task/" + ("output_preview" if result == output else "result_summary"),
        "/task/error": "/result/task/failure",
    }
    return reading(evidence, found, _output_summary(found), links=links, outputs=(OutputField("/task/output"),))


_VERDICTS = {
    "success": "Task {task} is {status}",
    "timeout": "The wait for task {task} timed out; it is {status}",
    "not_ready": "Task {task} is not ready; it is {status}",
}


def _output_summary(found: TaskRead) -> str:
    verdict = _VERDICTS.get(found.retrieval_status or "", "Task {task} was read; it is {status}")
    return verdict.replace("{task}", found.task_id or "(no id)").replace(
        "{status}", found.status or "in an unknown state"
    )


_TAG = r"<{0}>(?P<{1}>[^<\n]*)</{0}>"
_RETRIEVAL = re.compile(r"\A" + _TAG.format("retrieval_status", "retrieval_status"))
_TASK_TAGS = tuple(
    re.compile(r"^" + _TAG.format(tag, member) + "$", re.MULTILINE)
    for tag, member in (
        ("task_id", "task_id"),
        ("task_type", "task_type"),
        ("status", "status"),
        ("exit_code", "exitCode"),
    )
)
_TEXT_TAGS = (("output", "output"), ("error", "error"))


def _align_output(recorded: Members, text: str) -> list[Span]:
    """Tags in front of the output are the runtime's; tags inside the output are the task's."""
    head_end = min((at for tag, _ in _TEXT_TAGS if (at := text.find(f"<{tag}>\n")) >= 0), default=len(text))
    head, task = text[:head_end], recorded.member("task")
    spans = named_spans(_RETRIEVAL.match(head), recorded)
    for tag in _TASK_TAGS:
        spans += named_spans(tag.search(head), task, "/task")
    return [*spans, *_align_texts(task, text, head_end)]


def _align_texts(task: Members, text: str, at: int) -> list[Span]:
    opening, closing = "<output>\n", "\n</output>"
    end = text.rfind(closing)
    spans: list[Span] = []
    if text.startswith(opening, at) and end >= 0:
        spans = match_excerpt(text, task.text("output") or "", "/task/output", start=at + len(opening), end=end)
        at = end + len(closing)
    start, stop = text.find("<error>\n", at), text.rfind("\n</error>")
    if 0 <= start < stop:
        spans += match_excerpt(text, task.text("error") or "", "/task/error", start=start + 8, end=stop)
    return spans


def _read_stop(evidence: Evidence, recorded: Members) -> Reading:
    found = TaskStopped(
        task_id=recorded.text("task_id") or recorded.text("shell_id"),
        kind=recorded.text("task_type"),
        command=recorded.text("command"),
        message=recorded.text("message"),
    )
    links = {
        "/task_id": "/result/task/task_id",
        "/shell_id": "/result/task/task_id",
        "/task_type": "/result/task/kind",
        "/command": "/result/task/command",
        "/message": "/result/message",
    }
    said = f"Stop requested for task {found.task_id or '(no id)'}"
    return reading(evidence, found, said, links=links)


def _align_stop(recorded: Members, text: str) -> list[Span]:
    return match_json(text, recorded.recorded, "") or match_excerpt(text, recorded.text("message") or "", "/message")


AGENT = "claude-code"

FAMILY = Family(
    name="task",
    title="Background tasks",
    results=(TaskRead, TaskStopped, RecordedText),
    project=project_by_type({TaskRead: _task_read, TaskStopped: _task_stopped}),
    renderers={"receipt": bounded(_body)},
    foreign=(
        typed_tool(
            agent=AGENT,
            tools=("TaskOutput", "AgentOutputTool"),
            version=1,
            expects=("task",),
            read=_read_output,
            align=_align_output,
        ),
        typed_tool(
            agent=AGENT,
            tools=("TaskStop", "KillShell", "KillBash"),
            version=1,
            expects=("message", "task_id", "shell_id"),
            read=_read_stop,
            align=_align_stop,
        ),
    ),
    facets=(
        Facet("Output", "/result/task/output_preview", "terminal"),
        Facet("Result", "/result/task/result_summary", "text"),
        Facet("Text", "/result/text", "text"),
    ),
    samples=(
        CompleteOutput(
            tool_name="TaskOutput",
            status="success",
            summary_text="Task b7636e2 is completed",
            result=TaskRead(
                retrieval_status="success",
                task_id="b7636e2",
                kind="local_bash",
                status="completed",
                summary="Run the tests",
                exit_status=0,
                output="15 tests, 0 failures\n",
            ),
        ),
        CompleteOutput(
            tool_name="TaskOutput",
            status="success",
            summary_text="The wait for task b41 timed out; it is running",
            result=TaskRead(
                retrieval_status="timeout",
                task_id="b41",
                kind="local_bash",
                status="running",
                output="".join(f"step {number} of 2000 done\n" for number in range(2_000)),
            ),
        ),
        CompleteOutput(
            tool_name="TaskOutput",
            status="success",
            summary_text="Task b42 is not ready; it is running",
            result=TaskRead(retrieval_status="not_ready", task_id="b42", status="running"),
        ),
        CompleteOutput(
            tool_name="KillShell",
            status="success",
            summary_text="Stop requested for task b43",
            result=TaskStopped(task_id="b43", message="Successfully killed shell: b43 (npm run dev)"),
        ),
        CompleteOutput(
            tool_name="TaskOutput",
            status="error",
            summary_text="No task found with ID: b44",
            error=ToolError(kind="tool_execution_failed", message="No task found with ID: b44", retryable=False),
        ),
    ),
)
