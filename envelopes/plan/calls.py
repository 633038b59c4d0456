"""The calls of a plan's step: one, or one for each iteration of its foreach (CALL-003, CALL-011).

    RunContext         the fields that all calls of a run share
    build_iterations   the scope of a step, or of each item of its foreach
    build_calls        the step's calls with their arguments resolved

Nothing is dispatched. A step has either all of its calls or none: one unresolved reference refuses it (OD-11).
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
from envelopes.text.canonical_json import named_hash

DEFAULT_MAX_ITERATIONS = 1_000  # OD-13, for a policy without a limit


@dataclass(frozen=True)
class RunContext:
    """The fields that all calls of a run share.

    The runtime gives `new_id`, an id for each call (CALL-012), and `now`, the time in ISO 8601 (OD-17).
    """

    run_id: str
    policy: RunPolicy
    executor_version: str
    tool_registry_version: str
    planner_version: str | None = None
    confirmation_id: str | None = None
    new_id: Callable[[], str] = lambda: str(uuid4())
    now: Callable[[], str] = lambda: format_instant(time.time())


def build_iterations(step: Step, scope: Scope, limits: Limits) -> list[tuple[Iteration | None, Scope]]:
    """Builds the scopes that the step's arguments are resolved in: one, or one for each item of its foreach.

    Raises UnresolvedReference for a foreach over something else than an array, or over an array of more items
    than the policy allows (OD-13).
    """
    foreach = step.foreach
    if foreach is None:
        return [(None, scope)]
    items = resolve(foreach.source, scope, "/foreach/from")
    if not isinstance(items, list):
        raise UnresolvedReference(f"{foreach.source} is not an array", "/foreach/from")
    most = DEFAULT_MAX_ITERATIONS if limits.max_iterations is None else limits.max_iterations
    if len(items) > most:
        raise UnresolvedReference(f"{foreach.source} has {len(items)} items, {most} are allowed", "/foreach/from")
    return [
        (
            Iteration(index=index, item_name=foreach.item_name, item_value=item),
            replace(scope, bindings={foreach.item_name: item, foreach.index_name: index}),
        )
        for index, item in enumerate(items)
    ]


def build_calls(step: Step, tool: ToolDefinition, scope: Scope, run: RunContext) -> tuple[ToolCall, ...]:
    """Builds the first attempts in the order of the iterations; none for a foreach over an empty array.

    `scope` has the outputs of earlier steps; the names of a foreach are bound here. Raises UnresolvedReference.
    """
    iterations = build_iterations(step, scope, run.policy.limits)
    return tuple(_build_call(step, tool, bound, run, iteration) for iteration, bound in iterations)


def _build_call(
    step: Step, tool: ToolDefinition, scope: Scope, run: RunContext, iteration: Iteration | None
) -> ToolCall:
    args = resolve(step.args, scope)
    # OD-8, as far as it is known before a dispatch: the end of the whole run is the dispatcher's to watch.
    timeouts = [timeout for timeout in (step.timeout_ms, run.policy.limits.max_timeout_ms) if timeout is not None]
    return ToolCall(
        call_id=run.new_id(),
        run_id=run.run_id,
        step_id=step.id,
        tool=step.tool,
        args=args,
        args_hash=named_hash(args),
        attempt=1,
        timeout_ms=min(timeouts, default=None),
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


def _preview(step: Step, args: dict[str, Any], scope: Scope) -> str:
    """The step's preview with its references resolved, else the tool and its first text (CALL-028, OD-33)."""
    if step.preview is None:
        first_text = next((value for value in args.values() if isinstance(value, str)), "")
        return summarize(f"{step.tool} {first_text}")
    preview = resolve(step.preview, scope, "/preview")
    return preview if isinstance(preview, str) else json.dumps(preview)
