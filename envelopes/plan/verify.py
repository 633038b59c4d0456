"""A run rebuilt from its records alone, and where they contradict its plan (CALL-097; OD-31, "verify").

    rebuild     plan, calls, results and events -> how each step ended, what it gave, and what does not agree
    Rebuilt     both; no problems: the records prove the run that the plan describes

Nothing is dispatched. A step's arguments are made anew of the plan and of the results before it, and held to those
of the calls that were recorded; what a step gave is what the next steps are made of (OD-14, OD-19).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.calls import rounds
from envelopes.plan.confirmation_audit import confirmations
from envelopes.plan.order import WITH_DATA, StepEnd, needs, order, unmet
from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.retries import on_error
from envelopes.plan.schema import Defaults, OnError, Plan, Step
from envelopes.schema.call import Iteration, Limits, ToolCall, ToolResult
from envelopes.schema.event import ExecutionEvent
from envelopes.text.canonical_json import NotCanonical, args_hash

Ended: TypeAlias = tuple[StepEnd | None, Any]
_ENDS: dict[str, StepEnd] = {"ok": "ok", "skipped": "skipped", "cancelled": "cancelled"}


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """`end` is None for a step that the run did not come to, or whose last call has no result.

    `output` is what `$steps.<id>` gives: the data of its call, or of a foreach the items, their number and what failed.
    """

    step_id: str
    end: StepEnd | None
    output: Any = None
    call_ids: tuple[str, ...] = ()


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` in the order in which they come; each problem begins with the call or the step that it is about."""

    steps: tuple[StepState, ...]
    problems: tuple[str, ...]


def rebuild(
    plan: Plan,
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    events: Sequence[ExecutionEvent] = (),
    internal: Mapping[str, Any] | None = None,
) -> Rebuilt:
    """`internal` are variables that the runtime set itself. Raises what `order` raises, of a plan that cannot run."""
    known = dict(internal or {})
    rebuilding = _Rebuilding(calls, results, needs(plan, known), Scope(vars=known), plan.defaults)
    for step in order(plan, known):
        rebuilding.go_on(step)
    strays = [
        f"{one.call_id}: the plan has no step {one.step_id}" for one in calls if one.step_id not in rebuilding.states
    ]
    unproved = [f"{one.call_id}: {one.problem}" for one in confirmations(calls, results, events) if one.problem]
    return Rebuilt(steps=tuple(rebuilding.states.values()), problems=(*strays, *rebuilding.problems, *unproved))


class _Rebuilding:
    """How far it has come: what can be named, and what did not agree."""

    def __init__(
        self,
        calls: Iterable[ToolCall],
        results: Iterable[ToolResult],
        waiting: Mapping[str, frozenset[str]],
        scope: Scope,
        defaults: Defaults,
    ) -> None:
        self._calls = sorted(calls, key=lambda call: call.attempt)
        self._results = {result.call_id: result for result in results}
        self._waiting, self._scope, self._defaults = waiting, scope, defaults
        self.states: dict[str, StepState] = {}
        self.problems: list[str] = []

    def go_on(self, step: Step) -> None:
        made = [call for call in self._calls if call.step_id == step.id]
        end, output = self._ended(step, made)
        ids = tuple(call.call_id for call in made)
        self.states[step.id] = StepState(step_id=step.id, end=end, output=output, call_ids=ids)
        if end in WITH_DATA:
            captured = {step.capture_as: output} if step.capture_as else {}
            self._scope = Scope({**self._scope.steps, step.id: output}, {**self._scope.vars, **captured})

    def _ended(self, step: Step, made: Sequence[ToolCall]) -> Ended:
        ends = {name: state.end for name, state in self.states.items() if state.end is not None}
        if not made and unmet(self._waiting[step.id], ends):
            return "skipped", None
        try:
            found = list(self._last_results(step, made))
        except (UnresolvedReference, NotCanonical) as error:
            self.problems += [f"{step.id}: {error}"] if made else []
            return None, None
        return _alone(found[0]) if step.foreach is None else _together(found, on_error(step, self._defaults))

    def _last_results(self, step: Step, made: Sequence[ToolCall]) -> Iterator[ToolResult | None]:
        """Of each round the result of its last attempt."""
        expected = rounds(step, self._scope, made[0].policy.limits if made else Limits())
        asked = {_index(iteration) for iteration, _ in expected}
        self.problems += [
            f"{one.call_id}: {step.id} has no such round" for one in made if _index(one.iteration) not in asked
        ]
        for iteration, bound in expected:
            attempts = [call for call in made if _index(call.iteration) == _index(iteration)]
            if attempts:
                self.problems += _differences(step, attempts, iteration, resolve(step.args, bound))
            yield self._results.get(attempts[-1].call_id) if attempts else None


def _differences(
    step: Step, attempts: Sequence[ToolCall], iteration: Iteration | None, args: dict[str, Any]
) -> Iterator[str]:
    for number, call in enumerate(attempts, start=1):
        said = {
            f"attempt {call.attempt} is its number {number}": call.attempt != number,
            f"its tool is {call.tool}, the step's is {step.tool}": call.tool != step.tool,
            "its round has another item": call.iteration != iteration,
            "its arguments are not those that the step asks for": not call.redactions and call.args != args,
            "its hash is not that of the step's arguments": call.args_hash is not None
            and call.args_hash != args_hash(args),
        }
        yield from (f"{call.call_id}: {sentence}" for sentence, is_so in said.items() if is_so)


def _index(iteration: Iteration | None) -> int | None:
    return None if iteration is None else iteration.index


def _alone(result: ToolResult | None) -> Ended:
    return (None, None) if result is None else (_ENDS.get(result.status, "error"), result.data)


def _together(results: Sequence[ToolResult | None], asked: OnError) -> Ended:
    """What a foreach gives (OD-14), and its end (OD-15): some of its rounds are enough where failures are skipped."""
    known = [result for result in results if result is not None]
    failed = [
        {"index": index, "code": one.error.code if one.error else one.status.upper()}
        for index, one in enumerate(results)
        if one is not None and not one.ok
    ]
    output = {
        "items": [None if one is None else one.data for one in results],
        "count": len(results),
        "okCount": len(known) - len(failed),
        "failed": failed,
    }
    if len(known) < len(results):
        return None, output
    if not failed:
        return "ok", output
    if any(one.status == "cancelled" for one in known):
        return "cancelled", output
    return ("partial" if asked == "skip" and len(failed) < len(known) else "error"), output
