"""The decisions OD-1 to OD-21 about plans, each shown by a run (the others: test_decisions_of_runs.py)."""

from __future__ import annotations

from typing import Any

import pytest

from envelopes.plan.checks import PlanRejected
from envelopes.plan.sandbox import RefusedPath, check_path, matches_pattern
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.schema.call import Sandbox
from tests.cases import each
from tests.envelopes.plan.simulation import (
    HANG,
    Listed,
    Ran,
    Simulation,
    Value,
    echo,
    listing,
    make_plan,
    make_policy,
    make_tool,
    run_plan,
    step,
)

ECHO = make_tool("Echo")
LIST = make_tool("List", listing("a", "b", "c"), result=(Listed,))
EACH = {"from": "$steps.list.items", "itemName": "f"}


def failing(*kinds: str | None, **fields: Any) -> Tool:
    """Fails with these kinds, one a call, and succeeds where there is None and afterwards."""
    left = list(kinds)

    def run(given: Value, context: Any) -> Any:
        if left and (kind := left.pop(0)) is not None:
            raise ToolFailed(kind, f"failed with {kind}")
        return echo(given, context)

    return make_tool("Flaky", run, **fields)


def faults(*steps: dict[str, Any], tools: tuple[Tool, ...] = (ECHO, LIST), **fields: Any) -> list[str]:
    with pytest.raises(PlanRejected) as rejected:
        run_plan(make_plan(*steps, **fields), *tools)
    return [str(fault) for fault in rejected.value.faults]


def started(ran: Ran) -> list[str | None]:
    return [event.step_id for event in ran.events("step.started")]


def test_od_01_steps_run_one_at_a_time_in_the_order_of_their_dependencies() -> None:
    plan = make_plan(step("c", dependsOn=["b"]), step("a"), step("b"))
    slow = Simulation()
    ran = run_plan(
        plan, make_tool("Echo", lambda given, context: slow.take(5) or echo(given, context)), simulation=slow
    )
    assert started(ran) == ["a", "b", "c"]
    assert slow.most_running == 1


def test_od_02_a_reference_is_a_dependency_and_a_circle_rejects_the_plan() -> None:
    plan = make_plan(
        step("last", args={"value": "$vars.x"}), step("mid", args={"value": "$steps.first.number"}, captureAs="x"),
        step("first", args={"number": 4}),
    )  # fmt: skip
    ran = run_plan(plan, ECHO)
    assert started(ran) == ["first", "mid", "last"]
    assert ran.output("last")["value"]["value"] == 4
    circle = faults(step("a", args={"value": "$steps.b.value"}), step("b", dependsOn=["a"]))
    assert circle == ["plan: a, b: they wait for each other"]
    assert "they wait" in faults(step("a", args={"value": "$steps.a.value"}))[0]


def test_od_03_dependents_of_a_failed_step_are_skipped_through_and_the_others_go_on() -> None:
    plan = make_plan(
        step("bad", "Flaky", onError="skip"), step("next", dependsOn=["bad"]), step("after", dependsOn=["next"]),
        step("other"),
    )  # fmt: skip
    ran = run_plan(plan, ECHO, failing("missing_file"))
    assert ran.ends == {"bad": "error", "next": "skipped", "after": "skipped", "other": "ok"}
    skipped = [event for event in ran.events("step.finished") if event.call_id is None]
    assert [(event.step_id, event.level, (event.payload or {})["reason"]) for event in skipped] == [
        ("next", "warn", "dependency_not_ok"),
        ("after", "warn", "dependency_not_ok"),
    ]


@each(
    ("own", "default", "goes_on"),
    [(None, None, False), (None, "skip", True), ("stop", "skip", False), ("skip", "stop", True)],
)
def test_od_04_on_error_is_the_steps_then_the_plans_then_stop(
    own: str | None, default: str | None, *, goes_on: bool
) -> None:
    bad = step("bad", "Flaky", **({"onError": own} if own else {}))
    defaults = {"defaults": {"onError": default}} if default else {}
    ran = run_plan(make_plan(bad, step("other"), **defaults), ECHO, failing("missing_file"))
    assert ran.ends["other"] == ("ok" if goes_on else None)


