"""The tab Plan over the plan of the demo, which has every kind of step, and over runs without an ActionPlan."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.artifacts.stores import open_stored
from dashboard.ingest.importer import import_paths
from dashboard.management.commands.demo import run_demo_plan
from dashboard.models import Artifact, Call, Project, Run
from dashboard.plans.plan_run import POLICY, PlanOrder, run_plan
from dashboard.views.workspace import ROWS
from envelopes.plan.executor import Executor
from envelopes.plan.schema import read_plan
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.plans.orders import command, plan, run_command
from tests.envelopes.recordings.samples import FOLDER
from tests.faults.imports import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.mark.extended
def test_every_kind_of_step_is_shown_with_what_fed_it(project: Project, client: Client, alice: User) -> None:
    run_demo_plan(project)
    run_demo_plan(project)  # the second time its records are imported, and nothing runs
    run = Run.objects.get()
    data = client.get(f"/runs/{run.pk}/plan", headers={"Accept": "application/json"}).json()
    assert (data["page"]["is_live"], len(data["page"]["steps"])) == (False, 11)
    page = parse_page(client.get(f"/runs/{run.pk}/plan"))
    ends = {row["id"]: row.select_one(".badge").text for row in page.select(".plan-step")}
    assert ends == {
        **dict.fromkeys(("step-notes", "step-lookup", "step-build", "step-sums", "step-correct", "step-built"), "ok"),
        "step-keys": "error",
        "step-publish": "skipped",
        **dict.fromkeys(("step-table", "step-end", "step-report"), "ok"),
    }
    assert "1 further attempt" in page.select_one("#step-lookup").text
    sums = page.select_one("#step-sums").text
    assert "for each of $steps.notes.changed_files: 3 rounds, 3 ok, 0 failed" in sums
    assert "grep -c '^- ' notes/january.md" in sums
    report = page.select_one("#step-report").text
    assert "$vars.counts.okCount from sums" in report
    assert "3 counted, last file %s" in report
    assert [link.text for link in page.select("#step-notes .plan-edges a")] == ["build", "sums", "report"]
    assert "task_1" in page.select_one("#step-built").text
    nodes = {node.select_one("text").text: node["data-end"] for node in page.select(".plan-graph g")}
    assert (len(nodes), nodes["notes"], nodes["keys"], nodes["publish"]) == (11, "ok", "error", "skipped")
    assert len(page.select(".plan-graph path")) == 9
    refused = Call.objects.get(step="keys")
    assert (refused.outcome, refused.error_kind) == ("refused", "policy_denied")
    proof = parse_page(client.get(page.select_one("#step-keys .plan-proof")["href"]))
    assert "This call needed no confirmation, or it never ran." in proof.text
    artifact = Artifact.objects.get(call__step="table")
    with open_stored(artifact.sha256) as content:
        assert content.read().endswith(b"- train: 64\n- refund: -50\n")
    assert Call.objects.get(step="end").summary.endswith("lines 5999 to 6005 of 6005")


@pytest.mark.extended
def test_the_rounds_of_a_foreach_are_counted_and_those_that_failed_are_listed_first(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    """Each of 30 rounds works in a folder, and one of these does not exist."""
    files = "".join(f"--- /dev/null\n+++ b/d{number}/a\n@@ -0,0 +1 @@\n+x\n" for number in range(30))
    document = plan(
        {"id": "files", "tool": "ApplyPatch", "args": {"patch": files}},
        command("remove", "rm -r d29"),
        {
            "id": "look",
            "tool": "ExecCommand",
            "args": {"cmd": "test -s ../{file.path} && exit {n}", "workdir": "d{n}", "login": False},
            "foreach": {"from": "$steps.files.changed_files", "itemName": "file", "indexName": "n"},
            "onError": "skip",
            "dependsOn": ["remove"],
        },
    )
    printed, error, _ = run_command(project, tmp_path, document, "--confirm", "yes")
    assert printed["steps"]["look"] == "partial"
    assert "look: 1 of 30 rounds failed, the last: d29 is no folder of the workspace" in error
    run = Run.objects.get()
    step = parse_page(client.get(f"/runs/{run.pk}/plan")).select_one("#step-look")
    assert "30 rounds, 1 ok, 28 with an exit status other than 0, 1 failed" in step.text
    assert "gave a result: the step is partial" in step.text
    assert "d29 is no folder of the workspace" in step.text
    assert "6 more calls" in step.text
    links = {link.text for link in step.select(".plan-calls a")}
    assert "round 29" in links
    assert "round 25" not in links
    assert "round 3 failed, exit 3" in step.text  # a result for the executor, a failed command for a reader


def test_a_run_without_a_plan_has_no_tab_and_one_with_another_plan_says_so(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    plain = create_run(project)
    assert client.get(f"/runs/{plain.pk}/plan").status_code == 404
    assert not parse_page(client.get(plain.get_absolute_url())).has("[data-tab=plan]")
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"runId": "r1", "plan": {"steps": ["look", "write"]}}))
    import_paths(project, [folder])
    run = Run.objects.get(external_id="r1")
    assert "The recorded plan is no ActionPlan" in parse_page(client.get(f"/runs/{run.pk}/plan")).text
    assert client.get(f"/runs/{run.pk}/confirmation").status_code == 404


@pytest.mark.usefixtures("alice")
def test_the_steps_beside_the_plan_lead_to_steps(project: Project, client: Client) -> None:
    import_paths(project, [FOLDER / "audit"])
    address = f"/runs/{Run.objects.get().pk}/plan"
    beside = {"HX-Request": "true", "HX-Target": ROWS}
    for page in (client.get(address), client.get(address, headers=beside)):
        links = [link["href"] for link in parse_page(page).select("a.call-row")]
        assert [client.get(link).status_code for link in links] == [200, 200]


@pytest.mark.extended
def test_a_cancelled_round_did_not_fail_and_the_end_of_a_run_replaces_what_showed_it_as_live(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    patch = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n"
    document = plan(
        {"id": "files", "tool": "ApplyPatch", "args": {"patch": patch}},
        command(
            "each",
            "",
            foreach={"from": "$steps.files.changed_files", "itemName": "file"},
            args={"cmd": "touch begun; sleep 600", "login": False, "yield_time_ms": 600_000},
        ),
    )

    def cancel(executor: Executor) -> None:
        wait_until(lambda: (workspace / "begun").exists())
        executor.cancel()

    policy = msgspec.structs.replace(POLICY, confirmations_required=False)
    order = PlanOrder(plan=read_plan(document), workspace=workspace, policy=policy)
    result = run_plan(project, order, on_start=lambda run: threading.Thread(target=cancel, args=(run,)).start())
    assert result.end == "cancelled"
    address = f"/runs/{Run.objects.get().pk}/plan"
    assert "1 round, 0 ok, 1 cancelled, 0 failed" in parse_page(client.get(address)).select_one("#step-each").text
    part = client.get(f"{address}?since=0", headers={"HX-Request": "true"}).content.decode()
    assert [f'id="{name}" hx-swap-oob="true"' in part for name in ("plan-actions", "run-head")] == [True, True]
    assert ('data-steps-scroll hx-swap-oob="true"' in part, "Cancel the run" in part) == (True, False)
