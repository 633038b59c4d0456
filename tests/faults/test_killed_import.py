"""An import that is killed at any moment continues later without loss or repetition.

python -m pytest -m long tests/faults/test_killed_import.py
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.imports import digest, manage, rows, started

SAMPLES = str(CHECKOUT / "dashboard" / "samples")
ROUNDS = 12


@pytest.mark.long
def test_a_killed_import_ends_in_the_same_store_as_an_undisturbed_one(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    manage(whole, "migrate")
    begin = time.monotonic()
    manage(whole, "import_runs", SAMPLES)
    took = time.monotonic() - begin
    expected = digest(whole)
    chance = random.Random(2)
    interrupted = 0
    for number in range(ROUNDS):
        store = tmp_path / f"killed-{number}"
        manage(store, "migrate")
        for _ in range(4):
            process = started(store, "import_runs", SAMPLES)
            time.sleep(chance.uniform(0.2, 1.0) * took)
            interrupted += process.poll() is None
            process.kill()
            process.wait()
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]
        manage(store, "import_runs", SAMPLES)
        assert digest(store) == expected
    assert interrupted >= ROUNDS
