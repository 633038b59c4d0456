"""What a plan's steps wait for, and the order that follows from it (CALL-004; OD-1 to OD-3).

needs   the steps that each step waits for: those it depends on, and those whose data it names
order   the steps, each behind those that it needs
unmet   the steps for whose sake one is skipped
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from envelopes.plan.references import Reference, Scope, check_names, references
from envelopes.plan.schema import Plan, Step
from envelopes.text.untrusted_json import Untrusted

# How a step ended, all its calls together (OD-15). One that is `partial` gave data for some of its rounds.
StepEnd: TypeAlias = Literal["ok", "partial", "error", "skipped", "cancelled"]
WITH_DATA = ("ok", "partial")


def needs(plan: Plan, internal: Collection[str] = ()) -> dict[str, frozenset[str]]:
    """By the step's id. `internal` are variables that the runtime sets itself (CALL-076).

    Raises UnresolvedReference for a name that nothing will give, before anything runs (CALL-078).
    """
    ids = [step.id for step in plan.steps]
    captured = {step.capture_as: step.id for step in plan.steps if step.capture_as}
    known = Scope(dict.fromkeys(ids), dict.fromkeys([*captured, *internal]))
    return {step.id: frozenset(_needed(step, known, captured)) for step in plan.steps}


def order(plan: Plan, internal: Collection[str] = ()) -> tuple[Step, ...]:
    """Of steps that could come next, the first that is listed. Raises Untrusted where some wait for each other."""
    waiting = needs(plan, internal)
    left, placed = list(plan.steps), dict[str, Step]()
    while left:
        ready = next((step for step in left if waiting[step.id] <= placed.keys()), None)
        if ready is None:
            raise Untrusted(f"{', '.join(step.id for step in left)}: they wait for each other", "$.steps")
        left.remove(ready)
        placed[ready.id] = ready
    return tuple(placed.values())


def unmet(needed: Collection[str], ended: Mapping[str, StepEnd]) -> tuple[str, ...]:
    """Those that ended and gave no data, sorted. A step that was skipped is unmet for the next one (OD-3)."""
    return tuple(sorted(name for name in needed if ended.get(name, "ok") not in WITH_DATA))


def _needed(step: Step, known: Scope, captured: Mapping[str, str]) -> Iterator[str]:
    yield from step.depends_on
    for one in _named(step, known):
        match one.source:
            case "steps":
                yield one.name
            case "vars" if one.name in captured:
                yield captured[one.name]


def _named(step: Step, known: Scope) -> Iterator[Reference]:
    """A foreach names its items for the arguments and the preview, not for itself."""
    bound: dict[str, Any] = {}
    if step.foreach is not None:
        check_names(step.foreach.source, known)
        yield from (one for _, one in references(step.foreach.source))
        bound = dict.fromkeys((step.foreach.item_name, step.foreach.index_name))
    told = {"args": step.args, "preview": step.preview}
    check_names(told, Scope(known.steps, known.vars, bound))
    yield from (one for _, one in references(told))
