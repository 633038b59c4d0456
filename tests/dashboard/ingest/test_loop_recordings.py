"""What a turn loop records is imported with both halves of each call, as the page about the runtime describes it."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.ingest.importer import import_paths
from dashboard.models import Artifact, Call, Project, RecordedReceipt, Run
from envelopes.plan.recorders import load_run
from tests.conftest import CHECKOUT
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db

PAGE = (CHECKOUT / "dashboard" / "docs" / "runtime.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUNDS = (
    (("toolu_1", {"cmd": "printf 'a\\033[1mb\\n\\303\\244'"}), ("toolu_2", {"cmd": "seq 1 90000"})),
    (("toolu_3", {}), ("toolu_4", {"cmd": "exit 3"})),
    (),
)


@pytest.fixture
def sent(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The texts that a provider's client was given, by call; the recording of its loop is imported."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "runtime.md", "exec"), names)
    rounds, messages = iter(ROUNDS), list[Any]()

    def ask(_messages: list[Any], _tools: list[Any]) -> list[tuple[str, str, dict[str, Any]]]:
        return [(call, "ExecCommand", args) for call, args in next(rounds)]

    names["run_turn"](ask, "anthropic", messages, tmp_path / "audit")
    report = import_paths(project, [tmp_path / "audit"])
    assert report.problems == []
    blocks = [block for message in messages for block in message["content"]]
    return {block["tool_use_id"]: block["content"] for block in blocks}


def test_each_imported_call_of_a_loop_has_its_receipt_byte_for_byte(sent: dict[str, str]) -> None:
    """RFC-147."""
    calls = {call.external_id: call for call in Call.objects.order_by("external_id")}
    assert [*sent] == [*calls] == ["toolu_1", "toolu_2", "toolu_3", "toolu_4"]
    for name, call in calls.items():
        evidence = load_evidence(call, {})
        assert evidence.receipt is not None
        assert evidence.receipt_text == sent[name]
        assert (call.receipt_fidelity, call.result_fidelity) == ("exact", "structured")


def test_the_page_of_such_a_call_shows_both_halves(sent: dict[str, str], operator_client: Client) -> None:
    for call in Call.objects.all():
        text = parse_page(operator_client.get(f"/calls/{call.pk}/")).text
        assert "Receipt not recorded" not in text
        assert sent[call.external_id].splitlines()[0] in text


def test_the_context_of_a_call_has_the_receipts_of_earlier_messages_and_none_of_its_own(
    sent: dict[str, str], operator_client: Client
) -> None:
    run = Run.objects.get()
    tabs = [parse_page(operator_client.get(f"/runs/{run.pk}/{step}/context")) for step in (1, 2, 3, 4)]
    kinds = [tab.select_one(".context-kinds").text for tab in tabs]
    assert ["2 receipts" in kind for kind in kinds] == [False, False, True, True]
    assert ["Nothing that a model could have seen" in kind for kind in kinds] == [True, True, False, False]


def test_the_stored_output_that_a_receipt_names_is_imported(sent: dict[str, str]) -> None:
    (artifact,) = Artifact.objects.filter(call__external_id="toolu_2", observation=None)
    assert artifact.state == Artifact.State.PRESENT
    assert RecordedReceipt.objects.count() == 4


def test_an_export_of_the_run_has_the_receipts_and_envelopes_of_its_runtime(
    sent: dict[str, str], tmp_path: Path
) -> None:
    call_command("export_run", str(Run.objects.get().pk), str(tmp_path / "exported"), stdout=StringIO())
    before, after = (load_run(tmp_path / folder) for folder in ("audit", "exported"))
    assert before.receipts == after.receipts
    own = [[result.extra[name] for name in ("canonical", "projectionPolicy")] for result in before.results]
    assert own == [[result.extra[name] for name in ("canonical", "projectionPolicy")] for result in after.results]
    assert len(own) == len(sent)
