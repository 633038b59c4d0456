"""Runs a plan with the built-in tools and shows it on the pages while it runs.

    run_plan          runs a plan to its end; what its records hold is imported every second and at the end
    PlanOrder         the plan, its workspace, its policy, and who confirms it
    WorkspaceTools    the built-in tools that really run, in one workspace

The executor works on a thread and writes its records to a folder of the data folder. The main thread alone uses the
database: it imports that folder by the one write path, renews the lease of the run, asks for the confirmation, and
looks for a cancel. A process that is killed leaves the folder, and a run whose lease passes: it is interrupted.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from uuid import UUID, uuid4

from django.db import Error

from dashboard.faults import drop_connection, find_outage
from dashboard.ingest.importer import Retry, import_paths
from dashboard.models import Project
from dashboard.models.runs import run_id
from dashboard.plans.decisions import (
    is_cancel_requested,
    load_decision,
    record_decision,
    record_end,
    renew_lease,
    request_decision,
)
from dashboard.plans.plan_folders import NAMESPACE, RUNNING, hold_folder, plan_folder, plans_root
from envelopes.plan.answers import Tool
from envelopes.plan.checks import PlanRejected
from envelopes.plan.confirmation import ConfirmationRequest, Decision
from envelopes.plan.effects import scan_folders
from envelopes.plan.executor import Executor, RunResult
from envelopes.plan.recorders import RUN_FILE, FileRecorder, RunArtifacts
from envelopes.plan.schema import ActionPlan
from envelopes.runtime.agents import AgentPlaneTools
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.memory import MemoryTools
from envelopes.runtime.web import SearchProvider, WebPolicy, WebTools
from envelopes.runtime.work_items import WorkItemTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.schema.call import Limits, NetworkRules, RunPolicy, Sandbox

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.25
IMPORT_SECONDS = 1.0
WITHOUT_PROGRAM = "SpawnAgent"  # a plan has no model that a child agent could run
EXPIRY_S = 3_600  # that an operator has to decide
POLICY = RunPolicy(
    confirmations_required=True, sandbox=Sandbox(enabled=True, allowed_roots=("/",)), limits=Limits(max_concurrency=4)
)


class WorkspaceTools:
    """The built-in tools in one workspace. `state` keeps the work items and the memory of that workspace.

    `running` holds the output of commands that run, and is removed at the end. `artifacts` takes large outputs.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        running: Path,
        artifacts: RunArtifacts,
        network: NetworkRules | None = None,
        searches: Iterable[SearchProvider] = (),
    ) -> None:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = root.name or "workspace"
        self._running = running
        self._workspaces = Workspaces({name: root}, folder=state / "worktrees")
        self._commands = CommandTools(self._workspaces, running, artifacts)
        self._work_items = WorkItemTools(root, state / "work-items.db", workspace_id=name)
        self._memory = MemoryTools(state / "memory.db", workspace_id=name)
        agents = AgentPlaneTools(
            state / "agents.db", self._commands.tasks, workspaces=self._workspaces, work_items=self._work_items
        )
        files, web = (
            FileTools(self._workspaces, artifacts.open),
            WebTools(_read_network(network or NetworkRules()), searches),
        )
        groups = (self._commands, files, self._workspaces, self._work_items, self._memory, web, agents)
        self.tools: tuple[Tool, ...] = tuple(
            tool for group in groups for tool in group.tools() if tool.name != WITHOUT_PROGRAM
        )

    def worktrees(self) -> dict[str, Path]:
        return self._workspaces.worktrees()

    def has_background(self) -> bool:
        """True while a task goes on, whose changes cannot be told from those of a call."""
        return bool(self._commands.tasks.active())

    def close(self) -> None:
        """Ends every command and waits for it."""
        self._commands.close()
        self._workspaces.close()
        self._work_items.close()
        self._memory.close()
        shutil.rmtree(self._running, ignore_errors=True)


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
    imported. `on_waiting` is told the run whose page waits for a decision.
    """

    plan: ActionPlan
    workspace: Path
    approve: Approve | None = None
    expiry_s: float = EXPIRY_S
    policy: RunPolicy = POLICY
    run_id: str = field(default_factory=lambda: str(uuid4()))
    replay_of: str | None = None
    searches: tuple[SearchProvider, ...] = ()
    on_waiting: Callable[[UUID], None] = lambda _run: None

    @property
    def folder(self) -> Path:
        """The records of the run."""
        return plan_folder(self.run_id)


def run_plan(project: Project, order: PlanOrder, on_start: Callable[[Executor], None] = lambda _run: None) -> RunResult:
    """Runs the plan, in the main thread of a command.

    `on_start` gets the executor, whose `cancel` ends the run. Raises PlanRejected with every fault of the plan before
    anything is recorded, FileExistsError where the id was used before, and what ended a run that could not be recorded
    or imported; its folder stays.
    """
    with _open_executor(order) as (executor, artifacts):
        if faults := executor.check(order.plan):
            raise PlanRejected(faults)
        with hold_folder(order.folder):
            recorder = FileRecorder(order.folder, artifacts)
            on_start(executor)
            return _PlanRun(project, order, executor, recorder).run()


@contextmanager
def _open_executor(order: PlanOrder) -> Iterator[tuple[Executor, RunArtifacts]]:
    root, artifacts = order.workspace.resolve(), RunArtifacts(order.folder)
    state = plans_root() / "workspaces" / hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    with ExitStack() as stack:
        running = plans_root() / RUNNING / order.run_id
        tools = WorkspaceTools(root, state, running, artifacts, order.policy.network_rules, order.searches)
        stack.callback(tools.close)
        executor = Executor(
            tools.tools,
            order.policy,
            confirm_timeout_ms=int(order.expiry_s * 1_000),
            scan=lambda before: scan_folders(root, tools.worktrees(), before),
            has_background=tools.has_background,
        )
        yield executor, artifacts


class _PlanRun:
    """One run: the executor on its thread, everything else on the main one."""

    def __init__(self, project: Project, order: PlanOrder, executor: Executor, recorder: FileRecorder) -> None:
        self._project, self._order, self._executor, self._recorder = project, order, executor, recorder
        self._key = run_id(project.pk, NAMESPACE, order.run_id)
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._requests: queue.SimpleQueue[ConfirmationRequest] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Decision | None] = queue.SimpleQueue()
        self._request: ConfirmationRequest | None = None  # that waits for its decision
        self._next_import = 0.0
        self._is_cancelled = False
        executor.confirm = self._confirm

    def run(self) -> RunResult:
        thread = threading.Thread(target=self._execute, name="plan", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                self._look_and_survive()
                thread.join(POLL_SECONDS)
        except BaseException:
            self._executor.cancel()
            raise
        self._import()
        record_end(self._key)
        if self._error is not None:
            raise self._error
        assert self._result is not None  # the executor returns a result or raises
        return self._result

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
            request_decision(self._key, self._request, self._order.expiry_s)
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