def test_od_05_retry_without_numbers_is_three_attempts_and_then_stop() -> None:
    plan = make_plan(step("bad", "Flaky", onError="retry"), step("other"))
    ran = run_plan(plan, ECHO, failing(*["rate_limited"] * 5))
    assert [call.attempt for call in ran.calls("bad")] == [1, 2, 3]
    assert ran.ends == {"bad": "error", "other": None}
    assert ran.simulation.time == pytest.approx(0.75)  # 250 ms, then 500
    skipping = make_plan(step("bad", "Flaky", onError="skip", retry={"maxAttempts": 2}), step("other"))
    ran = run_plan(skipping, ECHO, failing(*["rate_limited"] * 5))
    assert (len(ran.calls("bad")), ran.ends["other"]) == (2, "ok")


@each(
    ("kind", "risk", "retry", "attempts"),
    [
        ("rate_limited", "read-only", None, 3),  # marked retryable, and the tool only reads
        ("rate_limited", "writes", None, 1),
        ("rate_limited", "writes", {"maxAttempts": 2}, 2),
        ("missing_file", "read-only", {"maxAttempts": 4}, 1),  # marked not retryable
        ("invalid_url", "read-only", {"maxAttempts": 4}, 1),  # VALIDATION_ERROR
        ("network_denied", "read-only", {"maxAttempts": 4}, 1),  # POLICY_DENIED
    ],
)
def test_od_06_the_error_overrules_the_plan(kind: str, risk: str, retry: dict[str, int] | None, attempts: int) -> None:
    plan = make_plan(step("bad", "Flaky", **({"retry": retry} if retry else {})))
    assert len(run_plan(plan, failing(*[kind] * 9, risk=risk)).calls("bad")) == attempts


def test_od_07_attempts_and_waits_are_clamped_and_both_numbers_are_recorded() -> None:
    plan = make_plan(step("bad", "Flaky", retry={"maxAttempts": 9, "backoffMs": 1000}))
    tool = failing(*["rate_limited"] * 9)
    ran = run_plan(plan, tool, policy=make_policy(max_attempts=3, max_backoff_ms=1500))
    assert len(ran.calls("bad")) == 3
    assert ran.simulation.time == pytest.approx(2.5)  # 1,000 and 1,500 instead of 2,000
    clamps = [event for event in ran.events("step.progress") if (event.payload or {}).get("clamped")]
    assert [event.level for event in clamps] == ["warn", "warn"]
    assert clamps[1].payload == {
        "clamped": True,
        "waitMs": 1500,
        "attempts": 3,
        "requested": {"maxAttempts": 9, "backoffMs": 1000},
    }
    calm = run_plan(make_plan(step("bad", "Flaky", onError="retry")), failing("rate_limited"), jitter=0.4)
    assert calm.simulation.time == pytest.approx(0.2)  # 250 ms, less 40 % of a chance of one half


@each(
    ("asked", "own", "limits", "timeout"),
    [
        (900, 400, {"max_timeout_ms": 700}, 400),
        (900, None, {"max_timeout_ms": 700}, 700),
        (300, 400, {}, 300),
        (None, None, {"max_run_ms": 250}, 250),
    ],
)
def test_od_08_a_timeout_is_per_attempt_and_the_smallest_counts(
    asked: int | None, own: int | None, limits: dict[str, int], timeout: int
) -> None:
    time = Simulation()
    hanging = make_tool("Hang", lambda *_: time.take(HANG), risk="writes", timeout_ms=own)  # no retry of its own
    plan = make_plan(step("h", "Hang", **({"timeoutMs": asked} if asked else {}), onError="skip"))
    ran = run_plan(plan, hanging, simulation=time, policy=make_policy(**limits))
    (call,) = ran.recorder.calls
    assert (call.timeout_ms, time.time) == (timeout, pytest.approx(timeout / 1_000))
    assert call.deadline_at == ran.recorder.results[0].deadline_at
    assert ran.recorder.results[0].status == "timeout"


def test_od_08_no_wait_for_a_further_attempt_is_longer_than_the_run() -> None:
    plan = make_plan(step("a", "Flaky", retry={"maxAttempts": 3, "backoffMs": 60_000}))
    ran = run_plan(plan, failing("rate_limited"), policy=make_policy(max_run_ms=500))
    assert [result.status for result in ran.recorder.results] == ["error", "timeout"]
    assert ran.simulation.time == pytest.approx(0.5, abs=1e-3)


