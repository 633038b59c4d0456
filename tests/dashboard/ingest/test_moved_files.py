"""Follows a session's file that is renamed, cut short, emptied or rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Message, Project, Run
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session, write

pytestmark = pytest.mark.django_db


def stored() -> tuple[list[str], int, int]:
    return sorted(Call.objects.values_list("external_id", flat=True)), Message.objects.count(), Run.objects.count()


@pytest.fixture
def session(project: Project, tmp_path: Path) -> Path:
    path = write(tmp_path / f"{SESSION}.jsonl", short_session())
    import_paths(project, [path])
    return path


def test_a_renamed_file_that_goes_on_adds_what_is_new(project: Project, session: Path) -> None:
    before = stored()
    moved = session.rename(session.with_name("kept.jsonl"))
    assert sum(import_paths(project, [moved]).added.values()) == 0
    with moved.open("ab") as file:
        file.write(encoded(asks("toolu_09")) + b"\n")
    report = import_paths(project, [moved])
    assert (report.added["calls"], report.added["runs"], report.lines["accepted"]) == (1, 0, 7)
    assert stored() == ([*before[0], "toolu_09"], *before[1:])


def test_a_file_that_is_emptied_and_written_anew_loses_nothing(project: Project, session: Path) -> None:
    before = stored()
    session.write_bytes(b"")
    report = import_paths(project, [session])
    assert sum(report.added.values()) == 0
    write(session, [*short_session(), answers("toolu_03", "done")])
    report = import_paths(project, [session])
    assert (report.added["receipts"], report.lines["rejected"]) == (1, 0)
    assert stored() == before


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_file_that_is_cut_short_and_goes_on_otherwise_keeps_both(project: Project, session: Path, count: int) -> None:
    before = stored()
    write(session, [*short_session()[:count], asks("toolu_10"), answers("toolu_10")])
    report = import_paths(project, [session])
    assert (report.added["calls"], report.lines) == (1, {"accepted": count + 2, "rejected": 0, "blank": 0})
    assert stored() == (sorted([*before[0], "toolu_10"]), *before[1:])
