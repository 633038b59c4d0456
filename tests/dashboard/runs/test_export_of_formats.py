"""A run of every format that was exported is imported again to the same export, and has both halves in Parquet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from dashboard.accounts import get_or_create_project
from dashboard.calls.call_export import export_calls
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Observation, Project
from dashboard.runs.export_run import export_run
from tests.cases import extended_except
from tests.envelopes.recordings.samples import FOLDER

pytestmark = pytest.mark.django_db
NAMES = ("codex", "gemini_cli", "inspect_ai", "mcp_frames", "message_dumps", "mini_swe_agent", "swe_agent")
PATHS = [
    path.relative_to(FOLDER).as_posix()
    for name in NAMES
    for path in sorted((FOLDER / name).iterdir())
    if path.name != "LICENSE"
]
PATHS += ["codex_exec.jsonl"]
PATHS += [f"releases/{name}" for name in ("claude_code_2.1.332", "codex_0.171.0.jsonl", "gemini_cli_0.61.0.jsonl")]
PATHS += [f"atif/{name}.json" for name in ("claude_code_2.1.332", "kimi_code_2.1.0", "pi_1.6.0", "qwen_code_0.15.10")]
PATHS += ["atif/terminus_2.0.0_linear", "continue_cli/1.5.47", "continue_cli/1.5.47-compact"]
BRIEF = "inspect_ai/log_tool_call_error.json"  # has calls that are known from their answers alone


def export(project: Project, folder: Path) -> dict[str, bytes]:
    for number, run in enumerate(project.runs.order_by("external_id")):
        export_run(run, folder / str(number))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", extended_except(PATHS, BRIEF))
def test_an_export_is_imported_to_the_same_export(project: Project, tmp_path: Path, path: str) -> None:
    report = import_paths(project, [FOLDER / path])
    assert (report.problems, report.added["runs"]) == ([], project.runs.count())
    first = export(project, tmp_path / "first")
    again = get_or_create_project("again")
    assert import_paths(again, [tmp_path / "first"]).problems == []
    assert export(again, tmp_path / "second") == first
    table = pyarrow.parquet.read_table(io.BytesIO(b"".join(export_calls(project.calls.all(), "parquet"))))
    rows: dict[str, dict[str, Any]] = {row["call"]: row for row in table.to_pylist()}
    calls = list(Call.objects.filter(project=project))
    assert len(rows) == len(calls)
    for call in calls:
        recorded = {row.surface: row.data.decode() for row in Observation.objects.filter(call=call, selected=True)}
        row = rows[str(call.pk)]
        assert row["result"] == recorded.get("result"), call.external_id
        assert (row["receipt_json"] is None) == ("receipt" not in recorded), call.external_id
