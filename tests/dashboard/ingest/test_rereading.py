"""Today's readers run over stored sources: the store ends as a new import of the same bytes leaves it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command
from django.db.models import F
from pytest_django import Settings

from dashboard.ingest.compute_derived import compute_calls, current_derivation
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.source_frames import join_next_frames
from dashboard.ingest.store_derived import derive_waiting, store_derived
from dashboard.models import (
    AccessToken,
    Artifact,
    Call,
    Note,
    Observation,
    Problem,
    Project,
    Remark,
    Run,
    RunFacet,
    Source,
    SourceFrame,
    Tag,
)
from dashboard.models.fields import Compressed
from dashboard.models.notes import about
from envelopes import recordings
from envelopes.recordings.base import (
    CallRecord,
    Format,
    LineProblem,
    Record,
    RemarkRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.claude_code import SESSION as SESSION_FORMAT
from tests.conftest import CHECKOUT
from tests.dashboard.api.native_records import one_run
from tests.dashboard.api.sending import Sender
from tests.dashboard.conftest import BUNDLED
from tests.dashboard.ingest.test_import_order import AGENT_LINES, FAMILY, PARENT_LINES
from tests.dashboard.ingest.test_joined_frames import send
from tests.dashboard.sessions import FORK, SESSION, answers, asks, short_session, write
from tests.dashboard.stored_rows import columns_of, stored_rows
from tests.faults.imports import digest, environment, manage, migrated_store

pytestmark = pytest.mark.django_db
SAMPLES = Path(__file__).resolve().parents[2] / "envelopes" / "recordings"
OTHER = "0f5f6d8e-0000-4000-8000-00000000000a"
GONE = {"toolu_02", "c2"}  # calls that the newer readers no longer yield
Entry = Record | LineProblem


def newer_records(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Another name for each tool, a title for each run, a remark on each call, and some calls less."""
    for entry in entries:
        if getattr(entry, "call", None) in GONE:
            continue
        match entry:
            case CallRecord(line=line, run=run, call=call):
                yield msgspec.structs.replace(entry, tool=f"New{entry.tool}")
                yield RemarkRecord(line=line, run=run, call=call, kind="value", path="tool", was="", became="read anew")
            case RunRecord():
                yield msgspec.structs.replace(entry, title="read by a newer reader")
            case _:
                yield entry


def newer(recording: Format) -> Format:
    def read(lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]) -> Iterator[Entry]:
        return newer_records(recording.read(lines, path, state))

    return msgspec.structs.replace(recording, version=recording.version + 1, read=read)


@pytest.fixture
def newer_readers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Registers a second version of every reader."""
    return lambda: monkeypatch.setattr(recordings, "READABLE", tuple(map(newer, recordings.READABLE)))


def rederive(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("rederive", "--json", *arguments, stdout=out)
    return dict(json.loads(out.getvalue()))


def whole_store() -> dict[str, list[str]]:
    rows = stored_rows()
    for model in (Source, Problem, Remark):
        named = [] if model is Source else ["source"]
        rows[model.__name__] = sorted(
            json.dumps(columns_of(row) | {"id": ""}) for row in model._default_manager.select_related(*named)
        )
    for source in Source.objects.all():
        data = b"".join(frame.data for frame in source.frames.order_by("offset"))
        rows.setdefault("bytes", []).append(f"{source.path} {source.head_sha256} {data!r}")
    rows["bytes"].sort()
    return rows


def empty_store() -> None:
    Run.objects.all().delete()
    SourceFrame.objects.all().delete()
    Source.objects.all().delete()


def import_sessions(project: Project, folder: Path) -> None:
    """A session in two imports, two forks that copy its calls, and a subagent's file; a second time all at once."""
    session, forks, other = folder / "s" / f"{SESSION}.jsonl", folder / "s", folder / "other" / f"{OTHER}.jsonl"
    if not forks.exists():
        for name, lines in FAMILY.items():
            write(forks / f"{name}.jsonl", lines)
        whole = session.read_bytes()
        session.write_bytes(whole[: whole.index(b"\n", 600)])  # the newline of the last line comes later
        import_paths(project, [forks])
        session.write_bytes(whole + b"not JSON\n\n" + json.dumps(asks("toolu_01")).encode())
        with (forks / f"{FORK}.jsonl").open("ab") as file:
            file.write(b'{"type": "user", "uu')
        write(other, [of_other_session(line) for line in PARENT_LINES])
        agent = other.parent / OTHER / "subagents" / "agent-abc.jsonl"
        write(agent, [of_other_session(line) for line in AGENT_LINES])
        write(other.parent / "named-by-its-folder" / "run.json", [{"plan": {"title": "Without times"}}])
    import_paths(project, [forks])
    import_paths(project, [other.parent], shown_as=lambda path: path.name)  # the name alone is not what it is read as


