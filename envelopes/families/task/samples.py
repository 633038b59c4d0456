"""Complete outputs that show the family: the five tools by sort, and what Claude Code records."""

from __future__ import annotations

import msgspec

from envelopes.families.task.results import (
    ActiveTasks,
    ChildObservability,
    FailureArtifact,
    InputOffered,
    StopRequested,
    TaskCommand,
    TaskDigest,
    TaskRead,
    TaskSnapshot,
    TaskState,
    TaskStopped,
    active_outcome,
    input_outcome,
    read_outcome,
    state_outcome,
    stop_outcome,
    task_not_running,
    unknown_task,
)
from envelopes.schema.follow_up_handles import ChildSupervision
from envelopes.schema.result import CompleteOutput, ToolError

TESTS = TaskSnapshot(
    task_id="task_7",
    kind="command_task",
    status="running",
    summary="Run the test suite",
    created_at="2026-05-27T09:14:02Z",
    updated_at="2026-05-27T09:14:32Z",
    command=TaskCommand(
        cmd="pytest -q",
        cmd_digest="sha256:0b9c2625dc21ef05f6ad4ddf47c5f203837aa32cfe8d0a4c3e1e4f3ca1b0c2aa",
        workdir="/workspace/ledger",
        shell="bash",
        tty=False,
        accepts_input=False,
    ),
)
PROMPT = msgspec.structs.replace(
    TESTS,
    task_id="task_8",
    summary="Publish the package",
    command=TaskCommand(cmd="npm publish", tty=True, accepts_input=True, input_target="tty"),
)
SUPERVISION = ChildSupervision(
    parent_agent_id="agent_main",
    child_agent_id="agent_child_2",
    supervision_task_id="task_9",
    workspace_mode="inherit",
    cleanup_owner="parent",
    followup_target="agent_child_2",
)
CHILD = TaskSnapshot(
    task_id="task_9",
    kind="child_agent_task",
    status="running",
    summary="Find every use of the old registry",
    created_at="2026-05-27T09:20:00Z",
    updated_at="2026-05-27T09:24:10Z",
    child_agent_id="agent_child_2",
    child_observability=ChildObservability(phase="working", last_progress="Looked through 40 of 112 files."),
    child_supervision=SUPERVISION,
)
BUILD_LOG = "".join(f"[{number:4}/1800] compiled module_{number}.o\n" for number in range(1, 1_801))
PROVIDER_FAILURE = FailureArtifact(
    category="provider",
    kind="rate_limited",
    summary="The model provider refused 3 requests in a row",
    provider="anthropic",
    model_ref="anthropic/claude-sonnet-4",
    status=429,
    task_id="task_9",
    source_chain=("turn 4 could not be completed", "HTTP 429: too many requests"),
    metadata={"attempts": 3},
)


def _success(tool: str, result: msgspec.Struct, said: str) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=said, result=result)


def _error(tool: str, error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=error.message, error=error)


def _read(found: TaskRead) -> CompleteOutput:
    return _success("TaskOutput", found, read_outcome(found))


def _state(task: TaskSnapshot) -> CompleteOutput:
    return _success("TaskStatus", TaskState(task), state_outcome(TaskState(task)))


def _listed(tasks: tuple[TaskDigest, ...]) -> CompleteOutput:
    return _success("TaskList", ActiveTasks(tasks), active_outcome(ActiveTasks(tasks)))


def _offered(found: InputOffered) -> CompleteOutput:
    return _success("TaskInput", found, input_outcome(found))


def _stopped(found: StopRequested) -> CompleteOutput:
    return _success("TaskStop", found, stop_outcome(found))


def _ended(task: TaskSnapshot, exit_status: int) -> TaskSnapshot:
    command = msgspec.structs.replace(task.command or TaskCommand(), exit_status=exit_status, accepts_input=False)
    return msgspec.structs.replace(task, status="completed" if exit_status == 0 else "failed", command=command)


def _digest(number: int, summary: str | None) -> TaskDigest:
    return TaskDigest(
        id=f"task_{number}",
        kind="command_task",
        status="running",
        summary=summary,
        updated_at="2026-05-27T09:14:32Z",
    )


