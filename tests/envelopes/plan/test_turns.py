"""What a turn of a tool loop decides: which call ends it, which one is a duplicate, what each call returns."""

from __future__ import annotations

from typing import Any

from envelopes.families.registry import builtin
from envelopes.pipeline.render import render
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.tool_loop import ToolLoop, ToolRequest
from envelopes.schema.outcome import ToolExecutionResult
from envelopes.storage.sinks import MemorySink
from envelopes.transports import AnsweredCall
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


def test_a_call_of_a_loop_returns_the_envelope_and_the_receipt_that_follows_from_it() -> None:
    """RFC-084: the two halves, for a success and for a failure."""
    family, definition = builtin("WebSearch")

    def search(call: Any, _context: Any) -> Any:
        if call.query == "down":
            raise ToolFailed("network_failed", "no route to host", retryable=True)
        return {"query": call.query, "provider": "own", "fetched_at": "2026-01-05T10:00:00Z"}

    loop = ToolLoop([Tool(definition, search, family)], MemorySink(), environment=Simulation().environment())
    state = loop.begin_turn()
    for query, status, fact in (
        ("receipts", "success", "No web results from own"),
        ("down", "error", "Same call again: may work"),
    ):
        answer = loop.answer(ToolRequest(query, "WebSearch", {"query": query}), state)
        assert (answer.canonical.tool_name, answer.canonical.status) == ("WebSearch", status)
        assert fact in answer.receipt.text
        assert answer.receipt == render(answer.canonical, family, family.rendering)
        assert answer.answered == AnsweredCall(answer.receipt, answer.canonical, answer.ids)
