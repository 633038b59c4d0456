"""Plans and tool loops: everything around a call except running it, as pure functions.

    schema       the ActionPlan that a planner writes
    references   references in a step's arguments, and their values
    steps        the order of the steps, their calls, and whether a failed call gets another attempt
    gates        whether a call may run, and with which arguments
    tool_loop    the state of a tool loop, and the outcome of a dispatch
    verify       a run rebuilt from its records, contradictions to its plan, and proof of its confirmation

Nothing here runs a tool or names a family: the registry of tools is an argument.
"""

from __future__ import annotations

from envelopes.plan.gates import Admitted, Denied, Gates
from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.schema import ActionPlan, Step, read_plan
from envelopes.plan.steps import (
    NextAttempt,
    RunContext,
    StepEnd,
    build_calls,
    decide_retry,
    find_dependencies,
    next_call,
    order_steps,
    unmet_dependencies,
)
from envelopes.plan.tool_loop import (
    ReplayControl,
    TurnState,
    apply_outcome,
    outcome_from_cancel,
    outcome_from_exception,
    outcome_from_output,
    outcome_from_timeout,
)
from envelopes.plan.verify import ConfirmationProof, RebuiltRun, audit_confirmations, rebuild_run

__all__ = [
    "ActionPlan",
    "Admitted",
    "ConfirmationProof",
    "Denied",
    "Gates",
    "NextAttempt",
    "RebuiltRun",
    "ReplayControl",
    "RunContext",
    "Scope",
    "Step",
    "StepEnd",
    "TurnState",
    "UnresolvedReference",
    "apply_outcome",
    "audit_confirmations",
    "build_calls",
    "decide_retry",
    "find_dependencies",
    "next_call",
    "order_steps",
    "outcome_from_cancel",
    "outcome_from_exception",
    "outcome_from_output",
    "outcome_from_timeout",
    "read_plan",
    "rebuild_run",
    "resolve",
    "unmet_dependencies",
]
