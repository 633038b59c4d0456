"""ATIF trajectories in the store: runs of their subagents, copied steps, and a trajectory that grows."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from django.core.management import call_command

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run, RunCall, Source
from tests.dashboard.stored_rows import stored_rows

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
SAMPLES = Path(__file__).resolve().parents[2] / "envelopes/recordings/atif"
TERMINUS = SAMPLES / "terminus_2.0.0_linear"


def test_the_subagents_of_terminus_are_runs_below_it_whose_copied_calls_count_once(project: Project) -> None:
    report = import_paths(project, [TERMINUS])
    assert not report.problems
    main = Run.objects.get(external_id__regex=r"^[0-9a-f-]{36}$")
    assert {run.external_id.removeprefix(main.external_id) for run in Run.objects.filter(parent=main)} == {
        f"-summarization-1-{part}" for part in ("summary", "questions", "answers")
    }
    assert Counter(RunCall.objects.values_list("inherited", flat=True)) == {False: 5, True: 2}
    assert main.agent == "terminus-2"


def test_each_sample_is_imported_without_a_problem_and_a_second_time_adds_nothing(project: Project) -> None:
    paths = [path for path in sorted(SAMPLES.glob("*.json")) if ".sent." not in path.name]
    assert not import_paths(project, paths).problems
    stored = stored_rows()
    assert not import_paths(project, paths).added["calls"]
    assert stored_rows() == stored
    Source.objects.update(reader=0)
    call_command("rederive")
    assert stored_rows() == stored
    [claude] = Run.objects.filter(agent="claude-code", version="2.1.332", parent=None)
    assert Run.objects.filter(parent=claude).count() == 2
    assert {"failed", "succeeded"} <= set(Call.objects.filter(run=claude).values_list("outcome", flat=True))


def test_calls_without_an_answer_are_not_shown_as_successes(project: Project) -> None:
    import_paths(project, [SAMPLES / "gemini_cli_0.61.0.json"])
    unanswered = Call.objects.filter(receipt_count=0)
    assert {call.outcome for call in unanswered} == {"unanswered"}


def test_a_trajectory_that_grows_has_each_step_once(project: Project, tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLES / "terminus_2.0.0_plain/trajectory.json", tmp_path))
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "steps": document["steps"][:4]}, indent=2))
    import_paths(project, [path])
    before = Call.objects.count()
    path.write_text(json.dumps(document, indent=2))
    import_paths(project, [path])
    assert Run.objects.count() == 1
    assert before < Call.objects.count() == 7
