"""Programs that send to the intake as fast as it answers, and know what it acknowledged."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from envelopes.storage.file_store import FileStore
from tests.dashboard.api.native_records import NDJSON, lines, one_call
from tests.dashboard.api.test_traces import genai, request
from tests.faults.imports import rows
from tests.faults.server import RunningServer

KINDS = ("records", "traces", "records", "content")  # of one writer after another
UNLIMITED = {"COUNTERFOIL_TOKEN_RATE": "1000000"}


@dataclass(frozen=True)
class Sent:
    """One request. `key` is the id of the run that it adds, or the hash of the content."""

    key: str
    method: str
    address: str
    content_type: str
    body: bytes

    def send(self, connection: http.client.HTTPConnection, token: str) -> bool:
        """True when it was acknowledged in whole."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": self.content_type}
        connection.request(self.method, self.address, self.body, headers)
        with connection.getresponse() as response:
            answer = json.loads(response.read())
        return response.status == 200 and not answer.get("rejected") and not answer.get("partialSuccess")


def make_request(kind: str, key: str) -> Sent:
    if kind == "content":
        body = random.Random(key).randbytes(5_000)
        sha256 = hashlib.sha256(body).hexdigest()
        return Sent(sha256, "PUT", f"/api/v1/artifacts/{sha256}", "application/octet-stream", body)
    if kind == "traces":
        trace = hashlib.sha256(key.encode()).hexdigest()[:32]
        text = json.dumps(request(*genai())).replace("ab" * 16, trace).replace('"talk"', json.dumps(key))
        return Sent(key, "POST", "/v1/traces", "application/json", text.encode())
    return Sent(key, "POST", "/api/v1/records", NDJSON, lines(one_call(1, key)))


class Writer(threading.Thread):
    """Sends one request after the other until the connection breaks or `ended` is set."""

    def __init__(self, server: RunningServer, token: str, name: str, kind: str) -> None:
        super().__init__(name=name)
        self.port, self.token, self.kind = server.port, token, kind
        self.sent: list[Sent] = []
        self.acknowledged: list[Sent] = []
        self.first, self.ended = threading.Event(), threading.Event()

    def run(self) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with suppress(OSError, ValueError, http.client.HTTPException), closing(client) as connection:
            for number in range(100_000):
                if self.ended.is_set():
                    break
                sent = make_request(self.kind, f"{self.name}-{number}")
                self.sent.append(sent)
                if sent.send(connection, self.token):
                    self.acknowledged.append(sent)
                self.first.set()


def start_writers(server: RunningServer, token: str, name: str, count: int) -> list[Writer]:
    """Returns when each has had an answer."""
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    writers = [Writer(server, token, f"{name}-{kind}-{number}", kind) for number, kind in enumerate(kinds)]
    for writer in writers:
        writer.start()
    assert all(writer.first.wait(60) for writer in writers)
    return writers


def find_stored(store: Path) -> list[str]:
    """The keys of everything that is stored in whole: runs with a call that has both halves, and readable contents.

    A key is listed as often as it is stored.
    """
    halves = """
        SELECT r.external_id, count(DISTINCT c.id), count(*) FROM dashboard_run r
        JOIN dashboard_call c ON c.run_id = r.id JOIN dashboard_observation o ON o.call_id = c.id
        WHERE o.surface IN ('result', 'receipt') GROUP BY r.id
    """
    runs = [str(key) for key, calls, surfaces in rows(store, halves) if (calls, surfaces) == (1, 2)]
    contents = [str(key) for (key,) in rows(store, "SELECT sha256 FROM dashboard_sentcontent")]
    return runs + [sha256 for sha256 in contents if _is_readable(store, sha256)]


def _is_readable(store: Path, sha256: str) -> bool:
    try:
        with FileStore(store / "artifacts").open(sha256) as stream:
            return hashlib.sha256(stream.read()).hexdigest() == sha256
    except (LookupError, OSError):
        return False
