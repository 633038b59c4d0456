"""Bodies in chunks, without their size: the intake reads them up to its limit, no other address reads them."""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Call, Project
from dashboard.tokens import create_token
from tests.dashboard.api.native_records import NDJSON, lines, one_call
from tests.dashboard.api.test_log_events import log_request
from tests.dashboard.api.test_traces import request, span

pytestmark = pytest.mark.django_db
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1"}
LOGGED = {"conversation.id": "t1", "call_id": "call_1", "tool_name": "shell", "arguments": "{}", "success": "false"}
HOOK = {"hook_event_name": "PreToolUse", "session_id": "s1", "tool_name": "Bash", "tool_use_id": "toolu_1"}
BODIES = {
    "/api/v1/records": (NDJSON, lines(one_call(1, "chunked"))),
    "/v1/traces": ("application/json", json.dumps(request(span(1, "execute_tool", TOOL, seconds=1))).encode()),
    "/v1/logs": ("application/json", log_request("codex.tool_result", LOGGED)),
    "/api/v1/hooks/claude-code": ("application/json", json.dumps(HOOK).encode()),
}


class Sender:
    """A program that does not say how long its bodies are, as the server passes them on."""

    def __init__(self, project: Project) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {create_token(project, 'test', 'ingest', by='test')}"})

    def post(self, address: str, kind: str, stream: Any, **meta: Any) -> int:
        chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": "", "wsgi.input_terminated": True}
        environment = {"REQUEST_METHOD": "POST", "PATH_INFO": address, "CONTENT_TYPE": kind, "wsgi.input": stream}
        return self._client.request(**{**environment, **chunked, **meta}).status_code


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


@pytest.mark.parametrize("address", BODIES)
def test_the_intake_reads_a_body_without_its_size(address: str, sender: Sender) -> None:
    kind, body = BODIES[address]
    assert sender.post(address, kind, BytesIO(gzip.compress(body)), HTTP_CONTENT_ENCODING="gzip") == 200
    assert Call.objects.count() == 1
    assert sender.post(address, kind, BytesIO(body)) == 200
    assert sender.post(address, "text/plain", BytesIO(body)) == 415
    assert sender.post(address, kind, BytesIO(b"")) == 400


def test_a_body_beyond_the_limit_is_read_no_further(sender: Sender, settings: Any) -> None:
    settings.INTAKE_BODY_LIMIT_BYTES = 100
    stream = BytesIO(b"x" * 10_000)
    assert sender.post("/v1/traces", "application/json", stream) == 413
    assert stream.tell() == 101


class Cut(BytesIO):
    def read(self, _size: int | None = -1) -> bytes:
        raise ConnectionResetError


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/traces", {"CONTENT_LENGTH": "5"}),
    ("/v1/traces", {"HTTP_TRANSFER_ENCODING": "gzip, chunked"}),
    ("/v1/traces", {"wsgi.input_terminated": False}),  # a server that does not find the end
    (f"/api/v1/artifacts/{'a' * 64}", {"REQUEST_METHOD": "PUT"}),
    ("/sign-in/", {}),
]


@pytest.mark.parametrize(("address", "meta"), REFUSED)
def test_chunks_are_refused_where_their_end_is_unclear_and_elsewhere(
    address: str, meta: dict[str, Any], sender: Sender
) -> None:
    assert sender.post(address, "application/json", BytesIO(b"{}"), **meta) == 411


def test_a_body_that_ends_early_is_refused(sender: Sender) -> None:
    assert sender.post("/v1/traces", "application/json", Cut()) == 400
