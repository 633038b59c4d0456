"""Files and folders with several recordings: what is imported of them, when again, what stays of earlier versions."""

from __future__ import annotations

import copy
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from dashboard.accounts import get_or_create_project
from dashboard.artifacts.retention import check_store
from dashboard.ingest.importer import import_paths
from dashboard.ingest.rereading import read_outdated
from dashboard.ingest.source_files import find_changed_container
from dashboard.models import Artifact, Call, Message, Problem, Project, RecordedReceipt, Run, RunCall, Source
from dashboard.runs.run_marks import load_branches
from tests.dashboard.page_text import parse_page
from tests.dashboard.stored_rows import stored_rows
from tests.envelopes.recordings.opencode_storage import Json, print_export, read_export, write_database, write_files

pytestmark = pytest.mark.django_db
SESSION = read_export("1.18.33")
SESSION_ID = SESSION["info"]["id"]
OTHER = read_export("1.18.33_compacted")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    (tmp_path / "opencode").mkdir()
    return write_database(tmp_path / "opencode" / "opencode.db", [SESSION, OTHER])


def begin(count: int, **last_part: object) -> Json:
    """The session when it had so many messages; `last_part` are other members of the last call's state."""
    document = copy.deepcopy(SESSION)
    document["messages"] = document["messages"][:count]
    if last_part:
        message = document["messages"][-1]
        message["parts"] = [part for part in message["parts"] if part["type"] != "step-finish"]
        [*_, call] = [part for part in message["parts"] if part["type"] == "tool"]
        call["state"] = last_part
        message["info"]["time"].pop("completed", None)
    return document


def places(project: Project) -> list[tuple[object, ...]]:
    calls = RunCall.objects.filter(run__project=project).order_by("ordinal").values_list("call__external_id", "ordinal")
    receipts = RecordedReceipt.objects.filter(run__project=project).order_by("line").values_list("at", "line")
    messages = Message.objects.filter(run__project=project).order_by("line").values_list("role", "line")
    return [*calls, *receipts, *messages]


@pytest.mark.postgresql
def test_each_session_is_a_source_and_a_second_import_leaves_it_out(project: Project, database: Path) -> None:
    report = import_paths(project, [database.parent])
    names = {f"{database}/{document['info']['id']}.json" for document in (SESSION, OTHER)}
    assert {entry["file"] for entry in report.formats} == names == {source.path for source in Source.objects.all()}
    assert (report.files, report.added["runs"], report.problems, report.skipped) == (2, 2, [], [])
    again = import_paths(project, [database])
    assert (again.seen, again.lines, again.run_ids) == (report.seen, report.lines, report.run_ids)
    assert not any(again.added.values())
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("UPDATE part SET data = '{}'")  # without another time, which OpenCode always writes
    import_paths(project, [database])
    assert Source.objects.count() == 2
    assert not check_store().findings


@pytest.mark.postgresql
@pytest.mark.parametrize("is_export_first", [False, True])
def test_an_export_and_the_database_are_the_same_recording(
    project: Project, tmp_path: Path, *, is_export_first: bool
) -> None:
    database = write_database(tmp_path / "opencode.db", [SESSION])
    export = tmp_path / "session.json"
    export.write_bytes(print_export(SESSION))
    first, second = (export, database) if is_export_first else (database, export)
    import_paths(project, [first])
    stored = stored_rows()
    assert not any(import_paths(project, [second]).added.values())
    assert Source.objects.count() == 1
    assert stored_rows() == stored


@pytest.mark.postgresql
def test_a_session_that_was_followed_has_the_rows_of_one_that_was_imported_once(
    project: Project, tmp_path: Path
) -> None:
    database = tmp_path / "opencode.db"
    pending = {"status": "pending", "input": {}, "raw": ""}
    [first] = [part for part in SESSION["messages"][1]["parts"] if part["type"] == "tool"]
    running = {"status": "running", "input": first["state"]["input"], "time": {"start": 1795788743907}}
    for document in (begin(1), begin(2, **pending), begin(2, **running), begin(3), begin(20), SESSION):
        import_paths(project, [write_database(database, [document])])
    assert Source.objects.count() == 6
    followed = places(project)
    other = get_or_create_project("other")
    import_paths(other, [database])
    assert followed == places(other)
    assert not Call.objects.filter(is_disagreeing=True).exists()
    Source.objects.update(reader=1)
    changes = list(read_outdated(project))
    assert [(change.calls_added, change.calls_changed, change.calls_gone) for change in changes] == [(0, 0, 0)]
    assert places(project) == followed


