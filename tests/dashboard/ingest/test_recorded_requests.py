"""Requests that the agent recorded: a receipt that one of them has is what the model saw, however it was imported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from django.test import Client

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, RecordedReceipt, Run
from tests.dashboard.page_text import text_of
from tests.dashboard.stored_rows import stored_rows
from tests.source import CHECKOUT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice")]
SESSION = next((CHECKOUT / "tests/envelopes/recordings/releases/claude_code_2.1.332").glob("*.jsonl"))
LINES = SESSION.read_bytes().splitlines(keepends=True)
ANSWER = 1 + next(number for number, line in enumerate(LINES) if b'"Exit code 3"' in line)


def import_until(project: Project, folder: Path, lines: int) -> None:
    path = folder / SESSION.name
    path.write_bytes(b"".join(LINES[:lines]))
    import_paths(project, [path])


def fidelities() -> Counter[str]:
    return Counter(RecordedReceipt.objects.values_list("fidelity", flat=True))


def test_a_receipt_is_exact_from_its_request_on(project: Project, client: Client, tmp_path: Path) -> None:
    import_until(project, tmp_path, ANSWER)
    assert fidelities() == {"exact": 3, "recorded": 1}
    run = Run.objects.get(parent=None)
    assert "Recorded as seen by the model" in text_of(client.get(f"/runs/{run.pk}/4/halves").content.decode())
    import_until(project, tmp_path, ANSWER + 1)
    assert fidelities() == {"exact": 4}
    page = text_of(client.get(f"/runs/{run.pk}/4/halves").content.decode())
    assert "The model saw" in page
    assert "Recorded as seen by the model" not in page
    assert max(RecordedReceipt.objects.values_list("line", flat=True)) == ANSWER  # its own, not that of the request


@pytest.mark.parametrize("cut", [ANSWER, ANSWER + 1, len(LINES) // 2])
def test_a_session_that_grew_has_the_rows_of_a_whole_one(cut: int, project: Project, tmp_path: Path) -> None:
    import_until(project, tmp_path, len(LINES))
    whole = stored_rows()
    for run in list(Run.objects.all()):
        delete_run(run)
    (tmp_path / "grown").mkdir()
    import_until(project, tmp_path / "grown", cut)
    import_until(project, tmp_path / "grown", len(LINES))
    assert stored_rows() == whole
    assert fidelities() == {"exact": 21}
