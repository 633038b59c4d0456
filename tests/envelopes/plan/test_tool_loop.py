"""The turn loop: each call has one outcome, whatever its tool does; budget, block-list, replay, hooks, messages."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.codecs import call as codec
from envelopes.families.registry import builtin
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.tool_answers import Tool, ToolFailed, fail
from envelopes.plan.tool_loop import AnsweredRequest, ToolLoop, ToolRequest, TurnBudget
from envelopes.schema.call import CallError, check_events
from envelopes.schema.outcome import (
    TOOL_MESSAGE_MAX_CHARS,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    outcome_to_model_content,
)
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.storage.sinks import MemorySink
from tests.cases import each
from tests.envelopes.plan.simulation import HANG, START, Echoed, Simulation, Value, echo, make_tool, nested
from tests.envelopes.settled import output_of


class Text(msgspec.Struct, frozen=True):
    text: str


ANY_TEXT = {"result": (Text,)}


class Loop:
    """A loop in simulated time with one tool."""

    def __init__(self, run: Callable[..., Any] = echo, *, budget: TurnBudget | None = None, **settings: Any) -> None:
        names = ("risk", "result", "timeout_ms", "retry_on_timeout", "idempotent", "cancellable")
        fields = {name: settings.pop(name) for name in names if name in settings}
        self.time, self.sink, self.recorder = Simulation(), MemorySink(), MemoryRecorder()
        self.loop = ToolLoop(
            [Tool(make_tool("T", run, **fields).definition, run, settings.pop("family", None))],
            self.sink,
            self.recorder,
            budget=budget or TurnBudget(),
            environment=self.time.environment(),
            **settings,
        )
        self.state = self.loop.begin_turn()

    def call(self, args: dict[str, Any] | None = None, tool: str = "T") -> ToolOutcome:
        request = ToolRequest("toolu_1", tool, {"value": 1} if args is None else args)
        return self.loop.execute(self.loop.make_call(request), self.state)

    def checked(self) -> MemoryRecorder:
        """The records after the end of the loop: one result a call, and the events of each."""
        self.loop.close()
        ids = [call.call_id for call in self.recorder.calls]
        assert ids == [result.call_id for result in self.recorder.results]
        assert check_events(self.recorder.events, ids) == []
        for records in (self.recorder.calls, self.recorder.results, self.recorder.events):
            written = b"".join(codec.encode_lines(records))
            assert len(list(codec.decode_lines(written, type(records[0])))) == len(records)
        return self.recorder


def fails(kind: str, **fields: Any) -> Callable[..., Any]:
    def run(*_: Any) -> None:
        raise ToolFailed(kind, f"failed with {kind}", **fields)

    return run


def raises(error: BaseException) -> Callable[..., Any]:
    def run(*_: Any) -> None:
        raise error

    return run


class OddObject(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise LookupError("odd")


class OddFailure(ToolFailed):
    def to_error(self) -> ToolError:
        raise LookupError("odd")


ENDINGS: list[tuple[str, Callable[..., Any], type[ToolOutcome]]] = [
    ("returns", echo, ToolExecutionResult),
    ("returns much", lambda *_: Echoed(value="x" * 12_000), ToolArtifactReference),
    ("reports a failure", fails("missing_file"), ToolFailure),
    ("returns an error", lambda *_: {"error": "no"}, ToolFailure),
    ("raises", raises(OSError("no disk")), ToolFailure),
    ("ends its thread", raises(SystemExit()), ToolFailure),
    ("returns another shape", lambda *_: [1], ToolFailure),
    ("returns nothing", lambda *_: None, ToolFailure),
    ("is no JSON", lambda *_: Echoed(value=object()), ToolFailure),
    ("reports a timeout", fails("command_timed_out"), ToolTimeout),
    ("returns a deep error", lambda *_: {"error": nested(100_000)}, ToolFailure),
    ("returns a deep value", lambda *_: Echoed(value=nested(250)), ToolFailure),
    ("returns an odd object", lambda *_: OddObject(), ToolFailure),
    ("raises an odd failure", raises(OddFailure("x", "no")), ToolFailure),
    ("gives an odd hint", fails("x", recovery_hint=5, retryable="no", details=nested(250)), ToolFailure),
    ("returns an odd error", lambda *_: CompleteOutput("T", "error", "no", error=ODD_ERROR), ToolFailure),
]
ODD_ERROR = ToolError(kind=5, message=None, retryable="no", recovery_hint=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("run", "kind"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
def test_every_call_has_one_outcome_whatever_its_tool_does(run: Callable[..., Any], kind: type[ToolOutcome]) -> None:
    loop = Loop(run)
    assert type(loop.call()) is kind
    assert type(loop.call({"number": "many"})) in (ToolDenied, kind)
    assert type(loop.call(tool="Unheard")) is ToolDenied
    assert len(loop.checked().results) == 3


@each("args", [None, [1], "x", 5, nested(160), nested(100_000), {"value": object()}, {1: 2}])
def test_arguments_of_any_shape_are_answered_and_recorded(args: Any) -> None:
    loop = Loop(timeout_ms=70)
    outcome = loop.loop.answer(ToolRequest("toolu_1", "T", args), loop.state).outcome
    assert type(outcome) is (ToolExecutionResult if args is None else ToolDenied)
    loop.checked()


def broken(*_: Any) -> bool:
    raise LookupError("no such policy")


@each("setting", ["allow_tool", "pre_hook", "confirmation", "approve_write"])
def test_a_gate_that_raises_refuses_the_call_and_the_loop_goes_on(setting: str) -> None:
    loop = Loop(risk="writes", **{setting: broken})
    denied = loop.call()
    assert isinstance(denied, ToolDenied)
    assert (denied.reason, denied.details) == ("pre_hook", "a check before the call failed: LookupError")
    assert loop.checked().results[0].error == CallError(
        code="INTERNAL_ERROR",
        message="a check before the call failed: LookupError",
        retryable=False,
        kind="tool_execution_failed",
    )


def test_a_call_whose_output_cannot_be_stored_failed() -> None:
    loop = Loop(lambda *_: output_of(12_001), **ANY_TEXT)
    loop.sink.write = lambda *_: broken()  # type: ignore[assignment,return-value,method-assign]
    assert loop.call() == ToolFailure("id2", "T", "its output could not be stored: LookupError", retryable=True)
    assert [result.status for result in loop.checked().results] == ["error"]


@contextmanager
def real_loop(run: Callable[..., Any], **fields: Any) -> Iterator[tuple[ToolLoop, MemoryRecorder]]:
    """A loop on real threads."""
    recorder = MemoryRecorder()
    loop = ToolLoop([make_tool("T", run, **fields), make_tool("Echo")], MemorySink(), recorder)
    yield loop, recorder
    loop.close()


def test_a_tool_that_hangs_and_answers_late_has_one_outcome_and_the_loop_goes_on() -> None:
    end = threading.Event()

    async def swallow(given: Value, _context: Any) -> Echoed:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            end.set()
        return Echoed(value=given.value)

    for run in (lambda *_: end.wait(), swallow):
        end.clear()
        with real_loop(run, timeout_ms=30) as (loop, recorder):
            state = loop.begin_turn()
            late = loop.answer(ToolRequest("1", "T", {}), state)
            end.set()
            assert isinstance(late.outcome, ToolTimeout)
            assert isinstance(loop.answer(ToolRequest("2", "Echo", {}), state).outcome, ToolExecutionResult)
            assert [result.status for result in recorder.results] == ["timeout", "ok"]


def test_a_cancel_from_another_thread_ends_the_call_and_the_turn() -> None:
    begun = threading.Event()

    def run(_given: Value, context: Any) -> Echoed:
        begun.set()
        context.stop.wait()
        raise asyncio.CancelledError

    with real_loop(run) as (loop, _):
        threading.Thread(target=lambda: begun.wait() and loop.cancel()).start()
        requests = [ToolRequest("1", "T", {}), ToolRequest("2", "Echo", {})]
        result = loop.run_turn(lambda _last: requests)
        assert (result.end, result.rounds) == ("cancelled", 1)
        first, second = (answer.outcome for answer in result.answers)
        assert first == ToolFailure(first.call_id, "T", "cancelled", retryable=True, elapsed_ms=first.elapsed_ms)
        assert isinstance(second, ToolDenied)
        assert "turn was cancelled" in second.details
        assert loop.run_turn(lambda _last: []).end == "answered"  # the next turn is not cancelled


def test_12_000_characters_of_json_are_inline_and_12_001_are_an_artifact() -> None:
    """The artifact holds the whole output, and the reference has its size (OUT-052)."""
    assert TOOL_MESSAGE_MAX_CHARS == 12_000
    sizes = iter([12_000, 12_001])
    loop = Loop(lambda *_: output_of(next(sizes)), **ANY_TEXT)
    inline = loop.call()
    assert inline == ToolExecutionResult("id2", "T", output_of(12_000), 0)
    assert len(outcome_to_model_content(inline)) == 12_000
    assert not loop.sink.texts
    reference = loop.call()
    assert isinstance(reference, ToolArtifactReference)
    assert loop.sink.texts == {reference.artifact_id: json.dumps(output_of(12_001))}
    assert reference.artifact_id.endswith("/result.txt")
    assert reference.size_bytes == 12_001 == len(loop.sink.texts[reference.artifact_id].encode())


def test_a_reference_begins_like_its_output_and_stays_within_200_characters() -> None:
    reference = Loop(lambda *_: output_of(20_000), **ANY_TEXT).call()
    assert isinstance(reference, ToolArtifactReference)
    assert reference.summary == '{"text": "' + "x" * 189 + "…"
    assert len(reference.summary) == 200
    assert len(outcome_to_model_content(reference)) < 500


@each(
    ("output", "error", "retryable"),
    [
        ({"error": "no disk"}, "no disk", True),
        ({"error": "no", "retryable": False}, "no", False),
        ({"error": {"odd": 1}}, '{"odd":1}', True),
        ({"error": {"kind": "missing_file", "message": "gone", "retryable": False}}, "gone", True),  # E-26
        ({"error": ""}, "", True),
    ],
)
def test_an_output_with_an_error_in_it_failed(output: dict[str, Any], error: str, *, retryable: bool) -> None:
    outcome = Loop(lambda *_: output).call()
    assert outcome == ToolFailure("id2", "T", error, retryable=retryable)


@pytest.mark.parametrize(("risk", "retryable"), [("read-only", True), ("writes", False), ("commands", False)])
def test_an_exception_may_be_retried_when_the_tool_changes_nothing(risk: Any, *, retryable: bool) -> None:
    loop = Loop(raises(OSError("no disk")), risk=risk)
    assert loop.call() == ToolFailure("id2", "T", "no disk", retryable)
    assert loop.state.blocked_tool_names == (set() if retryable else {"T"})


def test_an_exception_without_words_is_called_by_its_class() -> None:
    outcome = Loop(raises(KeyError())).call()
    assert isinstance(outcome, ToolFailure)
    assert outcome.error == "KeyError"


@pytest.mark.parametrize("allowed", [True, False])
def test_the_tools_definition_says_whether_a_timeout_may_be_retried(*, allowed: bool) -> None:
    loop = Loop(lambda *_: loop.time.take(HANG), timeout_ms=70, retry_on_timeout=allowed)
    assert loop.call() == ToolTimeout("id2", "T", pytest.approx(START + 0.07), 70, allowed)
    assert loop.state.blocked_tool_names == (set() if allowed else {"T"})


@each(
    ("run", "retryable"),
    [
        (fails("tool_timed_out"), None),
        (fails("command_timed_out"), None),
        (fails("command_timed_out", retryable=True), None),
        (fails("command_timed_out", retryable=False), False),
        (lambda *_: {"error": {"kind": "tool_timed_out", "message": "slow"}}, None),
        (lambda *_: fail("T", ToolError(kind="tool_timed_out", message="slow", retryable=True)), None),
    ],
)
def test_a_timeout_that_the_tool_reports_follows_its_definition_as_well(
    run: Callable[..., Any], *, retryable: bool | None
) -> None:
    for allowed in (True, False):
        loop = Loop(run, retry_on_timeout=allowed)
        outcome = loop.call()
        assert isinstance(outcome, ToolTimeout)
        assert outcome.deadline_s == START + 600  # that of the dispatcher, which had not passed (OUT-010)
        assert outcome.retryable == (allowed if retryable is None else retryable)
        assert loop.state.blocked_tool_names == (set() if outcome.retryable else {"T"})


def test_a_failure_that_other_arguments_cure_leaves_the_tool_available() -> None:
    """One wrong path, and the next call runs (E-26)."""

    def run(given: Value, context: Any) -> Any:
        if given.path == "../x":
            raise ToolFailed("execution_root_violation", "outside", retryable=False)
        return echo(given, context)

    loop = Loop(run, risk="commands")
    wrong = loop.call({"path": "../x"})
    assert isinstance(wrong, ToolFailure)
    assert loop.recorder.results[0].error is not None
    assert (wrong.retryable, loop.recorder.results[0].error.retryable) == (True, False)
    assert isinstance(loop.call({"path": "x"}), ToolExecutionResult)
    loop = Loop(fails("provider_unavailable"))
    loop.call()
    assert loop.call({"value": 2}) == ToolDenied(
        "id3",
        "T",
        "blocked",
        "blocked for the rest of this turn after toolu_1 failed: failed with provider_unavailable",
    )
    loop.state = loop.loop.begin_turn()
    assert isinstance(loop.call({"value": 2}), ToolFailure)


def test_an_idempotent_call_that_succeeded_is_not_run_again_and_a_denied_one_may_be() -> None:
    answers = iter([False, True])
    loop = Loop(idempotent=True, pre_hook=lambda *_: next(answers, True))
    kinds = [type(loop.call()).__name__ for _ in range(3)]
    assert kinds == ["ToolDenied", "ToolExecutionResult", "ToolDenied"]
    again = loop.call()
    assert outcome_to_model_content(again) == '{"warning": "duplicate_tool_call", "skipped": true}'
    assert isinstance(loop.call({"value": 2}), ToolExecutionResult)


def test_the_budget_of_a_turn_denies_what_comes_too_late_or_too_often() -> None:
    loop = Loop(budget=TurnBudget(most_calls=1))
    assert isinstance(loop.call(), ToolExecutionResult)
    denied = loop.call()
    assert isinstance(denied, ToolDenied)
    assert "1 calls" in denied.details
    slow = Loop(budget=TurnBudget(most_ms=100))
    slow.time.after(150, lambda: None)
    slow.time.wait(1)
    late = slow.call()
    assert isinstance(late, ToolDenied)
    assert late.reason == "deadline"
    hanging = Loop(lambda *_: hanging.time.take(HANG), budget=TurnBudget(most_ms=100))
    assert isinstance(hanging.call(), ToolTimeout)
    assert hanging.loop.run_turn(lambda _last: [], hanging.state).end == "deadline"


def test_the_hooks_of_a_loop_see_each_call_and_its_answer() -> None:
    seen: list[str] = []
    loop = Loop(
        risk="writes",
        pre_hook=lambda call, _admitted: seen.append(f"before {call.tool}") is None,
        approve_write=lambda call, _admitted: seen.append("approved") is None,
        after_call=lambda answer: seen.append(type(answer.outcome).__name__),
    )
    loop.call()
    assert seen == ["before T", "approved", "ToolExecutionResult"]
    refused = Loop(risk="writes", approve_write=lambda *_: False).call()
    assert isinstance(refused, ToolDenied)
    assert refused.reason == "write_denied"
    missing = ToolError(kind="write_denied", message="not confirmed", retryable=False)
    unconfirmed = Loop(risk="writes", confirmation=lambda *_: missing).call()
    assert isinstance(unconfirmed, ToolDenied)
    assert unconfirmed.details == "not confirmed"
    absent = Loop(allow_tool=lambda *_: missing).call()
    assert isinstance(absent, ToolDenied)
    assert absent.reason == "pre_hook"


def test_a_turn_goes_on_until_the_model_asks_for_nothing() -> None:
    loop = Loop()
    seen: list[list[int]] = []

    def model(last: list[AnsweredRequest]) -> list[ToolRequest]:
        seen.append([answer.settlement.data["value"] for answer in last if answer.settlement.data])
        numbers = {0: [1, 2], 1: [3]}.get(len(seen) - 1, [])
        return [ToolRequest(f"toolu_{number}", "T", {"value": number}) for number in numbers]

    result = loop.loop.run_turn(model)
    assert (result.end, result.rounds, seen) == ("answered", 3, [[], [1, 2], [3]])
    assert [answer.message["tool_call_id"] for answer in result.answers] == ["toolu_1", "toolu_2", "toolu_3"]
    assert json.loads(result.answers[2].message["content"])["value"] == 3
    assert {call.provider_call_id for call in loop.checked().calls} == {"toolu_1", "toolu_2", "toolu_3"}
    assert {call.call_id for call in loop.recorder.calls}.isdisjoint({"toolu_1", "toolu_2", "toolu_3"})
    assert [call.step_id for call in loop.recorder.calls] == ["turn-2.1", "turn-2.1", "turn-2.2"]  # of the second turn


def test_a_turn_ends_at_its_most_rounds() -> None:
    loop = Loop(budget=TurnBudget(most_rounds=2))
    result = loop.loop.run_turn(lambda _last: [ToolRequest("1", "T", {})])
    assert (result.end, result.rounds, len(result.answers)) == ("rounds", 2, 2)


def test_one_failure_gives_error_settlement_outcome_and_receipt() -> None:
    family, definition = builtin("ExecCommand")
    failure = ToolFailed("execution_root_violation", "../x is outside the workspace", recovery_hint="stay inside")
    loop = ToolLoop([Tool(definition, raises(failure), family)], MemorySink(), environment=Simulation().environment())
    answer = loop.answer(ToolRequest("toolu_1", "ExecCommand", {"cmd": "ls"}), loop.begin_turn())
    assert answer.settlement.error is answer.canonical.error
    assert answer.settlement.code == "POLICY_DENIED"
    assert isinstance(answer.outcome, ToolFailure)
    assert (answer.outcome.error, answer.outcome.retryable) == (failure.message, True)
    for text in ("execution_root_violation", failure.message, "stay inside"):
        assert text in answer.receipt.text
    plain = Loop()
    without_family = plain.loop.answer(ToolRequest("1", "T", {}), plain.state)
    assert without_family.canonical.result == without_family.settlement.data
    with pytest.raises(LookupError):
        _ = without_family.receipt


def test_arguments_without_a_hash_are_recorded_without_one() -> None:
    loop = Loop()
    loop.call({"value": float("nan")})
    assert loop.recorder.calls[0].args_hash is None


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_what_the_model_reads_of_an_output_is_its_json(output: dict[str, str]) -> None:
    outcome = Loop(lambda *_: Echoed(value=output)).call()
    assert json.loads(outcome_to_model_content(outcome))["value"] == output


def test_every_outcome_of_the_union_comes_from_a_call() -> None:
    assert {row[2] for row in ENDINGS} | {ToolDenied} == set(get_args(ToolOutcome))
