"""CommandTools that really run: their ends, their windows, their output, and the tasks that they become."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.families.registry import builtin
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.processes import GRACE_S, MARK, CommandSpec, Process, SpawnFailed, clean_environment
from envelopes.schema.result import CompleteOutput
from envelopes.storage.file_store import FileStore
from tests.envelopes.runtime.calls import CONTEXT

SOON = 60_000  # milliseconds; nothing waits longer than it has to


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "docs").mkdir(parents=True)
    return folder


@pytest.fixture
def commands(root: Path, tmp_path: Path) -> Iterator[CommandTools]:
    commands = CommandTools(
        root, tmp_path / "running", FileStore(tmp_path / "artifacts"), variables={"GREETING": "hello"}
    )
    yield commands
    commands.close()


def call(commands: CommandTools, name: str, **arguments: Any) -> CompleteOutput:
    """Parses the arguments as the tool's definition does, and runs the tool."""
    (tool,) = [tool for tool in commands.tools() if tool.name == name]
    if name == "ExecCommand":
        arguments = {"login": False, "yield_time_ms": SOON} | arguments
    output = tool.run(tool.definition.parse(arguments), CONTEXT)
    assert isinstance(output, CompleteOutput)
    output.check()
    assert isinstance(output.result, tool.definition.result)
    return output


def receipt(commands: CommandTools, output: CompleteOutput, tmp_path: Path) -> str:
    family, _ = builtin(output.tool_name)
    canonical = project(output, family, family.projection, FileStore(tmp_path / "artifacts")).canonical
    return render(canonical, family, family.rendering).text


@pytest.mark.parametrize(
    ("arguments", "status", "stdout", "stderr"),
    [
        ({"cmd": "echo out; echo err >&2; exit 3"}, 3, "out\n", "err\n"),
        ({"cmd": "pwd | sed 's|.*/||'", "workdir": "docs"}, 0, "docs\n", ""),
        ({"cmd": "read line; echo got:$line"}, 0, "got:\n", ""),
        ({"cmd": "test -t 1 && echo tty", "tty": True}, 0, "tty\r\n", ""),
        ({"cmd": "echo $0", "shell": "sh"}, 0, "sh", ""),
        ({"cmd": "kill -9 $$"}, 137, "", ""),
        ({"cmd": "printf '%s' \"$GREETING\""}, 0, "hello", ""),
    ],
)
def test_a_command_gives_its_status_and_both_streams(
    commands: CommandTools, arguments: dict[str, Any], status: int, stdout: str, stderr: str
) -> None:
    result: Any = call(commands, "ExecCommand", **arguments).result
    assert (result.disposition, result.exit_status) == ("completed", status)
    assert result.stdout == stdout or result.stdout.strip().endswith(stdout)
    assert result.stderr == stderr


def test_a_command_sees_none_of_the_runtime_s_secrets(commands: CommandTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-secret")
    assert "PROVIDER_API_KEY" not in clean_environment(os.environ)
    result: Any = call(commands, "ExecCommand", cmd="env").result
    assert {line.partition("=")[0] for line in result.stdout.splitlines()} >= {"PATH", "GREETING"}
    assert "sk-secret" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"cmd": "true", "workdir": ".."}, "execution_root_violation"),
        ({"cmd": "true", "workdir": "/etc"}, "execution_root_violation"),
        ({"cmd": "true", "workdir": "out"}, "execution_root_violation"),
        ({"cmd": "true", "workdir": "none"}, "command_spawn_failed"),
        ({"cmd": "true", "workdir": "loop"}, "command_spawn_failed"),
        ({"cmd": "true", "shell": "no-such-shell"}, "command_spawn_failed"),
        ({"cmd": "echo \0"}, "command_spawn_failed"),
    ],
)
def test_what_cannot_be_started_is_a_failure_of_the_tool(
    commands: CommandTools, root: Path, arguments: dict[str, Any], kind: str
) -> None:
    (root / "out").symlink_to("/tmp")
    (root / "loop").symlink_to("loop")
    with pytest.raises(ToolFailed) as failure:
        call(commands, "ExecCommand", **arguments)
    assert failure.value.kind == kind
    assert failure.value.message


