"""The dependencies of a plan's steps, and the order that follows from them (CALL-004; OD-1 to OD-3).

find_dependencies    the steps that each step depends on: those that it names, and those whose output it uses
order_steps          the steps, each behind its dependencies
unmet_dependencies   the dependencies that ended without data, for which a step is skipped
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from envelopes.plan.references import PlanReference, Scope, check_names, find_references
from envelopes.plan.schema import ActionPlan, Step
from envelopes.text.untrusted_json import Untrusted

# How a step ended, all its calls together (OD-15). A `partial` step has data for some of its iterations.
StepEnd: TypeAlias = Literal["ok", "partial", "error", "skipped", "cancelled"]
WITH_DATA = ("ok", "partial")


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
