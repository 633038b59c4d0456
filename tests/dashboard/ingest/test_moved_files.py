"""Follows a session's file that is renamed, cut short, emptied or rewritten, or whose lines name another session."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Message, Project, Run, RunCall
from tests.cases import extended_except
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session, user, write
from tests.dashboard.stored_rows import stored_rows

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


OTHER = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize(
    "name", extended_except(["full.jsonl", f"{OTHER}.jsonl", "session-0f5f6d8e.jsonl"], f"{OTHER}.jsonl")
)
@pytest.mark.parametrize("first", ["the copy", "the original"])
def test_a_session_under_another_name_is_one_run(project: Project, tmp_path: Path, name: str, first: str) -> None:
    lines = [*short_session(), answers("toolu_03", "done")]
    original = write(tmp_path / f"{SESSION}.jsonl", lines[:4])
    copy = write(tmp_path / "copies" / name, lines)
    for path in (copy, original) if first == "the copy" else (original, copy):
        import_paths(project, [path])
    run = Run.objects.get()
    assert (run.external_id, run.call_count, run.own_call_count, run.unanswered_count) == (SESSION, 3, 3, 0)
    assert not RunCall.objects.filter(inherited=True).exists()


def test_a_fork_that_goes_on_under_its_own_name_is_a_run_of_its_own(project: Project, session: Path) -> None:
    lines = [*short_session(), user("go on " * 20_000, uuid="u8"), user("mine", uuid="u9", session=OTHER)]
    import_paths(project, [write(session.with_name(f"{OTHER}.jsonl"), lines)])
    assert sorted(Run.objects.values_list("external_id", "call_count")) == [(SESSION, 3), (OTHER, 3)]


OTHER = "0f5f6d8e-0000-4000-8000-000000000002"
AFTER_CLEAR = {
    "a hook's progress": {"type": "progress", "data": {"type": "hook_progress", "hookName": "SessionStart:clear"}},
    "a hook's attachment": {
        "type": "attachment",
        "attachment": {"type": "hook_success", "hookName": "SessionStart:clear"},
    },
    "the command": user("<command-name>/clear</command-name>", uuid="k1"),
    "a line below one of the session": {**user("go on", uuid="k1"), "parentUuid": "r-toolu_02"},
}


@pytest.mark.parametrize("begins", extended_except(AFTER_CLEAR, "the command"))
def test_a_file_of_any_name_whose_session_goes_on_after_clear_is_one_run(
    begins: str, project: Project, tmp_path: Path
) -> None:
    first = {"parentUuid": None, **AFTER_CLEAR[begins], "sessionId": OTHER, "uuid": "k1"}
    lines = [*short_session(), first, asks("toolu_31", session=OTHER), answers("toolu_31", session=OTHER)]
    for end in (7, 8, len(lines)):
        import_paths(project, [write(tmp_path / "my session.jsonl", lines[:end])])
    [run] = Run.objects.all()
    assert (run.external_id, run.call_count, run.own_call_count) == (SESSION, 4, 4)


def test_a_file_of_two_sessions_that_have_nothing_to_do_with_each_other_is_two_runs(
    project: Project, tmp_path: Path
) -> None:
    lines = [*short_session(), asks("toolu_31", session=OTHER), asks("toolu_32")]
    import_paths(project, [write(tmp_path / "my sessions.jsonl", lines)])
    assert {run.external_id: run.call_count for run in Run.objects.all()} == {SESSION: 4, OTHER: 1}


@pytest.mark.postgresql("original first")
@pytest.mark.parametrize(
    "first",
    ["original", pytest.param("fork", marks=pytest.mark.extended)],
    ids=["original first", "fork first"],
)
def test_a_fork_that_is_read_before_its_own_lines_follow_becomes_a_run_of_its_own(
    project: Project, tmp_path: Path, first: str
) -> None:
    """The copied lines name the original, which went on after the copy was made."""
    mine = [user("mine", uuid="u9", session=OTHER), asks("toolu_09", session=OTHER), answers("toolu_09", session=OTHER)]
    files = {SESSION: [*short_session(), asks("toolu_08"), answers("toolu_08")], OTHER: [*short_session(), *mine]}
    begun = files | {OTHER: short_session()}
    order = [*files] if first == "original" else [OTHER, SESSION]
    import_paths(project, [write(tmp_path / "whole" / f"{name}.jsonl", files[name]) for name in order])
    expected = stored_rows()
    for run in list(Run.objects.all()):
        delete_run(run)
    for name in order:
        import_paths(project, [write(tmp_path / "grown" / f"{name}.jsonl", begun[name])])
    assert list(Run.objects.values_list("external_id", flat=True)) == [SESSION]
    import_paths(project, [write(tmp_path / "grown" / f"{OTHER}.jsonl", files[OTHER])])
    assert stored_rows() == expected
    assert not Call.objects.filter(derivation="").exists()
