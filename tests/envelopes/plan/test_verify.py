"""A run rebuilt from plan, calls, results and confirmation: the end of each step, and contradictory records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.codecs import call as codec
from envelopes.plan.confirmation import ConfirmationProof, audit_confirmations
from envelopes.plan.schema import ActionPlan, read_plan
from envelopes.plan.verify import RebuiltRun, StepState, rebuild_run
from envelopes.schema.call import ExecutionEvent, Iteration, Limits, RunPolicy, Sandbox, ToolCall, ToolResult
from envelopes.text.canonical_json import named_hash
from tests.cases import each
from tests.envelopes.settled import AT, call, settled

LIST = {"id": "list", "tool": "Glob", "args": {"in": "$vars.folder"}, "captureAs": "found"}
FILE = {
    "id": "file",
    "tool": "Move",
    "args": {"path": "{f.path}", "as": "{n}"},
    "foreach": {"from": "$vars.found.items", "itemName": "f", "indexName": "n"},
}
SUM = {"id": "sum", "tool": "Note", "args": {"text": "{$steps.file.okCount} of {$steps.file.count}"}}
CALLED, BEGAN = "2025-12-16T18:12:00Z", "2025-12-16T18:12:05Z"
ITEMS = [{"path": "a.md"}, {"path": "b.md"}]
LISTED = call(call_id="c1", step_id="list", tool="Glob", args={"in": "notes"}, args_hash=named_hash({"in": "notes"}))


def confirmed(at: str, name: str = "ok_1", run: str = "r1") -> ExecutionEvent:
    return ExecutionEvent(
        type="run.confirmed",
        run_id=run,
        timestamp=at,
        level="info",
        message="approved by olga",
        payload={"confirmationId": name},
    )


def result(situation: str = "fits", **fields: Any) -> ToolResult:
    return codec.to_result(call(), settled(situation, started_at=BEGAN, ended_at=BEGAN, **fields))


def plan(*steps: dict[str, Any]) -> ActionPlan:
    return read_plan({"version": "1.0", "goal": "File the notes", "riskLevel": "writes", "steps": list(steps)})


def moved(index: int, call_id: str, **fields: Any) -> ToolCall:
    item = ITEMS[index]
    known = {"args": {**item, "as": index}, "iteration": Iteration(index=index, item_name="f", item_value=item)}
    return call(**{"call_id": call_id, "step_id": "file", "tool": "Move", **known, **fields})


def ended(made_call: ToolCall, data: Any = None) -> ToolResult:
    """Data of a success, or the name of the situation in which the call ended."""
    if isinstance(data, str):
        return codec.to_result(made_call, settled(data))
    return codec.to_result(made_call, settled("fits", data=data or {}))


NOTED = call(call_id="c4", step_id="sum", tool="Note", args={"text": "2 of 2"})
CALLS = (LISTED, moved(0, "c2"), moved(1, "c3"), NOTED)
RESULTS = (ended(LISTED, {"items": ITEMS}), ended(CALLS[1], {"new": 1}), ended(CALLS[2], {"new": 2}), ended(NOTED))


def rebuilt(*calls: ToolCall, steps: Any = (SUM, FILE, LIST), results: Any = RESULTS, events: Any = ()) -> RebuiltRun:
    unasked = [
        msgspec.structs.replace(
            made_call, policy=msgspec.structs.replace(made_call.policy, confirmations_required=bool(events))
        )
        for made_call in calls
    ]
    return rebuild_run(plan(*steps), unasked, results, events, {"folder": "notes"})


def test_what_each_step_came_to_follows_from_the_records_alone() -> None:
    moves = {"items": [{"new": 1}, {"new": 2}], "count": 2, "okCount": 2, "failed": []}
    assert rebuilt(*CALLS) == RebuiltRun(
        steps=(
            StepState(step_id="list", end="ok", output={"items": ITEMS}, call_ids=("c1",)),
            StepState(step_id="file", end="ok", output=moves, call_ids=("c2", "c3")),
            StepState(step_id="sum", end="ok", output={}, call_ids=("c4",)),
        ),
        problems=(),
    )


@each(
    ("changed", "problem"),
    [
        (moved(0, "c2", args={"path": "z.md", "as": 0}), "c2: its arguments differ from the step's"),
        (moved(0, "c2", args_hash="sha256:0"), "c2: its hash differs from that of the step's arguments"),
        (moved(0, "c2", tool="Copy"), "c2: its tool is Copy, the step's is Move"),
        (moved(0, "c2", attempt=2), "c2: attempt 2 is the call's attempt number 1"),
        (
            moved(0, "c2", tool="ApplyPatch", risk_level="read-only"),
            "c2: its risk is read-only, less than that of ApplyPatch",
        ),
        (moved(0, "c2", step_id="other"), "c2: the plan has no step other"),
        (moved(0, "c2", iteration=None), "c2: file has no such iteration"),
        (
            moved(0, "c2", iteration=Iteration(index=0, item_name="f", item_value={"path": "z.md"})),
            "c2: its iteration has another item",
        ),
    ],
)
def test_a_call_that_the_plan_does_not_ask_for_is_named(changed: ToolCall, problem: str) -> None:
    assert problem in rebuilt(LISTED, changed, *CALLS[2:]).problems


def test_masked_arguments_are_checked_against_their_hash() -> None:
    real = named_hash({**ITEMS[0], "as": 0})
    masked = moved(0, "c2", args={"path": "…", "as": 0}, args_hash=real, redactions=("/path",))
    assert rebuilt(LISTED, masked, *CALLS[2:]).problems == ()


def test_a_result_that_was_changed_shows_in_the_calls_behind_it() -> None:
    fewer = (ended(LISTED, {"items": ITEMS[:1]}), *RESULTS[1:])
    assert rebuilt(*CALLS, results=fewer).problems == (
        "c3: file has no such iteration",
        "c4: its arguments differ from the step's",
    )
    gone = rebuilt(*CALLS, results=(ended(LISTED, {"rows": 1}), *RESULTS[1:]))
    assert gone.problems[0] == "file: /foreach/from: $vars.found.items: there is no 'items'"
    assert [state.end for state in gone.steps] == ["ok", None, None]


def test_arguments_that_have_no_hash_are_named() -> None:
    odd = (ended(LISTED, {"items": [{"path": float("nan")}, ITEMS[1]]}), *RESULTS[1:])
    other_hash = moved(0, "c2", args_hash="sha256:0")
    assert rebuilt(LISTED, other_hash, *CALLS[2:], results=odd).problems[0].startswith("file: ")


def test_the_last_attempt_counts_and_all_are_of_the_step() -> None:
    first, again = moved(0, "c2"), moved(0, "c5", attempt=2)
    results = (RESULTS[0], ended(first, "tool_error"), ended(again, {"new": 1}), *RESULTS[2:])
    run = rebuilt(LISTED, again, first, *CALLS[2:], results=results)
    assert run.problems == ()
    assert run.steps[1].call_ids == ("c2", "c3", "c5")
    assert run.steps[1].end == "ok"


@each(
    ("situation", "on_error", "end", "code"),
    [
        ("tool_error", "skip", "partial", "INTERNAL_ERROR"),
        ("tool_error", "stop", "error", "INTERNAL_ERROR"),
        ("timed_out", "skip", "partial", "TIMEOUT"),
        ("cancelled", "skip", "cancelled", "CANCELLED"),
        ("duplicate", "skip", "partial", "SKIPPED"),
    ],
)
def test_a_foreach_says_which_rounds_failed_and_ends_as_the_plan_asks(
    situation: str, on_error: str, end: str, code: str
) -> None:
    results = (*RESULTS[:2], ended(CALLS[2], situation))
    state = rebuilt(*CALLS[:3], steps=(LIST, {**FILE, "onError": on_error}, SUM), results=results).steps[1]
    assert state.end == end
    assert state.output == {
        "items": [{"new": 1}, None],
        "count": 2,
        "okCount": 1,
        "failed": [{"index": 1, "code": code}],
    }


def test_nothing_that_succeeded_is_an_error_even_where_failures_are_skipped() -> None:
    failed = [ended(made_call, "tool_error") for made_call in CALLS[1:3]]
    steps = (LIST, {**FILE, "onError": "skip"}, SUM)
    assert rebuilt(*CALLS[:3], steps=steps, results=(RESULTS[0], *failed)).steps[1].end == "error"


@each(("situation", "end"), [("tool_error", "error"), ("timed_out", "error"), ("cancelled", "cancelled")])
def test_what_waits_for_a_step_without_data_is_skipped(situation: str, end: str) -> None:
    run = rebuilt(LISTED, results=[ended(LISTED, situation)])
    assert [state.end for state in run.steps] == [end, "skipped", "skipped"]
    assert run.problems == ()


def test_a_run_that_was_cut_short_leaves_the_rest_open() -> None:
    running = rebuilt(*CALLS[:3], results=RESULTS[:2])
    assert [state.end for state in running.steps] == ["ok", None, None]
    assert [state.end for state in rebuilt().steps] == [None, None, None]
    assert rebuilt().problems == ()


def test_a_foreach_over_nothing_came_to_its_end_without_a_call() -> None:
    state = rebuilt(LISTED, results=[ended(LISTED, {"items": []})]).steps[1]
    assert (state.end, state.output) == ("ok", {"items": [], "count": 0, "okCount": 0, "failed": []})


@pytest.mark.parametrize(
    ("events", "problems"),
    [
        ((confirmed(AT),), ()),
        ((confirmed(AT, "ok_2"),), ("c1: no run.confirmed event of its run names ok_1",)),
    ],
)
def test_the_confirmation_is_a_part_of_what_is_proved(
    events: tuple[ExecutionEvent, ...], problems: tuple[str, ...]
) -> None:
    confirmed_call = msgspec.structs.replace(LISTED, confirmation_id="ok_1")
    assert rebuilt(confirmed_call, steps=(LIST,), results=RESULTS[:1], events=events).problems == problems


@pytest.mark.parametrize(
    ("carried", "events", "problem"),
    [
        ("ok_1", [confirmed("2025-12-16T18:12:04Z")], ""),
        ("ok_1", [confirmed(BEGAN)], ""),
        ("ok_1", [confirmed("2025-12-16T19:12:04+01:00")], ""),
        ("ok_1", [confirmed("2025-12-16T18:13:00Z"), confirmed("2025-12-16T18:12:01Z")], ""),
        (None, [confirmed(CALLED)], "it carries no confirmationId"),
        ("ok_1", [], "no run.confirmed event of its run names ok_1"),
        ("ok_1", [confirmed(CALLED, "ok_2")], "no run.confirmed event of its run names ok_1"),
        ("ok_1", [confirmed(CALLED, run="r2")], "no run.confirmed event of its run names ok_1"),
        (
            "ok_1",
            [confirmed("2025-12-16T18:12:05.001Z")],
            f"it began at {BEGAN}, before it was confirmed at 2025-12-16T18:12:05.001Z",
        ),
    ],
)
def test_a_call_that_wrote_is_proved_by_a_confirmation_that_came_first(
    carried: str | None, events: list[ExecutionEvent], problem: str
) -> None:
    (proof,) = audit_confirmations([call(risk_level="writes", confirmation_id=carried)], [result()], events)
    assert (proof.call_id, proof.problem) == ("c1", problem)
    assert (proof.event in events) == (not problem)


def test_only_what_ran_and_could_change_something_needs_a_proof() -> None:
    unasked = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=True), limits=Limits())
    assert audit_confirmations([call(risk_level="read-only", tool="Glob")], [result()], []) == ()
    assert audit_confirmations([call(policy=unasked)], [result()], []) == ()
    assert audit_confirmations([call()], [result()], [], is_required=False) == ()
    assert audit_confirmations([call()], [result("write_refused")], []) == ()
    assert audit_confirmations([call()], [result("duplicate")], []) == ()
    for situation in ("tool_error", "timed_out", "cancelled"):
        assert len(audit_confirmations([call()], [result(situation)], [])) == 1


def test_the_words_of_a_call_do_not_release_it_from_the_proof() -> None:
    """The policy of the run, the definition of the tool and the end of the call decide (CALL-096)."""
    unasked = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=True), limits=Limits())
    assert len(audit_confirmations([call(policy=unasked)], [result()], [], is_required=True)) == 1
    assert len(audit_confirmations([call(risk_level="read-only")], [result()], [])) == 1
    never_sent = msgspec.structs.replace(result(), phase="pre_dispatch")
    assert len(audit_confirmations([call()], [never_sent], [])) == 1


def test_a_call_whose_end_is_not_known_may_have_run() -> None:
    unfinished = call(created_at=CALLED, confirmation_id="ok_1")
    assert audit_confirmations([unfinished], [], [confirmed(CALLED)]) == (ConfirmationProof("c1", confirmed(CALLED)),)
    (late,) = audit_confirmations([unfinished], [], [confirmed(BEGAN)])
    assert late.problem.startswith(f"it began at {CALLED}, before")


def test_the_files_of_a_run_hold_the_proof() -> None:
    """calls.jsonl, results.jsonl and events.jsonl, written and read again."""
    made_calls = [call(call_id=f"c{number}", confirmation_id="ok_1") for number in range(3)]
    ended = [
        codec.to_result(made_call, settled("fits", call_id=made_call.call_id, started_at=BEGAN))
        for made_call in made_calls
    ]
    events = [confirmed(CALLED)]
    files = [b"".join(codec.encode_lines(records)) for records in (made_calls, ended, events)]
    assert json.loads(files[0].splitlines()[0])["confirmationId"] == "ok_1"
    from_files = [
        list(codec.decode_lines(raw, type(records[0])))
        for raw, records in zip(files, (made_calls, ended, events), strict=True)
    ]
    proofs = audit_confirmations(*from_files)
    assert [(proof.call_id, proof.problem) for proof in proofs] == [("c0", ""), ("c1", ""), ("c2", "")]
