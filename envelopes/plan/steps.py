"""A plan's steps: their order, the calls that they become, and the further attempts of a call that failed.

    find_dependencies    the steps that each step depends on: those that it names, and those whose output it uses
    order_steps          the steps, each behind its dependencies (CALL-004; OD-1 to OD-3)
    unmet_dependencies   the dependencies that ended without data, for which a step is skipped

    RunContext           the fields that all calls of a run share
    build_iterations     the scope of a step, or of each item of its foreach (CALL-003)
    build_calls          the step's calls, one for each iteration, with their arguments resolved (CALL-011)

    decide_retry         the next attempt and its wait, or what happens instead: stop or skip (OD-4 to OD-7)
    next_call            the call of the next attempt, which has the step and the run of the one before

Nothing is dispatched. A step has either all of its calls or none: one unresolved reference refuses it (OD-11).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import msgspec

from envelopes.plan.references import PlanReference, Scope, UnresolvedReference, check_names, find_references, resolve
from envelopes.plan.schema import ActionPlan, Defaults, OnError, RetryPolicy, Step
from envelopes.schema.call import Iteration, Limits, RunPolicy, ToolCall, ToolResult
from envelopes.schema.result import summarize
from envelopes.schema.timestamps import format_instant
from envelopes.schema.tool import RiskLevel, ToolDefinition
from envelopes.text.canonical_json import named_hash
from envelopes.text.untrusted_json import Untrusted

# How a step ended, all its calls together (OD-15). A `partial` step has data for some of its iterations.
StepEnd: TypeAlias = Literal["ok", "partial", "error", "skipped", "cancelled"]
WITH_DATA = ("ok", "partial")
StepFailure: TypeAlias = Literal["stop", "skip"]
DEFAULT_MAX_ITERATIONS = 1_000  # OD-13, for a policy without a limit
DEFAULT_MAX_STEPS = 200  # OD-22
REDACTED = "[redacted]"  # stands for a secret in every record (OD-30)
MAX_ATTEMPTS = 10
MAX_BACKOFF_MS = 600_000
DEFAULT_RETRY = RetryPolicy(max_attempts=3, backoff_ms=250)  # OD-5, for `onError: retry` without numbers
NOT_RETRYABLE = frozenset({"VALIDATION_ERROR", "POLICY_DENIED", "CANCELLED"})  # the next attempt would end the same


def find_dependencies(plan: ActionPlan, internal: Collection[str] = ()) -> dict[str, frozenset[str]]:
    """Finds the dependencies of each step, by its id. `internal` are variables that the runtime sets (CALL-076).

    Raises UnresolvedReference for a name that no step and no variable has, before anything runs (CALL-078).
    """
    ids = [step.id for step in plan.steps]
    captured = {step.capture_as: step.id for step in plan.steps if step.capture_as}
    known = Scope(dict.fromkeys(ids), dict.fromkeys([*captured, *internal]))
    return {step.id: frozenset(_dependencies(step, known, captured)) for step in plan.steps}


def order_steps(plan: ActionPlan, internal: Collection[str] = ()) -> tuple[Step, ...]:
    """Orders the steps by their dependencies, else as in the plan. Raises Untrusted for a circle."""
    dependencies = find_dependencies(plan, internal)
    remaining, ordered = list(plan.steps), dict[str, Step]()
    while remaining:
        ready = next((step for step in remaining if dependencies[step.id] <= ordered.keys()), None)
        if ready is None:
            raise Untrusted(f"{', '.join(step.id for step in remaining)}: they wait for each other", "$.steps")
        remaining.remove(ready)
        ordered[ready.id] = ready
    return tuple(ordered.values())


def unmet_dependencies(dependencies: Collection[str], ended: Mapping[str, StepEnd]) -> tuple[str, ...]:
    """The dependencies that ended without data, sorted. A skipped step is unmet for its dependents (OD-3)."""
    return tuple(sorted(name for name in dependencies if ended.get(name, "ok") not in WITH_DATA))


def _dependencies(step: Step, known: Scope, captured: Mapping[str, str]) -> Iterator[str]:
    yield from step.depends_on
    for reference in _checked_references(step, known):
        match reference.source:
            case "steps":
                yield reference.name
            case "vars" if reference.name in captured:
                yield captured[reference.name]


def _checked_references(step: Step, known: Scope) -> Iterator[PlanReference]:
    """The names of a foreach are bound in the arguments and the preview, not in its own source."""
    bound: dict[str, Any] = {}
    if step.foreach is not None:
        check_names(step.foreach.source, known)
        yield from (reference for _, reference in find_references(step.foreach.source))
        bound = dict.fromkeys((step.foreach.item_name, step.foreach.index_name))
    templates = {"args": step.args, "preview": step.preview}
    check_names(templates, Scope(known.steps, known.vars, bound))
    yield from (reference for _, reference in find_references(templates))


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
    allowed = (step.timeout_ms, tool.timeout_ms, run.policy.limits.max_timeout_ms)
    timeouts = [timeout for timeout in allowed if timeout is not None]
    return ToolCall(
        call_id=run.new_id(),
        run_id=run.run_id,
        step_id=step.id,
        tool=step.tool,
        args=args,
        args_hash=named_hash(args),
        attempt=1,
        timeout_ms=min(timeouts, default=None),
        cancellable=tool.cancellable,
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


class NextAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """`requested` is what the plan asks for; the policy's limits are applied to `attempts` and `wait_ms`."""

    attempt: int
    attempts: int
    wait_ms: int
    requested: RetryPolicy

    @property
    def is_clamped(self) -> bool:
        requested_wait = _backoff(self.requested.backoff_ms, self.attempt)
        return (self.attempts, self.wait_ms) != (self.requested.max_attempts, requested_wait)


