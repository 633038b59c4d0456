"""The exporter of the OpenTelemetry SDK against the real server: protobuf with gzip, in the order that it sends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.imports import environment, manage, migrated_store, rows, wait_until
from tests.faults.server import running_server, sign_in

PROGRAM = """
import json, sys
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

address, token = sys.argv[1:]
headers = {"Authorization": f"Bearer {token}"}
exporter = OTLPSpanExporter(endpoint=address, headers=headers, compression=Compression.Gzip, timeout=120)
provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("test")
user = {"role": "user", "parts": [{"type": "text", "content": "go"}]}
asked = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}]}
answer = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "response": "2 hits"}]}
common = {"gen_ai.conversation.id": "talk"}
with tracer.start_as_current_span("invoke_agent demo", attributes=common | {"gen_ai.operation.name": "invoke_agent"}):
    for history in ([user], [user, asked, answer]):
        chat = common | {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history)}
        with tracer.start_as_current_span("chat m", attributes=chat) as span:
            if len(history) == 1:
                span.set_attribute("gen_ai.output.messages", json.dumps([asked]))
        if len(history) == 1:
            tool = common | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
            tool |= {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"q": "x"}'}
            with tracer.start_as_current_span("execute_tool search", attributes=tool) as span:
                span.set_attribute("gen_ai.tool.call.result", '{"hits": ["a", "b"]}')
provider.shutdown()
"""


@pytest.mark.extended
def test_the_spans_of_the_sdk_give_both_halves(tmp_path: Path) -> None:
    store = migrated_store(tmp_path / "store")
    token, reading = (
        json.loads(manage(store, "create_token", scope, "--scope", scope, "--json").stdout)["token"]
        for scope in ("ingest", "read")
    )
    with running_server(store, sign_in(store), tmp_path / "log") as server:
        command = [sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{server.port}/v1/traces", token]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(store), timeout=300)
        assert (done.returncode, done.stderr) == (0, "")  # the exporter writes there that it was refused
        assert wait_until(lambda: rows(store, "SELECT derivation != '' FROM dashboard_call") == [(1,)])
        headers = {"Authorization": f"Bearer {reading}"}
        (call,) = json.loads(server.request("GET", "/api/v1/calls", headers=headers).body)["items"]
        halves = json.loads(server.request("GET", f"/api/v1/calls/{call['call']}/halves", headers=headers).body)
    assert json.loads(halves["args"]["text"]) == {"q": "x"}
    assert json.loads(halves["canonical"]["text"])["result"]["value"] == {"hits": ["a", "b"]}
    assert (halves["receipt"]["text"], halves["call"]["result_fidelity"]) == ("2 hits", "structured")
    assert rows(store, "SELECT external_id, tool FROM dashboard_call") == [("c1", "search")]
    surfaces = rows(store, "SELECT surface FROM dashboard_observation ORDER BY surface")
    assert {surface for (surface,) in surfaces} >= {"args", "result", "receipt"}
    assert rows(store, "SELECT external_id FROM dashboard_run") == [("talk",)]
