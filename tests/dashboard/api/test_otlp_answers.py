"""Answers of the addresses of OpenTelemetry to empty requests and to those that are refused, in their encoding."""

from __future__ import annotations

import gzip
import json

import pytest
from django.http import HttpResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Status  # its field 2 is the message, as in a google.rpc.Status

from dashboard.api.intake import write_status
from dashboard.models import Project
from tests.dashboard.api.sending import Sender
from tests.dashboard.api.test_traces import PROTOBUF, genai, protobuf, request

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


@pytest.mark.parametrize("address", ["/v1/traces", "/v1/logs"])
def test_an_empty_request_has_an_empty_answer(sender: Sender, address: str) -> None:
    for kind, body in ((PROTOBUF, b""), ("application/json", b"{}"), ("application/json", b" {} ")):
        answer = sender.post(address, body, kind, Content_Type=kind)  # Django's client sends no type without a body
        assert (answer.status_code, answer["Content-Type"]) == (200, kind)
        assert answer.content == (b"" if kind == PROTOBUF else b"{}")
    packed = sender.post(address, gzip.compress(b""), PROTOBUF, Content_Encoding="gzip")
    assert (packed.status_code, packed.content) == (200, b"")
    for headers in ({}, {"Content_Type": "application/json"}):
        assert sender.post(address, b"", **headers).status_code == 400


REFUSALS: dict[str, tuple[bytes, dict[str, str], int, int, str]] = {
    "no protobuf": (b"\xff\xff", {}, 400, 3, "$: not an OTLP request: Error parsing message"),
    "no gzip": (b"abc", {"Content_Encoding": "gzip"}, 400, 3, "The body is not gzip, or is damaged."),
    "no token": (b"x", {"Authorization": "Bearer cft_none"}, 401, 16, "This token is not valid here."),
    "a key of another body": (protobuf(request(*genai()[:1])), {"Idempotency_Key": "k1"}, 422, 3, "Another body was"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("address", ["/v1/traces", "/v1/logs"])
def test_a_refusal_of_protobuf_is_a_status_in_protobuf(sender: Sender, address: str, name: str) -> None:
    body, headers, status, code, words = REFUSALS[name]
    sender.post("/v1/traces", protobuf(request(*genai())), PROTOBUF, Idempotency_Key="k1")
    answer = sender.post(address if "key" not in name else "/v1/traces", body, PROTOBUF, **headers)
    assert (answer.status_code, answer["Content-Type"]) == (status, PROTOBUF)
    assert answer.content[:2] == bytes([8, code])  # the first field
    assert Status.FromString(answer.content).message.startswith(words)


def test_a_long_refusal_is_a_whole_message() -> None:
    response = HttpResponse(json.dumps({"error": "é" * 5_000}), status=503)
    write_status(response)
    assert response.content[:2] == bytes([8, 14])
    assert Status.FromString(response.content).message == "é" * 5_000
