"""The background work under kill -9, of its leader and of what computes for it: nothing lost, nothing twice.

python -m pytest -m extended tests/faults/test_killed_work.py      (-m long: the leader, killed again and again)
"""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import kill
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from dashboard.dask_cluster import ClusterExecutor, ClusterRefused
from tests.conftest import CHECKOUT
from tests.faults.cluster import certificates
from tests.faults.imports import environment, manage, rows, started, wait_until
from tests.postgresql import private_cluster

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
# More jobs than the pipe to a process takes, and the second one of each ends it.
KILLED_WITH_JOBS = """
import os, signal, sys
import django
django.setup()
from concurrent.futures import BrokenExecutor
from dashboard.pool import open_pool

def work(data, kills):
    if kills:
        os.kill(os.getpid(), signal.SIGKILL)

pool = open_pool("no database is opened", processes=2)
jobs = [pool.submit(work, bytes(3_000_000), number in (2, 3)) for number in range(4)]
try:
    jobs += [pool.submit(work, bytes(3_000_000), False) for _ in range(8)]
except BrokenExecutor:
    pass
assert any(isinstance(job.exception(), BrokenExecutor) for job in jobs)
getattr(pool, sys.argv[1])()
"""
DONE = "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NOT NULL"
KILLS = 6
POOL_KILLS = 2  # one fewer than the attempts that a batch has, which one batch may get all
RESULTS = "SELECT number, results FROM dashboard_comparisonbatch ORDER BY number"
SUMMARY = "SELECT state, summary FROM dashboard_comparison"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with a comparison that was worked on undisturbed, and a copy from before that."""
    whole, waiting = (tmp_path_factory.mktemp("stores") / name for name in ("whole", "waiting"))
    manage(whole, "migrate")
    manage(whole, "import_runs", SAMPLES)
    subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, env=environment(whole), check=True)
    shutil.copytree(whole, waiting)
    manage(whole, "work", "--until-idle")
    return whole, waiting


@pytest.fixture
def whole(compared: tuple[Path, Path]) -> Path:
    return compared[0]


@pytest.fixture
def killed(compared: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(compared[1], tmp_path / "killed"))


def assert_same_numbers(whole: Path, killed: Path) -> None:
    assert rows(killed, "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NULL") == [(0,)]
    assert rows(killed, RESULTS) == rows(whole, RESULTS)
    assert rows(killed, SUMMARY) == rows(whole, SUMMARY)
    assert rows(whole, SUMMARY)[0][0] == "finished"


@pytest.mark.long
def test_killed_leaders_leave_the_numbers_of_an_undisturbed_one(whole: Path, killed: Path) -> None:
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


@pytest.fixture
def program(tmp_path: Path) -> Path:
    program = tmp_path / "work_in_a_pool.py"
    program.write_text(WORK_IN_A_POOL)
    return program


def lead(program: Path, store: Path, **variables: str) -> subprocess.Popen[str]:
    variables = {"PYTHONPATH": str(CHECKOUT)} | variables
    command = [sys.executable, str(program)]
    return subprocess.Popen(
        command, cwd=CHECKOUT, env=environment(store) | variables, stderr=subprocess.PIPE, text=True
    )


def wait_for_a_batch(store: Path, leader: subprocess.Popen[str]) -> None:
    done = _done(store)
    assert wait_until(lambda: _done(store) > done or leader.poll() is not None)


@pytest.mark.extended
def test_killed_processes_of_the_pool_leave_the_numbers_of_an_undisturbed_one(
    whole: Path, killed: Path, program: Path
) -> None:
    leader = lead(program, killed)
    assert wait_until(lambda: bool(_computing(leader.pid)))  # the first one is killed before it has done anything
    for _ in range(POOL_KILLS):
        for process in _computing(leader.pid)[:1]:
            with suppress(ProcessLookupError):
                kill(process, signal.SIGKILL)
        wait_for_a_batch(killed, leader)
    _, errors = leader.communicate()
    assert leader.returncode == 0, errors
    assert_same_numbers(whole, killed)
    ((attempts,),) = rows(killed, "SELECT max(attempts) FROM dashboard_comparisonbatch")
    assert attempts in (2, 3), "some batches were computed again"


@pytest.mark.extended
@pytest.mark.parametrize("end", ["shutdown", "terminate"])
def test_a_command_ends_although_a_process_was_killed_that_jobs_were_written_to(tmp_path: Path, end: str) -> None:
    """Python before 3.11.5 waits for ever in either."""
    program = [sys.executable, "-c", KILLED_WITH_JOBS, end]
    subprocess.run(program, cwd=CHECKOUT, env=environment(tmp_path), timeout=60, check=True)


@contextmanager
def started_cluster(store: Path, *folder: str, **variables: str) -> Iterator[tuple[str, int]]:
    """The address of a cluster, and the process of one of its two workers."""
    command = [sys.executable, "-m", "tests.faults.cluster", *folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=CHECKOUT, env=environment(store) | variables, **pipes) as cluster:
        address, worker, _ = cluster.stdout.readline().split()
        yield address, int(worker)


@pytest.mark.extended
def test_a_cluster_of_which_a_worker_is_killed_gives_the_same_bytes(
    whole: Path, killed: Path, program: Path, tmp_path: Path
) -> None:
    """Calls that wait are derived there too: they are made to wait before the comparison."""
    columns = "id, status, outcome, tokens, receipt_lines, seen_lines, is_cut, derivation"
    derived = f"SELECT {columns} FROM dashboard_call ORDER BY id"
    with sqlite3.connect(killed / "counterfoil.db") as connection:
        connection.execute("UPDATE dashboard_call SET derivation = '', tokens = 0, seen_lines = 0")
    connection.close()
    with started_cluster(killed, str(tmp_path)) as (address, worker):
        assert address.startswith("tls://")
        leader = lead(program, killed, COUNTERFOIL_DASK=address, **certificates(tmp_path))
        wait_for_a_batch(killed, leader)
        kill(worker, signal.SIGKILL)
        assert not _computing(leader.pid), "no process of this machine computes"
        _, warnings = leader.communicate()
        assert (leader.returncode, warnings) == (0, "")
    assert_same_numbers(whole, killed)
    assert rows(killed, derived) == rows(whole, derived)


@pytest.mark.extended
def test_a_worker_with_another_program_is_refused(tmp_path: Path) -> None:
    with (
        started_cluster(tmp_path, COUNTERFOIL_SEARCH_CHARACTERS="100") as (address, _),
        pytest.raises(ClusterRefused, match=r"The worker tcp://\S+ has counterfoil .*install the same on every worker"),
    ):
        ClusterExecutor(address)


LEADERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted"
LOST_LOCKS = 3


@pytest.mark.extended
def test_a_leader_that_loses_its_lock_in_postgresql_stores_nothing_more(whole: Path, tmp_path: Path) -> None:
    """Its session is ended, and with it the lock. It, or the process that waits, leads again."""
    with private_cluster() as url, ExitStack() as workers:
        variables = environment(tmp_path / "store") | {"DATABASE_URL": url}
        for command in (["manage.py", "migrate"], ["manage.py", "import_runs", SAMPLES], ["-c", START]):
            run = [sys.executable, *command]
            subprocess.run(run, cwd=CHECKOUT, env=variables, check=True, capture_output=True)
        for _ in range(2):
            work = subprocess.Popen([sys.executable, "manage.py", "work"], cwd=CHECKOUT, env=variables)
            workers.callback(work.wait)
            workers.callback(work.terminate)
        folder, _, name = urlsplit(url).path.removeprefix("/").rpartition("/")
        with psycopg.connect(host=folder, user="postgres", dbname=name, autocommit=True) as database:
            for _ in range(LOST_LOCKS):  # what was interrupted is computed first, so no batch is hit again and again
                done = first(database, DONE)
                assert wait_until(lambda done=done: first(database, DONE) > done or is_finished(database))
                assert len(database.execute(LEADERS).fetchall()) <= 1
                database.execute(LEADERS.replace("pid", "pg_terminate_backend(pid)", 1))
            assert wait_until(lambda: is_finished(database))
            stored = [(number, bytes(results)) for number, results in database.execute(RESULTS)]
    assert stored == rows(whole, RESULTS)


def is_finished(database: psycopg.Connection[tuple[Any, ...]]) -> bool:
    return bool(first(database, "SELECT state FROM dashboard_comparison") == "finished")


def first(database: psycopg.Connection[tuple[Any, ...]], query: str) -> Any:
    row = database.execute(query).fetchone()
    assert row is not None
    return row[0]


def _computing(leader: int) -> list[int]:
    """The processes that compute for the leader, the oldest first."""
    children = {
        int(child) for thread in Path(f"/proc/{leader}/task").glob("*/children") for child in _read(thread).split()
    }
    return [child for child in sorted(children) if b"spawn_main" in _read(Path(f"/proc/{child}/cmdline"))]


def _read(path: Path) -> bytes:
    """Empty for a thread or a process that has ended meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _done(store: Path) -> int:
    ((done,),) = rows(store, DONE)
    assert isinstance(done, int)
    return done
