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
import time
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
from tests.postgresql import DURABLE, RestartedCluster, restarted_cluster

pytestmark = [pytest.mark.django_db, pytest.mark.rendering, pytest.mark.long]  # with databases of their own
SAMPLES = "dashboard/samples/spotter"
IMPORT = [sys.executable, "manage.py", "import_runs", "dashboard/samples", "--json"]
ROUNDS = 6
LOCKED_SECONDS = 30
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
    with disk_of("/base/") as disk, postgresql_store(tmp_path, variables=disk.variables) as (_, variables):
        session = sign_in(tmp_path / "store", variables)
        with running_server(
            tmp_path / "store", session, tmp_path / "log", "--workers", "1", variables=variables
        ) as server:
            for number in range(ROUNDS):
                assert_survives(server, number, disk.failing(kind))
        assert stored_calls(variables) == sorted(f"toolu_{number}" for number in range(ROUNDS))


def wait_for_database(cluster: RestartedCluster) -> None:
    """The database recovers by itself; where it ended itself, whoever looks after it starts it again."""

    def answers() -> bool:
        cluster.start_again()
        try:
            psycopg.connect(cluster.conninfo).close()
        except psycopg.OperationalError:
            return False
        return True

    assert wait_until(answers)


@pytest.mark.parametrize("kind", ["write", "sync", "full"])
def test_a_server_outlives_a_postgresql_whose_log_of_transactions_fails(kind: str, tmp_path: Path) -> None:
    """Then the server of the database ends all connections, and often itself; ours goes on."""
    with (
        disk_of("/pg_wal/") as disk,
        postgresql_store(tmp_path, variables=disk.variables, settings=DURABLE) as (cluster, variables),
    ):
        session, log = sign_in(tmp_path / "store", variables), tmp_path / "log"
        with running_server(tmp_path / "store", session, log, "--workers", "1", variables=variables) as server:
            refused, acknowledged = 0, set[str]()
            for number in range(ROUNDS):
                with disk.failing(kind):
                    answers = [upload(server, number), server.request("GET", "/runs/"), save_view(server, f"{number}")]
                assert {answer.status for answer in answers} <= ALLOWED
                refused += sum(answer.status >= 500 for answer in answers)
                wait_for_database(cluster)
                if answers[0].status == 200:
                    acknowledged.add(f"toolu_{number}")
                assert acknowledged <= set(stored_calls(variables))
                assert upload(server, number).status == 200
                acknowledged.add(f"toolu_{number}")
                assert_readable(server)
        assert refused
        assert stored_calls(variables) == sorted(acknowledged)
        assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("kind", ["write", "sync", "full", "read"])
@pytest.mark.parametrize("part", ["/base/", "/pg_wal/"])
def test_an_import_outlives_a_postgresql_whose_disk_fails(part: str, kind: str, tmp_path: Path) -> None:
    with (
        disk_of(part) as disk,
        postgresql_store(tmp_path, variables=disk.variables, settings=DURABLE) as (cluster, variables),
    ):
        importing = start_import(cluster, variables)
        with disk.failing(kind):
            out, error = importing.communicate(timeout=300)
        assert (importing.returncode, json.loads(out).get("ok", True)) in ((0, True), (75, False)), error
        assert b"Traceback" not in error
        wait_for_database(cluster)
        assert_continues(variables, tmp_path)


def start_import(cluster: RestartedCluster, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """An import of the samples that has written its first calls."""
    importing = subprocess.Popen(
        IMPORT, cwd=CHECKOUT, env=dict(variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with closing(psycopg.connect(cluster.conninfo, autocommit=True)) as other:
        count = "SELECT count(*) FROM dashboard_call"
        assert wait_until(lambda: importing.poll() is not None or other.execute(count).fetchone() != (0,))
    return importing


def assert_continues(variables: Mapping[str, str], tmp_path: Path) -> None:
    """The next import has the rest, the one after it nothing, and all is as in a store without faults."""
    for _ in range(2):
        done = subprocess.run(IMPORT, cwd=CHECKOUT, env=dict(variables), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stdout)["added"].values()) == 0
    whole = environment(migrated_store(tmp_path / "whole"))
    subprocess.run(IMPORT, cwd=CHECKOUT, env=whole, capture_output=True, check=True)
    samples = stored_calls(whole)
    assert [call for call in stored_calls(variables) if call in samples] == samples
    check = [sys.executable, "manage.py", "check_store"]
    done = subprocess.run(check, cwd=CHECKOUT, env=dict(variables), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


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
        importing = start_import(cluster, variables)
        cluster.stop()
        out, error = importing.communicate(timeout=120)
        assert (importing.returncode, json.loads(out)["ok"]) == (75, False), error
        assert b"Traceback" not in error
        cluster.start()
        assert_continues(variables, tmp_path)


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


def test_a_lock_of_30_seconds_on_postgresql_during_an_import_uploads_and_reading_passes(tmp_path: Path) -> None:
    with postgresql_store(tmp_path) as (cluster, variables):
        session, log = sign_in(tmp_path / "store", variables), tmp_path / "log"
        brief = variables | BRIEF_LOCK
        with running_server(tmp_path / "store", session, log, "--workers", "1", variables=brief) as server:
            assert upload(server, 1).status == 200
            importing = start_import(cluster, variables)
            with closing(psycopg.connect(cluster.conninfo)) as other:
                other.execute("LOCK TABLE dashboard_run, dashboard_call IN SHARE ROW EXCLUSIVE MODE")
                end, statuses = time.monotonic() + LOCKED_SECONDS, set[int]()
                while time.monotonic() < end:
                    statuses.add(upload(server, 2).status)
                    assert_readable(server)
                assert statuses == {503}
            out, error = importing.communicate(timeout=300)
            assert (importing.returncode, json.loads(out).get("ok", True)) in ((0, True), (75, False)), error
            assert b"Traceback" not in error
            assert upload(server, 2).status == 200
            assert_readable(server)
        assert_continues(variables, tmp_path)
        assert {"toolu_1", "toolu_2"} <= set(stored_calls(variables))
        assert "Traceback" not in log.read_text()
