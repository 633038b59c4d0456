"""Child agents in a plan: each runs a plan of its own, as a run with its own confirmation, and ends with its parent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Call, Project, Run
from envelopes.plan.recorders import load_run
from envelopes.plan.schema import read_plan
from tests.dashboard.page_text import parse_page
from tests.dashboard.plans.orders import command, plan, run_command, run_until_asked
from tests.dashboard.plans.test_confirmation import answer

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
REVIEW = plan(command("note", "echo reviewed {$vars.initial_message} > review.txt"), goal="Review one file")
SPAWN = {"id": "spawn", "tool": "SpawnAgent", "args": {"initial_message": "a.md", "template": "review"}}
WAIT = {
    "id": "wait",
    "tool": "TaskOutput",
    "args": {"task_id": "$steps.spawn.task_handle.task_id", "timeout_ms": 60_000},
}
PARENT = plan(SPAWN, WAIT)


def with_child(folder: Path, document: Any, name: str = "review") -> tuple[str, str]:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return "--child", f"{name}={path}"


def test_a_child_runs_its_plan_as_a_run_of_its_own(
    project: Project, client: Client, alice: User, tmp_path: Path, data: Path
) -> None:
    printed, error, status = run_command(project, tmp_path, PARENT, "--confirm", "yes", *with_child(tmp_path, REVIEW))
    assert (printed["steps"], error, status) == ({"spawn": "ok", "wait": "ok"}, "", 0)
    assert (tmp_path / "workspace" / "review.txt").read_text() == "reviewed a.md\n"
    run, child = project.runs.order_by("external_id")
    assert child.external_id == f"{run.external_id}.1"
    assert (child.parent, child.status, child.title) == (run, "ended", "Review one file")
    spawn = Call.objects.get(run=run, step="spawn")
    assert (spawn.child_run, child.parent_call) == (child.pk, spawn.pk)
    (output,) = [result for result in load_run(data / "plans" / run.external_id).results if result.step_id == "wait"]
    assert output.data is not None
    assert output.data["status"] == "completed"
    assert "note: ok, command exited with status 0" in json.dumps(output.data)
    page = parse_page(client.get(f"/runs/{child.pk}/confirmation"))
    assert "echo reviewed {$vars.initial_message} > review.txt" in page.text
    assert "approved" in page.select_one(".notice").text
    targets = parse_page(client.get(f"/runs/{run.pk}/confirmation")).select("section[aria-labelledby=known] tbody tr")
    assert [row.texts("th, td") for row in targets] == [["spawn", "child plan", "review"]]


@pytest.mark.extended
def test_each_run_is_confirmed_by_itself_and_a_rejected_child_fails_its_task(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    def decide(run: Run) -> None:
        if run.parent is not None:
            sentence, address = "A child run waits for a confirmation.", f"/runs/{run.pk}/confirmation"
            for page in ("", "plan"):
                notice = parse_page(client.get(f"/runs/{run.parent_id}/{page}")).select_one(".notice[role=status]")
                assert (sentence in notice.text, notice.select_one("a")["href"]) == (True, address)
            row = parse_page(client.get("/runs/")).select_one(".run-table td.status")
            assert (row["title"], row.select_one("a")["href"]) == ("a child run waits for confirmation", address)
        decision = ("approve", "") if run.parent is None else ("reject", "not this file")
        assert answer(client, run, *decision).status_code == 302

    run, result = run_until_asked(project, tmp_path, PARENT, decide, children={"review": read_plan(REVIEW)})
    assert result.is_ok  # to read the output of a task that failed is no failure
    child = run.children.get()
    assert child.call_count == 0
    assert "rejected by alice" in parse_page(client.get(f"/runs/{child.pk}/confirmation")).text
    assert result.outputs()["wait"]["status"] == "failed"
    assert not (tmp_path / "workspace" / "review.txt").exists()


@pytest.mark.extended
def test_a_child_that_still_runs_ends_with_its_parent(project: Project, tmp_path: Path) -> None:
    slow = plan(command("long", "sleep 600", args={"cmd": "sleep 600", "login": False, "yield_time_ms": 600_000}))
    _, error, status = run_command(project, tmp_path, plan(SPAWN), "--confirm", "yes", *with_child(tmp_path, slow))
    assert (error, status) == ("", 0)
    child = project.runs.exclude(parent=None).get()
    assert (child.status, json.loads(bytes(child.document))["end"]) == ("ended", "cancelled")


def test_the_plans_of_children_are_checked_before_anything_runs(project: Project, tmp_path: Path) -> None:
    _, error, status = run_command(project, tmp_path, PARENT, "--confirm", "yes")
    assert (status, "spawn: SpawnAgent cannot run here: no plan for a child agent is set up" in error) == (2, True)
    faulty = plan({"id": "note", "tool": "Nothing", "args": {}})
    options = ("--confirm", "yes", *with_child(tmp_path, faulty))
    _, error, status = run_command(project, tmp_path, PARENT, *options)
    assert (status, "child review, note: there is no tool Nothing" in error) == (2, True)
    assert not project.runs.exists()
    _, error, status = run_command(project, tmp_path, PARENT, "--child", "review")
    assert (status, error) == (2, "--child review: give NAME=PLAN.json, each name once")
