"""From a plan's steps to the calls that they ask for: in which order, how many, and with what in them."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from envelopes.families.registry import tools
from envelopes.plan.calls import Origin, calls_of
from envelopes.plan.order import needs, order, unmet
from envelopes.plan.references import Scope, UnresolvedReference
from envelopes.plan.schema import Plan, Step, read_plan
from envelopes.schema.call import Iteration, Limits, RunPolicy, Sandbox
from envelopes.schema.timestamps import check_instant
from envelopes.text.canonical_json import args_hash
from envelopes.text.untrusted_json import Untrusted
from tests.cases import each
from tests.envelopes.settled import AT

TOOL = tools()["ExecCommand"]
FILES = Scope(steps={"list": {"items": [{"path": "a.md"}, {"path": "b.md"}], "count": 2}}, vars={"folder": "notes"})
EACH = {"from": "$steps.list.items", "itemName": "file", "indexName": "n"}


def policy(**limits: int) -> RunPolicy:
    return RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits(**limits))


def origin(**limits: int) -> Origin:
    numbers = count(1)
    return Origin(
        run_id="r1",
        policy=policy(**limits),
        executor_version="2.0",
        tool_registry_version="1.4",
        planner_version="7",
        confirmation_id="ok_1",
        new_id=lambda: f"c{next(numbers)}",
        now=lambda: AT,
    )


def plan(*steps: dict[str, Any]) -> Plan:
    told = [{"tool": "ExecCommand", "args": {}, **step} for step in steps]
    return read_plan({"version": "1.0", "goal": "File the notes", "riskLevel": "commands", "steps": told})


def step(**fields: Any) -> Step:
    return plan({"id": "file", "args": {"cmd": "mv {file.path} $vars.folder"}, **fields}).steps[0]


def test_a_foreach_becomes_a_call_for_each_of_its_items_with_its_round_in_it() -> None:
    made = calls_of(step(args={"cmd": "mv {file.path} {$vars.folder}/{n}"}, foreach=EACH), TOOL, FILES, origin())
    assert [one.args["cmd"] for one in made] == ["mv a.md notes/0", "mv b.md notes/1"]
    assert [one.iteration for one in made] == [
        Iteration(index=0, item_name="file", item_value={"path": "a.md"}),
        Iteration(index=1, item_name="file", item_value={"path": "b.md"}),
    ]
    assert [one.call_id for one in made] == ["c1", "c2"]
    assert {one.loop_id for one in made} == {"r1/file"}
    assert [one.args_hash for one in made] == [args_hash(one.args) for one in made]


def test_a_call_says_what_it_belongs_to_and_takes_its_risk_from_the_tool() -> None:
    (made,) = calls_of(step(args={"cmd": "ls"}, timeoutMs=900), TOOL, FILES, origin())
    assert (made.run_id, made.step_id, made.tool, made.attempt) == ("r1", "file", "ExecCommand", 1)
    assert (made.risk_level, made.policy, made.confirmation_id) == ("commands", policy(), "ok_1")
    assert (made.executor_version, made.tool_registry_version, made.planner_version) == ("2.0", "1.4", "7")
    assert (made.iteration, made.loop_id, made.created_at, made.timeout_ms) == (None, None, AT, 900)
    (read,) = calls_of(step(args={}, tool="TaskList"), tools()["TaskList"], FILES, origin())
    assert read.risk_level == "read-only"


def test_ids_and_times_are_made_where_the_runtime_gives_none() -> None:
    run = Origin(run_id="r1", policy=policy(), executor_version="1", tool_registry_version="1")
    first, second = calls_of(step(args={}, foreach=EACH), TOOL, FILES, run)
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
    assert calls_of(step(foreach=EACH, **fields), TOOL, FILES, origin())[0].preview == preview


@each(
    ("asked", "most", "given"), [(None, None, None), (900, None, 900), (None, 500, 500), (900, 500, 500), (1, 500, 1)]
)
def test_a_timeout_is_the_shorter_of_what_is_asked_and_allowed(asked: Any, most: Any, given: int | None) -> None:
    limits = {} if most is None else {"max_timeout_ms": most}
    assert calls_of(step(args={}, timeoutMs=asked), TOOL, FILES, origin(**limits))[0].timeout_ms == given


def test_a_foreach_over_nothing_asks_for_no_call() -> None:
    empty = step(args={}, foreach={"from": "$vars.none", "itemName": "file"})
    assert calls_of(empty, TOOL, Scope(vars={"none": []}), origin()) == ()


@each(
    ("fields", "limits", "said"),
    [
        ({"foreach": {**EACH, "from": "$steps.list.count"}}, {}, "/foreach/from: $steps.list.count is no array"),
        ({"foreach": EACH}, {"max_iterations": 1}, "/foreach/from: $steps.list.items has 2 items, 1 are allowed"),
        ({"foreach": EACH, "args": {"cmd": "{file.size}"}}, {}, "/cmd: file.size: there is no 'size'"),
        ({"args": {"cmd": "$steps.later.x"}}, {}, "/cmd: $steps.later.x: there is no such step"),
    ],
)
def test_where_a_reference_leads_nowhere_no_call_is_made(
    fields: dict[str, Any], limits: dict[str, int], said: str
) -> None:
    run = origin(**limits)
    with pytest.raises(UnresolvedReference) as raised:
        calls_of(step(**fields), TOOL, FILES, run)
    assert str(raised.value) == said


def test_as_many_rounds_as_the_policy_allows_are_made() -> None:
    many = Scope(vars={"all": list(range(1_001))})
    over = step(args={}, foreach={"from": "$vars.all", "itemName": "file"})
    assert len(calls_of(over, TOOL, many, origin(max_iterations=1_001))) == 1_001
    with pytest.raises(UnresolvedReference, match="has 1001 items, 1000 are allowed"):
        calls_of(over, TOOL, many, origin())


def test_a_step_waits_for_what_it_depends_on_and_for_whose_data_it_names() -> None:
    found = plan(
        {"id": "report", "args": {"cmd": "echo {$vars.total} $HOME {$vars.today}"}, "dependsOn": ["clean"]},
        {"id": "file", "args": {"cmd": "mv {f}"}, "foreach": {"from": "$steps.list.items", "itemName": "f"}},
        {"id": "list"},
        {"id": "clean", "preview": "after {$steps.file.count}"},
        {"id": "sum", "captureAs": "total"},
    )
    assert needs(found, internal=["today"]) == {
        "report": {"clean", "sum"},
        "file": {"list"},
        "list": set(),
        "clean": {"file"},
        "sum": set(),
    }
    assert [one.id for one in order(found, internal=["today"])] == ["list", "file", "clean", "sum", "report"]


def test_steps_that_need_nothing_stay_in_the_order_of_the_plan() -> None:
    assert [one.id for one in order(plan({"id": "b"}, {"id": "a"}, {"id": "c"}))] == ["b", "a", "c"]


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
        order(plan({"id": "first"}, *steps))


@each(
    ("fields", "said"),
    [
        ({"args": {"cmd": "$steps.none.x"}}, "/args/cmd: $steps.none.x: there is no such step"),
        ({"args": {"cmd": "$vars.unset"}}, "/args/cmd: $vars.unset: there is no such variable"),
        ({"args": {"cmd": "{file}"}}, "/args/cmd: file: there is no such name in a foreach"),
        ({"preview": "{file}"}, "/preview: file: there is no such name in a foreach"),
        ({"foreach": {"from": "{file}", "itemName": "file"}}, "/: file: there is no such name in a foreach"),
    ],
)
def test_a_name_that_nothing_will_give_refuses_the_whole_plan(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UnresolvedReference) as raised:
        order(plan({"id": "a", **fields}))
    assert str(raised.value) == said


def test_a_step_is_skipped_for_those_that_ended_without_data() -> None:
    ended: Any = {"a": "ok", "b": "partial", "c": "error", "d": "skipped", "e": "cancelled"}
    assert unmet(["e", "d", "c", "b", "a", "running"], ended) == ("c", "d", "e")