@pytest.mark.postgresql
def test_messages_that_were_undone_stay_and_have_left_the_context(project: Project, tmp_path: Path) -> None:
    database = write_database(tmp_path / "opencode.db", [begin(8)])
    import_paths(project, [database])
    answered = begin(4)
    [*_, last] = SESSION["messages"]
    text = {"type": "text", "text": "after the undo", "id": "prt_z"}
    answered["messages"].append({"info": last["info"] | {"id": "msg_z"}, "parts": [text]})
    import_paths(project, [write_database(database, [answered])])
    run = Run.objects.get()
    [branch] = load_branches(run)
    undone = RunCall.objects.filter(run=run, ordinal__range=(branch.start, branch.end - 1)).count()
    assert undone == sum(part["type"] == "tool" for message in begin(8)["messages"][4:] for part in message["parts"])
    assert branch.end == branch.line < Message.objects.get(step="msg_z").line, "all before the removal has left"
    marks = places(project)
    Source.objects.update(reader=1)
    list(read_outdated(project))
    assert (places(project), load_branches(run)[0][:2]) == (marks, (branch.start, branch.end))


def test_a_damaged_database_is_named_costs_no_other_and_is_forgiven(project: Project, database: Path) -> None:
    content = database.read_bytes()
    export = database.with_name("other.json")
    export.write_bytes(print_export(OTHER))
    database.write_bytes(content[:100] + b"\0" * (len(content) - 100))
    report = import_paths(project, [database.parent])
    [problem] = report.problems
    assert problem["file"] == str(database)
    assert problem["reason"].startswith("cannot be read: ")
    assert (report.files, report.added["runs"], report.lines["rejected"]) == (2, 1, 1)
    assert Problem.objects.get().file == str(database)
    database.write_bytes(content)
    assert not import_paths(project, [database.parent]).problems
    assert not Problem.objects.exists()


def test_a_damaged_row_is_a_problem_of_its_session(project: Project, tmp_path: Path) -> None:
    broken = begin(3)
    broken["messages"][1]["parts"][0] = {"id": "prt_0"}
    report = import_paths(project, [write_database(tmp_path / "opencode.db", [broken, OTHER])])
    [problem] = report.problems
    assert problem["file"] == f"{tmp_path}/opencode.db/{SESSION_ID}.json"
    assert problem["path"] == "$.messages[1].parts[0].type"
    assert report.added["runs"] == 2


def test_the_output_beside_the_database_is_stored(project: Project, database: Path) -> None:
    [name, *_] = [
        Path(part["state"]["metadata"]["outputPath"]).name
        for message in SESSION["messages"]
        for part in message["parts"]
        if "outputPath" in part.get("state", {}).get("metadata", {})
    ]
    (database.parent / "tool-output").mkdir()
    (database.parent / "tool-output" / name).write_bytes(b"the whole output")
    import_paths(project, [database.parent])
    [artifact] = Artifact.objects.filter(path__endswith=name)
    assert (artifact.state, artifact.size) == (Artifact.State.PRESENT, 16)


def test_a_folder_of_files_is_a_container_whose_files_are_none(project: Project, tmp_path: Path) -> None:
    document = read_export("1.1.65")
    storage = write_files(tmp_path / "storage", document)
    (tmp_path / "storage" / "migration").write_text("2")
    report = import_paths(project, [tmp_path])
    assert [entry["file"] for entry in report.formats] == [f"{storage}/{document['info']['id']}.json"]
    assert (report.added["runs"], report.problems, report.skipped) == (1, [], [])


def test_files_beside_a_container_are_its_own(project: Project, database: Path, tmp_path: Path) -> None:
    for name in ("opencode/auth.json", "opencode/log/a.log", "other/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    report = import_paths(project, [tmp_path])
    assert [entry["file"] for entry in report.skipped] == [str(tmp_path / "other" / "notes.txt")]


def test_a_deleted_run_is_imported_again(project: Project, database: Path) -> None:
    import_paths(project, [database])
    Run.objects.all().delete()
    Source.objects.all().delete()
    assert import_paths(project, [database]).added["runs"] == 2


@pytest.mark.parametrize(
    ("changed", "container"),
    [
        ("opencode/opencode.db-wal", "opencode/opencode.db"),
        ("opencode/opencode.db", "opencode/opencode.db"),
        ("opencode/auth.json", None),
        ("storage/part/msg_1/prt_1.json", "storage"),
        ("storage/session/p/ses_1.json", "storage"),
    ],
)
def test_a_change_of_its_files_is_one_of_the_container(
    database: Path, tmp_path: Path, changed: str, container: str | None
) -> None:
    write_files(tmp_path / "storage", read_export("1.1.65"))
    assert find_changed_container(tmp_path / changed) == (tmp_path / container if container else None)


def test_the_home_folder_of_opencode_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    write_database(folder / "opencode.db", [SESSION])
    monkeypatch.setenv("HOME", str(tmp_path))
    call_command("import_runs", home=True, json=True)
    assert json.loads(capsys.readouterr().out)["added"]["runs"] == 1


@pytest.mark.usefixtures("alice")
def test_an_uploaded_database_is_imported_and_the_problems_page_opens(client: Client, database: Path) -> None:
    file = SimpleUploadedFile("opencode.db", database.read_bytes())
    page = parse_page(client.post("/runs/import/", {"files": [file], "paths": ["opencode.db"]}))
    assert f"opencode.db/{SESSION_ID}.json" in page.text
    assert {source.path.split("/")[0] for source in Source.objects.all()} == {"opencode.db"}
    assert client.get("/problems/").status_code == 200
