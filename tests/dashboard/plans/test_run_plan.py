"""`run_plan` and `rerun` over real tools: what is printed, what is imported, and how a run is cancelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.artifacts.stores import open_stored
from dashboard.models import Artifact, AuditEntry, Call, Project, Run
from dashboard.plans.confirmation_page import load_recorded_confirmation
from dashboard.plans.plan_folders import plan_folder
from envelopes.plan.recorders import load_run
from envelopes.schema.settlement import Created
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.plans.orders import call, command, plan, run_command

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
OUTPUT = plan(
    command("write", "seq 30000 > numbers.txt; echo written"),
    command("read", "cat numbers.txt", dependsOn=["write"]),
    {"id": "look", "tool": "ReadArtifact", "args": {"path": "$steps.read.stdout.path", "line": 29_990, "limit": 2}},
)


def test_a_plan_runs_in_its_workspace_and_its_large_output_is_an_artifact(project: Project, tmp_path: Path) -> None:
    printed, error, status = run_command(project, tmp_path, OUTPUT, "--confirm", "yes")
    assert (error, status) == ("", 0)
    assert printed["status"] == "ok"
    assert printed["steps"] == {"write": "ok", "read": "ok", "look": "ok"}
    assert (tmp_path / "workspace" / "numbers.txt").read_text().startswith("1\n2\n")
    run = project.runs.get(external_id=printed["run_id"])
    assert (run.call_count, run.failed_count, run.status) == (3, 0, "ended")
    artifact = Artifact.objects.get(call__run=run, call__step="read")
    with open_stored(artifact.sha256) as content:
        assert content.read() == b"".join(b"%d\n" % number for number in range(1, 30_001))
    assert artifact.call.first_line == "1", "no receipt is kept, and the output is"
    look = Call.objects.get(run=run, step="look")
    assert look.outcome == "succeeded"
    assert not list(Run.objects.filter(ended_at=None))


def test_the_memory_of_a_workspace_has_its_work_items_and_the_tasks_of_every_run(
    project: Project, tmp_path: Path, data: Path
) -> None:
    def search(step: str, query: str, *dependencies: str) -> dict[str, Any]:
        return {"id": step, "tool": "MemorySearch", "args": {"query": query}, "dependsOn": [*dependencies]}

    item = {"id": "item", "tool": "CreateWorkItem", "args": {"objective": "Close the ledger of May"}}
    task = command("task", "sleep 0.3; echo bal''ance")
    task["args"]["yield_time_ms"] = 0
    wait = {"id": "wait", "tool": "TaskOutput", "args": {"task_id": "$steps.task.task.task_id", "timeout_ms": 60_000}}
    begin = plan(item, task, wait, search("find", "ledger", "item"))
    later = plan(search("task", "balance"), search("item", "May"), risk="read-only")
    first, second = (run_command(project, tmp_path, document, "--confirm", "yes")[0] for document in (begin, later))
    found = {
        (result.step_id, hit["source_ref"])
        for printed in (first, second)
        for result in load_run(data / "plans" / printed["run_id"]).results
        for hit in (result.data or {}).get("results", ())
    }
    task_1 = f"task:{first['run_id']}.task_1"
    assert found == {("find", "work_item:wi_1"), ("task", task_1), ("item", "work_item:wi_1")}


def test_every_fault_of_a_plan_is_printed_at_once_and_nothing_runs(
    project: Project, tmp_path: Path, data: Path
) -> None:
    faulty = plan(
        command("first", "touch here"),
        {"id": "second", "tool": "ExecComand", "args": {}},
        command("third", "echo {$steps.nowhere.text}"),
        risk="read-only",
    )
    printed, error, status = run_command(project, tmp_path, faulty, "--confirm", "yes")
    assert (printed, status) == ({}, 2)
    assert "first: ExecCommand runs commands, but the plan declares read-only" in error
    assert "second: there is no tool ExecComand; nearest: ExecCommand" in error
    assert "third/args/cmd: $steps.nowhere.text: there is no such step" in error
    assert not (tmp_path / "workspace" / "here").exists()
    assert not project.runs.exists()
    assert not list(data.glob("plans/*/run.json"))
    _, error, status = run_command(project, tmp_path, {"version": "1.0"})
    missing = [f"plan: the member {name} is missing" for name in ("goal", "riskLevel", "steps")]
    assert (status, error.splitlines()) == (
        2,
        ["The plan was refused, and nothing ran:", *(f"  {line}" for line in missing)],
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b" \n", "the file is empty"),
        (b'{"version": "1.0",\n "goal" 1}', "line 2, column 9: Expecting ':' delimiter"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark; save it as UTF-8 without one"),
        (b"\xff", "not UTF-8 at byte 0: ff"),
        (b"[" * 3_000, "nested deeper than"),
    ],
)
def test_a_file_that_is_no_json_is_refused_with_the_place_of_its_fault(
    project: Project, tmp_path: Path, raw: bytes, reason: str
) -> None:
    (tmp_path / "broken.json").write_bytes(raw)
    for options in ((), ("--policy", str(tmp_path / "broken.json")), ("--child", f"review={tmp_path / 'broken.json'}")):
        (tmp_path / "plan.json").write_text(json.dumps(OUTPUT))
        path = tmp_path / ("plan.json" if options else "broken.json")
        _, error, status = call(tmp_path, "run_plan", str(path), "--project", project.slug, *options)
        assert (status, f"broken.json is no JSON: {reason}" in error) == (2, True)


@pytest.mark.usefixtures("operator_client")
def test_a_failed_step_and_an_unapproved_plan_have_their_exit_status(
    project: Project, tmp_path: Path, client: Client
) -> None:
    failing = plan(command("outside", "true", args={"cmd": "true", "workdir": "nowhere", "login": False}))
    printed, error, status = run_command(project, tmp_path, failing, "--confirm", "yes")
    assert (printed["status"], printed["steps"], status) == ("failed", {"outside": "error"}, 1)
    assert error == "These steps did not end ok:\n  outside: nowhere is no folder of the workspace"
    printed, error, status = run_command(project, tmp_path, OUTPUT, "--confirm", "dashboard", "--expires", "0")
    assert (printed["status"], status) == ("cancelled", 3)
    assert error == "the plan was not confirmed: nobody decided in time"
    run = project.runs.get(external_id=printed["run_id"])
    assert run.call_count == 0
    recorded = load_recorded_confirmation(run)
    assert recorded is not None
    assert (recorded.decision, recorded.actor) == ("expired", "")
    assert f"This plan runs commands in {tmp_path / 'workspace'}." in recorded.preview
    assert run.cwd == str(tmp_path / "workspace")
    page = parse_page(client.get(f"/runs/{run.pk}/confirmation"))
    assert page.select_one(".page-head code").text == run.cwd


def test_the_reason_of_a_timeout_is_not_that_its_answer_came_late(project: Project, tmp_path: Path) -> None:
    slow = plan(command("slow", "sleep 60", timeoutMs=200))
    _, error, status = run_command(project, tmp_path, slow, "--confirm", "yes")
    assert (error, status) == ("These steps did not end ok:\n  slow: no answer within 200 ms", 1)


def test_an_exit_status_other_than_0_is_a_result_on_the_terminal_and_on_every_page(
    project: Project, client: Client, alice: object, tmp_path: Path
) -> None:
    patch = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n"
    foreach = {"from": "$steps.patch.changed_files", "itemName": "file"}
    document = plan(
        {"id": "patch", "tool": "ApplyPatch", "args": {"patch": patch}},
        command("each", "test {file.path} = a", foreach=foreach),
        command("one", "exit 3"),
    )
    (tmp_path / "workspace").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps(document))
    arguments = [str(tmp_path / "plan.json"), "--workspace", str(tmp_path / "workspace"), "--project", project.slug]
    printed = StringIO()
    call_command("run_plan", *arguments, "--confirm", "yes", stdout=printed)
    assert "ok. patch ok, each ok (exit 1 in 1 of 2 rounds), one ok (exit 3)" in printed.getvalue()
    run = project.runs.get()
    page = parse_page(client.get(f"/runs/{run.pk}/plan"))
    assert "2 rounds, 1 ok, 1 with an exit status other than 0, 0 failed" in page.select_one("#step-each").text
    assert "gave a result: the step is ok" in page.select_one("#step-one").text
    assert "3 steps: 3 ok (2 with a command that failed)" in page.select_one(".plan-counts").text
    assert not client.get("/runs/?q=state:halves").context["page"].rows  # its error flag is not wrong


@pytest.mark.parametrize(
    ("answer", "end", "decision"),
    [("y\n", "ok", "approved"), ("not today\n", "cancelled", "rejected"), ("", "cancelled", "rejected")],
)
def test_the_terminal_is_asked(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, end: str, decision: str
) -> None:
    reading, writing = os.pipe()
    os.write(writing, answer.encode())
    os.close(writing)
    with os.fdopen(reading) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        printed, error, _ = run_command(project, tmp_path, plan(command("a", "echo a")))
    assert printed["status"] == end
    execution = project.runs.get().execution
    assert execution.decision == decision
    assert execution.reason == ("" if end == "ok" else answer.strip() or "no answer")
    assert (answer.strip() in error) == (end == "cancelled")
    (entry,) = AuditEntry.objects.filter(project=project, action="confirmation")
    assert (entry.client, entry.subject.startswith(f"{decision} the plan of run ")) == ("command line", True)


def test_a_rerun_names_its_original_and_stands_beside_it(
    project: Project, client: Client, alice: object, tmp_path: Path
) -> None:
    first, _, _ = run_command(project, tmp_path, plan(command("a", "echo a")), "--confirm", "yes")
    printed, _, status = call(tmp_path, "rerun", first["run_id"], "--confirm", "yes")
    assert (printed["status"], status) == ("ok", 0)
    original, again = project.runs.order_by("sort_at")
    page = parse_page(client.get(again.get_absolute_url()))
    link = page.by_role("link", f"{original.external_id}, compared")
    against = f"/runs/{original.pk}/against/{again.pk}/"
    assert client.get(link["href"])["Location"] == against
    assert client.get(against).status_code == 200
    _, error, status = call(tmp_path, "rerun", create_run(project).external_id)
    assert (status, "has no plan" in error) == (2, True)


def test_a_rerun_has_the_policy_of_its_original_unless_that_was_imported(project: Project, tmp_path: Path) -> None:
    document = plan({"id": "look", "tool": "AgentGet", "args": {}}, risk="read-only")
    policy = write_policy(tmp_path, {"toolRules": {"deny": ["AgentGet"]}})
    first, _, _ = run_command(project, tmp_path, document, "--policy", policy)
    assert first["steps"] == {"look": "error"}
    again, error, _ = call(tmp_path, "rerun", first["run_id"])
    assert (again["steps"], "the policy of this run denies AgentGet" in error) == ({"look": "error"}, True)
    headers = [json.loads(bytes(run.document)) for run in project.runs.all()]
    assert len({header["policyHash"] for header in headers}) == 1
    other, _, _ = call(tmp_path, "rerun", first["run_id"], "--policy", write_policy(tmp_path, {}))
    assert other["steps"] == {"look": "ok"}
    project.runs.update(lease_until=None)  # as of an imported run
    other, _, _ = call(tmp_path, "rerun", first["run_id"])
    assert other["steps"] == {"look": "ok"}


def write_policy(folder: Path, policy: object) -> str:
    (folder / "policy.json").write_text(json.dumps(policy))
    return str(folder / "policy.json")


def test_a_policy_file_refuses_tools_patched_files_and_hosts(
    project: Project, client: Client, alice: object, tmp_path: Path
) -> None:
    (tmp_path / "workspace" / "secrets").mkdir(parents=True)
    patch = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+x\n"
    document = plan(
        {"id": "notes", "tool": "ApplyPatch", "args": {"patch": patch.format("a.md")}},
        {"id": "keys", "tool": "ApplyPatch", "args": {"patch": patch.format("secrets/b.md")}},
        command("inside", "true", args={"cmd": "true", "workdir": "secrets", "login": False}),
        {"id": "batch", "tool": "ExecCommandBatch", "args": {"items": [{"cmd": "true"}]}},
        {"id": "local", "tool": "WebFetch", "args": {"url": "http://127.0.0.1:9/"}},
        {"id": "denied", "tool": "WebFetch", "args": {"url": "http://api.example.org/"}},
        defaults={"onError": "skip"},
    )
    policy = {
        "toolRules": {"deny": ["ExecCommandBatch"]},
        "sandbox": {"denyPatterns": ["secrets"]},
        "networkRules": {"privateHosts": ["127.0.0.1"], "deniedHosts": ["example.org"]},
    }
    options = ("--confirm", "yes", "--policy", write_policy(tmp_path, policy))
    printed, _, status = run_command(project, tmp_path, document, *options)
    assert (status, [name for name, end in printed["steps"].items() if end == "ok"]) == (1, ["notes"])
    assert not list((tmp_path / "workspace" / "secrets").iterdir())
    run = project.runs.get()
    errors = {call.step: call.error_kind for call in Call.objects.filter(run=run)}
    assert errors == {
        "notes": "",
        "keys": "policy_denied",
        "inside": "policy_denied",
        "batch": "policy_denied",
        "local": "network_failed",  # allowed, and nobody listens there
        "denied": "network_denied",
    }
    page = parse_page(client.get(f"/runs/{run.pk}/confirmation"))
    targets = [row.texts("th, td") for row in page.select("section[aria-labelledby=known] tbody tr")]
    assert ["local", "address", "http://127.0.0.1:9/"] in targets
    refused = [mark.text for mark in page.select("td .tone[data-tone=bad]")]
    pattern = "will be refused: matches the denied pattern 'secrets'"
    assert refused == [pattern, pattern, "will be refused: the policy of this run denies ExecCommandBatch"]
    assert '"deniedHosts": [' in page.text
    assert "What a command does by itself is not checked." in page.text
    assert not page.has(".notice[data-tone=bad]")
    document = json.loads(bytes(run.document))
    document["policy"]["sandbox"]["denyPatterns"] = []
    Run.objects.filter(pk=run.pk).update(document=json.dumps(document).encode())
    page = parse_page(client.get(f"/runs/{run.pk}/confirmation"))
    assert "The recorded policy has another hash" in page.select_one(".notice[data-tone=bad]").text


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"sandbox": {"denyPaths": ["a"]}}, "sandbox: there is no member denyPaths; nearest: denyPatterns"),
        ({"toolRules": {"deny": ["ExecComand"]}}, "there is no ExecComand; nearest: ExecCommand"),
        ({"limits": {"maxAttempts": -1}}, "is negative"),
        ([], "the policy must be an object"),
    ],
)
def test_a_policy_that_is_misspelled_runs_nothing(
    project: Project, tmp_path: Path, policy: object, problem: str
) -> None:
    options = ("--confirm", "yes", "--policy", write_policy(tmp_path, policy))
    printed, error, status = run_command(project, tmp_path, OUTPUT, *options)
    assert (printed, status, problem in error) == ({}, 2, True)
    assert not project.runs.exists()


def test_a_plan_with_a_tool_that_is_not_set_up_is_refused_before_it_starts(project: Project, tmp_path: Path) -> None:
    document = plan({"id": "look", "tool": "WebSearch", "args": {"query": "receipt"}, "retry": {"maxAttempts": 2}})
    printed, error, status = run_command(project, tmp_path, document, "--confirm", "yes")
    assert (printed, status) == ({}, 2)
    assert "look: WebSearch cannot run here: no search provider is set up" in error
    assert "--search MODULE.CLASS sets up WebSearch" in error
    provider = ("--search", "dashboard.management.commands.demo.DocumentationSearch")
    printed, error, status = run_command(project, tmp_path, document, "--confirm", "yes", *provider)
    assert (printed["steps"], status) == ({"look": "ok"}, 0)
    _, error, status = run_command(project, tmp_path, document, "--search", "dashboard.nothing")
    assert (status, error.startswith("--search dashboard.nothing: ")) == (2, True)


@pytest.mark.extended
def test_changes_in_a_worktree_are_effects_of_the_call_that_made_them(project: Project, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.md").write_text("a\n")
    person = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "."), (*person, "commit", "-qm", "a")):
        subprocess.run(("git", *arguments), cwd=workspace, check=True)
    document = plan(
        {"id": "apart", "tool": "UseWorkspace", "args": {"path": ".", "mode": "isolated", "isolation_label": "try"}},
        command("change", "echo b > b.md"),
    )
    printed, error, status = run_command(project, tmp_path, document, "--confirm", "yes")
    assert (status, error) == (0, "")
    results = load_run(plan_folder(printed["run_id"])).results
    created = {result.step_id: result.effects and result.effects.created for result in results}
    assert created["apart"] == (Created(path="isolated/try:", kind="folder"),)
    assert created["change"] == (Created(path="isolated/try:b.md", kind="file"),)
    assert [path.name for path in workspace.glob("*.md")] == ["a.md"]
