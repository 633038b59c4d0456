"""Outputs that show the family: galleries draw them, contract tests run over them."""

from __future__ import annotations

from envelopes.families.command.results import COMMAND_TASK, CommandResult
from envelopes.schema.follow_up_handles import TaskHandle
from envelopes.schema.result import CompleteOutput, ToolError


def _sample(summary: str, result: CommandResult) -> CompleteOutput:
    return CompleteOutput(tool_name="ExecCommand", status="success", summary_text=summary, result=result)


SAMPLES: tuple[CompleteOutput, ...] = (
    _sample("command exited with status 0", CommandResult(exit_status=0, stdout="README.md\nenvelopes\ntests\n")),
    _sample(
        "command exited with status 2",
        CommandResult(exit_status=2, stdout="checked 3 files\n", stderr="ls: cannot access 'build': No such file\n"),
    ),
    _sample(
        "command exited with status 1",
        CommandResult(
            exit_status=1, combined="--- FAIL: TestResume (0.02s)\n    resume_test.go:41: no session\nFAIL\n"
        ),
    ),
    _sample("command exited with status 0", CommandResult(exit_status=0)),
    _sample(
        "command finished; no exit code was recorded",
        CommandResult(stdout="".join(f"line {number}: ok\n" for number in range(1, 2001)), stderr="warning: slow\n"),
    ),
    _sample("command finished: No matches found", CommandResult(interpretation="No matches found")),
    _sample(
        "command promoted to managed task",
        CommandResult(
            disposition="promoted_to_task",
            task=TaskHandle(kind=COMMAND_TASK, task_id="b7636e2"),
            stdout="Listening on 127.0.0.1:8000\n",
        ),
    ),
    CompleteOutput(
        tool_name="ExecCommand",
        status="error",
        summary_text="requested working directory is outside the current execution root",
        error=ToolError(
            kind="execution_root_violation",
            message="requested working directory is outside the current execution root",
            details={"workdir": "../other-repo"},
            recovery_hint="omit workdir or use a relative path inside the active workspace",
            retryable=False,
        ),
    ),
)
