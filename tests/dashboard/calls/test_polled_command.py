"""A command that its model polled has several receipts, which count together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Event, Project, RecordedReceipt, Run
from dashboard.runs.replay import ReplayedReceipts, load_replay
from dashboard.runs.timeline import Timeline
from tests.dashboard.factories import create_user
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
OUTPUT = "".join(f"line {number}\n" for number in range(9))
RUNNING = "Process running with session ID 7\nOutput:\n"
WAITED = RUNNING  # twice the same text
ENDED = f"Process exited with code 0\nOutput:\n{OUTPUT[14:]}"


def item(kind: str, call: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, "call_id": call, **fields}}


@pytest.fixture
def call(project: Project, tmp_path: Path) -> Call:
    poll = json.dumps({"session_id": 7, "chars": ""})
    record = {
        "type": "exec_command_end",
        "call_id": "c",
        "process_id": "7",
        "exit_code": 0,
        "aggregated_output": OUTPUT,
    }
    entries = [
        {"type": "session_meta", "payload": {"id": "r"}},
        item("function_call", "c", name="exec_command", arguments='{"cmd": "make"}'),
        item("function_call_output", "c", output=RUNNING + OUTPUT[:14]),
        item("function_call", "p1", name="write_stdin", arguments=poll),
        item("function_call_output", "p1", output=WAITED),
        item("function_call", "p2", name="write_stdin", arguments=poll),
        item("function_call_output", "p2", output=WAITED),
        item("function_call", "p3", name="write_stdin", arguments=poll),
        item("function_call_output", "p3", output=ENDED),
        {"type": "event_msg", "payload": record},
    ]
    path = tmp_path / "rollout-r.jsonl"
    lines = [{"timestamp": f"2026-05-01T10:00:{number:02}Z", **entry} for number, entry in enumerate(entries)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert import_paths(project, [path]).problems == []
    return Call.objects.get()


def test_the_columns_of_the_call_follow_from_all_its_receipts(call: Call) -> None:
    receipts = list(call.receipts.order_by("seq"))
    assert [(row.line, row.superseded_line) for row in receipts] == [(3, None), (5, None), (7, None), (9, None)]
    texts = (RUNNING + OUTPUT[:14], WAITED, WAITED, ENDED)
    assert [row.characters for row in receipts] == [len(text) for text in texts]
    assert (call.receipt_count, call.receipt_characters) == (4, sum(map(len, texts)))
    assert (call.exit_status, call.is_disagreeing, call.result_fidelity) == (0, False, "structured")
    assert Event.objects.filter(kind="poll", call=call.pk).count() == 3


def test_the_page_shows_them_together_and_each_alone(call: Call, client: Client) -> None:
    client.force_login(create_user(project=call.project))
    address = call.get_absolute_url()
    page = client.get(address, follow=True).content.decode()
    choices = parse_page(page).select("nav[aria-label='Receipts of this call in time'] a")
    labels = [choice.text.partition(" 2026")[0] for choice in choices]
    assert labels[0].startswith("All 4 together: polled")
    assert [label for label in labels if "current" in label] == []  # the model has all of them
    assert "Process exited with code" in page
    first = RecordedReceipt.objects.get(call=call, seq=1).observation_id
    alone = client.get(address, {"receipt": str(first)}, follow=True).content.decode()
    assert "Process running with session ID" in alone
    assert "Process exited with code" not in alone


def test_a_replay_has_one_receipt_in_the_place_of_all(call: Call) -> None:
    run = Run.objects.get()
    replay = load_replay(run, "receipt")
    weights = {mark.line: mark.tokens for mark in Timeline(run, ReplayedReceipts(run, replay)).receipts}
    assert weights == {3: replay.tokens[call.pk], 5: 0, 7: 0, 9: 0}
