"""Two processes read the same recordings at once: neither fails, and the store ends as if there were one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.imports import digest, manage, migrated_store, rows, started

SAMPLES = str(CHECKOUT / "dashboard" / "samples")


@pytest.mark.extended
def test_two_imports_of_the_same_files_end_in_the_store_of_one(tmp_path: Path) -> None:
    alone, shared = (migrated_store(tmp_path / name) for name in ("alone", "shared"))
    manage(alone, "import_runs", SAMPLES)
    both = [started(shared, "import_runs", SAMPLES) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    assert digest(shared) == digest(alone)
    assert rows(shared, "SELECT count(*) FROM dashboard_source") == rows(alone, "SELECT count(*) FROM dashboard_source")
    assert rows(shared, "SELECT count(*) FROM dashboard_problem") == rows(
        alone, "SELECT count(*) FROM dashboard_problem"
    )