def test_a_command_becomes_a_task_that_is_read_to_its_end(commands: CommandTools, tmp_path: Path) -> None:
    output = call(
        commands, "ExecCommand", cmd="echo first; read line; echo then $line", accepts_input=True, yield_time_ms=300
    )
    result: Any = output.result
    assert (result.disposition, result.stdout, result.task.task_id) == ("promoted_to_task", "first\n", "task_1")
    assert "task_1" in receipt(commands, output, tmp_path)

    again: Any = call(
        commands, "ExecCommand", cmd="echo first; read line; echo then $line", accepts_input=True, yield_time_ms=300
    ).result
    assert again.task.task_id == "task_1"

    listed: Any = call(commands, "TaskList").result
    assert [(task.id, task.status) for task in listed.tasks] == [("task_1", "running")]
    early: Any = call(commands, "TaskOutput", task_id="task_1", block=False).result
    assert (early.retrieval_status, early.output) == ("not_ready", "first\n")
    late: Any = call(commands, "TaskOutput", task_id="task_1", timeout_ms=10).result
    assert late.retrieval_status == "timeout"

    offered: Any = call(commands, "TaskInput", task_id="task_1", input="this\n").result
    assert (offered.accepted_input, offered.bytes_written, offered.input_target) == (True, 5, "stdin")
    ended: Any = call(commands, "TaskOutput", task_id="task_1", timeout_ms=SOON).result
    assert (ended.retrieval_status, ended.status, ended.exit_status) == ("success", "completed", 0)
    assert ended.output == "first\nthen this\n"
    assert ended.log_path
    state: Any = call(commands, "TaskStatus", task_id="task_1").result
    assert (state.task.status, state.task.command.exit_status) == ("completed", 0)
    refused: Any = call(commands, "TaskInput", task_id="task_1", input="more").result
    assert (refused.accepted_input, refused.refusal) == (False, "the task has ended")
    with pytest.raises(ToolFailed, match="is completed and cannot be stopped"):
        call(commands, "TaskStop", task_id="task_1")
    assert not call(commands, "TaskList").result.tasks  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["TaskStatus", "TaskOutput", "TaskInput", "TaskStop"])
def test_an_unknown_task_is_an_error(commands: CommandTools, name: str) -> None:
    more = {"input": "x"} if name == "TaskInput" else {}
    with pytest.raises(ToolFailed, match="no task has the id task_9"):
        call(commands, name, task_id="task_9", **more)


def test_a_second_stop_ends_a_task_that_ignores_the_first(commands: CommandTools) -> None:
    call(commands, "ExecCommand", cmd="trap '' TERM; echo on; sleep 600", yield_time_ms=300)
    first: Any = call(commands, "TaskStop", task_id="task_1").result
    assert (first.task.status, first.force_stop_requested) == ("cancelling", False)
    second: Any = call(commands, "TaskStop", task_id="task_1").result
    assert (second.task.status, second.force_stop_requested) == ("cancelled", True)


def test_a_command_that_takes_no_input_refuses_it(commands: CommandTools) -> None:
    call(commands, "ExecCommand", cmd="sleep 600", yield_time_ms=0)
    refused: Any = call(commands, "TaskInput", task_id="task_1", input="x").result
    assert refused.refusal == "it was started without accepts_input"


