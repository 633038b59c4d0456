"""`export_run` writes a run as a folder in the audit layout; an import of it gives an equal run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from pytest_django import DjangoDbBlocker

from dashboard.accounts import get_or_create_project
from dashboard.artifacts.retention import remove_unreferenced
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import (
    Artifact,
    Call,
    Event,
    Message,
    Observation,
    Project,
    RecordedReceipt,
    RequestUsage,
    RunCall,
    RunFacet,
    load_slices,
)
from dashboard.runs.export_run import export_run
from envelopes.recorder import LiveRecorder
from envelopes.text.tokens import count_tokens
from tests.cases import extended_except
from tests.dashboard.conftest import BUNDLED
from tests.dashboard.stored_artifacts import stored
from tests.dashboard.unseen import RECORDINGS

pytestmark = pytest.mark.django_db
AUDIT = Path(__file__).resolve().parents[2] / "envelopes" / "recordings" / "audit"


def export_all(project: Project, folder: Path) -> dict[str, bytes]:
    """Exports every run of a project, a folder each; returns all files."""
    for number, run in enumerate(project.runs.order_by("external_id")):
        export_run(run, folder / f"{number:03}")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def described(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of a project without ids of our own, and without the places in the files that they came from."""
    tables = {**described_calls(project), **described_notes(project)}
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def described_calls(project: Project) -> dict[str, Any]:
    of_call, of_run = {"call__project": project}, {"run__project": project}
    evidence = Observation.objects.filter(**of_call, surface__in=("args", "result", "receipt"))
    runs = dict(project.runs.values_list("pk", "external_id"))
    return {
        "calls": [
            (
                *(call.external_id, runs[call.run_id], runs.get(call.child_run), call.namespace, call.tool),
                *(call.family, call.step, call.attempt, call.origin, call.status, call.summary),
                *(call.error_kind, call.retryable, call.exit_status, call.source_error, call.is_disagreeing),
                *(call.started_at, call.ended_at, call.duration_ms, call.tool_ms, call.is_waiting, call.args_bytes),
                *(call.result_bytes, call.result_fidelity, call.receipt_fidelity, call.receipt_characters),
                *(call.receipt_lines, call.receipt_count, call.tokens, call.output_lines, call.seen_lines),
                *(call.is_cut, call.outcome),
            )
            for call in Call.objects.filter(project=project)
        ],
        "members": [
            (member.run.external_id, member.call.external_id, member.inherited, member.claim)
            # The place of an executor's call is its line, and a line of another run may stand before it.
            + ((member.ordinal,) if member.run.namespace != "audit" else ())
            for member in RunCall.objects.filter(**of_run).select_related("run", "call")
        ],
        "observations": evidence.values_list(
            "call__external_id", "surface", "sha256", "size", "fidelity", "observed_at", "selected"
        ),
        "receipts": RecordedReceipt.objects.filter(**of_call).values_list(
            *("run__external_id", "call__external_id", "seq", "observation__sha256", "fidelity", "at", "line"),
            *("characters", "lines", "tokens", "output_lines", "seen_lines", "is_cut"),
            *("superseded_at", "superseded_line", "superseded_reason"),
        ),
        "artifacts": Artifact.objects.filter(**of_call, observation=None).values_list(
            "call__external_id", "role", "path", "state", "sha256", "size"
        ),
        "facets": RunFacet.objects.filter(**of_run).values_list("run__external_id", "kind", "value", "count"),
    }


def described_notes(project: Project) -> dict[str, Any]:
    models = (Message, Event, RequestUsage)
    notes = {model.__name__: list(model.objects.filter(run__project=project).select_related("run")) for model in models}
    for rows in notes.values():
        load_slices(rows)
    calls = dict(Call.objects.filter(project=project).values_list("pk", "external_id"))
    return {
        "runs": [
            (
                *(run.external_id, run.namespace, run.parent and run.parent.external_id, calls.get(run.parent_call)),
                *(run.title, run.agent, run.model, run.version, run.cwd, run.branch, run.source_format),
                *(run.started_at, run.last_at, run.ended_at, run.plan and bytes(run.plan), run.duration_ms, run.strip),
                *(run.call_count, run.own_call_count, run.failed_count, run.cut_count, run.unanswered_count),
                *(run.progress_call_count, run.token_count, run.receipt_characters, run.drop_count, run.is_reported),
            )
            for run in project.runs.select_related("parent")
        ],
        "messages": [
            (message.run.external_id, message.role, message.step, message.at, message.line, message.delivery)
            + (message.data,)
            for message in notes["Message"]
        ],
        "requests": [
            (usage.run.external_id, usage.request, usage.line, usage.at, usage.origin, usage.input_tokens)
            + (usage.cache_read_tokens, usage.cache_creation_tokens, usage.output_tokens, usage.edits)
            + (usage.cleared_tokens, usage.dropped_tokens, usage.dropped_after, usage.dropped_before)
            + (usage.removed_tokens, usage.data)
            for usage in notes["RequestUsage"]
        ],
        "events": [
            (event.run.external_id, calls.get(event.call), event.kind, event.level, event.message, event.at)
            + (event.line, event.data)
            for event in notes["Event"]
        ],
    }


