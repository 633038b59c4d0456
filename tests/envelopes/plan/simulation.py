"""Plans run in simulated time, without threads and sleeps, and the invariants that every run keeps."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from envelopes.plan.confirmation import ConfirmationRequest, Decision
from envelopes.plan.dispatch import Environment
from envelopes.plan.executor import Executor, RunResult
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.schema import ActionPlan, read_plan
from envelopes.plan.steps import REDACTED
from envelopes.plan.tool_answers import Tool
from envelopes.plan.verify import RebuiltRun, rebuild_run
from envelopes.plan.workers import CallContext, Finished, Report
from envelopes.schema.call import ExecutionEvent, Limits, RunPolicy, Sandbox, ToolCall, check_events
from envelopes.schema.tool import ToolDefinition, ToolInput

START = 1_765_908_721.0  # 2025-12-16T18:12:01Z
HANG = float("inf")


class Simulation:
    """Time passes only while the executor waits. A tool runs at once and says how long it took.

    `take` is called by a tool; `after` plans an action, such as a cancel, for a later time.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Report | Callable[[], None]]] = []
        self._takes = 0.0
        self._running: dict[str, float] = {}
        self._stoppable: set[str] = set()
        self._stops = False
        self.most_running = 0
        self.cancelled: list[str] = []

    def environment(self) -> Environment:
        ids = count(1)
        return Environment(
            now=lambda: START + self.time,
            steady=lambda: self.time,
            new_id=lambda: f"id{next(ids)}",
            chance=lambda: 0.5,
            make_workers=lambda: self,
        )

    def take(self, ms: float, *, stops_on_cancel: bool = False) -> None:
        self._takes, self._stops = ms / 1_000, stops_on_cancel

    def after(self, ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.time + ms / 1_000, next(self._order), action))

    # What the executor calls

    def start(self, key: str, work: Callable[..., Any], *args: Any) -> None:
        self._takes, self._stops = 0.0, False
        try:
            finished = Finished(key, work(*args))
        except BaseException as error:
            finished = Finished(key, error=error)
        if self._stops:
            self._stoppable.add(key)
        at = self.time + self._takes
        self._running[key] = at
        self.most_running = max(self.most_running, sum(end > self.time for end in self._running.values()))
        if self._takes != HANG:
            heapq.heappush(self._due, (at, next(self._order), finished))

    def cancel(self, key: str) -> None:
        self.cancelled.append(key)
        if key in self._stoppable:
            self._due = [entry for entry in self._due if not (isinstance(entry[2], Finished) and entry[2].key == key)]
            heapq.heapify(self._due)
            error = RuntimeError("stopped")
            heapq.heappush(self._due, (self.time, next(self._order), Finished(key, error=error)))

    def wait(self, seconds: float | None) -> Report | None:
        until = HANG if seconds is None else self.time + max(seconds, 1e-6)
        if self._due and self._due[0][0] <= until:
            at, _, report = heapq.heappop(self._due)
            self.time = max(self.time, at)
            if callable(report):
                report()
                return None
            if isinstance(report, Finished):
                self._running.pop(report.key, None)
            return report
        assert seconds is not None, "nothing would end this wait"
        self.time = until
        return None

    def wake(self) -> None:
        """A wait ends at each action by itself."""

    def report(self, report: Report) -> None:
        heapq.heappush(self._due, (self.time, next(self._order), report))


class Value(ToolInput, frozen=True, kw_only=True):
    """Any JSON."""

    value: Any = None
    path: str | None = None
    number: int = 0
    secret: str | None = None


class Echoed(msgspec.Struct, frozen=True, kw_only=True):
    value: Any = None
    path: str | None = None
    number: int = 0


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    items: list[Echoed]
    count: int = 0


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"value": value}
    return value


def define(name: str, **fields: Any) -> ToolDefinition:
    known: dict[str, Any] = {
        "capability": "test",
        "planes": ("test",),
        "risk": "read-only",
        "description": "Does what the test says.",
        "input": Value,
        "result": (Echoed,),
    }
    return ToolDefinition(name=name, **known | fields)


def echo(given: Value, _context: CallContext) -> Echoed:
    return Echoed(value=given.value, path=given.path, number=given.number)


