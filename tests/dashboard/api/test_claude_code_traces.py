"""Claude Code's own spans beside its transcript: the same runs and calls in any order, and nothing said twice."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Observation, Project, RecordedReceipt, Run
from tests.dashboard.api.sending import Sender
from tests.dashboard.factories import create_project
from tests.source import CHECKOUT

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
RELEASES = CHECKOUT / "tests" / "envelopes" / "recordings" / "releases"
TRANSCRIPTS = RELEASES / "claude_code_2.1.332"
TRACES = RELEASES / "claude_code_2.1.332.traces.jsonl"
FAILED = {"Read", "Bash", "mcp__demo__fail"}


def send_traces(project: Project) -> None:
    sender = Sender(project)
    for body in TRACES.read_bytes().splitlines():
        assert sender.post("/v1/traces", body, "application/json").status_code == 200
    derive_waiting(project)


def import_transcripts(project: Project) -> None:
    import_paths(project, [TRANSCRIPTS])


def columns(project: Project) -> list[tuple[Any, ...]]:
    names = ("run__external_id", "external_id", "tool", "outcome", "exit_status", "is_disagreeing")
    return sorted(Call.objects.filter(project=project).values_list(*names))


def test_traces_alone_have_both_halves_and_the_failures(project: Project) -> None:
    send_traces(project)
    assert Run.objects.count() == 3
    ran = Call.objects.exclude(tool="")
    assert ran.count() == 21
    assert {call.tool for call in ran if call.outcome in ("failed", "timed_out")} == FAILED
    assert not ran.filter(receipts=None).exists()
    without_result = ran.exclude(pk__in=Observation.objects.filter(surface="result").values("call"))
    assert {call.outcome for call in without_result} == {"failed", "timed_out"}
    assert sorted(ran.filter(tool="Bash", exit_status__gt=0).values_list("exit_status", flat=True)) == [1, 3]


@pytest.mark.parametrize("steps", [(send_traces, import_transcripts), (import_transcripts, send_traces)])
def test_traces_and_transcripts_are_the_same_calls_in_either_order(steps: tuple[Any, Any], project: Project) -> None:
    other = create_project("Other")
    import_transcripts(other)
    alone = columns(other)
    for step in steps:
        step(project)
    joined = columns(project)
    assert [row[:5] for row in joined] == [row[:5] for row in alone]
    assert {row[2] for row in joined if row[5]} == {"ToolSearch"}  # it ran with a default that the model left out
    receipts = RecordedReceipt.objects.filter(call__project=project)
    assert set(receipts.values_list("fidelity", flat=True)) == {"exact"}
    assert receipts.count() == 23
