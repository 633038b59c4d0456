"""Rebuilds a run from its records alone and reports where they contradict its plan (CALL-097; OD-31, "verify").

    rebuild_run   plan, calls, results and events -> how each step ended, its output, and the contradictions
    RebuiltRun    the outcome; without problems, the records prove the run that the plan describes

Nothing is dispatched. A step's arguments are resolved again from the plan and the results before it, and compared
with those of the recorded calls (OD-14, OD-19).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.calls import build_iterations
from envelopes.plan.confirmation_audit import audit_confirmations
from envelopes.plan.order import WITH_DATA, StepEnd, find_dependencies, order_steps, unmet_dependencies
from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.retries import on_error
from envelopes.plan.schema import ActionPlan, Defaults, OnError, Step
from envelopes.schema.call import Iteration, Limits, ToolCall, ToolResult
from envelopes.schema.event import ExecutionEvent
from envelopes.text.canonical_json import NotCanonical, named_hash

EndAndOutput: TypeAlias = tuple[StepEnd | None, Any]
_ENDS: dict[str, StepEnd] = {"ok": "ok", "skipped": "skipped", "cancelled": "cancelled"}


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a step, all its calls together, and its output.

    `end` is None for a step that the run did not reach, or whose last call has no result. `output` is the value
    of `$steps.<id>`: the data of its call, or for a foreach the items, their number and the failures.
    """

    step_id: str
    end: StepEnd | None
    output: Any = None
    call_ids: tuple[str, ...] = ()


class RebuiltRun(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are in the order of execution; each problem begins with the id of its call or step."""

    steps: tuple[StepState, ...]
    problems: tuple[str, ...]


def rebuild_run(
    plan: ActionPlan,
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    events: Sequence[ExecutionEvent] = (),
    internal: Mapping[str, Any] | None = None,
) -> RebuiltRun:
    """Rebuilds a run. `internal` are variables that the runtime set itself.

    Raises what `order_steps` raises for a plan that cannot run.
    """
    variables = dict(internal or {})
    dependencies = find_dependencies(plan, variables)
    rebuilder = _Rebuilder(calls, results, dependencies, Scope(vars=variables), plan.defaults)
    for step in order_steps(plan, variables):
        rebuilder.add_step(step)
    states = rebuilder.states
    unknown = [f"{call.call_id}: the plan has no step {call.step_id}" for call in calls if call.step_id not in states]
    proofs = audit_confirmations(calls, results, events)
    unproved = [f"{proof.call_id}: {proof.problem}" for proof in proofs if proof.problem]
    return RebuiltRun(steps=tuple(states.values()), problems=(*unknown, *rebuilder.problems, *unproved))


class _Rebuilder:
    """The steps rebuilt so far, the scope that they give to the next ones, and the contradictions."""

    def __init__(
        self,
        calls: Iterable[ToolCall],
        results: Iterable[ToolResult],
        dependencies: Mapping[str, frozenset[str]],
        scope: Scope,
        defaults: Defaults,
    ) -> None:
        self._calls = sorted(calls, key=lambda call: call.attempt)
        self._results = {result.call_id: result for result in results}
        self._dependencies, self._scope, self._defaults = dependencies, scope, defaults
        self.states: dict[str, StepState] = {}
        self.problems: list[str] = []

    def add_step(self, step: Step) -> None:
        calls = [call for call in self._calls if call.step_id == step.id]
        end, output = self._end_and_output(step, calls)
        ids = tuple(call.call_id for call in calls)
        self.states[step.id] = StepState(step_id=step.id, end=end, output=output, call_ids=ids)
        if end in WITH_DATA:
            captured = {step.capture_as: output} if step.capture_as else {}
            self._scope = Scope({**self._scope.steps, step.id: output}, {**self._scope.vars, **captured})

    def _end_and_output(self, step: Step, calls: Sequence[ToolCall]) -> EndAndOutput:
        ends = {name: state.end for name, state in self.states.items() if state.end is not None}
        if not calls and unmet_dependencies(self._dependencies[step.id], ends):
            return "skipped", None
        try:
            results = list(self._last_results(step, calls))
        except (UnresolvedReference, NotCanonical) as error:
            self.problems += [f"{step.id}: {error}"] if calls else []
            return None, None
        if step.foreach is not None:
            return _foreach_end_and_output(results, on_error(step, self._defaults))
        result = results[0]
        return (None, None) if result is None else (_ENDS.get(result.status, "error"), result.data)

    def _last_results(self, step: Step, calls: Sequence[ToolCall]) -> Iterator[ToolResult | None]:
        """Yields the result of the last attempt of each iteration, and records contradictions."""
        iterations = build_iterations(step, self._scope, calls[0].policy.limits if calls else Limits())
        indexes = {_index(iteration) for iteration, _ in iterations}
        for call in calls:
            if _index(call.iteration) not in indexes:
                self.problems.append(f"{call.call_id}: {step.id} has no such iteration")
        for iteration, bound in iterations:
            attempts = [call for call in calls if _index(call.iteration) == _index(iteration)]
            if attempts:
                self.problems += _differences(step, attempts, iteration, resolve(step.args, bound))
            yield self._results.get(attempts[-1].call_id) if attempts else None


def _differences(
    step: Step, attempts: Sequence[ToolCall], iteration: Iteration | None, args: dict[str, Any]
) -> Iterator[str]:
    for number, call in enumerate(attempts, start=1):
        is_other_hash = call.args_hash is not None and call.args_hash != named_hash(args)
        problems = {
            f"attempt {call.attempt} is the call's attempt number {number}": call.attempt != number,
            f"its tool is {call.tool}, the step's is {step.tool}": call.tool != step.tool,
            "its iteration has another item": call.iteration != iteration,
            "its arguments differ from the step's": not call.redactions and call.args != args,
            "its hash differs from that of the step's arguments": is_other_hash,
        }
        yield from (f"{call.call_id}: {problem}" for problem, is_present in problems.items() if is_present)


def _index(iteration: Iteration | None) -> int | None:
    return None if iteration is None else iteration.index


def _foreach_end_and_output(results: Sequence[ToolResult | None], on_failure: OnError) -> EndAndOutput:
    """The output of a foreach (OD-14) and its end (OD-15), which is `partial` where failures are skipped."""
    known = [result for result in results if result is not None]
    failed = [
        {"index": index, "code": result.error.code if result.error else result.status.upper()}
        for index, result in enumerate(results)
        if result is not None and not result.ok
    ]
    output = {
        "items": [None if result is None else result.data for result in results],
        "count": len(results),
        "okCount": len(known) - len(failed),
        "failed": failed,
    }
    if len(known) < len(results):
        return None, output
    if not failed:
        return "ok", output
    if any(result.status == "cancelled" for result in known):
        return "cancelled", output
    return ("partial" if on_failure == "skip" and len(failed) < len(known) else "error"), output
