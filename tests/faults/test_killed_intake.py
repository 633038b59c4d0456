"""The server is killed while programs send records: nothing that it acknowledged is lost, nothing is stored twice.

python -m pytest -m long tests/faults/test_killed_intake.py
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.dashboard.api.sending import NDJSON, lines, one_call
from tests.faults.imports import manage, migrated_store, rows
from tests.faults.server import RunningServer, running_server, sign_in

WRITERS = 8
RESTART_SECONDS = 5.0


class Writer(threading.Thread):
    """Sends batches of one call until the connection breaks; `sent` has all ids, `acknowledged` the answered ones."""

    def __init__(self, server: RunningServer, token: str, name: str) -> None:
        super().__init__(name=name)
        self.port, self.token = server.port, token
        self.sent: list[tuple[str, bytes]] = []
        self.acknowledged: list[str] = []
        self.first = threading.Event()

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": NDJSON}
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with suppress(OSError, ValueError, http.client.HTTPException), closing(client) as connection:
            for number in range(10_000):
                run = f"{self.name}-{number}"
                body = lines(one_call(number, run))
                self.sent.append((run, body))
                connection.request("POST", "/api/v1/records", body, headers)
                with connection.getresponse() as response:
                    answer = json.loads(response.read())
                if response.status == 200 and answer["accepted"] == 3:
                    self.acknowledged.append(run)
                self.first.set()


@pytest.mark.parametrize(
    "rounds", [pytest.param(3, marks=pytest.mark.extended), pytest.param(100, marks=pytest.mark.long)]
)
def test_a_killed_server_has_lost_nothing_that_it_acknowledged(rounds: int, tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    token = json.loads(manage(store, "create_token", "writers", "--json").stdout)["token"]
    session, log, chance = sign_in(store), tmp_path / "log", random.Random(4)
    sent: dict[str, bytes] = {}
    acknowledged: list[str] = []
    for number in range(rounds):
        began = time.monotonic()
        with running_server(store, session, log, "--background", "0") as server:
            took = time.monotonic() - began
            assert number == 0 or rounds < 100 or took < RESTART_SECONDS  # a busy machine takes longer to start Python
            writers = [Writer(server, token, f"round{number}-writer{index}") for index in range(WRITERS)]
            for writer in writers:
                writer.start()
            assert all(writer.first.wait(60) for writer in writers)
            time.sleep(chance.uniform(0, 0.3))
            for process in reversed(server.processes()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for writer in writers:
                writer.join(60)
                sent |= dict(writer.sent)
                acknowledged += writer.acknowledged
    assert rows(store, "PRAGMA integrity_check") == [("ok",)]
    stored = [run for (run,) in rows(store, "SELECT external_id FROM dashboard_run")]
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored) <= set(sent)
    halves = "SELECT count(*) FROM dashboard_observation WHERE surface IN ('result', 'receipt')"
    assert rows(store, halves) == [(2 * len(stored),)]
    with running_server(store, session, log, "--background", "0") as server:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": NDJSON}
        known = [run for run in acknowledged if run in sent][:50]
        for run in known:
            answer = json.loads(server.request("POST", "/api/v1/records", sent[run], headers).body)
            assert (answer["accepted"], answer["already_known"]) == (0, 3), run
    assert rows(store, "SELECT count(*) FROM dashboard_run") == [(len(stored),)]
