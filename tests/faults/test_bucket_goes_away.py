"""Kills the bucket's service in the middle of an import and restarts it.

The import reports it and ends, nothing that was acknowledged is lost, and importing again completes it.

    python -m pytest -m long tests/faults/test_bucket_goes_away.py     60 artifacts, and 1,000, ten times away
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.faults.artifact_load import write_recordings
from tests.faults.bucket_faults import Door
from tests.faults.imports import environment, migrated_store, rows

PRESENT = "SELECT count(*) FROM dashboard_artifact WHERE observation_id IS NULL AND state = 'present'"
# What was whole is not read again: the bucket names it by its content, and still has to have it.
LOOK = """
import django, json, sys
django.setup()
from tests.faults.artifact_load import _looked_at
print(json.dumps(_looked_at(set(json.load(sys.stdin)))))
"""
LOOK_AT_ALL = """
import django, json
django.setup()
from tests.faults.artifact_load import _faults
print(json.dumps({"faults": _faults(), "whole": []}))
"""


class Store:
    """A store whose artifacts lie in a bucket behind a door."""

    def __init__(self, tmp_path: Path, bucket: str, door: Door) -> None:
        self.folder = migrated_store(tmp_path / "store")
        self._environment = environment(self.folder) | {
            "COUNTERFOIL_ARTIFACTS": bucket,
            "AWS_ENDPOINT_URL": door.address,
        }
        self._whole: list[str] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=CHECKOUT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def import_all(self, recordings: Path) -> subprocess.Popen[str]:
        return self.start("manage.py", "import_runs", str(recordings), "--json")

    @property
    def present(self) -> int:
        return int(str(rows(self.folder, PRESENT)[0][0]))

    def faults(self, look: str = LOOK) -> list[str]:
        out, err = self.start("-c", look).communicate(json.dumps(self._whole), timeout=900)
        assert out, err
        state: dict[str, list[str]] = json.loads(out)
        self._whole = state["whole"]
        return state["faults"]


def report_of(importing: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = importing.communicate(timeout=900)
    return importing.returncode, json.loads(out), err


def away_after(store: Store, door: Door, recordings: Path, more: int) -> int:
    """The service ends when it has `more` objects; returns how many artifacts are stored when the import has ended."""
    door.kill()
    door.open(puts=more)
    count_unstored(store.import_all(recordings))
    door.kill()
    door.open()
    return store.present


def count_unstored(importing: subprocess.Popen[str]) -> int:
    """How many recordings were not imported in whole; asserts that each is reported."""
    code, report, err = report_of(importing)
    if report["unstored"]:
        assert code == 1
        assert f"recordings not imported in whole: {report['unstored']}" in err
        reasons = [problem["reason"] for problem in report["problems"]]
        assert any("could not be stored: the bucket d" in reason for reason in reasons)
    else:
        assert (code, report["problems"]) == (0, []), err
    return int(report["unstored"])


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
        # On a machine that sleeps, requests are as late as without the service: then too an import reports what is
        # left, and the next one imports it. How often that happens varies; each import has to store more.
        while count_unstored(store.import_all(recordings)):
            counts.append(store.present)
            assert counts[-1] > counts[-2], "an import got nowhere"
        assert (store.present, store.faults(LOOK_AT_ALL)) == (artifacts, [])
    finally:
        door.kill()
