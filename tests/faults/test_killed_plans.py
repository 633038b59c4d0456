"""A plan of 1,000 iterations, four at a time, with random failures, killed in the middle.

python -m pytest -m long tests/faults/test_killed_plans.py
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from dashboard.runs.export_run import export_run
from envelopes.plan.recorders import RecordedRun, load_run
from envelopes.plan.schema import read_plan
from envelopes.plan.verify import RebuiltRun, rebuild_run, verify_folder
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_project

ITERATIONS = 1_000
ORDER: dict[str, Any] = {"calls": attrgetter("call_id"), "results": attrgetter("call_id"), "events": attrgetter("seq")}
KILLED_AT = (120, 480, 990)  # calls that have begun
# `begun` and `ended` get a line when a tool begins and when it is about to answer.
KILLED = """
import os, random, sys, threading
from pathlib import Path
from envelopes.plan.tool_answers import ToolFailed
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder
from tests.envelopes.plan.simulation import echo, make_plan, make_policy, make_tool, step

folder, seed, killed_at, iterations = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
files = {name: os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("begun", "ended")}
chance, lock, count = random.Random(seed), threading.Lock(), 0

def write(given, context):
    global count
    with lock:
        count += 1
        os.write(files["begun"], f"{context.call.call_id}\\n".encode())
        if count == killed_at:
            os.kill(os.getpid(), 9)
        roll = chance.random()
    if roll < 0.1:
        raise ToolFailed("rate_limited", "later")
    if roll < 0.2:
        raise OSError("no disk")
    os.write(files["ended"], f"{context.call.call_id}\\n".encode())
    return echo(given, context)

source = {"from": "$vars.items", "itemName": "n", "concurrency": 4}
retry = {"maxAttempts": 3, "backoffMs": 1}
plan = make_plan(step("all", "Write", {"number": "{n}"}, foreach=source, retry=retry, onError="skip"), step("after"))
tools = [make_tool("Write", write, risk="writes", parallel_safe=True), make_tool("Echo")]
executor = Executor(tools, make_policy(max_iterations=iterations))
executor.run(plan, FileRecorder(folder / "run"), run_id="r1", variables={"items": list(range(iterations))})
"""


def rebuild(run: RecordedRun) -> RebuiltRun:
    return rebuild_run(read_plan(run.header["plan"]), run.calls, run.results, run.events, run.header["variables"])


def run_plan(folder: Path, seed: int, killed_at: int) -> RecordedRun:
    folder.mkdir()
    arguments = [folder, str(seed), str(killed_at), str(ITERATIONS)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=CHECKOUT, check=False)
    assert done.returncode == (-signal.SIGKILL if killed_at else 0)
    return load_run(folder / "run")


def words(path: Path) -> set[str]:
    return set(path.read_text().split())


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("killed_at", [*KILLED_AT, 0])
def test_a_killed_plan_is_interrupted_and_export_import_and_verify_agree(tmp_path: Path, killed_at: int) -> None:
    seed = random.Random(killed_at).randrange(1_000)
    run = run_plan(tmp_path / "first", seed, killed_at)
    known = {call.call_id for call in run.calls}
    succeeded = {result.call_id for result in run.results if result.ok}
    assert run.is_interrupted == bool(killed_at)
    assert words(tmp_path / "first" / "begun") <= known
    # An answer that the executor had not taken yet is not acknowledged: at most one for each worker.
    assert len(words(tmp_path / "first" / "ended") - succeeded) <= 4
    rebuilt = rebuild(run)
    assert rebuilt.problems == ()
    assert rebuilt.steps[0].end == (None if killed_at else "partial")

    project = create_project()
    stored = import_run(project, tmp_path / "first" / "run")
    assert (stored.ended_at is None) == bool(killed_at)
    assert stored.own_calls.count() == len(run.calls)
    export_run(stored, tmp_path / "exported")
    exported = load_run(tmp_path / "exported")
    for name in ("calls", "results", "events"):  # an export has the order of the calls, and adds envelopes
        key = ORDER[name]
        restored = [msgspec.structs.replace(record, extra={}) for record in getattr(exported, name)]
        assert sorted(restored, key=key) == sorted(getattr(run, name), key=key)
    assert rebuild(exported) == rebuilt
    for folder in (tmp_path / "first" / "run", tmp_path / "exported"):
        check = verify_folder(folder)
        assert (check.problems, check.steps, check.is_interrupted) == ((), rebuilt.steps, bool(killed_at))
    again = import_run(create_project("again"), tmp_path / "exported")
    assert (again.own_calls.count(), again.failed_count) == (stored.own_calls.count(), stored.failed_count)


def import_run(project: Project, folder: Path) -> Any:
    report = import_paths(project, [folder])
    assert not report.problems
    return project.runs.get()
