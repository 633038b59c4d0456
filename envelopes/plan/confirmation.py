"""The confirmation of a run that writes: one for a run, of one plan under one policy (OD-24; CALL-093).

    ConfirmationRequest, Decision   what the operator is asked, and the answer
    build_request, describe_plan    the request, with the text that is shown and recorded
    ask                             waits for the answer on a worker, for a limited time
    covers                          whether a call may rely on the confirmation of its run

The plan and the policy are named by their hashes. A decision about other hashes than those of the run is a rejection:
somebody looked at something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.recorders import Confirmation, RunHeader
from envelopes.plan.schema import ActionPlan
from envelopes.plan.workers import Finished, Workers
from envelopes.schema.tool import RiskLevel

CHANGES: dict[RiskLevel, str] = {"read-only": "only reads", "writes": "writes", "commands": "runs commands"}
PREVIEW_CHARACTERS = 400  # of the arguments of one step
_KEY = "confirmation"


class ConfirmationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the operator to confirm a run. `preview` is the text that is recorded beside the decision."""

    run_id: str
    plan: ActionPlan
    risk: RiskLevel
    plan_hash: str
    policy_hash: str
    preview: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`plan_hash` and `policy_hash` are those that the operator saw; others than those of the run reject it."""

    is_approved: bool
    actor: str
    plan_hash: str
    policy_hash: str
    reason: str = ""


Confirm: TypeAlias = Callable[[ConfirmationRequest], Decision]


def build_request(header: RunHeader, plan: ActionPlan, risk: RiskLevel) -> ConfirmationRequest:
    """The request for a run whose header has the hashes of plan and policy."""
    return ConfirmationRequest(
        run_id=header.run_id,
        plan=plan,
        risk=risk,
        plan_hash=header.plan_hash or "",
        policy_hash=header.policy_hash or "",
        preview=describe_plan(header.plan or {}, risk, header.cwd),
    )


def describe_plan(plan: dict[str, Any], risk: RiskLevel, folder: str | None = None) -> str:
    """The goal, the risk, the folder, and each step with its tool and arguments as they are written, secrets masked."""
    lines = [f"{plan['goal']}", f"This plan {CHANGES[risk]}{f' in {folder}' if folder else ''}."]
    for number, step in enumerate(plan["steps"], start=1):
        args = json.dumps(step["args"], ensure_ascii=False)
        if len(args) > PREVIEW_CHARACTERS:
            args = f"{args[:PREVIEW_CHARACTERS]}… ({len(args) - PREVIEW_CHARACTERS} more characters)"
        foreach = step.get("foreach")
        rounds = f" for each of {foreach['from']}" if foreach else ""
        lines.append(f"{number}. {step['id']}: {step['tool']}{rounds} {args}")
    return "\n".join(lines)


def ask(
    confirm: Confirm,
    request: ConfirmationRequest,
    workers: Workers,
    steady: Callable[[], float],
    *,
    timeout_ms: int | None,
    is_cancelled: Callable[[], bool],
) -> Confirmation:
    """The operator's answer, without its id and time. It expires after `timeout_ms`, or when the run is cancelled."""
    due_s = None if timeout_ms is None else steady() + timeout_ms / 1_000
    workers.start(_KEY, confirm, request)
    report = None
    while not isinstance(report, Finished) and not is_cancelled():
        left_s = None if due_s is None else due_s - steady()
        if left_s is not None and left_s <= 0:
            break
        report = workers.wait(left_s)
    return _read_answer(report if isinstance(report, Finished) else None, request, is_cancelled=is_cancelled())


def _read_answer(finished: Finished | None, request: ConfirmationRequest, *, is_cancelled: bool) -> Confirmation:
    known = {"confirmation_id": "", "at": "", "preview": request.preview}
    known |= {"plan_hash": request.plan_hash, "policy_hash": request.policy_hash}
    if finished is None:
        reason = "the run was cancelled" if is_cancelled else "nobody decided in time"
        return Confirmation(decision="expired", actor="", reason=reason, **known)
    decision = finished.value
    if finished.error is not None or not isinstance(decision, Decision):
        fault = "no decision" if finished.error is None else type(finished.error).__name__
        return Confirmation(decision="rejected", actor="", reason=f"asking for it failed: {fault}", **known)
    if (decision.plan_hash, decision.policy_hash) != (request.plan_hash, request.policy_hash):
        reason = "what was decided on is another plan or policy"
        return Confirmation(decision="rejected", actor=decision.actor, reason=reason, **known)
    return Confirmation(
        decision="approved" if decision.is_approved else "rejected",
        actor=decision.actor,
        reason=decision.reason,
        **known,
    )


def covers(header: RunHeader, confirmation_id: str | None) -> bool:
    """True where the run has an approval of its plan and its policy, and the call names it."""
    confirmation = header.confirmation
    return (
        confirmation is not None
        and confirmation.decision == "approved"
        and confirmation.confirmation_id == confirmation_id
        and (confirmation.plan_hash, confirmation.policy_hash) == (header.plan_hash, header.policy_hash)
    )
