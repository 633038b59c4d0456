"""Folders in which Kimi Code, Mistral Vibe and Kilo Code record: one run a session, below it those of its subagents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from django.core.management import call_command

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Event, Message, Observation, Project, RecordedReceipt, Run, Source
from dashboard.runs.compactions import load_compactions
from tests.dashboard.stored_rows import stored_rows
from tests.envelopes.recordings.opencode_storage import RELEASES, write_database

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SAMPLES = Path(__file__).resolve().parents[2] / "envelopes/recordings"
FOLDERS = ("kimi_code/0.10.0", "kimi_code/2.1.0", "mistral_vibe/2.20.0")
each_folder = pytest.mark.parametrize("name", FOLDERS)


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    return shutil.copytree(SAMPLES / name, tmp_path / "sessions")


def describe(project: Project) -> list[object]:
    """What the pages show of the runs, without the rows' own ids."""
    calls = Call.objects.filter(project=project).order_by("run__external_id", "line", "external_id")
    rows = {"run__project": project}
    return [
        *calls.values_list("run__external_id", "external_id", "outcome", "line", "summary", "error_kind"),
        *RecordedReceipt.objects.filter(**rows)
        .order_by("call__external_id")
        .values_list("call__external_id", "line", "fidelity"),
        *Message.objects.filter(**rows)
        .order_by("run__external_id", "line", "role", "size")
        .values_list("line", "role", "size"),
        *Event.objects.filter(**rows)
        .order_by("run__external_id", "line", "kind")
        .values_list("line", "kind", "message"),
    ]


@each_folder
def test_a_session_is_a_run_and_a_subagent_one_below_it(project: Project, folder: Path, name: str) -> None:
    report = import_paths(project, [folder])
    assert not report.problems
    [child] = Run.objects.filter(parent__isnull=False, external_id__regex=r"/(agent-0|explore_\w+)$")
    assert child.external_id.startswith(f"{child.parent.external_id}/")
    assert child.call_count == 2
    expected = "recorded" if name.startswith("mistral") else "reconstructed"
    assert {row.fidelity for row in Observation.objects.filter(surface="receipt")} == {expected}


@each_folder
def test_a_second_import_and_a_second_reading_add_nothing(project: Project, folder: Path, name: str) -> None:
    import_paths(project, [folder])
    stored = stored_rows()
    assert not import_paths(project, [folder]).added["calls"]
    assert stored_rows() == stored
    Source.objects.update(reader=0)
    call_command("rederive")
    assert set(Source.objects.values_list("reader", flat=True)) != {0}
    assert stored_rows() == stored


@each_folder
def test_a_session_that_grows_is_read_once(project: Project, folder: Path, name: str) -> None:
    other = get_or_create_project("other")
    contents = {path: path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))}
    for share in (3, 2, 1):
        for path, content in contents.items():
            path.write_bytes(content[: len(content) // share].rpartition(b"\n")[0] + b"\n")
        import_paths(project, [folder])
    import_paths(other, [folder])
    assert describe(project) == describe(other)


def test_a_compaction_of_kimi_code_keeps_what_the_person_wrote(project: Project) -> None:
    import_paths(project, [SAMPLES / "kimi_code/2.1.0"])
    [compaction] = [event for run in Run.objects.all() for event in load_compactions(run)]
    assert len(compaction.kept) == 2
    assert compaction.line in compaction.kept


def test_the_database_of_kilo_code_has_runs_of_it(project: Project, tmp_path: Path) -> None:
    document = json.loads((RELEASES / "kilo_code_7.7.9.json").read_bytes())
    report = import_paths(project, [write_database(tmp_path / "kilo.db", [document])])
    assert not report.problems
    run = Run.objects.get()
    assert (run.agent, run.external_id) == ("kilo-code", document["info"]["id"])
    assert {"refused", "timed_out", "failed"} <= {call.outcome for call in Call.objects.all()}


def test_a_session_of_the_continue_cli_is_another_run_once_it_was_compacted(project: Project, tmp_path: Path) -> None:
    [whole] = (SAMPLES / "continue_cli/1.5.47-compact").glob("*-*.json")
    [other] = (SAMPLES / "continue_cli/1.5.47-denied").glob("*-*.json")
    path = tmp_path / whole.name
    path.write_text(json.dumps({**json.loads(other.read_bytes()), "sessionId": whole.stem}))
    import_paths(project, [path])
    shutil.copy(whole, path)
    assert not import_paths(project, [path]).problems
    first, second = Run.objects.order_by("external_id")
    assert (first.external_id, first.call_count) == (whole.stem, 2)
    assert (second.external_id.partition("/")[0], second.call_count) == (whole.stem, 1)
    [compaction] = load_compactions(second)
    assert compaction.line < Call.objects.get(run=second).line
