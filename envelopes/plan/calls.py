"""The calls that a step of a plan asks for: one, or one for each round of its foreach (CALL-003, CALL-011).

    Origin      what all calls of a run share
    rounds      a step once, or each item that its foreach runs over
    calls_of    the step's calls, their arguments concrete, each with what it belongs to

Nothing is dispatched, and nothing is half made: where one reference leads nowhere, no call of the step exists (OD-11).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.schema import Step
from envelopes.schema.call import Iteration, Limits, RunPolicy, ToolCall
from envelopes.schema.result import summarize
from envelopes.schema.timestamps import format_instant
from envelopes.schema.tool import ToolDefinition
from envelopes.text.canonical_json import args_hash

MOST_ITERATIONS = 1_000  # OD-13, where the policy names no number


@dataclass(frozen=True)
class Origin:
    """`new_id` gives each call its own id (CALL-012), `now` the time in ISO 8601: both are the runtime's (OD-17)."""

    run_id: str
    policy: RunPolicy
    executor_version: str
    tool_registry_version: str
    planner_version: str | None = None
    confirmation_id: str | None = None
    new_id: Callable[[], str] = lambda: str(uuid4())
    now: Callable[[], str] = lambda: format_instant(time.time())


def rounds(step: Step, scope: Scope, limits: Limits) -> list[tuple[Iteration | None, Scope]]:
    """What the step's arguments are resolved with: once, or for each item of its foreach with its names bound.

    Raises UnresolvedReference for what is no array, or one of more items than the policy allows (OD-13).
    """
    foreach = step.foreach
    if foreach is None:
        return [(None, scope)]
    return [
        (
            Iteration(index=index, item_name=foreach.item_name, item_value=item),
            replace(scope, bindings={foreach.item_name: item, foreach.index_name: index}),
        )
        for index, item in enumerate(_items(foreach.source, scope, limits))
    ]


def calls_of(step: Step, tool: ToolDefinition, scope: Scope, run: Origin) -> tuple[ToolCall, ...]:
    """First attempts, in the order of the rounds; none for a foreach over nothing.

    Raises UnresolvedReference. `scope` holds what the steps before gave; the names of a foreach are bound here.
    """
    return tuple(
        _call(step, tool, bound, run, iteration) for iteration, bound in rounds(step, scope, run.policy.limits)
    )


def _items(source: str, scope: Scope, limits: Limits) -> list[Any]:
    items = resolve(source, scope, "/foreach/from")
    if not isinstance(items, list):
        raise UnresolvedReference(f"{source} is no array", "/foreach/from")
    most = MOST_ITERATIONS if limits.max_iterations is None else limits.max_iterations
    if len(items) > most:
        raise UnresolvedReference(f"{source} has {len(items)} items, {most} are allowed", "/foreach/from")
    return items


def _call(step: Step, tool: ToolDefinition, scope: Scope, run: Origin, iteration: Iteration | None) -> ToolCall:
    args = resolve(step.args, scope)
    return ToolCall(
        call_id=run.new_id(),
        run_id=run.run_id,
        step_id=step.id,
        tool=step.tool,
        args=args,
        args_hash=args_hash(args),
        attempt=1,
        timeout_ms=_timeout(step.timeout_ms, run.policy.limits.max_timeout_ms),
        cancellable=True,
        iteration=iteration,
        loop_id=None if iteration is None else f"{run.run_id}/{step.id}",
        created_at=run.now(),
        planner_version=run.planner_version,
        executor_version=run.executor_version,
        tool_registry_version=run.tool_registry_version,
        preview=_preview(step, args, scope),
        risk_level=tool.risk,
        policy=run.policy,
        confirmation_id=run.confirmation_id,
    )


def _timeout(asked: int | None, most: int | None) -> int | None:
    """OD-8, as far as it is known before a dispatch: the run's own end is the dispatcher's."""
    known = [one for one in (asked, most) if one is not None]
    return min(known, default=None)


def _preview(step: Step, args: dict[str, Any], scope: Scope) -> str:
    """The step's, its references replaced; else the tool with its first text (CALL-028, OD-33)."""
    if step.preview is None:
        main = next((value for value in args.values() if isinstance(value, str)), "")
        return summarize(f"{step.tool} {main}")
    said = resolve(step.preview, scope, "/preview")
    return said if isinstance(said, str) else json.dumps(said)
