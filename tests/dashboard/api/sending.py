"""What the tests of the intake share: a client with a token, native records, and the export of all runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.http import HttpResponse
from django.test import Client

from dashboard.ingest.derivation import derive_waiting
from dashboard.models import Project
from dashboard.runs.export_run import export_run
from dashboard.tokens import create_token

NDJSON = "application/x-ndjson"


class Sender:
    """A program with a token for one project."""

    def __init__(self, project: Project, scope: str = "ingest") -> None:
        self.token = create_token(project, f"{scope} of a test", scope, by="test")
        self._client = Client()

    @property
    def raises(self) -> bool:
        """False: an exception is answered as the server answers it."""
        return self._client.raise_request_exception

    @raises.setter
    def raises(self, value: bool) -> None:
        self._client.raise_request_exception = value

    def post(self, address: str, body: bytes, content_type: str = NDJSON, **headers: str) -> HttpResponse:
        headers = {"Authorization": f"Bearer {self.token}"} | {
            name.replace("_", "-"): headers[name] for name in headers
        }
        return self._client.post(address, body, content_type=content_type, headers=headers)  # type: ignore[return-value]

    def put(self, address: str, body: bytes) -> HttpResponse:
        headers = {"Authorization": f"Bearer {self.token}"}
        return self._client.put(address, body, content_type="application/octet-stream", headers=headers)  # type: ignore[return-value]

    def get(self, address: str) -> HttpResponse:
        return self._client.get(address, headers={"Authorization": f"Bearer {self.token}"})  # type: ignore[return-value]

    def records(self, records: Iterable[Any], *, packed: bool = False, **headers: str) -> dict[str, Any]:
        """The answer to native records; bytes are lines as they are."""
        body = lines(records)
        if packed:
            body, headers = gzip.compress(body), headers | {"Content_Encoding": "gzip"}
        response = self.post("/api/v1/records", body, **headers)
        answer: dict[str, Any] = json.loads(response.content)
        return answer | {"status": response.status_code}


def lines(records: Iterable[Any]) -> bytes:
    return b"".join((entry if isinstance(entry, bytes) else json.dumps(entry).encode()) + b"\n" for entry in records)


def one_call(number: int = 1, run: str = "r1") -> list[dict[str, Any]]:
    """The records of a call whose receipt shows a part of its result."""
    at = f"2026-03-01T09:{number // 60 % 60:02}:{number % 60:02}"
    base = {"v": 1, "run": run, "call": f"c{number}"}
    text = "".join(f"line {line} of {number}\n" for line in range(20))
    return [
        base | {"type": "call", "tool": "Search", "args": {"q": f"word {number}"}, "step": "s1", "at": f"{at}.000Z"},
        base
        | {"type": "result", "status": "ok", "complete": {"text": text}, "started_at": f"{at}.100Z"}
        | {"ended_at": f"{at}.500Z", "risk": "low"},
        base | {"type": "receipt", "seq": 1, "text": text[:60], "fidelity": "exact", "at": f"{at}.600Z"},
    ]


def one_run(calls: int = 2, run: str = "r1") -> list[dict[str, Any]]:
    start = "2026-03-01T08:59:00Z"
    records: list[dict[str, Any]] = [
        {"v": 1, "type": "run", "run": run, "title": "A run", "agent": "my-agent", "started_at": start},
        {"v": 1, "type": "message", "run": run, "seq": 1, "role": "user", "text": "Look.", "at": start},
    ]
    for number in range(1, calls + 1):
        records += one_call(number, run)
    return [
        *records,
        {"v": 1, "type": "usage", "run": run, "request": "q1", "input_tokens": 900, "at": "2026-03-01T09:30:00Z"},
        {"v": 1, "type": "event", "run": run, "seq": 1, "event": "step.finished", "at": "2026-03-01T09:31:00Z"},
        {"v": 1, "type": "run", "run": run, "ended_at": "2026-03-01T09:32:00Z"},
    ]


def export_all(project: Project, folder: Path) -> dict[str, bytes]:
    """The files of the exports of all runs, by name, after everything that waits is derived."""
    derive_waiting(project)
    files = {}
    for run in project.runs.order_by("external_id"):
        target = folder / str(run.pk)
        export_run(run, target)
        files |= {f"{run.external_id}/{path.name}": path.read_bytes() for path in sorted(target.iterdir())}
    return files
