"""The decisions OD-22 to OD-34: limits, risk, confirmation, events, cancel, secrets, replay, times, context."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from envelopes.codecs.call import encode_policy
from envelopes.plan.checks import PlanRejected
from envelopes.plan.confirmation import ConfirmationRequest, Decision, covers, describe_plan
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.schema import ContextRequest, plan_document
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.schema.settlement import InvalidSettlement
from envelopes.text.canonical_json import named_hash
from tests.cases import each
from tests.envelopes.plan.simulation import (
    HANG,
    START,
    Listed,
    Ran,
    Simulation,
    Value,
    approve,
    echo,
    listing,
    make_plan,
    make_policy,
    make_tool,
    run_plan,
    step,
)
from tests.envelopes.settled import settled

ECHO = make_tool("Echo")
CONFIRMED = make_policy(confirm=True)
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def writer(ran_with: list[Any] | None = None, name: str = "Write", **fields: Any) -> Tool:
    def run(given: Value, context: Any) -> Any:
        if ran_with is not None:
            ran_with.append(given.value)
        return echo(given, context)

    return make_tool(name, run, risk="writes", **fields)


def faults(*steps: dict[str, Any], tools: tuple[Tool, ...] = (ECHO,), **fields: Any) -> list[str]:
    limits = fields.pop("policy", None)
    with pytest.raises(PlanRejected) as rejected:
        run_plan(make_plan(*steps, **fields), *tools, policy=limits)
    return [str(fault) for fault in rejected.value.faults]


def test_od_22_the_limits_of_a_run_hold() -> None:
    assert faults(step("a"), step("b"), policy=make_policy(max_steps=1)) == ["plan: 2 steps, 1 are allowed"]
    assert len(faults(*[step(f"s{number}") for number in range(201)])) == 1
    time = Simulation()
    slow = make_tool("Slow", lambda *given: time.take(60) or echo(*given), risk="writes")
    plan = make_plan(*[step(f"s{number}", "Slow", onError="skip") for number in range(3)])
    ran = run_plan(plan, slow, simulation=time, policy=make_policy(max_run_ms=100))
    assert [result.status for result in ran.recorder.results] == ["ok", "timeout", "timeout"]
    assert [result.phase for result in ran.recorder.results] == [None, "executed", "pre_dispatch"]
    assert time.time == pytest.approx(0.1)


def test_od_23_an_understated_risk_rejects_the_plan_and_the_effective_one_is_the_highest() -> None:
    plan = (step("a", "Write"), step("b", "Run"))
    tools = (writer(), make_tool("Run", risk="commands"))
    assert faults(*plan, tools=tools, risk="read-only") == [
        "a: Write writes, but the plan declares read-only; its riskLevel has to be writes",
        "b: Run runs commands, but the plan declares read-only; its riskLevel has to be commands",
    ]
    seen: list[ConfirmationRequest] = []
    run_plan(
        make_plan(*plan), *tools, policy=CONFIRMED, confirm=lambda request: seen.append(request) or approve(request)
    )
    assert [request.risk for request in seen] == ["commands"]


def confirming(decision: Any, **settings: Any) -> tuple[Ran, list[Any]]:
    wrote: list[Any] = []
    plan = make_plan(step("read"), step("write", "Write", {"value": 1}))
    ran = run_plan(plan, ECHO, writer(wrote), policy=CONFIRMED, confirm=decision, **settings)
    return ran, wrote


def test_od_24_a_confirmation_is_bound_to_plan_and_policy_and_recorded_with_what_was_shown() -> None:
    ran, wrote = confirming(approve)
    header = ran.recorder.header
    assert header is not None
    confirmation = header.confirmation
    assert confirmation is not None
    assert (confirmation.decision, confirmation.actor, wrote) == ("approved", "olga", [1])
    assert confirmation.plan_hash == named_hash(plan_document(ran.plan)) == header.plan_hash
    assert confirmation.policy_hash == named_hash(encode_policy(CONFIRMED)) == header.policy_hash
    assert 'write: Write {"value": 1}' in confirmation.preview
    long = describe_plan(plan_document(make_plan(step("w", "Write", {"value": "x" * 1_000}))), "writes")
    assert "x… (" in long
    assert len(long) < 600
    assert ran.result.outputs()["write"]["value"] == 1
    assert {call.confirmation_id for call in ran.recorder.calls} == {confirmation.confirmation_id}
    assert STAMP.fullmatch(confirmation.at)


@each(
    ("decision", "settings", "decided"),
    [
        (
            lambda request: Decision(**{**msgspec.structs.asdict(approve(request)), "is_approved": False}),
            {},
            "rejected",
        ),
        (lambda request: Decision(**{**msgspec.structs.asdict(approve(request)), "plan_hash": "x"}), {}, "rejected"),
        (lambda _request: "yes", {}, "rejected"),
        (lambda request: request.nothing, {}, "rejected"),
    ],
)
def test_od_24_without_an_approval_no_call_is_made(decision: Any, settings: dict[str, Any], decided: str) -> None:
    ran, wrote = confirming(decision, **settings)
    assert ran.recorder.header is not None
    assert ran.recorder.header.confirmation is not None
    assert (ran.recorder.header.confirmation.decision, ran.result.end, wrote) == (decided, "cancelled", [])
    assert ran.recorder.calls == []
    assert [event.type for event in ran.events()] == ["run.started", "run.confirmationRequested", "run.cancelled"]


def test_od_24_a_confirmation_that_nobody_answers_expires() -> None:
    time = Simulation()
    ran, wrote = confirming(lambda _request: time.take(HANG), simulation=time, confirm_timeout_ms=5_000)
    assert (ran.result.end, wrote, time.time) == ("cancelled", [], pytest.approx(5))
    assert "nobody decided in time" in ran.result.reason


def test_od_24_a_call_that_writes_is_denied_where_nobody_can_confirm() -> None:
    ran, wrote = confirming(None)
    assert (ran.ends, wrote, ran.result.end) == ({"read": "ok", "write": "error"}, [], "finished")
    error = ran.recorder.results[1].error
    assert error is not None
    assert (error.code, error.details) == ("POLICY_DENIED", {"reason": "confirmation_missing"})


def test_od_24_a_call_is_covered_by_the_approval_of_its_own_plan_and_policy_alone() -> None:
    ran, _ = confirming(approve)
    header = ran.recorder.header
    assert header is not None
    confirmation = header.confirmation
    assert confirmation is not None
    assert covers(header, confirmation.confirmation_id)
    assert not covers(header, "another")
    assert not covers(header, None)
    for change in ({"plan_hash": "x"}, {"policy_hash": "x"}, {"decision": "rejected"}):
        other = msgspec.structs.replace(confirmation, **change)
        assert not covers(msgspec.structs.replace(header, confirmation=other), confirmation.confirmation_id)
    assert not covers(msgspec.structs.replace(header, confirmation=None), None)


def test_od_25_the_events_of_a_run_have_one_order_and_numbers_without_a_gap() -> None:
    ran, _ = confirming(approve)
    assert [event.type for event in ran.events()] == [
        *("run.started", "run.confirmationRequested", "run.confirmed"),
        *("step.scheduled", "step.started", "step.finished") * 2,
        "run.finished",
    ]
    assert [event.seq for event in ran.events()] == list(range(1, 11))


def test_od_26_events_are_per_call_and_a_failure_says_whether_it_is_tried_again() -> None:
    kinds = iter(["rate_limited", "rate_limited"])

    def run(given: Value, context: Any) -> Any:
        context.progress("half way", {"done": 1})
        if kind := next(kinds, None):
            raise ToolFailed(kind, "later")
        return echo(given, context)

    retry = {"maxAttempts": 2, "backoffMs": 0}
    plan = make_plan(step("a", "Flaky", retry=retry, onError="skip"), step("b", "Flaky"), step("c", dependsOn=["a"]))
    ran = run_plan(plan, ECHO, make_tool("Flaky", run))
    failed = [(event.level, (event.payload or {})["willRetry"]) for event in ran.events("step.failed")]
    assert failed == [("warn", True), ("error", False)]
    assert [event.level for event in ran.events("step.finished")] == ["info", "warn"]
    assert [(event.message, event.payload) for event in ran.events("step.progress")] == [("half way", {"done": 1})] * 3
    assert ran.ends == {"a": "error", "b": "ok", "c": "skipped"}


@each(
    ("takes", "cancellable", "stops", "status", "ends_at"),
    [
        (HANG, True, False, "cancelled", 2.1),  # the grace period
        (HANG, True, True, "error", 0.1),  # it ends by itself, with an error of its own
        (5_000, False, False, "ok", 5.0),  # longer than the grace period
        (500, True, False, "ok", 0.5),
    ],
)
def test_od_27_a_cancel_ends_what_can_be_cancelled_and_starts_nothing(
    takes: float, status: str, ends_at: float, *, cancellable: bool, stops: bool
) -> None:
    time = Simulation()
    slow = make_tool(
        "Slow", lambda *given: time.take(takes, stops_on_cancel=stops) or echo(*given), cancellable=cancellable
    )
    plan = make_plan(step("a", "Slow"), step("b", dependsOn=["a"]), step("c"))
    ran = run_plan(plan, ECHO, slow, simulation=time, cancel_after=100)
    assert (ran.result.end, [result.status for result in ran.recorder.results]) == ("cancelled", [status])
    assert time.time == pytest.approx(ends_at, abs=1e-3)
    assert ran.ends["c"] == "cancelled"
    assert ran.events()[-1].type == "run.cancelled"


def test_od_27_a_cancel_ends_the_wait_for_a_further_attempt_and_for_a_confirmation() -> None:
    def fail(*_: Any) -> None:
        raise ToolFailed("rate_limited", "later")

    plan = make_plan(step("a", "Fail", retry={"maxAttempts": 9, "backoffMs": 60_000}))
    ran = run_plan(plan, make_tool("Fail", fail), cancel_after=100)
    assert (len(ran.recorder.calls), ran.simulation.time) == (1, pytest.approx(0.1, abs=1e-3))
    time = Simulation()
    ran, wrote = confirming(lambda _request: time.take(HANG), simulation=time, cancel_after=100)
    assert (ran.result.end, wrote, time.time) == ("cancelled", [], pytest.approx(0.1))


@each(
    ("situation", "kind"), [("tool_error", "tool_timed_out"), ("timed_out", "cancelled"), ("cancelled", "missing_file")]
)
def test_od_28_end_and_code_of_a_timeout_and_a_cancel_go_together(situation: str, kind: str) -> None:
    error = msgspec.structs.replace(settled(situation).error, kind=kind)
    with pytest.raises(InvalidSettlement):
        settled(situation, error=error)


def test_od_28_a_tool_that_reports_a_timeout_or_a_cancel_of_its_own_ends_so() -> None:
    for kind, status in (("command_timed_out", "timeout"), ("deadline_expired", "timeout"), ("cancelled", "cancelled")):

        def run(*_: Any, kind: str = kind) -> None:
            raise ToolFailed(kind, "stopped inside")

        ran = run_plan(make_plan(step("a", "Own")), make_tool("Own", run, risk="writes"))
        assert [result.status for result in ran.recorder.results] == [status]


def test_od_29_hashes_are_over_canonical_json_of_resolved_arguments_and_data() -> None:
    ran = run_plan(make_plan(step("a", args={"value": "{{x}}"}), step("b", args={"value": "$steps.a.value"})), ECHO)
    first, second = ran.recorder.calls
    assert first.args_hash == second.args_hash == named_hash({"value": "{x}"})
    assert ran.recorder.results[0].data_hash == named_hash({"value": "{x}", "path": None, "number": 0})


def test_od_30_secrets_are_in_no_record_and_their_hash_is_the_real_one() -> None:
    def run(given: Value, context: Any) -> Any:
        if given.number:
            raise ToolFailed("network_failed", f"the key {given.secret} was refused", details={"key": given.secret})
        return echo(given, context)

    tool = make_tool("Login", run, sensitive=("/secret",))
    names = {"from": "$vars.names", "itemName": "n"}
    plan = make_plan(
        step("a", "Login", {"secret": "hunter2"}, preview="log in with {$vars.key}"),
        step("b", "Login", {"secret": "{n}", "number": 1}, foreach=names, onError="skip", retry={"maxAttempts": 1}),
    )
    ran = run_plan(plan, tool, variables={"names": ["hunter2"], "key": "hunter2"})
    recorder = ran.recorder
    assert recorder.header is not None
    for record in (*recorder.calls, *recorder.results, *recorder.events, recorder.header.plan):
        assert "hunter2" not in str(record), record
    first = recorder.calls[0]
    assert (first.args, first.redactions) == ({"secret": "[redacted]"}, ("/secret",))
    assert first.args_hash == named_hash({"secret": "hunter2"})
    assert recorder.header.redactions == ("/steps/0/args/secret",)


def test_od_30_secrets_inside_lists_are_masked_too() -> None:
    tool = make_tool("Login", sensitive=("/value/*/key",))
    keys = [{"key": "hunter2"}, {"key": ["hunter2"]}, {"other": 1}]
    each_key = {"from": "$vars.keys", "itemName": "k"}
    plan = make_plan(step("a", "Login", {"value": keys}), step("b", "Login", {"value": ["{k}"]}, foreach=each_key))
    ran = run_plan(plan, tool, variables={"keys": keys})
    assert ran.recorder.header is not None
    for record in (*ran.recorder.calls, ran.recorder.header.plan):
        assert "'hunter2'" not in str(record).replace("item_value={'key': ['hunter2']}", ""), record
    assert ran.recorder.calls[0].redactions == ("/value/0/key", "/value/1/key")
    assert ran.recorder.header.redactions == ("/steps/0/args/value/0/key", "/steps/0/args/value/1/key")


def test_od_31_a_rerun_is_a_new_run_that_names_the_first() -> None:
    first = run_plan(make_plan(step("a")), ECHO)
    again = first.executor.run(first.plan, first.recorder, run_id="r2", replay_of="r1")
    assert first.recorder.header is not None
    assert (again.run_id, first.recorder.header.replay_of, first.recorder.header.run_id) == ("r2", "r1", "r2")
    assert first.recorder.header.to_json()["replayOf"] == "r1"


def test_od_32_times_are_utc_with_milliseconds_and_durations_come_from_the_steady_clock() -> None:
    time = Simulation()
    walls = iter([START, START - 3_600])  # the wall clock is set back by an hour
    environment = replace(time.environment(), now=lambda: next(walls, START - 3_600))
    tool = make_tool("Slow", lambda *given: time.take(1_500) or echo(*given))
    recorder = MemoryRecorder()
    Executor([tool], make_policy(), environment=environment).run(make_plan(step("a", "Slow")), recorder)
    (result,) = recorder.results
    assert (result.started_at, result.ended_at, result.duration_ms) == (
        *("2025-12-16T18:12:01.000Z", "2025-12-16T18:12:02.500Z"),
        1_500,
    )
    stamps = [event.timestamp for event in recorder.events]
    assert all(map(STAMP.fullmatch, stamps))
    assert stamps == sorted(stamps)


def test_od_33_a_preview_is_the_steps_with_its_values_else_the_tool_and_its_first_text() -> None:
    listed = make_tool("List", listing("a", "b"), result=(Listed,))
    each_file = {"from": "$steps.list.items", "itemName": "f"}
    plan = make_plan(
        step("list", "List"),
        step("one", args={"path": "{f.path}"}, preview="copy {f.path} as {index}", foreach=each_file),
        step("two", args={"path": "x.md"}),
    )
    ran = run_plan(plan, ECHO, listed)
    assert [call.preview for call in ran.recorder.calls[1:]] == ["copy a as 0", "copy b as 1", "Echo x.md"]


def test_od_34_context_requests_are_met_before_the_first_step_or_nothing_runs() -> None:
    requests = [{"kind": "selection"}, {"kind": "activeFilePath"}]
    plan = make_plan(step("a", args={"path": "$vars.activeFilePath"}), contextRequests=requests)

    def context(request: ContextRequest) -> str | None:
        return {"activeFilePath": "a.md", "selection": "some text"}[request.kind]

    assert run_plan(plan, ECHO, context=context).output("a")["path"] == "a.md"
    ran = run_plan(plan, ECHO, context=lambda request: None if request.kind == "selection" else "a.md")
    assert (ran.recorder.calls, ran.ends) == ([], {"a": None})
    assert ran.result.reason == "PRECONDITION_FAILED: the plan needs selection"


# The ten defects of the system that the plan's schema comes from


def test_defect_01_a_step_whose_dependency_comes_later_in_the_list_runs_after_it() -> None:
    ran = run_plan(make_plan(step("a", dependsOn=["b"]), step("b")), ECHO)
    assert ran.ends == {"b": "ok", "a": "ok"}


def bad(*_: Any) -> None:
    raise ToolFailed("missing_file", "no such file")


BAD = make_tool("Bad", bad)


def test_defect_02_a_failed_step_is_not_completed_so_its_dependents_do_not_run() -> None:
    ran = run_plan(make_plan(step("a", "Bad", onError="skip"), step("b", dependsOn=["a"])), ECHO, BAD)
    assert (ran.ends["b"], ran.calls("b")) == ("skipped", [])


def test_defect_03_an_absent_on_error_stops_and_retry_means_retry() -> None:
    assert run_plan(make_plan(step("a", "Bad"), step("b")), ECHO, BAD).ends["b"] is None
    flaky = make_tool("Bad", lambda *_: {"error": "later"})
    assert len(run_plan(make_plan(step("a", "Bad", onError="retry")), flaky).calls("a")) == 3


def test_defect_04_a_foreach_with_failures_is_no_success_and_its_outputs_can_be_addressed() -> None:
    listed = make_tool("List", listing("a"), result=(Listed,))
    source = {"from": "$steps.list.items", "itemName": "f"}
    plan = make_plan(step("list", "List"), step("a", "Bad", foreach=source, onError="skip"))
    assert run_plan(plan, listed, BAD).ends["a"] == "error"
    plan = make_plan(step("list", "List"), step("a", args={"path": "{f.path}"}, foreach=source),
                     step("b", args={"value": "$steps.a.items[0].path"}))  # fmt: skip
    assert run_plan(plan, ECHO, listed).output("b")["value"] == "a"


def test_defect_05_a_foreach_runs_over_the_output_of_a_step() -> None:
    source = {"from": "$steps.list.items", "itemName": "f"}
    plan = make_plan(step("list", "List"), step("a", foreach=source))
    assert len(run_plan(plan, ECHO, make_tool("List", listing("a", "b"), result=(Listed,))).calls("a")) == 2


def test_defect_06_references_inside_a_text_resolve_and_a_missing_one_dispatches_nothing() -> None:
    plan = make_plan(step("a", args={"path": "x"}), step("b", args={"path": "to {$steps.a.path}.md"}))
    assert run_plan(plan, ECHO).output("b")["path"] == "to x.md"
    plan = make_plan(step("a", args={"value": {}}), step("b", args={"path": "$steps.a.value.gone"}))
    assert run_plan(plan, ECHO).calls("b") == []


def test_defect_07_what_the_schema_accepts_has_an_effect() -> None:
    """captureAs, timeoutMs, concurrency, defaults; cancellation is OD-27."""
    time = Simulation()
    slow = make_tool("Slow", lambda *given: time.take(200) or echo(*given), risk="writes", parallel_safe=True)
    listed = make_tool("List", listing("a", "b"), result=(Listed,))
    source = {"from": "$vars.found.items", "itemName": "f", "concurrency": 2}
    plan = make_plan(step("list", "List", captureAs="found"), step("a", "Slow", timeoutMs=100, foreach=source),
                     step("c"), defaults={"onError": "skip"})  # fmt: skip
    ran = run_plan(plan, ECHO, slow, listed, simulation=time)
    assert (time.most_running, time.time) == (2, pytest.approx(0.1))
    assert ran.ends == {"list": "ok", "a": "error", "c": "ok"}


def test_defect_08_arguments_are_checked_with_their_values() -> None:
    plan = make_plan(step("a", args={"value": 4}), step("b", args={"number": "$steps.a.value"}))
    assert run_plan(plan, ECHO).output("b")["number"] == 4
    plan = make_plan(step("a", args={"value": "four"}), step("b", args={"number": "$steps.a.value"}))
    ran = run_plan(plan, ECHO)
    error = ran.recorder.results[1].error
    assert error is not None
    assert (error.code, ran.recorder.results[1].phase) == ("VALIDATION_ERROR", "pre_dispatch")


def test_defect_09_an_understated_risk_is_no_warning() -> None:
    assert faults(step("a", "Write"), tools=(writer(),), risk="read-only") == [
        "a: Write writes, but the plan declares read-only; its riskLevel has to be writes"
    ]


def test_defect_10_one_syntax_of_references_and_the_others_are_refused() -> None:
    others = ("${item.x}", "${$steps.a.b}", "$vars.item}", "{ item.x }", "$steps.a b")
    for text in others:
        assert len(faults(step("a", args={"value": text}))) == 1, text
