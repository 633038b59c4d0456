"""The check of a plan before anything runs: every fault at once, and none where a run would succeed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from envelopes.families.registry import samples, tools
from envelopes.plan.checks import PlanRejected, check_plan, effective_risk
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import MemoryRecorder
from envelopes.schema.call import Limits
from tests.cases import each
from tests.envelopes.plan.simulation import Echoed, Listed, define, make_plan, make_policy, make_tool, step

BUILT_IN = tools()
DEFINED = {
    tool.name: tool
    for tool in (define("Echo"), define("List", result=(Listed,)), define("Both", result=(Listed, Echoed)))
}


class Open(msgspec.Struct):
    """A result with members that nobody lists."""

    rows: dict[str, int]
    anything: Any
    pair: tuple[int, str] = (1, "a")


DEFINED["Open"] = define("Open", result=(Open,))


def faults(*steps: dict[str, Any], limits: Limits | None = None, **fields: Any) -> list[str]:
    registry = {**BUILT_IN, **DEFINED}
    plan = make_plan(*steps, **fields)
    return [str(fault) for fault in check_plan(plan, registry.get, limits, internal=("folder",), names=registry)]


def test_every_fault_is_listed_at_once_and_nothing_runs() -> None:
    plan = [
        step("a", "Ecko", {"value": "$steps.c.value"}),
        step("b", "ExecCommand", {"cmd": 5, "status": "running"}),
        step("c", "List", {"value": "{x}"}, dependsOn=["a"]),
        step("d", args={"value": ["$steps.c.rows", "$vars.lost", "${x}"]}),
    ]
    assert faults(*plan, risk="writes", limits=Limits(max_steps=3)) == [
        "plan: 4 steps, 3 are allowed",
        "b: ExecCommand runs commands, but the plan declares writes; its riskLevel has to be commands",
        "plan: a, c, d: they wait for each other",
        "a: there is no tool Ecko; nearest: Echo",
        "a/args/value: $steps.c.value: the output has no such member",
        "b/args/status: status is a field of the result of ExecCommand, not an argument",
        "b/args/cmd: must be a text, not a whole number",
        "c/args/value: x: there is no such name in a foreach",
        "d/args/value/0: $steps.c.rows: the output has no such member",
        "d/args/value/1: $vars.lost: there is no such variable",
        "d/args/value/2: write {…} for a reference in a text, without the dollar sign",
    ]
    recorder = MemoryRecorder()
    with pytest.raises(PlanRejected, match="there is no tool Ecko"):
        Executor([make_tool("Echo")], make_policy()).run(make_plan(plan[0]), recorder)
    assert (recorder.header, recorder.events) == (None, [])


@each(
    ("reference", "is_there"),
    [
        ("$steps.s.items[0].path", True),
        ("$steps.s.items[0].size", False),
        ("$steps.s.items.path", False),
        ("$steps.s.count", True),
        ("$steps.s.count.digits", False),
        ("$steps.both.items[0].path", True),
        ("$steps.both.value.anything[3].below", True),
        ("$steps.both.lost", False),
        ("$steps.open.rows.any_name", True),
        ("$steps.open.rows.any_name.more", False),
        ("$steps.open.anything.more[1]", True),
        ("$steps.open.pair[1]", True),
        ("$steps.open.pair.first", False),
        ("$steps.loop.items[2].items[0].path", True),
        ("$steps.loop.failed[0].code", True),
        ("$steps.loop.okCount", True),
        ("$steps.loop.path", False),
        ("$vars.found.count", True),
        ("$vars.found.lost", False),
        ("$vars.folder.whatever", True),
    ],
)
def test_a_path_is_looked_up_in_what_the_tool_can_return(reference: str, *, is_there: bool) -> None:
    loop = step("loop", "List", foreach={"from": "$steps.s.items", "itemName": "f"})
    sources = (step("s", "List", captureAs="found"), step("both", "Both"), step("open", "Open"), loop)
    assert (faults(*sources, step("use", args={"value": reference})) == []) is is_there


def _nest(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@each(
    ("args", "problem"),
    [
        ({"cmd": "ls", "yield_time_ms": "50"}, ""),  # a number as a text is repaired
        ({"cmd": "ls {$steps.s.count}"}, ""),
        ({}, "/args: ExecCommand needs the argument cmd"),
        ({"cmd": " "}, "/args/cmd: must not be blank"),
        ({"cmd": "ls", "tty": True, "accepts_input": False}, ""),
        (
            {"cmd": "ls", "yeld_time_ms": 5},
            "/args/yeld_time_ms: ExecCommand has no argument yeld_time_ms; nearest: yield",
        ),
        ({"cmd": "$steps.s.count", "workdir": _nest(40)}, "/args/workdir/0/0/0"),
        ({"workdir": "{$steps.s.count}"}, "/args: ExecCommand needs the argument cmd"),
        ({"cmd": "$steps.s.count", "yield_time_ms": -1}, "/args/yield_time_ms: -1 is less than 0, the least"),
        ({"cmd": "$steps.s.count", "yield_time_ms": "soon"}, "/args/yield_time_ms: must be a whole number, not a text"),
        ({"cmd": "$steps.s.count", "lost": 1}, "/args/lost: ExecCommand has no argument lost; known: cmd"),
        ({"command": "$steps.s.count"}, "/args/command: ExecCommand has no argument command; it is called cmd here"),
    ],
)
def test_constant_arguments_are_checked_where_others_are_references(args: dict[str, Any], problem: str) -> None:
    found = faults(step("s", "List"), step("use", "ExecCommand", args))
    assert (found[0] if found else "").startswith(f"use{problem}" if problem else "")
    assert bool(found) == bool(problem)


@each(
    ("reference", "is_there"),
    [
        ("$steps.run.task_handle.task_id", True),
        ("$steps.run.task.task_id", True),
        ("$steps.run.task_handle.lost", False),
        ("$steps.run.initial_output_preview", True),
        ("$steps.run.stdout_preview", True),
        ("$steps.run.lost_preview", False),
        ("$steps.spawn.task_handle.task_id", True),
        ("$steps.spawn.initial_output_preview", True),
    ],
)
def test_the_names_that_an_envelope_publishes_can_be_referenced(reference: str, *, is_there: bool) -> None:
    spawn = step("spawn", "SpawnAgent", {"preset": "private_child", "initial_message": "look"})
    sources = (step("run", "ExecCommand", {"cmd": "make"}), spawn)
    assert (faults(*sources, step("use", args={"value": reference})) == []) is is_there


@each(
    ("foreach", "problem"),
    [
        ({"from": "$steps.s.items", "itemName": "f"}, ""),
        ({"from": "{$vars.folder}", "itemName": "f", "indexName": "n"}, ""),
        ({"from": "notes", "itemName": "f"}, "/foreach/from: notes is not a reference to an array"),
        ({"from": "x{$steps.s.items}", "itemName": "f"}, "/foreach/from: x{$steps.s.items} is not a reference"),
        ({"from": "$steps.s.count", "itemName": "f"}, "/foreach/from: $steps.s.count is not an array"),
        ({"from": "$steps.s.items", "itemName": "index"}, "/foreach/itemName: itemName and indexName are both index"),
    ],
)
def test_a_foreach_names_an_array_and_its_item(foreach: dict[str, Any], problem: str) -> None:
    found = faults(step("s", "List"), step("use", foreach=foreach))
    assert len(found) == bool(problem)
    assert "".join(found).startswith(f"use{problem}" if problem else "")


@each(("count", "message"), [(0, "must have at least one entry"), (12, ""), (13, "has 13 entries, 12 are allowed")])
def test_the_entries_of_a_list_are_counted(count: int, message: str) -> None:
    found = faults(step("use", "ExecCommandBatch", {"items": [{"cmd": "ls"}] * count}))
    assert found == ([f"use/args/items: {message}"] if message else [])


def test_the_effective_risk_is_that_of_the_most_dangerous_tool() -> None:
    risks = {
        (): "read-only",
        ("ApplyPatch",): "writes",
        ("ApplyPatch", "ExecCommand"): "commands",
        ("Unheard",): "commands",
    }
    for names, risk in risks.items():
        plan = make_plan(step("a"), *[step(name, name) for name in names], risk="read-only")
        assert effective_risk(plan, {**BUILT_IN, **DEFINED}.get) == risk


def test_every_member_of_every_sample_of_a_built_in_tool_can_be_referenced() -> None:
    """No closed schema lacks what a tool returns."""
    for name, tool in BUILT_IN.items():
        plan_step = step("s", name, dict(tool.examples[0]))
        for sample in samples(name).values():
            if sample.result is None:
                continue
            for member in msgspec.to_builtins(sample.result):
                found = faults(plan_step, step("use", args={"value": f"$steps.s.{member}"}))
                assert found == [], (name, member)
