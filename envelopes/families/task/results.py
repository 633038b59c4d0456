"""The results of tools that look after background tasks, their bounded forms and their outcomes in a sentence.

Canonical `result`, by tool; an index `<field>_artifact` beside a preview points into `artifacts` (RFC-087):

    TaskOutput   retrieval_status, task {…, output_preview, output_truncated, output_layout?, output_artifact?, …}
    TaskList     tasks [digest], tasks_omitted?, tasks_artifact?
    TaskStatus   task {snapshot}
    TaskInput    task {snapshot}, accepted_input, input_target?, bytes_written?, refusal?
    TaskStop     task {snapshot}, stop_requested, force_stop_requested
"""

from __future__ import annotations

import json
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers, count_fitting, pick, without_nulls
from envelopes.families.json_outputs import LAID_OUT, lay_out_output
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import (
    CHILD_REPORT_CHARACTERS,
    ArtifactRef,
    ChildSupervision,
    JsonValue,
    ToolError,
    summarize,
    to_members,
)
from envelopes.text.preview import FileText, preview_command

LISTED_TASKS = 50
ROWS_SHARE = 2  # the receipt has half of a row: neither its times nor the command's identity
LINE_CHARACTERS = 200  # E-8: summary 200
LONG_TEXTS = {
    "command": ("result_summary",),
    "child_observability": ("waiting_reason", "blocked_reason", "last_progress", "last_result"),
}

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
    """A task that a foreign agent was asked to stop."""

    task_id: str | None = None
    kind: str | None = None
    command: str | None = None
    message: str | None = None


class TaskCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The command of a task. `cmd_digest` is the sha256 of the whole command text."""

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
    """The state of a child agent as seen from outside."""

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


def fit_verb(words: str, status: str | None) -> str:
    """A task is running, is cancelled, but has failed. `words` may have the status or {status}."""
    return words.replace(" is ", " has ") if status == "failed" else words


def read_outcome(result: TaskRead) -> str:
    words = fit_verb(verdict(result.retrieval_status), result.status).replace("{task}", result.task_id or NO_ID)
    return summarize(words.replace("{status}", result.status or NO_STATUS))


def active_outcome(result: ActiveTasks) -> str:
    return count_tasks(len(result.tasks))


def count_tasks(number: int) -> str:
    return {0: "No active tasks", 1: "1 active task"}.get(number, f"{number} active tasks")


def describe_state(task: TaskSnapshot, noun: str) -> str:
    return fit_verb(f"{noun} {task.task_id} is {task.status}", task.status)


def state_outcome(result: TaskState) -> str:
    return summarize(describe_state(result.task, "Task"))


def input_outcome(result: InputOffered) -> str:
    if not result.accepted_input:
        return summarize(f"Input not accepted: {result.refusal or describe_state(result.task, 'task')}")
    return summarize(f"Input delivered to task {result.task.task_id}")


def stop_outcome(result: StopRequested) -> str:
    if result.task.status == "cancelled":
        return summarize(f"Task {result.task.task_id} cancelled")
    words = "Force stop" if result.force_stop_requested else "Stop"
    return summarize(f"{words} requested for task {result.task.task_id}")


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
        message=f"{describe_state(task, 'task')} and cannot be stopped",
        details={"task_id": task.task_id, "status": task.status},
        recovery_hint="read its result with TaskOutput; start the work again if it is still needed",
        retryable=False,
    )


def _project_read(result: TaskRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The summary is left out where the output is the same text (RFC-107)."""
    output = _project_output(result, projector, policy)
    summary = (result.summary or "").strip()
    shown = str(output["output_preview"])
    is_equal = isinstance(result.output, str) and summary == result.output.strip()
    is_repeated = is_equal or (len(summary) > LINE_CHARACTERS and summary in shown)
    task: ResultMembers = {
        **pick(result, "task_id", "kind", "status"),
        **projector.text("task/summary", None if is_repeated else result.summary, policy.details, role="summary"),
        "exit_status": result.exit_status,
        **output,
    }
    if result.failure is not None:
        # The index has a name of its own: `failure_artifact` is our own record of why a task failed.
        preview, artifact = projector.preview("task/failure", result.failure, policy.details, role="failure")
        task |= {"failure": preview, "failure_text_artifact": artifact}
    if result.failure_artifact is not None:
        task["failure_artifact"] = _project_failure(result.failure_artifact, projector, policy)
    task["child_supervision"] = to_members(result.child_supervision)
    return {"retrieval_status": result.retrieval_status, "task": without_nulls(task)}