def listing(*paths: str) -> Callable[[Value, CallContext], Listed]:
    return lambda _given, _context: Listed(items=[Echoed(path=path) for path in paths], count=len(paths))


def make_tool(name: str, run: Callable[..., Any] = echo, **fields: Any) -> Tool:
    return Tool(define(name, **fields), run)


def step(step_id: str, tool: str = "Echo", args: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": step_id, "tool": tool, "args": args or {}, **fields}


def make_plan(*steps: dict[str, Any], risk: str = "commands", **fields: Any) -> ActionPlan:
    return read_plan({"version": "1.0", "goal": "Do it", "riskLevel": risk, "steps": list(steps), **fields})


def make_policy(*, confirm: bool = False, sandbox: Sandbox | None = None, **limits: int) -> RunPolicy:
    boxed = sandbox or Sandbox(enabled=False)
    return RunPolicy(confirmations_required=confirm, sandbox=boxed, limits=Limits(**limits))


def approve(request: ConfirmationRequest) -> Decision:
    return Decision(is_approved=True, actor="olga", plan_hash=request.plan_hash, policy_hash=request.policy_hash)


@dataclass
class Ran:
    plan: ActionPlan
    result: RunResult
    recorder: MemoryRecorder
    simulation: Simulation
    executor: Executor = field(repr=False)

    @property
    def ends(self) -> dict[str, str | None]:
        return {state.step_id: state.end for state in self.result.steps}

    def output(self, step_id: str) -> Any:
        return next(state.output for state in self.result.steps if state.step_id == step_id)

    def calls(self, step_id: str) -> list[ToolCall]:
        return [call for call in self.recorder.calls if call.step_id == step_id]

    def events(self, *types: str) -> list[ExecutionEvent]:
        return [event for event in self.recorder.events if not types or event.type in types]

    def rebuilt(self) -> RebuiltRun:
        recorder = self.recorder
        variables = recorder.header.variables if recorder.header else None
        return rebuild_run(self.plan, recorder.calls, recorder.results, recorder.events, variables)


def run_plan(
    plan: ActionPlan,
    *tools: Tool,
    simulation: Simulation | None = None,
    policy: RunPolicy | None = None,
    cancel_after: float | None = None,
    variables: dict[str, Any] | None = None,
    **settings: Any,
) -> Ran:
    """Runs a plan and checks what holds for every run."""
    time = simulation or Simulation()
    executor = Executor(tools, policy or make_policy(), environment=time.environment(), **settings)
    if cancel_after is not None:
        time.after(cancel_after, executor.cancel)
    recorder = MemoryRecorder()
    ran = Ran(plan, executor.run(plan, recorder, run_id="r1", variables=variables), recorder, time, executor)
    check_invariants(ran)
    return ran


def check_invariants(ran: Ran) -> None:
    """Every call has one result and its events, and the run is rebuilt from its records alone, without problems."""
    recorder = ran.recorder
    ids = [call.call_id for call in recorder.calls]
    assert sorted(ids) == sorted(result.call_id for result in recorder.results)
    assert max(Counter(ids).values(), default=0) <= 1
    assert check_events(recorder.events, ids) == []
    rebuilt = ran.rebuilt()
    assert rebuilt.problems == ()
    outputs = {state.step_id: state.output for state in ran.result.steps}
    assert {state.step_id: state.end for state in rebuilt.steps} == {
        state.step_id: state.end for state in ran.result.steps
    }
    for state in rebuilt.steps:  # a masked result is in no record
        assert state.output == outputs[state.step_id] or REDACTED in str(state.output)
    by_call = {result.call_id: result for result in recorder.results}
    for call in recorder.calls:
        result = by_call[call.call_id]
        code = result.error.code if result.error else None
        assert (result.status == "timeout") == (code == "TIMEOUT")
        assert (result.status == "cancelled") == (code == "CANCELLED")
        assert (result.status == "ok") == (result.error is None and result.data is not None)
    attempts: dict[tuple[str, int | None], list[int]] = {}
    for call in recorder.calls:
        index = call.iteration.index if call.iteration else None
        attempts.setdefault((call.step_id, index), []).append(call.attempt)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in attempts.values())
