"""ExecCommand and ExecCommandBatch: two disjoint inputs (TOOLS-050).

Only a single command may become a task, so only it has tty, accepts_input and duplicate_policy; only
a batch has items and stop_on_error. Neither schema accepts the other's fields.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from envelopes.families.command.results import (
    DEFAULT_OUTPUT_TOKENS,
    MOST_ITEMS,
    MOST_OUTPUT_TOKENS,
    BatchResult,
    CommandResult,
    RunningCommand,
)
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

YIELD_MS = 10_000
# TOOLS-041, and the other members of a result that a model may be tempted to send back.
RESULT_ONLY = (
    *("status", "task_handle", "disposition", "exit_status", "output_preview"),
    *("initial_output_preview", "stdout_preview", "stderr_preview", "truncated", "artifacts"),
)
Milliseconds = Annotated[int, msgspec.Meta(ge=0, description="How long to wait for the end of the command.")]
Tokens = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        description=(
            f"Tokens of output to show; 0 means the default, {DEFAULT_OUTPUT_TOKENS}; {MOST_OUTPUT_TOKENS} is the most."
        ),
    ),
]

BatchTokens = Annotated[
    int,
    msgspec.Meta(
        ge=0,
        description=(
            f"Tokens of output to show of this command, at most {MOST_OUTPUT_TOKENS}; without it, and for 0, it shares "
            f"{DEFAULT_OUTPUT_TOKENS} tokens with the other commands of the batch."
        ),
    ),
]


class ExecCommandInput(ToolInput, frozen=True, kw_only=True):
    """`accepts_input` None follows `tty`. `cmd` is never trimmed: a heredoc's end may depend on it."""

    clamped: ClassVar[dict[str, tuple[int, int]]] = {"max_output_tokens": (0, MOST_OUTPUT_TOKENS)}

    cmd: NonEmpty
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = True
    tty: bool | None = False
    duplicate_policy: Literal["reuse_running", "start_new"] = "reuse_running"
    accepts_input: bool | None = None
    yield_time_ms: Milliseconds | None = YIELD_MS
    max_output_tokens: Tokens | None = DEFAULT_OUTPUT_TOKENS

    @property
    def takes_input(self) -> bool:
        return bool(self.tty if self.accepts_input is None else self.accepts_input)


class BatchCommandInput(ToolInput, frozen=True, kw_only=True):
    """`max_output_tokens` 0: the command shares the batch's."""

    cmd: NonEmpty
    workdir: str | None = None
    shell: str | None = None
    login: bool | None = True
    yield_time_ms: Milliseconds | None = YIELD_MS
    max_output_tokens: BatchTokens | None = 0


class ExecCommandBatchInput(ToolInput, frozen=True, kw_only=True):
    items: Annotated[tuple[BatchCommandInput, ...], msgspec.Meta(title="commands", min_length=1, max_length=MOST_ITEMS)]
    stop_on_error: bool | None = False


SINGLE_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"cmd": "cargo test", "workdir": "crates/core", "yield_time_ms": 30_000},
    {"cmd": "python manage.py runserver", "duplicate_policy": "start_new", "tty": True},
)
SINGLE_COUNTER_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"cmd": "cargo test", "status": "running"},
    {"command": "cargo test"},
    {"cmd": "cargo test", "stop_on_error": True},
)
BATCH_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"items": [{"cmd": "cargo fmt --check"}, {"cmd": "cargo test", "yield_time_ms": 60_000}], "stop_on_error": True},
)
BATCH_COUNTER_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"items": []},
    {"items": [{"cmd": "top", "tty": True}]},
    {"items": [{"cmd": "make"}], "exit_status": 0},
)


def _lines(title: str, examples: tuple[dict[str, Any], ...]) -> str:
    return "".join(f"\n{title}: {msgspec.json.encode(example).decode()}" for example in examples)


EXEC_COMMAND = ToolDefinition(
    name="ExecCommand",
    capability="local_environment",
    planes=("task_control",),
    risk="commands",
    path_args=("/workdir",),
    effects=("run-command",),
    is_mutation=True,
    description=(
        "Start one shell command, in workdir when it is given, by the shell that is named and as a login shell unless "
        "login is false. Its end is awaited for yield_time_ms; what still runs then becomes a background "
        "task, whose id the result names: follow it with TaskStatus, TaskOutput, TaskInput and TaskStop. A non-zero "
        "exit code is a result, not a tool error. If the same command runs already, duplicate_policy reuse_running "
        "names the running task instead of starting a second one; start_new always starts. accepts_input follows tty "
        "unless it is given. stdout and stderr are shown head and tail within max_output_tokens, together; the whole "
        "text of what was cut is kept as an artifact. Fields of a result, such as status, task_handle, disposition, "
        "exit_status and output_preview, are never startup input."
        f"{_lines('Valid', SINGLE_EXAMPLES)}{_lines('Invalid', SINGLE_COUNTER_EXAMPLES)}"
    ),
    input=ExecCommandInput,
    result=(CommandResult, RunningCommand),
    error_kinds=(
        "execution_root_violation",
        "command_spawn_failed",
        "unsupported_runtime_capability",
        "invalid_tool_input",
    ),
    result_only=RESULT_ONLY,
    misnamed={"command": "cmd"},
    result_hint="provide cmd and startup options only; to look at a command that runs, use TaskStatus or TaskOutput",
    examples=SINGLE_EXAMPLES,
    counter_examples=SINGLE_COUNTER_EXAMPLES,
)
EXEC_COMMAND_BATCH = ToolDefinition(
    name="ExecCommandBatch",
    capability="local_environment",
    planes=("task_control",),
    risk="commands",
    path_args=("/items/*/workdir",),
    effects=("run-command",),
    is_mutation=True,
    description=(
        f"Run 1 to {MOST_ITEMS} shell commands one after the other. No command of a batch becomes a task: one that "
        "passes its yield_time_ms is killed and counts as failed, so start what runs long with ExecCommand. workdir, "
        "shell and login mean what they mean there; tty, accepts_input and duplicate_policy do not exist here. The "
        f"commands share {DEFAULT_OUTPUT_TOKENS} tokens of output; one that names max_output_tokens has these for "
        "itself. With stop_on_error the commands after the first one that does not complete are skipped. Failed "
        "commands make a batch no tool error; each item of the result tells its own end."
        f"{_lines('Valid', BATCH_EXAMPLES)}{_lines('Invalid', BATCH_COUNTER_EXAMPLES)}"
    ),
    input=ExecCommandBatchInput,
    result=(BatchResult,),
    error_kinds=("invalid_tool_input",),
    result_only=RESULT_ONLY,
    misnamed={"commands": "items"},
    hint=f"provide items, 1 to {MOST_ITEMS} objects with cmd; interactive commands go through ExecCommand",
    examples=BATCH_EXAMPLES,
    counter_examples=BATCH_COUNTER_EXAMPLES,
)
TOOLS = (EXEC_COMMAND, EXEC_COMMAND_BATCH)
