"""`verify_folder`: the files of a run prove it, and each change of them is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder, RunArtifacts
from envelopes.plan.verify import verify_folder
from envelopes.plan.workers import CallContext
from envelopes.text.untrusted_json import Untrusted
from tests.envelopes.plan.simulation import (
    Echoed,
    Simulation,
    Value,
    approve,
    make_plan,
    make_policy,
    make_tool,
    step,
)

PLAN = make_plan(
    step("a", args={"number": 4}), step("b", "Print", {"value": "$steps.a.number"}), step("c", dependsOn=["b"])
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    artifacts = RunArtifacts(tmp_path / "run")

    def print_much(given: Value, _context: CallContext) -> Echoed:
        return Echoed(value={"stdout": artifacts.write("stdout", b"much").path})

    tools = (make_tool("Echo"), make_tool("Print", print_much, risk="writes"))
    executor = Executor(tools, make_policy(confirm=True), confirm=approve, environment=Simulation().environment())
    executor.run(PLAN, FileRecorder(tmp_path / "run", artifacts), run_id="r1")
    return tmp_path / "run"


def change(path: Path, *texts: tuple[str, str]) -> None:
    content = path.read_text()
    for old, new in texts:
        assert old in content
        content = content.replace(old, new)
    path.write_text(content)


def lines(path: Path, *numbers: int) -> None:
    """Keeps these lines of the file, counted from 0."""
    all_lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(all_lines[number] for number in numbers))


def test_the_files_of_a_run_prove_it(folder: Path) -> None:
    check = verify_folder(folder)
    assert (check.run_id, check.problems, check.is_interrupted) == ("r1", (), False)
    assert [(state.step_id, state.end) for state in check.steps] == [("a", "ok"), ("b", "ok"), ("c", "ok")]


CHANGES: tuple[tuple[str, tuple[str, str], str], ...] = (
    ("run.json", ('"goal":"Do it"', '"goal":"Do else"'), "the plan has another hash than planHash"),
    ("calls.jsonl", ('"number":4', '"number":5'), "its arguments differ from the step's"),
    ("results.jsonl", ('"number":4', '"number":5'), "its data has another hash than dataHash"),
    ("results.jsonl", ('"callId":"id4"', '"callId":"id9"'), "id9: a result without a call"),
    ("results.jsonl", ('"callId":"id4"', '"callId":"id3"'), "id3: 2 results"),
    ("events.jsonl", ('"seq":3', '"seq":4'), "the numbers have a gap, a repetition or another order"),
    ("events.jsonl", ('"confirmationId":"id1"', '"confirmationId":"id8"'), "its confirmation is another one"),
    ("events.jsonl", ('"planHash":"sha256:', '"planHash":"sha256:0'), "the confirmation is of another planHash"),
    ("results.jsonl", ('"sha256":"', '"sha256":"../'), "has no SHA-256"),
    ("results.jsonl", ('"sha256":"', '"was":"'), "has no SHA-256"),
    (
        "calls.jsonl",
        ('"confirmationsRequired":true', '"confirmationsRequired":false'),
        "other confirmationsRequired",
    ),
    ("calls.jsonl", ('"sandbox":{"enabled":false}', '"sandbox":{"enabled":true}'), "other sandbox than run.json"),
    ("calls.jsonl", ('"runId":"r1"', '"runId":"r2"'), "its ToolCall is of the run r2"),
    ("run.json", ('"decision":"approved"', '"decision":"rejected"'), "its confirmation is rejected, but the run was"),
    ("run.json", ('"actor":"olga"', '"actor":"eve"'), "more than one actor: eve, olga"),
    ("events.jsonl", ('"actor":"olga"', '"actor":"eve"'), "more than one actor: eve, olga"),
    ("run.json", ('"end":"finished"', '"end":"cancelled"'), "its end is cancelled, that of its events is finished"),
    ("results.jsonl", ('"runId":"r1"', '"runId":"r2"'), "its ToolResult is of the run r2"),
    ("results.jsonl", ('"stepId":"a"', '"stepId":"b"'), "its ToolResult has the step b, the call has a"),
    ("results.jsonl", ('"attempt":1', '"attempt":7'), "its ToolResult has the attempt 7, the call has 1"),
    ("results.jsonl", ('"endedAt":"2025', '"endedAt":"2020'), "it ended at 2020"),
    ("results.jsonl", ('"deadlineAt"', '"phase":"pre_dispatch","deadlineAt"'), "has it as never dispatched"),
    ("events.jsonl", ('"runId":"r1"', '"runId":"r2"'), "events.jsonl: its run.started is of the run r2"),
    ("events.jsonl", ('"step.finished"', '"step.failed"'), "its step.failed does not fit the status of its result, ok"),
    ("events.jsonl", ('"status":"ok"', '"status":"error"'), "does not fit the status of its result, ok"),
    ("events.jsonl", ('"a":"ok"', '"a":"error"'), "a: the end of the run has it as error, its records as ok"),
)


@pytest.mark.parametrize(("name", "texts", "problem"), CHANGES)
def test_a_change_of_a_file_is_found(folder: Path, name: str, texts: tuple[str, str], problem: str) -> None:
    change(folder / name, texts)
    assert any(problem in found for found in verify_folder(folder).problems)


def change_lines(path: Path, change_line: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Changes each line, or leaves out that for which `change_line` returns None; events are numbered anew."""
    changed = [change_line(json.loads(line)) for line in path.read_text().splitlines()]
    kept = [line | ({"seq": number} if "seq" in line else {}) for number, line in enumerate(filter(None, changed), 1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))


