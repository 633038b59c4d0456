"""Plans and tool loops: everything around a call except running it, as pure functions.

    schema               the ActionPlan that a planner writes
    references           references in a step's arguments, and their values
    order                dependencies of the steps, and their order
    calls                the calls of a step, one for each iteration of a foreach
    gates                whether a call may run, and with which arguments
    retries              whether and when a failed call gets another attempt
    tool_loop            the state of a tool loop, and the outcome of a dispatch
    confirmation_audit   proof that nothing was changed before the plan was confirmed
    verify               a run rebuilt from its records, and contradictions to its plan

Nothing here runs a tool or names a family: the registry of tools is an argument.
"""

from __future__ import annotations

from envelopes.plan.calls import RunContext, build_calls
from envelopes.plan.confirmation_audit import ConfirmationProof, audit_confirmations
from envelopes.plan.gates import Admitted, Denied, Gates
from envelopes.plan.order import StepEnd, find_dependencies, order_steps, unmet_dependencies
from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.retries import NextAttempt, decide_retry, next_call
from envelopes.plan.schema import ActionPlan, Step, read_plan
from envelopes.plan.tool_loop import (
    ReplayControl,
    TurnState,
    apply_outcome,
    outcome_from_cancel,
    outcome_from_exception,
    outcome_from_output,
    outcome_from_timeout,
)
from envelopes.plan.verify import RebuiltRun, rebuild_run

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
