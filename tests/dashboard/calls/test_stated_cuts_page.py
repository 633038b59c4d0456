"""The page of a call whose receipt states that the agent cut it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from tests.dashboard.ingest.test_call_times import item, rollout
from tests.dashboard.recorded_calls import load_call
from tests.envelopes.families.test_stated_cuts import RAN, SHORTENED

pytestmark = pytest.mark.django_db


def test_the_page_states_how_much_the_agent_cut(operator_client: Client, project: Project, tmp_path: Path) -> None:
    path = tmp_path / "rollout-a.jsonl"
    asked = item(0, "function_call", "c", name="exec_command", arguments='{"cmd": "make"}')
    path.write_bytes(rollout(asked, item(1, "function_call_output", "c", output=RAN + SHORTENED)))
    import_paths(project, [path])
    call = Call.objects.get()
    assert call.is_cut
    text = load_call(operator_client, call).text
    assert "The agent cut 768 tokens out of what it sent." in text
    assert "cut before the model" in text
    assert "cut by the source" not in text
