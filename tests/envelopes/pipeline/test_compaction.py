"""Compaction of calls that age out of the history."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes import compact
from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.pipeline import compaction
from envelopes.pipeline.compaction import (
    CompactedHistory,
    Dropped,
    HistoryCall,
    compact_history,
    envelope_characters,
    recap,
)
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import ArtifactRef, CanonicalResult, CompleteOutput, JsonValue, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve, text_at
from envelopes.text.tokens import count_tokens
from tests.cases import each

SAMPLES = [(family, sample) for family in FAMILIES for sample in family.samples]
REFUSED = ToolError(
    kind="execution_root_violation",
    message="requested working directory is outside the current execution root",
    details={"workdir": "../other-repo", "listing": "entry\n" * 100},
    recovery_hint="omit workdir or use a relative path inside the active workspace",
    retryable=False,
)
KEYS = st.sampled_from(
    ["task_id", "sourceRef", "path", "ids", "artifacts", "text", "stdout_preview", "rows", "a", "b/~", "t1", "t2"]
)
SCALARS = st.none() | st.booleans() | st.integers(-9, 10**12) | st.text(max_size=300) | st.text("xy\n", min_size=60)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=12) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=40
)
RESULTS = VALUES.filter(lambda value: value is not None)


def success(result: Any, *artifacts: str, tool_name: str = "ExecCommand") -> CanonicalResult:
    return CanonicalResult(
        tool_name=tool_name,
        status="success",
        summary_text="command exited with status 0",
        result=result,
        artifacts=tuple(map(ArtifactRef, artifacts)),
    )


def failure(error: ToolError = REFUSED) -> CanonicalResult:
    return CanonicalResult(tool_name="ExecCommand", status="error", summary_text=error.message, error=error)


def canonical_of(family: Family, sample: CompleteOutput) -> CanonicalResult:
    return project(sample, family, family.projection, MemorySink()).canonical


@pytest.mark.parametrize("budget", [0, 300, 10**6])
def test_name_status_and_summary_are_always_kept(budget: int) -> None:
    canonical = compact(success({"stdout_preview": "x" * 8_000}), budget).canonical
    assert (canonical.tool_name, canonical.status, canonical.summary_text) == (
        "ExecCommand",
        "success",
        "command exited with status 0",
    )


def test_an_error_keeps_kind_message_hint_and_retryable_and_loses_its_details_first() -> None:
    smaller = compact(failure(), 0)
    assert smaller.canonical.error is not None
    assert smaller.canonical.error.kind == "execution_root_violation"
    assert smaller.canonical.error.message == REFUSED.message
    assert smaller.canonical.error.recovery_hint == REFUSED.recovery_hint
    assert smaller.canonical.error.retryable is False
    assert smaller.canonical.error.details == {
        "workdir": "../other-repo",
        "listing": "[600 characters dropped by compaction]",
    }


def test_the_recap_of_an_error_says_its_hint_and_whether_it_may_be_tried_again() -> None:
    """The RFC describes a system whose recap had only kind and message."""
    error = failure().error
    assert error is not None
    again = msgspec.structs.replace(failure(), error=msgspec.structs.replace(error, retryable=True))
    assert recap(again).text == recap(failure()).text.replace("Same call again: will fail", "Same call again: may work")
    text = recap(compact(failure(), 0).canonical).text
    assert text.startswith("ExecCommand failed: requested working directory is outside the current execution root\n")
    assert "Kind: execution_root_violation\n" in text
    assert "Hint: omit workdir or use a relative path inside the active workspace\n" in text
    assert "Same call again: will fail" in text


@pytest.mark.parametrize(
    ("envelope", "text"),
    [
        (success({}, "a/1.txt"), "ExecCommand succeeded: command exited with status 0\nArtifact: a/1.txt"),
        (success({"exit_status": 0}), "ExecCommand succeeded: command exited with status 0\nexit_status: 0"),
        (
            CanonicalResult(
                tool_name="WebFetch",
                status="error",
                summary_text="no answer",
                error=ToolError(kind="network_failed", message="No answer in 30 s", retryable=True),
            ),
            "WebFetch failed: no answer\nKind: network_failed\nMessage: No answer in 30 s\nSame call again: may work",
        ),
    ],
)
def test_a_recap_says_the_outcome_first_and_nothing_twice(envelope: CanonicalResult, text: str) -> None:
    assert recap(envelope).text == text


def test_the_recap_of_a_task_names_it_by_its_task_id() -> None:
    """In the system of the RFC, TaskOutput's recap looked for `task.id` and printed unknown."""
    task = {"task_id": "task_123", "status": "running", "output_preview": "working\n" * 900, "output_artifact": 0}
    read = success({"retrieval_status": "timeout", "task": task}, "artifacts/1/output.txt", tool_name="TaskOutput")
    said = recap(compact(read, 0).canonical).text
    assert "task_id: task_123" in said
    assert "unknown" not in said
    assert "retrieval_status: timeout" in said
    assert "output_preview: [7200 characters dropped by compaction]" in said
    assert said.endswith("Artifact: artifacts/1/output.txt")


