"""Runs of every agent are imported, exported and imported again: the second export has the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.accounts import get_or_create_project
from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from dashboard.runs.export_run import export_run
from tests.envelopes.recordings.samples import FOLDER

pytestmark = [pytest.mark.django_db, pytest.mark.extended]
FOLDERS = ("codex", "gemini_cli", "swe_agent", "mini_swe_agent", "inspect_ai", "message_dumps", "mcp_frames")
UNASKED = "log_tool_call_error.json"  # has answers alone, whose calls no line asks for


def exported(project: Project, folder: Path) -> dict[str, bytes]:
    for run in project.runs.filter(call_count__gt=0).order_by("external_id"):
        export_run(run, folder / run.external_id)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.json*")}


@pytest.mark.parametrize("name", FOLDERS)
def test_an_export_is_the_same_after_it_was_imported(project: Project, tmp_path: Path, name: str) -> None:
    paths = [path for path in sorted((FOLDER / name).iterdir()) if path.name not in ("LICENSE", UNASKED)]
    report = import_paths(project, paths)
    assert not report.problems
    assert len(report.formats) == len(paths)
    first = exported(project, tmp_path / "first")
    again = get_or_create_project(f"again-{name}")
    second = import_paths(again, [tmp_path / "first"])
    assert not second.problems
    assert second.added["receipts"] == report.added["receipts"]
    assert exported(again, tmp_path / "second") == first
