"""What a turn of a tool loop decides about its calls: which one ends it, and which one is a duplicate."""

from __future__ import annotations

from typing import Any

from envelopes.families.registry import builtin
from envelopes.plan.tool_loop import ToolLoop, ToolRequest
from envelopes.schema.outcome import ToolExecutionResult
from envelopes.storage.sinks import MemorySink
from tests.envelopes.plan.simulation import Simulation, echo, make_tool


def fail() -> Any:
    raise LookupError("no such thing")


def test_a_call_that_ends_the_turn_is_the_last_one_that_runs() -> None:
    waits = make_tool("Wait", lambda given, context: fail() if given.number else echo(given, context), ends_turn=True)
    loop = ToolLoop([waits, make_tool("Echo")], MemorySink(), environment=Simulation().environment())
    rounds = [
        [ToolRequest("1", "Wait", {"number": 1}), ToolRequest("2", "Echo", {})],  # a wait that failed ends nothing
        [ToolRequest("3", "Echo", {"value": 3}), ToolRequest("4", "Wait", {}), ToolRequest("5", "Echo", {"value": 5})],
    ]
    state = loop.begin_turn()
    result = loop.run_turn(lambda _last: rounds.pop(0), state)
    assert (result.end, result.rounds) == ("waiting", 2)
    assert [answer.settlement.end for answer in result.answers] == ["error", "ok", "ok", "ok", "skipped"]
    skipped = result.answers[-1].settlement
    assert skipped.error is not None
    assert (skipped.phase, skipped.error.kind) == ("pre_dispatch", "skipped")
    assert skipped.error.message == "it did not run: Wait ended the turn"
    assert loop.run_turn(lambda _last: fail(), state).end == "waiting"  # nobody asks the model again
    assert loop.run_turn(lambda _last: []).end == "answered"
    assert builtin("WaitFor")[1].ends_turn
    loop.close()


def test_a_duplicate_is_one_within_its_turn_and_until_something_is_written() -> None:
    """What a search finds may be another thing after a write, and in another turn (OUT-019)."""
    tools = [make_tool("Search", idempotent=True), make_tool("Write", risk="writes"), make_tool("Read")]
    loop = ToolLoop(tools, MemorySink(), environment=Simulation().environment())
    state = loop.begin_turn()

    def end_of(tool: str) -> str:
        return loop.answer(ToolRequest("1", tool, {}), state).settlement.end

    assert [end_of(tool) for tool in ("Search", "Read", "Search")] == ["ok", "ok", "skipped"]
    assert [end_of(tool) for tool in ("Write", "Search", "Search")] == ["ok", "ok", "skipped"]
    state = loop.begin_turn()
    assert [end_of(tool) for tool in ("Search", "Search")] == ["ok", "skipped"]
    loop.close()


def test_an_outcome_states_that_its_arguments_were_repaired() -> None:
    loop = ToolLoop([make_tool("Echo")], MemorySink(), environment=Simulation().environment())
    state = loop.begin_turn()
    for number, was_coerced in (("5", True), (5, False)):
        outcome = loop.answer(ToolRequest("1", "Echo", {"number": number}), state).outcome
        assert isinstance(outcome, ToolExecutionResult)
        assert (outcome.output["number"], outcome.was_coerced) == (5, was_coerced)
    loop.close()
