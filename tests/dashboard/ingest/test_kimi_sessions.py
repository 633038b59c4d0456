"""Sessions of Kimi CLI, whose halves are in two files: they are imported in any order, and while they grow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Event, Message, Observation, Project, RecordedReceipt, Run, Source
from dashboard.runs.compactions import load_compactions
from dashboard.runs.run_marks import load_branches
from envelopes.recordings.base import PARTIAL_COMPACTION, REWIND
from tests.dashboard.stored_rows import stored_rows

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
[SESSION] = (Path(__file__).resolve().parents[2] / "envelopes/recordings/kimi_cli/1.50.0").iterdir()
CALLS = 45


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return shutil.copytree(SESSION, tmp_path / "sessions" / SESSION.name)


def describe(project: Project) -> list[object]:
    """What the pages show of the run, without the rows' own ids."""
    run = Run.objects.get(project=project, external_id=SESSION.name)
    calls = Call.objects.filter(project=project).order_by("external_id")
    return [
        *calls.values_list("external_id", "outcome", "line", "started_at", "ended_at"),
        *RecordedReceipt.objects.filter(run=run).order_by("call__external_id").values_list("call__external_id", "line"),
        *Message.objects.filter(run=run).order_by("line", "role", "size").values_list("line", "role", "size"),
        *Event.objects.filter(run=run, kind__in=(REWIND, PARTIAL_COMPACTION)).values_list("line", "kind"),
        [compaction.kept for compaction in load_compactions(run)],
        (run.title, run.call_count, run.started_at),
    ]


def test_a_folder_is_one_run_with_its_subagent(project: Project, session: Path) -> None:
    report = import_paths(project, [session.parent])
    assert not report.problems
    run = Run.objects.get(external_id=session.name)
    assert (run.title, run.call_count) == ("Look around and work.", CALLS)
    [child] = Run.objects.filter(parent=run)
    assert (child.call_count, Call.objects.get(pk=child.parent_call).tool) == (2, "Agent")
    assert {row.fidelity for row in Observation.objects.filter(surface="receipt")} == {"recorded"}
    [compaction] = load_compactions(run)
    assert len(compaction.kept) == 4
    [branch] = load_branches(run)
    assert branch.start < branch.end < compaction.line


def test_files_in_another_order_and_one_at_a_time_end_alike(project: Project, session: Path) -> None:
    other = get_or_create_project("other")
    import_paths(project, [session])
    for path in sorted(session.rglob("*.jsonl"), reverse=True):
        import_paths(other, [path])
    assert describe(project) == describe(other)


def test_a_second_import_and_a_second_reading_add_nothing(project: Project, session: Path) -> None:
    import_paths(project, [session])
    stored = stored_rows()
    assert not import_paths(project, [session]).added["calls"]
    assert stored_rows() == stored
    Source.objects.update(reader=0)
    call_command("rederive")
    assert stored_rows() == stored


def test_a_context_that_is_left_while_it_is_followed_is_read_once(project: Project, session: Path) -> None:
    """The file without a number is the last context; the client renames it, and begins another one."""
    contexts = [(session / name).read_bytes() for name in ("context_1.jsonl", "context_2.jsonl", "context.jsonl")]
    wire = (session / "wire.jsonl").read_bytes()
    ends = [wire.index(b'"StepBegin"', wire.index(b"SendDMail")), wire.index(b"CompactionBegin")]
    for name in ("context_1.jsonl", "context_2.jsonl"):
        (session / name).unlink()
    for number, (content, end) in enumerate(zip(contexts, (*ends, len(wire)), strict=True)):
        if number:
            (session / "context.jsonl").rename(session / f"context_{number}.jsonl")
        (session / "wire.jsonl").write_bytes(wire[:end].rpartition(b"\n")[0] + b"\n")
        for size in (len(content) // 2, len(content)):
            (session / "context.jsonl").write_bytes(content[:size].rpartition(b"\n")[0] + b"\n")
            import_paths(project, [session])
    other = get_or_create_project("other")
    import_paths(other, [session])
    assert describe(project) == describe(other)