@pytest.fixture(scope="module")
def samples(folder: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Project]:
    """Imported once; undone after the last test."""
    del django_db_setup
    count_tokens("")
    with django_db_blocker.unblock(), transaction.atomic():
        project = get_or_create_project("recorded")
        import_paths(project, [folder])
        yield project
        transaction.set_rollback(True)


def assert_imports_equal(project: Project, folder: Path) -> None:
    """Exports all runs, imports them into the store, empty again, and compares the rows and the next export."""
    exported, before = export_all(project, folder / "first"), described(project)
    for run in project.runs.all():
        delete_run(run)
    assert not any(described(project).values())
    report = import_paths(project, [folder / "first"])
    assert report.problems == []
    after = described(project)
    for table, rows in before.items():
        assert [row for row in rows if row not in after[table]][:3] == [], table
        assert len(after[table]) == len(rows), table
    assert export_all(project, folder / "second") == exported


@pytest.mark.extended
def test_an_import_of_all_exports_gives_equal_runs_and_the_same_exports(samples: Project, tmp_path: Path) -> None:
    assert_imports_equal(samples, tmp_path)


@pytest.mark.extended
def test_the_export_of_one_run_is_the_same_after_it_was_imported_alone(samples: Project, tmp_path: Path) -> None:
    for number, run in enumerate(samples.runs.all()):
        export_run(run, tmp_path / f"{number}-first")
        alone = get_or_create_project(f"alone-{number}")
        import_paths(alone, [tmp_path / f"{number}-first"])
        export_run(alone.runs.get(external_id=run.external_id), tmp_path / f"{number}-second")
        for path in (tmp_path / f"{number}-first").rglob("*.json*"):
            assert path.read_bytes() == (tmp_path / f"{number}-second" / path.name).read_bytes()


