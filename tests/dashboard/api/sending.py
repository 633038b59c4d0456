"""What the tests of the intake share: a client with a token, and the export of all runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.http import HttpResponse
from django.test import Client

from dashboard.api.reading import load_step_context
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Project, Run
from dashboard.runs.export_run import export_run
from dashboard.tokens import create_token
from tests.dashboard.api.native_records import NDJSON, lines


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

    def send(
        self, method: str, address: str, body: bytes, content_type: str, headers: Mapping[str, str]
    ) -> HttpResponse:
        """Any request; `headers` may have another token."""
        named = {"Authorization": f"Bearer {self.token}", **headers}
        return self._client.generic(method, address, body, content_type=content_type, headers=named)  # type: ignore[return-value]

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


def export_all(project: Project, folder: Path) -> dict[str, bytes]:
    """The files of the exports of all runs, by name, after everything that waits is derived; and their contexts."""
    derive_waiting(project)
    files = {}
    for run in project.runs.order_by("external_id"):
        target = folder / str(run.pk)
        export_run(run, target)
        files |= {f"{run.external_id}/{path.name}": path.read_bytes() for path in sorted(target.iterdir())}
        files[f"{run.external_id}/contexts"] = repr(load_contexts(run)).encode()
    return files


def load_contexts(run: Run) -> dict[str, tuple[str, list[str]]]:
    """What the request weighed that each call follows, and the items in it; by the id of the call."""
    calls = run.members.order_by("ordinal", "call").values_list("call__external_id", flat=True)
    contexts = [load_step_context(run.project, run.pk, number) for number, _ in enumerate(calls, start=1)]
    items = [[f"{item.kind} {item.heading} {item.line}" for item in reversed(context.items)] for context in contexts]
    return {call: (context.recorded, of_call) for call, context, of_call in zip(calls, contexts, items, strict=True)}
