"""The confirmation of a run that writes: one for a run, of one plan under one policy (OD-24; CALL-093).

    ConfirmationRequest, Decision   what the operator is asked, and the answer
    build_request, describe_plan    the request, with the text that is shown and recorded
    ask                             waits for the answer on a worker, for a limited time
    covers                          whether a call may rely on the confirmation of its run
    audit_confirmations             proof that no call changed something before the plan was confirmed

The plan and the policy are named by their hashes. A decision about other hashes than those of the run is a rejection:
somebody looked at something else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from envelopes.families.registry import tools
from envelopes.plan.recorders import Confirmation, RunHeader
from envelopes.plan.schema import ActionPlan
from envelopes.plan.workers import Finished, Workers
from envelopes.schema.call import ExecutionEvent, ToolCall, ToolResult
from envelopes.schema.timestamps import parse_instant
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


class ConfirmationProof(msgspec.Struct, frozen=True):
    """`event` is the first confirmation; where there is none in time, `problem` names what is missing.

    A call needs proof when its tool writes or runs commands, the policy of the run required confirmation, and the
    call was dispatched. The proof is a `run.confirmed` event of the same run whose payload names the confirmation
    that the call carries, and which is not later than the start of the call (CALL section 6).
    """

    call_id: str
    event: ExecutionEvent | None = None
    problem: str = ""


def least_risk(tool: str) -> RiskLevel:
    """The risk that the registry has for a built-in tool; "read-only" for a tool that it does not have."""
    definition = tools().get(tool)
    return "read-only" if definition is None else definition.risk


def audit_confirmations(
    calls: Iterable[ToolCall],
    results: Iterable[ToolResult],
    events: Sequence[ExecutionEvent],
    *,
    is_required: bool | None = None,
) -> tuple[ConfirmationProof, ...]:
    """Returns one proof for each call that needs it, in the order of the calls.

    `is_required` is what the policy of run.json has; with None the policy of each call decides. A built-in tool has at
    least the risk of its definition, whatever its call states.
    """
    results_by_call = {result.call_id: result for result in results}
    proofs = []
    for call in calls:
        result = results_by_call.get(call.call_id)
        # A call without a result may have run. A denied one did not, nor did one that ended before its dispatch.
        is_stopped = result is not None and (result.phase == "pre_dispatch" or result.denied_reason is not None)
        never_ran = result is not None and not result.ok and is_stopped
        is_asked = call.policy.confirmations_required if is_required is None else is_required
        if is_asked and not never_ran and (call.risk_level != "read-only" or least_risk(call.tool) != "read-only"):
            proofs.append(_prove(call, result, events))
    return tuple(proofs)


def _prove(call: ToolCall, result: ToolResult | None, events: Sequence[ExecutionEvent]) -> ConfirmationProof:
    if call.confirmation_id is None:
        return ConfirmationProof(call.call_id, problem="it carries no confirmationId")
    confirmations = [
        event
        for event in events
        if event.type == "run.confirmed"
        and event.run_id == call.run_id
        and (event.payload or {}).get("confirmationId") == call.confirmation_id
    ]
    if not confirmations:
        problem = f"no run.confirmed event of its run names {call.confirmation_id}"
        return ConfirmationProof(call.call_id, problem=problem)
    started_at = call.created_at if result is None else result.started_at
    first = min(confirmations, key=lambda event: epoch_seconds(event.timestamp))
    if epoch_seconds(first.timestamp) > epoch_seconds(started_at):
        problem = f"it began at {started_at}, before it was confirmed at {first.timestamp}"
        return ConfirmationProof(call.call_id, problem=problem)
    return ConfirmationProof(call.call_id, first)


def epoch_seconds(timestamp: str) -> float:
    parsed = parse_instant(timestamp)
    assert parsed is not None  # calls, results and events are checked when they are made
    return parsed.timestamp()
