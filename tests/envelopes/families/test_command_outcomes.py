"""Tests that a command's receipt has the signals of its envelope: codes, interruptions, cuts and states (RFC-101)."""

from __future__ import annotations

from typing import Any

import pytest

from envelopes.families.command.results import COMMAND_TASK, BatchItem, BatchResult, CommandResult, RunningCommand
from envelopes.schema.result import TaskHandle
from tests.envelopes.built_in import output, receipt_text, result_of


def ran(**fields: Any) -> CommandResult:
    return CommandResult(**{"exit_status": 0, **fields})


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            RunningCommand(task=TaskHandle(task_id="t1", kind=COMMAND_TASK, status="cancelling"), cmd="make"),
            "Command is already running; no second one was started\nTask: t1\nStatus: cancelling\nCommand: make",
        ),
        (
            CommandResult(interrupted=True, exit_status=137),
            "Command was interrupted before it finished, exit code 137\n\nOutput: (none)",
        ),
    ],
)
def test_the_first_lines_of_a_command_have_its_state_and_its_exit_code(result: Any, text: str) -> None:
    assert receipt_text(output("ExecCommand", result)).startswith(text)


def test_output_that_its_source_cut_is_flagged_in_the_receipt() -> None:
    cut = ran(stdout="first lines\n", cut_by_source=True)
    note = "[output truncated by its source]"
    assert receipt_text(output("ExecCommand", cut)) == f"Process exited with code 0\n\nstdout:\nfirst lines\n{note}"
    item = BatchItem(cmd="make", status="completed", result=cut)
    assert receipt_text(output("ExecCommandBatch", BatchResult(items=(item,)))).endswith(
        f"stdout:\nfirst lines\n{note}"
    )
    task = TaskHandle(task_id="t1", kind=COMMAND_TASK)
    promoted = CommandResult(disposition="promoted_to_task", task=task, stdout="first", cut_by_source=True)
    assert receipt_text(output("ExecCommand", promoted)).endswith(f"first\n{note}")
    assert note not in receipt_text(output("ExecCommand", ran(stdout="line\n" * 20_000)))


def test_a_stored_output_that_its_source_had_cut_is_not_called_whole() -> None:
    cut = ran(stdout="line\n" * 20_000, cut_by_source=True)
    text = receipt_text(output("ExecCommand", cut))
    assert "\n[output truncated by its source]\n" in text
    assert text.endswith("/stdout.txt (stdout, as its source cut it)")
    items = (BatchItem(cmd="make", status="completed", result=cut),) * 2
    text = receipt_text(output("ExecCommandBatch", BatchResult(items=items)))
    assert text.endswith("/command-2-stdout.txt (stdout of [2], as its source cut it)")
    assert result_of(output("ExecCommand", cut))["cut_by_source"] is True
    assert "cut_by_source" not in result_of(output("ExecCommand", ran(stdout="line\n" * 20_000)))


def test_an_interrupted_command_of_a_batch_is_flagged_in_the_receipt() -> None:
    item = BatchItem(cmd="make", status="failed", result=ran(exit_status=137, interrupted=True), duration_ms=5)
    assert receipt_text(output("ExecCommandBatch", BatchResult(items=(item,)))).endswith(
        "exit=137  interrupted  duration=5 ms"
    )