@pytest.mark.postgresql("a subagent within its session")
@pytest.mark.parametrize(
    "name",
    extended_except(
        RECORDINGS,
        "a stream with a subagent",
        "a subagent within its session",
    ),
)
def test_the_export_of_a_recording_of_an_unseen_kind_gives_equal_runs(
    name: str, project: Project, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded"
    for path, raw in RECORDINGS[name].files.items():
        (recorded / path).parent.mkdir(parents=True, exist_ok=True)
        (recorded / path).write_bytes(raw)
    import_paths(project, [recorded])
    assert_imports_equal(project, tmp_path)


@pytest.mark.postgresql
def test_receipts_results_and_arguments_in_an_export_are_the_recorded_bytes(samples: Project, tmp_path: Path) -> None:
    recorded = {
        (row.call.external_id, row.surface): row.sha256
        for row in Observation.objects.filter(call__project=samples, selected=True).select_related("call")
        if row.surface in ("args", "result")
    }
    exported = export_all(samples, tmp_path)
    lines = [
        line
        for path, content in exported.items()
        if path.endswith(("calls.jsonl", "results.jsonl"))
        for line in content.splitlines()
    ]
    compared = 0
    for line in lines:
        values = json.loads(line)
        for surface, name in (("args", "args"), ("result", "recorded")):
            key = (values["providerCallId"], surface)
            if name in values and key in recorded:
                raw = line[line.index(f'"{name}":'.encode()) + len(name) + 3 :]
                end = json.JSONDecoder().raw_decode(raw.decode())[1]
                compared += hashlib.sha256(raw.decode()[:end].encode()).hexdigest() == recorded[key]
    assert compared >= len(recorded)


def test_an_executors_own_objects_are_exported_as_they_were_recorded(project: Project, tmp_path: Path) -> None:
    import_paths(project, [AUDIT])
    exported = export_all(project, tmp_path)
    for name in ("run.json", "calls.jsonl", "events.jsonl", "receipts.jsonl"):
        assert exported[f"000/{name}"].rstrip() == (AUDIT / "run-7" / name).read_bytes().rstrip(), name
    recorded = [json.loads(line) for line in (AUDIT / "run-7" / "results.jsonl").read_bytes().splitlines()]
    results = [json.loads(line) for line in exported["000/results.jsonl"].splitlines()]
    assert [result.pop("canonical")["status"] for result in results] == ["error", "success"]
    assert results == recorded


def test_a_receipt_that_was_replaced_and_then_cleared_is_exported_and_read_again(
    project: Project, tmp_path: Path
) -> None:
    lines = [
        {"run": "r", "call": "c", "seq": 1, "text": "a", "position": 4, "superseded": {"position": 7, "reason": "cut"}},
        {
            "run": "r",
            "call": "c",
            "seq": 2,
            "text": "b",
            "position": 7,
            "superseded": {"position": 9, "reason": "gone"},
        },
    ]
    begin = {"source": "claude-code", "runId": "r", "providerCallId": "c", "tool": "Bash", "args": {}, "position": 3}
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "calls.jsonl").write_text(compact(begin))
    receipts = [{"v": 1, "type": "receipt", "source": "claude-code", **line} for line in lines]
    (tmp_path / "r" / "receipts.jsonl").write_text("".join(map(compact, receipts)))
    assert import_paths(project, [tmp_path / "r"]).problems == []
    rows = RecordedReceipt.objects.filter(call__project=project).values_list(
        "seq", "line", "superseded_line", "superseded_reason"
    )
    assert list(rows.order_by("seq")) == [(1, 4, 7, "cut"), (2, 7, 9, "gone")]
    exported = export_all(project, tmp_path / "exported")["000/receipts.jsonl"]
    assert [json.loads(line).get("superseded") for line in exported.splitlines()] == [
        line["superseded"] for line in lines
    ]


def compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def test_the_stored_files_of_a_run_are_exported_by_their_hash_and_found_again(project: Project, tmp_path: Path) -> None:
    import_paths(project, [BUNDLED / "spotter"])
    call = Call.objects.filter(project=project).first()
    assert call is not None
    artifact = stored(call, b"the whole log\n")
    exported = export_all(project, tmp_path)
    copies = [name for name in exported if name.endswith(f"artifacts/{artifact.sha256}")]
    assert [exported[name] for name in copies] == [b"the whole log\n"]
    artifact.delete()
    remove_unreferenced({artifact.sha256})
    again = get_or_create_project("imported")
    import_paths(again, [tmp_path])
    found = Artifact.objects.get(project=again, observation=None)
    assert (found.sha256, found.state, found.path) == (artifact.sha256, "present", artifact.path)


@pytest.mark.postgresql
def test_the_command_reports_what_it_wrote_as_json(project: Project, tmp_path: Path) -> None:
    import_paths(project, [AUDIT])
    out = StringIO()
    call_command("export_run", "run-7", str(tmp_path / "out"), "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report["run"] == str(project.runs.get().pk)
    assert report["lines"]["calls.jsonl"] == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        name for name, count in report["lines"].items() if count
    )


def test_the_command_refuses_what_it_cannot_do(project: Project, tmp_path: Path) -> None:
    import_paths(project, [AUDIT])
    (tmp_path / "notes.txt").write_text("mine")
    for arguments, reason in (
        (["run-7", str(tmp_path)], "not empty"),
        (["run-8", str(tmp_path / "new")], "no run 'run-8'"),
        (["run-7", str(tmp_path / "notes.txt")], "notes.txt"),
    ):
        with pytest.raises(CommandError, match=reason):
            call_command("export_run", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_export_of_a_run_of_the_recorder_is_one_run_again(project: Project, tmp_path: Path) -> None:
    recorder = LiveRecorder(tmp_path / "spool", is_synced=False)
    with recorder.run(title="Ten", agent="walker", model="m-1", build="7") as run:
        run.message("user", "Count.")
        call = run.call("count", {"to": 3}, iteration=2)
        run.result(call, {"numbers": [1, 2, 3]})
        run.receipt(call, "1 2 3")
    recorder.close()
    import_paths(project, list((tmp_path / "spool").glob("*.jsonl")))
    assert project.runs.get().call_count == 1
    assert_imports_equal(project, tmp_path)
