"""Bodies that no client of ours sends, and a store that cannot be written: an answer in JSON, and nothing half stored.

python -m pytest -m long tests/dashboard/api/test_bad_bodies.py
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from dashboard.models import Call, Problem, Project
from tests.cases import each
from tests.dashboard.api.sending import Sender, lines, one_call, one_run
from tests.dashboard.api.test_hooks import event
from tests.dashboard.api.test_traces import PROTOBUF, genai, log_request, protobuf, request

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
JSON = "application/json"
CALL, RESULT, RECEIPT = one_call(1)


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


# Classes of bad input (dashboard/docs/bad-inputs.md) with the outcome of the line: accepted, or the path of its fault.
LINES: dict[str, list[tuple[bytes | dict[str, Any], str]]] = {
    "nesting": [
        (CALL | {"args": json.loads("[" * 64 + "]" * 64)}, "accepted"),
        (json.dumps(CALL)[:-1].encode() + b',"args":' + b"[" * 500 + b"]" * 500 + b"}", "$"),
        (b'{"v":1,"type":"run","run":"r1","plan":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}", "$"),
    ],
    "numbers": [
        (json.dumps(CALL | {"args": {"n": 2**53 + 1}}).encode(), "accepted"),
        (json.dumps(CALL)[:-1].encode() + b',"x":' + b"9" * 5_000 + b"}", "$"),
        (RESULT | {"duration_ms": 2**70}, "accepted"),
    ],
    "unicode": [
        (json.dumps(CALL | {"args": {"q": "a\x00b"}}).encode(), "accepted"),
        (b'{"v":1,"type":"call","run":"r\\ud800","call":"c\\u0000","tool":"T","args":{}}', "accepted"),
        (b'{"v":1,"type":"call","run":"r1","call":"c1","tool":"\xff"}', "$"),
    ],
    "types": [(CALL | {"call": ["c1"]}, "$.call"), (CALL | {"run": None}, "$.run"), (CALL | {"v": True}, "$.v")],
    "missing": [({"v": 1, "run": "r1"}, "$.type"), ({"type": "call"}, "$.v"), ({"v": 1, "type": "call"}, "$.run")],
    "enums": [
        (RESULT | {"status": "exploded"}, "accepted"),
        ({"v": 1, "type": "dance", "run": "r1"}, "$.type"),
        (RECEIPT | {"fidelity": "perfect"}, "accepted"),
    ],
    "times": [
        (CALL | {"at": "yesterday"}, "accepted"),
        (CALL | {"at": "0001-01-01T00:00:00+14:00"}, "accepted"),
        (RESULT | {"ended_at": "2020-01-01T00:00:00Z"}, "accepted"),
    ],
    "keys": [
        (json.dumps(CALL | {"args": {"run__project__in": 1}}).encode(), "accepted"),
        (b'{"v":1,"type":"call","run":"r1","run":"r2","call":"c1","tool":"T","args":{}}', "accepted"),
        (CALL | {"project": 2, "project_id": 2, "id": 1}, "accepted"),
    ],
    "tools": [
        (CALL | {"tool": "x" * 10_000}, "accepted"),
        (CALL | {"tool": ""}, "$.tool"),
        (CALL | {"tool": "é́ "}, "accepted"),
    ],
    "trees": [
        ({"v": 1, "type": "run", "run": "r1", "parent_run": "r1"}, "accepted"),
        ({"v": 1, "type": "run", "run": "r1", "parent_call": "c1"}, "accepted"),
        (RESULT | {"child_run": "r1"}, "accepted"),
    ],
}


@each("name", LINES)
def test_a_bad_line_is_refused_by_its_path_and_the_good_one_beside_it_is_stored(sender: Sender, name: str) -> None:
    for number, (line, outcome) in enumerate(LINES[name]):
        good = one_call(2, f"{name}-{number}")
        answer = sender.records([line, *good])
        assert answer["status"] == 200
        assert Call.objects.filter(run__external_id=f"{name}-{number}").count() == 1
        assert [entry["path"] for entry in answer["rejected"]] == ([] if outcome == "accepted" else [outcome])
        Problem.objects.all().delete()


BODIES: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "records": ("/api/v1/records", "application/x-ndjson", lambda: lines(one_run(1))),
    "traces": ("/v1/traces", PROTOBUF, lambda: protobuf(request(*genai()))),
    "traces in JSON": ("/v1/traces", JSON, lambda: json.dumps(request(*genai())).encode()),
    "logs": ("/v1/logs", JSON, lambda: log_request("codex.tool_result", {"conversation.id": "t", "call_id": "c"})),
    "hooks": ("/api/v1/hooks/claude-code", JSON, lambda: json.dumps(event("PreToolUse")).encode()),
}


def mutated(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.randrange(1, 6)):
        start = chance.randrange(len(changed))
        match chance.randrange(4):
            case 0:
                changed[start] = chance.randrange(256)
            case 1:
                del changed[start : start + chance.randrange(1, 30)]
            case 2:
                changed[start:start] = chance.choice((b"\x00", b"\\ud800", b"[[", b'"', b"}", b"-1e999", b"\xff" * 9))
            case _:
                changed[start:start] = changed[: chance.randrange(60)]
        if not changed:
            return b"{"
    return bytes(changed)


@pytest.mark.parametrize("rounds", [20, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", BODIES)
def test_no_mutated_body_ends_in_an_error_of_ours(sender: Sender, name: str, rounds: int) -> None:
    address, content_type, build = BODIES[name]
    chance, body = random.Random(name), build()
    for number in range(rounds):
        sent = mutated(body, chance)
        headers = {"Content_Encoding": "gzip"} if number % 5 == 4 else {}
        sent = mutated(gzip.compress(sent), chance) if number % 10 == 9 else gzip.compress(sent) if headers else sent
        assert sender.post(address, sent, content_type, **headers).status_code < 500, sent


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_a_store_that_cannot_be_written_is_answered_with_a_time_to_retry(sender: Sender) -> None:
    sender.raises = False
    sender.records(one_call(1))
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only=ON")
        response = sender.post("/api/v1/records", lines(one_call(2)))
        cursor.execute("PRAGMA query_only=OFF")
    assert (response.status_code, response["Retry-After"]) == (503, "30")
    assert "read-only" in json.loads(response.content)["error"]


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_a_full_disk_is_507(sender: Sender) -> None:
    sender.raises = False
    big = one_call(3)
    big[1]["complete"] = {"text": random.Random(1).randbytes(6_000_000).hex()}
    connection.ensure_connection()
    database = connection.connection  # SQLite ends the test's transaction, in which Django then sends nothing more
    database.execute("PRAGMA max_page_count=1")
    try:
        response = sender.post("/api/v1/records", lines(big))
    finally:
        database.execute("PRAGMA max_page_count=1073741823")
    assert (response.status_code, response["Retry-After"]) == (507, "30")
    assert "disk is full" in json.loads(response.content)["error"]
