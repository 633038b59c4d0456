"""Kill -9 at random moments of taking files in, while another import and the collector of garbage are at work.

Every row that was committed names content that is there and whole, in a folder and in a bucket.

    python -m pytest -m long tests/faults/test_killed_artifacts.py     1,000 artifacts, in a folder and in a bucket
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.artifact_load import write_recordings
from tests.faults.imports import environment, migrated_store


def killed(
    tmp_path: Path, *, artifacts: int, seconds: int, seed: int, longest: float = 0.6, **own: str
) -> dict[str, object]:
    write_recordings(tmp_path / "recordings", artifacts)
    store = migrated_store(tmp_path / "store")
    options = [str(tmp_path / "recordings"), *map(str, (seconds, seed, longest))]
    command = [sys.executable, "-m", "tests.faults.artifact_load", *options]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(store) | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.mark.extended
def test_a_killed_import_leaves_no_row_without_its_content(tmp_path: Path) -> None:
    result = killed(tmp_path, artifacts=40, seconds=6, seed=1)
    assert result | {"kills": 0} == {"kills": 0, "left": 0, "faults": []}
    assert isinstance(result["kills"], int)
    assert result["kills"] >= 2


@pytest.mark.long
def test_a_thousand_artifacts_under_kills(tmp_path: Path) -> None:
    result = killed(tmp_path, artifacts=1_000, seconds=240, seed=2)
    assert (result["left"], result["faults"]) == (0, [])
    assert isinstance(result["kills"], int)
    assert result["kills"] >= 20


@pytest.mark.long
def test_a_thousand_artifacts_on_their_way_to_a_bucket_under_kills(tmp_path: Path, bucket_address: str) -> None:
    """Longer between two kills: an object takes some requests, and an import looks at each recording first."""
    result = killed(tmp_path, artifacts=1_000, seconds=900, seed=3, longest=20, COUNTERFOIL_ARTIFACTS=bucket_address)
    assert (result["left"], result["faults"]) == (0, [])
    assert isinstance(result["kills"], int)
    assert result["kills"] >= 10
