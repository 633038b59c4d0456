"""The write path and the pages a second time, on the other database.

Left out there is what another database cannot change: tests that ask none, and tests marked `rendering`. A test
may be marked so when it says what a page makes of what was read (its markup, its windows, files of the store,
samples that come out of the code) and another test, which runs on both, opens the same page; or when what it
brings is refused before a row is written.
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

FOLDERS = ("tests/dashboard", "tests/faults/test_hostile_recordings.py")


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
    command = [sys.executable, "-m", "pytest", *FOLDERS, "--second-database", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = os.environ | {"DATABASE_URL": url, "TMPDIR": str(workplace)}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
