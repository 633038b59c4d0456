"""The service of the bucket is killed in the middle of an import, and comes back.

The import says so and ends, nothing that it had acknowledged is lost, and importing again completes it.

    python -m pytest -m long tests/faults/test_bucket_goes_away.py     60 artifacts, and 1,000, ten times away
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.faults.artifact_load import write_recordings
from tests.faults.bucket_faults import Door
from tests.faults.imports import environment, migrated_store, rows

PRESENT = "SELECT count(*) FROM dashboard_artifact WHERE observation_id IS NULL AND state = 'present'"
LOOK = """
import django, json
django.setup()
from tests.faults.artifact_load import _faults
print(json.dumps(_faults()))
"""


class Store:
    """A store whose artifacts lie in a bucket behind a door."""

    def __init__(self, tmp_path: Path, bucket: str, door: Door) -> None:
        self.folder = migrated_store(tmp_path / "store")
        self._environment = environment(self.folder) | {
            "COUNTERFOIL_ARTIFACTS": bucket,
            "AWS_ENDPOINT_URL": door.address,
        }

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=CHECKOUT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def import_all(self, recordings: Path) -> subprocess.Popen[str]:
        return self.start("manage.py", "import_runs", str(recordings), "--json")

    @property
    def present(self) -> int:
        return int(str(rows(self.folder, PRESENT)[0][0]))

    def faults(self) -> list[str]:
        out, err = self.start("-c", LOOK).communicate(timeout=300)
        assert out, err
        found: list[str] = json.loads(out)
        return found


def report_of(importing: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = importing.communicate(timeout=900)
    return importing.returncode, json.loads(out), err


def away_after(store: Store, door: Door, recordings: Path, more: int) -> int:
    """Kills the service when `more` artifacts are in. How many were, after the import had ended and said so."""
    before = store.present
    importing = store.import_all(recordings)
    while importing.poll() is None and store.present < before + more:
        time.sleep(0.02)
    door.kill()
    code, report, err = report_of(importing)
    if report["unstored"]:
        assert code == 1
        assert "recordings not in whole: " in err
        reasons = [one["reason"] for one in report["problems"]]
        assert any("could not be stored: the bucket does not answer" in reason for reason in reasons)
    door.open()
    return store.present


@pytest.mark.long
@pytest.mark.parametrize(("artifacts", "times"), [(60, 1), (1_000, 10)], ids=["60", "1000"])
def test_what_was_acknowledged_outlives_the_service_and_importing_again_completes_it(
    tmp_path: Path, bucket_address: str, s3_environment: dict[str, str], artifacts: int, times: int
) -> None:
    recordings, chance = tmp_path / "recordings", random.Random(5)
    write_recordings(recordings, artifacts)
    door = Door(s3_environment["AWS_ENDPOINT_URL"])
    store = Store(tmp_path, bucket_address, door)
    try:
        counts = [0]
        for _ in range(times):
            counts.append(away_after(store, door, recordings, chance.randint(5, artifacts // times // 2)))
            assert store.faults() == []
        assert counts == sorted(counts)
        assert 0 < counts[-1] < artifacts
        for _ in range(3):  # a machine that sleeps for a while makes requests late, and an import says so
            code, report, err = report_of(store.import_all(recordings))
            if code == 0:
                break
        assert (code, report["unstored"], report["problems"]) == (0, 0, []), err
        assert (store.present, store.faults()) == (artifacts, [])
    finally:
        door.kill()