def test_od_08_a_late_result_is_discarded_and_recorded() -> None:
    time = Simulation()
    plan = make_plan(step("late", "Late", timeoutMs=100, onError="skip"), step("next", "Slow"))
    late = make_tool("Late", lambda *given: time.take(150) or echo(*given), risk="writes")
    slow = make_tool("Slow", lambda *given: time.take(500) or echo(*given))
    ran = run_plan(plan, late, slow, simulation=time)
    assert ran.ends == {"late": "error", "next": "ok"}
    assert ran.recorder.results[0].status == "timeout"
    (event,) = ran.events("step.progress")
    assert (event.call_id, event.payload) == (ran.recorder.calls[0].call_id, {"late_result": True})


@each(
    ("template", "resolved"),
    [
        ("$steps.list.items[1].path", "b"),
        ("$steps.list.count", 3),
        ("{f.path}", "a"),
        ("{index}", 0),
        ("{f}", {"value": None, "path": "a", "number": 0}),
        ("of {$steps.list.count}: {f.path}", "of 3: a"),
        ("{{f}}", "{f}"),
    ],
)
def test_od_09_one_grammar_of_references(template: str, resolved: Any) -> None:
    plan = make_plan(step("list", "List"), step("one", args={"value": template}, foreach=EACH))
    assert run_plan(plan, ECHO, LIST).calls("one")[0].args == {"value": resolved}


def test_od_09_a_dollar_before_a_brace_is_refused_with_a_hint() -> None:
    (fault,) = faults(step("a", args={"value": "${item.x}"}))
    assert fault == "a/args/value: write {…} for a reference in a text, without the dollar sign"


@each(
    ("reference", "what"), [("{$steps.list}", "an object"), ("{$steps.list.items}", "an array"), ("{f.value}", "null")]
)
def test_od_10_null_and_lists_are_no_part_of_a_text(reference: str, what: str) -> None:
    plan = make_plan(step("list", "List"), step("one", args={"value": f"x {reference}"}, foreach=EACH))
    ran = run_plan(plan, ECHO, LIST)
    assert ran.ends["one"] == "error"
    (event,) = ran.events("step.failed")
    assert ((event.payload or {})["code"], what in event.message) == ("VALIDATION_ERROR", True)


def test_od_11_missing_references_reject_the_plan_or_fail_the_step_before_any_call() -> None:
    listed = step("list", "List")
    assert faults(listed, step("a", args={"value": "$steps.lost.x"}), step("b", args={"value": "$vars.lost"})) == [
        "a/args/value: $steps.lost.x: there is no such step",
        "b/args/value: $vars.lost: there is no such variable",
    ]
    assert faults(listed, step("a", args={"value": "$steps.list.rows"}), step("b", args={"value": "{i.path}"})) == [
        "a/args/value: $steps.list.rows: the output has no such member",
        "b/args/value: i.path: there is no such name in a foreach",
    ]
    ran = run_plan(make_plan(listed, step("a", args={"value": "$steps.list.items[7]"})), ECHO, LIST)
    assert (ran.ends["a"], ran.calls("a")) == ("error", [])


def test_od_12_keys_are_no_templates_and_paths_reach_members_only() -> None:
    value = {"{f}": 1}
    ran = run_plan(make_plan(step("a", args={"value": value}), step("b", args={"value": "$steps.a.value"})), ECHO)
    assert ran.output("b")["value"] == value
    (fault,) = faults(step("a"), step("b", args={"value": "$steps.a.__class__"}))
    assert fault == "b/args/value: $steps.a.__class__: the output has no such member"
    ran = run_plan(make_plan(step("a", args={"value": {"x": 1}}), step("b", args={"value": "$steps.a.value[0]"})), ECHO)
    assert ran.ends["b"] == "error"


