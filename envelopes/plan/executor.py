"""Runs a plan: check, confirmation, steps in their order, attempts, deadlines, cancellation, records.

    Executor     the tools, the policy and the surroundings of its runs; `check`, `run` and `cancel`
    RunResult    how each step ended, and the outputs

Steps run one after the other, in the order of their dependencies (OD-1); the iterations of a foreach run side by side
where plan, policy and tool allow it (OD-16). What happens is written to the recorder as it happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec

from envelopes.codecs import call as codec
from envelopes.plan.checks import PlanFault, PlanRejected, check_plan, effective_risk
from envelopes.plan.confirmation import CHANGES, Confirm, ask, build_request, covers
from envelopes.plan.dispatch import GRACE_MS, Dispatcher, Environment, EventLog, RunClock
from envelopes.plan.effects import EffectsObserver, FolderSnapshot
from envelopes.plan.gates import Admitted, Gates, Hook, allow
from envelopes.plan.policy import check_tool
from envelopes.plan.recorders import MemoryRecorder, ParentCall, Recorder, RunEnd, RunHeader
from envelopes.plan.redaction import redact_plan
from envelopes.plan.references import Scope, UnresolvedReference
from envelopes.plan.sandbox import check_sandbox
from envelopes.plan.schema import ActionPlan, ContextRequest, Step, plan_document
from envelopes.plan.step_attempts import StepRounds
from envelopes.plan.steps import (
    WITH_DATA,
    RunContext,
    StepEnd,
    build_calls,
    find_dependencies,
    on_error,
    order_steps,
    unmet_dependencies,
)
from envelopes.plan.tool_answers import Tool
from envelopes.plan.verify import StepState
from envelopes.plan.workers import Workers
from envelopes.schema.call import EventType, RunPolicy, ToolCall
from envelopes.schema.result import ToolError
from envelopes.schema.tool import ToolDefinition
from envelopes.text.canonical_json import NotCanonical, named_hash

EXECUTOR_VERSION = "1.0"
MISSING_CONFIRMATION = "confirmation_missing"


ContextSource: TypeAlias = Callable[[ContextRequest], Any]  # None: it cannot be met


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are in the order of execution. `end` is "cancelled" also for a run that nobody confirmed."""

    run_id: str
    end: RunEnd
    steps: tuple[StepState, ...]
    reason: str = ""

    @property
    def is_ok(self) -> bool:
        return self.end == "finished" and all(step.end == "ok" for step in self.steps)

    def outputs(self) -> dict[str, Any]:
        """The values of `$steps`, by the id of the step."""
        return {step.step_id: step.output for step in self.steps if step.end in WITH_DATA}


