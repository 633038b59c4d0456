"""The background work of comparisons under kill -9: nothing lost, nothing twice, the same numbers.

python -m pytest -m long tests/faults/test_killed_work.py
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.imports import environment, manage, rows, started

SAMPLES = str(CHECKOUT / "dashboard" / "samples")
START = """
import django, sys
django.setup()
from dashboard.experiments.stored_comparison import Selection, start_comparison
from dashboard.models import Project
variants = ["recorded", "receipt", "canonical_json"]
start_comparison(Project.objects.get(slug="default"), Selection(), variants, batch_size=5)
"""
EXPIRE = "UPDATE dashboard_comparisonbatch SET leased_until = '2001-01-01 00:00:00' WHERE leased_until IS NOT NULL"
KILLS = 6
RESULTS = "SELECT number, results FROM dashboard_comparisonbatch ORDER BY number"
SUMMARY = "SELECT state, summary FROM dashboard_comparison"


def compare(store: Path) -> None:
    subprocess.run([sys.executable, "-c", START], cwd=CHECKOUT, env=environment(store), check=True)


@pytest.mark.long
def test_killed_workers_leave_the_numbers_of_an_undisturbed_one(tmp_path: Path) -> None:
    outcomes = []
    for name, kills in (("whole", 0), ("killed", KILLS)):
        store = tmp_path / name
        manage(store, "migrate")
        manage(store, "import_runs", SAMPLES)
        compare(store)
        killed_in_work = _kill_workers(store, kills)
        manage(store, "work", "--until-idle")
        assert rows(store, "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NULL") == [(0,)]
        outcomes.append((rows(store, RESULTS), rows(store, SUMMARY)))
        assert killed_in_work == kills
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1][0][0] == "finished"


def _kill_workers(store: Path, kills: int) -> int:
    """Kills each worker at a random moment of its work; its batch is free again when the lease ends."""
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
        _expire(store)
    return killed


def _done(store: Path) -> int:
    ((done,),) = rows(store, "SELECT count(*) FROM dashboard_comparisonbatch WHERE finished_at IS NOT NULL")
    assert isinstance(done, int)
    return done


def _expire(store: Path) -> None:
    """Ends the leases at once."""
    connection = sqlite3.connect(store / "counterfoil.db", timeout=120)
    with connection:
        connection.execute(EXPIRE)
    connection.close()
