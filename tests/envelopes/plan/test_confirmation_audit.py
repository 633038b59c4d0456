"""The audit of confirmations: each call that changed something came after its confirmation, or is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.codecs import call as calls
from envelopes.plan.confirmation_audit import ConfirmationProof, audit_confirmations
from envelopes.schema.call import Limits, RunPolicy, Sandbox, ToolResult
from envelopes.schema.event import ExecutionEvent
from tests.envelopes.settled import call, settled

CALLED, BEGAN = "2025-12-16T18:12:00Z", "2025-12-16T18:12:05Z"


def confirmed(at: str, name: str = "ok_1", run: str = "r1") -> ExecutionEvent:
    return ExecutionEvent(
        type="run.confirmed",
        run_id=run,
        timestamp=at,
        level="info",
        message="approved by olga",
        payload={"confirmationId": name},
    )


def result(situation: str = "fits", **fields: Any) -> ToolResult:
    return calls.to_result(call(), settled(situation, started_at=BEGAN, ended_at=BEGAN, **fields))


@pytest.mark.parametrize(
    ("carried", "events", "problem"),
    [
        ("ok_1", [confirmed("2025-12-16T18:12:04Z")], ""),
        ("ok_1", [confirmed(BEGAN)], ""),
        ("ok_1", [confirmed("2025-12-16T19:12:04+01:00")], ""),
        ("ok_1", [confirmed("2025-12-16T18:13:00Z"), confirmed("2025-12-16T18:12:01Z")], ""),
        (None, [confirmed(CALLED)], "it carries no confirmationId"),
        ("ok_1", [], "no run.confirmed event of its run names ok_1"),
        ("ok_1", [confirmed(CALLED, "ok_2")], "no run.confirmed event of its run names ok_1"),
        ("ok_1", [confirmed(CALLED, run="r2")], "no run.confirmed event of its run names ok_1"),
        (
            "ok_1",
            [confirmed("2025-12-16T18:12:05.001Z")],
            f"it began at {BEGAN}, before it was confirmed at 2025-12-16T18:12:05.001Z",
        ),
    ],
)
def test_a_call_that_wrote_is_proved_by_a_confirmation_that_came_first(
    carried: str | None, events: list[ExecutionEvent], problem: str
) -> None:
    (proof,) = audit_confirmations([call(risk_level="writes", confirmation_id=carried)], [result()], events)
    assert (proof.call_id, proof.problem) == ("c1", problem)
    assert (proof.event in events) == (not problem)


def test_only_what_ran_and_could_change_something_needs_a_proof() -> None:
    unasked = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=True), limits=Limits())
    assert audit_confirmations([call(risk_level="read-only")], [result()], []) == ()
    assert audit_confirmations([call(policy=unasked)], [result()], []) == ()
    assert audit_confirmations([call()], [result("write_refused")], []) == ()
    assert audit_confirmations([call()], [result("duplicate")], []) == ()
    for situation in ("tool_error", "timed_out", "cancelled"):
        assert len(audit_confirmations([call()], [result(situation)], [])) == 1


def test_a_call_whose_end_is_not_known_may_have_run() -> None:
    unfinished = call(created_at=CALLED, confirmation_id="ok_1")
    assert audit_confirmations([unfinished], [], [confirmed(CALLED)]) == (ConfirmationProof("c1", confirmed(CALLED)),)
    (late,) = audit_confirmations([unfinished], [], [confirmed(BEGAN)])
    assert late.problem.startswith(f"it began at {CALLED}, before")


def test_the_files_of_a_run_hold_the_proof() -> None:
    """calls.jsonl, results.jsonl and events.jsonl, written and read again."""
    made_calls = [call(call_id=f"c{number}", confirmation_id="ok_1") for number in range(3)]
    ended = [
        calls.to_result(made_call, settled("fits", call_id=made_call.call_id, started_at=BEGAN))
        for made_call in made_calls
    ]
    events = [confirmed(CALLED)]
    files = [b"".join(calls.encode_lines(records)) for records in (made_calls, ended, events)]
    assert json.loads(files[0].splitlines()[0])["confirmationId"] == "ok_1"
    from_files = [
        list(calls.decode_lines(raw, type(records[0])))
        for raw, records in zip(files, (made_calls, ended, events), strict=True)
    ]
    proofs = audit_confirmations(*from_files)
    assert [(proof.call_id, proof.problem) for proof in proofs] == [("c0", ""), ("c1", ""), ("c2", "")]
