"""Audits a run's records for calls that changed something before the plan was confirmed (CALL section 6, OD-24).

A call needs proof when its tool writes or runs commands, the policy at that time required confirmation, and the
call was dispatched. The proof is a `run.confirmed` event of the same run whose payload names the confirmation
that the call carries, and which is not later than the start of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envelopes.schema.call import ToolCall, ToolResult
from envelopes.schema.event import ExecutionEvent
from envelopes.schema.timestamps import parse_instant


class ConfirmationProof(msgspec.Struct, frozen=True):
    """`event` is the first confirmation; where there is none in time, `problem` names what is missing."""

    call_id: str
    event: ExecutionEvent | None = None
    problem: str = ""


def audit_confirmations(
    calls: Iterable[ToolCall], results: Iterable[ToolResult], events: Sequence[ExecutionEvent]
) -> tuple[ConfirmationProof, ...]:
    """Returns one proof for each call that needs it, in the order of the calls."""
    results_by_call = {result.call_id: result for result in results}
    proofs = []
    for call in calls:
        result = results_by_call.get(call.call_id)
        # A call without a result may have run. A denied one did not, nor did one that ended before its dispatch.
        never_ran = result is not None and (result.phase == "pre_dispatch" or result.denied_reason is not None)
        if call.risk_level != "read-only" and call.policy.confirmations_required and not never_ran:
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
    first = min(confirmations, key=lambda event: _seconds(event.timestamp))
    if _seconds(first.timestamp) > _seconds(started_at):
        problem = f"it began at {started_at}, before it was confirmed at {first.timestamp}"
        return ConfirmationProof(call.call_id, problem=problem)
    return ConfirmationProof(call.call_id, first)


def _seconds(timestamp: str) -> float:
    parsed = parse_instant(timestamp)
    assert parsed is not None  # calls, results and events are checked when they are made
    return parsed.timestamp()
