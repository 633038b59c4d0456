"""Random plans with random failures, timeouts and cancels: what holds for every run (see `check_invariants`)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from envelopes.plan.steps import WITH_DATA, find_dependencies
from envelopes.plan.tool_answers import Tool, ToolFailed
from tests.envelopes.plan.simulation import (
    HANG,
    Ran,
    Simulation,
    Value,
    approve,
    echo,
    make_plan,
    make_policy,
    make_tool,
    run_plan,
)

KINDS = ("rate_limited", "missing_file", "network_failed", "command_timed_out", "cancelled", "invalid_url")
# What one call of a tool does: how many milliseconds it takes, and how it ends.
ACTIONS = st.tuples(
    st.sampled_from([0, 1, 40, 90, 150, HANG]), st.sampled_from([None, None, None, *KINDS, "raise", "shape", "stop"])
)
SCRIPTS = st.lists(ACTIONS, min_size=4, max_size=14)
ON_ERROR = st.sampled_from([None, "stop", "skip", "retry"])
RETRY = st.none() | st.builds(
    lambda attempts, backoff: {"maxAttempts": attempts, "backoffMs": backoff},
    st.integers(1, 4),
    st.sampled_from([0, 20, 300]),
)
TOOLS = st.sampled_from(["Read", "Write", "Stubborn", "Parallel"])
TIMEOUT_MS = 100


class World:
    """Tools that do what a script says, one action a call; without a script they succeed."""

    def __init__(self, script: list[Any]) -> None:
        self.time, self._script = Simulation(), list(script)
        self.writing: list[str] = []

    def tools(self) -> list[Tool]:
        fields: dict[str, dict[str, Any]] = {
            "Read": {},
            "Write": {"risk": "writes"},
            "Stubborn": {"risk": "commands", "cancellable": False},
            "Parallel": {"risk": "writes", "parallel_safe": True, "retry_on_timeout": False},
        }
        return [make_tool(name, self._act, timeout_ms=TIMEOUT_MS, **known) for name, known in fields.items()]

    def _act(self, given: Value, context: Any) -> Any:
        takes, ending = self._script.pop(0) if self._script else (0, None)
        self.time.take(takes, stops_on_cancel=ending == "stop")
        match ending:
            case "raise":
                raise OSError("no disk")
            case "shape":
                return 42
            case None | "stop":
                return echo(given, context)
        raise ToolFailed(ending, f"failed with {ending}")


class RandomRuns(RuleBasedStateMachine):
    """Rules add steps to a plan; another runs it. The same plan runs again with other actions."""

    steps = Bundle("steps")

    @initialize(
        target=steps,
        tool=TOOLS,
        default=ON_ERROR,
        script=SCRIPTS,
        cancel_after=st.integers(0, 500),
        most=st.integers(50, 400),
        confirms=st.booleans(),
    )
    def begin(
        self, tool: str, default: str | None, script: list[Any], cancel_after: int, most: int, *, confirms: bool
    ) -> str:
        self.plan: list[dict[str, Any]] = []
        self.defaults = {} if default is None else {"onError": default}
        self.script, self.cancel_after, self.most, self.confirms = script, cancel_after, most, confirms
        return self._add(tool, None, None, args={"value": [1, 2, 3]})

    def teardown(self) -> None:
        """Every plan runs: without a limit, cancelled, and with a deadline of the run."""
        for cancel_after, most in ((None, None), (self.cancel_after, None), (None, self.most)):
            self.run(script=self.script, cancel_after=cancel_after, most=most, confirms=self.confirms)

    def _add(self, tool: str, on_error: str | None, retry: Any, **fields: Any) -> str:
        step_id = f"s{len(self.plan)}"
        members = {"id": step_id, "tool": tool, "onError": on_error, "retry": retry, **fields}
        self.plan.append({name: value for name, value in members.items() if value is not None})
        return step_id

    @rule(target=steps, tool=TOOLS, on_error=ON_ERROR, retry=RETRY, length=st.integers(0, 4))
    def add_step(self, tool: str, on_error: str | None, retry: Any, length: int) -> str:
        return self._add(tool, on_error, retry, args={"value": list(range(length))})

    @rule(target=steps, tool=TOOLS, on_error=ON_ERROR, retry=RETRY, first=steps, second=steps, uses=st.booleans())
    def add_dependent(self, tool: str, on_error: str | None, retry: Any, first: str, second: str, *, uses: bool) -> str:
        args = {"value": f"$steps.{second}"} if uses else {}
        return self._add(tool, on_error, retry, dependsOn=[first], args=args)

    @rule(target=steps, tool=TOOLS, on_error=ON_ERROR, retry=RETRY, source=steps, concurrency=st.integers(1, 4))
    def add_foreach(self, tool: str, on_error: str | None, retry: Any, source: str, concurrency: int) -> str:
        """The source may be no list at run time: then the step fails without a call."""
        path = "items" if "foreach" in next(step for step in self.plan if step["id"] == source) else "value"
        foreach = {"from": f"$steps.{source}.{path}", "itemName": "n", "concurrency": concurrency}
        return self._add(tool, on_error, retry, foreach=foreach, args={"value": "{n}"})

    @rule(
        script=SCRIPTS,
        cancel_after=st.none() | st.integers(0, 500),
        most=st.none() | st.integers(50, 400),
        confirms=st.booleans(),
    )
    def run_again(self, script: list[Any], cancel_after: int | None, most: int | None, *, confirms: bool) -> None:
        self.run(script=script, cancel_after=cancel_after, most=most, confirms=confirms)

    def run(self, script: list[Any], cancel_after: int | None, most: int | None, *, confirms: bool) -> None:
        world = World(script)
        limits = {} if most is None else {"max_run_ms": most}
        ran = run_plan(
            make_plan(*self.plan, defaults=self.defaults),
            *world.tools(),
            simulation=world.time,
            policy=make_policy(confirm=confirms, **limits),
            confirm=approve,
            cancel_after=cancel_after,
        )
        check_order(ran)
        check_writers(ran)
        check_end(ran)
        if most is not None:
            assert world.time.time <= most / 1_000 + 0.01


def check_order(ran: Ran) -> None:
    """No call begins before the steps that its step depends on ended with data."""
    dependencies = find_dependencies(ran.plan)
    order = [event.step_id for event in ran.events("step.started")]
    ends = ran.ends
    for step_id, needed in dependencies.items():
        if step_id in order:
            assert all(ends[name] in WITH_DATA for name in needed)
            assert all(order.index(step_id) > max(_places(order, name), default=-1) for name in needed)


def _places(order: list[str | None], name: str) -> list[int]:
    return [place for place, step_id in enumerate(order) if step_id == name]


def check_writers(ran: Ran) -> None:
    """A tool that writes runs alone, unless it is parallel-safe; no foreach passes its concurrency."""
    running: set[str] = set()
    concurrency = {step.id: step.foreach.concurrency if step.foreach else 1 for step in ran.plan.steps}
    for event in ran.events("step.started", "step.finished", "step.failed"):
        if event.call_id is None:
            continue
        if event.type == "step.started":
            running.add(event.call_id)
            alone = 1 if event.tool in ("Write", "Stubborn") else concurrency[event.step_id or ""]
            assert len(running) <= alone
        else:
            running.discard(event.call_id)
    writers = sum(call.risk_level != "read-only" for call in ran.recorder.calls)
    pre = sum(result.phase == "pre_dispatch" for result in ran.recorder.results)
    assert len(ran.recorder.commits) >= writers - pre


def check_end(ran: Ran) -> None:
    """Nothing of another step starts once a failure stopped the run; a promised retry comes unless the run ended."""
    stopping = [
        state.step_id for state in ran.result.steps
        if state.end in ("error", "cancelled") and _on_error(ran, state.step_id) != "skip"
    ]  # fmt: skip
    order = [state.step_id for state in ran.result.steps]
    if stopping:
        behind = order[order.index(stopping[0]) + 1 :]
        assert not [call for call in ran.recorder.calls if call.step_id in behind]
    promised = [event for event in ran.events("step.failed") if (event.payload or {}).get("willRetry")]
    attempts = [call for call in ran.recorder.calls if call.attempt > 1]
    if ran.result.end == "finished" and not stopping:
        assert len(promised) == len(attempts)
    assert len(promised) >= len(attempts)


def _on_error(ran: Ran, step_id: str) -> str:
    step = next(step for step in ran.plan.steps if step.id == step_id)
    return step.on_error or ran.plan.defaults.on_error or "stop"


def hunt(examples: int, steps: int, *, derandomize: bool = False) -> None:
    suppressed = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        RandomRuns,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            suppress_health_check=suppressed,
        ),
    )


def test_every_invariant_holds_over_random_plans_failures_timeouts_and_cancels() -> None:
    hunt(25, 8, derandomize=True)  # the same plans in every run; the extended one looks for others


@pytest.mark.extended
def test_every_invariant_holds_over_many_random_plans() -> None:
    hunt(400, 25)