@pytest.mark.parametrize("states_ends", [True, False])
def test_a_call_that_is_left_out_of_all_files_is_found(folder: Path, *, states_ends: bool) -> None:
    for name in ("calls", "results", "events"):
        change_lines(folder / f"{name}.jsonl", lambda line: None if line.get("stepId") == "c" else line)
    if not states_ends:  # a foreign executor
        change_lines(folder / "events.jsonl", lambda line: {**line, "payload": line.get("payload", {}) | {"steps": 3}})
    expected = "the end of the run has it as ok" if states_ends else "the run finished without a call of it"
    assert [problem for problem in verify_folder(folder).problems if problem.startswith(f"c: {expected}")]


def test_a_run_that_was_never_confirmed_is_found_whatever_its_calls_state(folder: Path) -> None:
    header = json.loads((folder / "run.json").read_text())
    del header["confirmation"]
    (folder / "run.json").write_text(json.dumps(header))
    change_lines(folder / "events.jsonl", lambda line: None if line["type"].startswith("run.confirm") else line)
    released = header["policy"] | {"confirmationsRequired": False}
    change_lines(folder / "calls.jsonl", lambda line: line | {"policy": released})
    problems = verify_folder(folder).problems
    assert any("no run.confirmed event of its run names id1" in problem for problem in problems)


def test_what_a_foreign_executor_does_not_record_is_no_contradiction(folder: Path) -> None:
    unneeded = ("runId", "end", "endedAt", "executorVersion")
    header = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({name: header[name] for name in header if name not in unneeded}))
    unneeded = ("seq", "dataHash", "argsHash", "deadlineAt")
    for name in ("calls", "results", "events"):
        change_lines(folder / f"{name}.jsonl", lambda line: {key: line[key] for key in line if key not in unneeded})
    change_lines(
        folder / "events.jsonl",
        lambda line: line if line["type"].startswith("run.confirm") else line | {"payload": None},
    )
    assert verify_folder(folder).problems == ()


def test_missing_and_changed_outputs_and_results_are_found(folder: Path) -> None:
    (artifact,) = (folder / "artifacts").iterdir()
    artifact.write_bytes(b"less")
    assert any("has another content than its hash names" in problem for problem in verify_folder(folder).problems)
    artifact.unlink()
    assert any("stdout.txt is not in the folder" in problem for problem in verify_folder(folder).problems)
    lines(folder / "results.jsonl", 0, 1)
    assert any(": no result" in problem for problem in verify_folder(folder).problems)
    with (folder / "results.jsonl").open("ab") as file:
        file.write(b'{"callId')
    assert "1 files end within a line" in verify_folder(folder).problems


def test_an_interrupted_run_is_proved_as_far_as_it_came(folder: Path) -> None:
    lines(folder / "results.jsonl", 0)
    lines(folder / "events.jsonl", *range(9))
    lines(folder / "calls.jsonl", 0, 1)
    check = verify_folder(folder)
    assert (check.is_interrupted, check.problems) == (True, ())
    assert [state.end for state in check.steps] == ["ok", None, None]
    lines(folder / "events.jsonl", 0, 2)
    assert "events.jsonl: seq: the numbers have a gap, a repetition or another order" in verify_folder(folder).problems


def test_a_folder_that_is_no_run_of_a_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verify_folder(tmp_path)
    document: dict[str, Any] = json.loads((folder / "run.json").read_text())
    del document["plan"]
    (folder / "run.json").write_text(json.dumps(document))
    with pytest.raises(Untrusted):
        verify_folder(folder)
