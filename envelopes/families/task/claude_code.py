"""Claude Code's TaskOutput and TaskStop, under all their names: what it recorded, and how it printed it."""

from __future__ import annotations

import re
from functools import partial

from envelopes.alignment.json_spans import match_json
from envelopes.alignment.lenient_structs import (
    RecordedObject,
    link_groups,
    link_names,
    read_struct,
    reading,
    tool_mapping,
)
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.source_cuts import find_source_cuts
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.families.task.results import TaskRead, TaskStopped, read_outcome

_mapping = partial(tool_mapping, agent="claude-code")
TASK_NAMES = {
    "task_id": "task_id",
    "task_type": "kind",
    "status": "status",
    "description": "summary",
    "exitCode": "exit_status",
    "output": "output",
    "result": "result_summary",
    "error": "failure",
}


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


def _read_output(evidence: Evidence, recorded: RecordedObject) -> Reading:
    task = recorded.member("task")
    is_repeated = task.text("result") == (task.text("output") or "")
    result = read_struct(
        TaskRead,
        task,
        TASK_NAMES,
        retrieval_status=recorded.text("retrieval_status"),
        result_summary=None if is_repeated else task.text("result"),
    )
    links = {
        "/retrieval_status": "/result/retrieval_status",
        **link_names(TASK_NAMES, "/task", "/result/task"),
        "/task/output": "/result/task/output_preview",
        "/task/result": f"/result/task/{'output_preview' if is_repeated else 'result_summary'}",
    }
    return reading(
        evidence,
        result,
        read_outcome(result),
        links=links,
        outputs=(OutputField("/task/output"),),
        source_cuts=find_source_cuts(task.text("output") or "", "/task/output", "task"),
    )


def _align_output(recorded: RecordedObject, text: str) -> list[Span]:
    """Links the tags before the output, which are the runtime's; tags inside the output are the task's."""
    head_end = min((at for tag in ("output", "error") if (at := text.find(f"<{tag}>\n")) >= 0), default=len(text))
    head, task = text[:head_end], recorded.member("task")
    spans = link_groups(_RETRIEVAL.match(head), recorded)
    for tag in _TASK_TAGS:
        spans += link_groups(tag.search(head), task, "/task")
    return [*spans, *_align_texts(task, text, head_end)]


def _align_texts(task: RecordedObject, text: str, at: int) -> list[Span]:
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


def _read_stop(evidence: Evidence, recorded: RecordedObject) -> Reading:
    result = TaskStopped(
        task_id=recorded.text("task_id") or recorded.text("shell_id"),
        kind=recorded.text("task_type"),
        command=recorded.text("command"),
        message=recorded.text("message"),
    )
    links = {
        "/task_id": "/result/task/task_id",
        "/shell_id": "/result/task/task_id",
        "/task_type": "/result/task/kind",
        "/command": "/result/task/command/cmd",
        "/message": "/result/message",
    }
    return reading(evidence, result, f"Stop requested for task {result.task_id or '(no id)'}", links=links)


def _align_stop(recorded: RecordedObject, text: str) -> list[Span]:
    return match_json(text, recorded.recorded, "") or match_excerpt(text, recorded.text("message") or "", "/message")


MAPPINGS = (
    _mapping(
        tools=("TaskOutput", "AgentOutputTool"), version=3, expects=("task",), read=_read_output, align=_align_output
    ),
    _mapping(
        tools=("TaskStop", "KillShell", "KillBash"),
        version=2,
        expects=("message", "task_id", "shell_id"),
        read=_read_stop,
        align=_align_stop,
    ),
)
