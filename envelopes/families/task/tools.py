"""The definitions of TaskList, TaskStatus, TaskOutput, TaskInput and TaskStop."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from envelopes.families.task.results import ActiveTasks, InputOffered, StopRequested, TaskRead, TaskState
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

# Names that tasks have elsewhere, and fields of their results: the message of a refusal names the right one.
MISNAMED = {"id": "task_id", "shell_id": "task_id", "bash_id": "task_id", "timeout": "timeout_ms"}
RESULT_ONLY = ("task", "status", "kind", "exit_status", "retrieval_status", "output_preview", "task_handle")
HINT = 'give the task_id that a task handle or TaskList shows, for example {"task_id": "task_7"}'


class TaskListInput(ToolInput, frozen=True):
    """No members."""


class TaskStatusInput(ToolInput, frozen=True):
    trimmed: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: NonEmpty


class TaskOutputInput(ToolInput, frozen=True):
    """`timeout_ms` counts only while `block` is true."""

    trimmed: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: NonEmpty
    block: bool | None = True
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = 30_000


class TaskInputInput(ToolInput, frozen=True):
    """`input` is written as it stands: not trimmed, and it may be empty."""

    trimmed: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: NonEmpty
    input: str


class TaskStopInput(ToolInput, frozen=True):
    trimmed: ClassVar[tuple[str, ...]] = ("task_id",)

    task_id: NonEmpty


TOOLS = (
    ToolDefinition(
        name="TaskList",
        capability="core_agent",
        planes=("task_control",),
        risk="read-only",
        description=(
            "List the active tasks of this agent: id, kind, status and summary of each, at most 50. "
            "Takes no input. Tasks that have ended are not listed; read one of those by its id with TaskOutput."
        ),
        input=TaskListInput,
        result=(ActiveTasks,),
        result_only=("tasks",),
        hint="call TaskList with an empty object: {}",
        examples=({},),
        counter_examples=({"status": "running"}, {"tasks": []}),
    ),
    ToolDefinition(
        name="TaskStatus",
        capability="core_agent",
        planes=("task_control",),
        risk="read-only",
        description=(
            "Read how one task stands, by `task_id`: kind, status, exit status, whether it accepts input, summary. "
            "Returns at once and never holds output; use TaskOutput for what the task wrote."
        ),
        input=TaskStatusInput,
        result=(TaskState,),
        error_kinds=("unknown_task",),
        result_only=RESULT_ONLY,
        misnamed=MISNAMED,
        hint=HINT,
        examples=({"task_id": "task_7"},),
        counter_examples=({}, {"task_id": " "}, {"id": "task_7"}, {"task_id": "task_7", "status": "running"}),
    ),
    ToolDefinition(
        name="TaskOutput",
        capability="core_agent",
        planes=("task_control",),
        risk="read-only",
        description=(
            "Read what a task has written, by `task_id`: a preview of its head and tail, and the path of the whole. "
            "With `block` (the default) it waits until the task ends or `timeout_ms` (default 30000) is over. "
            "A wait that runs out is no error: retrieval_status is then timeout, and not_ready without `block`."
        ),
        input=TaskOutputInput,
        result=(TaskRead,),
        error_kinds=("unknown_task",),
        result_only=RESULT_ONLY,
        misnamed=MISNAMED,
        hint=HINT,
        examples=({"task_id": "task_7"}, {"task_id": "task_7", "block": False}, {"task_id": "t", "timeout_ms": 0}),
        counter_examples=({"block": True}, {"task_id": "task_7", "timeout_ms": -1}, {"task_id": "t", "timeout": 5}),
    ),
    ToolDefinition(
        name="TaskInput",
        capability="core_agent",
        planes=("task_control",),
        risk="commands",
        effects=("send-input",),
        description=(
            "Send `input` to a running task that accepts input, by `task_id`. The text is written as it stands: "
            "end a line with a newline yourself. A task that takes no input refuses it, and the result says why."
        ),
        input=TaskInputInput,
        result=(InputOffered,),
        error_kinds=("unknown_task",),
        is_mutation=True,
        result_only=(*RESULT_ONLY, "accepted_input", "input_target", "bytes_written"),
        misnamed={**MISNAMED, "text": "input", "stdin": "input"},
        hint='give the task_id and the text to send, for example {"task_id": "task_7", "input": "yes\\n"}',
        examples=({"task_id": "task_7", "input": "yes\n"}, {"task_id": "task_7", "input": ""}),
        counter_examples=({"task_id": "task_7"}, {"task_id": "task_7", "input": None}, {"task_id": "t", "text": "y"}),
    ),
    ToolDefinition(
        name="TaskStop",
        capability="core_agent",
        planes=("task_control",),
        risk="commands",
        open_world=False,
        effects=("stop-task",),
        description=(
            "Stop a running task, by `task_id`. A command is first asked to end; a second TaskStop for the same "
            "task forces it. Other kinds of tasks are cancelled at once. Stopping a task that has ended is an error."
        ),
        input=TaskStopInput,
        result=(StopRequested,),
        error_kinds=("unknown_task", "task_not_running"),
        is_mutation=True,
        result_only=(*RESULT_ONLY, "stop_requested", "force_stop_requested"),
        misnamed=MISNAMED,
        hint=HINT,
        examples=({"task_id": "task_7"},),
        counter_examples=({}, {"task_id": ""}, {"shell_id": "b7"}, {"task_id": "task_7", "force_stop_requested": True}),
    ),
)
