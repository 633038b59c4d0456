"""The confirmation of a plan on the pages: what is shown, who may decide, what is refused, and what proves a write."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.models import AuditEntry, PlanExecution, Project, Run
from envelopes.plan.confirmation import ConfirmationRequest, Decision
from tests.dashboard.factories import create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.plans.orders import command, plan, run_until_asked

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
PATCH = "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+one\n"
COUNT = "wc -l notes.txt {$steps.patch.changed_files[0].path}"
WRITES = plan(
    {"id": "patch", "tool": "ApplyPatch", "args": {"patch": PATCH}},
    command("count", COUNT),
)


def load(client: Client, run: Run, query: str = "") -> Page:
    response = client.get(f"/runs/{run.pk}/confirmation{query}")
    assert response.status_code == 200
    return parse_page(response)


def answer(client: Client, run: Run, decision: str, reason: str = "", **other: str) -> Any:
    """Sends the form of the page, with the hashes that it has."""
    page = load(client, run)
    hashes = {name: page.select_one(f"input[name={name}]")["value"] for name in ("plan_hash", "policy_hash")}
    return client.post(f"/runs/{run.pk}/confirmation", {"decision": decision, "reason": reason, **hashes, **other})


def test_the_page_shows_what_an_approval_allows_and_the_run_proves_each_write(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    def approve(run: Run) -> None:
        page = load(client, run)
        assert "This plan runs commands" in page.text
        targets = page.select("section[aria-labelledby=known] tbody tr")
        assert [row.texts("th, td") for row in targets] == [
            ["patch", "add", "notes.txt"],
            ["count", "command", f"{COUNT} its references are resolved when the step runs"],
        ]
        assert "sha256:" in page.text
        assert '"confirmationsRequired": true' in page.text
        for address in ("", "plan"):
            link = parse_page(client.get(f"/runs/{run.pk}/{address}")).by_role("link", "Look at the plan and decide")
            assert link["href"] == f"/runs/{run.pk}/confirmation"
        row = parse_page(client.get("/runs/")).select_one(".run-table td.status")
        assert row.select_one("a")["href"] == f"/runs/{run.pk}/confirmation"
        assert row["title"] == "waits for confirmation"
        assert parse_page(client.get("/runs/")).select("td[data-number]")[-2].text == "–"
        facts = parse_page(client.get(f"/runs/{run.pk}/")).select_one(".run-counts").text
        assert "Status waits for confirmation Duration– Calls" in facts
        response = answer(client, run, "approve", "as discussed")
        assert (response.status_code, response["Location"]) == (302, f"/runs/{run.pk}/plan")
        assert not parse_page(client.get(f"/runs/{run.pk}/")).has(".notice[role=status]")
        assert not parse_page(client.get("/runs/")).has(".run-table td.status a")
        assert (
            "alice has approved this plan already"
            in parse_page(client.post(f"/runs/{run.pk}/confirmation", {"decision": "reject", "reason": "no"})).text
        )

    run, result = run_until_asked(project, tmp_path, WRITES, approve)
    assert result.is_ok
    entry = AuditEntry.objects.get(action="confirmation")
    execution = PlanExecution.objects.get(run=run)
    assert entry.person == execution.actor == "alice"
    assert entry.subject == (
        f"approved the plan of run {run.external_id}, {execution.plan_hash} under policy {execution.policy_hash}"
    )
    link = parse_page(client.get(f"/runs/{run.pk}/plan")).select("#step-patch .plan-proof")[0]
    page = parse_page(client.get(link["href"]))
    chain = page.select_one(".plan-proof-chain").text
    assert "ApplyPatch, step patch, attempt 1" in chain
    assert "approved by alice" in chain
    assert "the recorded plan and policy have those" in chain
    assert "1. patch: ApplyPatch" in page.text
    assert "as discussed" in page.text
    details = parse_page(client.get(f"/runs/{run.pk}/1/halves"))
    link = details.by_role("link", "Proof of this call: its confirmation, and what was shown for it")
    assert link["href"] == f"/runs/{run.pk}/confirmation?call=1"


def test_a_rejection_needs_a_reason_and_makes_no_call(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    def reject(run: Run) -> None:
        assert "Give a reason for the rejection." in parse_page(answer(client, run, "reject")).text
        assert answer(client, run, "reject", "x" * 501).status_code == 422
        assert answer(client, run, "reject", "not on Fridays").status_code == 302

    run, result = run_until_asked(project, tmp_path, WRITES, reject)
    assert (result.end, result.reason) == ("cancelled", "the plan was not confirmed: not on Fridays")
    assert run.call_count == 0
    assert not list((tmp_path / "workspace").iterdir())
    page = load(client, run)
    assert "rejected by alice" in page.text
    assert not page.has(".plan-form")
    assert "the plan was not confirmed: not on Fridays" in parse_page(client.get(f"/runs/{run.pk}/plan")).text


def test_another_hash_a_viewer_and_a_dead_command_are_refused(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    def try_all(run: Run) -> None:
        refused = answer(client, run, "approve", plan_hash="sha256:0")
        assert (refused.status_code, "has changed since the page showed it" in parse_page(refused).text) == (422, True)
        refused = answer(client, run, "approve", policy_hash="sha256:0")
        assert "has changed since the page showed it" in parse_page(refused).text
        viewer = Client()
        viewer.force_login(create_user("vera", project=project, role="viewer"))
        assert not load(viewer, run).has(".plan-form")
        assert viewer.post(f"/runs/{run.pk}/confirmation", {"decision": "approve"}).status_code == 403
        assert viewer.post(f"/runs/{run.pk}/cancel/").status_code == 403
        assert not parse_page(viewer.get(f"/runs/{run.pk}/plan")).has("button[data-kind=danger]")
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        refused = client.post(f"/runs/{run.pk}/confirmation", {"decision": "approve"})
        assert "The command that ran this plan has ended" in parse_page(refused).text
        page = parse_page(client.get(f"/runs/{run.pk}/plan"))
        assert "Interrupted: the executor ended without closing the run." in page.text
        assert "interrupted" in client.get("/runs/").content.decode()
        assert [row.pk for row in Run.objects.all() if row.status == "interrupted"] == [run.pk]
        assert not client.get("/runs/?q=status:live").context["page"].rows
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() + timedelta(seconds=60))
        assert client.post(f"/runs/{run.pk}/cancel/")["Location"] == f"/runs/{run.pk}/plan?cancelled"
        assert answer_is_refused(client, run)

    run, result = run_until_asked(project, tmp_path, WRITES, try_all)
    assert result.end == "cancelled"
    assert run.call_count == 0
    assert [entry.subject for entry in AuditEntry.objects.filter(action="cancellation")] == [
        f"the plan of run {run.external_id}"
    ]
    assert client.post(f"/runs/{run.pk}/cancel/")["Location"] == f"/runs/{run.pk}/plan"


def answer_is_refused(client: Client, run: Run) -> bool:
    execution = PlanExecution.objects.get(run=run)
    hashes = {"plan_hash": execution.plan_hash, "policy_hash": execution.policy_hash}
    refused = client.post(f"/runs/{run.pk}/confirmation", {"decision": "approve", **hashes})
    return "The request has expired, or the run was cancelled." in parse_page(refused).text


@pytest.mark.extended
def test_a_request_that_nobody_answers_expires(project: Project, client: Client, alice: User, tmp_path: Path) -> None:
    run, result = run_until_asked(project, tmp_path, WRITES, lambda _run: None, expiry_s=1.0)
    assert result.reason == "the plan was not confirmed: nobody decided in time"
    assert PlanExecution.objects.get(run=run).decision == "expired"
    assert "expired" in load(client, run).select_one(".notice").text


def test_secrets_are_masked_on_the_pages_of_a_plan(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    shown: list[str] = []

    def approve(run: Run) -> None:
        shown.append(client.get(f"/runs/{run.pk}/confirmation").content.decode())
        answer(client, run, "approve")

    run, _ = run_until_asked(project, tmp_path, plan(command("a", f"echo {secret}")), approve)
    for address in ("plan", "confirmation", "confirmation?call=1"):
        shown.append(client.get(f"/runs/{run.pk}/{address}").content.decode())
    assert [page for page in shown if secret in page] == []


def test_a_plan_that_is_confirmed_on_the_terminal_is_not_decided_on_a_page(
    project: Project, client: Client, alice: User, tmp_path: Path
) -> None:
    seen: list[bool] = []

    def look(request: ConfirmationRequest) -> Decision:
        run = Run.objects.get(external_id=request.run_id)
        page = load(client, run)
        seen.append("waits for an answer on the terminal of its command" in page.text and not page.has(".plan-form"))
        hashes = {"plan_hash": request.plan_hash, "policy_hash": request.policy_hash}
        refused = client.post(f"/runs/{run.pk}/confirmation", {"decision": "approve", **hashes})
        seen.append("is confirmed on the terminal of its command" in parse_page(refused).text)
        return Decision(is_approved=False, actor="tom", reason="not now", **hashes)

    run, result = run_until_asked(project, tmp_path, WRITES, lambda _run: None, approve=look)
    assert seen == [True, True]
    assert result.reason == "the plan was not confirmed: not now"
    assert (run.asks_until, PlanExecution.objects.get(run=run).actor) == (None, "tom")
