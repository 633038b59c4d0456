"""Recordings that are one document: found in folders by their content, read whole, reported with their format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import pyzstd
from django.core.management import CommandError, call_command
from pytest_django import Settings

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Observation, Project
from dashboard.runs.export_run import export_run
from tests.envelopes.recordings.samples import FOLDER

pytestmark = pytest.mark.django_db
CALLS = 9
CHAT = FOLDER / "gemini_cli" / "entire_ab_2b9748b105_0_full.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chats = tmp_path / "tmp" / "project" / "chats"
    chats.mkdir(parents=True)
    shutil.copy(CHAT, chats / "session-1.json")
    (chats / "logs.json").write_text('[{"sessionId": "s", "messageId": 0, "type": "user", "message": "hi"}]')
    (tmp_path / "package.json").write_text('{"name": "shop"}')
    return tmp_path


def test_documents_of_a_folder_are_found_by_their_content(project: Project, folder: Path) -> None:
    report = import_paths(project, [folder])
    names = [(Path(file["file"]).name, file["format"], file["recognised_by"]) for file in report.formats]
    assert names == [("session-1.json", "Gemini CLI chat", "a document with sessionId, projectHash and messages")]
    assert {Path(problem["file"]).name for problem in report.skipped} == {"logs.json", "package.json"}
    assert report.added["calls"] == CALLS == Call.objects.count()
    assert not report.problems


def test_a_document_is_imported_once_and_its_evidence_lies_in_its_lines(project: Project, folder: Path) -> None:
    import_paths(project, [folder])
    again = import_paths(project, [folder])
    assert not any(again.added.values())
    receipts = Observation.objects.filter(surface="receipt")
    assert receipts.count() == CALLS
    assert not receipts.exclude(own_data=None).exists()


def test_a_chat_that_was_written_anew_adds_what_is_new(project: Project, tmp_path: Path) -> None:
    document = json.loads(CHAT.read_bytes())
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps(document | {"messages": document["messages"][:5]}, indent=2))
    first = import_paths(project, [path])
    path.write_text(json.dumps(document, indent=2))
    second = import_paths(project, [path])
    assert first.added["calls"] + second.added["calls"] == CALLS
    assert (second.added["runs"], project.runs.count()) == (0, 1)


def test_a_rollout_that_was_compressed_gives_the_same_export(project: Project, tmp_path: Path) -> None:
    (rollout,) = (FOLDER / "codex").glob("rollout-2026-05-11T13*.jsonl")
    packed = tmp_path / "archived" / f"{rollout.name}.zst"
    packed.parent.mkdir()
    packed.write_bytes(pyzstd.compress(rollout.read_bytes()))
    (packed.parent / "cut.jsonl.zst").write_bytes(packed.read_bytes()[:-20])
    other = get_or_create_project("packed")
    report = import_paths(other, [packed.parent])
    assert [entry["format"] for entry in report.formats] == ["Codex rollout, compressed"] * 2
    assert [problem["reason"] for problem in report.problems] == ["it ends in the middle"]
    import_paths(project, [rollout])
    for owner, name in ((project, "plain"), (other, "packed")):
        export_run(owner.runs.get(), tmp_path / name)
    for path in sorted((tmp_path / "plain").iterdir()):
        assert path.read_bytes() == (tmp_path / "packed" / path.name).read_bytes(), path.name


def test_a_document_that_is_too_long_is_refused_whole(project: Project, folder: Path, settings: Settings) -> None:
    settings.MAX_LINE_BYTES = 1_000
    report = import_paths(project, [folder])
    (problem,) = report.problems
    assert problem["reason"].startswith("longer than")
    assert not report.added["calls"]


def test_the_folders_of_agents_are_imported_from_the_home(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(CommandError, match="no agent has recorded here"):
        call_command("import_runs", "--home")
    (folder / ".gemini").mkdir()
    shutil.move(folder / "tmp", folder / ".gemini" / "tmp")
    call_command("import_runs", "--home", "--project", project.name)
    assert "Gemini CLI chat, recognised by a document with sessionId" in capsys.readouterr().out
    assert Call.objects.count() == CALLS