def of_other_session(line: object) -> bytes:
    return json.dumps(line).replace(SESSION, OTHER).replace("toolu_01", "toolu_51").encode()


def send_live(project: Project, _folder: Path) -> None:
    AccessToken.objects.all().delete()
    sender = Sender(project)
    first, *rest = one_run(3)
    sender.records([*rest[3:], b'{"v": 1, "type": "call"}', first], idempotency_key="a key")
    sender.records(rest[:3])
    sender.records(one_run(2, run="r2"), packed=True)
    derive_waiting(project)


def import_document(project: Project, _folder: Path) -> None:
    import_paths(project, sorted((SAMPLES / "message_dumps").iterdir()))


def import_archive(project: Project, _folder: Path) -> None:
    import_paths(project, sorted((SAMPLES / "inspect_ai").iterdir()))


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "fill", [import_sessions, send_live, import_document, import_archive], ids=lambda fill: fill.__name__
)
def test_the_store_ends_as_a_new_import_leaves_it(
    fill: Callable[[Project, Path], None], project: Project, tmp_path: Path, newer_readers: Callable[[], None]
) -> None:
    fill(project, tmp_path)
    older, sorted_by = whole_store(), dict(Run.objects.values_list("pk", "sort_at"))
    newer_readers()
    counts = rederive("--dry-run")["read"]
    assert whole_store() == older
    assert rederive()["read"] == counts
    assert counts["sources"] == Source.objects.count()
    reread = whole_store()
    assert dict(Run.objects.values_list("pk", "sort_at")) == sorted_by
    assert not RunFacet.objects.exclude(sort_at=F("run__sort_at")).exists()
    assert rederive()["read"]["sources"] == 0
    assert whole_store() == reread != older
    empty_store()
    fill(project, tmp_path)
    assert whole_store() == reread


