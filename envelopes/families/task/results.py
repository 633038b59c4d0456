"""Typed results of the task family and the outcome of each in one sentence.

    TaskRead       what a task has written so far, and how the wait for it ended
    TaskStopped    a task that a foreign agent was asked to stop
    ActiveTasks    the tasks of this agent that have not ended
    TaskState      one task as it stands, metadata only
    InputOffered   what a task that reads input was sent, or why it took none
    StopRequested  a task that was asked to stop

A wait that timed out, a refused input and a failed task are verdicts inside a success: the call worked.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from envelopes.schema.follow_up_handles import ChildSupervision
from envelopes.schema.result import JsonValue, ToolError, summarize
from envelopes.text.preview import FileText

TaskStatus: TypeAlias = Literal["queued", "running", "cancelling", "completed", "failed", "cancelled", "interrupted"]
InputTarget: TypeAlias = Literal["stdin", "tty", "child"]
WaitPolicy: TypeAlias = Literal["background"]


class FailureArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task failed, as the runtime classified it. `source_chain` goes from the effect to the cause."""

    category: str
    kind: str
    summary: str
    provider: str | None = None
    model_ref: str | None = None
    status: int | str | None = None
    task_id: str | None = None
    exit_status: int | None = None
    source_chain: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = {}


class TaskRead(msgspec.Struct, frozen=True, kw_only=True):
    """`output` is whole, or stays in its file. `result_summary` is what the task reported besides its output.

    `log_path`: the log that holds the output, as a virtual path; it is referenced whether or not the
    preview is cut. `failure` is a foreign agent's plain text, `failure_artifact` our own record.
    """

    retrieval_status: str | None = None
    task_id: str | None = None
    kind: str | None = None
    status: str | None = None
    summary: str | None = None
    exit_status: int | None = None
    output: str | FileText = ""
    log_path: str | None = None
    result_summary: str | None = None
    failure: str | None = None
    failure_artifact: FailureArtifact | None = None
    child_supervision: ChildSupervision | None = None


class TaskStopped(msgspec.Struct, frozen=True, kw_only=True):
    task_id: str | None = None
    kind: str | None = None
    command: str | None = None
    message: str | None = None


class TaskCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What a command task runs. `cmd_digest` is the sha256 of the whole command text."""

    cmd: str | None = None
    cmd_digest: str | None = None
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = None
    tty: bool | None = None
    output_path: str | None = None
    result_summary: str | None = None
    exit_status: int | None = None
    terminal_reentry: bool | None = None
    promoted_from_exec_command: bool | None = None
    accepts_input: bool | None = None
    input_target: InputTarget | None = None


class ChildObservability(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen of a child agent from outside."""

    phase: str
    waiting_reason: str | None = None
    blocked_reason: str | None = None
    last_progress: str | None = None
    last_result: str | None = None


class TaskDigest(msgspec.Struct, frozen=True, kw_only=True):
    """One row of TaskList. Times are ISO 8601 with zone."""

    id: str
    kind: str
    status: TaskStatus
    summary: str | None = None
    updated_at: str
    wait_policy: WaitPolicy = "background"
    command: TaskCommand | None = None


class ActiveTasks(msgspec.Struct, frozen=True):
    tasks: tuple[TaskDigest, ...] = ()


class TaskSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Never raw output. Times are ISO 8601 with zone."""

    task_id: str
    kind: str
    status: TaskStatus
    summary: str | None = None
    created_at: str
    updated_at: str
    wait_policy: WaitPolicy = "background"
    parent_message_id: str | None = None
    command: TaskCommand | None = None
    child_agent_id: str | None = None
    child_observability: ChildObservability | None = None
    child_supervision: ChildSupervision | None = None


class TaskState(msgspec.Struct, frozen=True):
    task: TaskSnapshot


class InputOffered(msgspec.Struct, frozen=True, kw_only=True):
    """`refusal` says why the task took no input (it ended, reads none, is of another kind)."""

    task: TaskSnapshot
    accepted_input: bool
    input_target: InputTarget | None = None
    bytes_written: int | None = None
    refusal: str | None = None


class StopRequested(msgspec.Struct, frozen=True, kw_only=True):
    """`force_stop_requested`: the task was being cancelled already and is now killed."""

    task: TaskSnapshot
    force_stop_requested: bool = False


VERDICTS = {
    "success": "Task {task} is {status}",
    "timeout": "The wait for task {task} timed out; it is {status}",
    "not_ready": "Task {task} is not ready; it is {status}",
}
UNKNOWN_VERDICT = "Task {task} was read; it is {status}"
NO_ID, NO_STATUS = "(no id)", "in an unknown state"


def verdict(retrieval_status: str | None) -> str:
    """The sentence for a wait, with {task} and {status} still to be filled in."""
    return VERDICTS.get(retrieval_status or "", UNKNOWN_VERDICT)


def read_outcome(found: TaskRead) -> str:
    words = verdict(found.retrieval_status).replace("{task}", found.task_id or NO_ID)
    return summarize(words.replace("{status}", found.status or NO_STATUS))


def active_outcome(found: ActiveTasks) -> str:
    return counted(len(found.tasks))


def counted(number: int) -> str:
    return {0: "No active tasks", 1: "1 active task"}.get(number, f"{number} active tasks")


def state_outcome(found: TaskState) -> str:
    return summarize(f"Task {found.task.task_id} is {found.task.status}")


def input_outcome(found: InputOffered) -> str:
    if not found.accepted_input:
        return summarize(f"Input not accepted: {found.refusal or f'task {found.task.task_id} is {found.task.status}'}")
    return summarize(f"Input delivered to task {found.task.task_id}")


def stop_outcome(found: StopRequested) -> str:
    if found.task.status == "cancelled":
        return summarize(f"Task {found.task.task_id} cancelled")
    words = "Force stop" if found.force_stop_requested else "Stop"
    return summarize(f"{words} requested for task {found.task.task_id}")


def unknown_task(task_id: str) -> ToolError:
    return ToolError(
        kind="unknown_task",
        message=f"no task has the id {task_id}",
        details={"task_id": task_id},
        recovery_hint="call TaskList and use one of its ids; a task_id is never a process id or a message id",
        retryable=False,
    )


def task_not_running(task: TaskSnapshot) -> ToolError:
    return ToolError(
        kind="task_not_running",
        message=f"task {task.task_id} is {task.status} and cannot be stopped",
        details={"task_id": task.task_id, "status": task.status},
        recovery_hint="read its result with TaskOutput; start the work again if it is still needed",
        retryable=False,
    )
