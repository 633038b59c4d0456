"""An import that is killed at any moment continues later without loss or repetition.

    COUNTERFOIL_KILLS=50 python -m pytest -m long tests/faults/test_killed_import.py

The kills are of each of two imports, eight when the variable is not set: a few minutes on two processors.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.dashboard.sessions import SESSION
from tests.faults.imports import digest, manage, migrated_store, rows, started
from tests.faults.test_import_memory import write_session

SAMPLES = CHECKOUT / "dashboard" / "samples"
KILLS_OF_A_STORE = 4
STORES = -(-int(os.environ.get("COUNTERFOIL_KILLS", "8")) // KILLS_OF_A_STORE)
LARGE = 12_000_000  # bytes; calls of so large an import are derived in a pool of processes


@pytest.mark.long
@pytest.mark.parametrize("is_large", [False, True])
def test_a_killed_import_ends_in_the_same_store_as_an_undisturbed_one(*, is_large: bool, tmp_path: Path) -> None:
    recordings = SAMPLES
    if is_large:
        recordings = tmp_path / "in"
        write_session(recordings / f"{SESSION}.jsonl", LARGE)
    whole = migrated_store(tmp_path / "whole")
    begin = time.monotonic()
    manage(whole, "import_runs", str(recordings))
    took = time.monotonic() - begin
    expected = digest(whole)
    chance = random.Random(2)
    interrupted = 0
    for number in range(STORES):
        store = migrated_store(tmp_path / f"killed-{number}")
        for _ in range(KILLS_OF_A_STORE):
            process = started(store, "import_runs", str(recordings))
            time.sleep(chance.uniform(0.2, 1.0) * took)
            interrupted += process.poll() is None
            process.kill()
            process.wait()
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]
        manage(store, "import_runs", str(recordings))
        assert digest(store) == expected
    print(f"\n{interrupted} of {STORES * KILLS_OF_A_STORE} processes were killed before they had ended")
    assert interrupted >= STORES


@pytest.mark.extended
def test_a_pool_derives_what_one_process_does(tmp_path: Path) -> None:
    """Two files at once are large enough for a pool, each alone is not."""
    folders = [tmp_path / "in" / name for name in ("a", "b")]
    for number, folder in enumerate(folders):
        write_session(folder / f"0f5f6d8e-0000-4000-8000-00000000000{number}.jsonl", LARGE // 2, call=f"toolu_{number}")
    alone, pooled = (migrated_store(tmp_path / name) for name in ("alone", "pooled"))
    for folder in folders:
        manage(alone, "import_runs", str(folder))
    manage(pooled, "import_runs", str(tmp_path / "in"))
    assert rows(pooled, "SELECT count(*) FROM dashboard_call WHERE derivation = ''") == [(0,)]
    assert digest(pooled) == digest(alone)


@pytest.mark.extended
def test_an_import_goes_on_alone_when_the_processes_of_its_pool_are_killed(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / "in" / str(number)
        write_session(folder / f"0f5f6d8e-0000-4000-8000-00000000000{number}.jsonl", LARGE // 2, call=f"toolu_{number}")
    whole, alone = (migrated_store(tmp_path / name) for name in ("whole", "alone"))
    manage(whole, "import_runs", str(tmp_path / "in"))
    process = started(alone, "import_runs", str(tmp_path / "in"))
    while not (workers := children(process.pid)):  # forks of the command
        assert process.poll() is None
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    assert process.wait() == 0
    assert digest(alone) == digest(whole)


def children(process: int) -> list[int]:
    """Also of a process that has ended, which has none."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    with suppress(OSError):
        return [int(child) for thread in threads for child in thread.read_text().split()]
    return []