@pytest.mark.extended
@pytest.mark.postgresql
def test_a_newer_version_that_yields_the_same_changes_no_row(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over every bundled recording and sample, with the rows that other recordings and processes wrote in between."""
    import_paths(project, [BUNDLED, SAMPLES])
    before = whole_store()
    known = recordings.READABLE
    same = [msgspec.structs.replace(recording, version=recording.version + 1) for recording in known]
    monkeypatch.setattr(recordings, "READABLE", tuple(same))
    read = rederive()["read"]
    assert (read["calls_added"], read["calls_changed"], read["calls_gone"]) == (0, 0, 0)
    Source.objects.update(reader=F("reader") - 1)
    assert whole_store() == before


@pytest.mark.postgresql
def test_what_people_added_stays_with_what_is_still_there(
    project: Project, tmp_path: Path, newer_readers: Callable[[], None]
) -> None:
    beside = tmp_path / SESSION / "tool-results" / "toolu_01.txt"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(b"whole output")
    kept = {"stdout": "a", "stderr": "", "persistedOutputPath": "/home/dev/toolu_01.txt", "persistedOutputSize": 12}
    lines = [asks("toolu_01"), answers("toolu_01", "a", kept), asks("toolu_02"), answers("toolu_02")]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", list(lines))])
    stays, goes = (Call.objects.get(external_id=call) for call in ("toolu_01", "toolu_02"))
    for subject in (stays, goes, stays.run):
        Note.objects.create(text="look here", **about(subject))
        Tag.objects.create(name="odd", **about(subject))
    Artifact.objects.filter(call=stays).update(state=Artifact.State.REMOVED, removed_at=stays.started_at)
    Run.objects.update(lease_until=stays.started_at, revision=70)
    files = list(Artifact.objects.values())
    Path(tmp_path / f"{SESSION}.jsonl").unlink()
    newer_readers()
    read = rederive("--run", str(stays.run_id))["read"]
    assert (read["calls_changed"], read["calls_gone"], read["annotations_gone"]) == (1, 1, 2)
    run = Run.objects.get()
    assert (run.title, run.lease_until, run.revision > 70) == ("read by a newer reader", stays.started_at, True)
    assert set(Note.objects.values_list("call", "run")) == {(stays.pk, None), (None, run.pk)}
    assert set(run.facets.filter(kind__in=["tag", "note"]).values_list("value", "count")) == {("odd", 2), ("yes", 2)}
    assert list(Artifact.objects.values()) == files != []


@pytest.mark.postgresql
def test_what_was_deleted_does_not_come_back(
    project: Project, tmp_path: Path, newer_readers: Callable[[], None]
) -> None:
    """Of a deleted session remain the calls that a fork copied, and of a deleted parent its child."""
    import_sessions(project, tmp_path)
    for session in (SESSION, OTHER):
        delete_run(Run.objects.get(external_id=session))
    runs, partial = set(Run.objects.values_list("external_id", flat=True)), Source.objects.filter(is_partial=True)
    bytes_left = [frame.data for frame in SourceFrame.objects.filter(source__in=partial)]
    newer_readers()
    document = rederive()["read"]
    assert set(Run.objects.values_list("external_id", flat=True)) == runs
    assert runs == {*FAMILY, f"{OTHER}/abc", "named-by-its-folder"} - {SESSION}
    assert not Run.objects.exclude(parent=None).exists()
    assert (document["sources_left"], partial.count()) == (2, 2)
    assert [frame.data for frame in SourceFrame.objects.filter(source__in=partial)] == bytes_left
    titles = set(Run.objects.values_list("title", flat=True))
    assert titles == {"read by a newer reader"}
    assert "NewBash" in Call.objects.values_list("tool", flat=True)


def test_a_run_of_which_a_source_is_partial_keeps_what_that_has(
    project: Project, tmp_path: Path, newer_readers: Callable[[], None]
) -> None:
    """The fork copied the call without its result, which is in the bytes of the deleted session alone."""
    session = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01")])
    copied = {name: value for name, value in answers("toolu_01", session=FORK).items() if name != "toolUseResult"}
    fork = write(tmp_path / f"{FORK}.jsonl", [asks("toolu_01", session=FORK), copied])
    import_paths(project, [session, fork])
    delete_run(Run.objects.get(external_id=SESSION))
    results = list(Observation.objects.filter(surface="result").values())
    assert results
    newer_readers()
    assert rederive()["read"]["sources"] == 1
    assert list(Observation.objects.filter(surface="result").values()) == results
    assert Run.objects.get().title == "read by a newer reader"
    assert Call.objects.get().derivation == current_derivation()


@pytest.mark.postgresql
def test_records_that_were_sent_are_known_afterwards_and_their_bytes_stay_in_blocks(
    project: Project, newer_readers: Callable[[], None]
) -> None:
    sender = Sender(project)
    answer = sender.records(one_run(2), idempotency_key="a key")
    send(project)
    assert join_next_frames()
    blocks = list(SourceFrame.objects.order_by("pk").values("pk", "block", "block_start", "own_data"))
    newer_readers()
    read = rederive()["read"]
    assert read["sources"] == Source.objects.count() > 10
    assert list(SourceFrame.objects.order_by("pk").values("pk", "block", "block_start", "own_data")) == blocks
    assert sender.records(one_run(2), idempotency_key="a key") == answer
    assert sender.records(one_run(2))["already_known"] == len(one_run(2))


def test_a_line_that_was_too_long_is_refused_again(
    project: Project, tmp_path: Path, settings: Settings, newer_readers: Callable[[], None]
) -> None:
    settings.MAX_LINE_BYTES = 200_000
    lines = [asks("toolu_01"), b'{"long": "%s"}' % (b"x" * 300_000), answers("toolu_01"), b"y" * 200_001]
    path = write(tmp_path / f"{SESSION}.jsonl", list(lines))
    import_paths(project, [path])
    newer_readers()
    rederive()
    reread = whole_store()
    empty_store()
    import_paths(project, [path])
    assert whole_store() == reread
    assert len(reread["Problem"]) == 2


def test_sources_with_damaged_bytes_stay_as_they_are_and_others_are_read(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], newer_readers: Callable[[], None]
) -> None:
    for session in (SESSION, FORK):
        import_paths(project, [write(tmp_path / f"{session}.jsonl", [asks(f"toolu_{session[-1]}", session=session)])])
    SourceFrame.objects.filter(source__path__contains=SESSION).update(own_data=Compressed(b"no frame"))
    newer_readers()
    (damaged,) = rederive()["read"]["damaged"]
    assert damaged.startswith(str(tmp_path / SESSION))
    assert set(Call.objects.values_list("tool", flat=True)) == {"Bash", "NewBash"}
    assert set(Source.objects.values_list("reader", flat=True)) == {SESSION_FORMAT.version, SESSION_FORMAT.version + 1}


def test_a_file_that_grows_goes_on_after_it(
    project: Project, tmp_path: Path, newer_readers: Callable[[], None]
) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01")])
    import_paths(project, [path])
    older = compute_calls([Call.objects.get().pk])
    newer_readers()
    with path.open("ab") as file:
        file.write(json.dumps(answers("toolu_01")).encode() + b"\n")
    import_paths(project, [path])
    assert Source.objects.get().reader == SESSION_FORMAT.version  # of its first line
    rederive()
    assert store_derived(project, older) == 0
    with path.open("ab") as file:
        file.write(json.dumps(asks("toolu_03")).encode() + b"\n")
    report = import_paths(project, [path])
    assert (report.added["calls"], report.lines["accepted"]) == (1, 3)
    grown = whole_store()
    empty_store()
    import_paths(project, [path])
    assert whole_store() == grown


@pytest.mark.postgresql
def test_the_command_says_what_it_did(project: Project, tmp_path: Path, newer_readers: Callable[[], None]) -> None:
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), asks("toolu_02")])])
    import_paths(project, [write(tmp_path / f"{FORK}.jsonl", [asks("toolu_03", session=FORK)])])
    newer_readers()
    out = StringIO()
    run = Run.objects.get(external_id=SESSION)
    call_command("rederive", "--dry-run", "--run", str(run.pk), stdout=out)
    call_command("rederive", "--run", str(run.pk), stdout=out)
    would, did = out.getvalue().splitlines()[::2]
    assert would == (
        "1 sources of 1 runs would be read again: 0 calls added, 1 changed, 1 gone; 0 notes and tags gone."
    )
    assert did == would.replace("would be", "were")
    assert rederive("--project", "another")["read"]["sources"] == 0
    assert rederive()["read"]["sources"] == 1


KILLED = """
import os, shutil, signal, sys
import django
django.setup()
import msgspec
from django.core.management import call_command
from django.db import connection
from envelopes import recordings
from tests.dashboard.ingest.test_rereading import newer
recordings.READABLE = tuple(map(newer, recordings.READABLE))
left = int(sys.argv[1])
def kill(execute, *arguments):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(*arguments)
with connection.execute_wrapper(kill):
    call_command("rederive", "--json")
print(-left)
"""


@pytest.mark.extended
def test_a_killed_command_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed at statements of the first and of the second group, of their writing and of what is derived then."""
    for session in (SESSION, FORK):
        lines = [json.dumps(line).replace("toolu_", f"toolu_{session[-1]}").encode() for line in short_session(session)]
        write(tmp_path / "sessions" / f"{session}.jsonl", list(lines))
    imported = migrated_store(tmp_path / "imported")
    manage(imported, "import_runs", str(tmp_path / "sessions"))

    def run_on_copy(name: str, *kills: int) -> tuple[str, str]:
        store = tmp_path / name
        shutil.copytree(imported, store)
        for number in (*kills, 0):
            command = [sys.executable, "-c", KILLED, str(number)]
            done = subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True)
            assert done.returncode == (-signal.SIGKILL if number else 0), done.stderr
        return digest(store), done.stdout.splitlines()[-1]

    expected, statements = run_on_copy("undisturbed")
    assert expected != digest(imported)
    kills = range(8, int(statements), int(statements) // 6)
    for number in kills:
        assert run_on_copy(f"killed at {number}", number, 5)[0] == expected
