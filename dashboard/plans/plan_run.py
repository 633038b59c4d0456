"""Runs a plan with the built-in tools and shows it on the pages while it runs.

    run_plan          runs a plan to its end; what its records hold is imported every second and at the end
    PlanOrder         the plan, its workspace, its policy, and who confirms it
    WorkspaceTools    the built-in tools that really run, in one workspace

The executor works on a thread and writes its records to a folder of the data folder. The main thread alone uses the
database: it imports that folder by the one write path, renews the lease of the run, asks for the confirmation, and
looks for a cancel. A process that is killed leaves the folder, and a run whose lease passes: it is interrupted.

A child agent runs a plan of its own, as a task of its parent and as a run with its own folder and confirmation. The
main thread looks at it beside its parent.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import msgspec
from django.db import Error

from dashboard.faults import drop_connection, find_outage
from dashboard.ingest.importer import Retry, import_paths
from dashboard.models import Project
from dashboard.models.identity import run_id
from dashboard.plans.decisions import (
    is_cancel_requested,
    load_decision,
    record_decision,
    record_end,
    renew_lease,
    request_decision,
)
from dashboard.plans.plan_folders import NAMESPACE, RUNNING, hold_folder, plan_folder, plans_root
from envelopes.plan.checks import PlanFault, PlanRejected
from envelopes.plan.confirmation import ConfirmationRequest, Decision
from envelopes.plan.effects import scan_folders
from envelopes.plan.executor import Executor, RunResult
from envelopes.plan.recorders import RUN_FILE, FileRecorder, RunArtifacts
from envelopes.plan.schema import ActionPlan
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.runtime.agents import AgentPlaneTools
from envelopes.runtime.children import MESSAGE, ChildAgent, Program
from envelopes.runtime.children import run_plan as run_child_plan
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.memory import MemoryTools, task_sources, work_item_sources
from envelopes.runtime.web import SearchProvider, WebPolicy, WebTools
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.schema.call import Limits, NetworkRules, RunPolicy, Sandbox
from envelopes.text.untrusted_json import visible

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.25
IMPORT_SECONDS = 1.0
NO_CHILDREN = "no plan for a child agent is set up"
CHILD_END_S = 30.0  # that a child has to end with its parent
EXPIRY_S = 3_600  # that an operator has to decide
POLICY = RunPolicy(
    confirmations_required=True, sandbox=Sandbox(enabled=True, allowed_roots=("/",)), limits=Limits(max_concurrency=4)
)


class WorkspaceTools:
    """The built-in tools in the workspace of an order.

    `program` runs the order's child agents; `child` is the agent whose tools these are, None for that of the order.
    """

    def __init__(
        self, order: PlanOrder, artifacts: RunArtifacts, program: Program | None, child: ChildAgent | None
    ) -> None:
        root, state = order.workspace.resolve(), order.state
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = (order.home or root).resolve().name or "workspace"
        self._running = plans_root() / RUNNING / order.run_id
        self._workspaces = Workspaces({name: root}, folder=state / "worktrees")
        self._commands = CommandTools(self._workspaces, self._running, artifacts)
        self._work_items = WorkItemTools(root, state / "work-items.db", workspace_id=name)
        self._memory = MemoryTools(
            state / "memory.db",
            workspaces=self._workspaces,
            sources=(
                partial(work_item_sources, self._work_items),
                partial(task_sources, self._commands.tasks, order.run_id),
            ),
        )
        self._agents = AgentPlaneTools(
            state / "agents.db",
            self._commands.tasks,
            program=program,
            has_runs=True,
            templates=order.children,
            workspaces=self._workspaces,
            work_items=self._work_items,
            **_identify(child),
        )
        files = FileTools(self._workspaces, artifacts.open)
        web = WebTools(_read_network(order.policy.network_rules or NetworkRules()), order.searches)
        groups = (self._commands, files, self._workspaces, self._work_items, self._memory, web, self._agents)
        self.tools: tuple[Tool, ...] = tuple(tool for group in groups for tool in group.tools())
        if program is None and child is None:
            self.tools = tuple(
                replace(tool, unavailable=NO_CHILDREN) if tool.name == "SpawnAgent" else tool for tool in self.tools
            )

    def worktrees(self) -> dict[str, Path]:
        return self._workspaces.worktrees()

    def has_background(self) -> bool:
        """True while a task goes on, whose changes cannot be told from those of a call."""
        return bool(self._commands.tasks.active())

    def stop_children(self) -> None:
        self._agents.close(CHILD_END_S)

    def close(self) -> None:
        """Ends every child and command, waits for them, and remembers what came of them."""
        self.stop_children()
        self._commands.close()
        try:
            self._memory.read_sources()
        except (sqlite3.Error, OSError) as error:
            logger.warning("the work of this run could not be stored in the memory of its workspace: %s", error)
        self._workspaces.close()
        self._work_items.close()
        self._memory.close()
        shutil.rmtree(self._running, ignore_errors=True)


def _identify(child: ChildAgent | None) -> dict[str, Any]:
    if child is None:
        return {}
    return {"agent_id": child.agent_id, "profile": child.profile, "parent_agent_id": child.parent_agent_id}


def _read_network(rules: NetworkRules) -> WebPolicy:
    return WebPolicy(
        is_enabled=rules.enabled,
        private_hosts=frozenset(host.lower() for host in rules.private_hosts),
        denied_hosts=frozenset(host.lower() for host in rules.denied_hosts),
    )


Approve: TypeAlias = Callable[[ConfirmationRequest], Decision | None]


@dataclass(frozen=True, kw_only=True)
class PlanOrder:
    """A plan that is to be run. `approve` asks for its confirmation; None: an operator decides on the pages.

    `approve` is asked again and again until it returns a decision, and must not wait long: meanwhile nothing is
    imported. `on_waiting` is told the run whose page waits for a decision. `children` are the plans of child agents by
    the templates that SpawnAgent names. `home` is the workspace whose work items and memory are used.
    """

    plan: ActionPlan
    workspace: Path
    approve: Approve | None = None
    expiry_s: float = EXPIRY_S
    policy: RunPolicy = POLICY
    run_id: str = field(default_factory=lambda: str(uuid4()))
    replay_of: str | None = None
    searches: tuple[SearchProvider, ...] = ()
    children: Mapping[str, ActionPlan] = field(default_factory=dict)
    home: Path | None = None
    on_waiting: Callable[[UUID], None] = lambda _run: None

    @property
    def folder(self) -> Path:
        """The records of the run."""
        return plan_folder(self.run_id)

    @property
    def state(self) -> Path:
        """The folder with the work items, the memory and the worktrees of the workspace."""
        root = str((self.home or self.workspace).resolve()).encode("utf-8", "surrogateescape")
        return plans_root() / "workspaces" / hashlib.sha256(root).hexdigest()[:16]

    def for_child(self, child: ChildAgent) -> PlanOrder:
        """The order of the plan that the child's template names; the only one may stay unnamed. Raises ToolFailed."""
        names = [child.template] if child.template else list(self.children)
        if len(names) != 1:
            hint = f"name one of {', '.join(self.children)}"
            raise ToolFailed("invalid_tool_input", "no template was named", recovery_hint=hint)
        return replace(
            self,
            plan=self.children[names[0]],
            workspace=child.root,
            run_id=child.run_id,
            replay_of=None,
            children={},
            home=self.home or self.workspace,
        )


