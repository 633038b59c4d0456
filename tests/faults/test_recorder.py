"""A recorder and the real server: what was recorded is stored once, whichever of the two is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envelopes.recorder import LiveRecorder
from envelopes.recorder.spool import REJECTED
from tests.conftest import CHECKOUT
from tests.faults.imports import environment, migrated_store, rows, wait_until
from tests.faults.server import running_server, sign_in

pytestmark = pytest.mark.extended

CALLS = 400
PROGRAM = """
import sys
from pathlib import Path
from envelopes.recorder import LiveRecorder
recorder = LiveRecorder(Path(sys.argv[1]), sys.argv[2], sys.argv[3], is_synced=False)
with recorder.run("r1", title="Sums") as run:
    for number in range(int(sys.argv[4])):
        call = run.call("add", {"a": number}, call=f"c{number}")
        run.result(call, {"sum": number, "text": "line\\n" * 40})
        run.receipt(call, f"The sum is {number}.")
        print(number, flush=True)
    sys.stdin.read()
"""


def test_a_killed_server_and_a_killed_recorder_lose_and_double_nothing(tmp_path: Path) -> None:
    migrated = migrated_store(tmp_path / "store")
    spool = tmp_path / "spool"
    made = subprocess.run(
        [sys.executable, "manage.py", "create_token", "agents", "--scope", "ingest", "--json"],
        cwd=CHECKOUT,
        env=environment(migrated),
        capture_output=True,
        check=True,
    )
    token = json.loads(made.stdout)["token"]
    session = sign_in(migrated)
    with running_server(migrated, session, tmp_path / "first.log") as server:
        command = [sys.executable, "-c", PROGRAM, str(spool), f"http://127.0.0.1:{server.port}", token, str(CALLS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
            assert wait_until(lambda: _stored(migrated) > 0)
            for process in server.processes():
                os.kill(process, 9)
            assert agent.stdout is not None
            lines = iter(agent.stdout.readline, b"%d\n" % (CALLS - 1))
            recorded = 1 + sum(1 for _ in lines)
            agent.kill()
    assert recorded == CALLS
    with running_server(migrated, session, tmp_path / "second.log") as server:
        with LiveRecorder(spool, f"http://127.0.0.1:{server.port}", token) as recorder:
            assert recorder.close(60)
        assert wait_until(lambda: not rows(migrated, "SELECT 1 FROM dashboard_call WHERE derivation = '' LIMIT 1"))
        page = server.request("GET", "/runs/", headers={"Accept": "text/html"})
    assert b"Sums" in page.body
    assert not (spool / REJECTED).exists()
    assert not list(spool.glob("*-*-*.jsonl"))[1:]  # the second recorder's own, which is empty, may be there
    counts = "SELECT count(*), count(DISTINCT external_id), sum(receipt_count) FROM dashboard_call"
    assert rows(migrated, counts) == [(CALLS, CALLS, CALLS)]
    assert rows(migrated, "SELECT count(*) FROM dashboard_problem") == [(0,)]
    receipts = rows(migrated, "SELECT first_line FROM dashboard_call ORDER BY line")
    assert receipts == [(f"The sum is {number}.",) for number in range(CALLS)]


def _stored(store: Path) -> object:
    return rows(store, "SELECT count(*) FROM dashboard_call")[0][0] or 0
