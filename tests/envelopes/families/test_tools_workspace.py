"""Tests UseWorkspace: its input, its canonical result and its receipt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.registry import builtin, samples
from envelopes.families.workspace.results import WorkspaceResult
from envelopes.families.workspace.tools import UseWorkspaceInput
from tests.envelopes.built_in import (
    described_names,
    hold_to_its_limits,
    output,
    projected,
    receipt_text,
    refusal,
    result_of,
)

LEDGER = WorkspaceResult(
    workspace_id="ws_ledger",
    workspace_anchor="/srv/ledger",
    execution_root="/srv/worktrees/fix",
    cwd="/srv/worktrees/fix/api",
    mode="isolated",
    projection_kind="git_worktree_root",
)


@pytest.mark.parametrize("sort", list(samples("UseWorkspace")))
def test_a_receipt_reads_as_its_golden(sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"UseWorkspace/{sort}", receipt_text(samples("UseWorkspace")[sort]))


def test_the_receipt_confirms_with_the_names_that_the_next_call_needs() -> None:
    assert receipt_text(output("UseWorkspace", LEDGER)) == (
        "Using workspace ws_ledger (isolated: yours alone, for writing)\n"
        "Cwd: /srv/worktrees/fix/api\n"
        "Root: /srv/worktrees/fix\n"
        "Worktree of: /srv/ledger\n"
        "It has the files of the last commit; what was not committed is not in it."
    )


def test_an_unknown_workspace_is_reported_with_its_field() -> None:
    assert receipt_text(samples("UseWorkspace")["error"]) == (
        "UseWorkspace not run: no workspace is known as ws_ledgr\n"
        "Kind: invalid_tool_input\n"
        "Field: workspace_id\n"
        "Hint: give the id of a known workspace, or the path of a folder\n"
        "Same call again: will fail"
    )


def test_the_result_is_the_active_workspace_and_nothing_else() -> None:
    assert result_of(output("UseWorkspace", LEDGER)) == {
        "workspace_id": "ws_ledger",
        "workspace_anchor": "/srv/ledger",
        "execution_root": "/srv/worktrees/fix",
        "cwd": "/srv/worktrees/fix/api",
        "mode": "isolated",
        "projection_kind": "git_worktree_root",
    }


def test_a_deep_folder_is_named_whole() -> None:
    projection = projected(samples("UseWorkspace")["large"])
    assert not projection.cuts
    assert "nested-folder/leaf\n" in receipt_text(samples("UseWorkspace")["large"])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "workspace_id"),
        ({"path": None, "workspace_id": None}, "workspace_id"),
        ({"path": "/srv", "workspace_id": "ws"}, "workspace_id"),
        ({"path": " "}, "path"),
        ({"workspace_id": "agent_home", "mode": "isolated"}, "mode"),
        ({"workspace_id": "ws", "mode": "shared"}, "mode"),
        ({"workspace_id": "ws", "execution_root": "/srv"}, "execution_root"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_its_field(arguments: Any, field: str) -> None:
    error = refusal("UseWorkspace", arguments)
    assert (error.kind, error.retryable) == ("invalid_tool_input", False)
    assert (error.details or {})["field"] == field


def test_a_workspace_is_used_direct_by_default_and_names_are_trimmed() -> None:
    parsed = builtin("UseWorkspace")[1].parse({"path": " /srv/ledger\n", "mode": None})
    assert parsed == UseWorkspaceInput(path="/srv/ledger", mode="direct")
    assert builtin("UseWorkspace")[1].parse({"workspace_id": "agent_home"})


def test_the_examples_and_the_description_hold_for_the_schema() -> None:
    definition = builtin("UseWorkspace")[1]
    for example in definition.examples:
        assert definition.parse(example)
    for example in definition.counter_examples:
        assert refusal("UseWorkspace", example)
    assert described_names("UseWorkspace") == set()


def test_the_schema_publishes_that_exactly_one_of_both_is_given() -> None:
    one_of = builtin("UseWorkspace")[1].input_schema()["oneOf"]
    assert [alternative["required"] for alternative in one_of] == [["path"], ["workspace_id"]]
    assert one_of[0]["properties"]["workspace_id"] == {"type": "null"}


TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.integers(0, 6_000).map(lambda size: "p" * size)


@given(
    result=st.builds(
        WorkspaceResult,
        workspace_id=TEXT,
        workspace_anchor=TEXT,
        execution_root=TEXT,
        cwd=TEXT,
        mode=st.sampled_from(["direct", "isolated"]),
        projection_kind=TEXT,
    )
)
def test_any_output_has_a_receipt_within_every_limit(result: WorkspaceResult) -> None:
    hold_to_its_limits(output("UseWorkspace", result))
