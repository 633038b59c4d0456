"""Tests the budgets of commands, and what holds for any output of theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.command.results import (
    COMMAND_TASK,
    SKIPPED,
    BatchItem,
    BatchResult,
    CommandResult,
    RunningCommand,
)
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import TaskHandle
from tests.envelopes.built_in import hold_to_its_limits, output, result_of

VARIANTS = ("receipt", "tail_first", "json_aware")
LOG = "".join(f"line {number}\n" for number in range(1, 4_001))


def ran(**fields: Any) -> CommandResult:
    return CommandResult(**{"exit_status": 0, **fields})


@pytest.mark.parametrize(
    ("requested", "effective", "budget"), [(50, 50, 200), (0, 8_000, 8_000), (90_000, 64_000, 8_000)]
)
def test_a_command_shows_no_more_than_its_caller_and_the_family_allow(
    requested: int, effective: int, budget: int
) -> None:
    result = result_of(output("ExecCommand", ran(stdout=LOG, cmd="make", max_output_tokens=requested)))
    diagnostics = result["command_diagnostics"]
    assert (diagnostics["effective_max_output_tokens"], diagnostics["output_char_budget"]) == (effective, budget)
    own = [line for line in result["stdout_preview"].splitlines() if line.startswith("line ")]
    assert budget - 40 < len("\n".join(own)) <= budget


def test_the_commands_of_a_batch_share_one_budget() -> None:
    items = [BatchItem(cmd="make", status="completed", result=ran(stdout=LOG, stderr=LOG)) for _ in range(12)]
    result = result_of(output("ExecCommandBatch", BatchResult(items=tuple(items))))
    own = [
        line
        for item in result["items"]
        for stream in ("stdout_preview", "stderr_preview")
        for line in item["result"][stream].splitlines(keepends=True)
        if line.startswith("line ")
    ]
    assert 7_000 < sum(map(len, own)) <= 8_000


TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.builds(
    lambda part, times: part * times,
    st.sampled_from(["line of text\n", '{"a":[1,2]}', "x", "\n", "...\n[output truncated: "]),
    st.integers(0, 2_000),
)
HANDLE = st.builds(TaskHandle, task_id=st.text(max_size=9), kind=st.just(COMMAND_TASK), status=st.none() | st.just("x"))
COMMANDS = st.builds(
    CommandResult,
    disposition=st.sampled_from(["completed", "promoted_to_task", "already_running"]),
    exit_status=st.none() | st.integers(-255, 255),
    stdout=TEXT,
    stderr=TEXT,
    combined=TEXT,
    interrupted=st.booleans(),
    interpretation=st.none() | TEXT,
    task=st.none() | HANDLE,
    cmd=st.none() | TEXT,
    max_output_tokens=st.none() | st.integers(-5, 100_000),
)
ITEMS = st.builds(
    BatchItem,
    cmd=TEXT,
    status=st.sampled_from(["completed", "failed", "rejected", "skipped"]),
    result=st.none() | COMMANDS,
    error_kind=st.none() | st.sampled_from(["command_timed_out", SKIPPED]),
    error_message=st.none() | TEXT,
    duration_ms=st.none() | st.integers(0, 10**9),
)
RESULTS = (
    COMMANDS.map(lambda result: output("ExecCommand", result))
    | st.builds(RunningCommand, task=HANDLE, cmd=st.none() | TEXT, workdir=st.none() | TEXT, instructions=TEXT).map(
        lambda result: output("ExecCommand", result)
    )
    | st.builds(BatchResult, items=st.lists(ITEMS, max_size=14).map(tuple), stop_on_error=st.booleans()).map(
        lambda result: output("ExecCommandBatch", result)
    )
)


@pytest.mark.parametrize("variant", VARIANTS)
@given(complete=RESULTS)
def test_any_output_has_a_receipt_within_every_limit(variant: str, complete: Any) -> None:
    hold_to_its_limits(complete, variant)


@given(result=COMMANDS, preview=st.integers(0, 9_000))
def test_previews_stay_within_the_budget_whatever_it_is(result: CommandResult, preview: int) -> None:
    members = result_of(output("ExecCommand", result), ProjectionPolicy(preview=preview))
    texts = [text for name, text in members.items() if name.endswith("_preview") and text]
    markers = 110 * sum(name.endswith("_artifact") for name in members)
    assert sum(map(len, texts)) <= preview + markers
