"""The files of a run: what is durable before which call, and what is left of a run that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.plan.executor import EXECUTOR_VERSION, Executor
from envelopes.plan.recorders import (
    SYNC_RECORDS,
    FileRecorder,
    MemoryRecorder,
    RecordedRun,
    RunArtifacts,
    load_run,
)
from envelopes.plan.schema import read_plan
from envelopes.plan.verify import rebuild_run
from envelopes.plan.workers import CallContext
from envelopes.recordings.audit import read
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.storage.file_store import FileStore, MissingArtifact
from envelopes.text.untrusted_json import Untrusted
from tests.conftest import CHECKOUT
from tests.envelopes.plan.simulation import (
    Echoed,
    Simulation,
    Value,
    approve,
    echo,
    make_plan,
    make_policy,
    make_tool,
    run_plan,
    step,
)

PLAN = make_plan(
    step("a", args={"number": 4}),
    step("b", "Write", {"value": "$steps.a.number"}),
    step("c", "Fail", onError="skip"),
    step("d", dependsOn=["c"]),
)
WRITE = make_tool("Write", risk="writes")
TOOLS = (make_tool("Echo"), WRITE, make_tool("Fail", lambda *_: {"error": "no luck", "retryable": False}))


def write_run(folder: Path, **settings: Any) -> Executor:
    executor = Executor(
        TOOLS, make_policy(confirm=True), confirm=approve, environment=Simulation().environment(), **settings
    )
    executor.run(PLAN, FileRecorder(folder), run_id="r1")
    return executor


def read_files(folder: Path) -> list[Any]:
    """What the reader of the audit layout makes of the four files."""
    records: list[Any] = []
    for name in ("run.json", "calls.jsonl", "results.jsonl", "events.jsonl"):
        lines = [
            SourceLine(number, number, line)
            for number, line in enumerate((folder / name).read_bytes().splitlines(keepends=True), start=1)
        ]
        records += read(lines, SourcePath(f"run/{name}"), {})
    return records


def rebuild(run: RecordedRun) -> Any:
    return rebuild_run(read_plan(run.header["plan"]), run.calls, run.results, run.events, run.header.get("variables"))


def test_the_files_hold_what_the_run_was(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert (run.is_interrupted, run.torn) == (False, 0)
    rebuilt = rebuild(run)
    assert rebuilt.problems == ()
    assert [state.end for state in rebuilt.steps] == ["ok", "ok", "error", "skipped"]
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))


def test_run_json_has_plan_policy_and_confirmation(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert document["plan"]["goal"] == "Do it"
    assert document["policy"]["confirmationsRequired"] is True
    confirmation = document["confirmation"]
    assert (confirmation["decision"], confirmation["actor"]) == ("approved", "olga")
    assert (confirmation["planHash"], confirmation["policyHash"]) == (document["planHash"], document["policyHash"])
    assert document["end"] == "finished"
    assert document["startedAt"] <= document["endedAt"]


def test_the_reader_of_recordings_reads_every_file(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    records = read_files(tmp_path / "run")
    assert not [record for record in records if isinstance(record, LineProblem)]
    assert len([record for record in records if isinstance(record, CallRecord)]) == 3
    assert [record.status for record in records if isinstance(record, ResultRecord)] == ["ok", "ok", "error"]
    runs = [record for record in records if isinstance(record, RunRecord)]
    assert {record.run for record in runs} == {"r1"}
    assert (runs[0].title, bool(runs[0].ended_at)) == ("Do it", True)
    assert len([record for record in records if isinstance(record, EventRecord)]) == len(
        load_run(tmp_path / "run").events
    )


def test_a_call_that_writes_is_durable_before_its_tool_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file that was written is synced, and then the tool runs; reads wait for the next sync."""
    happened: list[str] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda descriptor: happened.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )

    def note(*given: Any) -> Any:
        happened.append("tool")
        return echo(*given)

    executor = Executor(
        [make_tool("Echo", note), make_tool("Write", note, risk="writes")],
        make_policy(),
        environment=Simulation().environment(),
    )
    plan = make_plan(step("a"), step("b"), step("c", "Write"))
    executor.run(plan, FileRecorder(tmp_path / "run"))
    assert happened[:2] == ["tool", "tool"]
    assert set(happened[2:-3]) == {"calls.jsonl", "results.jsonl", "events.jsonl"}
    assert (happened[-3], set(happened[-2:])) == ("tool", {"results.jsonl", "events.jsonl"})