def test_a_batch_goes_on_or_stops_and_never_leaves_a_task(commands: CommandTools) -> None:
    items = [
        {"cmd": "echo a", "login": False, "yield_time_ms": SOON},
        {"cmd": "exit 2", "login": False, "yield_time_ms": SOON},
        {"cmd": "true", "workdir": "..", "login": False},
        {"cmd": "sleep 600", "login": False, "yield_time_ms": 50},
    ]
    result: Any = call(commands, "ExecCommandBatch", items=items).result
    assert [item.status for item in result.items] == ["completed", "failed", "rejected", "failed"]
    assert [item.error_kind for item in result.items] == [None, None, "execution_root_violation", "command_timed_out"]
    assert [item.result and item.result.exit_status for item in result.items] == [0, 2, None, 143]
    stopped: Any = call(commands, "ExecCommandBatch", items=items, stop_on_error=True).result
    assert [item.status for item in stopped.items] == ["completed", "failed", "skipped", "skipped"]
    assert not call(commands, "TaskList").result.tasks  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "cmd",
    [
        "trap '' TERM; sleep 600",
        """sh -c "trap '' TERM; sleep 600; sleep 600"; true""",
        "sleep 600 & sleep 600",
        "setsid sleep 600 & disown; sleep 600",
        "exec >&- 2>&-; sleep 600",
        "(trap '' TERM HUP; setsid sh -c 'sleep 600; sleep 600') & wait",
    ],
)
def test_nothing_that_a_command_starts_outlives_it(tmp_path: Path, cmd: str) -> None:
    process = Process(CommandSpec(cmd, tmp_path, login=False), tmp_path, clean_environment(os.environ))
    mark = process._mark
    assert not process.wait(0.3)
    process.stop(force="trap '' TERM; sleep" not in cmd)
    assert process.wait(30)
    found = subprocess.run(
        ["grep", "-lza", f"{MARK}={mark}", *map(str, Path("/proc").glob("[0-9]*/environ"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.stdout


@pytest.mark.parametrize("begin", ["", "exec "])
def test_a_program_that_was_asked_to_end_has_the_time_for_it(tmp_path: Path, begin: str) -> None:
    """Without `exec` the shell waits for the program, and dies of the signal at once."""
    program = "trap 'sleep 0.3; touch cleaned; exit' TERM; echo on; while :; do sleep 0.05; done"
    spec = CommandSpec(f'{begin}bash -c "{program}"; true', tmp_path, login=False)
    process = Process(spec, tmp_path, clean_environment(os.environ))
    while not process.log.size:
        assert not process.wait(0.05)
    process.stop()
    assert process.wait(30)
    assert (tmp_path / "cleaned").exists()
    assert process.seconds < GRACE_S, "nothing of the group lived any more, so the rest of the time is not waited for"


def test_a_full_output_ends_the_command_and_keeps_what_fits(tmp_path: Path) -> None:
    spec = CommandSpec("yes", tmp_path, login=False)
    process = Process(spec, tmp_path, clean_environment(os.environ), most_bytes=100_000)
    assert process.wait(30)
    assert (process.end_reason, process.log.size) == ("output_limit", 100_000)


def test_a_shell_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpawnFailed, match="there is no shell nosh"):
        Process(CommandSpec("true", tmp_path, shell="nosh"), tmp_path, {})


def test_output_that_is_no_text_is_kept_byte_for_byte(commands: CommandTools, tmp_path: Path) -> None:
    result: Any = call(commands, "ExecCommand", cmd="printf '\\377\\000\\376'").result
    assert result.stdout.is_text is False
    with FileStore(tmp_path / "artifacts").open(result.stdout.path) as stored:
        assert stored.read() == b"\xff\x00\xfe"


@pytest.mark.long
def test_a_command_that_prints_two_gigabytes_goes_through(commands: CommandTools, tmp_path: Path) -> None:
    """The process stays under 100 MB beyond what it had, the artifact is whole, the receipt bounded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    output = call(commands, "ExecCommand", cmd="yes counterfoil | head -c 2000000000", yield_time_ms=600_000)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    result: Any = output.result
    print(f"\n{time.monotonic() - start:.0f} s, {grown:.0f} MB more")
    assert result.stdout.size == 2_000_000_000
    assert grown < 100
    assert len(receipt(commands, output, tmp_path)) < 64_000


def test_the_receipt_of_a_promoted_command_has_its_seconds_and_the_next_calls(
    commands: CommandTools, tmp_path: Path
) -> None:
    promoted = call(commands, "ExecCommand", cmd="read line", accepts_input=True, yield_time_ms=150)
    assert receipt(commands, promoted, tmp_path) == (
        "Still running after 0.15 s, now task task_1\n"
        "Wait: TaskOutput task_1; end: TaskStop task_1\n\n"
        "Initial output:\n(none captured)"
    )