_LISTS = {
    "TaskList/success": _listed(
        (_digest(7, "Run the test suite"), msgspec.structs.replace(_digest(8, "Publish"), status="cancelling"))
    ),
    "TaskList/error": _error(
        "TaskList",
        ToolError(
            kind="tool_execution_failed",
            message="the task index could not be read",
            recovery_hint="try again; if it fails once more, read a task by its id with TaskStatus",
            retryable=True,
        ),
    ),
    "TaskList/large": _listed(tuple(_digest(number, f"Shard {number} of 73") for number in range(1, 74))),
    "TaskList/empty": _listed(()),
    "TaskList/odd": _listed((_digest(7, None), _digest(8, "Line one\n\tline two " + "and so on " * 40))),
}
_STATES = {
    "TaskStatus/success": _state(TESTS),
    "TaskStatus/error": _error("TaskStatus", unknown_task("task_404")),
    "TaskStatus/large": _state(
        msgspec.structs.replace(
            CHILD,
            status="completed",
            child_observability=ChildObservability(
                phase="terminal",
                last_result="".join(f"registry.py:{number}: still uses the old name\n" for number in range(1, 200)),
            ),
        )
    ),
    "TaskStatus/empty": _state(msgspec.structs.replace(TESTS, summary=None, command=None)),
    "TaskStatus/odd": _state(CHILD),
}
_OUTPUTS = {
    "TaskOutput/success": _read(
        TaskRead(
            retrieval_status="success",
            task_id="task_7",
            kind="command_task",
            status="completed",
            summary="Run the test suite",
            exit_status=0,
            output="128 passed in 4.21s\n",
            log_path="tasks/task_7/output.log",
            result_summary="128 passed in 4.21s",
        )
    ),
    "TaskOutput/error": _error("TaskOutput", unknown_task("task_404")),
    "TaskOutput/large": _read(
        TaskRead(
            retrieval_status="timeout",
            task_id="task_12",
            kind="command_task",
            status="running",
            summary="Build everything",
            output=BUILD_LOG,
            log_path="tasks/task_12/output.log",
        )
    ),
    "TaskOutput/empty": _read(
        TaskRead(retrieval_status="not_ready", task_id="task_8", kind="command_task", status="running")
    ),
    "TaskOutput/odd": _read(
        TaskRead(
            retrieval_status="success",
            task_id="task_9",
            kind="child_agent_task",
            status="failed",
            result_summary="Stopped after 40 of 112 files; nothing was changed.",
            failure_artifact=PROVIDER_FAILURE,
            child_supervision=SUPERVISION,
        )
    ),
}
_INPUTS = {
    "TaskInput/success": _offered(
        InputOffered(task=PROMPT, accepted_input=True, input_target="tty", bytes_written=4),
    ),
    "TaskInput/error": _error("TaskInput", unknown_task("task_404")),
    "TaskInput/large": _offered(
        InputOffered(task=PROMPT, accepted_input=False, refusal="the terminal answered: " + "no room\n" * 400)
    ),
    "TaskInput/empty": _offered(InputOffered(task=PROMPT, accepted_input=True, input_target="tty", bytes_written=0)),
    "TaskInput/odd": _offered(
        InputOffered(task=_ended(TESTS, 0), accepted_input=False, refusal="task task_7 is completed")
    ),
}
_STOPS = {
    "TaskStop/success": _stopped(StopRequested(task=msgspec.structs.replace(TESTS, status="cancelling"))),
    "TaskStop/error": _error("TaskStop", task_not_running(_ended(TESTS, 1))),
    "TaskStop/large": _stopped(
        StopRequested(task=msgspec.structs.replace(TESTS, status="cancelling", summary="Shard.\n" * 400))
    ),
    "TaskStop/empty": _stopped(StopRequested(task=msgspec.structs.replace(CHILD, status="cancelled", summary=None))),
    "TaskStop/odd": _stopped(
        StopRequested(task=msgspec.structs.replace(TESTS, status="cancelling"), force_stop_requested=True)
    ),
}
GALLERY = {**_LISTS, **_STATES, **_OUTPUTS, **_INPUTS, **_STOPS}

_CLAUDE_CODE = (
    _read(
        TaskRead(
            retrieval_status="success",
            task_id="b7636e2",
            kind="local_bash",
            status="completed",
            summary="Run the tests",
            exit_status=0,
            output="15 tests, 0 failures\n",
        )
    ),
    _read(
        TaskRead(
            retrieval_status="timeout",
            task_id="b41",
            kind="local_bash",
            status="running",
            output="".join(f"step {number} of 2000 done\n" for number in range(2_000)),
        )
    ),
    _success(
        "KillShell",
        TaskStopped(task_id="b43", message="Successfully killed shell: b43 (npm run dev)"),
        "Stop requested for task b43",
    ),
    _error(
        "TaskOutput",
        ToolError(kind="tool_execution_failed", message="No task found with ID: b44", retryable=False),
    ),
)
SAMPLES = (*_CLAUDE_CODE, *GALLERY.values())
