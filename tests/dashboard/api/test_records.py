"""Native records over HTTP: durable, idempotent, answered line by line, the same in whatever order they come."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.dateparse import parse_datetime

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import (
    Artifact,
    Call,
    Event,
    Message,
    Observation,
    Problem,
    Project,
    ReceivedRecord,
    RecordedReceipt,
    Remark,
    RequestUsage,
    Run,
    RunCall,
    SentContent,
    Source,
)
from tests.cases import each
from tests.dashboard.api.native_records import BOMB, lines, one_call, one_run
from tests.dashboard.api.sending import Sender, export_all
from tests.dashboard.factories import create_project
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.fixture
def sender(project: Project) -> Sender:
    return Sender(project)


def test_a_batch_is_stored_with_both_halves_and_known_when_it_comes_again(project: Project, sender: Sender) -> None:
    records = one_run()
    assert sender.records(records) == {"accepted": len(records), "already_known": 0, "rejected": [], "status": 200}
    assert sender.records(records, packed=True)["already_known"] == len(records)
    assert sender.records([*one_call(2), *one_call(3)]) == {
        "accepted": 3,
        "already_known": 3,
        "rejected": [],
        "status": 200,
    }
    derive_waiting(project)
    run = Run.objects.get()
    assert (run.title, run.agent, run.call_count, run.source_format) == ("A run", "my-agent", 3, "native")
    call = Call.objects.get(external_id="c1")
    assert (call.tool, call.status, call.step, call.receipt_count) == ("Search", "success", "s1", 1)
    assert {row.surface: row.fidelity for row in call.observations.all()} == {
        "args": "structured",
        "result": "structured",
        "timing": "structured",
        "receipt": "exact",
    }


def test_the_calls_of_a_batch_are_looked_for_by_their_ids_and_not_among_all_of_the_project(
    project: Project, sender: Sender
) -> None:
    sender.records(one_run())
    with CaptureQueriesContext(connection) as queries:
        assert sender.records(one_call(9))["accepted"] == 3
    statements = [entry["sql"] for entry in queries.captured_queries]
    lookups = [sql for sql in statements if sql.startswith("SELECT") and 'FROM "dashboard_call"' in sql]
    assert lookups
    assert not [sql for sql in lookups if '"project_id" =' in sql]


def test_the_rows_of_a_run_are_beside_each_other_in_the_indexes_of_their_ids(project: Project, sender: Sender) -> None:
    for run in ("r1", "r2"):
        sender.records(one_run(3, run))
    beginnings = {}
    for run in Run.objects.all():
        call = {"call__run": run}
        rows = [
            Call.objects.filter(run=run),
            Observation.objects.filter(**call),
            RecordedReceipt.objects.filter(**call),
        ]
        rows += [Message.objects.filter(run=run), Event.objects.filter(run=run), RequestUsage.objects.filter(run=run)]
        rows.append(ReceivedRecord.objects.filter(run=run))
        beginnings[run] = [{key.bytes[:4] for key in keys.values_list("pk", flat=True)} for keys in rows]
        assert [len(beginning) for beginning in beginnings[run]] == [1] * 7
        assert [keys.count() for keys in rows] == [3, 12, 3, 1, 1, 1, 14]
    first, second = beginnings.values()
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_calls_that_wait_are_derived_batch_by_batch_so_that_each_frame_is_read_once(
    project: Project, sender: Sender
) -> None:
    for number in range(1, 13, 2):
        sender.records([*one_call(number), *one_call(number + 1)])
    with CaptureQueriesContext(connection) as queries:
        assert derive_waiting(project, calls_at_once=2) == 12
    frames = [entry["sql"] for entry in queries if entry["sql"].startswith('SELECT "dashboard_sourceframe"')]
    with connection.cursor() as cursor:
        assert [len(cursor.execute(sql).fetchall()) for sql in frames] == [1] * 6


@pytest.mark.extended
def test_every_batch_three_times_in_any_order_gives_the_same_export(project: Project, tmp_path: Path) -> None:
    records = [*one_run(6), *one_run(5, "r2")]
    batches = [records[start : start + 4] for start in range(0, len(records), 4)] * 3
    expected: dict[str, bytes] = {}
    for number, seed in enumerate((1, 2, 3)):
        random.Random(seed).shuffle(batches)
        sender = Sender(project)
        for batch in batches:
            assert sender.records(random.Random(seed).sample(batch, len(batch)))["rejected"] == []
        exported = export_all(project, tmp_path / str(number))
        assert len(exported) == 14, sorted(exported)
        expected = expected or exported
        assert exported == expected
        for run in project.runs.all():
            delete_run(run)
        project.tokens.all().delete()
        assert not ReceivedRecord.objects.exists()


def test_lines_that_cannot_be_read_are_named_and_the_others_are_stored(project: Project, sender: Sender) -> None:
    good = one_call(1)
    body = [good[0], b"{not json", b"", good[1], {"v": 2, "type": "call", "run": "r1"}, good[2]]
    answer = sender.records(body)
    assert (answer["accepted"], answer["already_known"], answer["status"]) == (3, 0, 200)
    first, second = answer["rejected"]
    raw = lines(body)
    assert (first["line"], raw[first["offset"] :].partition(b"\n")[0]) == (2, b"{not json")
    assert (second["line"], second["path"], "version 1 is" in second["reason"]) == (5, "$.v", True)
    assert Problem.objects.count() == 2
    again = sender.records(body)
    assert (again["accepted"], again["already_known"], len(again["rejected"])) == (0, 3, 2)
    assert Problem.objects.count() == 2  # of the same body they are stored once
    assert sender.records([b"[1]"])["status"] == 422
    twice = sender.records([b"[2]", b"[2]", *one_call(2), *one_call(2)])
    assert (twice["accepted"], twice["already_known"], [entry["line"] for entry in twice["rejected"]]) == (3, 3, [1, 2])


def test_a_key_belongs_to_one_body_and_gives_the_first_answer_again(sender: Sender) -> None:
    records = [*one_call(1), b"{}"]
    first = sender.records(records, Idempotency_Key="k1")
    assert first == sender.records(records, Idempotency_Key="k1")
    assert first["accepted"] == 3
    assert sender.records(one_call(2), Idempotency_Key="k1")["status"] == 422
    assert not Call.objects.filter(external_id="c2").exists()
    assert sender.records(one_call(2), Idempotency_Key="x" * 201)["status"] == 400
    assert Source.objects.count() == 1


BODIES: dict[str, tuple[bytes, dict[str, str], int]] = {
    "empty": (b"", {}, 400),
    "blank": (b" \n \n", {}, 400),
    "not gzip": (b"abc", {"Content_Encoding": "gzip"}, 400),
    "cut gzip": (gzip.compress(lines(one_call()))[:-9], {"Content_Encoding": "gzip"}, 400),
    "bomb": (BOMB, {"Content_Encoding": "gzip"}, 413),
    "unknown encoding": (lines(one_call()), {"Content_Encoding": "br"}, 415),
    "text": (lines(one_call()), {"content_type": "text/plain"}, 415),
    "form": (lines(one_call()), {"content_type": "multipart/form-data"}, 415),
    "too many": (b"{}\n" * 20_001, {}, 413),
    "array": (json.dumps(one_call()).encode(), {}, 422),
    "pretty": (json.dumps(one_call(), indent=2).encode(), {}, 422),
}


@each("name", BODIES)
def test_a_body_that_cannot_be_stored_is_refused_and_leaves_nothing(sender: Sender, name: str) -> None:
    body, headers, status = BODIES[name]
    response = sender.post("/api/v1/records", body, **headers)
    assert response.status_code == status
    answer = json.loads(response.content)
    assert answer.get("error") or len(answer["rejected"]) == 1
    assert not Run.objects.exists()


def test_an_array_is_refused_with_what_to_send_in_its_place(sender: Sender) -> None:
    (refused,) = sender.records([json.dumps(one_call()).encode()])["rejected"]
    assert refused["reason"] == (
        "this is a JSON array: send each record as one object on a line of its own, without brackets and commas"
    )


def test_a_token_writes_to_its_own_project(project: Project, sender: Sender) -> None:
    other = create_project("other")
    Sender(other).records(one_run())
    sender.records(one_run())
    assert [project.runs.count(), other.runs.count()] == [1, 1]
    assert Sender(other, "read").records(one_run())["status"] == 403


def test_content_joins_its_artifact_whichever_comes_first(project: Project, sender: Sender) -> None:
    contents = [b"the whole output\n" * 100, b"second"]
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    base = {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "role": "stdout"}
    named = [base | {"ordinal": place, "path": f"out/{place}", "sha256": sha} for place, sha in enumerate(hashes)]
    assert sender.put(f"/api/v1/artifacts/{hashes[0]}", contents[0]).status_code == 200
    sender.records([*one_call(1), *named])
    assert dict(Artifact.objects.filter(observation=None).values_list("path", "state")) == {
        "out/0": "present",
        "out/1": "missing",
    }
    assert sender.put(f"/api/v1/artifacts/{hashes[1]}", contents[1]).status_code == 200
    assert dict(Artifact.objects.filter(observation=None).values_list("path", "size")) == {"out/0": 1700, "out/1": 6}
    assert sender.put(f"/api/v1/artifacts/{hashes[1]}", b"another").status_code == 422
    assert sender.put("/api/v1/artifacts/short", b"another").status_code == 400
    assert SentContent.objects.count() == 2
    assert sender.records([base | {"path": "x", "sha256": "../../etc"}])["rejected"][0]["path"] == "$.sha256"


def test_artifacts_with_one_path_have_each_the_content_of_its_own_record(sender: Sender) -> None:
    contents = {call: f"content of {call}\n".encode() for call in ("c1", "c2")}
    hashes = {call: hashlib.sha256(content).hexdigest() for call, content in contents.items()}
    for call, content in contents.items():
        assert sender.put(f"/api/v1/artifacts/{hashes[call]}", content).status_code == 200
    base = {"v": 1, "type": "artifact", "run": "r1", "path": "out.txt"}
    named = [base | {"call": call, "sha256": sha256} for call, sha256 in hashes.items()]
    sender.records([*one_call(1), *one_call(2), *one_call(3), *named, base | {"call": "c3"}])
    stored = Artifact.objects.filter(path="out.txt").order_by("call__external_id").values_list("state", "sha256")
    assert list(stored) == [("present", hashes["c1"]), ("present", hashes["c2"]), ("missing", "")]


@pytest.mark.parametrize("size", [6, 999, None])
def test_a_stated_size_that_the_content_does_not_have_leaves_a_remark(sender: Sender, size: int | None) -> None:
    contents = [b"first\n", b"later\n"]
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    base = {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "size": size}
    sender.put(f"/api/v1/artifacts/{hashes[0]}", contents[0])
    sender.records([*one_call(1), *[base | {"path": sha256, "sha256": sha256} for sha256 in hashes]])
    sender.put(f"/api/v1/artifacts/{hashes[1]}", contents[1])
    assert list(Artifact.objects.filter(observation=None).values_list("size", "state")) == [(6, "present")] * 2
    remarks = list(Remark.objects.values_list("call", "kind", "path", "was", "became"))
    expected = (Call.objects.get().pk, "value", "$.size", "999", "left out: the content has 6 bytes")
    assert remarks == [expected] * (2 if size == 999 else 0)


def test_a_file_that_comes_before_its_call_is_stored_beside_the_other_records(
    project: Project, sender: Sender, tmp_path: Path
) -> None:
    at = "2026-03-01T09:00:01.300Z"
    file = {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "path": "out.txt", "at": at}
    call, *answers = one_call(1)
    beside = {"v": 1, "type": "message", "run": "beside", "role": "user", "text": "Look."}
    exported: list[dict[str, bytes]] = []
    for number, batches in enumerate(([[file], answers, [call]], [answers, [file], [call]], [[call], answers, [file]])):
        for batch in batches:
            answer = sender.records([*batch, beside | {"seq": len(batch)}])
            assert (answer["status"], answer["rejected"]) == (200, [])
        exported.append(export_all(project, tmp_path / str(number)))
        assert Message.objects.filter(run__external_id="beside").count() == 2
        for run in project.runs.all():
            delete_run(run)
    assert exported[0] == exported[1] == exported[2]


def test_a_call_that_only_its_file_and_its_answer_tell_of_is_listed_at_the_earlier_one(sender: Sender) -> None:
    file = {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "path": "out.txt", "at": "2026-03-01T09:00:01.300Z"}
    places = []
    for batches in ([file], one_call(1)[1:]), (one_call(1)[1:], [file]):
        for batch in batches:
            sender.records(batch)
        places.append(RunCall.objects.get().ordinal)
        delete_run(Run.objects.get())
    assert places == [1_772_355_601_300_000] * 2


def test_a_recording_with_a_file_of_an_unknown_call_is_imported(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(lines([{"v": 1, "type": "artifact", "run": "r1", "call": "c9", "path": "out.txt"}, *one_run()]))
    report = import_paths(project, [path])
    assert (report.seen["calls"], report.problems) == (2, [])
    assert list(Call.objects.order_by("external_id").values_list("external_id", "tool")) == [
        ("c1", "Search"),
        ("c2", "Search"),
        ("c9", ""),
    ]


TIMES = {"alpha": "2026-03-01T09:00:01Z", "beta": "2026-03-01T09:00:05Z", "gamma": "2026-03-01T09:00:09Z"}
RECEIPTS: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
    "without seq": ({}, {"alpha": "beta", "beta": "gamma", "gamma": None}),
    "with one seq": ({"seq": 1}, {"alpha": "beta", "beta": "gamma", "gamma": None}),
    "with a seq that is no number": ({"seq": 0}, {"alpha": "beta", "beta": "gamma", "gamma": None}),
    "without times": ({"at": None}, {"alpha": None, "beta": None, "gamma": None}),
    "at one time": ({"at": TIMES["alpha"]}, {"alpha": None, "beta": None, "gamma": None}),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_of_two_receipts_the_later_one_replaced_the_other_whichever_comes_first(
    project: Project, sender: Sender, tmp_path: Path, name: str
) -> None:
    members, expected = RECEIPTS[name]
    base = {"v": 1, "type": "receipt", "run": "r1", "call": "c1"}
    receipts = [base | {"text": text, "at": at} | members for text, at in TIMES.items()]
    exported: list[dict[str, bytes]] = []
    for number, order in enumerate(permutations(receipts)):
        sender.records(one_call(1)[:2])
        for batch in [order[:2], order[2:]] if number % 2 else [[receipt] for receipt in order]:
            assert sender.records(batch)["rejected"] == []
        files = export_all(project, tmp_path / str(number))
        files.pop("r1/remarks.jsonl", None)  # they have the line of the body
        exported.append(files)
        rows = RecordedReceipt.objects.select_related("observation").order_by("seq")
        texts = {json.loads(bytes(row.observation.data)): row.superseded_at for row in rows}
        ends = {text: later and parse_datetime(TIMES[later]) for text, later in expected.items()}
        assert texts == ends
        assert list(rows.values_list("seq", flat=True)) == [1, 2, 3]
        unordered = Remark.objects.filter(became__startswith="the order of two receipts is not known")
        assert unordered.count() == (expected["alpha"] is None)
        delete_run(Run.objects.get())
    assert all(files == exported[0] for files in exported)


def test_a_later_receipt_in_a_file_replaced_the_earlier_one(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    call, result, receipt = one_call(1)
    path.write_bytes(lines([call, result, receipt, {**receipt, "text": "[cleared]"}]))
    import_paths(project, [path])
    assert list(RecordedReceipt.objects.order_by("seq").values_list("superseded_line", flat=True)) == [4, None]


def test_a_sent_path_is_no_file_of_this_machine(sender: Sender, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("key")
    sender.records([*one_call(1), {"v": 1, "type": "artifact", "run": "r1", "call": "c1", "path": str(secret)}])
    assert Artifact.objects.get(path=str(secret)).state == "missing"


def test_the_same_records_are_a_file_format(project: Project, sender: Sender, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(lines(one_run()))
    report = import_paths(project, [path])
    assert (report.seen["calls"], report.problems) == (2, [])
    sender.records(one_run())
    assert (Run.objects.count(), Call.objects.count()) == (1, 2)


FIELDS: dict[str, Any] = {
    "risk_level": "high",
    "iteration": {"index": 2, "item_name": "file", "item_value": "a.py"},
    "coercions": [{"pointer": "/q", "before": 1, "after": "1"}],
    "future": {"of": "a later version"},
}


def test_all_fields_of_a_call_are_on_its_page(project: Project, sender: Sender, alice: User, client: Client) -> None:
    call, result, receipt = one_call(1)
    settled = {"phase": "pre_dispatch", "denied_reason": "policy", "status": "skipped", "complete": None}
    sender.records([call | FIELDS, result | settled, receipt])
    derive_waiting(project)
    page = parse_page(client.get(Call.objects.get().get_absolute_url(), follow=True)).text
    for text in ("Risk", "high", "a.py", "Changed arguments", "future", "Denied because of", "pre_dispatch"):
        assert text in page


def test_a_page_names_the_time_of_a_sent_record_and_the_line_of_one_in_a_file(
    project: Project, sender: Sender, alice: User, client: Client
) -> None:
    sender.records(one_run())
    derive_waiting(project)
    run = Run.objects.get()
    facts = client.get(f"/runs/{run.pk}/1/halves").content.decode()
    assert "sent live, 09:00:01.000" in facts
    sender.records(one_call(7))
    assert parse_page(client.get(f"/runs/{run.pk}/")).text.count("sent live") == 1
    history = client.get(f"/runs/{run.pk}/context").content.decode()
    assert "08:59:00.000" in history
    assert "1772355" not in parse_page(client.get(f"/runs/{run.pk}/context")).select_one("main").text
