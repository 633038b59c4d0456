"""The reading API: lists with cursors, halves in windows, masked as pages are, and JSON at the pages' own addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.api.answers import ADDRESSES, SENDING
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Project, Run
from tests.cases import each
from tests.dashboard.api.native_records import failed_call, one_run
from tests.dashboard.api.sending import Sender
from tests.dashboard.api.test_hooks import SESSION, transcript
from tests.dashboard.factories import create_project
from tests.dashboard.ingest.test_call_times import item, rollout
from tests.dashboard.measured_comparisons import compared
from tests.dashboard.test_url_matrix import patterns
from tests.envelopes.families.test_stated_cuts import RAN, SHORTENED
from tests.envelopes.recordings.samples import FOLDER

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def reader(project: Project) -> Sender:
    Sender(project).records([*one_run(3), *one_run(2, "r2")])
    derive_waiting(project)
    return Sender(project, "read")


def get(reader: Sender, address: str, status: int = 200) -> dict[str, Any]:
    response = reader.get(address)
    assert response.status_code == status, response.content
    document: dict[str, Any] = json.loads(response.content)
    return document


def test_lists_are_filtered_and_go_on_behind_a_cursor(project: Project, reader: Sender) -> None:
    runs = get(reader, "/api/v1/runs?q=agent:my-agent")
    assert {(run["external_id"], run["calls"]) for run in runs["items"]} == {("r1", 3), ("r2", 2)}
    assert get(reader, f"/api/v1/runs/{runs['items'][0]['run']}") == runs["items"][0]
    seen: list[str] = []
    address = "/api/v1/calls?q=tool:Search&limit=2"
    for _ in range(3):
        page = get(reader, address)
        seen += [call["call"] for call in page["items"]]
        address = f"/api/v1/calls?q=tool:Search&limit=2&after={page['next']}".replace("+", "%2B")
    assert page["next"] is None
    assert sorted(seen) == sorted(str(key) for key in Call.objects.values_list("pk", flat=True))
    assert get(reader, "/api/v1/calls?q=nokey:1")["problems"]
    assert get(reader, "/api/v1/runs?q=agent:nobody")["items"] == []


def test_halves_come_in_windows_and_name_what_the_model_did_not_see(project: Project, reader: Sender) -> None:
    call = Call.objects.get(external_id="c1", run__external_id="r1")
    document = get(reader, f"/api/v1/calls/{call.pk}/halves?limit=10&part=receipt")
    assert (document["receipt"]["text"], document["receipt"]["next"]) == ("line 0 of ", 10)
    rest = get(reader, f"/api/v1/calls/{call.pk}/halves?offset=10&part=receipt")["receipt"]
    assert rest["next"] is None
    assert document["receipt"]["total"] == rest["end"] == 60
    whole = get(reader, f"/api/v1/calls/{call.pk}/halves")
    assert "line 19 of 1" in whole["canonical"]["text"]
    assert whole["call"]["external_id"] == "c1"
    assert get(reader, f"/api/v1/calls/{call.pk}/variants/receipt")["text"]["total"] > 0
    assert "no variant" in get(reader, f"/api/v1/calls/{call.pk}/variants/nothing", 422)["error"]


def test_what_is_asked_of_a_call_that_waits_is_what_an_import_would_store(project: Project) -> None:
    Sender(project).records([*one_run(1), *failed_call()])
    reader, calls = Sender(project, "read"), list(Call.objects.waiting())
    assert len(calls) == 2
    rest = ("halves", "halves?part=receipt&limit=5", "unseen", "variants/receipt", "variants/outcome_json")
    addresses = [f"/api/v1/calls/{call.pk}/{address}" for call in calls for address in rest]
    before = [reader.get(address).content for address in addresses]
    assert Call.objects.waiting().count() == 2  # nothing was stored
    derive_waiting(project)
    assert before == [reader.get(address).content for address in addresses]
    halves = get(reader, f"/api/v1/calls/{Call.objects.get(tool='ExecCommand').pk}/halves")["call"]
    assert (halves["outcome"], halves["is_cut"], halves["result_fidelity"]) == ("failed", True, "structured")


def test_lists_name_the_calls_that_wait_and_claim_nothing_of_them(project: Project) -> None:
    Sender(project).records([*one_run(1), *failed_call()])
    reader = Sender(project, "read")
    waiting = "2 calls are being counted: until then filters and sorts may miss them."
    for query in (
        "tool:ExecCommand",
        "outcome:unanswered",
        "tool:ExecCommand status:failed",
        "cut:yes",
        'receipt:"line 0"',
    ):
        page = get(reader, f"/api/v1/calls?q={quote(query)}")
        assert (page["problems"], page["notes"][0]) == ([], waiting), query
        assert {call["outcome"] for call in page["items"]} <= {"not counted yet"}, query
    assert page["notes"][1:] == ["2 calls are not searchable yet."]
    call = get(reader, "/api/v1/calls?q=tool:ExecCommand")["items"][0]
    derived = ("family", "exit_status", "summary", "tokens", "is_cut", "output_lines", "seen_lines")
    assert [call[name] for name in (*derived, "result_fidelity", "receipt_fidelity")] == [None] * 9
    runs = get(reader, "/api/v1/runs?q=tool:ExecCommand")
    assert (runs["problems"], runs["notes"]) == ([], ["2 calls are being counted."])
    (run,) = get(reader, "/api/v1/runs")["items"]
    assert run["waiting"] == get(reader, f"/api/v1/runs/{run['run']}")["waiting"] == 2
    assert get(reader, f"/api/v1/runs/{run['run']}/context/1")["waiting"] == 2
    assert get(reader, "/api/v1/artifacts")["notes"] == ["2 calls are being counted."]
    derive_waiting(project)
    (call,) = get(reader, "/api/v1/calls?q=tool:ExecCommand+outcome:failed+cut:yes")["items"]
    assert (call["outcome"], call["output_lines"], call["seen_lines"]) == ("failed", 8, 4)
    misspelt = get(reader, "/api/v1/calls?q=tool:ExecComand")
    assert (misspelt["notes"], "occurs nowhere" in misspelt["problems"][0]) == ([], True)
    assert get(reader, "/api/v1/runs")["items"][0]["waiting"] == 0


SETTLED: dict[str, tuple[dict[str, Any], bool]] = {
    "a success without a result": ({"status": "ok"}, False),
    "a failure without a result": ({"status": "error"}, True),
    "a refusal without a result": ({"denied_reason": "not allowed"}, True),
    "a tool that returned nothing": ({"status": "ok", "complete": None}, True),
    "an empty text": ({"status": "ok", "complete": {"text": ""}}, True),
}


@pytest.mark.parametrize("name", SETTLED)
def test_a_result_that_nobody_recorded_is_not_invented(project: Project, operator_client: Client, name: str) -> None:
    """With a failure or a refusal, the envelope states the error alone."""
    settled, has_canonical = SETTLED[name]
    base = {"v": 1, "run": "r1", "call": "c1"}
    Sender(project).records([base | {"type": "call", "tool": "T", "args": {}}, base | {"type": "result", **settled}])
    reader, call = Sender(project, "read"), Call.objects.get()
    for _ in range(2):
        halves = get(reader, f"/api/v1/calls/{call.pk}/halves")
        assert (halves["canonical"] is not None, halves["is_bounded"]) == (has_canonical, False)
        assert (halves["call"]["result_fidelity"] == "absent") == ("complete" not in settled)
        rendered = reader.get(f"/api/v1/calls/{call.pk}/variants/receipt")
        assert rendered.status_code == (200 if has_canonical else 422)
        downloaded = operator_client.get(f"/calls/{call.pk}/raw/canonical")
        assert downloaded.status_code == (200 if has_canonical else 404)
        derive_waiting(project)


def test_the_unseen_part_of_an_output_is_read_by_window(project: Project, tmp_path: Path) -> None:
    output = [f"line {number}" for number in range(1, 101)]
    asked, answered = transcript()
    answered["toolUseResult"] = {"stdout": "\n".join(output), "stderr": "", "interrupted": False, "isImage": False}
    shown = "\n".join([*output[:20], "", "... [60 lines truncated] ...", "", *output[80:]])
    answered["message"]["content"][0]["content"] = shown
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (asked, answered)))
    import_paths(project, [path])
    reader, call = Sender(project, "read"), Call.objects.get()
    (gaps,) = get(reader, f"/api/v1/calls/{call.pk}/halves")["outputs"]
    assert (gaps["pointer"], gaps["lines"], gaps["seen_lines"], gaps["unseen"]) == ("/stdout", 100, 40, [[21, 80]])
    window = get(reader, f"/api/v1/calls/{call.pk}/unseen?limit=15")
    assert window["text"] == "line 21\nline 22"
    assert get(reader, f"/api/v1/calls/{call.pk}/unseen?offset={window['next']}&limit=8")["text"] == "\nline 23"
    assert "no recorded output" in get(reader, f"/api/v1/calls/{call.pk}/unseen?pointer=/none", 422)["error"]


def test_nothing_is_unseen_where_no_receipt_was_recorded(project: Project) -> None:
    import_paths(project, [FOLDER / "swe_agent" / "humanevalfix-python-0.traj"])
    reader, call = Sender(project, "read"), Call.objects.get(receipt_count=0)
    halves = get(reader, f"/api/v1/calls/{call.pk}/halves")
    assert (halves["receipt"], halves["outputs"], halves["left_out"]) == (None, [], "")
    assert halves["canonical"] is not None
    assert halves["call"]["receipt_fidelity"] == "absent"
    assert [halves["call"][name] for name in ("is_cut", "seen_lines", "tokens")] == [None] * 3
    lists = [get(reader, f"/api/v1/calls?limit=200&q={term}")["items"] for term in ("cut:no", "cut:yes", "-cut:yes")]
    assert [halves["call"] in items for items in lists] == [False, False, True]
    assert lists[0]
    assert "no receipt was recorded" in get(reader, f"/api/v1/calls/{call.pk}/unseen", 422)["error"]


def test_halves_state_what_the_agent_cut_out_of_both(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "rollout-a.jsonl"
    asked = item(0, "function_call", "c", name="exec_command", arguments='{"cmd": "make"}')
    path.write_bytes(rollout(asked, item(1, "function_call_output", "c", output=RAN + SHORTENED)))
    import_paths(project, [path])
    halves = get(Sender(project, "read"), f"/api/v1/calls/{Call.objects.get().pk}/halves")
    assert halves["call"]["is_cut"]
    assert halves["left_out"] == "The agent cut 768 tokens out of what it sent."


def test_the_context_at_a_step_and_experiments_are_readable(project: Project, reader: Sender) -> None:
    run = Run.objects.get(external_id="r1")
    context = get(reader, f"/api/v1/runs/{run.pk}/context/2")
    assert context["tokens"] > 0
    assert [item["kind"] for item in context["items"]]
    beyond = get(reader, f"/api/v1/runs/{run.pk}/context/99", 404)
    assert beyond["error"] == "Not found. No call has position 99: the run has 3 calls."
    comparison, _ = compared(project, ["recorded", "receipt"])
    (item,) = get(reader, "/api/v1/experiments")["items"]
    assert item["experiment"] == str(comparison.pk)
    assert get(reader, f"/api/v1/experiments?after={comparison.pk}")["items"] == []
    assert get(reader, "/api/v1/artifacts?limit=1")["items"] == []


UNREAD_OF_LISTS = {  # with how many items it is answered
    "runs?limit=x": 2,
    "calls?limit=-5": 5,
    "calls?limit=201": 5,
    "artifacts?limit=0": 0,
    "experiments?limit=x": 1,
    "artifacts?after=zz": 0,
    "artifacts?call=zz": 0,
    "experiments?after=zz": 0,
    "experiments?after=00000000-0000-0000-0000-000000000001": 0,
}
UNREAD_OF_WINDOWS = [
    "calls/{call}/halves?part=bogus",
    "calls/{call}/halves?offset=zz",
    "calls/{call}/halves?limit=x",
    "calls/{call}/halves?limit=-5",
    "calls/{call}/halves?offset=-5",
    "calls/{call}/variants/receipt?limit=0",
]


def test_a_parameter_that_cannot_be_read_is_reported(project: Project, reader: Sender) -> None:
    compared(project, ["recorded", "receipt"])
    call = Call.objects.filter(external_id="c1").first()
    assert call is not None
    for address, number in UNREAD_OF_LISTS.items():
        page = get(reader, f"/api/v1/{address}")
        assert (len(page["items"]), page["next"]) == (number, None), address
        assert page["problems"][0].startswith(f"{address.partition('?')[2]} is no"), address
        assert len(page["problems"]) == 1
    for address in UNREAD_OF_WINDOWS:
        error = get(reader, f"/api/v1/{address.format(call=call.pk)}", 400)["error"]
        assert error.startswith(f"This request cannot be read. {address.partition('?')[2]} is not "), address


def test_secrets_are_masked_as_on_pages(project: Project) -> None:
    sender, reader = Sender(project), Sender(project, "read")
    call = {"v": 1, "run": "r1", "call": "c1"}
    sender.records(
        [
            call | {"type": "call", "tool": "T", "args": {"key": SECRET}},
            call | {"type": "result", "complete": {"text": f"{'x' * 200} {SECRET} end"}},
        ]
    )
    derive_waiting(project)
    key = Call.objects.get().pk
    for query in ("", "?offset=230", "?offset=235&limit=20&part=canonical"):
        text = reader.get(f"/api/v1/calls/{key}/halves{query}").content.decode()
        assert "IOSFODNN7" not in text
        assert "7EXAMPLE" not in text


@each("address", ["runs/{run}", "runs/{run}/context/1", "calls/{call}/halves", "calls/{call}/unseen"])
def test_another_project_has_none_of_it(project: Project, reader: Sender, address: str) -> None:
    names = {"run": Run.objects.first().pk, "call": Call.objects.first().pk}  # type: ignore[union-attr]
    other = create_project(f"other-{abs(hash(address))}")
    get(Sender(other, "read"), f"/api/v1/{address.format(**names)}", 404)
    assert Sender(other, "ingest").get("/api/v1/runs").status_code == 403


def test_the_pages_addresses_answer_json_to_who_asks_for_it(
    project: Project, reader: Sender, alice: User, client: Client
) -> None:
    run, call = Run.objects.get(external_id="r1"), Call.objects.filter(external_id="c1").first()
    assert call is not None
    json_client = {"headers": {"Accept": "application/json"}}
    addresses = {"/runs/": "items", "/calls/": "items", f"/runs/{run.pk}/": "run", f"/calls/{call.pk}/": "receipt"}
    for address, key in (addresses | {"/experiments/": "items"}).items():
        assert key in json.loads(client.get(address, **json_client).content)  # type: ignore[arg-type]
        page = client.get(address, headers={"Accept": "text/html,*/*;q=0.8"}, follow=True)
        assert page["Content-Type"].startswith("text/html")


def test_the_description_names_every_address_and_what_it_answers(client: Client) -> None:
    document = json.loads(client.get("/api/v1/openapi.json").content)
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {address for address, *_ in (*ADDRESSES, *SENDING)}
    routes = {str(pattern.pattern) for pattern in patterns()}
    as_routes = {
        address[1:].replace("{position}", "<int:position>").replace("{variant}", "<slug:name>")
        for address, *_ in ADDRESSES
    }
    for name in ("{run}", "{call}", "{artifact}"):
        as_routes = {route.replace(name, "<uuid:pk>") for route in as_routes}
    assert as_routes <= routes
    assert "CallHalves" in document["components"]["schemas"]
