"""`verify DIR` over the records of a real run and over its export."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from dashboard.models import Project
from tests.dashboard.plans.orders import command, plan, run_command

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


def test_the_records_of_a_run_and_its_export_prove_it(project: Project, data: Path, tmp_path: Path) -> None:
    document = plan(
        command("big", "seq 30000"),
        command("each", "echo {n.path}", foreach={"from": "$steps.items.changed_files", "itemName": "n"}),
        {"id": "items", "tool": "ApplyPatch", "args": {"patch": "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"}},
    )
    printed, _, _ = run_command(project, tmp_path, document, "--confirm", "yes")
    call_command("export_run", printed["run_id"], str(tmp_path / "exported"), stdout=StringIO())
    for folder in (data / "plans" / printed["run_id"], tmp_path / "exported"):
        out = StringIO()
        call_command("verify", str(folder), stdout=out)
        assert out.getvalue() == f"{folder}: 3 steps with 3 calls, proved by its records\n"
    out = StringIO()
    call_command("verify", str(tmp_path / "exported"), "--json", stdout=out)
    assert json.loads(out.getvalue()) == {
        "run_id": printed["run_id"],
        "steps": {"big": "ok", "items": "ok", "each": "ok"},
        "interrupted": False,
        "problems": [],
    }
    (artifact,) = (tmp_path / "exported" / "artifacts").iterdir()
    artifact.write_bytes(artifact.read_bytes()[:-1])
    with pytest.raises(CommandError, match="contradicts itself:\n  .*stdout.txt has another content"):
        call_command("verify", str(tmp_path / "exported"))
    (tmp_path / "exported" / "run.json").write_text('{"runId": "r"}')
    with pytest.raises(CommandError, match="is no run of a plan"):
        call_command("verify", str(tmp_path / "exported"))
