"""Work that goes on beside the turns of a model, and the five tools that look after it.

BackgroundTask  a command whose window passed (`commands`), or a child agent (`agents`)
TaskTable       the tasks of one agent, by id
TaskTools       TaskList, TaskStatus, TaskOutput, TaskInput and TaskStop over a table
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from envelopes.families.task.results import (
    ActiveTasks,
    InputOffered,
    InputTarget,
    StopRequested,
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
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.schema.outcome import CANCELLED
from envelopes.schema.result import CompleteOutput
from envelopes.schema.timestamps import format_instant

LOOK_S = 0.1  # between two looks at whether the call was cancelled
FORCED_S = 2.0  # that a task has to end when it is stopped for the second time
TaskEnd: TypeAlias = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True)
class InputReply:
    """The bytes that a task took, and why it took none."""

    target: InputTarget
    written: int = 0
    refusal: str = ""


class BackgroundTask(ABC):
    """Times are in seconds since 1970. `workspace_id` is the workspace in which the task began."""

    kind: ClassVar[str]
    workspace_id: str | None = None

    def __init__(self, task_id: str, created_at: float, changed_at: float) -> None:
        self.task_id, self.created_at, self.changed_at = task_id, created_at, changed_at
        self.stops = 0  # how often somebody asked for its end

    @property
    def status(self) -> TaskStatus:
        return self.end or ("cancelling" if self.stops else "running")

    @property
    @abstractmethod
    def end(self) -> TaskEnd | None:
        """None while it runs."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The work in a line, for a list of tasks."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """True when the task has ended within the time."""

    @abstractmethod
    def stop(self, *, force: bool) -> None: ...

    @abstractmethod
    def snapshot(self) -> TaskSnapshot: ...

    @abstractmethod
    def read(self, *, has_ended: bool) -> dict[str, Any]:
        """The output so far, as members of a TaskRead."""

    @abstractmethod
    def describe_result(self, most: int) -> str:
        """Describes an ended task in about `most` characters; a last line states what was cut."""

    @abstractmethod
    def write(self, text: str, context: CallContext) -> InputReply: ...

    def wait_during(self, seconds: float, context: CallContext) -> bool:
        """Like `wait`. Raises ToolFailed when the call that waits is cancelled; the task goes on."""
        until = time.monotonic() + seconds
        while not self.wait(max(0.0, min(LOOK_S, until - time.monotonic()))):
            if context.is_cancelled:
                raise ToolFailed(CANCELLED, f"the call was cancelled; {self.task_id} goes on")
            if time.monotonic() >= until:
                return False
        return True


Task = TypeVar("Task", bound=BackgroundTask)


@dataclass
class TaskTable:
    """Used by any thread. Tasks that have ended stay, so that they can be read."""

    now: Callable[[], float] = time.time
    _tasks: dict[str, BackgroundTask] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, make: Callable[[str], Task]) -> Task:
        """`make` gets the id of the new task."""
        with self._lock:
            task = make(f"task_{len(self._tasks) + 1}")
            self._tasks[task.task_id] = task
        return task

    def get(self, task_id: str) -> BackgroundTask:
        """Raises ToolFailed."""
        if (task := self._tasks.get(task_id)) is None:
            raise ToolFailed.from_error(unknown_task(task_id))
        return task

    def active(self) -> tuple[BackgroundTask, ...]:
        with self._lock:
            return tuple(task for task in self._tasks.values() if task.end is None)

    def ended(self) -> tuple[BackgroundTask, ...]:
        with self._lock:
            return tuple(task for task in self._tasks.values() if task.end is not None)


@dataclass(frozen=True)
class TaskTools:
    table: TaskTable

    def tools(self) -> tuple[Tool, ...]:
        runs: dict[str, Callable[[Any, CallContext], CompleteOutput]] = {
            "TaskList": self.list_tasks,
            "TaskStatus": self.status,
            "TaskOutput": self.output,
            "TaskInput": self.input,
            "TaskStop": self.stop,
        }
        return tuple(Tool.built_in(name, run) for name, run in runs.items())

    def list_tasks(self, _call: TaskListInput, _context: CallContext) -> CompleteOutput:
        result = ActiveTasks(tuple(_digest(task) for task in self.table.active()))
        return CompleteOutput.success("TaskList", active_outcome(result), result)

    def status(self, call: TaskStatusInput, _context: CallContext) -> CompleteOutput:
        result = TaskState(self.table.get(call.task_id).snapshot())
        return CompleteOutput.success("TaskStatus", state_outcome(result), result)

    def output(self, call: TaskOutputInput, context: CallContext) -> CompleteOutput:
        task = self.table.get(call.task_id)
        has_ended = task.wait_during((call.timeout_ms or 0) / 1_000 if call.block else 0.0, context)
        result = TaskRead(
            retrieval_status="success" if has_ended else "timeout" if call.block else "not_ready",
            task_id=task.task_id,
            kind=task.kind,
            status=task.status,
            **task.read(has_ended=has_ended),
        )
        return CompleteOutput.success("TaskOutput", read_outcome(result), result)

    def input(self, call: TaskInputInput, context: CallContext) -> CompleteOutput:
        task = self.table.get(call.task_id)
        reply = task.write(call.input, context)
        result = InputOffered(
            task=task.snapshot(),
            accepted_input=not reply.refusal,
            input_target=None if reply.refusal else reply.target,
            bytes_written=None if reply.refusal else reply.written,
            refusal=reply.refusal or None,
        )
        return CompleteOutput.success("TaskInput", input_outcome(result), result)

    def stop(self, call: TaskStopInput, context: CallContext) -> CompleteOutput:
        task = self.table.get(call.task_id)
        if task.end is not None:
            raise ToolFailed.from_error(task_not_running(task.snapshot()))
        is_forced = task.stops > 0
        task.stops += 1
        task.changed_at = self.table.now()
        task.stop(force=is_forced)
        if is_forced:
            task.wait_during(FORCED_S, context)
        result = StopRequested(task=task.snapshot(), force_stop_requested=is_forced)
        return CompleteOutput.success("TaskStop", stop_outcome(result), result)


def stamp(seconds: float) -> str:
    return format_instant(seconds, timespec="milliseconds")


def _digest(task: BackgroundTask) -> TaskDigest:
    snapshot = task.snapshot()
    return TaskDigest(
        id=snapshot.task_id,
        kind=snapshot.kind,
        status=snapshot.status,
        summary=task.title,
        updated_at=snapshot.updated_at,
        command=snapshot.command,
    )
