"""Import against the floor: read the files with msgspec, insert the very rows, same batches, same durability.

python -m pytest -m bench tests/bench/test_import_ratio.py -s
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from dashboard.ingest.sources import BATCH_BYTES

ALLOWED_RATIO = 6.0
ALLOWED_MEGABYTES = 300
ROUNDS = 3
SEARCH = "dashboard_runtext"  # its triggers fill it for both
PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF;"

IMPORT = """
import os, resource, sys, time, django
from pathlib import Path
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from dashboard.ingest.importer import import_paths
from dashboard.accounts import get_or_create_project
project = get_or_create_project()
start = time.perf_counter()
import_paths(project, [Path(sys.argv[1])])
taken = time.perf_counter() - start
# The process that counts tokens is part of what an import takes.
peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(taken, sum(peaks) / 1024)
"""


@pytest.mark.bench
@pytest.mark.recordings
def test_importing_takes_at_most_six_times_the_floor(recordings_root: Path, tmp_path: Path) -> None:
    folder = recordings_root / "claude-code"
    rounds = [_round(folder, tmp_path / str(number)) for number in range(ROUNDS)]
    ratios = sorted(imported / floor for imported, floor, _ in rounds)
    megabytes = max(peak for _, _, peak in rounds)
    for imported, floor, peak in rounds:
        print(f"import {imported:.2f} s, floor {floor:.2f} s, ratio {imported / floor:.2f}, peak {peak:.0f} MB")
    print(f"median ratio {ratios[len(ratios) // 2]:.2f} (at most {ALLOWED_RATIO}), peak {megabytes:.0f} MB")
    assert ratios[len(ratios) // 2] <= ALLOWED_RATIO
    assert megabytes <= ALLOWED_MEGABYTES


def _round(folder: Path, data: Path) -> tuple[float, float, float]:
    data.mkdir()
    environment = {**os.environ, "COUNTERFOIL_DATA": str(data), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    environment.pop("DATABASE_URL", None)
    command = [sys.executable, "-c", IMPORT, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported, peak = map(float, done.stdout.split())
    return imported, _floor(folder, data / "counterfoil.db", data / "floor.db"), peak


def _floor(folder: Path, filled: Path, empty: Path) -> float:
    source = sqlite3.connect(filled)
    schema = source.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name NOT GLOB ?",
        [f"{SEARCH}_grams_*"],  # comes with the virtual table
    )
    target = sqlite3.connect(empty, isolation_level=None)
    target.executescript(PRAGMAS)
    for (statement,) in schema.fetchall():
        target.execute(statement)
    batches = _batches(source)
    start = time.perf_counter()
    _read(folder)
    for batch in batches:
        target.execute("BEGIN IMMEDIATE")
        for table, rows in batch.items():
            places = ", ".join("?" * len(rows[0]))
            target.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
        target.execute("COMMIT")
    return time.perf_counter() - start


def _read(folder: Path) -> None:
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                msgspec.json.decode(line)


def _batches(source: sqlite3.Connection) -> list[dict[str, list[tuple[object, ...]]]]:
    """The rows that the importer wrote, in as many transactions as it wrote them in."""
    ends = source.execute('SELECT "offset" FROM dashboard_source').fetchall()
    count = sum(end // BATCH_BYTES + 1 for (end,) in ends)
    tables = source.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB ?", [f"{SEARCH}*"])
    names = [name for (name,) in tables]
    batches: list[dict[str, list[tuple[object, ...]]]] = [{} for _ in range(count)]
    for name in (one for one in names if one.startswith("dashboard_")):
        rows = source.execute(f'SELECT * FROM "{name}"').fetchall()
        for number, batch in enumerate(batches):
            part = rows[number * len(rows) // count : (number + 1) * len(rows) // count]
            if part:
                batch[name] = part
    return batches
