"""ExecCommand, ExecCommandBatch and the Task tools: shell commands in a workspace, and what still runs of them.

A command whose window passes goes on as a task. Its output lies in a folder of its own while it runs; what is given
back is captured by the sink, whole. CommandTools and tasks end with `close`.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from envelopes.families.task.results import InputTarget, TaskCommand, TaskSnapshot
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.processes import GRACE_S, CommandSpec, Process, SpawnFailed, clean_environment
from envelopes.runtime.tasks import LOOK_S, BackgroundTask, InputReply, TaskEnd, TaskTable, TaskTools, stamp
from envelopes.runtime.workspaces import Workspaces, open_workspaces
from envelopes.schema.outcome import CANCELLED
from envelopes.schema.result import CompleteOutput, TaskHandle
from envelopes.storage.sinks import ArtifactSink, capture
from envelopes.text.preview import FileText, preview_command

INPUT_S = 2.0  # that a command has to take its input
MOST_TASKS = 32
MOST_SNAPSHOT = 16 * 1024 * 1024  # bytes of output of a task that still runs
TIMED_OUT = "command_timed_out"
END_WORDS = {
    "output_limit": "it was stopped because its output passed the limit of the runtime",
    "disk_full": "it was stopped because its output could not be written any more",
}


class CommandTask(BackgroundTask):
    """A command that went on after its window. `workdir` is relative to the root of its workspace."""

    kind = COMMAND_TASK

    def __init__(self, task_id: str, process: Process, workdir: str, sink: ArtifactSink, now: float) -> None:
        super().__init__(task_id, created_at=now - process.seconds, changed_at=now)
        self.process, self.workdir, self._sink = process, workdir, sink
        self._captured: str | FileText | None = None
        self._log_path: str | None = None

    @property
    def end(self) -> TaskEnd | None:
        if self.process.is_running:
            return None
        if self.stops and self.process.end_reason == "stopped":
            return "cancelled"
        return "completed" if self.process.exit_status == 0 and self.process.end_reason == "exited" else "failed"

    @property
    def title(self) -> str:
        return preview_command(self.process.spec.cmd).preview

    @property
    def summary(self) -> str | None:
        return END_WORDS.get(self.process.end_reason or "")

    def wait(self, seconds: float) -> bool:
        return self.process.wait(seconds)

    def stop(self, *, force: bool) -> None:
        self.process.stop(force=force)

    def read(self, *, has_ended: bool) -> dict[str, Any]:
        """The output so far. That of an ended task is kept, whole."""
        ends = {"summary": self.summary, "exit_status": self.process.exit_status}
        log = self.process.log
        if not has_ended:
            if log.size > MOST_SNAPSHOT:
                words = f"{log.size:,} bytes of output so far; they can be read when the task has ended"
                return {**ends, "result_summary": words}
            return {**ends, "output": capture("output", log.open(), self._sink)}
        if self._captured is None:
            self._captured = capture("output", log.open(), self._sink)
            if log.size and isinstance(self._captured, str):
                self._log_path = self._sink.write("output", self._captured).path
        return {**ends, "output": self._captured, "log_path": self._log_path}

    def describe_result(self, most: int) -> str:
        """The status and the beginning of the output."""
        log = self.process.log
        with log.open() as stream:
            text = stream.read(most * 4).decode("utf-8", "replace")
        cut = f"\n… {log.size:,} bytes of output in all" if log.size > most * 4 or len(text) > most else ""
        return f"{self.status}, exit status {self.process.exit_status}\n\n{text[:most]}{cut}"

    def write(self, text: str, context: CallContext) -> InputReply:
        target: InputTarget = "tty" if self.process.spec.tty else "stdin"
        if not self.process.is_running:
            return InputReply(target, refusal="the task has ended")
        if not self.process.spec.accepts_input:
            return InputReply(target, refusal="it was started without accepts_input")
        data = text.encode("utf-8", "surrogatepass")
        written, until = 0, time.monotonic() + INPUT_S
        while written < len(data):
            taken = self.process.write(data[written:])
            if taken is None:
                return InputReply(target, written, "" if written else "the task has ended or closed its input")
            written += taken
            if time.monotonic() >= until or context.is_cancelled:
                break
            if not taken:
                self.process.wait(LOOK_S)
        return InputReply(target, written, "" if written or not data else f"it read nothing for {INPUT_S:g} s")

    def snapshot(self) -> TaskSnapshot:
        process, spec = self.process, self.process.spec
        preview = preview_command(spec.cmd)
        ended_at = None if process.is_running else self.created_at + process.seconds
        return TaskSnapshot(
            task_id=self.task_id,
            kind=self.kind,
            status=self.status,
            summary=self.summary,
            created_at=stamp(self.created_at),
            updated_at=stamp(ended_at or self.changed_at),
            command=TaskCommand(
                cmd=preview.preview,
                cmd_digest=preview.digest,
                workdir=self.workdir,
                shell=spec.shell,
                login=spec.login,
                tty=spec.tty,
                exit_status=process.exit_status,
                promoted_from_exec_command=True,
                accepts_input=spec.accepts_input,
                input_target="tty" if spec.tty else "stdin" if spec.accepts_input else None,
            ),
        )


class CommandTools:
    """Runs commands below `root`, or in the active workspace.

    `folder` holds the output of those that run; `sink` keeps what is given back. Commands see the environment without
    the runtime's own secrets; `variables` are added. `now` is a wall clock. `tasks` are those of the agent, which child
    agents join. Every method that is a tool gets the parsed input and the context of its call.
    """

    def __init__(
        self,
        root: Path | Workspaces,
        folder: Path,
        sink: ArtifactSink,
        *,
        variables: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._workspaces, self._folder, self._sink = open_workspaces(root), folder, sink
        self.tasks = TaskTable(now)
        self._environment = clean_environment(os.environ, variables)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._started: set[Process] = set()

    def tools(self) -> tuple[Tool, ...]:
        """The seven tools, for an executor or a turn loop."""
        return (
            Tool.built_in("ExecCommand", self.exec_command, find_paths=lambda call: self._find_folders([call])),
            Tool.built_in("ExecCommandBatch", self.exec_batch, find_paths=lambda call: self._find_folders(call.items)),
            *TaskTools(self.tasks).tools(),
        )

    def _find_folders(self, commands: Iterable[ExecCommandInput | BatchCommandInput]) -> Iterator[str]:
        """The folder in which a command without a workdir starts, for the sandbox; it sees any other by itself."""
        if any(not command.workdir for command in commands):
            yield self._workspaces.folder

    def close(self) -> None:
        """Ends every command and waits for it."""
        for process in list(self._started):
            process.stop()
        for process in list(self._started):
            if not process.wait(GRACE_S + 1.0):
                process.stop(force=True)
                process.wait(GRACE_S)

    def exec_command(self, call: ExecCommandInput, context: CallContext) -> CompleteOutput:
        root, workdir = self._workspaces.active.root, self._find_workdir(call.workdir, context)
        if call.duplicate_policy == "reuse_running" and (task := self._find_running(call, workdir)):
            return CompleteOutput.success(
                "ExecCommand", f"the command is already running as {task.task_id}", self._describe_running(task)
            )
        process = self._start(
            CommandSpec(call.cmd, workdir, call.shell, bool(call.login), bool(call.tty), call.takes_input)
        )
        window = (call.yield_time_ms or 0) / 1000
        if self._wait(process, window, context):
            result = self._completed(process)
        else:
            task = self.tasks.add(partial(self._promote, process, root))
            result = CommandResult(
                disposition="promoted_to_task",
                stdout=capture("initial_output", process.log.open(), self._sink),
                task=TaskHandle(task_id=task.task_id, kind=COMMAND_TASK),
                waited_ms=call.yield_time_ms or 0,
            )
        result = msgspec.structs.replace(result, cmd=call.cmd, max_output_tokens=call.max_output_tokens)
        return CompleteOutput.success("ExecCommand", command_outcome(result), result)

    def exec_batch(self, call: ExecCommandBatchInput, context: CallContext) -> CompleteOutput:
        items: list[BatchItem] = []
        for item in call.items:
            if call.stop_on_error and any(done.status != "completed" for done in items):
                items.append(BatchItem(cmd=item.cmd, status="skipped", error_kind=SKIPPED))
            else:
                items.append(self._run_item(item, context))
        result = BatchResult(items=tuple(items), stop_on_error=bool(call.stop_on_error))
        return CompleteOutput.success("ExecCommandBatch", batch_outcome(result), result)

    def _find_workdir(self, workdir: str | None, context: CallContext) -> Path:
        """A folder inside the root that the sandbox allows. Raises ToolFailed."""
        active = self._workspaces.active
        place = Path(os.path.realpath(active.cwd / (workdir or "")))
        if not place.is_relative_to(active.root):
            raise ToolFailed(
                "execution_root_violation",
                f"{workdir} is outside the workspace",
                details={"workdir": workdir},
                recovery_hint="omit workdir, or use a relative path inside the workspace",
            )
        self._workspaces.check(place, context)
        if not place.is_dir():
            raise ToolFailed(
                "command_spawn_failed",
                f"{workdir} is no folder of the workspace",
                details={"workdir": workdir},
                recovery_hint="omit workdir, or name a folder that exists",
            )
        return place

    def _find_running(self, call: ExecCommandInput, workdir: Path) -> CommandTask | None:
        same = (call.cmd, workdir, call.shell, bool(call.login), bool(call.tty))
        commands = (task for task in self.tasks.active() if isinstance(task, CommandTask))
        return next((task for task in commands if task.process.spec.identity == same), None)

    def _describe_running(self, task: CommandTask) -> RunningCommand:
        spec = task.process.spec
        return RunningCommand(
            task=TaskHandle(task_id=task.task_id, kind=COMMAND_TASK, status=task.status),
            cmd=spec.cmd,
            workdir=None if task.workdir == "." else task.workdir,
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

    def _wait(self, process: Process, seconds: float, context: CallContext) -> bool:
        """True when the command has ended within the time. A cancelled call ends it and raises ToolFailed."""
        until = time.monotonic() + seconds
        while not process.wait(max(0.0, min(LOOK_S, until - time.monotonic()))):
            if context.is_cancelled:
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

    def _promote(self, process: Process, root: Path, task_id: str) -> CommandTask:
        workdir = process.spec.workdir.relative_to(root).as_posix()
        task = CommandTask(task_id, process, workdir, self._sink, self.tasks.now())
        task.workspace_id = self._workspaces.active.workspace_id
        return task

    def _run_item(self, item: BatchCommandInput, context: CallContext) -> BatchItem:
        """One command of a batch: it never becomes a task, so its window is its end."""
        rejected = partial(BatchItem, cmd=item.cmd, status="rejected")
        try:
            workdir = self._find_workdir(item.workdir, context)
            process = self._start(CommandSpec(item.cmd, workdir, item.shell, bool(item.login)))
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