def test_od_13_a_foreach_needs_an_array_of_the_allowed_length_and_may_be_empty() -> None:
    (fault,) = faults(step("list", "List"), step("a", foreach={"from": "$steps.list.count", "itemName": "f"}))
    assert fault == "a/foreach/from: $steps.list.count is not an array"
    plan = make_plan(step("list", "List"), step("a", foreach=EACH))
    assert run_plan(plan, ECHO, LIST, policy=make_policy(max_iterations=2)).ends["a"] == "error"
    ran = run_plan(plan, ECHO, make_tool("List", listing(), result=(Listed,)))
    assert (ran.ends["a"], ran.calls("a"), ran.output("a")["count"]) == ("ok", [], 0)


def test_od_14_the_output_of_a_foreach_has_the_items_by_index_and_the_failures() -> None:
    plan = make_plan(step("list", "List"), step("one", "Flaky", {"path": "{f.path}"}, foreach=EACH, onError="skip"))
    ran = run_plan(plan, failing(None, "missing_file"), LIST)
    output = ran.output("one")
    assert [item and item["path"] for item in output["items"]] == ["a", None, "c"]
    assert {name: output[name] for name in ("count", "okCount", "failed")} == {
        "count": 3,
        "okCount": 2,
        "failed": [{"index": 1, "code": "NOT_FOUND"}],
    }


@each(
    ("kinds", "on_error", "end", "next_end"),
    [
        ((None, "missing_file"), "skip", "partial", "ok"),
        (("missing_file",) * 3, "skip", "error", "skipped"),
        ((None, "missing_file"), "stop", "error", "skipped"),
        ((), "stop", "ok", "ok"),
    ],
)
def test_od_15_a_step_is_partial_only_where_failures_are_skipped(
    kinds: tuple[str | None, ...], on_error: str, end: str, next_end: str
) -> None:
    plan = make_plan(
        step("list", "List"), step("one", "Flaky", foreach=EACH, onError=on_error), step("next", dependsOn=["one"])
    )
    ran = run_plan(plan, ECHO, LIST, failing(*kinds))
    assert (ran.ends["one"], ran.ends["next"]) == (end, next_end)


@each(
    ("risk", "parallel_safe", "asked", "allowed", "most"),
    [
        ("read-only", False, 3, 2, 2),
        ("read-only", False, 2, 8, 2),
        ("read-only", False, None, 8, 1),
        ("writes", False, 3, 8, 1),
        ("commands", True, 3, 8, 3),
    ],
)
def test_od_16_concurrency_is_the_smaller_number_and_writers_run_alone(
    risk: str, asked: int | None, allowed: int, most: int, *, parallel_safe: bool
) -> None:
    time = Simulation()
    waits = iter([30, 20, 10])  # the last one ends first; results stay in their places

    def run(given: Value, context: Any) -> Any:
        time.take(next(waits))
        return echo(given, context)

    foreach = EACH | ({"concurrency": asked} if asked else {})
    plan = make_plan(step("list", "List"), step("one", "Work", {"path": "{f.path}"}, foreach=foreach))
    tool = make_tool("Work", run, risk=risk, parallel_safe=parallel_safe)
    ran = run_plan(plan, LIST, tool, simulation=time, policy=make_policy(max_concurrency=allowed))
    assert time.most_running == most
    assert [item["path"] for item in ran.output("one")["items"]] == ["a", "b", "c"]


def test_od_17_loops_have_a_stable_id_and_calls_one_from_the_factory() -> None:
    ran = run_plan(make_plan(step("list", "List"), step("one", foreach=EACH)), ECHO, LIST)
    assert {call.loop_id for call in ran.calls("one")} == {"r1/one"}
    assert [call.call_id for call in ran.recorder.calls] == ["id1", "id2", "id3", "id4"]


def test_od_18_a_capture_binds_the_data_and_only_of_a_step_with_data() -> None:
    plan = make_plan(
        step("a", args={"number": 7}, captureAs="seven"), step("b", args={"value": "{$vars.seven.number}!"})
    )
    assert run_plan(plan, ECHO).output("b")["value"] == "7!"
    plan = make_plan(step("a", "Flaky", captureAs="x", onError="skip"), step("b", args={"value": "$vars.x"}))
    assert run_plan(plan, ECHO, failing("missing_file")).ends == {"a": "error", "b": "skipped"}
    with pytest.raises(ValueError, match="2 steps have the captureAs x"):
        make_plan(step("a", captureAs="x"), step("b", captureAs="x"))
    with pytest.raises(ValueError, match="is not a letter, then letters"):
        make_plan(step("a", captureAs="x.y"))