def run_plan(project: Project, order: PlanOrder, on_start: Callable[[Executor], None] = lambda _: None) -> RunResult:
    """Runs the plan, in the main thread of a command.

    `on_start` gets the executor, whose `cancel` ends the run. Raises PlanRejected with every fault of the plan before
    anything is recorded, FileExistsError where the id was used before, and what ended a run that could not be recorded
    or imported; its folder stays.
    """
    started: SimpleQueue[_PlanRunImport] = SimpleQueue()
    artifacts = RunArtifacts(order.folder)
    program = partial(_run_child, project, order, started) if order.children else None
    with _open_executor(order, artifacts, program) as (executor, tools):
        if faults := tuple(_find_faults(executor, order)):
            raise PlanRejected(faults)
        with hold_folder(order.folder):
            recorder = FileRecorder(order.folder, artifacts)
            on_start(executor)
            return _PlanRunImport(project, order, executor, recorder).run(started, tools.stop_children)


def _find_faults(executor: Executor, order: PlanOrder) -> Iterator[PlanFault]:
    """Also those of the plans of its children, which are checked before anything runs."""
    yield from executor.check(order.plan)
    for name, plan in order.children.items():
        for fault in executor.check(plan, {MESSAGE: ""}):
            yield msgspec.structs.replace(fault, step_id=f"child {name}, {fault.step_id or 'plan'}")


def _run_child(project: Project, order: PlanOrder, started: SimpleQueue[_PlanRunImport], child: ChildAgent) -> str:
    """The program of a child agent: runs its plan on the thread of its task, and returns the report."""
    own = order.for_child(child)
    artifacts = RunArtifacts(own.folder)
    with _open_executor(own, artifacts, child=child) as (executor, _tools), hold_folder(own.folder):
        run = _PlanRunImport(project, own, executor, FileRecorder(own.folder, artifacts))
        started.put(run)
        return run.execute_as(child)


@contextmanager
def _open_executor(
    order: PlanOrder, artifacts: RunArtifacts, program: Program | None = None, child: ChildAgent | None = None
) -> Iterator[tuple[Executor, WorkspaceTools]]:
    root = order.workspace.resolve()
    tools = WorkspaceTools(order, artifacts, program, child)
    try:
        executor = Executor(
            tools.tools,
            order.policy,
            confirm_timeout_ms=int(order.expiry_s * 1_000),
            scan=lambda before: scan_folders(root, tools.worktrees(), before),
            has_background=tools.has_background,
            folder=visible(str(root)),
        )
        yield executor, tools
    finally:
        tools.close()


