"""Deleting a run deletes everything that only it refers to, and nothing that another run refers to."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.test import Client

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    Project,
    Run,
    RunFacet,
    Source,
    SourceFrame,
    load_slices,
)
from dashboard.runs.export_run import export_run
from tests.cases import extended_except
from tests.dashboard.factories import create_project
from tests.dashboard.filters.test_trigram import indexed_texts
from tests.dashboard.ingest.test_import_order import AGENT_LINES, FAMILY, FORK, PARENT_LINES
from tests.dashboard.sessions import SESSION, answers, asks, short_session, write

pytestmark = pytest.mark.django_db
Captured = Callable[..., AbstractContextManager[list[Callable[[], Any]]]]
CALLS = 2_000
OTHER = "run-8"


def stored_files() -> list[str]:
    return sorted(path.name for path in Path(settings.ARTIFACTS).glob("??/*"))


def stored_bytes() -> bytes:
    """Every byte of every recording that is stored."""
    return b"".join(frame.data for frame in SourceFrame.objects.order_by("source", "offset"))


def evidence() -> dict[Any, bytes]:
    rows = [*Observation.objects.all(), *Message.objects.all(), *Event.objects.all()]
    load_slices(rows)
    return {row.pk: row.data for row in rows}


def stored_values() -> bytes:
    """Every value of every row, unpacked, and the texts that are indexed."""
    values = [value for model in apps.get_app_config("dashboard").get_models() for value in model.objects.values_list()]
    envelopes = [projection.data for projection in CanonicalProjection.objects.select_related("observation")]
    return repr((values, envelopes, indexed_texts())).encode()


def exports(folder: Path, *, but: str) -> dict[tuple[str, str], bytes]:
    """The files of the export of every run but one."""
    for run in Run.objects.exclude(external_id=but):
        export_run(run, folder / str(run.pk))
    names = {str(run.pk): run.external_id for run in Run.objects.all()}
    return {(names[path.parent.name], path.name): path.read_bytes() for path in folder.glob("*/*.json*")}


def session_with_a_file(folder: Path, session: str, call: str, content: bytes) -> Path:
    beside = folder / session / "tool-results" / f"{call}.txt"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(content)
    result = {"stdout": "a", "stderr": "", "persistedOutputPath": f"/home/dev/{call}.txt", "persistedOutputSize": 9}
    lines = [asks(call, session=session), answers(call, "a", result, session=session)]
    return write(folder / f"{session}.jsonl", list(lines))


@pytest.mark.extended
def test_a_run_of_2_000_calls_goes_in_a_few_seconds_and_nothing_else_does(project: Project, tmp_path: Path) -> None:
    large = [line for n in range(CALLS) for line in (asks(f"toolu_{n:05}"), answers(f"toolu_{n:05}", f"answer {n}"))]
    fork = [*large[:1_000], asks("toolu_fork", session=FORK)]
    other = "0f5f6d8e-0000-4000-8000-00000000000a"
    own = [asks("toolu_own", session=other), answers("toolu_own", session=other)]
    for name, lines in ((SESSION, large), (FORK, fork), (other, own)):
        import_paths(project, [write(tmp_path / f"{name}.jsonl", list(lines))])
    begin = time.process_time()  # a busy machine must not fail it
    delete_run(Run.objects.get(external_id=SESSION))
    assert time.process_time() - begin < 10
    assert dict(Run.objects.values_list("external_id", "call_count")) == {FORK: 501, other: 1}
    assert (Call.objects.count(), Call.objects.filter(run__external_id=FORK).count()) == (502, 501)
    assert Observation.objects.count() == 500 * 3 + 1 + 3
    remains = Source.objects.get(is_partial=True)  # the evidence of the calls that the fork copied is in it
    assert remains.path == str(tmp_path / f"{SESSION}.jsonl")
    whole = set(Source.objects.filter(is_partial=False).values_list("path", flat=True))
    assert whole == {str(tmp_path / f"{name}.jsonl") for name in (FORK, other)}


def test_stored_files_that_nothing_refers_to_are_removed(
    project: Project, tmp_path: Path, django_capture_on_commit_callbacks: Captured
) -> None:
    before = set(stored_files())
    third = "0f5f6d8e-0000-4000-8000-00000000000b"
    for session, call, content in ((SESSION, "toolu_1", b"same"), (FORK, "toolu_2", b"same"), (third, "toolu_3", b"x")):
        import_paths(project, [session_with_a_file(tmp_path / session, session, call, content)])
    shared, own = (Artifact.objects.get(call__external_id=call).sha256 for call in ("toolu_1", "toolu_3"))
    assert set(stored_files()) - before == {shared, own}
    for session, left in ((SESSION, {shared, own}), (third, {shared}), (FORK, set())):
        with django_capture_on_commit_callbacks(execute=True):
            delete_run(Run.objects.get(external_id=session))
        assert set(stored_files()) - before == left


def test_a_file_that_another_project_holds_stays(
    project: Project, tmp_path: Path, django_capture_on_commit_callbacks: Captured
) -> None:
    path = session_with_a_file(tmp_path, SESSION, "toolu_1", b"held twice")
    for owner in (project, create_project("other")):
        import_paths(owner, [path])
    with django_capture_on_commit_callbacks(execute=True):
        delete_run(project.runs.get())
    assert Artifact.objects.get().sha256 in stored_files()


def test_importing_again_brings_back_a_run_whose_recording_still_feeds_another(
    project: Project, tmp_path: Path
) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", PARENT_LINES)
    import_paths(project, [path])
    delete_run(Run.objects.get(external_id=SESSION))
    assert list(Run.objects.values_list("external_id", flat=True)) == [f"{SESSION}/abc"]
    assert list(RunFacet.objects.filter(kind="state", value__in=["top", "child"]).values_list("value", flat=True)) == [
        "top"
    ]
    assert (Call.objects.count(), stored_bytes().count(b"toolu_01")) == (1, 0)
    report = import_paths(project, [path])
    assert (report.added["runs"], report.added["calls"], report.lines["accepted"]) == (1, 1, 3)
    child = Run.objects.get(external_id=f"{SESSION}/abc")
    assert child.parent == Run.objects.get(external_id=SESSION)
    assert set(child.facets.filter(kind="state").values_list("value", flat=True)) >= {"child"}


@pytest.mark.parametrize(
    "gone",
    extended_except([SESSION, f"{SESSION}/abc", FORK, OTHER], FORK),
    ids=["parent", "child", "fork", "of a file"],
)
def test_the_other_runs_export_byte_for_byte_as_before_and_no_other_bytes_stay(
    gone: str, project: Project, tmp_path: Path
) -> None:
    write(tmp_path / SESSION / "subagents" / "agent-abc.jsonl", AGENT_LINES)
    own = [asks("toolu_own"), answers("toolu_own", "only of the parent")]
    write(tmp_path / f"{SESSION}.jsonl", [*PARENT_LINES, *own])
    fork_lines = [asks("toolu_fork", session=FORK), answers("toolu_fork", "only of the fork", session=FORK)]
    write(tmp_path / f"{FORK}.jsonl", [*PARENT_LINES, *FAMILY[FORK], *fork_lines])
    ids = [{"runId": run, "callId": "1", "tool": "ExecCommand"} for run in ("run-7", OTHER)]
    write(tmp_path / "calls.jsonl", [{**keys, "args": {"cmd": f"of {keys['runId']}"}} for keys in ids])
    results = [{**keys, "ok": True, "data": {"output": f"only of {keys['runId']}"}} for keys in ids]
    write(tmp_path / "results.jsonl", list(results))
    import_paths(project, [tmp_path])
    before, exported = evidence(), exports(tmp_path / "before", but=gone)
    delete_run(Run.objects.get(external_id=gone))
    derive_waiting(project)
    after = evidence()
    assert after == {key: before[key] for key in after}
    texts = {SESSION: b"only of the parent", FORK: b"only of the fork", OTHER: b"only of run-8"}
    for place in (stored_bytes(), stored_values()):
        assert {name: text in place for name, text in texts.items()} == {name: name != gone for name in texts}
    links = [f'"{name}":"{gone}",'.encode() for name in ("parentRunId", "childRunId")]  # to the deleted run
    expected = {name: raw.replace(links[0], b"").replace(links[1], b"") for name, raw in exported.items()}
    assert exports(tmp_path / "after", but=gone) == expected
    for run in list(Run.objects.order_by("pk")):
        delete_run(run)
    assert (Source.objects.count(), SourceFrame.objects.count()) == (0, 0)


@pytest.mark.parametrize("gone", extended_except(["parent", "child", "fork"], "fork"))
def test_the_pages_of_what_stays_open(gone: str, project: Project, tmp_path: Path, operator_client: Client) -> None:
    write(tmp_path / SESSION / "subagents" / "agent-abc.jsonl", AGENT_LINES)
    write(tmp_path / f"{SESSION}.jsonl", PARENT_LINES)
    write(tmp_path / f"{FORK}.jsonl", [*PARENT_LINES, *FAMILY[FORK]])
    import_paths(project, [tmp_path])
    delete_run(Run.objects.get(external_id={"parent": SESSION, "child": f"{SESSION}/abc", "fork": FORK}[gone]))
    for run in Run.objects.all():
        assert operator_client.get(f"/runs/{run.pk}/").status_code == 200
        assert operator_client.get(f"/runs/{run.pk}/context").status_code == 200
    for call in Call.objects.all():
        assert operator_client.get(f"/calls/{call.pk}/").status_code == 200


def test_a_run_that_is_imported_again_after_its_deletion_is_as_it_was(project: Project, tmp_path: Path) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", short_session())
    first = import_paths(project, [path])
    delete_run(Run.objects.get())
    assert not Source.objects.exists()
    assert import_paths(project, [path]).added == first.added


def test_an_import_after_a_deletion_counts_what_the_files_contain(project: Project, tmp_path: Path) -> None:
    session = write(tmp_path / f"{SESSION}.jsonl", short_session())
    fork = write(tmp_path / f"{FORK}.jsonl", [*short_session(FORK), asks("toolu_09", session=FORK)])
    first = import_paths(project, [session, fork])
    for name in (SESSION, FORK):
        delete_run(Run.objects.get(external_id=name))
        again = import_paths(project, [session, fork])
        assert (again.seen, again.lines) == (first.seen, first.lines)
