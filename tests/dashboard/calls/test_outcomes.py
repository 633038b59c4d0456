"""How a call ended, in one word: on the Call page, in lists, in copies and in filters."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.filters.language import parse
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from dashboard.models.outcomes import Outcome
from tests.cases import each
from tests.dashboard.page_text import parse_page
from tests.dashboard.recorded_calls import load_call, recorded
from tests.dashboard.sessions import answers, asks, user, write

REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."
STREAMS = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}
# Tool, arguments, receipt, result, error flag; then the words, their colour, and the value of the filter.
CALLS: dict[str, tuple[str, Any, str, Any, bool, str, str, str]] = {
    "ran": ("Bash", "ls", "a", {**STREAMS, "stdout": "a"}, False, "succeeded", "good", "succeeded"),
    "exit": ("Bash", "go vet", "Exit code 1\nno", "Error: Exit code 1\nno", True, "failed, exit 1", "bad", "failed"),
    "missing": ("Read", {"file_path": "/a"}, "File does not exist.", "Error: File does not exist.", True)
    + ("failed", "bad", "failed"),
    "person": ("Bash", "rm -r /", REFUSAL, "User rejected tool use", True, "refused", "warn", "refused"),
    "rule": ("Bash", "rm", "Permission to use Bash has been denied.")
    + ("Error: Permission to use Bash has been denied.", True, "refused", "warn", "refused"),
    "hook": ("Bash", "rm", "PreToolUse:Bash hook error: no", "Error: PreToolUse:Bash hook error: no", True)
    + ("refused", "warn", "refused"),
    "sibling": ("Read", {"file_path": "/a"}, "<tool_use_error>Sibling tool call errored</tool_use_error>")
    + ("Error: Sibling tool call errored", True, "cancelled", "warn", "cancelled"),
    "late": ("Bash", "sleep 99", "Exit code 143\nCommand timed out after 2m 0.0s\nhalf")
    + ("Error: Exit code 143\nCommand timed out after 2m 0.0s\nhalf", True, "timed out", "bad", "timed_out"),
    "grep": ("Bash", "cd src && git log | /usr/bin/grep x", "Exit code 1", "Error: Exit code 1", True)
    + ("succeeded, exit 1", "good", "succeeded"),
    "open": ("Bash", "sleep", "", None, False, "unanswered", "warn", "unanswered"),
}

# The status of the envelope, which is a detail where it is another word:
ENVELOPES = {
    "exit": "success: the tool ran and reported exit 1",
    "grep": "success: exit 1 is an answer of this command, no failure",
}


@pytest.fixture
def calls(project: Project, alice: User, tmp_path: Path) -> dict[str, Call]:
    lines: list[Any] = [user("go", uuid="u1")]
    for name, (tool, args, receipt, result, is_error, *_) in CALLS.items():
        lines.append(asks(f"toolu_{name}", tool, {"command": args} if isinstance(args, str) else args))
        if result is not None:
            lines.append(answers(f"toolu_{name}", receipt, result, is_error=is_error))
    import_paths(project, [write(tmp_path / "session.jsonl", lines)])
    return {call.external_id.removeprefix("toolu_"): call for call in Call.objects.all()}


@each("name", CALLS)
def test_one_word_names_the_outcome_on_every_page_and_in_every_copy(
    client: Client, calls: dict[str, Call], name: str
) -> None:
    call, (*_, words, tone, _) = calls[name], CALLS[name]
    page = load_call(client, call)
    badge = page.select_one("[data-outcome-words]")
    assert badge.text == ("no answer recorded" if words == "unanswered" else words)
    assert badge["data-tone"] == tone
    assert page.facts.get("Envelope") == ENVELOPES.get(name)
    copies = {
        form: client.get(f"/calls/{call.pk}/?as={form}").content.decode() for form in ("text", "markdown", "json")
    }
    assert json.loads(copies["json"])["outcome"] == words
    assert f" · {words} · " in copies["text"].splitlines()[0]
    assert f" · {words} · " in copies["markdown"].splitlines()[0]
    row = parse_page(client.get(f"/runs/{call.run_id}/")).by_id(f"c-{call.pk}")
    assert row.select_one(".row-status").text == words
    assert (row["data-outcome"] == "failed") is (tone == "bad")


def test_filters_presets_and_counts_keep_failures_apart_from_refusals(
    client: Client, project: Project, calls: dict[str, Call]
) -> None:
    def matching(text: str) -> set[str]:
        return {call.external_id.removeprefix("toolu_") for call in parse(text, over="calls").calls_in(project)}

    for outcome in Outcome.values:
        assert matching(f"outcome:{outcome}") == {name for name, row in CALLS.items() if row[-1] == outcome}
    assert matching("status:failed") == {"exit", "missing", "late"}
    assert matching("status:ok") == {"ran", "grep"}
    run = Run.objects.get()
    assert (run.failed_count, run.refused_count, run.unanswered_count) == (3, 3, 1)
    assert run.strip == "oeerrrktou"
    assert parse_page(client.get(f"/runs/{run.pk}/")).facts["Refused"] == "3"
    assert list(parse("outcome:refused").runs(project)) == [run]
    assert list(parse("outcome:skipped").runs(project)) == []
    sidebar = parse_page(client.get("/runs/"))
    assert sidebar.by_role("link", "Refused")["href"] == "?preset=refused"
    assert sidebar.has('a[href="?q=outcome%3Atimed_out"]')


DECISIONS: dict[str, tuple[dict[str, Any], str, str]] = {  # members of the line, outcome, error kind
    "person": ({"permissionDecision": {"decision": "reject", "source": "config"}}, "refused", "write_denied"),
    "hook": ({"permissionDecision": {"decision": "reject", "source": "hook"}}, "refused", "denied_by_hook"),
    "ran": ({"permissionDecision": {"decision": "reject", "source": "hook"}, "toolDenialAfterRun": True}, "failed", ""),
    "allowed": ({"permissionDecision": {"decision": "accept", "source": "config"}}, "failed", ""),
}


def test_a_recorded_decision_states_that_a_call_was_refused(project: Project, tmp_path: Path) -> None:
    lines: list[Any] = [user("go", uuid="u1")]
    words = "Exit code 5\nby the rules of this project"
    for name, (members, *_) in DECISIONS.items():
        lines += [asks(name), answers(name, words, f"Error: {words}", is_error=True) | members]
    import_paths(project, [write(tmp_path / "session.jsonl", lines)])
    ends = {call.external_id: (call.outcome, call.error_kind) for call in Call.objects.all()}
    assert ends == {name: (outcome, kind) for name, (_, outcome, kind) in DECISIONS.items()}


def test_a_call_that_a_hook_blocked_was_refused(project: Project, tmp_path: Path) -> None:
    """Release 2.1.100 names the call in an attachment before its result; earlier releases have the reason alone."""
    lines: list[Any] = [user("go", uuid="u1")]
    for name, event, is_error in (
        ("before", "PreToolUse", True),
        ("after", "PostToolUse", True),
        ("allowed", "PreToolUse", False),
    ):
        attachment: dict[str, Any] = {
            "type": "hook_blocking_error",
            "hookEvent": event,
            "hookName": f"{event}:Bash",
            "toolUseID": name,
        }
        attachment["blockingError"] = {"blockingError": "not in this project", "command": "python3 hook.py"}
        line = user("", uuid=f"h-{name}") | {"type": "attachment", "attachment": attachment}
        del line["message"]
        result = "Error: not in this project" if is_error else None
        lines += [asks(name), line, answers(name, "not in this project", result, is_error=is_error)]
    import_paths(project, [write(tmp_path / "session.jsonl", lines)])
    assert {call.external_id: (call.outcome, call.error_kind) for call in Call.objects.all()} == {
        "before": ("refused", "denied_by_hook"),
        "after": ("failed", "tool_execution_failed"),
        "allowed": ("succeeded", ""),
    }
    assert Call.objects.get(external_id="before").summary == "not in this project"


@pytest.mark.parametrize(
    ("members", "outcome"),
    [
        ({"version": "2.1.332"}, "cancelled"),
        ({"version": "2.1.332", "toolDenialBeforeRun": True}, "refused"),
        ({"version": "2.1.332", "permissionDecision": {"decision": "reject", "source": "user_reject"}}, "refused"),
        ({"version": "2.1.299"}, "refused"),
        ({"version": "2.1.332", "toolDenialKind": "permission-rule"}, "refused"),
    ],
)
def test_a_running_call_that_a_person_stopped_is_cancelled(
    project: Project, tmp_path: Path, members: dict[str, Any], outcome: str
) -> None:
    """The client tells the model that the call was rejected, whether it ran or not."""
    receipt = f"{REFUSAL} STOP what you are doing and wait for the user to tell you how to proceed."
    answer = answers("toolu_1", receipt, "User rejected tool use", is_error=True) | {"toolDenialKind": "user-rejected"}
    import_paths(
        project, [write(tmp_path / "session.jsonl", [user("go", uuid="u1"), asks("toolu_1"), answer | members])]
    )
    call = Call.objects.get()
    assert (call.outcome, call.is_waiting) == (outcome, outcome == "refused")
    assert call.summary == "User rejected tool use"


def test_a_look_at_a_command_in_the_background_ends_as_the_command(project: Project, tmp_path: Path) -> None:
    """Release 1.0.128 has BashOutput, 2.0.77 TaskOutput."""

    def looks(name: str, status: str, code: int | None) -> list[Any]:
        shell = {"shellId": "b1", "status": status, "exitCode": code, "stdout": "x", "stderr": ""}
        task = {"task_id": "b1", "task_type": "local_bash", "status": status, "output": "x\n", "exitCode": code}
        return [
            *(asks(f"bash_{name}", "BashOutput", {"bash_id": "b1"}), answers(f"bash_{name}", "x", shell)),
            asks(f"task_{name}", "TaskOutput", {"task_id": "b1"}),
            answers(f"task_{name}", "x", {"retrieval_status": "success", "task": task}),
        ]

    lines = [user("go", uuid="u1"), *looks("failed", "failed", 5), *looks("ok", "completed", 0)]
    lines += [*looks("runs", "running", None), *looks("killed", "killed", None)]
    import_paths(project, [write(tmp_path / "session.jsonl", lines)])
    calls = {call.external_id: (call.outcome, call.exit_status, call.summary) for call in Call.objects.all()}
    assert calls == {
        "bash_failed": ("failed", 5, "command exited with status 5"),
        "task_failed": ("failed", 5, "Task b1 has failed"),
        "bash_ok": ("succeeded", 0, "command exited with status 0"),
        "task_ok": ("succeeded", 0, "Task b1 is completed"),
        "bash_runs": ("succeeded", None, "command is still running"),
        "task_runs": ("succeeded", None, "Task b1 is running"),
        "bash_killed": ("succeeded", None, "command was killed"),
        "task_killed": ("succeeded", None, "Task b1 is killed"),
    }


def test_an_answer_of_a_server_that_the_client_saved_to_a_file_is_no_failure(project: Project, tmp_path: Path) -> None:
    notice = (
        "Error: result (768,889 characters across 30,000 lines) exceeds maximum allowed tokens. Output has been saved "
        "to /home/dev/.claude/tool-results/mcp-demo-huge.txt.\nFormat: Plain text\nUse offset and limit parameters."
    )
    tool = "mcp__demo__huge"
    answer = answers("toolu_saved", notice, notice)
    del answer["message"]["content"][0]["is_error"]
    lines: list[Any] = [user("go", uuid="u1"), asks("toolu_saved", tool, {}), answer]
    lines += [asks("toolu_failed", tool, {}), answers("toolu_failed", notice, notice, is_error=True)]
    import_paths(project, [write(tmp_path / "session.jsonl", lines)])
    assert {
        call.external_id: (call.outcome, call.result_fidelity, call.is_cut, call.output_lines, call.seen_lines)
        for call in Call.objects.all()
    } == {"toolu_saved": ("succeeded", "bounded", True, 30_000, 0), "toolu_failed": ("failed", "bounded", True, 0, 0)}
    assert not Call.objects.exclude(summary__startswith="result (768,889 characters across 30,000 lines) exceeds")


def test_a_call_without_an_answer_is_running_while_its_run_is_live(client: Client, calls: dict[str, Call]) -> None:
    Run.objects.update(ended_at=None, last_at=timezone.now() - timedelta(seconds=5))
    call = calls["open"]
    assert load_call(client, call).select_one("[data-outcome-words]").text == "running"
    row = parse_page(client.get(f"/runs/{call.run_id}/")).by_id(f"c-{call.pk}")
    assert row.select_one(".row-status").text == "running"


@each(
    ("command", "output", "outcome"),
    [
        ("grep -rn 'a b' src | grep -v x", "", "succeeded"),
        ("git grep missing", "", "succeeded"),
        ("grep x no-such-file", "grep: no-such-file: No such file or directory", "failed"),
        ("grep x f || exit 1", "", "failed"),
        ("grep x f; make", "", "failed"),
        ("diff a b", "1c1", "succeeded"),
        ("make && diff a b", "make: error", "failed"),
        ("test -f a", "", "succeeded"),
        ("grep 'unbalanced", "", "failed"),
        ("grep x f\nmake", "", "failed"),
    ],
)
def test_an_exit_status_is_an_answer_only_where_the_family_is_certain(
    client: Client, project: Project, alice: User, calls: dict[str, Call], command: str, output: str, outcome: str
) -> None:
    text = f"Exit code 1\n{output}".rstrip("\n")
    call = recorded(Run.objects.get(), "Bash", {"command": command}, f"Error: {text}", text, source_error=True)
    assert call.outcome == outcome


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"status": "skipped", "ok": False}, "skipped"),
        ({"status": "skipped", "ok": False, "error": {"code": "CONFLICT", "message": "done before"}}, "skipped"),
        ({"status": "timeout", "ok": False, "error": {"code": "TIMEOUT", "message": "30 s"}}, "timed_out"),
        ({"status": "cancelled", "ok": False, "error": {"code": "CANCELLED", "message": "stopped"}}, "cancelled"),
        ({"status": "error", "ok": False, "error": {"code": "POLICY_DENIED", "message": "no"}}, "refused"),
        ({"status": "error", "ok": False, "error": {"code": "CONFLICT", "message": "exists"}}, "failed"),
        ({"status": "ok", "ok": True, "data": {"path": "a"}}, "succeeded"),
    ],
)
def test_the_audit_layout_records_how_a_call_ended(
    project: Project, tmp_path: Path, result: dict[str, Any], outcome: str
) -> None:
    call = {"runId": "r7", "callId": "c1", "stepId": "s1", "tool": "vault.createFile", "args": {"path": "a"}}
    (tmp_path / "run.json").write_text(json.dumps({"runId": "r7", "plan": {"goal": "Tidy"}}))
    (tmp_path / "calls.jsonl").write_text(json.dumps(call) + "\n")
    (tmp_path / "results.jsonl").write_text(json.dumps({"runId": "r7", "callId": "c1", **result}) + "\n")
    import_paths(project, [tmp_path])
    assert Call.objects.get().outcome == outcome
