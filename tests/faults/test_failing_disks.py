"""Disks that fail or are full, restarts and locks, during import, upload and reading, on both databases.

python -m pytest -n 0 -m long tests/faults/test_failing_disks.py

Nothing acknowledged is lost, no answer is a 5xx but 503 and 507, and all is well afterwards without a restart of ours.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import CHECKOUT
from tests.faults.failing_disk import FailingDisk, NoCompiler, failing_disk
from tests.faults.imports import digest, environment, migrated_store, rows, wait_until
from tests.faults.server import RunningServer, running_server, sign_in
from tests.faults.test_store_outages import (
    ALLOWED,
    BRIEF_LOCK,
    CALLS,
    assert_readable,
    full_disk,
    save_view,
    small_disk,
    upload,
)
from tests.postgresql import restarted_cluster

pytestmark = [pytest.mark.django_db, pytest.mark.rendering, pytest.mark.long]  # with databases of their own
SAMPLES = "dashboard/samples/spotter"
ROUNDS = 6
# The number of the first call that fails: while the store is opened, in the first transaction, and later.
FAILS_FROM = (1, 5, 20, 60, 120)


@contextmanager
def disk_of(part: str) -> Iterator[FailingDisk]:
    try:
        with failing_disk(part) as disk:
            yield disk
    except NoCompiler:
        pytest.skip("this machine has no compiler")


@contextmanager
def postgresql_store(tmp_path: Path, **cluster: Any) -> Iterator[tuple[Any, dict[str, str]]]:
    """A migrated store on a cluster of its own, and the environment that names it."""
    with restarted_cluster(**cluster) as own:
        variables = environment(tmp_path / "store") | {"DATABASE_URL": own.url}
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=CHECKOUT, env=variables, check=True)
        yield own, variables


def stored_calls(variables: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-c", CALLS]
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.split()


def import_samples(variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "import_runs", SAMPLES, "--json"]
    return subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, timeout=300)


def assert_survives(server: RunningServer, number: int, outage: AbstractContextManager[None]) -> int:
    """Uploads, reads and writes during the outage and after it; the number of refused answers."""
    with outage:
        answers = [upload(server, number), server.request("GET", "/runs/"), save_view(server, f"view {number}")]
    assert {answer.status for answer in answers} <= ALLOWED
    assert upload(server, number).status == 200
    assert_readable(server)
    return sum(answer.status >= 500 for answer in answers)


@pytest.mark.parametrize("kind", ["write", "sync", "read", "full"])
def test_a_server_outlives_a_disk_that_fails(kind: str, tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    session = sign_in(store)
    with disk_of(str(store.resolve())) as disk:
        variables = BRIEF_LOCK | disk.variables
        with running_server(store, session, tmp_path / "log", "--workers", "1", variables=variables) as server:
            refused = 0
            for number in range(ROUNDS):
                refused += assert_survives(server, number, disk.failing(kind))
    assert refused or kind == "read"  # what is in memory is read from there
    assert stored_calls(environment(store)) == sorted(f"toolu_{number}" for number in range(ROUNDS))
    assert rows(store, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("kind", ["write", "sync", "full"])
def test_an_import_that_a_disk_failed_ends_in_words_and_continues(kind: str, tmp_path: Path) -> None:
    whole = migrated_store(tmp_path / "whole")
    assert import_samples(environment(whole)).returncode == 0
    for number in FAILS_FROM:
        store = migrated_store(tmp_path / str(number))
        with disk_of(str(store.resolve())) as disk, disk.failing(kind):
            done = import_samples(environment(store) | disk.variables | {"FAULT_NTH": str(number)})
        assert (done.returncode, json.loads(done.stdout).get("ok", True)) in ((0, True), (75, False)), done.stderr
        assert "Traceback" not in done.stderr
        assert import_samples(environment(store)).returncode == 0
        assert digest(store) == digest(whole), number
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("kind", ["write", "read", "full"])
def test_a_server_outlives_a_postgresql_whose_disk_fails(kind: str, tmp_path: Path) -> None:
    """Of the tables alone: where the log of transactions fails, the server of the database ends itself."""
    with disk_of("/base/") as disk, postgresql_store(tmp_path, variables=disk.variables) as (_, variables):
        session = sign_in(tmp_path / "store", variables)
        with running_server(
            tmp_path / "store", session, tmp_path / "log", "--workers", "1", variables=variables
        ) as server:
            for number in range(ROUNDS):
                assert_survives(server, number, disk.failing(kind))
        assert stored_calls(variables) == sorted(f"toolu_{number}" for number in range(ROUNDS))


def test_a_full_disk_of_postgresql_is_507_and_passes(tmp_path: Path) -> None:
    # Not pytest's tmp_path: a socket's path has room for about 100 characters, and the server's user must get there.
    folder = Path(tempfile.mkdtemp(prefix="counterfoil-full-"))
    folder.chmod(0o755)
    try:
        with small_disk(folder / "disk", megabytes=160) as disk:
            disk.chmod(0o755)
            with postgresql_store(tmp_path, within=disk) as (_, variables):
                session = sign_in(tmp_path / "store", variables)
                with running_server(
                    tmp_path / "store", session, tmp_path / "log", "--workers", "1", variables=variables
                ) as server:
                    with full_disk(disk):
                        statuses = [upload(server, number).status for number in range(60)]
                        assert server.request("GET", "/runs/").status == 200
                    assert set(statuses) <= {200, 507}
                    assert statuses[-1] == 507
                    assert {upload(server, number).status for number in range(60)} == {200}
                    assert_readable(server)
                assert stored_calls(variables) == sorted(f"toolu_{number}" for number in range(60))
    finally:
        shutil.rmtree(folder)


def test_a_postgresql_that_restarts_during_an_import_ends_it_in_words_and_it_continues(tmp_path: Path) -> None:
    with postgresql_store(tmp_path) as (cluster, variables):
        command = [sys.executable, "manage.py", "import_runs", "dashboard/samples", "--json"]
        importing = subprocess.Popen(
            command, cwd=CHECKOUT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with closing(psycopg.connect(cluster.conninfo, autocommit=True)) as other:
            count = "SELECT count(*) FROM dashboard_call"
            assert wait_until(lambda: importing.poll() is not None or other.execute(count).fetchone() != (0,))
        cluster.stop()
        out, error = importing.communicate(timeout=120)
        assert (importing.returncode, json.loads(out)["ok"]) == (75, False), error
        assert b"Traceback" not in error
        cluster.start()
        for _ in range(2):
            done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True)
            assert done.returncode == 0
        assert sum(json.loads(done.stdout)["added"].values()) == 0
        whole = migrated_store(tmp_path / "whole")
        subprocess.run(command, cwd=CHECKOUT, env=environment(whole), capture_output=True, check=True)
        assert stored_calls(variables) == stored_calls(environment(whole))


def test_a_lock_on_postgresql_is_answered_as_on_sqlite_and_passes(tmp_path: Path) -> None:
    with postgresql_store(tmp_path) as (cluster, variables):
        session = sign_in(tmp_path / "store", variables)
        with running_server(
            tmp_path / "store", session, tmp_path / "log", "--workers", "1", variables=variables
        ) as server:
            assert upload(server, 1).status == 200
            with closing(psycopg.connect(cluster.conninfo)) as other:
                other.execute("LOCK TABLE dashboard_run, dashboard_call IN SHARE ROW EXCLUSIVE MODE")
                assert_readable(server)
                assert upload(server, 2).status == 503
                assert_readable(server)
            assert upload(server, 2).status == 200
        assert stored_calls(variables) == ["toolu_1", "toolu_2"]
