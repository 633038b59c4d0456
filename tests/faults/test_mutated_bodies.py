"""Damaged bodies for every address of the intake, sent to the real server: no 5xx, no worker that dies, no traceback.

python -m pytest -m long -s tests/faults/test_mutated_bodies.py
"""

from __future__ import annotations

import http.client
import json
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.imports import manage, migrated_store, rows, wait_until
from tests.faults.intake_load import UNLIMITED
from tests.faults.mutated_bodies import Body, mutated_bodies, whole_bodies
from tests.faults.server import RunningServer, running_server, sign_in


@pytest.mark.parametrize(
    "count", [pytest.param(2_000, marks=pytest.mark.extended), pytest.param(100_000, marks=pytest.mark.long)]
)
def test_no_mutated_body_is_answered_with_a_server_error(count: int, tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    tokens = {
        scope: json.loads(manage(store, "create_token", scope, "--scope", scope, "--json").stdout)["token"]
        for scope in ("ingest", "mcp")
    }
    options = ("--background", "0", "--workers", "2")
    with running_server(store, sign_in(store), tmp_path / "log", *options, variables=UNLIMITED) as server:
        assert wait_until(lambda: len(server.processes()) == 3), "the master and two workers"
        processes = server.processes()
        statuses: Counter[int] = Counter()
        for body in mutated_bodies(random.Random(count), count):
            status = send(server, tokens, body)
            assert status < 500, body
            statuses[status] += 1
        assert [send(server, tokens, body) for body in whole_bodies()] == [200] * len(whole_bodies())
        assert server.processes() == processes
    print(f"\n{count:,} bodies: {dict(sorted(statuses.items()))}")
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert rows(store, "PRAGMA integrity_check") == [("ok",)]


def send(server: RunningServer, tokens: dict[str, str], body: Body) -> int:
    headers = {"Authorization": f"Bearer {tokens[body.scope]}", "Content-Type": body.content_type, **body.headers}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as connection:
        connection.request(body.method, body.address, body.data, headers)
        with connection.getresponse() as response:
            response.read()
            return response.status