@dataclass
class Executor:
    """Runs plans with these tools under this policy.

    `confirm` is asked once a run that writes, on a worker, for at most `confirm_timeout_ms`. `scan` gives the snapshots
    that effects are observed by, and `has_background` tells whether tasks go on (`envelopes.plan.effects`). `context`
    meets the plan's context requests, whose values become the variables of their kinds. `jitter` shortens each wait by
    up to this share of it. `folder` is where the tools work, which is recorded and shown before a confirmation. One
    executor runs one plan at a time.

    >>> from envelopes import Limits, RunPolicy, Sandbox, builtin
    >>> from envelopes.plan.schema import read_plan
    >>> family, definition = builtin("WebSearch")
    >>> def run(given, context):
    ...     return {"query": given.query, "provider": "own", "fetched_at": "2026-01-05T10:00:00Z"}
    >>> search = Tool(definition, run, family)
    >>> policy = RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits())
    >>> plan = read_plan({"version": "1.0", "goal": "Look it up", "riskLevel": "read-only", "steps": [
    ...     {"id": "look", "tool": "WebSearch", "args": {"query": "canonical JSON"}},
    ... ]})
    >>> Executor([search], policy).run(plan).is_ok
    True
    """

    tools: Iterable[Tool]
    policy: RunPolicy
    confirm: Confirm | None = None
    confirm_timeout_ms: int | None = None
    pre_hook: Hook = allow
    approve_write: Hook = allow
    allow_tool: Callable[[ToolCall, ToolDefinition], ToolError | None] = lambda _call, _tool: None
    context: ContextSource = lambda _request: None
    scan: Callable[[FolderSnapshot | None], FolderSnapshot] | None = None
    has_background: Callable[[], bool] = lambda: False
    environment: Environment = field(default_factory=Environment)
    jitter: float = 0.0
    grace_ms: int = GRACE_MS
    folder: str | None = None
    planner_version: str | None = None
    tool_registry_version: str = "1.0"

    def __post_init__(self) -> None:
        self.by_name = {tool.name: tool for tool in self.tools}
        self._run: _PlanRun | None = None
        self._cancelled = threading.Event()

    def registry(self, name: str) -> ToolDefinition | None:
        tool = self.by_name.get(name)
        return tool.definition if tool else None

    def check(self, plan: ActionPlan, variables: Mapping[str, Any] | None = None) -> tuple[PlanFault, ...]:
        """Every fault of the plan; it runs only when there is none."""
        internal = {*(variables or {}), *(request.kind for request in plan.context_requests)}
        unavailable = {tool.name: tool.unavailable for tool in self.by_name.values() if tool.unavailable}
        return check_plan(
            plan, self.registry, self.policy.limits, internal=internal, names=self.by_name, unavailable=unavailable
        )

    def run(
        self,
        plan: ActionPlan,
        recorder: Recorder | None = None,
        *,
        run_id: str | None = None,
        variables: Mapping[str, Any] | None = None,
        replay_of: str | None = None,
        parent: ParentCall | None = None,
    ) -> RunResult:
        """Runs a plan to its end; `parent` is the call that started it.

        Raises PlanRejected, before anything is recorded, and what the recorder raises.
        """
        if faults := self.check(plan, variables):
            raise PlanRejected(faults)
        workers = self.environment.make_workers()
        origin = {"replay_of": replay_of, "parent": parent}
        run = _PlanRun(self, plan, recorder or MemoryRecorder(), workers, run_id, dict(variables or {}), origin)
        self._run = run
        try:
            return run.execute(self._cancelled)
        except BaseException:
            if callable(release := getattr(run.recorder, "release", None)):
                release()  # the files of a run that could not be recorded
            raise
        finally:
            self._run = None
            self._cancelled.clear()
            if callable(close := getattr(workers, "close", None)):
                close()

    def cancel(self) -> None:
        """Ends the run that is going on, from any thread (OD-27); without one, the next run at its start."""
        self._cancelled.set()
        if (run := self._run) is not None:
            run.workers.wake()


