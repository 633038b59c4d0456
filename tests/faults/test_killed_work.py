"""The background work under kill -9, of its leader and of what computes for it: nothing lost, nothing twice.

python -m pytest -m extended tests/faults/test_killed_work.py      (-m long: the leader, killed again and again)
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from os import kill
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.imports import environment, manage, rows, started, wait_until

SAMPLES = str(CHECKOUT / "dashboard" / "samples")
START = """
import django, sys
django.setup()
from dashboard.experiments.stored_comparison import Selection, start_comparison
from dashboard.models import Project
variants = ["recorded", "receipt", "canonical_json"]
start_comparison(Project.objects.get(slug="default"), Selection(), variants, batch_size=5)
"""
# However little there is to do, other processes compute it.
WORK_IN_A_POOL = """
import sys
from dashboard import pool
from dashboard.__main__ import main
if __name__ == "__main__":
    pool.WORTH_A_POOL = 1
    sys.argv = ["manage.py", "work", "--until-idle", "--processes", "2"]
    main()
"""
KILLS = 6
POOL_KILLS = 3
RESULTS = "SELECT number, results FROM dashboard_comparisonbatch ORDER BY number"
SUMMARY = "SELECT state, summary FROM dashboard_comparison"


@pytest.fixture
def compared(tmp_path: Path) -> list[Path]:
    """Two stores with the same comparison; the first one was worked on undisturbed."""
    stores = [tmp_path / name for name in ("whole", "killed")]
    for store in stores:
        manage(store, "migrate")
        manage(store, "import_runs", SAMPLES)
        subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, env=environment(store), check=True)
    manage(stores[0], "work", "--until-idle")
    return stores


def assert_same_numbers(whole: Path, killed: Path) -> None:
    assert rows(killed, "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NULL") == [(0,)]
    assert rows(killed, RESULTS) == rows(whole, RESULTS)
    assert rows(killed, SUMMARY) == rows(whole, SUMMARY)
    assert rows(whole, SUMMARY)[0][0] == "finished"


@pytest.mark.long
def test_killed_leaders_leave_the_numbers_of_an_undisturbed_one(compared: list[Path]) -> None:
    whole, killed = compared
    assert _kill_leaders(killed, KILLS) == KILLS
    manage(killed, "work", "--until-idle")
    assert_same_numbers(whole, killed)


def _kill_leaders(store: Path, kills: int) -> int:
    """Kills each leader at a random moment of its work; the next one goes on."""
    chance = random.Random(4)
    killed = 0
    for _ in range(kills):
        done = _done(store)
        process = started(store, "work")
        while _done(store) <= done and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.05))
        killed += process.poll() is None
        process.kill()
        process.wait()
    return killed


@pytest.mark.extended
def test_killed_processes_of_the_pool_leave_the_numbers_of_an_undisturbed_one(
    compared: list[Path], tmp_path: Path
) -> None:
    whole, killed = compared
    program = tmp_path / "work_in_a_pool.py"
    program.write_text(WORK_IN_A_POOL)
    path = {"PYTHONPATH": str(CHECKOUT)}
    leader = subprocess.Popen([sys.executable, str(program)], cwd=CHECKOUT, env=environment(killed) | path)
    for _ in range(POOL_KILLS):
        done = _done(killed)
        assert wait_until(lambda done=done: _done(killed) > done or leader.poll() is not None)
        for process in _computing(leader.pid)[:1]:
            with suppress(ProcessLookupError):
                kill(process, signal.SIGKILL)
    assert leader.wait() == 0
    assert_same_numbers(whole, killed)
    ((attempts,),) = rows(killed, "SELECT max(attempts) FROM dashboard_comparisonbatch")
    assert attempts in (2, 3), "some batches were computed again"


def _computing(leader: int) -> list[int]:
    """The processes that compute for the leader, the oldest first."""
    threads = Path(f"/proc/{leader}/task").glob("*/children")
    children = sorted({int(child) for thread in threads for child in thread.read_text().split()})
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _done(store: Path) -> int:
    ((done,),) = rows(store, "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NOT NULL")
    assert isinstance(done, int)
    return done