def _project_output(result: TaskRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The preview, where the whole is, and the task's report unless the output has it already (RFC-107)."""
    budget = policy.preview if result.child_supervision is None else min(policy.preview, CHILD_REPORT_CHARACTERS)
    field, output = "task/output_preview", result.output
    path = output.path if isinstance(output, FileText) else result.log_path
    length = output.characters if isinstance(output, FileText) else len(output)
    laid_out = lay_out_output(output) if length > budget else None
    preview, is_whole = projector.excerpt(field, output if laid_out is None else laid_out, budget)
    artifact = None
    if path is not None:
        artifact = projector.refer(ArtifactRef(path))
    elif isinstance(output, str) and not is_whole:
        artifact = projector.store("output", output)
    report = (result.result_summary or "").strip()
    whole = output.strip() if isinstance(output, str) else ""
    is_repeated = report in (whole, (result.summary or "").strip()) or report in preview
    return {
        "output_preview": preview,
        "output_truncated": not is_whole,
        "output_layout": None if laid_out is None else LAID_OUT,
        "output_artifact": artifact,
        **projector.text(
            "task/result_summary", None if is_repeated else result.result_summary, policy.details, role="result_summary"
        ),
    }


def _project_failure(failure: FailureArtifact, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    """Causes and metadata have a budget each, that of an error's details. What is cut is stored as a whole."""
    field, cuts = "task/failure_artifact", len(projector.cuts)
    causes, metadata = list(failure.source_chain), list(failure.metadata.items())
    sizes = (min(len(cause), LINE_CHARACTERS) for cause in causes)
    shown_causes = count_fitting(sizes, rows=policy.rows, characters=policy.details)
    projector.rows(f"{field}/source_chain", causes, shown_causes)
    sizes = (len(json.dumps(member)) for member in metadata)
    shown_metadata = count_fitting(sizes, rows=policy.rows, characters=policy.details)
    projector.rows(f"{field}/metadata", [name for name, _ in metadata], shown_metadata)
    lines: list[JsonValue] = [
        projector.line(f"{field}/source_chain/{index}", cause, LINE_CHARACTERS)
        for index, cause in enumerate(causes[:shown_causes])
    ]
    members = without_nulls(
        {
            **msgspec.structs.asdict(failure),
            "summary": projector.line(f"{field}/summary", failure.summary, policy.details),
            "source_chain": lines if causes else None,
            "source_chain_omitted": len(causes) - shown_causes or None,
            "metadata": dict(metadata[:shown_metadata]) if metadata else None,
            "metadata_omitted": len(metadata) - shown_metadata or None,
        }
    )
    if len(projector.cuts) > cuts:
        whole = json.dumps(to_members(failure), ensure_ascii=False, indent=2)
        members["record_artifact"] = projector.store("failure-record", whole)
    return members


def _project_stopped(result: TaskStopped, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    command = None if result.command is None else {"cmd": preview_command(result.command).preview}
    return {
        "task": without_nulls({"task_id": result.task_id, "kind": result.kind, "command": command}),
        "stop_requested": True,
        **projector.text("message", result.message, policy.details, role="message"),
    }


def _project_list(result: ActiveTasks, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """At most 50 rows. The whole list is stored when some rows are omitted.

    Rows are counted by what the receipt has of them: names and times of the envelope are the same in each row.
    """
    sizes = (
        len(task.id) + len(task.kind) + len(task.status) + min(len(task.summary or ""), LINE_CHARACTERS)
        for task in result.tasks
    )
    rows = count_fitting(sizes, rows=min(policy.rows, LISTED_TASKS), characters=policy.preview)
    few = msgspec.structs.replace(policy, rows=rows, preview=ROWS_SHARE * policy.preview)
    listed = projector.build_items("tasks", result.tasks, few, partial(_project_row, projector))
    return {**listed, **projector.store_items("tasks", result.tasks, listed)}


def _project_row(projector: Projector, task: TaskDigest, field: str) -> JsonValue:
    """The command of a row is only its identity; TaskStatus gives the rest."""
    identity = {} if task.command is None else _identify(task.command)
    return without_nulls(
        {
            **pick(task, "id", "kind", "status"),
            "summary": projector.one_line(f"{field}/summary", task.summary, LINE_CHARACTERS),
            **pick(task, "updated_at", "wait_policy"),
            "command": identity or None,
        }
    )


def _identify(command: TaskCommand) -> ResultMembers:
    """A preview of the command's text without secrets, and the digest of the whole."""
    if command.cmd is None:
        return without_nulls({"cmd_digest": command.cmd_digest})
    text = preview_command(command.cmd)
    return {"cmd": text.preview, "cmd_digest": command.cmd_digest or text.digest}


def _project_state(result: TaskState, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {"task": _project_snapshot(result.task, projector, policy)}


def _project_input(result: InputOffered, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    refusal = None if result.accepted_input else result.refusal
    return {
        "task": _project_snapshot(result.task, projector, policy),
        **pick(result, "accepted_input", "input_target", "bytes_written"),
        **projector.stored_line("refusal", refusal, LINE_CHARACTERS, role="refusal"),
    }


def _project_stop(result: StopRequested, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "task": _project_snapshot(result.task, projector, policy),
        "stop_requested": True,
        "force_stop_requested": result.force_stop_requested,
    }


def _project_snapshot(task: TaskSnapshot, projector: Projector, policy: ProjectionPolicy) -> JsonValue:
    members = msgspec.structs.asdict(task) | {
        **projector.stored_line("task/summary", task.summary, LINE_CHARACTERS, role="summary"),
        "child_supervision": to_members(task.child_supervision),
    }
    for name, long_texts in LONG_TEXTS.items():
        if (part := getattr(task, name)) is not None:
            nested = msgspec.structs.asdict(part)
            for text in long_texts:
                nested |= projector.text(f"task/{name}/{text}", nested[text], policy.details, role=text)
            members[name] = without_nulls(nested)
    if task.command is not None:
        members["command"] |= _identify(task.command)
    return without_nulls(members)


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    TaskRead: _project_read,
    TaskStopped: _project_stopped,
    ActiveTasks: _project_list,
    TaskState: _project_state,
    InputOffered: _project_input,
    StopRequested: _project_stop,
}
