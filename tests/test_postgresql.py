"""Everything that another database can change, a second time on PostgreSQL.

That is the write path, every query with its order and its locks, and each page opened once. What a page shows of the
rows that it read does not depend on the database, so it is tested on SQLite alone: the folders of such tests are not
in PLACES, and in the others a test is marked `rendering` when it is about markup, windows, files of the store or
samples that come out of the code, or about where a reader of recordings stops and how much it keeps: that is decided
before a row is written. The pages of calls and artifacts are opened by the crawl of the hostile recordings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.conftest import CHECKOUT
from tests.postgresql import NoServerBinaries, private_cluster

PLACES = (
    *("tests/dashboard/test_accounts.py", "tests/dashboard/filters", "tests/dashboard/ingest", "tests/dashboard/runs"),
    *("tests/dashboard/comparisons", "tests/dashboard/variants"),
    *("tests/dashboard/evidence", "tests/dashboard/renderers", "tests/dashboard/calls/test_call_page.py"),
    *(
        f"tests/dashboard/artifacts/test_{subject}.py"
        for subject in ("artifact_references", "artifact_retention", "artifact_summaries", "artifact_tail")
    ),
    *("tests/dashboard/tools/test_tools_page.py", "tests/faults/test_hostile_recordings.py"),
)


def test_the_write_path_and_the_pages_hold_on_postgresql(tmp_path: Path) -> None:
    failure = _failure_on_postgresql(tmp_path)
    if failure:
        pytest.fail(failure, pytrace=False)


def test_the_package_of_the_dev_extra_starts_a_server_of_its_own() -> None:
    """What a machine without PostgreSQL relies on must also work where it is not needed."""
    with private_cluster(packaged=True) as url:
        folder = urlsplit(url).path.removeprefix("/").rpartition("/")[0]
        with psycopg.connect(host=folder, user="postgres", dbname="postgres") as connection:
            assert connection.execute("SELECT 6 * 7").fetchone() == (42,)
    assert not Path(folder).exists()


def _failure_on_postgresql(workplace: Path) -> str:
    try:
        with private_cluster() as url:
            done = _pytest_on(url, workplace)
    except NoServerBinaries as missing:
        return str(missing)
    return f"On PostgreSQL:\n{done.stdout}\n{done.stderr}" if done.returncode else ""


def _pytest_on(url: str, workplace: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: Django takes its database once, when the settings load."""
    command = [sys.executable, "-m", "pytest", *PLACES, "--second-database", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = os.environ | {"DATABASE_URL": url, "TMPDIR": str(workplace)}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
