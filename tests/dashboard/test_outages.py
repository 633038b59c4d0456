"""An outage of the database or a disk is answered with a status, a sentence and a time to retry; reading goes on."""

from __future__ import annotations

import errno
import gc
import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import django.db
import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.utils import load_backend
from django.test import Client

from dashboard.faults import BUSY, FAILING, FULL, READ_ONLY, TRY_AGAIN, UNREACHABLE, Outage, find_outage
from dashboard.models import Project
from tests.cases import each, extended_except
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import parse_page
from tests.faults.imports import environment, migrated_store

UNWRITABLE = (
    "PRAGMA query_only=ON",
    "PRAGMA query_only=OFF",
    "SET CONSTRAINTS ALL IMMEDIATE; SET TRANSACTION READ ONLY",
)
needs_sqlite = pytest.mark.skipif("connection.vendor != 'sqlite'")


@contextmanager
def fault(sqlite: str, after: str, postgresql: str) -> Iterator[None]:
    """Makes the database refuse writes in earnest, within the transaction of the test."""
    with connection.cursor() as cursor:
        cursor.execute(sqlite if connection.vendor == "sqlite" else postgresql)
    yield
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(after)


def test_a_store_that_cannot_be_written_is_read_and_refuses_changes_in_words(
    operator_client: Client, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    run = create_run(project, title="Ledger run")
    operator_client.raise_request_exception = False
    with fault(*UNWRITABLE):
        for address in ("/runs/", run.get_absolute_url(), f"{run.get_absolute_url()}context", "/problems/"):
            assert operator_client.get(address).status_code == 200
        with caplog.at_level(logging.ERROR):
            response = operator_client.post("/runs/views/", {"name": "Mine", "q": "", "sort": ""})
    assert (response.status_code, response["Retry-After"]) == (503, "30")
    assert parse_page(response).by_role("heading", "The store is read-only")
    assert [record.exc_info for record in caplog.records] == [None]
    assert caplog.messages[0].startswith("The store is read-only: /runs/views/ (")


@pytest.mark.django_db
@pytest.mark.postgresql
def test_a_check_of_receipts_that_cannot_store_its_result_is_an_outage_and_no_failed_check() -> None:
    with (
        fault(*UNWRITABLE),
        pytest.raises(DatabaseError) as refused,
        transaction.atomic(),
    ):
        call_command("check_receipts")
    assert find_outage(refused.value) is READ_ONLY


@pytest.mark.django_db
@pytest.mark.postgresql
@pytest.mark.parametrize("command", ["share", "export_run"])
def test_an_export_that_the_audit_log_cannot_have_writes_nothing(
    project: Project, tmp_path: Path, command: str
) -> None:
    run = create_run(project)
    with fault(*UNWRITABLE), pytest.raises(DatabaseError), transaction.atomic():
        call_command(command, str(run.pk), str(tmp_path / "target"))
    assert list(tmp_path.iterdir()) == []


def _fill_free_pages() -> None:
    """Uses the pages that other tests have left free in the file; undone with the test."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_size")
        size = cursor.fetchone()[0]
        cursor.execute("PRAGMA freelist_count")
        cursor.execute("CREATE TABLE filler AS SELECT zeroblob(%s) AS bytes", [cursor.fetchone()[0] * size])


@needs_sqlite
def test_a_full_disk_is_507_and_passes_without_a_restart(operator_client: Client, project: Project) -> None:
    operator_client.raise_request_exception = False
    view = {"name": "Mine", "q": "x" * 1_900, "sort": ""}
    _fill_free_pages()
    with fault("PRAGMA max_page_count=1", "PRAGMA max_page_count=1073741823", ""):
        responses = [operator_client.post("/runs/views/", view | {"name": f"{number}"}) for number in range(9)]
        assert responses[-1].status_code == 507
        assert responses[-1]["Retry-After"] == "30"
        assert parse_page(responses[-1]).by_role("heading", "The disk is full")
        assert not parse_page(responses[-1]).select('a[href=""]')  # the form would be lost
        assert operator_client.get("/runs/").status_code == 200
    assert {response.status_code for response in responses} <= {302, 507}
    assert operator_client.post("/runs/views/", view).status_code == 302


@pytest.mark.django_db
@pytest.mark.rendering
@needs_sqlite
@pytest.mark.parametrize("options", extended_except(["", "--json"], "--json"))
def test_a_command_ends_with_a_sentence_and_a_status(tmp_path: Path, options: str) -> None:
    store = migrated_store(tmp_path / "store")
    with closing(sqlite3.connect(store / "counterfoil.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        done = subprocess.run(
            [sys.executable, "manage.py", "create_user", "dora", *options.split()],
            cwd=CHECKOUT,
            env=environment(store) | {"COUNTERFOIL_LOCK_SECONDS": "0.1"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == TRY_AGAIN
    sentence = f"{BUSY.title}. {BUSY.sentence}"
    if options:
        assert json.loads(done.stdout) == {"ok": False, "error": sentence, "detail": "database is locked"}
        assert done.stderr == ""
    else:
        assert done.stderr == f"CommandError: {sentence}\n(database is locked)\n"


def sqlite_error(database: Path, statement: str) -> Exception:
    """The error of a statement, as Django raises it, on a database of its own."""
    wrapper = load_backend("dashboard.store_sqlite3").DatabaseWrapper(
        connection.settings_dict | {"NAME": str(database), "OPTIONS": {"timeout": 0}}, "other"
    )
    try:
        with wrapper.cursor() as cursor:
            cursor.execute(statement)
    except DatabaseError as error:
        return error
    finally:
        wrapper.close()
    raise AssertionError("nothing failed")


@needs_sqlite
@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")  # from Python 3.13 on
def test_errors_of_sqlite_are_outages_or_faults_of_ours(tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"no database" * 1_000)
    with closing(sqlite3.connect(tmp_path / "locked")) as other:
        other.execute("CREATE TABLE t (a)")
        other.execute("BEGIN EXCLUSIVE")
        assert find_outage(sqlite_error(tmp_path / "locked", "SELECT * FROM t")) is BUSY
    assert find_outage(sqlite_error(tmp_path / "garbage", "SELECT * FROM t")) is FAILING
    assert find_outage(sqlite_error(tmp_path / "no" / "folder", "SELECT 1")) is UNREACHABLE
    assert find_outage(sqlite_error(tmp_path / "empty", "SELECT * FROM nothing")) is None
    gc.collect(1)  # the young ones, among them connections that Django leaves open when the first statement fails


@each(
    ("error", "outage"),
    [
        (psycopg.errors.DiskFull(), FULL),
        (psycopg.errors.ReadOnlySqlTransaction(), READ_ONLY),
        (psycopg.errors.AdminShutdown(), UNREACHABLE),
        (psycopg.errors.CannotConnectNow(), UNREACHABLE),
        (psycopg.errors.TooManyConnections(), UNREACHABLE),
        (psycopg.errors.LockNotAvailable(), BUSY),
        (psycopg.errors.DeadlockDetected(), BUSY),
        (psycopg.errors.DataCorrupted(), FAILING),
        (psycopg.OperationalError("the connection is closed"), UNREACHABLE),
        (psycopg.InterfaceError("connection already closed"), UNREACHABLE),
        (psycopg.errors.UndefinedTable(), None),
        (psycopg.errors.UniqueViolation(), None),
    ],
)
def test_errors_of_postgresql_are_outages_or_faults_of_ours(error: psycopg.Error, outage: Outage | None) -> None:
    kind = next(
        kind for kind in type(error).__mro__ if kind.__module__ == "psycopg" and hasattr(django.db, kind.__name__)
    )
    wrapped = getattr(django.db, kind.__name__)(*error.args)
    wrapped.__cause__ = error
    assert find_outage(wrapped) is outage


@each(
    ("code", "outage"),
    [
        (errno.ENOSPC, FULL),
        (errno.EDQUOT, FULL),
        (errno.EROFS, READ_ONLY),
        (errno.EIO, FAILING),
        (errno.EMFILE, UNREACHABLE),
        (errno.ENOENT, None),
    ],
)
def test_errors_of_files_are_outages_too(code: int, outage: Outage | None) -> None:
    error = ValueError("raised while the other was handled")
    error.__context__ = OSError(code, "of the system")
    assert find_outage(error) is outage


def test_no_error_is_no_outage() -> None:
    assert find_outage(None) is None
    assert find_outage(OperationalError("without a cause")) is None


@pytest.mark.postgresql
@pytest.mark.django_db
def test_no_statement_waits_for_a_lock_without_end() -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout" if connection.vendor == "sqlite" else "SHOW lock_timeout")
        assert cursor.fetchone() in ((20_000,), ("20s",))
