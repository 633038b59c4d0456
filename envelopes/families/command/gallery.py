"""Outputs of ExecCommand and ExecCommandBatch by tool and sort, as the runtime itself would write them."""

from __future__ import annotations

import json

from envelopes.families.command.batch import SKIPPED, BatchItem, BatchResult, batch_outcome
from envelopes.families.command.results import COMMAND_TASK, CommandResult, RunningCommand, outcome
from envelopes.schema.follow_up_handles import TaskHandle
from envelopes.schema.result import CompleteOutput, ToolError

_TEST_LOG = "".join(f"test parser::case_{number:04} ... ok\n" for number in range(1, 1201))
_REPORT = {"name": "ledger", "checks": [{"id": 7, "state": "open"}, {"id": 9, "state": "closed"}], "next": None}


def _run(result: CommandResult) -> CompleteOutput:
    return CompleteOutput(tool_name="ExecCommand", status="success", summary_text=outcome(result), result=result)


def _batch(result: BatchResult) -> CompleteOutput:
    return CompleteOutput(
        tool_name="ExecCommandBatch", status="success", summary_text=batch_outcome(result), result=result
    )


def _failure(tool: str, error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)


def _exit(code: int, stdout: str = "", stderr: str = "") -> CommandResult:
    return CommandResult(exit_status=code, stdout=stdout, stderr=stderr)


_EXEC = {
    "success": _run(
        CommandResult(
            exit_status=0, stdout="src/runtime/turn.rs\nsrc/runtime/lifecycle.rs\n", cmd="git diff --name-only"
        )
    ),
    "error": _failure(
        "ExecCommand",
        ToolError(
            kind="execution_root_violation",
            message="requested working directory is outside the current execution root",
            details={"workdir": "../other-repo", "root": "/srv/ledger", "cwd": "/srv/ledger/api"},
            recovery_hint="omit workdir or use a relative path inside the active workspace",
            retryable=False,
        ),
    ),
    "large": _run(
        CommandResult(
            exit_status=101,
            stdout=f"running 1201 tests\n{_TEST_LOG}test parser::case_1201 ... FAILED\n",
            stderr="error: test failed, to rerun pass `-p parser`\n",
            cmd="cargo test -p parser",
        )
    ),
    "empty": _run(CommandResult(exit_status=0, cmd="touch build/stamp")),
    "odd": _run(
        CommandResult(
            exit_status=0,
            stdout=json.dumps(_REPORT, separators=(",", ":")) + "\n",
            stderr="warning: \x1b[33mtoken expires soon\x1b[0m\n",
            cmd="curl -s --token hunter2 https://bot:hunter2@ledger.example/checks.json",
        )
    ),
    "promoted": _run(
        CommandResult(
            disposition="promoted_to_task",
            stdout="Starting server on :3000\n",
            task=TaskHandle(kind=COMMAND_TASK, task_id="task_123"),
            cmd="npm run dev",
        )
    ),
    "promoted_silent": _run(
        CommandResult(
            disposition="promoted_to_task", task=TaskHandle(kind=COMMAND_TASK, task_id="task_124"), cmd="sleep 600"
        )
    ),
    "already_running": CompleteOutput(
        tool_name="ExecCommand",
        status="success",
        summary_text="the command is already running as task_123",
        result=RunningCommand(
            task=TaskHandle(kind=COMMAND_TASK, task_id="task_123"),
            cmd="npm run dev",
            workdir="web",
            shell="/bin/bash",
            summary="started 40 s ago, 1 line of output",
            instructions="Read its output with TaskOutput, or pass duplicate_policy start_new for a second one.",
        ),
    ),
}

_CHECKED = BatchItem(cmd="cargo fmt --check", status="completed", result=_exit(0), duration_ms=812)
_BATCH = {
    "success": _batch(
        BatchResult(
            items=(
                _CHECKED,
                BatchItem(
                    cmd="git status --short",
                    status="completed",
                    result=_exit(0, " M src/main.rs\n?? notes.txt\n"),
                    duration_ms=31,
                ),
            )
        )
    ),
    "error": _failure(
        "ExecCommandBatch",
        ToolError(
            kind="invalid_tool_input",
            message="input for ExecCommandBatch does not match the tool schema: "
            "Expected `array` of length <= 12 - at `$.items`",
            details={
                "tool_name": "ExecCommandBatch",
                "field": "items",
                "validation_error": "Expected `array` of length <= 12",
            },
            recovery_hint="provide items, 1 to 12 objects with cmd; interactive commands go through ExecCommand",
            retryable=False,
        ),
    ),
    "large": _batch(
        BatchResult(
            items=tuple(
                BatchItem(
                    cmd=f"cargo test -p crate-{number:02}",
                    status="completed" if number % 5 else "failed",
                    result=_exit(0 if number % 5 else 101, _TEST_LOG, "warning: unused import\n" * 40),
                    duration_ms=1_000 + number,
                )
                for number in range(1, 13)
            )
        )
    ),
    "empty": _batch(BatchResult(items=(BatchItem(cmd="true", status="completed", result=_exit(0)),))),
    "odd": _batch(
        BatchResult(
            stop_on_error=True,
            items=(
                BatchItem(
                    cmd="DEPLOY_TOKEN=hunter2 ./deploy --dry-run",
                    status="completed",
                    result=_exit(0, '{"changes":2,"target":"staging"}\n'),
                    duration_ms=640,
                ),
                BatchItem(
                    cmd="rm -rf ../other-repo",
                    status="rejected",
                    error_kind="execution_root_violation",
                    error_message="the path is outside the current execution root",
                ),
                BatchItem(
                    cmd="python - <<'EOF'\nprint('half')\nEOF",
                    status="failed",
                    result=CommandResult(stdout="half\n"),
                    error_kind="command_timed_out",
                    error_message="killed after 10000 ms",
                    duration_ms=10_004,
                ),
                BatchItem(cmd="cargo doc", status="skipped", error_kind=SKIPPED),
            ),
        )
    ),
}

GALLERY: dict[str, CompleteOutput] = {f"ExecCommand/{sort}": one for sort, one in _EXEC.items()} | {
    f"ExecCommandBatch/{sort}": one for sort, one in _BATCH.items()
}