@pytest.mark.parametrize(
    "handle",
    [
        {"task_handle": {"task_id": "task_123", "kind": "command_task"}},
        {"work_item": {"id": "wi_1", "plan_artifact": {"path": "plans/wi_1.md", "preview": "p" * 900}}},
        {"agent": {"agentId": "a1", "active_children": [{"agent_id": "a2"}]}},
        {"results": [{"source_ref": "brief:1", "title": "t"}]},
        {"cancelled_wait_condition_ids": ["w1", "w2"]},
        {"task": {"artifacts": [{"path": "logs/1.txt"}], "artifact_id": "x"}},
        {"saved_output": {"path": "tool-results/1.txt", "size": 9}},
    ],
)
def test_ids_references_and_artifact_paths_are_kept_wherever_they_stand(handle: dict[str, Any]) -> None:
    beside = {"stdout_preview": "x" * 8_000, "filenames": [f"src/module_{number}.py" for number in range(100)]}
    smaller = compact(success({**handle, **beside}), 0).canonical
    for text in _scalars(handle):
        assert text == "p" * 900 or text in _scalars(smaller.result)
    assert envelope_characters(smaller) < 600


def test_artifact_references_stay_when_their_preview_goes() -> None:
    result = {"exit_status": 0, "stdout_preview": "x" * 8_000, "stdout_truncated": True, "stdout_artifact": 0}
    smaller = compact(success(result, "artifacts/a/stdout.txt"), 0).canonical
    assert smaller.artifacts == (ArtifactRef("artifacts/a/stdout.txt"),)
    assert smaller.result == {**result, "stdout_preview": "[8000 characters dropped by compaction]"}


def test_previews_go_first_and_the_largest_before_the_others() -> None:
    result = {
        "exit_status": 1,
        "filenames": [f"src/module_{number}.py" for number in range(100)],
        "note": "n" * 150,
        "stderr_preview": "e" * 120,
        "stdout_preview": "o" * 8_000,
    }
    envelope = success(result)
    order = [part.pointer for part in compact(envelope, 0).dropped]
    assert order == ["/result/stdout_preview", "/result/stderr_preview", "/result/note", "/result/filenames"]
    fits = compact(envelope, envelope_characters(envelope) - 1)
    assert fits.dropped == (Dropped("/result/stdout_preview", "preview", 8_000),)
    assert fits.fits


def test_a_dropped_list_says_how_many_items_it_had() -> None:
    listing = {"file_count": 300, "filenames": ["src/app.py"] * 200, "filenames_omitted": 100}
    assert compact(success(listing), 0).canonical.result == {
        "file_count": 300,
        "filenames": [],
        "filenames_omitted": 300,
    }
    assert compact(success(["src/app.py"] * 200), 0).canonical.result == ["[200 items dropped by compaction]"]


def test_a_list_with_no_place_for_its_number_says_it_itself() -> None:
    names = ["src/app.py"] * 20
    smaller = compact(success({"id": "x", "pairs": [names, ["a"]], "filenames": names, "filenames_omitted": "some"}), 0)
    assert smaller.canonical.result == {
        "id": "x",
        "pairs": [],
        "pairs_omitted": 2,
        "filenames": ["[20 items dropped by compaction]"],
        "filenames_omitted": "some",
    }
    assert compact(success([names, [{"id": "x"}]]), 0).canonical.result == [
        ["[20 items dropped by compaction]"],
        [{"id": "x"}],
    ]


def test_many_rows_are_reduced_to_their_ids_last() -> None:
    items = [{"id": f"wi_{number}", "objective": "Step", "state": "open"} for number in range(100)]
    smaller = compact(success({"work_items": items, "returned": 100}), 0)
    assert smaller.dropped == (Dropped("/result/work_items", "rows", 100),)
    assert smaller.canonical.result == {
        "work_items": [{"id": f"wi_{number}"} for number in range(100)],
        "work_items_reduced": 100,
        "returned": 100,
    }


def test_rows_keep_their_lists_of_references() -> None:
    items = [{"id": f"wi_{number}", "refs": ["wi_1", "wi_2"], "objective": "Step"} for number in range(100)]
    rows = compact(success({"work_items": items}), 0).canonical.result["work_items"]
    assert rows[7] == {"id": "wi_7", "refs": ["wi_1", "wi_2"]}


