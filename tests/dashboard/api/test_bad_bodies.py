"""Bodies that no client of ours sends, and a store that cannot be written: an answer in JSON, and nothing half stored.

The tables are `bad_records` and `bad_sendings`; tests/faults/test_mutated_bodies.py sends many more to a real server.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from django.db import connection, transaction

from dashboard.models import Call, Observation, Problem, Project, Remark
from tests.cases import each, extended_except
from tests.dashboard.api.native_records import lines, one_call
from tests.dashboard.api.sending import Sender
from tests.dashboard.api.test_traces import genai, request
from tests.faults.bad_records import GOOD, RECORDS
from tests.faults.bad_sendings import SENDINGS
from tests.faults.mutated_bodies import mutated_bodies

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
WHERE_DATABASES_DIFFER = ("json-number", "unicode-surrogate", "unicode-nul", "timestamp", "tool-name", "stream-dup")


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


@pytest.mark.parametrize("name", extended_except(RECORDS, *WHERE_DATABASES_DIFFER))
def test_good_records_beside_bad_ones_are_stored_and_bad_ones_are_named(sender: Sender, name: str) -> None:
    wrong = []
    for row in RECORDS[name]:
        with transaction.atomic():
            answer = json.loads(sender.post("/api/v1/records", GOOD + row.body).content)
            rejected = tuple(describe(entry) for entry in answer["rejected"])
            good = Observation.objects.filter(call__run__external_id="good", surface__in=("result", "receipt"))
            calls = Call.objects.exclude(run__external_id="good").count()
            if (rejected, answer["already_known"], calls, good.count()) != (row.rejected, row.known, row.calls, 2):
                wrong.append((row.name, answer, calls))
            transaction.set_rollback(True)
    assert wrong == []


def describe(entry: dict[str, Any]) -> str:
    return f"line {entry['line']}: {entry['reason']}" + (f" ({entry['path']})" if entry["path"] != "$" else "")


@pytest.mark.extended
def test_a_wrong_request_gets_its_answer_and_stores_nothing(sender: Sender) -> None:
    wrong = []
    for name, row in ((name, row) for name, rows in SENDINGS.items() for row in rows):
        response = sender.send(row.method, row.address, row.body, row.content_type, row.headers)
        if response.status_code != row.status or row.words not in response.content.decode():
            wrong.append((name, row.name, response.status_code, response.content))
        assert not Call.objects.exists(), row.name
    assert wrong == []


def test_a_line_that_is_refused_costs_no_other_line(sender: Sender) -> None:
    answer = sender.records([*one_call(1), b"{not json", {"v": 1, "type": "call", "run": "r1"}, *one_call(2)])
    assert [describe(entry) for entry in answer["rejected"]] == [
        "line 4: expected a key at character 1",
        "line 5: no call, or not a string ($.call)",
    ]
    assert (answer["accepted"], Call.objects.count()) == (6, 2)


@pytest.mark.parametrize("count", [63, pytest.param(700, marks=pytest.mark.extended)])
def test_no_mutated_body_ends_in_an_error_of_ours(project: Project, sender: Sender, count: int) -> None:
    asker = Sender(project, "mcp")
    for body in mutated_bodies(random.Random(7), count):
        response = (asker if body.scope == "mcp" else sender).send(
            body.method, body.address, body.data, body.content_type, body.headers
        )
        assert response.status_code < 500, body


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


@each("kind", ["application/x-protobuf", "application/json", "text/plain"])
def test_an_address_that_takes_nothing_is_answered_with_404_whatever_is_sent(sender: Sender, kind: str) -> None:
    metrics = "Not found. Metrics are not accepted. Traces go to /v1/traces, and logs to /v1/logs."
    for body, headers in ((b"{}", {}), (b"x" * 20_000_000, {}), (b"{}", {"Transfer_Encoding": "chunked"})):
        answer = sender.post("/v1/metrics", body, kind, **headers)
        assert (answer.status_code, json.loads(answer.content)) == (404, {"error": metrics})
        for address in ("/v1/nothing", "/api/v1/nothing", "/mcp/nothing"):
            assert sender.post(address, body, kind, **headers).status_code == 404


PATH = "$.resourceSpans[0].scopeSpans[0].spans"
LOST = "the span is left out: none of its attributes can be read"
NO_VALUE = {"key": "x", "value": {"stringValue": 5}}
BAD_SPANS: dict[str, tuple[list[Any], list[str]]] = {
    "no objects": (["no span", None, 7], [f"{PATH}[{number}]: left out: wrong type" for number in range(3)]),
    "attributes that are no list": ([{"name": "ai.toolCall", "attributes": "x"}], [f"{PATH}[0].attributes: {LOST}"]),
    "no attribute": ([{"name": "x", "attributes": ["zz", NO_VALUE]}], [f"{PATH}[0].attributes: {LOST}"]),
}


@pytest.mark.parametrize("name", BAD_SPANS)
@pytest.mark.parametrize("good", [0, 3])
def test_a_span_that_is_left_out_is_rejected_also_beside_good_ones(sender: Sender, name: str, good: int) -> None:
    bad, sentences = BAD_SPANS[name]
    spans = [*bad, *genai()[:good]]
    for _ in range(2):
        answer = sender.post("/v1/traces", json.dumps(request(*spans)).encode(), "application/json").json()
        assert answer == {"partialSuccess": {"rejectedSpans": str(len(bad)), "errorMessage": "; ".join(sentences)}}
    assert Call.objects.count() == (1 if good else 0)
    problems = Problem.objects.order_by("path").values_list("path", "reason")
    assert [": ".join(problem) for problem in problems] == sentences
    assert not Remark.objects.filter(kind="value").exists()


def test_a_value_that_a_request_in_json_cannot_have_is_a_remark(sender: Sender) -> None:
    document = request(*genai())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["startTimeUnixNano"] = "soon"
    spans[1]["attributes"] += [NO_VALUE, {"key": 5, "value": {}}]
    number = len(spans[1]["attributes"])
    for _ in range(2):
        assert sender.post("/v1/traces", json.dumps(document).encode(), "application/json").json() == {}
    noted = Remark.objects.order_by("path").values_list("run__external_id", "kind", "path", "was", "became")
    assert list(noted) == [
        ("talk", "timestamp", f"{PATH}[0].startTimeUnixNano", '"soon"', "left out: no time"),
        ("talk", "value", f"{PATH}[1].attributes[{number - 2}].value", '{"stringValue":5}', "left out: wrong type"),
        ("talk", "value", f"{PATH}[1].attributes[{number - 1}].key", "5", "left out: wrong type"),
    ]
