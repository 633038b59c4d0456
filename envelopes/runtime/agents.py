"""SpawnAgent, AgentGet and Enqueue: child agents that run beside their parent, and messages for later turns.

Named agents and follow-ups lie in a SQLite file. A private child is a background task of its parent, which TaskStatus,
TaskOutput, TaskInput and TaskStop take (`children`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path

import msgspec

from envelopes.families.agent.receipts import agent_outcome, spawn_outcome
from envelopes.families.agent.results import (
    ActiveChild,
    AgentIdentity,
    AgentRead,
    AgentSummary,
    Execution,
    FollowUp,
    Priority,
    Spawned,
    WorkspaceOccupancy,
    follow_up_outcome,
)
from envelopes.families.agent.tools import AgentGetInput, EnqueueInput, SpawnAgentInput
from envelopes.plan.recorders import ParentCall
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.children import CHILD_TASK, ChildAgent, ChildTask, Program
from envelopes.runtime.tasks import TaskTable
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.schema.result import CompleteOutput, TaskHandle
from envelopes.schema.tool import Profile

MOST_CHILDREN = 8
TABLES = """
CREATE TABLE IF NOT EXISTS agent (agent_id TEXT PRIMARY KEY, template TEXT, created_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS follow_up (
    id INTEGER PRIMARY KEY, agent_id TEXT NOT NULL, rank INTEGER NOT NULL, text TEXT NOT NULL, created_at REAL NOT NULL
);
"""
RANKS: tuple[Priority, ...] = ("interject", "next", "normal", "background")


class AgentPlaneTools:
    """The tools of the agent `agent_id`. `path` is the SQLite file.

    `program` runs private children; without it none can be spawned. With `has_runs` it records each under
    `ChildAgent.run_id`, and the result of the call that spawned it names that run. `templates` are the roles that the
    runtime knows. A private child gets tools of its own with its `profile`, which cannot spawn (E-16).
    AgentGet reads what it is given: the tasks, the workspaces, the work items.

    >>> from tempfile import mkdtemp
    >>> agents = AgentPlaneTools(Path(mkdtemp()) / "agents.db", TaskTable())
    >>> [tool.name for tool in agents.tools()]
    ['AgentGet', 'Enqueue', 'SpawnAgent']
    """

    def __init__(
        self,
        path: Path,
        tasks: TaskTable,
        *,
        agent_id: str = "agent_main",
        profile: Profile = "public_named",
        parent_agent_id: str | None = None,
        model: str | None = None,
        program: Program | None = None,
        has_runs: bool = False,
        templates: Iterable[str] = (),
        workspaces: Workspaces | None = None,
        work_items: WorkItemTools | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._identity = AgentIdentity(agent_id=agent_id, profile=profile, parent_agent_id=parent_agent_id)
        self._path, self._tasks, self._model, self._program = path, tasks, model, program
        self._templates, self._workspaces, self._work_items = tuple(templates), workspaces, work_items
        self._now, self._has_runs = now, has_runs
        self._children = 0
        with self._open() as database:
            database.executescript(TABLES)

    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool.built_in("AgentGet", self.get),
            Tool.built_in("Enqueue", self.enqueue),
            Tool.built_in("SpawnAgent", self.spawn),
        )

    def close(self, seconds: float = 5.0) -> None:
        """Stops the children that run, and waits for each at most so long."""
        children = [task for task in self._tasks.active() if isinstance(task, ChildTask)]
        for child in children:
            child.stops += 1
            child.stop(force=False)
        for child in children:
            child.wait(seconds)

    def take_follow_up(self, agent_id: str | None = None) -> FollowUp | None:
        """The next message of an agent, its own by default, which is then gone: the runtime delivers it.

        What interjects comes before what is next, normal and background; within each the oldest first.
        """
        statement = (
            "DELETE FROM follow_up WHERE id = (SELECT id FROM follow_up WHERE agent_id = ? ORDER BY rank, id LIMIT 1)"
            " RETURNING rank, text"
        )
        with self._open() as database, database:
            row = database.execute(statement, (agent_id or self._identity.agent_id,)).fetchone()
        return None if row is None else FollowUp(priority=RANKS[row[0]], text=row[1])

    def named_agents(self) -> tuple[str, ...]:
        """The ids of the public_named agents that were created, the oldest first."""
        with self._open() as database:
            return tuple(row[0] for row in database.execute("SELECT agent_id FROM agent ORDER BY created_at, agent_id"))

    def get(self, _call: AgentGetInput, _context: CallContext) -> CompleteOutput:
        children = [task for task in self._tasks.active() if isinstance(task, ChildTask)]
        active = None if self._workspaces is None else self._workspaces.active
        waits = () if self._work_items is None else self._work_items.active_waits()
        with self._open() as database:
            statement = "SELECT count(*) FROM follow_up WHERE agent_id = ?"
            (queued,) = database.execute(statement, (self._identity.agent_id,)).fetchone()
        summary = AgentSummary(
            identity=self._identity,
            state="running",  # the agent that asks is in a turn
            lifecycle="active",
            active_task_count=len(self._tasks.active()),
            current_work_item_id=None if self._work_items is None else self._work_items.current_work_item_id(),
            model=self._model,
            execution=Execution(execution_root=str(active.root), cwd=str(active.cwd)) if active else None,
            workspace=WorkspaceOccupancy(workspace_id=active.workspace_id, mode=active.mode) if active else None,
            counts={"queued_follow_ups": queued} if queued else {},
            wait_conditions=waits,
            active_children=tuple(
                ActiveChild(agent_id=task.child.agent_id, status=task.status, task_id=task.task_id) for task in children
            ),
        )
        read = AgentRead(summary)
        return CompleteOutput.success("AgentGet", agent_outcome(read), read)

    def enqueue(self, call: EnqueueInput, _context: CallContext) -> CompleteOutput:
        result = FollowUp(priority=msgspec.convert(call.priority, Priority), text=call.text)
        with self._open() as database, database:
            self._add_follow_up(database, self._identity.agent_id, result)
        return CompleteOutput.success("Enqueue", follow_up_outcome(result), result)

    def spawn(self, call: SpawnAgentInput, context: CallContext) -> CompleteOutput:
        self._check_spawn(call)
        result = Spawned(agent_id=self._create(call)) if call.preset == "public_named" else self._start(call, context)
        return CompleteOutput.success("SpawnAgent", spawn_outcome(result), result)

    def _check_spawn(self, call: SpawnAgentInput) -> None:
        """Raises ToolFailed."""
        if self._identity.profile == "private_child":
            raise ToolFailed(
                "unsupported_agent_profile_capability",
                "a private child cannot spawn agents",
                details={"required_family": "agent_creation", "profile_preset": "private_child"},
                recovery_hint="do the work in this agent, or report to the parent",
            )
        if call.template is not None and call.template not in self._templates:
            known = get_close_matches(call.template, self._templates, cutoff=0.0) or ["none"]
            raise ToolFailed(
                "invalid_tool_input",
                f"no template is called {call.template}",
                details={"field": "template"},
                recovery_hint=f"omit template; known templates: {', '.join(known)}",
            )
        if call.preset == "private_child" and self._program is None:
            raise ToolFailed(
                "unsupported_runtime_capability",
                "this runtime runs no child agents",
                recovery_hint="do the work in this agent",
            )

    def _create(self, call: SpawnAgentInput) -> str:
        agent_id = call.agent_id or ""
        with self._open() as database, database:
            row = (agent_id, call.template, self._now())
            added = database.execute("INSERT OR IGNORE INTO agent VALUES (?, ?, ?)", row).rowcount
            if not added or agent_id == self._identity.agent_id:
                raise ToolFailed(
                    "invalid_tool_input",
                    f"there is an agent {agent_id} already",
                    details={"field": "agent_id"},
                    recovery_hint="choose another agent_id",
                )
            if call.initial_message:
                self._add_follow_up(database, agent_id, FollowUp(priority="next", text=call.initial_message))
        return agent_id

    def _start(self, call: SpawnAgentInput, context: CallContext) -> Spawned:
        """A private child, which is running when this returns. Raises ToolFailed."""
        running = [task for task in self._tasks.active() if isinstance(task, ChildTask)]
        if len(running) >= MOST_CHILDREN:
            raise ToolFailed(
                "unsupported_runtime_capability",
                f"{len(running)} children are running, which is the most",
                recovery_hint=f"wait for one of them: TaskOutput {running[0].task_id}",
                retryable=True,
            )
        assert self._program is not None  # `_check_spawn` has looked
        self._children += 1
        agent_id = f"{self._identity.agent_id}.{self._children}"
        worktree, root = None, Path() if self._workspaces is None else self._workspaces.active.root
        if call.workspace_mode == "worktree":
            if self._workspaces is None:
                raise ToolFailed(
                    "unsupported_runtime_capability",
                    "this runtime has no workspaces to make a worktree of",
                    recovery_hint="use workspace_mode inherit",
                )
            worktree, root = self._workspaces.add_worktree(agent_id)
        child = ChildAgent(
            agent_id,
            self._identity.agent_id,
            call.initial_message or "",
            root,
            call.template,
            run_id=f"{context.call.run_id}.{self._children}",
            parent=ParentCall(context.call.run_id, context.call.call_id),
        )
        if self._has_runs:
            context.child_run_id = child.run_id
        clear = self._workspaces.clear if self._workspaces is not None else lambda _worktree: False
        program = self._program
        task = self._tasks.add(lambda task_id: ChildTask(task_id, child, program, worktree, clear, self._now))
        task.workspace_id = None if self._workspaces is None else self._workspaces.active.workspace_id
        return Spawned(
            agent_id=agent_id,
            child_agent_id=agent_id,
            task_handle=TaskHandle(task_id=task.task_id, kind=CHILD_TASK),
            supervision_task_id=task.task_id,
            child_supervision=task.supervision,
        )

    def _open(self) -> closing[sqlite3.Connection]:
        """A connection for one statement or two: each thread has its own."""
        database = sqlite3.connect(self._path)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        return closing(database)

    def _add_follow_up(self, database: sqlite3.Connection, agent_id: str, message: FollowUp) -> None:
        row = (agent_id, RANKS.index(message.priority), message.text, self._now())
        database.execute("INSERT INTO follow_up (agent_id, rank, text, created_at) VALUES (?, ?, ?, ?)", row)
