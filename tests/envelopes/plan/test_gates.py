"""The gates before a tool runs: what each stops, in which order, and what is stored and returned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from envelopes.codecs import call as calls
from envelopes.codecs import outcome as outcomes
from envelopes.families.registry import builtin, may_call, tools
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan import turn_state
from envelopes.plan.gates import Admitted, Denied, Gates, parse_args
from envelopes.plan.turn_state import TurnState
from envelopes.schema.call import Coercion, ToolCall
from envelopes.schema.outcome import ToolDenied, ToolExecutionResult, ToolFailure, outcome_to_model_content
from envelopes.schema.result import CanonicalResult, CompleteOutput, ToolError
from envelopes.schema.tool import ALL_PROFILES, InvalidToolInput, ToolDefinition
from envelopes.storage.sinks import MemorySink
from tests.envelopes.settled import call

NOW = 1_765_908_721.5
PATCH = {"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}


def request(tool: str = "ExecCommand", args: dict[str, Any] | None = None) -> ToolCall:
    return call(tool=tool, args={"cmd": "make"} if args is None else args)


def gates(**settings: Any) -> Gates:
    return Gates(**{"registry": tools().get, "clock": lambda: NOW, **settings})


def denied(gate: Gates, refused: ToolCall) -> Denied:
    decision = gate.admit(refused)
    assert isinstance(decision, Denied)
    return decision


def not_here(_call: ToolCall, _tool: ToolDefinition) -> ToolError:
    return ToolError(kind="policy_denied", message="not in this sandbox", retryable=False)


def never(*_: Any) -> bool:
    return False


def unasked(*_: Any) -> bool:
    raise AssertionError("a gate was evaluated behind one that stops the call")


def blocking(*names: str) -> TurnState:
    return TurnState(blocked_tool_names=set(names))


STOPPED: list[tuple[str, dict[str, Any], ToolCall, tuple[str, ...]]] = [
    ("unknown", {}, request("Unheard"), ("validation", "unknown_tool", "error", "VALIDATION_ERROR")),
    (
        "blocked",
        {"state": blocking("ExecCommand")},
        request(),
        ("blocked", "non_retryable_tool_failure", "skipped", ""),
    ),
    ("deadline", {"deadline_s": NOW}, request(), ("deadline", "deadline_expired", "timeout", "TIMEOUT")),
    ("policy", {"policy": not_here}, request(), ("pre_hook", "policy_denied", "error", "POLICY_DENIED")),
    ("arguments", {}, request(args={}), ("validation", "invalid_tool_input", "error", "VALIDATION_ERROR")),
    ("hook", {"pre_hook": never}, request(), ("pre_hook", "denied_by_hook", "error", "POLICY_DENIED")),
    (
        "write",
        {"approve_write": never},
        request("ApplyPatch", PATCH),
        ("write_denied", "write_denied", "error", "POLICY_DENIED"),
    ),
    (
        "command",
        {"approve_write": never},
        request(),
        ("write_denied", "write_denied", "error", "POLICY_DENIED"),
    ),
]


@pytest.mark.parametrize(
    ("settings", "refused", "expected"), [row[1:] for row in STOPPED], ids=[row[0] for row in STOPPED]
)
def test_a_gate_stops_a_call_before_it_runs_and_settles_it(
    settings: dict[str, Any], refused: ToolCall, expected: tuple[str, ...]
) -> None:
    reason, kind, status, code = expected
    denial = denied(gates(**settings), refused)
    settled = denial.settlement
    assert (settled.phase, settled.denied_reason, settled.duration_ms, settled.effects) == (
        *("pre_dispatch", reason),
        *(0, None),
    )
    assert settled.error is not None
    assert (settled.error.kind, bool(settled.error.message)) == (kind, True)
    written = calls.to_result(refused, settled)
    assert (written.status, written.ok, written.error.code if written.error else "") == (status, False, code)
    canonical = CanonicalResult(tool_name=refused.tool, status="error", summary_text="stopped", error=settled.error)
    assert outcomes.encode(settled, canonical, MemorySink()) == denial.outcome
    assert denial.outcome.reason == reason


def test_a_call_that_no_gate_stops_runs_with_its_arguments_parsed() -> None:
    admitted = gates(deadline_s=NOW + 1).admit(request(args={"cmd": "make", "yield_time_ms": 5}))
    assert isinstance(admitted, Admitted)
    assert (admitted.args, admitted.coercions, admitted.was_coerced) == ({"cmd": "make", "yield_time_ms": 5}, (), False)
    assert admitted.input == builtin("ExecCommand")[1].parse({"cmd": "make", "yield_time_ms": 5})


def test_the_gates_have_one_order_and_no_confirmation_comes_too_early() -> None:
    """Each gate is opened in turn; the next one stops the same call (OD-20)."""
    settings: dict[str, Any] = {
        "state": blocking("ApplyPatch"),
        "deadline_s": NOW,
        "policy": not_here,
        "idempotent": frozenset({"ApplyPatch"}),
        "pre_hook": unasked,
        "approve_write": unasked,
    }
    refused = request("ApplyPatch", {"patch": ""})
    opened: list[tuple[str, dict[str, Any], ToolCall]] = [
        ("non_retryable_tool_failure", {}, refused),
        ("deadline_expired", {"state": TurnState()}, refused),
        ("policy_denied", {"deadline_s": None}, refused),
        ("invalid_tool_input", {"policy": lambda *_: None}, refused),
        ("duplicate_tool_call", {}, request("ApplyPatch", PATCH)),
        ("denied_by_hook", {"idempotent": frozenset(), "pre_hook": never}, request("ApplyPatch", PATCH)),
        ("write_denied", {"pre_hook": lambda *_: True, "approve_write": never}, request("ApplyPatch", PATCH)),
    ]
    replay = turn_state.ReplayControl()
    replay.record_success("ApplyPatch", PATCH)
    for kind, change, refused_call in opened:
        settings |= change
        error = denied(gates(replay=replay, **settings), refused_call).settlement.error
        assert error is not None
        assert error.kind == kind
    assert isinstance(
        gates(**settings | {"approve_write": lambda *_: True}).admit(request("ApplyPatch", PATCH)), Admitted
    )


def test_an_approval_that_takes_too_long_lets_nothing_run() -> None:
    ticking: Iterator[int] = count()
    late = gates(clock=lambda: NOW + next(ticking), deadline_s=NOW + 1)
    denial = denied(late, request())
    assert denial.outcome.reason == "deadline"
    assert outcome_to_model_content(denial.outcome) == (
        '{"error": "Turn deadline expired; cannot execute tool.", "timed_out": true}'
    )
    assert denial.settlement.deadline_at == "2025-12-16T18:12:02.500Z"


@pytest.mark.parametrize("profile", ALL_PROFILES)
def test_a_profile_is_a_policy(profile: Any) -> None:
    def by_profile(_call: ToolCall, tool: ToolDefinition) -> ToolError | None:
        kind = "unsupported_agent_profile_capability"
        return None if may_call(profile, tool.name) else ToolError(kind=kind, message="not for you", retryable=False)

    decision = gates(policy=by_profile).admit(request("SpawnAgent", {"initial_message": "look"}))
    assert isinstance(decision, Denied) == (profile == "private_child")
    if isinstance(decision, Denied):
        assert decision.settlement.code == "POLICY_DENIED"


def test_a_tool_that_only_reads_asks_for_no_approval() -> None:
    assert isinstance(gates(approve_write=unasked).admit(request("AgentGet", {})), Admitted)


@pytest.mark.parametrize(
    ("tool", "args", "fitting", "coercions"),
    [
        (
            "ExecCommand",
            {"cmd": " make ", "yield_time_ms": "500", "tty": "true", "shell": None},
            {"cmd": " make ", "yield_time_ms": 500, "tty": True, "shell": None},
            [("/yield_time_ms", "500", 500), ("/tty", "true", True)],
        ),
        (
            "ExecCommandBatch",
            {"items": [{"cmd": "ls"}, {"cmd": "make", "login": "false"}]},
            {"items": [{"cmd": "ls"}, {"cmd": "make", "login": False}]},
            [("/items/1/login", "false", False)],
        ),
        ("MemorySearch", {"query": "x", "limit": "500"}, {"query": "x", "limit": 50}, [("/limit", "500", 50)]),
    ],
)
def test_arguments_are_repaired_where_that_makes_them_fit(
    tool: str, args: dict[str, Any], fitting: dict[str, Any], coercions: list[tuple[str, Any, Any]]
) -> None:
    admitted = gates().admit(request(tool, args))
    assert isinstance(admitted, Admitted)
    assert admitted.args == fitting
    assert admitted.coercions == tuple(Coercion(pointer=at, before=old, after=new) for at, old, new in coercions)
    assert admitted.was_coerced
    assert admitted.input == builtin(tool)[1].parse(fitting)


@pytest.mark.parametrize(
    ("tool", "args", "field"),
    [
        ("ExecCommand", {"cmd": 5}, "cmd"),
        ("ExecCommand", {"cmd": "ls", "yield_time_ms": "soon"}, "yield_time_ms"),
        ("ExecCommand", {"cmd": "ls", "yield_time_ms": "5", "login": "perhaps"}, "yield_time_ms"),
        ("UseWorkspace", {"path": "/a", "workspace_id": "b"}, "workspace_id"),
    ],
)
def test_what_no_repair_makes_fit_is_refused_with_its_first_reason(tool: str, args: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidToolInput) as strict:
        builtin(tool)[1].parse(args)
    with pytest.raises(InvalidToolInput) as lax:
        parse_args(builtin(tool)[1], args)
    assert lax.value.error == strict.value.error
    assert (lax.value.error.details or {})["field"] == field
    denial = denied(gates(), request(tool, args))
    assert denial.outcome == ToolDenied("c1", tool, "validation", strict.value.error.message)


def test_a_loop_obeys_its_gates() -> None:
    """In a turn, a failure blocks its tool until the turn ends, and a success makes the next call a duplicate."""
    gate = gates()  # the definition of MemorySearch makes it idempotent
    search = request("MemorySearch", {"query": "x", "limit": "5"})
    first = gate.admit(search)
    assert isinstance(first, Admitted)
    ran = ToolExecutionResult("c1", "MemorySearch", {"hits": 1}, 1, was_coerced=True)
    turn_state.apply_outcome(ran, first.args, gate.state, gate.replay)
    again = denied(gate, request("MemorySearch", {"query": "x", "limit": 5}))
    assert outcome_to_model_content(again.outcome) == '{"warning": "duplicate_tool_call", "skipped": true}'
    turn_state.apply_outcome(again.outcome, first.args, gate.state, gate.replay)
    broken = ToolFailure("c2", "ExecCommand", "no shell", retryable=False)
    turn_state.apply_outcome(broken, {"cmd": "make"}, gate.state, gate.replay)
    for command in ("make", "ls"):
        stopped = denied(gate, request(args={"cmd": command}))
        assert outcome_to_model_content(stopped.outcome) == (
            '{"warning": "non_retryable_tool_failure", "skipped": true}'
        )
        turn_state.apply_outcome(stopped.outcome, {"cmd": command}, gate.state, gate.replay)
    gate.state = TurnState()
    assert isinstance(gate.admit(request()), Admitted)
    assert isinstance(gate.admit(search), Denied)


def test_a_denial_is_written_like_any_other_error() -> None:
    for _, settings, refused, _ in STOPPED[1:]:
        error = denied(gates(**settings), refused).settlement.error
        assert error is not None
        complete = CompleteOutput(
            tool_name=refused.tool, status="error", summary_text=error.message, error=msgspec.structs.replace(error)
        )
        family = builtin(refused.tool)[0]
        text = render(
            project(complete, family, family.projection, MemorySink()).canonical, family, family.rendering
        ).text
        assert f"Kind: {error.kind}\n" in text
        assert "Hint: " in text or error.recovery_hint is None
