"""Bodies for every address of the intake and for MCP, with bytes changed, left out, added and repeated at random."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.dashboard.api.native_records import NDJSON, lines, one_run
from tests.dashboard.api.test_hooks import event
from tests.dashboard.api.test_log_events import log_request
from tests.dashboard.api.test_traces import PROTOBUF, genai, openinference, protobuf, request

JSON = "application/json"
PIECES = (
    b"\x00",
    b"\\ud800",
    b"[[",
    b'"',
    b"}",
    b"-1e999",
    b"\xff" * 9,
    b"\xff\xff\xff\xff\x0f",
    b"\n",
    b"null",
    b"\\",
)
CONTENT = b"a line of an output\n" * 40
CONTENT_HASH = hashlib.sha256(CONTENT).hexdigest()
CODEX = {"conversation.id": "t", "call_id": "c", "tool_name": "shell", "arguments": "{}", "success": "true"}
QUESTION = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
SEARCH = QUESTION | {"params": {"name": "search_calls", "arguments": {"q": "tool:Search", "limit": 2}}}


@dataclass(frozen=True)
class Body:
    """A request; `scope` is that of the token that it needs."""

    address: str
    content_type: str
    data: bytes
    method: str = "POST"
    scope: str = "ingest"
    headers: Mapping[str, str] = field(default_factory=dict)


def whole_bodies() -> list[Body]:
    """One that is accepted for each address and content type."""
    return [
        Body("/api/v1/records", NDJSON, lines(one_run(1))),
        Body("/v1/traces", PROTOBUF, protobuf(request(*genai()))),
        Body("/v1/traces", PROTOBUF, protobuf(request(*openinference()))),
        Body("/v1/traces", JSON, json.dumps(request(*genai())).encode()),
        Body("/v1/logs", JSON, log_request("codex.tool_result", CODEX)),
        Body("/v1/logs", PROTOBUF, protobuf_log()),
        Body("/api/v1/hooks/claude-code", JSON, json.dumps(event("PreToolUse")).encode()),
        Body("/mcp", JSON, json.dumps(SEARCH).encode(), scope="mcp"),
        Body(f"/api/v1/artifacts/{CONTENT_HASH}", "application/octet-stream", CONTENT, "PUT"),
    ]


def protobuf_log() -> bytes:
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1_772_355_600_000_000_000)
    for key, value in (CODEX | {"event.name": "codex.tool_result"}).items():
        record.attributes.add(key=key).value.string_value = value
    return message.SerializeToString()


def mutated_bodies(chance: random.Random, count: int) -> Iterator[Body]:
    """Of each address in turn; of those that may be compressed each fifth is, and each tenth is damaged afterwards."""
    bodies = whole_bodies()
    for number in range(count):
        body = bodies[number % len(bodies)]
        data, headers = mutate(body.data, chance), dict[str, str]()
        if body.method == "POST" and body.scope == "ingest" and number // len(bodies) % 5 == 4:
            headers = {"Content-Encoding": "gzip"}
            data = gzip.compress(data, 1)
            data = mutate(data, chance) if number // len(bodies) % 10 == 9 else data
        yield replace(body, data=data, headers=headers)


def mutate(body: bytes, chance: random.Random) -> bytes:
    """One to five changes."""
    changed = bytearray(body)
    for _ in range(chance.randrange(1, 6)):
        start = chance.randrange(len(changed))
        match chance.randrange(5):
            case 0:
                changed[start] = chance.randrange(256)
            case 1:
                changed[start] ^= 1 << chance.randrange(8)
            case 2:
                del changed[start : start + chance.randrange(1, 30)]
            case 3:
                changed[start:start] = chance.choice(PIECES)
            case _:
                changed[start:start] = changed[: chance.randrange(60)]
        if not changed:
            return b"{"
    return bytes(changed)
