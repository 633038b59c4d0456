"""References in arguments: the value of each form, and what is refused before anything is dispatched."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envelopes.codecs import call as calls
from envelopes.families.registry import tools
from envelopes.plan.gates import Admitted, Gates
from envelopes.plan.references import (
    MAX_DEPTH,
    PlanReference,
    Scope,
    UnresolvedReference,
    check_names,
    find_references,
    resolve,
)
from envelopes.plan.schema import ActionPlan, Foreach, RetryPolicy, Step, read_plan
from envelopes.plan.shape_faults import Malformed
from envelopes.schema.call import Iteration
from envelopes.text.canonical_json import named_hash
from tests.cases import each
from tests.envelopes.settled import JSON, call, settled

PARSED = {"items": [{"path": "a.md", "size": 3}, {"path": "b.md"}], "count": 2, "ok": True, "none": None}
SCOPE = Scope(
    steps={"parse": PARSED, "step-2": "whole"},
    vars={"total": 12, "notes": ["x"]},
    bindings={"item": {"path": "XYZ/Foo.md", "tags": ["t"]}, "index": 3},
)
STEP = {"id": "s5", "tool": "vault.createFile", "args": {"path": "{item.path}", "content": "..."}}


def plan(**changed: Any) -> dict[str, Any]:
    return {"version": "1.0", "goal": "File the notes", "riskLevel": "writes", "steps": [STEP], **changed}


@each(
    ("text", "value"),
    [
        ("$steps.parse", PARSED),
        ("$steps.parse.items[0].path", "a.md"),
        ("$steps.parse.items", PARSED["items"]),
        ("$steps.parse.none", None),
        ("$steps.step-2", "whole"),
        ("$vars.total", 12),
        ("$vars.notes[0]", "x"),
        ("{item}", {"path": "XYZ/Foo.md", "tags": ["t"]}),
        ("{item.path}", "XYZ/Foo.md"),
        ("{index}", 3),
        ("{$steps.parse.count}", 2),
        ("note {index}: {item.path}", "note 3: XYZ/Foo.md"),
        ("{$steps.parse.count} of {$vars.total}, {$steps.parse.ok}", "2 of 12, true"),
        ("{{index}} }}{{", "{index} }{"),
        ("costs $5 and $vars", "costs $5 and $vars"),
        ("$HOME/x", "$HOME/x"),
        ("", ""),
    ],
)
def test_a_reference_gives(text: str, value: Any) -> None:
    assert resolve(text, SCOPE) == value
    assert type(resolve(text, SCOPE)) is type(value)


@each(
    ("text", "reason"),
    [
        ("$steps.later.x", "$steps.later.x: there is no such step"),
        ("$vars.unset", "$vars.unset: there is no such variable"),
        ("{other.path}", "other.path: there is no such name in a foreach"),
        ("$steps.parse.missing", "there is no 'missing'"),
        ("$steps.parse.items[2]", "there is no 2"),
        ("$steps.parse.items.length", "there is no 'length'"),
        ("$steps.parse.count.__class__", "there is no '__class__'"),
        ("$vars.total[0]", "there is no 0"),
        ("$steps.parse.items[0].path extra", "in a longer text, write it in braces"),
        ("$steps", "is not a reference"),
        ("${item.path}", "without the dollar sign"),
        ("{item.path", "a brace by itself"),
        ("{1 + 1}", "is not a reference"),
        ("all of {$steps.parse}", "an object cannot be part of a text"),
        ("all of {$steps.parse.items}", "an array cannot be part of a text"),
        ("it is {$steps.parse.none}", "null cannot be part of a text"),
        ("$steps.parse" + ".x" * 40, f"more than {MAX_DEPTH} steps"),
    ],
)
def test_an_invalid_or_dangling_reference_is_fatal(text: str, reason: str) -> None:
    with pytest.raises(UnresolvedReference) as raised:
        resolve({"to": [text]}, SCOPE)
    assert reason in raised.value.reason
    assert raised.value.pointer == "/to/0"


def test_arguments_are_resolved_at_every_depth_and_their_keys_never() -> None:
    args = {"{index}": {"paths": ["{item.path}", "x"], "size": "$steps.parse.items[0].size"}, "n": 1.5, "no": None}
    assert resolve(args, SCOPE) == {"{index}": {"paths": ["XYZ/Foo.md", "x"], "size": 3}, "n": 1.5, "no": None}
    deep: Any = "x"
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(UnresolvedReference, match=f"deeper than {MAX_DEPTH} levels"):
        resolve(deep, SCOPE)


def test_what_a_reference_brings_in_is_not_resolved_again() -> None:
    scope = Scope(steps={"read": {"text": "$steps.secret {index} {{"}, "secret": "s"}, bindings={"index": 1})
    assert resolve({"text": "$steps.read.text"}, scope) == {"text": "$steps.secret {index} {{"}
    assert resolve("got {$steps.read.text}", scope) == "got $steps.secret {index} {{"


@given(JSON)
@example({"a": "$vars.total", "b": ["{index}", {"c": "at {item.path}", "d": "$steps.parse.items"}]})
def test_resolving_changes_neither_its_arguments_nor_its_scope(value: Any) -> None:
    before, scope = copy.deepcopy(value), copy.deepcopy(SCOPE)
    outcomes = []
    for _ in range(2):
        try:
            outcomes.append(resolve(value, SCOPE))
        except UnresolvedReference as error:
            outcomes.append(error.args)
    assert outcomes[0] == outcomes[1]
    assert (value, SCOPE) == (before, scope)


@given(st.text())
def test_any_text_is_a_text_a_value_or_refused(text: str) -> None:
    with contextlib.suppress(UnresolvedReference):
        resolve(text, SCOPE)
    escaped = text.replace("{", "{{").replace("}", "}}")
    if "${" not in escaped and not text.startswith(("$steps", "$vars")):
        assert resolve(escaped, SCOPE) == text


def test_a_value_other_than_text_refers_to_nothing() -> None:
    assert list(find_references({"count": 3, "rows": [None, True, 1.5], "text": "plain"})) == []


def test_names_that_nothing_will_give_are_found_before_anything_runs() -> None:
    args = {"a": "$steps.parse.anything.at.all", "b": ["{$vars.total} {item.x}"]}
    assert [(at, reference.source, reference.name) for at, reference in find_references(args)] == [
        ("/a", "steps", "parse"),
        ("/b/0", "vars", "total"),
        ("/b/0", "binding", "item"),
    ]
    assert next(find_references(args))[1] == PlanReference(
        "steps", "parse", ("anything", "at", "all"), "$steps.parse.anything.at.all"
    )
    check_names(args, SCOPE)
    for name, scope in (("a", Scope()), ("b/0", Scope(steps={"parse": 1}))):
        with pytest.raises(UnresolvedReference, match=f"^/{name}: "):
            check_names(args, scope)


def test_a_call_holds_the_arguments_that_were_resolved_and_their_hash() -> None:
    """A step of a plan, one iteration of its foreach, and the call that its tool gets (CALL-011, CALL-080)."""
    step = read_plan(plan(steps=[{**STEP, "foreach": {"from": "$steps.parse.items", "itemName": "item"}}])).steps[0]
    assert step.foreach is not None
    rounds = resolve(step.foreach.source, SCOPE)
    bound = Scope(SCOPE.steps, SCOPE.vars, {step.foreach.item_name: rounds[0], step.foreach.index_name: 0})
    args = resolve(step.args, bound)
    resolved_call = call(
        tool=step.tool,
        step_id=step.id,
        args=args,
        args_hash=named_hash(args),
        iteration=Iteration(index=0, item_name="item", item_value=rounds[0]),
    )
    written = calls.encode(resolved_call)
    assert written["args"] == {"path": "a.md", "content": "..."}
    assert written["argsHash"] == named_hash({"path": "a.md", "content": "..."})
    assert written["iteration"] == {"index": 0, "itemName": "item", "itemValue": {"path": "a.md", "size": 3}}


def test_a_step_takes_the_data_of_a_result_and_passes_the_gates_with_it() -> None:
    data = settled("fits", data={"cmd": "make", "wait": 500}).data
    args = resolve({"cmd": "$steps.s1.cmd", "yield_time_ms": "$steps.s1.wait"}, Scope(steps={"s1": data}))
    admitted = Gates(registry=tools().get).admit(call(args=args))
    assert isinstance(admitted, Admitted)
    assert (admitted.args, admitted.coercions) == ({"cmd": "make", "yield_time_ms": 500}, ())


def test_a_plan_is_read_with_all_that_its_author_may_say() -> None:
    parsed = read_plan(
        plan(
            steps=[
                {"id": "list", "tool": "vault.list", "args": {}, "captureAs": "notes"},
                {
                    **STEP,
                    "preview": "Create {item.path}",
                    "dependsOn": ["list"],
                    "foreach": {"from": "$steps.list.items", "itemName": "item", "indexName": "n", "concurrency": 2},
                    "onError": "retry",
                    "retry": {"maxAttempts": 3},
                    "timeoutMs": 30_000,
                    "tags": ["notes"],
                },
            ],
            assumptions=["the folder is there"],
            contextRequests=[{"kind": "selection"}],
            defaults={"onError": "skip", "retry": {"maxAttempts": 2, "backoffMs": 0}},
            outputs={"showCommandRuns": False},
            uiHints={"title": "Notes"},
        )
    )
    assert isinstance(parsed, ActionPlan)
    step = parsed.steps[1]
    assert isinstance(step, Step)
    assert (step.id, step.tool, step.args) == ("s5", "vault.createFile", {"path": "{item.path}", "content": "..."})
    assert step.foreach == Foreach(source="$steps.list.items", item_name="item", index_name="n", concurrency=2)
    assert (step.on_error, step.retry, step.timeout_ms) == (
        "retry",
        RetryPolicy(max_attempts=3, backoff_ms=250),
        30_000,
    )
    assert (parsed.defaults.on_error, parsed.outputs.show_command_runs, parsed.steps[0].capture_as) == (
        *("skip", False),
        "notes",
    )


@each(
    ("changed", "faults"),
    [
        ({"steps": []}, ["plan/steps: must have at least one entry"]),
        ({"steps": {}, "goal": ""}, ["plan/goal: must not be blank", "plan/steps: must be a list, not an object"]),
        ({"version": "1"}, ['plan/version: "1" is not a version, two or three numbers with dots between']),
        ({"riskLevel": "safe"}, ['plan/riskLevel: "safe" is none of: read-only, writes, commands']),
        ({"asumptions": []}, ["plan: there is no member asumptions; nearest: assumptions"]),
        (
            {"steps": [{**STEP, "id": "5s", "retries": 1}, "x"]},
            [
                "5s: there is no member retries; nearest: retry",
                '5s/id: "5s" is not a letter, then letters, digits, _ or -',
                "step 2: must be an object, not a text",
            ],
        ),
        ({"steps": [{**STEP, "args": []}]}, ["s5/args: must be an object, not a list"]),
        ({"steps": [{**STEP, "retry": {"maxAttempts": 11}}]}, ["s5/retry/maxAttempts: 11 is not between 1 and 10"]),
        ({"steps": [{**STEP, "timeoutMs": 1.5}]}, ["s5/timeoutMs: must be a whole number, not 1.5"]),
        ({"steps": [{**STEP, "timeoutMs": 10**30}]}, [f"s5/timeoutMs: {10**30} is not between 1 and 31536000000"]),
        (
            {"steps": [{**STEP, "foreach": {"itemName": 1, "form": "$steps.a"}}]},
            [
                "s5/foreach: there is no member form; nearest: from",
                "s5/foreach: the member from is missing",
                "s5/foreach/itemName: must be a text, not a whole number",
            ],
        ),
        (
            {"steps": [{**STEP, "captureAs": "a.b"}]},
            ['s5/captureAs: "a.b" is not a letter, then letters, digits, _ or -'],
        ),
        ({"steps": [{**STEP, "onError": True}]}, ["s5/onError: true is none of: stop, skip, retry"]),
        ({"steps": [{"tool": "x", "args": {}}]}, ["step 1: the member id is missing"]),
        (
            {"steps": [{**STEP, "args": {"a": math.nan}}]},
            ["plan: a value in it is no JSON: nan is not representable in JCS"],
        ),
        ({"steps": [{**STEP, "id": "\ud800"}]}, ['\ud800/id: "\\ud800" is not a letter, then letters, digits, _ or -']),
        ({"steps": [STEP, STEP]}, ["plan: 2 steps have the id s5, which has to be used once"]),
        (
            {"steps": [{**STEP, "captureAs": "a"}, {**STEP, "id": "b", "captureAs": "a"}]},
            ["plan: 2 steps have the captureAs a, which has to be used once"],
        ),
        (
            {"steps": [{**STEP, "dependsOn": ["s6", "s5", "s6"]}]},
            [
                "s5/dependsOn: there is no step s6; known: none",
                "s5/dependsOn: s6 is named 2 times",
                "s5/dependsOn: a step cannot depend on itself",
            ],
        ),
    ],
)
def test_an_invalid_plan_is_refused_with_the_position_of_its_fault(changed: dict[str, Any], faults: list[str]) -> None:
    with pytest.raises(Malformed) as raised:
        read_plan(plan(**changed))
    assert list(raised.value.faults) == faults


@pytest.mark.parametrize("document", [None, [], "plan", 5, 1.5, True])
def test_a_document_that_is_no_object_is_no_plan(document: Any) -> None:
    with pytest.raises(Malformed, match="plan: must be an object, not "):
        read_plan(document)


@each(
    ("reference", "value"),
    [
        ("$steps.run.task_handle.task_id", "task_1"),
        ("$steps.run.initial_output_preview", "whole"),
        ("$steps.run.stdout_preview", "whole"),
        ("$steps.own.task_handle", 1),  # a member of that name comes first
        ("$steps.own.stdout_preview", "own"),
    ],
)
def test_a_published_name_gives_the_complete_value(reference: str, value: Any) -> None:
    run = {"task": {"task_id": "task_1"}, "stdout": "whole"}
    own = {"task": 2, "task_handle": 1, "stdout": "whole", "stdout_preview": "own"}
    assert resolve(reference, Scope(steps={"run": run, "own": own})) == value
