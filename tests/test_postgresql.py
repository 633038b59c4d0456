"""Everything that another database can change, a second time on PostgreSQL.

The tests marked `postgresql` ask every statement that any test of the default run asks: tests/asked.py fails the run
otherwise. The extended run repeats them, and all tests of PLACES except those marked `rendering`: these are about
markup, windows, files of the store or samples that come out of the code, or about where a reader of recordings stops
and how much it keeps, which is decided before a row is written.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests import asked
from tests.conftest import CHECKOUT
from tests.postgresql import NoServerBinaries, private_cluster

PLACES = {
    "imports": (
        *("tests/dashboard/ingest", "tests/faults/test_hostile_recordings.py", "tests/dashboard/evidence"),
        *("tests/dashboard/calls/test_call_page.py", "tests/dashboard/variants"),
    ),
    "runs": (
        *("tests/dashboard/test_accounts.py", "tests/dashboard/filters", "tests/dashboard/runs"),
        *("tests/dashboard/experiments", "tests/dashboard/tools/test_tools_page.py"),
        *(
            f"tests/dashboard/artifacts/test_{subject}.py"
            for subject in ("artifact_references", "artifact_retention", "artifact_summaries", "artifact_tail")
        ),
    ),
}


@pytest.mark.extended
def test_the_marked_tests_hold_on_postgresql(tmp_path: Path) -> None:
    marked = [path for path in CHECKOUT.glob("tests/**/test_*.py") if "mark.postgresql" in path.read_text("utf-8")]
    _run_on_postgresql(tmp_path, "--on-postgresql=marked", *map(str, sorted(marked)))


@pytest.mark.extended
@pytest.mark.parametrize("places", PLACES)
def test_the_write_path_and_the_pages_hold_on_postgresql(places: str, tmp_path: Path) -> None:
    chosen = "not recordings and not bench and not long"
    _run_on_postgresql(tmp_path, "--on-postgresql=all", "-m", chosen, *PLACES[places])


def test_what_no_marked_test_asks_is_named() -> None:
    by_any = {f"dashboard.runs.queries.load: SELECT dashboard_{table}" for table in ("run", "call")}
    assert asked.unmarked(by_any, by_any) == []
    assert asked.unmarked(by_any, {"dashboard.runs.queries.load: SELECT dashboard_run"}) == [
        "dashboard.runs.queries.load: SELECT dashboard_call"
    ]


@pytest.mark.extended
def test_a_run_that_fails_for_it_says_so_in_its_last_line() -> None:
    """All of its tests pass, so pytest's own last line is green."""
    of_the_database = "tests/dashboard/ingest/test_derivation.py::test_each_product_names_the_version_that_derived_it"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", asked.WHOLE, of_the_database]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
    *_, counts, last = done.stdout.splitlines()
    assert counts.startswith("2 passed")
    assert re.fullmatch(r"FAILED: \d+ statements are asked by no test marked `postgresql`; they are listed above", last)
    assert done.returncode == 1


@pytest.mark.extended
def test_the_package_of_the_dev_extra_starts_a_server_of_its_own() -> None:
    """What a machine without PostgreSQL relies on must also work where it is not needed."""
    with private_cluster(packaged=True) as url:
        folder = urlsplit(url).path.removeprefix("/").rpartition("/")[0]
        with psycopg.connect(host=folder, user="postgres", dbname="postgres") as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
    assert not Path(folder).exists()


def _run_on_postgresql(workplace: Path, *arguments: str) -> None:
    """In a process of its own: Django takes its database once, when the settings load."""
    command = [sys.executable, "-m", "pytest", *arguments, "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        with private_cluster() as url:
            environment = os.environ | {"DATABASE_URL": url, "TMPDIR": str(workplace)}
            for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
                environment.pop(name, None)
            done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    except NoServerBinaries as missing:
        pytest.fail(str(missing), pytrace=False)
    if done.returncode:
        pytest.fail(f"On PostgreSQL:\n{done.stdout}\n{done.stderr}", pytrace=False)
