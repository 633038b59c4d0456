"""Child agents that run beside their parent, on a thread of the same process.

    ChildAgent   a private child as its program sees it
    run_loop, run_plan   programs for children: a model in a turn loop, or a plan
    ChildTask    the child as a background task of its parent

A program is a function of the runtime. It gets the child and returns its report.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from envelopes.families.task.results import FailureArtifact, TaskSnapshot
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import ParentCall, Recorder
from envelopes.plan.schema import ActionPlan
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.tool_loop import Model, ToolLoop
from envelopes.plan.verify import StepState
from envelopes.plan.workers import CallContext
from envelopes.runtime.tasks import BackgroundTask, InputReply, TaskEnd, stamp
from envelopes.schema.result import ChildSupervision, Worktree
from envelopes.schema.tool import InvalidToolOutput, Profile

CHILD_TASK = "child_agent_task"
MESSAGE = "initial_message"  # the variable of a child's plan


@dataclass
class ChildAgent:
    """A private child. `root` is the folder in which it works, its own worktree where it was given one.

    `run_id` is what its run is to be called, where its program records one, and `parent` the call that spawned it.

    A program that runs long looks at `is_stopped`, or names with `stop_with` what ends it.
    """

    agent_id: str
    parent_agent_id: str
    initial_message: str
    root: Path
    template: str | None = None
    profile: Profile = "private_child"
    run_id: str = ""
    parent: ParentCall | None = None
    _inbox: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _enders: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def receive(self, seconds: float = 0.0) -> str | None:
        """The next message that the parent sent with TaskInput; None when none came within the time."""
        try:
            return self._inbox.get(timeout=seconds) if seconds > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return None

    def stop_with(self, end: Callable[[], None]) -> None:
        """`end` is called when the parent stops the child, at once where it has done so."""
        self._enders.append(end)
        if self.is_stopped:
            end()

    def send(self, text: str) -> None:
        self._inbox.put(text)

    def stop(self) -> None:
        self._stopped.set()
        for end in tuple(self._enders):
            end()


Program: TypeAlias = Callable[[ChildAgent], str]


def run_loop(child: ChildAgent, loop: ToolLoop, model: Model) -> str:
    """Runs one turn of the loop and closes it; the report is the last text that the model wrote.

    Raises RuntimeError for a turn without an answer. A child that waits is one: what it waits for begins another turn,
    and this program has none, so its text is no report. A program that runs further turns can wake it.
    """
    child.stop_with(loop.cancel)
    try:
        result = loop.run_turn(model)
    finally:
        loop.close()
    if result.end == "waiting" and not child.is_stopped:
        raise RuntimeError(
            f"{child.agent_id} waits, and its program ends with its turn: nothing can wake it; give it no tool that "
            f"ends a turn, such as WaitFor{f'. It wrote last: {result.text}' if result.text else ''}"
        )
    if result.end != "answered" and not child.is_stopped:
        raise RuntimeError(f"the turn of {child.agent_id} ended without an answer: {result.end}")
    return result.text


def run_plan(child: ChildAgent, executor: Executor, plan: ActionPlan, recorder: Recorder | None = None) -> str:
    """Runs the plan; the report has a line for each step. `$vars.initial_message` is the message of the parent.

    Raises RuntimeError for a plan that did not succeed.
    """
    child.stop_with(executor.cancel)
    result = executor.run(
        plan,
        recorder,
        run_id=child.run_id or None,
        variables={MESSAGE: child.initial_message},
        parent=child.parent,
    )
    tools = {step.id: executor.by_name[step.tool] for step in plan.steps}
    report = "\n".join(f"{step.step_id}: {step.end}{_describe(step, tools[step.step_id])}" for step in result.steps)
    if not result.is_ok and not child.is_stopped:
        raise RuntimeError(f"the plan of {child.agent_id} did not succeed ({result.end})\n{report}")
    return report


def _describe(step: StepState, tool: Tool) -> str:
    """The outcome of a step with one call, in the words of its family; empty for any other."""
    if step.end != "ok" or tool.family is None:
        return ""
    try:
        result = tool.definition.read_data(step.output)
    except InvalidToolOutput:  # the rounds of a foreach
        return ""
    describe = tool.family.outcomes.get(type(result))
    return f", {describe(result)}" if describe else ""


class ChildTask(BackgroundTask):
    """A child that runs, on a daemon thread: one that does not look at its end cannot keep the process alive."""

    kind = CHILD_TASK

    def __init__(
        self,
        task_id: str,
        child: ChildAgent,
        program: Program,
        worktree: Worktree | None,
        clear: Callable[[Worktree], bool],
        now: Callable[[], float],
    ) -> None:
        started = now()
        super().__init__(task_id, created_at=started, changed_at=started)
        self.child, self._program, self._worktree, self._now = child, program, worktree, now
        self._clear = clear
        self._report = ""
        self._cleanup: str | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._left = False  # it was stopped twice and still runs
        threading.Thread(target=self._run, name=child.agent_id, daemon=True).start()

    @property
    def end(self) -> TaskEnd | None:
        if self._left or (self._ended.is_set() and self.stops):
            return "cancelled"
        if not self._ended.is_set():
            return None
        return "completed" if self._error is None else "failed"

    @property
    def title(self) -> str:
        return self.child.initial_message

    def wait(self, seconds: float) -> bool:
        return self._ended.wait(seconds) or self._left

    def stop(self, *, force: bool) -> None:
        self.child.stop()
        self._left = force and not self._ended.is_set()

    def snapshot(self) -> TaskSnapshot:
        return TaskSnapshot(
            task_id=self.task_id,
            kind=self.kind,
            status=self.status,
            created_at=stamp(self.created_at),
            updated_at=stamp(self.changed_at),
            child_agent_id=self.child.agent_id,
            child_supervision=self.supervision,
        )

    def read(self, *, has_ended: bool) -> dict[str, Any]:
        """The report, once there is one."""
        failure = None
        if self._error is not None:
            failure = FailureArtifact(
                category="child_agent",
                kind=self._error.kind if isinstance(self._error, ToolFailed) else "child_failed",
                summary=str(self._error) or type(self._error).__name__,
                task_id=self.task_id,
            )
        output = self._report if has_ended else ""
        return {"output": output, "failure_artifact": failure, "child_supervision": self.supervision}

    def describe_result(self, most: int) -> str:
        """The report, or what ended the child instead."""
        text = f"{self.status}\n\n{self._report if self._error is None else self._error}"
        return text if len(text) <= most else f"{text[:most]}\n… {len(text):,} characters in all"

    def write(self, text: str, _context: CallContext) -> InputReply:
        if self.end is not None:
            return InputReply("child", refusal="the child has ended")
        self.child.send(text)
        return InputReply("child", len(text.encode("utf-8", "surrogatepass")))

    @property
    def supervision(self) -> ChildSupervision:
        return ChildSupervision(
            parent_agent_id=self.child.parent_agent_id,
            child_agent_id=self.child.agent_id,
            supervision_task_id=self.task_id,
            workspace_mode="inherit" if self._worktree is None else "worktree",
            worktree=self._worktree,
            cleanup_owner="runtime",
            cleanup_status=self._cleanup,
            followup_target=self.task_id,
        )

    def _run(self) -> None:
        try:
            self._report = str(self._program(self.child))
        except BaseException as error:  # whatever a program raises ends the child, not the runtime
            self._error = error
        if self._worktree is not None:
            self._cleanup = "removed" if self._clear(self._worktree) else "kept, because it was changed"
        self.changed_at = self._now()
        self._ended.set()
