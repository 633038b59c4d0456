"""ExecCommand, ExecCommandBatch and the Task tools: shell commands in a workspace, and what still runs of them.

A command whose window passes goes on as a task. Its output lies in a folder of its own while it runs; what is given
back is captured by the sink, whole. CommandTools and tasks end with `close`.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from envelopes.families.command.results import (
    COMMAND_TASK,
    SKIPPED,
    BatchItem,
    BatchResult,
    CommandResult,
    RunningCommand,
    batch_outcome,
    command_outcome,
)
from envelopes.families.command.tools import BatchCommandInput, ExecCommandBatchInput, ExecCommandInput
from envelopes.families.task.results import (
    ActiveTasks,
    InputOffered,
    InputTarget,
    StopRequested,
    TaskCommand,
    TaskDigest,
    TaskRead,
    TaskSnapshot,
    TaskState,
    TaskStatus,
    active_outcome,
    input_outcome,
    read_outcome,
    state_outcome,
    stop_outcome,
    task_not_running,
    unknown_task,
)
from envelopes.families.task.tools import TaskInputInput, TaskListInput, TaskOutputInput, TaskStatusInput, TaskStopInput
from envelopes.plan.answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.processes import GRACE_S, CommandSpec, Process, SpawnFailed, clean_environment
from envelopes.schema.outcome import CANCELLED
from envelopes.schema.result import CompleteOutput, TaskHandle
from envelopes.schema.timestamps import format_instant
from envelopes.storage.sinks import ArtifactSink, capture
from envelopes.text.preview import FileText, preview_command

LOOK_S = 0.1  # between two looks at whether the call was cancelled
INPUT_S = 2.0  # that a command has to take its input
MOST_TASKS = 32
MOST_SNAPSHOT = 16 * 1024 * 1024  # bytes of output of a task that still runs
TIMED_OUT = "command_timed_out"
END_WORDS = {
    "output_limit": "it was stopped because its output passed the limit of the runtime",
    "disk_full": "it was stopped because its output could not be written any more",
}


@dataclass
class CommandTask:
    """A command that went on after its window. Times are in seconds since 1970."""

    task_id: str
    process: Process
    workdir: str
    created_at: float
    stops: int = 0  # how often somebody asked for its end
    changed_at: float = field(default=0.0)
    captured: str | FileText | None = None
    log_path: str | None = None

    @property
    def status(self) -> TaskStatus:
        if self.process.is_running:
            return "cancelling" if self.stops else "running"
        if self.stops and self.process.end_reason == "stopped":
            return "cancelled"
        return "completed" if self.process.exit_status == 0 and self.process.end_reason == "exited" else "failed"

    @property
    def summary(self) -> str | None:
        return END_WORDS.get(self.process.end_reason or "")


class CommandTools:
    """Runs commands below `root`. `folder` holds the output of those that run; `sink` keeps what is given back.

    `environment` is what commands see of it, without the runtime's own secrets; `variables` are added. `now` is a wall
    clock. Every method that is a tool gets the parsed input and the context of its call.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        sink: ArtifactSink,
        *,
        variables: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._folder, self._sink, self._now = root.resolve(), folder, sink, now
        self._environment = clean_environment(os.environ, variables)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._tasks: dict[str, CommandTask] = {}
        self._started: set[Process] = set()

    def tools(self) -> tuple[Tool, ...]:
        """The seven tools, for an executor or a turn loop."""
        runs: dict[str, Callable[[Any, CallContext], CompleteOutput]] = {
            "ExecCommand": self.exec_command,
            "ExecCommandBatch": self.exec_batch,
            "TaskList": self.list_tasks,
            "TaskStatus": self.task_status,
            "TaskOutput": self.task_output,
            "TaskInput": self.task_input,
            "TaskStop": self.task_stop,
        }
        return tuple(Tool.built_in(name, run) for name, run in runs.items())

    def close(self) -> None:
        """Ends every command and waits for it."""
        for process in list(self._started):
            process.stop()
        for process in list(self._started):
            if not process.wait(GRACE_S + 1.0):
                process.stop(force=True)
                process.wait(GRACE_S)

    def exec_command(self, call: ExecCommandInput, context: CallContext) -> CompleteOutput:
        workdir = self._find_workdir(call.workdir)
        if call.duplicate_policy == "reuse_running" and (task := self._find_running(call, workdir)):
            return _output(
                "ExecCommand",
                summary=f"the command is already running as {task.task_id}",
                result=self._describe_running(task),
            )
        process = self._start(
            CommandSpec(call.cmd, workdir, call.shell, bool(call.login), bool(call.tty), call.takes_input)
        )
        window = (call.yield_time_ms or 0) / 1000
        if self._wait(process, window, context):
            result = self._completed(process)
        else:
            task = self._promote(process)
            result = CommandResult(
                disposition="promoted_to_task",
                stdout=capture("initial_output", process.log.open(), self._sink),
                task=TaskHandle(task_id=task.task_id, kind=COMMAND_TASK),
            )
        result = msgspec.structs.replace(result, cmd=call.cmd, max_output_tokens=call.max_output_tokens)
        return _output("ExecCommand", command_outcome(result), result)

    def exec_batch(self, call: ExecCommandBatchInput, context: CallContext) -> CompleteOutput:
        items: list[BatchItem] = []
        for item in call.items:
            if call.stop_on_error and any(done.status != "completed" for done in items):
                items.append(BatchItem(cmd=item.cmd, status="skipped", error_kind=SKIPPED))
            else:
                items.append(self._run_item(item, context))
        result = BatchResult(items=tuple(items), stop_on_error=bool(call.stop_on_error))
        return _output("ExecCommandBatch", batch_outcome(result), result)

    def list_tasks(self, _call: TaskListInput, _context: CallContext) -> CompleteOutput:
        active = [task for task in self._tasks.values() if task.process.is_running]
        result = ActiveTasks(tuple(self._digest(task) for task in active))
        return _output("TaskList", active_outcome(result), result)

    def task_status(self, call: TaskStatusInput, _context: CallContext) -> CompleteOutput:
        result = TaskState(self._snapshot(self._find_task(call.task_id)))
        return _output("TaskStatus", state_outcome(result), result)

    def task_output(self, call: TaskOutputInput, context: CallContext) -> CompleteOutput:
        task = self._find_task(call.task_id)
        has_ended = self._wait(task.process, (call.timeout_ms or 0) / 1000 if call.block else 0.0, context, stops=False)
        result = TaskRead(
            retrieval_status="success" if has_ended else "timeout" if call.block else "not_ready",
            task_id=task.task_id,
            kind=COMMAND_TASK,
            status=task.status,
            summary=task.summary,
            exit_status=task.process.exit_status,
            **self._read_output(task, has_ended=has_ended),
        )
        return _output("TaskOutput", read_outcome(result), result)

    def task_input(self, call: TaskInputInput, context: CallContext) -> CompleteOutput:
        task = self._find_task(call.task_id)
        target: InputTarget = "tty" if task.process.spec.tty else "stdin"
        written, refusal = self._write(task.process, call.input.encode("utf-8", "surrogatepass"), context)
        result = InputOffered(
            task=self._snapshot(task),
            accepted_input=not refusal,
            input_target=None if refusal else target,
            bytes_written=None if refusal else written,
            refusal=refusal or None,
        )
        return _output("TaskInput", input_outcome(result), result)

    def task_stop(self, call: TaskStopInput, context: CallContext) -> CompleteOutput:
        task = self._find_task(call.task_id)
        if not task.process.is_running:
            raise ToolFailed.from_error(task_not_running(self._snapshot(task)))
        is_forced = task.stops > 0
        task.stops += 1
        task.changed_at = self._now()
        task.process.stop(force=is_forced)
        if is_forced:
            self._wait(task.process, GRACE_S, context, stops=False)
        result = StopRequested(task=self._snapshot(task), force_stop_requested=is_forced)
        return _output("TaskStop", stop_outcome(result), result)

    def _find_workdir(self, workdir: str | None) -> Path:
        """A folder inside the root. Raises ToolFailed."""
        place = (self._root / (workdir or "")).resolve()
        if not place.is_relative_to(self._root):
            raise ToolFailed(
                "execution_root_violation",
                f"{workdir} is outside the workspace",
                details={"workdir": workdir},
                recovery_hint="omit workdir, or use a relative path inside the workspace",
            )
        if not place.is_dir():
            raise ToolFailed(
                "command_spawn_failed",
                f"{workdir} is no folder of the workspace",
                details={"workdir": workdir},
                recovery_hint="omit workdir, or name a folder that exists",
            )
        return place

    def _find_running(self, call: ExecCommandInput, workdir: Path) -> CommandTask | None:
        wanted = (call.cmd, workdir, call.shell, bool(call.login), bool(call.tty))
        for task in self._tasks.values():
            spec = task.process.spec
            if task.process.is_running and (spec.cmd, spec.workdir, spec.shell, spec.login, spec.tty) == wanted:
                return task
        return None

    def _describe_running(self, task: CommandTask) -> RunningCommand:
        spec = task.process.spec
        return RunningCommand(
            task=TaskHandle(task_id=task.task_id, kind=COMMAND_TASK, status=task.status),
            cmd=spec.cmd,
            workdir=task.workdir,
            shell=spec.shell,
            summary=f"It has run for {task.process.seconds:.0f} s.",
            instructions=f"Read it with TaskOutput {task.task_id}; duplicate_policy start_new starts a second one.",
        )

    def _start(self, spec: CommandSpec) -> Process:
        """Raises ToolFailed."""
        with self._lock:
            running = sum(process.is_running for process in self._started)
            if running >= MOST_TASKS:
                raise ToolFailed(
                    "command_spawn_failed",
                    f"{running} commands are running, which is the most",
                    recovery_hint="stop one of them with TaskStop; TaskList names them",
                    retryable=True,
                )
            folder = self._folder / str(next(self._numbers))
            try:
                folder.mkdir(parents=True)
                process = Process(spec, folder, self._environment)
            except SpawnFailed as error:
                raise ToolFailed(
                    "command_spawn_failed", str(error), recovery_hint="omit shell to use the default"
                ) from error
            self._started.add(process)
        return process

    def _wait(self, process: Process, seconds: float, context: CallContext, *, stops: bool = True) -> bool:
        """True when the command has ended within the time. A cancelled call raises ToolFailed, and `stops` ends it."""
        until = time.monotonic() + seconds
        while not process.wait(max(0.0, min(LOOK_S, until - time.monotonic()))):
            if context.is_cancelled:
                if stops:
                    process.stop()
                    process.wait(GRACE_S + 1.0)
                raise ToolFailed(CANCELLED, "the call was cancelled before the command ended")
            if time.monotonic() >= until:
                return False
        return True

    def _completed(self, process: Process) -> CommandResult:
        return CommandResult(
            exit_status=process.exit_status,
            stdout=capture("stdout", process.log.open("stdout"), self._sink),
            stderr=capture("stderr", process.log.open("stderr"), self._sink),
            interrupted=process.end_reason != "exited",
            interpretation=END_WORDS.get(process.end_reason or ""),
        )

    def _promote(self, process: Process) -> CommandTask:
        with self._lock:
            task_id = f"task_{len(self._tasks) + 1}"
            workdir = process.spec.workdir.relative_to(self._root).as_posix()
            now = self._now()
            task = CommandTask(task_id, process, workdir, created_at=now - process.seconds, changed_at=now)
            self._tasks[task_id] = task
        return task

    def _run_item(self, item: BatchCommandInput, context: CallContext) -> BatchItem:
        """One command of a batch: it never becomes a task, so its window is its end."""
        rejected = partial(BatchItem, cmd=item.cmd, status="rejected")
        try:
            process = self._start(CommandSpec(item.cmd, self._find_workdir(item.workdir), item.shell, bool(item.login)))
        except ToolFailed as refusal:
            return rejected(error_kind=refusal.kind, error_message=refusal.message)
        window = (item.yield_time_ms or 0) / 1000
        has_ended = self._wait(process, window, context)
        if not has_ended:
            process.stop()
            process.wait(GRACE_S + 1.0)
        result = msgspec.structs.replace(
            self._completed(process), max_output_tokens=item.max_output_tokens, exit_status=process.exit_status
        )
        message = None if has_ended else f"it did not end within {window:g} s and was stopped"
        return BatchItem(
            cmd=item.cmd,
            status="completed" if has_ended and process.exit_status == 0 else "failed",
            result=result,
            error_kind=None if has_ended else TIMED_OUT,
            error_message=message,
            duration_ms=round(process.seconds * 1000),
        )

    def _find_task(self, task_id: str) -> CommandTask:
        if (task := self._tasks.get(task_id)) is None:
            raise ToolFailed.from_error(unknown_task(task_id))
        return task

    def _read_output(self, task: CommandTask, *, has_ended: bool) -> dict[str, Any]:
        """The output of the task so far. That of an ended one is kept, whole."""
        log = task.process.log
        if not has_ended:
            if log.size > MOST_SNAPSHOT:
                words = f"{log.size:,} bytes of output so far; they can be read when the task has ended"
                return {"result_summary": words}
            return {"output": capture("output", log.open(), self._sink)}
        if task.captured is None:
            task.captured = capture("output", log.open(), self._sink)
            if log.size and isinstance(task.captured, str):
                task.log_path = self._sink.write("output", task.captured).path
        return {"output": task.captured, "log_path": task.log_path}

    def _write(self, process: Process, data: bytes, context: CallContext) -> tuple[int, str]:
        """The bytes that the command took, and why it took none."""
        if not process.is_running:
            return 0, "the task has ended"
        if not process.spec.accepts_input:
            return 0, "it was started without accepts_input"
        written, until = 0, time.monotonic() + INPUT_S
        while written < len(data):
            taken = process.write(data[written:])
            if taken is None:
                return written, "" if written else "the task has ended or closed its input"
            written += taken
            if time.monotonic() >= until or context.is_cancelled:
                break
            if not taken:
                process.wait(LOOK_S)
        return written, "" if written or not data else f"it read nothing for {INPUT_S:g} s"

    def _digest(self, task: CommandTask) -> TaskDigest:
        snapshot = self._snapshot(task)
        return TaskDigest(
            id=snapshot.task_id,
            kind=snapshot.kind,
            status=snapshot.status,
            summary=snapshot.command.cmd if snapshot.command else None,
            updated_at=snapshot.updated_at,
            command=snapshot.command,
        )

    def _snapshot(self, task: CommandTask) -> TaskSnapshot:
        process, spec = task.process, task.process.spec
        preview = preview_command(spec.cmd)
        ended_at = None if process.is_running else task.created_at + process.seconds
        return TaskSnapshot(
            task_id=task.task_id,
            kind=COMMAND_TASK,
            status=task.status,
            summary=task.summary,
            created_at=format_instant(task.created_at, timespec="milliseconds"),
            updated_at=format_instant(ended_at or task.changed_at, timespec="milliseconds"),
            command=TaskCommand(
                cmd=preview.preview,
                cmd_digest=preview.digest,
                workdir=task.workdir,
                shell=spec.shell,
                login=spec.login,
                tty=spec.tty,
                exit_status=process.exit_status,
                promoted_from_exec_command=True,
                accepts_input=spec.accepts_input,
                input_target="tty" if spec.tty else "stdin" if spec.accepts_input else None,
            ),
        )


def _output(tool_name: str, summary: str, result: msgspec.Struct) -> CompleteOutput:
    return CompleteOutput(tool_name=tool_name, status="success", summary_text=summary, result=result)
