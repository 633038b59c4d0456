"""A text that replaced a receipt in the context says nothing of what the tool returned: the first receipt does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.evidence.call_inputs import load_call_inputs
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice")]
FAILED = "Error: no rule to make target\nexit 2"
PLACEHOLDER = "[Old tool result content cleared]"


def request(receipt: str, *others: dict[str, Any]) -> dict[str, Any]:
    """A request of OpenAI's chat API that repeats its history, in which a client clears old outputs."""
    function = {"name": "bash", "arguments": '{"command": "make"}'}
    asked = {"role": "assistant", "tool_calls": [{"id": "call_Q1x", "type": "function", "function": function}]}
    answer = {"role": "tool", "tool_call_id": "call_Q1x", "content": receipt}
    return {"model": "gpt-5", "messages": [{"role": "user", "content": "build it"}, asked, answer, *others]}


@pytest.fixture
def call(project: Project, tmp_path: Path) -> Call:
    said = {"role": "assistant", "content": "It has no such target."}
    requests = [request(FAILED), request(PLACEHOLDER, said, {"role": "user", "content": "go on"})]
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(sent) + "\n" for sent in requests))
    import_paths(project, [path])
    return Call.objects.get()


@pytest.mark.postgresql
def test_the_canonical_half_is_that_of_the_first_receipt(call: Call, client: Client) -> None:
    assert [receipt.seq for receipt in call.receipts.order_by("seq")] == [1, 2]
    assert call.summary == call.first_line == FAILED.split("\n")[0]
    first, later = (receipt.observation_id for receipt in call.receipts.order_by("seq"))
    assert call.projection.observation_id == first
    for query, receipt in (("", PLACEHOLDER), (f"?receipt={later}", PLACEHOLDER), (f"?receipt={first}", FAILED)):
        page = parse_page(client.get(f"/calls/{call.pk}/{query}", follow=True))
        canonical, shown = (half.text for half in page.select(".halves > .half"))
        assert ("no rule to make target" in canonical, PLACEHOLDER in canonical) == (True, False)
        assert receipt.split("\n")[0] in shown
        is_replaced = "Read out of the first receipt: the one in view took its place." in page.text
        assert is_replaced == (receipt == PLACEHOLDER)


@pytest.mark.postgresql
@pytest.mark.parametrize("reason", [None, "old outputs"])
def test_what_the_model_had_before_is_not_said_to_be_cut(
    reason: str | None, project: Project, client: Client, tmp_path: Path
) -> None:
    """The first receipt of the second call lacks lines; a placeholder took the place of both."""
    output = "".join(f"line {number} of the output\n" for number in range(60))
    records: list[dict[str, Any]] = [{"type": "run", "agent": "mine"}]
    for call, sent in (("whole", output), ("part", output[: len(output) // 2])):
        records += [{"type": "call", "call": call, "tool": "fetch", "args": {}}]
        records += [
            {"type": "result", "call": call, "complete": output},
            {"type": "receipt", "call": call, "text": sent},
        ]
        records += [{"type": "receipt", "call": call, "seq": 2, "text": PLACEHOLDER, "reason": reason}]
    path = tmp_path / "native.jsonl"
    path.write_text("".join(json.dumps({"v": 1, "run": "r1", **record}) + "\n" for record in records))
    import_paths(project, [path])
    for name, seen in (("whole", 60), ("part", 30)):
        call = Call.objects.get(external_id=name)
        assert (call.is_cut, call.seen_lines, call.output_lines) == (seen < 60, seen, 60)
        assert set(call.receipts.values_list("is_cut", "seen_lines")) == {(seen < 60, seen)}
        page = parse_page(client.get(f"/calls/{call.pk}/", follow=True))
        words = "all 60 lines" if seen == 60 else "30 of 60 lines"
        assert f"the model got {words}" in page.text
        assert "Then another text took its place." in page.text
        assert (reason or "replaced") in page.text
        assert PLACEHOLDER in page.select(".halves > .half")[1].text


def test_other_renderers_write_it_of_the_first_receipt_too(call: Call) -> None:
    for with_recorded in (False, True):
        (loaded,) = load_call_inputs([call.pk], with_recorded=with_recorded)
        assert loaded.canonical.result == {"text": FAILED}