class _PlanRun:
    """One run of a plan."""

    def __init__(
        self,
        executor: Executor,
        plan: ActionPlan,
        recorder: Recorder,
        workers: Workers,
        run_id: str | None,
        variables: dict[str, Any],
        origin: dict[str, Any],
    ) -> None:
        environment, policy = executor.environment, executor.policy
        self.executor, self.plan, self.recorder, self.workers = executor, plan, recorder, workers
        self.clock = RunClock(environment)
        self.risk = effective_risk(plan, executor.registry)
        written, redactions = redact_plan(plan, executor.registry)
        self.header = RunHeader(
            run_id=run_id or environment.new_id(),
            title=plan.ui_hints.title or plan.goal,
            plan=written,
            plan_hash=named_hash(plan_document(plan)),
            policy=policy,
            policy_hash=named_hash(codec.encode_policy(policy)),
            planner_version=executor.planner_version,
            executor_version=EXECUTOR_VERSION,
            tool_registry_version=executor.tool_registry_version,
            redactions=redactions,
            cwd=executor.folder,
            started_at=self.clock.stamp(),
            **origin,
        )
        self.log = EventLog(self.header.run_id, recorder, self.clock)
        self.scope = Scope(vars=variables)
        self.states: dict[str, StepState] = {}
        self.is_stopped = self.is_refused = False
        self.reason = ""

    def execute(self, cancelled: threading.Event) -> RunResult:
        self.cancelled = cancelled
        self.recorder.open(self.header)
        self.log.emit("run.started", self.plan.goal, payload={"risk": self.risk, "steps": len(self.plan.steps)})
        self.dispatcher = self._make_dispatcher()
        if self._meet_context():
            self.is_refused = not self._is_confirmed()
        self._run_steps()
        return self._end()

    def _make_dispatcher(self) -> Dispatcher:
        executor, limits = self.executor, self.header.policy.limits
        gates = Gates(
            registry=executor.registry,
            deadline_s=None if limits.max_run_ms is None else self.clock.now() + limits.max_run_ms / 1_000,
            clock=self.clock.now,
            policy=lambda call, tool: check_tool(tool, call.policy) or executor.allow_tool(call, tool),
            sandbox=self._check_paths,
            pre_hook=executor.pre_hook,
            confirmation=self._check_confirmation,
            approve_write=executor.approve_write,
        )
        return Dispatcher(
            tools=executor.by_name,
            gates=gates,
            log=self.log,
            recorder=self.recorder,
            workers=self.workers,
            clock=self.clock,
            observer=None if executor.scan is None else EffectsObserver(executor.scan, executor.has_background),
            grace_ms=executor.grace_ms,
            is_cancelled=self.cancelled.is_set,
        )

    # What precedes the steps

    def _meet_context(self) -> bool:
        """Sets a variable for each context request (OD-34). One that is not met ends the run without a call."""
        values: dict[str, Any] = {}
        for request in self.plan.context_requests:
            values[request.kind] = self.executor.context(request)
        self.scope = replace(self.scope, vars={**self.scope.vars, **values})
        if self.scope.vars:
            self.header = msgspec.structs.replace(self.header, variables=dict(self.scope.vars))
            self.recorder.open(self.header)
        if unmet := [kind for kind, value in values.items() if value is None]:
            self.reason = f"PRECONDITION_FAILED: the plan needs {', '.join(unmet)}"
            self.is_stopped = True
        return not unmet

    def _is_confirmed(self) -> bool:
        """Asks for the confirmation where the policy requires one (OD-24). False: it was refused, no call is made.

        Where nobody can be asked, the steps that read run, and the gate refuses each call that writes.
        """
        policy, confirm = self.header.policy, self.executor.confirm
        is_asked = policy.confirmations_required and self.risk != "read-only" and not self.cancelled.is_set()
        if confirm is None or not is_asked:
            return True
        request = build_request(self.header, self.plan, self.risk)
        hashes = {"planHash": request.plan_hash, "policyHash": request.policy_hash}
        payload = {"risk": self.risk, "preview": request.preview, **hashes}
        self.log.emit("run.confirmationRequested", f"the plan {CHANGES[self.risk]}: confirm it", payload=payload)
        self.recorder.commit()
        answer = ask(
            confirm,
            request,
            self.workers,
            self.clock.steady,
            timeout_ms=self.executor.confirm_timeout_ms,
            is_cancelled=self.cancelled.is_set,
        )
        confirmation = msgspec.structs.replace(
            answer, confirmation_id=self.executor.environment.new_id(), at=self.clock.stamp()
        )
        self.header = msgspec.structs.replace(self.header, confirmation=confirmation)
        self.recorder.open(self.header)
        if confirmation.decision != "approved":
            self.reason = f"the plan was not confirmed: {confirmation.reason or confirmation.decision}"
            return False
        payload = {"confirmationId": confirmation.confirmation_id, "actor": confirmation.actor, **hashes}
        self.log.emit("run.confirmed", f"confirmed by {confirmation.actor}", payload=payload)
        return True

    def _check_paths(self, call: ToolCall, admitted: Admitted) -> ToolError | None:
        paths = self.executor.by_name[call.tool].find_paths(admitted.input)
        return check_sandbox(admitted.tool, admitted.args, call.policy.sandbox, paths)

    def _check_confirmation(self, call: ToolCall, _admitted: Admitted) -> ToolError | None:
        """The gate before each call that writes: the confirmation of this very plan and policy (OD-24)."""
        if not self.header.policy.confirmations_required or covers(self.header, call.confirmation_id):
            return None
        return ToolError(
            kind="write_denied",
            message=f"{call.tool} needs a confirmation of the plan, and there is none",
            details={"reason": MISSING_CONFIRMATION},
            recovery_hint="run the plan where an operator can confirm it",
            retryable=False,
        )

    # The steps

    def _run_steps(self) -> None:
        dependencies = find_dependencies(self.plan, self.scope.vars)
        for step in order_steps(self.plan, self.scope.vars):
            ends = {name: state.end for name, state in self.states.items() if state.end is not None}
            if unmet := unmet_dependencies(dependencies[step.id], ends):
                self._skip(step, unmet)
            elif self.cancelled.is_set() or self.is_refused:
                self.states[step.id] = StepState(step_id=step.id, end="cancelled")
            elif self.is_stopped:
                self.states[step.id] = StepState(step_id=step.id, end=None)
            else:
                self._run_step(step)

    def _skip(self, step: Step, unmet: tuple[str, ...]) -> None:
        self.states[step.id] = StepState(step_id=step.id, end="skipped")
        payload = {"status": "skipped", "reason": "dependency_not_ok", "dependencies": list(unmet)}
        message = f"skipped, because {', '.join(unmet)} did not end ok"
        self.log.emit("step.finished", message, level="warn", step_id=step.id, tool=step.tool, payload=payload)

    def _run_step(self, step: Step) -> None:
        tool = self.executor.by_name[step.tool]
        try:
            calls = build_calls(step, tool.definition, self.scope, self._run_context())
        except (UnresolvedReference, NotCanonical) as error:
            payload = {"status": "error", "code": "VALIDATION_ERROR", "willRetry": False}
            self.log.emit("step.failed", str(error), level="error", step_id=step.id, tool=step.tool, payload=payload)
            self._keep(step, "error", None, ())
            return
        if not calls:
            payload = {"status": "ok", "iterations": 0}
            self.log.emit("step.finished", "nothing to do", step_id=step.id, tool=step.tool, payload=payload)
        rounds = StepRounds(
            dispatcher=self.dispatcher,
            step=step,
            tool=tool.definition,
            calls=calls,
            defaults=self.plan.defaults,
            limits=self.header.policy.limits,
            environment=self.executor.environment,
            jitter=self.executor.jitter,
            cancelled=self.cancelled,
        )
        rounds.run()
        end, output = rounds.end_and_output()
        self._keep(step, end, output, tuple(rounds.call_ids))

    def _keep(self, step: Step, end: StepEnd, output: Any, call_ids: tuple[str, ...]) -> None:
        self.states[step.id] = StepState(step_id=step.id, end=end, output=output, call_ids=call_ids)
        if end in WITH_DATA:
            captured = {step.capture_as: output} if step.capture_as else {}
            self.scope = Scope({**self.scope.steps, step.id: output}, {**self.scope.vars, **captured})
        elif on_error(step, self.plan.defaults) != "skip":
            self.is_stopped = True

    def _run_context(self) -> RunContext:
        header = self.header
        return RunContext(
            run_id=header.run_id,
            policy=header.policy,
            executor_version=header.executor_version,
            tool_registry_version=header.tool_registry_version,
            planner_version=header.planner_version,
            confirmation_id=None if header.confirmation is None else header.confirmation.confirmation_id,
            new_id=self.executor.environment.new_id,
            now=self.clock.stamp,
        )

    def _end(self) -> RunResult:
        is_cancelled = self.cancelled.is_set() or self.is_refused
        observer = self.dispatcher.observer
        shared = () if observer is None else observer.close()
        payload: dict[str, Any] = {"steps": {name: state.end for name, state in self.states.items()}}
        if self.reason:
            payload["reason"] = self.reason
        failed = [name for name, state in self.states.items() if state.end not in WITH_DATA]
        partial = [name for name, state in self.states.items() if state.end == "partial"]
        ended = f"ended without data: {', '.join(failed)}" if failed else ""
        in_part = f"some rounds failed: {', '.join(partial)}" if partial else ""
        message = self.reason or "; ".join(filter(None, (ended, in_part))) or "all steps ended ok"
        kind: EventType = "run.cancelled" if is_cancelled else "run.finished"
        self.log.emit(kind, message, level="warn" if failed or partial or self.reason else "info", payload=payload)
        self.header = msgspec.structs.replace(
            self.header,
            end="cancelled" if is_cancelled else "finished",
            ended_at=self.clock.stamp(),
            shared_effects=shared,
        )
        self.recorder.close(self.header)
        end: RunEnd = "cancelled" if is_cancelled else "finished"
        return RunResult(run_id=self.header.run_id, end=end, steps=tuple(self.states.values()), reason=self.reason)