def test_many_reads_are_synced_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    items = list(range(200))
    plan = make_plan(step("all", args={"number": "{n}"}, foreach={"from": "$vars.items", "itemName": "n"}))
    executor = Executor(TOOLS, make_policy(), environment=Simulation().environment())
    executor.run(plan, FileRecorder(tmp_path / "run"), variables={"items": items})
    records = 5 * len(items) + 2
    assert len(synced) == 3 * (records // SYNC_RECORDS) + 3


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    with pytest.raises(FileExistsError):
        FileRecorder(tmp_path / "run")


def test_a_run_that_cannot_be_recorded_stops(tmp_path: Path) -> None:
    class FullDisk(MemoryRecorder):
        def commit(self) -> None:
            raise OSError(28, "No space left on device")

    ran: list[int] = []
    tool = make_tool("Write", lambda *given: ran.append(1) or echo(*given), risk="writes")
    with pytest.raises(OSError, match="No space left"):
        Executor([tool], make_policy()).run(make_plan(step("a", "Write")), FullDisk())
    assert ran == []


def test_a_run_that_cannot_be_recorded_leaves_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(OSError, match="Input/output"):
        write_run(tmp_path / "run")
    assert not [path for path in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(path)]
    assert load_run(tmp_path / "run").is_interrupted


def test_a_half_written_line_is_left_out_and_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    whole = load_run(tmp_path / "run")
    file = tmp_path / "run" / "events.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    run = load_run(tmp_path / "run")
    assert (run.is_interrupted, run.torn, run.events) == (True, 1, whole.events[:-1])
    file.write_bytes(b"{]\n")
    with pytest.raises(Untrusted):
        load_run(tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("[]")
    with pytest.raises(Untrusted):
        load_run(tmp_path / "run")


KILLED = """
import os, sys
from pathlib import Path
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder
from tests.envelopes.plan.simulation import *

acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def write(given, context):
    os.write(acknowledged, f"{context.call.call_id}\\n".encode())
    if given.number == int(sys.argv[3]):
        os.kill(os.getpid(), 9)
    return echo(given, context)

source = {"from": "$vars.items", "itemName": "n", "concurrency": 4}
plan = make_plan(step("all", "Write", {"number": "{n}"}, foreach=source))
tool = make_tool("Write", write, risk="writes", parallel_safe=True)
Executor([tool], make_policy()).run(plan, FileRecorder(Path(sys.argv[1])), variables={"items": list(range(40))})
"""


@pytest.mark.parametrize("last", [pytest.param(3, marks=pytest.mark.extended), 17])
def test_a_kill_leaves_a_run_that_reads_as_interrupted_with_all_that_was_acknowledged(
    tmp_path: Path, last: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "run", tmp_path / "begun", str(last)], cwd=CHECKOUT, check=False
    )
    assert done.returncode == -signal.SIGKILL
    run = load_run(tmp_path / "run")
    assert run.is_interrupted
    begun = (tmp_path / "begun").read_text().split()
    assert set(begun) <= {call.call_id for call in run.calls}
    assert len(run.results) >= len(begun) - 4
    rebuilt = rebuild(run)
    assert rebuilt.problems == ()
    assert [state.end for state in rebuilt.steps] == [None]
    assert not [record for record in read_files(tmp_path / "run") if isinstance(record, LineProblem)]


def test_the_memory_recorder_has_a_commit_before_each_call_that_writes() -> None:
    ran = run_plan(make_plan(step("a"), step("b", "Write"), step("c", "Write")), *TOOLS)
    kinds = [type(record).__name__ for record in (ran.recorder.calls[1], ran.recorder.results[1])]
    assert kinds == ["ToolCall", "ToolResult"]
    assert len(ran.recorder.commits) == 3  # before each of both, and at the end
    assert ran.recorder.header is not None
    assert msgspec.to_builtins(ran.recorder.header)["end"] == "finished"


def test_large_outputs_are_files_of_the_folder_that_their_results_name(tmp_path: Path) -> None:
    artifacts = RunArtifacts(tmp_path / "run")
    artifacts.write("unused", "nobody names it")

    def print_much(given: Value, _context: CallContext) -> Echoed:
        return Echoed(value={"stdout": {"path": artifacts.write("stdout", b"much\n" * 9).path}})

    def look(given: Value, _context: CallContext) -> Echoed:
        with artifacts.open(str(given.path)) as content:
            return Echoed(value=content.read().decode())

    tools = (make_tool("Print", print_much), make_tool("Look", look), make_tool("Echo"))
    plan = make_plan(
        step("a", "Print"), step("b", "Look", {"path": "$steps.a.value.stdout.path"}), step("c", args={"value": "x"})
    )
    executor = Executor(tools, make_policy(), environment=Simulation().environment())
    result = executor.run(plan, FileRecorder(tmp_path / "run", artifacts), run_id="r1")
    assert result.outputs()["b"]["value"] == "much\n" * 9
    run = load_run(tmp_path / "run")
    (file,) = run.results[0].extra["files"]
    assert (file["role"], file["size"]) == ("stdout", 45)
    assert (tmp_path / "run" / "artifacts" / file["sha256"]).read_bytes() == b"much\n" * 9
    assert [run.results[number].extra for number in (1, 2)] == [{}, {}]
    (record,) = [record for record in read_files(tmp_path / "run") if isinstance(record, ArtifactRecord)]
    assert (record.path, record.sha256) == (file["path"], file["sha256"])
    with pytest.raises(MissingArtifact):
        artifacts.open("artifacts/0123456789abcdef/stdout.txt")


def test_every_call_of_a_run_has_its_policy_and_the_versions_of_planner_and_executor() -> None:
    policy = make_policy(max_timeout_ms=5_000)
    ran = run_plan(make_plan(step("a"), step("b")), make_tool("Echo"), policy=policy, planner_version="planner 2")
    header = ran.recorder.header
    assert header is not None
    for call in ran.recorder.calls:
        assert call.policy == policy == header.policy
        assert call.planner_version == header.planner_version == "planner 2"
        assert call.executor_version == header.executor_version == EXECUTOR_VERSION
        assert call.deadline_at == "2025-12-16T18:12:06.000Z"


def test_a_call_has_the_family_of_its_tool_and_an_unknown_task_is_not_found(tmp_path: Path) -> None:
    commands = CommandTools(Workspaces({"w": tmp_path}), tmp_path / "running", FileStore(tmp_path / "store"))
    ran = run_plan(make_plan(step("a", "TaskStatus", {"task_id": "task_9"})), *commands.tools())
    commands.close()
    assert [call.category for call in ran.recorder.calls] == ["task"]  # the family of the tool
    error = ran.recorder.results[0].error
    assert error is not None
    assert (error.code, error.kind) == ("NOT_FOUND", "unknown_task")
