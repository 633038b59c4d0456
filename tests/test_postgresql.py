"""The write path and the pages a second time, on the other database."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import CHECKOUT
from tests.postgresql import NoServerBinaries, private_cluster


def test_the_write_path_and_the_pages_hold_on_postgresql() -> None:
    try:
        with private_cluster() as url:
            done = _pytest_on(url)
    except NoServerBinaries as missing:
        pytest.fail(str(missing), pytrace=False)
    if done.returncode:
        pytest.fail(f"On PostgreSQL:\n{done.stdout}\n{done.stderr}", pytrace=False)


def _pytest_on(url: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: Django takes its database once, when the settings load."""
    command = [sys.executable, "-m", "pytest", "tests/dashboard", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"DATABASE_URL": url}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