def test_od_19_each_attempt_is_a_call_of_its_own_and_the_last_ok_one_counts() -> None:
    plan = make_plan(step("a", "Flaky", {"number": 3}, onError="retry"), step("b", args={"value": "$steps.a.number"}))
    ran = run_plan(plan, ECHO, failing("rate_limited"))
    first, second = ran.calls("a")
    assert (first.args, first.call_id == second.call_id) == (second.args, False)
    assert [result.status for result in ran.recorder.results] == ["error", "ok", "ok"]
    assert ran.output("b")["value"] == 3


def test_od_20_a_call_that_a_gate_refuses_is_recorded_and_runs_no_code() -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a refused call ran")

    ran = run_plan(make_plan(step("a", "Never")), make_tool("Never", never, risk="writes"), pre_hook=lambda *_: False)
    (result,) = ran.recorder.results
    assert (result.phase, result.duration_ms, result.error and result.error.code) == (
        "pre_dispatch",
        0,
        "POLICY_DENIED",
    )
    kinds = [event.type for event in ran.events() if event.call_id]
    assert kinds == ["step.scheduled", "step.started", "step.failed"]


@each(
    ("path", "sandbox", "kind"),
    [
        ("notes/a.md", {}, ""),
        ("notes/./b/../a.md", {"allowed_roots": ("/notes",)}, ""),
        ("notes\\a.md", {"allowed_roots": ("/notes",)}, ""),
        ("", {"allowed_roots": ("/",)}, ""),
        ("notesx/a.md", {"allowed_roots": ("/notes",)}, "execution_root_violation"),
        ("../a.md", {}, "path_escape"),
        ("notes/../../a.md", {}, "path_escape"),
        ("/etc/passwd", {}, "path_escape"),
        ("C:\\a.md", {}, "path_escape"),
        ("file://a.md", {}, "path_escape"),
        ("a\0.md", {}, "path_escape"),
        ("a..md", {"deny_patterns": ("..",)}, "policy_denied"),
        ("notes/.env", {"deny_patterns": (".env*",)}, "policy_denied"),
        ("cafe\u0301.md", {"deny_patterns": ("caf\u00e9",)}, "policy_denied"),
    ],
)
def test_od_21_paths_stay_inside_the_allowed_folders(path: str, sandbox: dict[str, Any], kind: str) -> None:
    kinds = []
    try:
        check_path(path, Sandbox(enabled=True, **sandbox))
    except RefusedPath as refusal:
        kinds.append(refusal.kind)
    assert kinds == ([kind] if kind else [])


def test_od_21_the_registry_names_the_paths_and_the_sandbox_sees_their_values() -> None:
    sandbox = Sandbox(enabled=True, allowed_roots=("/notes",), deny_patterns=("secret",))
    plan = make_plan(
        step("where", args={"value": "../etc"}), step("go", "Open", {"path": "$steps.where.value"}, onError="skip"),
        step("ok", "Open", {"path": "notes/a.md"}),
    )  # fmt: skip
    ran = run_plan(plan, ECHO, make_tool("Open", path_args=("/path",)), policy=make_policy(sandbox=sandbox))
    assert ran.ends == {"where": "ok", "go": "error", "ok": "ok"}
    error = ran.recorder.results[1].error
    assert error is not None
    assert (error.code, error.kind, error.details) == (
        "POLICY_DENIED",
        "path_escape",
        {"pointer": "/path", "path": "../etc"},
    )
    batch = make_tool("Batch", path_args=("/value/*/path", "/path"))
    plan = make_plan(step("a", "Batch", {"value": [{"path": "notes/a"}, {"path": 4}, {"other": 1}, {"path": "../b"}]}))
    error = run_plan(plan, batch, policy=make_policy(sandbox=sandbox)).recorder.results[0].error
    assert error is not None
    assert (error.details or {})["pointer"] == "/value/3/path"
    assert matches_pattern("a/b.key", "*.key")
    assert not matches_pattern("a/b.keys", "?.key")
