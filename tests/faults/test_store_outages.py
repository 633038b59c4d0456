"""The real server while its store is locked, full or read-only: nothing acknowledged is lost, and it needs no restart.

python -m pytest -m long tests/faults/test_store_outages.py
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.conftest import CHECKOUT
from tests.dashboard.sessions import answers, asks, user
from tests.faults.imports import digest, environment, manage, migrated_store, rows
from tests.faults.intake_load import Sent, find_stored, make_request
from tests.faults.server import Answer, RunningServer, running_server, sign_in
from tests.postgresql import restarted_cluster

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BRIEF_LOCK = {"COUNTERFOIL_LOCK_SECONDS": "0.3"}
ALLOWED = {200, 302, 503, 507}
pytestmark = [pytest.mark.django_db, pytest.mark.rendering]  # SQLite, whatever the tests' own database is


@contextmanager
def small_disk(folder: Path, *, megabytes: int = 24) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine lets us mount nothing")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def full_disk(disk: Path) -> Iterator[None]:
    """Leaves no room on the disk until the end."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def write_lock(store: Path) -> Iterator[None]:
    with closing(sqlite3.connect(store / "counterfoil.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def save_view(server: RunningServer, name: str) -> Answer:
    return server.request("POST", "/runs/views/", urlencode({"name": name, "q": "", "sort": ""}).encode(), FORM)


def upload(server: RunningServer, number: int) -> Answer:
    """A recording with a call of its own."""
    session, call = f"0f5f6d8e-0000-4000-8000-{number:012}", f"toolu_{number}"
    lines = [user("Look around.", uuid=f"u{number}"), asks(call), answers(call, "x" * 2_000)]
    text = "".join(json.dumps(line | {"sessionId": session}) + "\n" for line in lines)
    head = f'--b\r\nContent-Disposition: form-data; name="files"; filename="{session}.jsonl"\r\n\r\n'
    body = f"{head}{text}\r\n--b--\r\n".encode()
    return server.request("POST", "/runs/import/", body, {"Content-Type": "multipart/form-data; boundary=b"})


def assert_refused(answer: Answer, status: int, title: str) -> None:
    assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (status, True)
    assert title in answer.body.decode()


def assert_readable(server: RunningServer) -> None:
    for address in ("/runs/", "/runs/?project=default", "/problems/", "/tools/", "/docs/", "/healthz"):
        assert server.request("GET", address).status == 200, address


@pytest.mark.extended
def test_the_server_reads_through_a_lock_and_a_full_disk_and_needs_no_restart(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = migrated_store(disk / "store")
        session = sign_in(store)
        log = tmp_path / "log"
        with running_server(store, session, log, "--workers", "1", "--background", "0", variables=BRIEF_LOCK) as server:
            assert upload(server, 1).status == 200
            with write_lock(store):
                assert_readable(server)
                assert_refused(save_view(server, "locked"), 503, "The database is busy")
                assert_refused(upload(server, 2), 503, "The database is busy")
            assert upload(server, 2).status == 200
            with full_disk(disk):
                assert_readable(server)
                assert_refused(upload(server, 3), 507, "The disk is full")
                assert_refused(upload(server, 3), 507, "The disk is full")
            assert [upload(server, 3).status, save_view(server, "after").status] == [200, 302]
        assert rows(store, "SELECT external_id FROM dashboard_call ORDER BY 1") == [
            ("toolu_1",),
            ("toolu_2",),
            ("toolu_3",),
        ]
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]
        assert "Traceback" not in log.read_text()


@pytest.mark.extended
def test_programs_read_through_a_lock_and_a_full_disk_and_are_told_when_to_send_again(tmp_path: Path) -> None:
    sent = [make_request(kind, f"{kind}-{number}") for number, kind in enumerate(("records", "traces", "content"))]
    with small_disk(tmp_path / "disk") as disk:
        store = migrated_store(disk / "store")
        headers = {scope: authorise(store, scope) for scope in ("ingest", "read")}
        with running_server(store, "", tmp_path / "log", "--background", "0", variables=BRIEF_LOCK) as server:

            def send(entry: Sent) -> Answer:
                own = headers["ingest"] | {"Content-Type": entry.content_type}
                return server.request(entry.method, entry.address, entry.body, own)

            with write_lock(store):
                assert server.request("GET", "/api/v1/runs", headers=headers["read"]).status == 200
                for entry in sent:
                    assert_refused(send(entry), 503, "The database is busy")
            with full_disk(disk):
                assert server.request("GET", "/api/v1/runs", headers=headers["read"]).status == 200
                for entry in sent:
                    answer = send(entry)
                    assert (answer.status, int(answer.headers["Retry-After"]) > 0) == (507, True), answer
            assert [send(entry).status for entry in sent] == [200, 200, 200]
        assert sorted(find_stored(store)) == sorted(entry.key for entry in sent)
        assert "Traceback" not in (tmp_path / "log").read_text()


def authorise(store: Path, scope: str) -> dict[str, str]:
    made = json.loads(manage(store, "create_token", scope, "--scope", scope, "--json").stdout)
    return {"Authorization": f"Bearer {made['token']}"}


@pytest.mark.extended
def test_serve_on_a_read_only_store_serves_reading(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = migrated_store(disk / "store")
        session = sign_in(store)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with running_server(store, session, tmp_path / "log", "--workers", "1", "--background", "1") as server:
            assert_readable(server)
            assert_refused(save_view(server, "mine"), 503, "The store is read-only")
            assert_refused(upload(server, 1), 503, "The store is read-only")
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
            assert save_view(server, "mine").status == 302
            assert upload(server, 1).status == 200
        assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.long
def test_an_import_under_a_lock_of_30_seconds_ends_in_words_and_continues(tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    command = [sys.executable, "manage.py", "import_runs", "dashboard/samples", "--json"]
    with write_lock(store):
        begin = time.monotonic()
        done = subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True)
        assert 15 < time.monotonic() - begin < 60
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (75, False)
    assert "Traceback" not in done.stderr
    whole = migrated_store(tmp_path / "whole")
    for target in (store, whole):
        subprocess.run(command, cwd=CHECKOUT, env=environment(target), capture_output=True, check=True)
    assert digest(store) == digest(whole)


@pytest.mark.long
def test_a_disk_that_fills_up_during_imports_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The disk is filled and freed again and again between uploads; what was sent twice is there once."""
    with small_disk(tmp_path / "disk") as disk:
        store = migrated_store(disk / "store")
        session = sign_in(store)
        acknowledged = []
        with running_server(store, session, tmp_path / "log", "--workers", "2", variables=BRIEF_LOCK) as server:
            for number in range(30):
                with full_disk(disk) if number % 3 else nullcontext():
                    answer = upload(server, number)
                assert answer.status in ALLOWED
                acknowledged += [f"toolu_{number}"] if answer.status == 200 else []
            statuses = {upload(server, number).status for number in range(30)}
        assert statuses == {200}
        calls = [str(key) for (key,) in rows(store, "SELECT external_id FROM dashboard_call")]
        assert sorted(calls) == sorted(f"toolu_{number}" for number in range(30))
        assert set(acknowledged) <= set(calls)
        assert rows(store, "PRAGMA integrity_check") == [("ok",)]


CALLS = """
import django
django.setup()
from dashboard.models import Call
print(*sorted(Call.objects.values_list("external_id", flat=True)), sep="\\n")
"""


@pytest.mark.long
def test_a_postgresql_that_restarts_again_and_again_loses_nothing_acknowledged(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with restarted_cluster() as cluster:
        variables = {"DATABASE_URL": cluster.url}
        own = environment(store) | variables
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=CHECKOUT, env=own, check=True)
        session = sign_in(store, variables)
        with running_server(store, session, tmp_path / "log", "--workers", "1", variables=variables) as server:
            statuses, acknowledged = Counter[int](), list[str]()
            for number in range(40):
                if number % 8 == 4:
                    cluster.stop()
                answer = upload(server, number)
                acknowledged += [f"toolu_{number}"] if answer.status == 200 else []
                statuses.update([answer.status, server.request("GET", "/runs/").status])
                if number % 8 == 6:
                    cluster.start()
            assert set(statuses) == {200, 503}
            assert_readable(server)
        done = subprocess.run([sys.executable, "-c", CALLS], cwd=CHECKOUT, env=own, capture_output=True, text=True)
        assert done.stdout.split() == sorted(acknowledged)
        assert "Traceback" not in (tmp_path / "log").read_text()
