"""Batches span files: one transaction for many small ones, in which no file costs another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import compute_calls, store_derived
from dashboard.models import Call, Problem, Project, Run, RunFacet, Source
from tests.dashboard.sessions import answers, asks, user, write

pytestmark = pytest.mark.django_db


def write_sessions(folder: Path, count: int) -> list[Path]:
    """Each of one answered call."""
    sessions = [f"0f5f6d8e-0000-4000-8000-{number:012}" for number in range(count)]
    return [
        write(
            folder / f"{session}.jsonl",
            [
                user(f"task {session}", uuid=f"u-{session}", session=session),
                asks(f"toolu_{session}", session=session),
                answers(f"toolu_{session}", "a\nb", session=session),
            ],
        )
        for session in sessions
    ]


def test_a_folder_of_small_files_is_written_by_as_many_statements_as_two_files(
    project: Project, tmp_path: Path
) -> None:
    statements = []
    for count in (2, 9):
        folder = tmp_path / str(count)
        folder.mkdir()
        write_sessions(folder, count)
        Run.objects.all().delete()
        Source.objects.all().delete()
        with CaptureQueriesContext(connection) as queries:
            report = import_paths(project, [folder])
        assert (report.files, report.added["calls"], report.added["receipts"]) == (count, count, count)
        changes = [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "UPDATE", "SAVEPOINT"))]
        statements.append(len(changes))
        assert len(report.run_ids) == count
        assert set(Run.objects.values_list("call_count", "own_call_count", "receipt_characters")) == {(1, 1, 3)}
    assert statements[0] == statements[1]


@pytest.mark.postgresql
def test_a_file_that_another_import_began_meanwhile_costs_no_other(project: Project, tmp_path: Path) -> None:
    paths = write_sessions(tmp_path, 4)

    def name_it(path: Path) -> str:
        """The other import reads the second file while this one has read it and not written it."""
        if path == paths[3] and not Source.objects.exists():
            import_paths(project, [paths[1]])
        return str(path)

    report = import_paths(project, paths, shown_as=name_it)
    assert (report.files, report.problems, report.seen["calls"]) == (4, [], 4)
    assert report.added["calls"] == 3
    assert Source.objects.count() == Run.objects.count() == Call.objects.exclude(derivation="").count() == 4
    assert not Problem.objects.exists()


def copy_of(path: Path) -> bytes:
    return path.read_bytes()


def continuation_of(path: Path) -> bytes:
    return copy_of(path) + write(path.with_name("rest"), [asks("toolu_more", session=path.stem)]).read_bytes()


@pytest.mark.parametrize(("content", "sources", "calls"), [(copy_of, 1, 1), (continuation_of, 1, 2)])
def test_a_copy_of_a_file_of_the_same_import_is_recognised(
    content: Callable[[Path], bytes], sources: int, calls: int, project: Project, tmp_path: Path
) -> None:
    """Before the first is written, too."""
    (path,) = write_sessions(tmp_path, 1)
    copy = tmp_path / "later" / path.name
    copy.parent.mkdir()
    copy.write_bytes(content(path))
    report = import_paths(project, [path, copy])
    assert (report.files, Source.objects.count(), Call.objects.count()) == (2, sources, calls)


def test_a_run_is_counted_once_none_of_its_calls_waits(project: Project, tmp_path: Path) -> None:
    session = "0f5f6d8e-0000-4000-8000-000000000001"
    lines = [line for call in ("toolu_1", "toolu_2") for line in (asks(call), answers(call, "a\nb"))]
    import_paths(project, [write(tmp_path / f"{session}.jsonl", lines)])
    whole = Run.objects.values().get()
    facets = set(RunFacet.objects.values_list("kind", "value", "count"))
    Call.objects.update(derivation="", tokens=0)
    Run.objects.update(token_count=0, strip="")
    RunFacet.objects.all().delete()
    first, second = Call.objects.order_by("pk").values_list("pk", flat=True)
    store_derived(project, compute_calls([first]))
    assert (Run.objects.get().strip, RunFacet.objects.count()) == ("", 0)
    store_derived(project, compute_calls([second]))
    assert {**Run.objects.values().get(), "revision": 0} == {**whole, "revision": 0}
    assert set(RunFacet.objects.values_list("kind", "value", "count")) == facets
