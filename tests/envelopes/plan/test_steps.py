"""The steps of a plan: their order, the number and contents of their calls, and the retries of failed calls."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from envelopes.codecs import call as calls
from envelopes.families.registry import tools
from envelopes.plan.references import Scope, UnresolvedReference
from envelopes.plan.schema import ActionPlan, Defaults, RetryPolicy, Step, read_plan
from envelopes.plan.steps import (
    NextAttempt,
    RunContext,
    build_calls,
    decide_retry,
    find_dependencies,
    next_call,
    order_steps,
    unmet_dependencies,
)
from envelopes.schema.call import CallError, Iteration, Limits, RunPolicy, Sandbox, ToolResult
from envelopes.schema.timestamps import check_instant
from envelopes.text.canonical_json import named_hash
from envelopes.text.untrusted_json import Untrusted
from tests.cases import each
from tests.envelopes.settled import AT, call, settled

TOOL = tools()["ExecCommand"]
FILES = Scope(steps={"list": {"items": [{"path": "a.md"}, {"path": "b.md"}], "count": 2}}, vars={"folder": "notes"})
EACH = {"from": "$steps.list.items", "itemName": "file", "indexName": "n"}
TWICE = RetryPolicy(max_attempts=2, backoff_ms=100)


def policy(**limits: int) -> RunPolicy:
    return RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits(**limits))


def origin(**limits: int) -> RunContext:
    numbers = count(1)
    return RunContext(
        run_id="r1",
        policy=policy(**limits),
        executor_version="2.0",
        tool_registry_version="1.4",
        planner_version="7",
        confirmation_id="ok_1",
        new_id=lambda: f"c{next(numbers)}",
        now=lambda: AT,
    )


def plan(*steps: dict[str, Any]) -> ActionPlan:
    documents = [{"tool": "ExecCommand", "args": {}, **step} for step in steps]
    return read_plan({"version": "1.0", "goal": "File the notes", "riskLevel": "commands", "steps": documents})


def step(**fields: Any) -> Step:
    return plan({"id": "file", "args": {"cmd": "mv {file.path} $vars.folder"}, **fields}).steps[0]


def test_a_foreach_becomes_a_call_for_each_of_its_items_with_its_round_in_it() -> None:
    calls = build_calls(step(args={"cmd": "mv {file.path} {$vars.folder}/{n}"}, foreach=EACH), TOOL, FILES, origin())
    assert [call.args["cmd"] for call in calls] == ["mv a.md notes/0", "mv b.md notes/1"]
    assert [call.iteration for call in calls] == [
        Iteration(index=0, item_name="file", item_value={"path": "a.md"}),
        Iteration(index=1, item_name="file", item_value={"path": "b.md"}),
    ]
    assert [call.call_id for call in calls] == ["c1", "c2"]
    assert {call.loop_id for call in calls} == {"r1/file"}
    assert [call.args_hash for call in calls] == [named_hash(call.args) for call in calls]


def test_a_call_says_what_it_belongs_to_and_takes_its_risk_from_the_tool() -> None:
    (built,) = build_calls(step(args={"cmd": "ls"}, timeoutMs=900), TOOL, FILES, origin())
    assert (built.run_id, built.step_id, built.tool, built.attempt) == ("r1", "file", "ExecCommand", 1)
    assert (built.risk_level, built.policy, built.confirmation_id) == ("commands", policy(), "ok_1")
    assert (built.executor_version, built.tool_registry_version, built.planner_version) == ("2.0", "1.4", "7")
    assert (built.iteration, built.loop_id, built.created_at, built.timeout_ms) == (None, None, AT, 900)
    (read,) = build_calls(step(args={}, tool="TaskList"), tools()["TaskList"], FILES, origin())
    assert read.risk_level == "read-only"


def test_ids_and_times_are_made_where_the_runtime_gives_none() -> None:
    run = RunContext(run_id="r1", policy=policy(), executor_version="1", tool_registry_version="1")
    first, second = build_calls(step(args={}, foreach=EACH), TOOL, FILES, run)
    assert first.call_id != second.call_id
    check_instant("created_at", first.created_at)


@each(
    ("fields", "preview"),
    [
        ({"preview": "Move {file.path} as number {n}"}, "Move a.md as number 0"),
        ({"preview": "$steps.list.count"}, "2"),
        ({"args": {"wait": 5, "cmd": "mv {file.path} x"}}, "ExecCommand mv a.md x"),
        ({"args": {"cmd": "x" * 300}}, "ExecCommand " + "x" * 187 + "…"),
        ({"args": {"wait": 5}}, "ExecCommand"),
    ],
)
def test_a_preview_is_the_steps_or_names_the_tool_and_its_first_text(fields: dict[str, Any], preview: str) -> None:
    assert build_calls(step(foreach=EACH, **fields), TOOL, FILES, origin())[0].preview == preview


@each(
    ("requested", "limit", "timeout"),
    [(None, None, None), (900, None, 900), (None, 500, 500), (900, 500, 500), (1, 500, 1)],
)
def test_a_timeout_is_the_shorter_of_the_requested_and_the_allowed(
    requested: Any, limit: Any, timeout: int | None
) -> None:
    limits = {} if limit is None else {"max_timeout_ms": limit}
    assert build_calls(step(args={}, timeoutMs=requested), TOOL, FILES, origin(**limits))[0].timeout_ms == timeout


def test_a_foreach_over_nothing_asks_for_no_call() -> None:
    empty = step(args={}, foreach={"from": "$vars.none", "itemName": "file"})
    assert build_calls(empty, TOOL, Scope(vars={"none": []}), origin()) == ()


@each(
    ("fields", "limits", "message"),
    [
        ({"foreach": {**EACH, "from": "$steps.list.count"}}, {}, "/foreach/from: $steps.list.count is not an array"),
        ({"foreach": EACH}, {"max_iterations": 1}, "/foreach/from: $steps.list.items has 2 items, 1 are allowed"),
        ({"foreach": EACH, "args": {"cmd": "{file.size}"}}, {}, "/cmd: file.size: there is no 'size'"),
        ({"args": {"cmd": "$steps.later.x"}}, {}, "/cmd: $steps.later.x: there is no such step"),
    ],
)
def test_where_a_reference_leads_nowhere_no_call_is_made(
    fields: dict[str, Any], limits: dict[str, int], message: str
) -> None:
    run = origin(**limits)
    with pytest.raises(UnresolvedReference) as raised:
        build_calls(step(**fields), TOOL, FILES, run)
    assert str(raised.value) == message


def test_as_many_rounds_as_the_policy_allows_are_made() -> None:
    many = Scope(vars={"all": list(range(1_001))})
    over = step(args={}, foreach={"from": "$vars.all", "itemName": "file"})
    assert len(build_calls(over, TOOL, many, origin(max_iterations=1_001))) == 1_001
    with pytest.raises(UnresolvedReference, match="has 1001 items, 1000 are allowed"):
        build_calls(over, TOOL, many, origin())


def test_a_step_waits_for_what_it_depends_on_and_for_whose_data_it_names() -> None:
    unordered = plan(
        {"id": "report", "args": {"cmd": "echo {$vars.total} $HOME {$vars.today}"}, "dependsOn": ["clean"]},
        {"id": "file", "args": {"cmd": "mv {f}"}, "foreach": {"from": "$steps.list.items", "itemName": "f"}},
        {"id": "list"},
        {"id": "clean", "preview": "after {$steps.file.count}"},
        {"id": "sum", "captureAs": "total"},
    )
    assert find_dependencies(unordered, internal=["today"]) == {
        "report": {"clean", "sum"},
        "file": {"list"},
        "list": set(),
        "clean": {"file"},
        "sum": set(),
    }
    assert [ordered.id for ordered in order_steps(unordered, internal=["today"])] == [
        "list",
        "file",
        "clean",
        "sum",
        "report",
    ]


def test_steps_that_need_nothing_stay_in_the_order_of_the_plan() -> None:
    assert [ordered.id for ordered in order_steps(plan({"id": "b"}, {"id": "a"}, {"id": "c"}))] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "steps",
    [
        ({"id": "a", "dependsOn": ["b"]}, {"id": "b", "args": {"cmd": "$steps.a.x"}}),
        ({"id": "a", "args": {"cmd": "$steps.a.x"}},),
        ({"id": "a", "captureAs": "v", "args": {"cmd": "$vars.v"}},),
    ],
)
def test_steps_that_wait_for_each_other_are_refused(steps: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(Untrusted, match="they wait for each other"):
        order_steps(plan({"id": "first"}, *steps))


@each(
    ("fields", "message"),
    [
        ({"args": {"cmd": "$steps.none.x"}}, "/args/cmd: $steps.none.x: there is no such step"),
        ({"args": {"cmd": "$vars.unset"}}, "/args/cmd: $vars.unset: there is no such variable"),
        ({"args": {"cmd": "{file}"}}, "/args/cmd: file: there is no such name in a foreach"),
        ({"preview": "{file}"}, "/preview: file: there is no such name in a foreach"),
        ({"foreach": {"from": "{file}", "itemName": "file"}}, "/: file: there is no such name in a foreach"),
    ],
)
def test_a_name_that_nothing_will_give_refuses_the_whole_plan(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UnresolvedReference) as raised:
        order_steps(plan({"id": "a", **fields}))
    assert str(raised.value) == message


def test_a_step_is_skipped_for_those_that_ended_without_data() -> None:
    ended: Any = {"a": "ok", "b": "partial", "c": "error", "d": "skipped", "e": "cancelled"}
    assert unmet_dependencies(["e", "d", "c", "b", "a", "running"], ended) == ("c", "d", "e")


def failing_step(**fields: Any) -> Step:
    return Step(id="s1", tool="ExecCommand", args={}, **fields)


def failed(code: str = "INTERNAL_ERROR", *, attempt: int = 1, retryable: bool | None = None) -> ToolResult:
    ends = {"TIMEOUT": "timeout", "CANCELLED": "cancelled"}
    known: dict[str, Any] = {"call_id": "c1", "run_id": "r1", "step_id": "s1", "tool": "ExecCommand", "ok": False}
    known |= {"status": ends.get(code, "error"), "started_at": AT, "ended_at": AT, "duration_ms": 1}
    return ToolResult(attempt=attempt, error=CallError(code=code, message="it failed", retryable=retryable), **known)


def waits(result: ToolResult, failed_step: Step, defaults: Defaults | None = None, **limits: int) -> Any:
    """The wait before the next attempt in milliseconds, or what happens instead."""
    decision = decide_retry(result, failed_step, defaults or Defaults(), Limits(**limits), "writes")
    return decision.wait_ms if isinstance(decision, NextAttempt) else decision


@each(
    ("failed_step", "defaults", "expected"),
    [
        (failing_step(), Defaults(), "stop"),
        (failing_step(on_error="skip"), Defaults(), "skip"),
        (failing_step(), Defaults(on_error="skip"), "skip"),
        (failing_step(on_error="stop"), Defaults(on_error="skip"), "stop"),
        (failing_step(on_error="retry"), Defaults(), 250),
        (failing_step(on_error="retry"), Defaults(retry=TWICE), 100),
        (failing_step(on_error="retry", retry=TWICE), Defaults(retry=RetryPolicy(max_attempts=9)), 100),
        (failing_step(on_error="skip", retry=TWICE), Defaults(), 100),
        (failing_step(), Defaults(on_error="retry"), 250),
        (failing_step(), Defaults(retry=TWICE), 100),
    ],
)
def test_the_step_asks_before_the_plan_and_else_the_run_stops(
    failed_step: Step, defaults: Defaults, expected: Any
) -> None:
    assert waits(failed(), failed_step, defaults) == expected


@each("code", ["VALIDATION_ERROR", "POLICY_DENIED", "CANCELLED"])
def test_what_would_end_the_same_way_is_never_tried_again(code: str) -> None:
    assert waits(failed(code, retryable=True), failing_step(retry=TWICE)) == "stop"


@pytest.mark.parametrize(
    ("retryable", "risk", "policy", "tried"),
    [
        (False, "read-only", TWICE, False),
        (None, "writes", TWICE, True),
        (True, "writes", TWICE, True),
        (True, "read-only", None, True),
        (True, "writes", None, False),
        (None, "read-only", None, False),
    ],
)
def test_an_error_that_says_no_wins_and_one_that_says_yes_is_enough_for_a_tool_that_reads(
    *, retryable: bool | None, risk: Any, policy: RetryPolicy | None, tried: bool
) -> None:
    decision = decide_retry(failed(retryable=retryable), failing_step(retry=policy), Defaults(), Limits(), risk)
    assert isinstance(decision, NextAttempt) == tried


def test_a_skip_is_no_failure_to_try_again() -> None:
    skipped = calls.to_result(call(), settled("duplicate"))
    assert waits(skipped, failing_step(retry=TWICE, on_error="skip")) == "skip"


def test_attempts_end_where_the_plan_or_the_policy_says() -> None:
    five = failing_step(retry=RetryPolicy(max_attempts=5, backoff_ms=100), on_error="skip")
    assert [waits(failed(attempt=n), five) for n in range(1, 6)] == [100, 200, 400, 800, "skip"]
    assert [waits(failed(attempt=n), five, max_attempts=3) for n in range(1, 4)] == [100, 200, "skip"]
    assert [waits(failed(attempt=n), five, max_backoff_ms=250) for n in range(1, 6)] == [100, 200, 250, 250, "skip"]
    assert waits(failed(), five, max_attempts=1) == "skip"
    assert waits(failed(attempt=10), failing_step(retry=RetryPolicy(max_attempts=10)), max_attempts=50) == "stop"


@pytest.mark.parametrize(
    ("limits", "clamped"), [({}, False), ({"max_attempts": 2}, True), ({"max_backoff_ms": 9}, True)]
)
def test_a_decision_has_the_requested_and_the_effective_policy(limits: dict[str, int], *, clamped: bool) -> None:
    decision = decide_retry(
        failed("TIMEOUT"), failing_step(retry=RetryPolicy(max_attempts=4)), Defaults(), Limits(**limits), "commands"
    )
    assert isinstance(decision, NextAttempt)
    assert (decision.attempt, decision.requested, decision.is_clamped) == (
        2,
        RetryPolicy(max_attempts=4, backoff_ms=250),
        clamped,
    )
    assert decision.attempts == limits.get("max_attempts", 4)


def test_the_next_attempt_is_a_call_of_its_own_tied_by_step_and_run() -> None:
    first = call(call_id="c1", args={"cmd": "make"}, deadline_at=AT, confirmation_id="ok_1")
    second = next_call(first, call_id="c2", created_at="2025-12-16T18:13:00Z")
    assert (second.call_id, second.attempt, second.created_at) == ("c2", 2, "2025-12-16T18:13:00Z")
    assert (second.run_id, second.step_id, second.args) == (first.run_id, first.step_id, first.args)
    assert (second.deadline_at, second.confirmation_id) == (None, "ok_1")
    pairs = [
        (made_call, calls.to_result(made_call, settled("tool_error", call_id=made_call.call_id)))
        for made_call in (first, second)
    ]
    assert [(made_call.attempt, ended.attempt, ended.call_id) for made_call, ended in pairs] == [
        (1, 1, "c1"),
        (2, 2, "c2"),
    ]