def decide_retry(
    result: ToolResult, step: Step, defaults: Defaults, limits: Limits, risk: RiskLevel
) -> NextAttempt | StepFailure:
    """Decides what follows a result that is not ok. `risk` is the tool's."""
    requested = _requested_retry(result, step, defaults, risk)
    if requested is not None and _is_retryable(result):
        allowed = MAX_ATTEMPTS if limits.max_attempts is None else min(limits.max_attempts, MAX_ATTEMPTS)
        attempts = min(requested.max_attempts, allowed)
        if result.attempt < attempts:
            longest = MAX_BACKOFF_MS if limits.max_backoff_ms is None else limits.max_backoff_ms
            wait = min(_backoff(requested.backoff_ms, result.attempt + 1), longest)
            return NextAttempt(attempt=result.attempt + 1, attempts=attempts, wait_ms=wait, requested=requested)
    return "skip" if on_error(step, defaults) == "skip" else "stop"


def on_error(step: Step, defaults: Defaults) -> OnError:
    """The step's setting, else the plan's, else stop."""
    return step.on_error or defaults.on_error or "stop"


def next_call(call: ToolCall, *, call_id: str, created_at: str, deadline_at: str | None = None) -> ToolCall:
    """Builds the next attempt with the same arguments: references are not resolved a second time."""
    return msgspec.structs.replace(
        call, call_id=call_id, attempt=call.attempt + 1, created_at=created_at, deadline_at=deadline_at
    )


def _requested_retry(result: ToolResult, step: Step, defaults: Defaults, risk: RiskLevel) -> RetryPolicy | None:
    """A retry is requested by the step, by the plan, or by a retryable error of a tool that only reads (OD-6)."""
    policy = step.retry or defaults.retry
    if policy is not None or on_error(step, defaults) == "retry":
        return policy or DEFAULT_RETRY
    is_marked_retryable = result.error is not None and result.error.retryable is True
    return DEFAULT_RETRY if is_marked_retryable and risk == "read-only" else None


def _is_retryable(result: ToolResult) -> bool:
    """An error marked as not retryable overrides the plan. A skip is not a failure of the tool."""
    error = result.error
    return result.status in ("error", "timeout") and not (
        error is not None and (error.retryable is False or error.code in NOT_RETRYABLE)
    )


def _backoff(base: int, attempt: int) -> int:
    """The base before the second attempt, then twice as long each time."""
    doubled: int = base * 2 ** (attempt - 2)
    return doubled
