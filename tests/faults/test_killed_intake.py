"""The server is killed while programs send: nothing that it acknowledged is lost, nothing is stored twice.

    COUNTERFOIL_KILLS=100 python -m pytest -m long -s tests/faults/test_killed_intake.py

Records, traces and contents of artifacts come from eight writers at once. `-s` prints how long the server took to
answer again after each kill.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.faults.imports import manage, migrated_store, rows
from tests.faults.intake_load import UNLIMITED, Sent, find_stored, start_writers
from tests.faults.server import RunningServer, running_server, sign_in

WRITERS = 8
RESTART_SECONDS = 5.0
SENT_AGAIN = 2_000
KILLS = int(os.environ.get("COUNTERFOIL_KILLS", "100"))


@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.extended), pytest.param(KILLS, marks=pytest.mark.long, id="all")]
)
def test_a_killed_server_has_lost_nothing_that_it_acknowledged(kills: int, tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    token = json.loads(manage(store, "create_token", "writers", "--json").stdout)["token"]
    session, log, chance = sign_in(store), tmp_path / "log", random.Random(4)
    sent: dict[str, Sent] = {}
    acknowledged: set[str] = set()
    restarts = list[tuple[float, float]]()  # seconds until the first answer, and of the processor
    for number in range(kills + 1):
        began = time.monotonic()
        with running_server(store, session, log, "--background", "0", variables=UNLIMITED) as server:
            restarts.append((time.monotonic() - began, server.cpu_seconds()))
            if number == kills:
                break
            writers = start_writers(server, token, f"kill{number}", WRITERS)
            time.sleep(chance.uniform(0, 0.3))
            for process in reversed(server.processes()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for writer in writers:
                writer.join(60)
                sent |= {entry.key: entry for entry in writer.sent}
                acknowledged |= {entry.key for entry in writer.acknowledged}
    waits = sorted(wait for wait, _ in restarts[1:])
    work = max(seconds for _, seconds in restarts[1:])
    print(
        f"\n{kills} kills, {len(sent):,} sent, {len(acknowledged):,} acknowledged; restart: median "
        f"{waits[kills // 2]:.2f} s, at most {waits[-1]:.2f} s, of the processor at most {work:.2f} s"
    )
    assert rows(store, "PRAGMA integrity_check") == [("ok",)]
    stored = find_stored(store)
    assert len(stored) == len(set(stored))
    assert acknowledged - set(stored) == set()
    assert set(stored) <= set(sent)
    again = [key for key in sent if key not in acknowledged]  # whether it is stored nobody knows
    again += chance.sample(sorted(acknowledged), min(len(acknowledged), SENT_AGAIN))
    with running_server(store, session, log, "--background", "0", variables=UNLIMITED) as server:
        assert are_acknowledged(server, token, [sent[key] for key in again])
    assert sorted(find_stored(store)) == sorted(sent)
    # Other programs may keep a machine busy for seconds, so of a single restart the processor's time is bounded.
    assert work < RESTART_SECONDS
    assert waits[kills // 2] < RESTART_SECONDS or kills < KILLS


def are_acknowledged(server: RunningServer, token: str, requests: list[Sent]) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        return all(sent.send(connection, token) for sent in requests)