def test_a_result_that_is_one_long_text_is_dropped_as_a_field_would_be() -> None:
    smaller = compact(success("x" * 5_000), 0)
    assert smaller.canonical.result == "[5000 characters dropped by compaction]"
    assert compact(success(7), 0).canonical.result == 7


def test_nothing_goes_while_the_envelope_fits() -> None:
    envelope = success({"stdout_preview": "x" * 8_000})
    smaller = compact(envelope, envelope_characters(envelope))
    assert smaller.canonical == envelope
    assert (smaller.dropped, smaller.fits) == ((), True)


def test_a_budget_below_the_required_minimum_is_reported_as_exceeded() -> None:
    assert not compact(failure(), 10).fits


def test_compaction_reads_no_receipt_and_parses_no_text() -> None:
    """RFC-141, RFC-143: the envelope is the only input, and no text in it is decoded or matched."""
    assert list(inspect.signature(compact).parameters) == ["canonical", "budget", "measure"]
    called = {
        node.attr for node in ast.walk(ast.parse(inspect.getsource(compaction))) if isinstance(node, ast.Attribute)
    }
    assert not called & {"loads", "decode", "match", "search", "fullmatch", "findall", "partition", "splitlines"}


@each(
    "other", ["", "Task: task_9\n" * 900, '{"status": "success"}' * 400, "[output truncated: showing first 1] " * 400]
)
def test_results_that_differ_in_their_receipt_alone_compact_alike(other: str) -> None:
    """RFC-143, RFC-155: the receipts count as context, and nothing of them is in what the calls become."""
    old = success({"stdout_preview": "line\n" * 200, "task_handle": {"task_id": "task_1"}}, "artifacts/1/stdout.txt")

    def compacted(text: str) -> HistoryCall:
        texts = enumerate((text, "kept " * 50, "newest"))
        entries = [HistoryCall(call_id=f"c{at}", round=at, canonical=old, text=sent) for at, sent in texts]
        history = compact_history(entries, 120)
        assert history.compacted[0].call_id == "c0"
        return history.entries[0]

    assert compacted("receipt " * 400 + other) == compacted("line\n" * 2_000)


def test_what_a_text_says_changes_nothing() -> None:
    """A text that is JSON, or quotes a mark or a handle, is dropped like any other of its length."""
    marked = '{"task_id": "task_123", "stdout_preview": "[9 characters dropped by compaction]"} ' * 9
    smaller, plain = (
        compact(success({"stdout_preview": text, "exit_status": 0}), 0) for text in (marked, "x" * len(marked))
    )
    assert smaller == plain
    assert "task_123" not in str(smaller.canonical.to_json())


@each(("family", "sample"), SAMPLES)
def test_a_family_writes_the_compacted_result_too(family: Family, sample: CompleteOutput) -> None:
    """RFC-142: a bounded receipt is rendered from the compacted envelope."""
    whole = canonical_of(family, sample)
    smaller = compact(whole, 0)
    text = render(smaller.canonical, family, family.rendering).text
    assert 0 < len(text) <= family.rendering.characters
    for part in smaller.dropped:
        dropped = text_at(whole.to_json(), part.pointer)
        assert dropped is None or dropped not in text
    for artifact in whole.artifacts:
        assert artifact.path in text
        assert artifact.path in recap(smaller.canonical).text


@given(RESULTS, st.integers(0, 3_000))
def test_compacting_never_enlarges_and_never_brings_anything_back(result: Any, budget: int) -> None:
    envelope = success(result, "artifacts/a/stdout.txt")
    once = compact(envelope, budget)
    assert compact(envelope, budget) == once
    assert envelope_characters(once.canonical) <= envelope_characters(envelope)
    assert once.fits == (envelope_characters(once.canonical) <= budget)
    again = compact(once.canonical, budget)
    assert (again.canonical, again.dropped) == (once.canonical, ())
    assert compact(once.canonical, 10**9).canonical == once.canonical
    for part in once.dropped:
        assert standing(once.canonical, part.pointer) != standing(envelope, part.pointer)


def standing(canonical: CanonicalResult, pointer: str) -> JsonValue:
    """The value at the pointer; None when it was dropped with the list around it."""
    try:
        return resolve(canonical.to_json(), pointer)
    except KeyError:
        return None


def test_a_long_text_in_a_list_that_is_dropped_goes_with_it() -> None:
    envelope = success([None] * 8 + ["0" * 81])
    smaller = compact(envelope, 0)
    assert smaller.canonical.result == ["[9 items dropped by compaction]"]
    assert {part.pointer for part in smaller.dropped} == {"/result", "/result/8"}


