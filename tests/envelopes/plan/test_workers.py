"""Tools on real threads and a real event loop: whatever one does, its call ends once and the run goes on."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from envelopes.plan.executor import Executor, RunResult
from envelopes.plan.gates import Admitted
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext, Finished, ThreadWorkers
from envelopes.schema.call import ToolCall
from envelopes.schema.result import CompleteOutput
from envelopes.schema.settlement import Created, Effects
from tests.cases import each
from tests.envelopes.plan.simulation import Echoed, Value, echo, make_plan, make_policy, make_tool, step

ECHO = make_tool("Echo")


def run(*steps: dict[str, Any], tools: tuple[Tool, ...], **settings: Any) -> tuple[RunResult, MemoryRecorder]:
    recorder = MemoryRecorder()
    result = Executor((ECHO, *tools), settings.pop("policy", make_policy()), **settings).run(
        make_plan(*steps), recorder, run_id="r1"
    )
    return result, recorder


def result_of(tool: Callable[..., Any], **fields: Any) -> Any:
    """The only result of a tool, and the proof that the run went on behind it."""
    ran, recorder = run(
        step("a", "Odd", onError="skip"),
        step("b"),
        tools=(make_tool("Odd", tool, **{"risk": "writes", "timeout_ms": 60_000, **fields}),),
    )
    assert [state.end for state in ran.steps][1] == "ok"
    return recorder.results[0]


def raise_(error: BaseException) -> Callable[..., Any]:
    def tool(*_: Any) -> None:
        raise error

    return tool


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def async_echo(given: Value, context: CallContext) -> Echoed:
    await asyncio.sleep(0)
    return echo(given, context)


async def async_raise(*_: Any) -> None:
    raise ToolFailed("rate_limited", "later")


async def cancel_itself(*_: Any) -> None:
    raise asyncio.CancelledError


@each(
    ("tool", "status", "message"),
    [
        (echo, "ok", "Odd returned a result"),
        (lambda *_: {"value": 1, "number": 2}, "ok", ""),
        (
            lambda *_: CompleteOutput(tool_name="x", status="success", summary_text="Said it", result=Echoed()),
            "ok",
            "Said it",
        ),
        (async_echo, "ok", ""),
        (functools.partial(async_echo), "ok", ""),
        (raise_(OSError("no disk")), "error", "no disk"),
        (raise_(Mute()), "error", "Mute"),
        (raise_(SystemExit(3)), "error", "3"),
        (raise_(KeyboardInterrupt()), "error", "KeyboardInterrupt"),
        (async_raise, "error", "later"),
        (cancel_itself, "error", "the tool cancelled itself"),
        (lambda *_: None, "error", "it returned NoneType, not Echoed"),
        (lambda *_: "text", "error", "it returned str, not Echoed"),
        (lambda *_: {"number": "many"}, "error", "does not fit its definition"),
        (lambda *_: {"error": "no luck"}, "error", "no luck"),
        (lambda *_: {"error": {"kind": "missing_file", "message": "gone"}}, "error", "gone"),
        (lambda *_: {"error": {"odd": 1}}, "error", '{"odd":1}'),
        (lambda *_: CompleteOutput(tool_name="x", status="success", summary_text=""), "error", "neither a result"),
        (lambda *_: Echoed(value=object()), "error", "no JSON"),
        (raise_(ToolFailed("", "", details={"at": object()})), "error", ""),
    ],
)
def test_every_answer_and_every_exception_is_one_result(tool: Callable[..., Any], status: str, message: str) -> None:
    result = result_of(tool)
    assert result.status == status
    said = result.user_message if result.ok else result.error.message
    assert message in said


def test_a_failure_that_is_reported_once_gives_all_forms_of_it() -> None:
    failure = ToolFailed("missing_file", "a.md is gone", details={"path": "a.md"}, recovery_hint="list the folder")
    result = result_of(raise_(failure))
    error = result.error
    assert (error.code, error.kind, error.message, error.retryable) == (
        "NOT_FOUND",
        "missing_file",
        "a.md is gone",
        False,
    )
    assert (error.details, error.recovery_hint) == ({"path": "a.md"}, "list the folder")
    assert result.debug_message is None
    assert "OSError: no disk" in result_of(raise_(OSError("no disk"))).debug_message


@contextmanager
def hanging() -> Iterator[Callable[..., Any]]:
    """A tool that hangs until the test is over."""
    end = threading.Event()
    yield lambda *_: end.wait()
    end.set()


def test_a_tool_that_hangs_ends_at_its_deadline() -> None:
    with hanging() as hang:
        result = result_of(hang, timeout_ms=30)
    assert (result.status, result.error.code, result.error.retryable) == ("timeout", "TIMEOUT", True)
    assert result.error.message == "no answer within 30 ms"


def test_a_timeout_of_a_tool_that_forbids_it_is_not_tried_again() -> None:
    retry = {"maxAttempts": 3, "backoffMs": 0}
    for allowed, attempts in ((True, 3), (False, 1)):
        with hanging() as hang:
            tool = make_tool("Hang", hang, timeout_ms=20, retry_on_timeout=allowed)
            _, recorder = run(step("a", "Hang", retry=retry), tools=(tool,))
        assert len(recorder.results) == attempts


def test_a_coroutine_that_swallows_its_cancel_is_reported_when_it_answers() -> None:
    begun = threading.Event()

    async def swallow() -> str:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            return "late"
        return "slept"

    workers = ThreadWorkers()
    workers.start("s", swallow)
    begun.wait()
    workers.cancel("s")
    assert workers.wait(None) == Finished("s", "late")
    workers.close()


def test_a_coroutine_that_blocks_its_loop_holds_up_no_other_call() -> None:
    end = threading.Event()

    async def block(*_: Any) -> None:
        end.wait()

    source = {"from": "$steps.two.value", "itemName": "n", "concurrency": 2}
    tools = (
        make_tool("Block", block, risk="commands", parallel_safe=True, timeout_ms=40),
        make_tool("Async", async_echo),
    )
    result, recorder = run(
        step("two", args={"value": [1, 2]}),
        step("blocked", "Block", foreach=source, onError="skip"),
        step("after", "Async"),
        tools=tools,
    )
    end.set()
    assert [state.end for state in result.steps] == ["ok", "error", "ok"]
    assert [entry.status for entry in recorder.results] == ["ok", "timeout", "timeout", "ok"]


@pytest.mark.parametrize("_round", range(50))
def test_a_coroutine_that_its_loop_never_began_does_not_run_later(_round: int) -> None:
    """Many rounds: the loop may have made a task of it already, in about one of three."""
    workers, end, ran = ThreadWorkers(), threading.Event(), []

    async def block() -> None:
        end.wait()

    async def late() -> None:
        ran.append(1)

    workers.start("block", block)
    workers.start("late", late)
    workers.cancel("late")
    end.set()
    assert workers.wait(None) == Finished("block", None)
    workers.start("last", async_echo, Value(), None)
    assert workers.wait(None) == Finished("last", Echoed())
    assert ran == []
    workers.close()


def test_threads_are_used_again() -> None:
    names = set()

    def tool(given: Value, context: CallContext) -> Echoed:
        names.add(threading.get_ident())
        return echo(given, context)

    plan = [step(f"s{number}", "Name") for number in range(20)]
    run(*plan, tools=(make_tool("Name", tool),))
    assert len(names) == 1


def test_a_system_without_threads_fails_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    result = run(step("a", "Write"), tools=(make_tool("Write", risk="writes"),))[1].results[0]
    assert result.error is not None
    assert result.error.message == "can't start new thread"


def test_a_cancel_from_another_thread_ends_a_run_that_waits() -> None:
    begun = threading.Event()

    def wait(_given: Value, context: CallContext) -> Echoed:
        begun.set()
        context.stop.wait()
        assert context.is_cancelled
        return Echoed(value="stopped")

    executor = Executor([make_tool("Wait", wait), ECHO], make_policy(), grace_ms=600_000)
    threading.Thread(target=lambda: begun.wait() and executor.cancel()).start()
    result = executor.run(make_plan(step("a", "Wait"), step("b")))
    assert (result.end, [state.end for state in result.steps]) == ("cancelled", ["ok", "cancelled"])
    assert executor.run(make_plan(step("b"))).is_ok  # the next run is not cancelled


def test_what_a_tool_reports_while_it_runs_is_recorded() -> None:
    def tool(given: Value, context: CallContext) -> Echoed:
        context.progress("half", {"set": {1}, "odd": object})
        context.effects = Effects(side_effects_observed=("run-command",), created=(Created(path="a", kind="file"),))
        assert context.deadline_at == context.call.deadline_at
        return echo(given, context)

    _, recorder = run(step("a", "Tell"), tools=(make_tool("Tell", tool),))
    (progress,) = [event for event in recorder.events if event.type == "step.progress"]
    assert (progress.message, progress.call_id) == ("half", recorder.calls[0].call_id)
    assert "not_json" in (progress.payload or {})
    assert recorder.results[0].effects is not None
    assert recorder.results[0].effects.side_effects_observed == ("run-command",)


def test_a_hook_that_hangs_refuses_its_call_at_the_deadline_and_the_calls_beside_it_end() -> None:
    never = threading.Event()

    def hook(call: ToolCall, _admitted: Admitted) -> bool:
        return call.iteration is None or call.iteration.index != 1 or never.wait()

    source = {"from": "$vars.items", "itemName": "n", "concurrency": 3}
    plan = make_plan(
        step("all", args={"number": "{n}"}, foreach=source, timeoutMs=300, onError="skip"), step("b", dependsOn=["all"])
    )
    executor = Executor([ECHO], make_policy(), pre_hook=hook)
    result = executor.run(plan, variables={"items": [0, 1, 2, 3]})
    assert [state.end for state in result.steps] == ["partial", "ok"]
    assert result.outputs()["all"]["failed"] == [{"index": 1, "code": "POLICY_DENIED"}]
    never.set()


def test_a_cancel_ends_the_wait_for_a_hook_and_a_hook_that_raises_ends_the_run() -> None:
    asked, never = threading.Event(), threading.Event()

    def hang(_call: ToolCall, _admitted: Admitted) -> bool:
        asked.set()
        return never.wait()

    executor = Executor([ECHO], make_policy(), pre_hook=hang)
    threading.Thread(target=lambda: asked.wait() and executor.cancel()).start()
    result = executor.run(make_plan(step("a"), step("b")))
    assert (result.end, result.steps[1].end) == ("cancelled", "cancelled")
    never.set()

    def fail(_call: ToolCall, _admitted: Admitted) -> bool:
        raise LookupError("no such policy")

    with pytest.raises(LookupError, match="no such policy"):
        Executor([ECHO], make_policy(), pre_hook=fail).run(make_plan(step("a")))


def test_the_items_of_a_tuple_are_named_by_references() -> None:
    """Most results of the built-in tools have tuples, and a list is what JSON makes of them."""
    listing = make_tool("List", lambda *_: Echoed(value={"items": ({"path": "a"}, {"path": "b"})}))
    ran, _ = run(
        step("list", "List"),
        step("each", args={"path": "{n.path}"}, foreach={"from": "$steps.list.value.items", "itemName": "n"}),
        step("last", args={"path": "$steps.list.value.items[1].path"}),
        tools=(listing,),
    )
    assert [state.end for state in ran.steps] == ["ok", "ok", "ok"]
    assert ran.outputs()["last"]["path"] == "b"


def test_wait_ends_at_its_limit_and_when_it_is_woken() -> None:
    workers = ThreadWorkers()
    start = time.monotonic()
    assert workers.wait(0.01) is None
    assert time.monotonic() - start >= 0.01
    workers.wake()
    assert workers.wait(None) is None
    workers.close()