class _PlanRunImport:
    """One run: the executor on its thread, everything else on the main one."""

    def __init__(self, project: Project, order: PlanOrder, executor: Executor, recorder: FileRecorder) -> None:
        self._project, self._order, self._executor, self._recorder = project, order, executor, recorder
        self._key = run_id(project.pk, NAMESPACE, order.run_id)
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._requests: SimpleQueue[ConfirmationRequest] = SimpleQueue()
        self._answers: SimpleQueue[Decision | None] = SimpleQueue()
        self._request: ConfirmationRequest | None = None  # that waits for its decision
        self._next_import = 0.0
        self._is_cancelled = self._is_over = False
        executor.confirm = self._confirm

    def run(self, started: SimpleQueue[_PlanRunImport], stop_children: Callable[[], None]) -> RunResult:
        """Runs the plan on a thread; `started` gets the runs of its children, which end with it."""
        thread = threading.Thread(target=self._execute, name="plan", daemon=True)
        thread.start()
        children: list[_PlanRunImport] = []
        try:
            while thread.is_alive():
                self._look_and_survive()
                children = _look_at(children, started)
                thread.join(POLL_SECONDS)
        except BaseException:
            self._executor.cancel()
            raise
        stop_children()
        for child in (*children, *_take_all(started)):
            child._close()
        self._close()
        if self._error is not None:
            raise self._error
        assert self._result is not None  # the executor returns a result or raises
        return self._result

    def execute_as(self, child: ChildAgent) -> str:
        """Runs the plan of a child on this thread, and returns its report."""
        try:
            return run_child_plan(child, self._executor, self._order.plan, self._recorder)
        finally:
            self._is_over = True
            self._answers.put(None)

    def _execute(self) -> None:
        order = self._order
        try:
            self._result = self._executor.run(
                order.plan, self._recorder, run_id=order.run_id, replay_of=order.replay_of
            )
        except BaseException as error:
            self._error = error
        finally:
            self._answers.put(None)  # ends a wait for a decision that nobody needs any more

    def _close(self) -> None:
        """Imports the last records."""
        self._import()
        record_end(self._key)

    def _confirm(self, request: ConfirmationRequest) -> Decision:
        """Runs on a worker of the executor, which stops waiting for it when the request expires."""
        self._requests.put(request)
        decision = self._answers.get()
        if decision is None:
            raise RuntimeError("the run ended before anybody decided")
        return decision

    def _look_and_survive(self) -> None:
        """An outage of the store does not end the plan."""
        try:
            self._look()
        except (Error, OSError) as error:
            if (outage := find_outage(error)) is None:
                raise
            logger.warning("%s; the plan goes on, and is imported later: %s", outage.title, error)
            drop_connection()

    def _look(self) -> None:
        """Imports what is new, and passes on what people decided."""
        if time.monotonic() >= self._next_import:
            self._import()
            renew_lease(self._key)
            self._next_import = time.monotonic() + IMPORT_SECONDS
        if self._request is None and not self._requests.empty():
            self._request = self._requests.get()
            self._import()  # the page of a decision shows the plan as it is recorded
            renew_lease(self._key)
            is_on_terminal = self._order.approve is not None
            request_decision(self._key, self._request, self._order.expiry_s, is_on_terminal=is_on_terminal)
            self._order.on_waiting(self._key)
        if self._request is not None and (decision := self._find_decision(self._request)) is not None:
            record_decision(self._project, self._key, self._order.run_id, decision)
            self._answers.put(decision)
            self._request, self._next_import = None, 0.0
        if not self._is_cancelled and is_cancel_requested(self._key):
            self._is_cancelled = True
            self._executor.cancel()

    def _find_decision(self, request: ConfirmationRequest) -> Decision | None:
        return load_decision(self._key) if self._order.approve is None else self._order.approve(request)

    def _import(self) -> None:
        """The run.json of a run may not be there yet in the first moment."""
        if (self._order.folder / RUN_FILE).exists():
            import_paths(self._project, [self._order.folder], retry=Retry.NOTHING)


def _look_at(children: Iterable[_PlanRunImport], started: SimpleQueue[_PlanRunImport]) -> list[_PlanRunImport]:
    """Looks at the children that run, and closes those that are over; returns the others."""
    left = []
    for child in (*children, *_take_all(started)):
        is_over = child._is_over  # before its last records are imported
        child._look_and_survive()
        if is_over:
            child._close()
        else:
            left.append(child)
    return left


def _take_all(started: SimpleQueue[_PlanRunImport]) -> Iterator[_PlanRunImport]:
    while not started.empty():
        yield started.get()
