"""`run_plan` as a process that is killed, or told to end: what is left is all that was acknowledged."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from dashboard.runs.export_run import export_run
from envelopes.plan.verify import verify_folder
from tests.dashboard.page_text import parse_page
from tests.dashboard.plans.orders import command, plan, running_plan
from tests.faults.imports import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.extended]
SLOW = plan(
    command("first", "echo first"),
    command("long", "sleep 600", args={"cmd": "sleep 600", "login": False, "yield_time_ms": 600_000}),
    command("after", "echo after", dependsOn=["long"]),
)


def is_running(step: str) -> bool:
    """The import that brought the call is done with it."""
    return Call.objects.filter(step=step).exclude(derivation="").exists()


def test_a_killed_run_is_interrupted_and_has_all_that_was_acknowledged(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the process opens the file of the test database")
    with running_plan(project, tmp_path, SLOW, "--confirm", "yes") as process:
        assert wait_until(lambda: is_running("long"))
        process.kill()
        process.communicate()
    run = Run.objects.get()
    assert run.status == "live"  # until its lease passes
    Run.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    run.refresh_from_db()
    assert run.status == "interrupted"
    page = parse_page(client.get(f"/runs/{run.pk}/plan"))
    assert "Interrupted: the executor ended without closing the run." in page.text
    badges = {step: page.select_one(f"#step-{step} .badge").text for step in ("first", "long", "after")}
    assert badges == {"first": "ok", "long": "interrupted", "after": "not reached"}

    folder = tmp_path / "data" / "plans" / run.external_id
    assert import_paths(project, [folder]).added["calls"] == 0
    export_run(run, tmp_path / "exported")
    for written in (folder, tmp_path / "exported"):
        check = verify_folder(written)
        assert (check.is_interrupted, check.problems) == (True, ())
        assert [state.end for state in check.steps] == ["ok", None, None]


def test_an_interrupt_cancels_the_run_and_ends_its_commands(project: Project, tmp_path: Path) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the process opens the file of the test database")
    with running_plan(project, tmp_path, SLOW, "--confirm", "yes") as process:
        assert wait_until(lambda: is_running("long"))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert (process.returncode, json.loads(output)["status"]) == (3, "cancelled")
    assert "Cancelling; once more ends the command at once." in errors
    run = Run.objects.get()
    assert run.status == "ended"
    assert {call.step: call.outcome for call in run.own_calls.all()} == {"first": "succeeded", "long": "cancelled"}