def test_what_was_dropped_is_nowhere_and_stays_away() -> None:
    """RFC-108: neither compacting again nor the recap brings it back."""
    names = [f"src/module_{number}.py" for number in range(200)]
    smaller = compact(success({"stdout_preview": "needle " * 2_000, "filenames": names}), 0).canonical
    for text in (str(smaller.to_json()), recap(smaller).text, str(compact(smaller, 10**9).canonical.to_json())):
        assert "needle" not in text
        assert "module_7" not in text


@given(RESULTS, st.integers(0, 2_000), st.integers(0, 2_000))
def test_compacting_twice_is_compacting_once_to_the_smaller_budget(result: Any, first: int, second: int) -> None:
    envelope = success(result)
    twice = compact(compact(envelope, first).canonical, second)
    assert twice.canonical == compact(envelope, min(first, second)).canonical


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.integers(0, 2_000))
def test_an_error_keeps_its_four_fields_whatever_its_details_are(details: dict[str, Any], budget: int) -> None:
    error = ToolError(kind="odd", message="m" * 500, details=details, recovery_hint="h" * 500, retryable=True)
    smaller = compact(failure(error), budget).canonical.error
    assert smaller is not None
    assert (smaller.kind, smaller.message, smaller.recovery_hint, smaller.retryable) == (
        "odd",
        "m" * 500,
        "h" * 500,
        True,
    )


def _scalars(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        children = value.values() if isinstance(value, dict) else value
        return [scalar for child in children for scalar in _scalars(child)]
    return [value]


def entries(*rounds: int, characters: int = 4_000) -> list[HistoryCall]:
    made = []
    for number, in_round in enumerate(rounds):
        output = f"call {number}\n" + "x" * characters
        canonical = success(
            {"exit_status": 0, "stdout_preview": output, "stdout_artifact": 0}, f"artifacts/{number}/o.txt"
        )
        made.append(
            HistoryCall(
                call_id=f"c{number}", round=in_round, canonical=canonical, text=f"Process exited with code 0\n{output}"
            )
        )
    return made


def compacted(
    history: list[HistoryCall] | tuple[HistoryCall, ...], tokens: int, keep_newest: int = 2
) -> CompactedHistory:
    return compact_history(history, tokens, keep_newest, count=len)


def test_a_history_within_its_budget_stays_as_it_was_sent() -> None:
    history = entries(1, 2, 3)
    smaller = compacted(history, sum(len(entry.text) for entry in history))
    assert smaller.entries == tuple(history)
    assert (smaller.compacted, smaller.fits) == ((), True)


def test_the_oldest_calls_are_compacted_first_and_the_newest_two_rounds_never() -> None:
    history = entries(1, 2, 3, 3, 4)
    smaller = compacted(history, 18_000)
    assert [entry.is_compacted for entry in smaller.entries] == [True, False, False, False, False]
    assert smaller.fits
    smaller = compacted(history, 0)
    assert [entry.is_compacted for entry in smaller.entries] == [True, True, False, False, False]
    assert [entry.text for entry in smaller.entries[2:]] == [entry.text for entry in history[2:]]
    assert not smaller.fits


def test_a_compacted_history_says_what_went() -> None:
    history = entries(1, 2, 3)
    smaller = compacted(history, 10_000)
    assert smaller.tokens == sum(len(entry.text) for entry in smaller.entries) <= 10_000
    (loss,) = smaller.compacted
    assert (loss.call_id, loss.tokens_before, loss.tokens_after) == (
        "c0",
        len(history[0].text),
        len(smaller.entries[0].text),
    )
    assert loss.dropped == (Dropped("/result/stdout_preview", "preview", 4_007),)
    assert smaller.entries[0].text.splitlines()[-1] == "Artifact: artifacts/0/o.txt"


@pytest.mark.parametrize("tokens", [0, 500, 5_000, 9_000, 10**6])
def test_compacting_a_history_again_changes_nothing_and_expands_nothing(tokens: int) -> None:
    once = compacted(entries(1, 2, 3, 4), tokens)
    assert compacted(once.entries, tokens).entries == once.entries
    assert compacted(once.entries, 10**9).entries == once.entries


def test_a_receipt_shorter_than_its_recap_is_left_alone() -> None:
    short = HistoryCall(call_id="c1", round=1, canonical=success({"exit_status": 0}), text="ok")
    assert compacted([short], 0, keep_newest=0).entries == (short,)


def test_a_budget_in_tokens_counts_tokens() -> None:
    history = entries(1, 2, 3, characters=400)
    sent = sum(count_tokens(entry.text).count for entry in history)
    smaller = compact_history(history, sent - 10)
    assert smaller.fits
    assert smaller.tokens == sum(count_tokens(entry.text).count for entry in smaller.entries) < sent
    assert [loss.call_id for loss in smaller.compacted] == ["c0"]
