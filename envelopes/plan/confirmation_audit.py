"""Whether a run's records prove that nothing was changed before somebody agreed (CALL section 6, OD-24).

A call needs proof when its tool writes or runs commands, the policy at that time asked for confirmation, and it
was dispatched. The proof is an event `run.confirmed` of the same run whose payload names the confirmation that
the call carries, and which is not later than the moment at which the call began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from envelopes.schema.call import ToolCall, ToolResult
from envelopes.schema.event import ExecutionEvent
from envelopes.schema.timestamps import parse_instant


class Proof(msgspec.Struct, frozen=True):
    """`event` is the confirmation that came first; without one, `problem` says what is missing."""

    call_id: str
    event: ExecutionEvent | None = None
    problem: str = ""


def confirmations(
    calls: Iterable[ToolCall], results: Iterable[ToolResult], events: Sequence[ExecutionEvent]
) -> tuple[Proof, ...]:
    """One for each call that needs a proof, in the order of the calls."""
    ended = {result.call_id: result for result in results}
    return tuple(
        _proof(call, ended.get(call.call_id), events) for call in calls if _needs_proof(call, ended.get(call.call_id))
    )


def _needs_proof(call: ToolCall, result: ToolResult | None) -> bool:
    """A call without a result may have run. A denial says that it did not, and so does its phase."""
    never_ran = result is not None and (result.phase == "pre_dispatch" or result.denied_reason is not None)
    return call.risk_level != "read-only" and call.policy.confirmations_required and not never_ran


def _proof(call: ToolCall, result: ToolResult | None, events: Sequence[ExecutionEvent]) -> Proof:
    if call.confirmation_id is None:
        return Proof(call.call_id, problem="it carries no confirmationId")
    given = [one for one in events if one.type == "run.confirmed" and one.run_id == call.run_id]
    named = [one for one in given if (one.payload or {}).get("confirmationId") == call.confirmation_id]
    if not named:
        return Proof(call.call_id, problem=f"no run.confirmed event of its run names {call.confirmation_id}")
    began = call.created_at if result is None else result.started_at
    first = min(named, key=lambda one: _at(one.timestamp))
    if _at(first.timestamp) > _at(began):
        return Proof(call.call_id, problem=f"it began at {began}, before it was confirmed at {first.timestamp}")
    return Proof(call.call_id, first)


def _at(text: str) -> float:
    found = parse_instant(text)
    assert found is not None  # both kinds of record hold nothing but points in time
    return found.timestamp()
