"""Conversations with a file for each event: files are imported in any order, and a fork is a run of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.ingest.rereading import read_outdated
from dashboard.models import Event, Project, Run, Source
from dashboard.runs.compactions import load_compactions
from dashboard.runs.run_marks import load_branches
from envelopes.recordings.base import PARTIAL_COMPACTION
from tests.dashboard.stored_rows import stored_rows

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SAMPLES = Path(__file__).resolve().parents[2] / "envelopes" / "recordings" / "openhands"
[CONVERSATION] = (SAMPLES / "1.58.2").iterdir()
FORK = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    return shutil.copytree(CONVERSATION, tmp_path / "conversations" / CONVERSATION.name)


def test_a_folder_of_events_is_one_run_with_its_subagent(project: Project, conversation: Path) -> None:
    report = import_paths(project, [conversation.parent])
    assert not report.problems
    run = Run.objects.get(external_id=conversation.name)
    assert (run.call_count, run.model, run.cwd) == (22, "openai/gpt-4o", "/srv/demo/app")
    assert [child.call_count for child in Run.objects.filter(parent=run)] == [2]
    assert {source.runs.count() for source in Source.objects.all()} == {1}
    assert all(compaction.kept for compaction in load_compactions(run))
    assert len(load_branches(run)) == 1


def test_files_in_another_order_and_a_file_at_a_time_end_alike(project: Project, conversation: Path) -> None:
    other_project = get_or_create_project("other")
    import_paths(project, [conversation])
    for path in sorted(conversation.rglob("*.json"), reverse=True):
        import_paths(other_project, [path])
    [first, other] = [Run.objects.get(project=each, external_id=conversation.name) for each in (project, other_project)]
    for name in ("call_count", "title", "model", "started_at", "last_at"):
        assert getattr(first, name) == getattr(other, name)
    kept = [[compaction.kept for compaction in load_compactions(run)] for run in (first, other)]
    assert kept[0] == kept[1]


def test_a_second_import_adds_nothing_and_a_new_event_its_own(project: Project, conversation: Path) -> None:
    last = max((conversation / "events").iterdir())
    content = last.read_bytes()
    last.unlink()
    import_paths(project, [conversation])
    last.write_bytes(content)
    assert import_paths(project, [conversation]).added["runs"] == 0
    stored = stored_rows()
    import_paths(project, [conversation])
    assert stored_rows() == stored


def test_a_fork_with_the_same_files_is_a_run_of_its_own(project: Project, conversation: Path) -> None:
    shutil.copytree(conversation / "events", conversation.parent / FORK / "events")
    import_paths(project, [conversation.parent])
    assert [Run.objects.get(external_id=name).call_count for name in (conversation.name, FORK)] == [22, 22]


def test_a_conversation_that_was_moved_is_not_imported_again(project: Project, conversation: Path) -> None:
    import_paths(project, [conversation])
    moved = shutil.move(conversation, conversation.parent.parent / conversation.name)
    assert not any(import_paths(project, [Path(moved)]).added.values())


def test_stored_events_are_read_again_with_their_folder(project: Project, conversation: Path) -> None:
    import_paths(project, [conversation])
    Source.objects.update(reader=0)
    shutil.rmtree(conversation)
    events = set(Event.objects.filter(kind=PARTIAL_COMPACTION).values_list("pk", flat=True))
    assert events
    assert list(read_outdated(project))
    assert set(Event.objects.filter(kind=PARTIAL_COMPACTION).values_list("pk", flat=True)) == events
