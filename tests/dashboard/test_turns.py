"""Connections that write one transaction after the other leave a turn to those that wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

from dashboard.faults import BUSY, find_outage
from dashboard.store_sqlite3.base import LONGEST_LOG

pytestmark = [pytest.mark.django_db, pytest.mark.skipif("connection.vendor != 'sqlite'")]
TRANSACTIONS = 10
Connect = Callable[..., BaseDatabaseWrapper]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Opens connections to one database, with the options of the settings; each may be used by any thread."""
    opened: list[BaseDatabaseWrapper] = []

    def open_connection(timeout: float = 20.0) -> BaseDatabaseWrapper:
        options = {
            "transaction_mode": "IMMEDIATE",
            "timeout": timeout,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE IF NOT EXISTS t (a)",
        }
        settings = connection.settings_dict | {"NAME": str(tmp_path / "database"), "OPTIONS": options}
        opened.append(load_backend("dashboard.store_sqlite3").DatabaseWrapper(settings, "other"))
        opened[-1].inc_thread_sharing()
        opened[-1].ensure_connection()
        return opened[-1]

    yield open_connection
    for wrapper in opened:
        wrapper.close()


def write(wrapper: BaseDatabaseWrapper, *, seconds: float = 0.0, begun: threading.Event | None = None) -> None:
    """One transaction, which lasts at least so long and says when it has begun."""
    wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    end = time.monotonic() + seconds
    with wrapper.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1)")
        if begun is not None:
            begun.set()
        while time.monotonic() < end:
            cursor.execute("SELECT count(*) FROM t")
    wrapper.commit()
    wrapper.set_autocommit(True)


def test_a_connection_waits_for_one_transaction_of_another_that_never_pauses(connect: Connect) -> None:
    busy, other = connect(), connect()
    is_over, begun, written, meanwhile = threading.Event(), threading.Event(), list[float](), 0

    def write_on() -> None:
        while not is_over.is_set():
            write(busy, seconds=0.1, begun=begun)
            written.append(time.monotonic())

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(write_on)
        try:
            for _ in range(TRANSACTIONS):
                begun.clear()
                assert begun.wait(timeout=60), "the other one writes"
                before = len(written)
                write(other)
                meanwhile += len(written) - before
        finally:
            is_over.set()
        job.result()
    assert 0 < meanwhile <= 2 * TRANSACTIONS


def test_a_connection_waits_no_longer_than_its_timeout(connect: Connect) -> None:
    busy, other = connect(), connect(timeout=0.2)
    with busy.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        begin = time.monotonic()
        with pytest.raises(OperationalError) as caught:
            write(other)
        assert 0.2 <= time.monotonic() - begin < 5
        assert find_outage(caught.value) is BUSY
        cursor.execute("COMMIT")


def test_who_waits_for_its_turn_behind_another_gives_up_at_its_own_timeout(connect: Connect) -> None:
    busy, patient, other = connect(), connect(), connect(timeout=0.2)
    with busy.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("BEGIN IMMEDIATE")
        job = pool.submit(write, patient)
        with pytest.raises(OperationalError):
            write(other)
        assert not job.done()
        cursor.execute("COMMIT")
        job.result()
    with other.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM t")
        assert cursor.fetchone() == (1,)


def test_the_log_stays_short_while_there_is_always_a_writer(connect: Connect, tmp_path: Path) -> None:
    """No commit moves it into the database here, as where the next writer has always begun before that is done."""
    blob, longest = "x" * 1_000_000, [0]

    def write_on(wrapper: BaseDatabaseWrapper) -> None:
        for _ in range(60):
            wrapper.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
            with wrapper.cursor() as cursor:
                cursor.execute("INSERT INTO t VALUES (%s)", [blob])
            wrapper.commit()
            wrapper.set_autocommit(True)
            longest.append((tmp_path / "database-wal").stat().st_size)

    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(write_on, connect()) for _ in range(2)]:
            job.result()
    assert LONGEST_LOG < max(longest) < 2 * LONGEST_LOG
