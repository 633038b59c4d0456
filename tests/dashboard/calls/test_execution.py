"""What a plan executor records of a call beside its halves: on the Call page, in filters, and out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.filters.language import parse
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, RunFacet
from dashboard.runs.export_run import export_run
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db

# The seed's own example of a call and its result (CALL section 8), with every optional member.
CALL: dict[str, Any] = {
    "callId": "c1",
    "runId": "r7",
    "stepId": "s5",
    "tool": "vault.createFile",
    "attempt": 1,
    "args": {"path": "XYZ/Foo.md", "content": "..."},
    "argsHash": "sha256:11",
    "timeoutMs": 30_000,
    "deadlineAt": "2025-12-16T18:12:31Z",
    "cancellable": True,
    "iteration": {"index": 3, "itemName": "item", "itemValue": {"path": "XYZ/Foo.md"}},
    "loopId": "loop-s5",
    "createdAt": "2025-12-16T18:12:00Z",
    "plannerVersion": "planner 3",
    "executorVersion": "1.0.0",
    "toolRegistryVersion": "registry 9",
    "preview": "Create note “Foo” in folder XYZ",
    "riskLevel": "writes",
    "category": "vault",
    "policy": {
        "confirmationsRequired": True,
        "sandbox": {"enabled": True, "allowedRoots": ["/"], "denyPatterns": ["..", "://"]},
        "limits": {"maxConcurrency": 4},
    },
    "confirmationId": "confirmation 8",
    "coercions": [{"pointer": "/content", "before": 1, "after": "1"}],
    "tenant": "member of no specification",
}
RESULT: dict[str, Any] = {
    **{name: CALL[name] for name in ("callId", "runId", "stepId", "tool", "attempt")},
    "status": "ok",
    "ok": True,
    "data": {"path": "XYZ/Foo.md", "etag": "abc123", "mtime": 1734372720000},
    "dataHash": "sha256:22",
    "startedAt": "2025-12-16T18:12:01Z",
    "endedAt": "2025-12-16T18:12:01Z",
    "durationMs": 240,
    "effects": {"sideEffectsObserved": ["create-file"], "created": [{"path": "XYZ/Foo.md", "kind": "file"}]},
    "userMessage": "Created XYZ/Foo.md",
    "debugMessage": "etag abc123",
    "phase": "executed",
}
SKIP = {
    **{name: RESULT[name] for name in ("runId", "stepId", "tool", "attempt", "startedAt", "endedAt")},
    "callId": "c2",
    "status": "skipped",
    "ok": False,
    "durationMs": 0,
    "userMessage": "Already done",
    "deniedReason": "duplicate",
    "phase": "pre_dispatch",
}


RUN: dict[str, Any] = {
    "runId": "r7",
    "plan": {"goal": "Tidy"},
    "policy": {
        "confirmationsRequired": True,
        "sandbox": {"enabled": True, "allowedRoots": ["/notes"]},
        "limits": {"maxConcurrency": 2},
    },
    "confirmation": {
        "confirmationId": "confirmation 8",
        "actor": "alice",
        "decision": "approved",
        "at": "2025-12-16T18:11:58Z",
        "planHash": "sha256:33",
        "policyHash": "sha256:44",
    },
    "plannerVersion": "planner 3",
    "toolRegistryVersion": "registry 9",
    "tenant": "member of no specification",
    "startedAt": "2025-12-16T18:11:59Z",
}


def write_run(folder: Path, calls: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    (folder / "run.json").write_text(json.dumps(RUN))
    for name, records in (("calls.jsonl", calls), ("results.jsonl", results)):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    write_run(tmp_path, [CALL, {**CALL, "callId": "c2", "riskLevel": "read-only"}], [RESULT, SKIP])
    import_paths(project, [tmp_path])
    return tmp_path


def facts_of(client: Client, call: str) -> dict[str, str]:
    page = parse_page(client.get(Call.objects.get(external_id=call).get_absolute_url()))
    return page.select_one("[data-execution]").facts


def test_the_call_page_has_every_member_of_the_executors_call_and_result(operator_client: Client, folder: Path) -> None:
    facts = facts_of(operator_client, "c1")
    expected = {
        "Risk": "writes",
        "Category": "vault",
        "Preview": "Create note “Foo” in folder XYZ",
        "Loop": "loop-s5",
        "Confirmation": "confirmation 8",
        "Confirmation required": "yes",
        "Limits": '{"maxConcurrency":4}',
        "Cancellable": "yes",
        "Timeout, ms": "30000",
        "Deadline": "2025-12-16T18:12:31Z",
        "Hash of the arguments": "sha256:11",
        "Planner": "planner 3",
        "Executor": "1.0.0",
        "Tool registry": "registry 9",
        "Phase": "executed",
        "Message to the user": "Created XYZ/Foo.md",
        "Message for debugging": "etag abc123",
        "Hash of the result": "sha256:22",
        "tenant": "member of no specification",
    }
    assert {label: facts.get(label) for label in expected} == expected
    assert "allowedRoots" in facts["Sandbox"]
    assert "create-file" in facts["Effects"]
    assert "/content" in facts["Changed arguments"]
    assert "XYZ/Foo.md" in facts["Loop item"]


def test_the_run_page_has_the_policy_and_the_confirmation_of_the_run(
    operator_client: Client, folder: Path, project: Project
) -> None:
    page = parse_page(operator_client.get(project.runs.get().get_absolute_url()))
    assert page.select_one("[data-execution]").facts == {
        "Confirmation required": "yes",
        "Sandbox": '{"enabled":true,"allowedRoots":["/notes"]}',
        "Limits": '{"maxConcurrency":2}',
        "Confirmation": "confirmation 8",
        "Decision": "approved",
        "Decided by": "alice",
        "Decided at": "2025-12-16T18:11:58Z",
        "Hash of the plan": "sha256:33",
        "Hash of the policy": "sha256:44",
        "Planner": "planner 3",
        "Tool registry": "registry 9",
        "tenant": "member of no specification",
    }


def test_a_skip_is_a_skip_with_its_reason(operator_client: Client, folder: Path) -> None:
    call = Call.objects.get(external_id="c2")
    assert (call.outcome, call.reason, call.has_failed) == ("skipped", "duplicate", False)
    page = parse_page(operator_client.get(call.get_absolute_url()))
    assert page.select_one("[data-outcome-words]").text == "skipped"
    assert (call.summary, call.error_kind) == ("Already done", "duplicate_tool_call")
    assert "Already done" in page.select_one(".notice.failure").text
    rows = parse_page(operator_client.get(call.run.get_absolute_url())).texts(".call-row .row-summary")
    assert [row for row in rows if "failed" in row] == []
    assert facts_of(operator_client, "c2")["Denied because of"] == "duplicate"


ENDS: dict[str, dict[str, Any]] = {
    "succeeded": {},
    "failed": {"status": "error", "error": {"code": "CONFLICT", "message": "It exists"}},
    "timed out": {"status": "timeout", "error": {"code": "TIMEOUT", "message": "30 s"}},
    "cancelled": {"status": "cancelled", "error": {"code": "CANCELLED", "message": "Stopped"}},
    "skipped": {"status": "skipped", "userMessage": "Already done"},
    "refused": {"status": "error", "error": {"code": "POLICY_DENIED", "message": "Outside the roots"}},
}


def test_the_ends_of_an_executors_calls_are_told_apart_in_lists_filters_and_counts(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    calls = [{**CALL, "callId": end, "stepId": end} for end in ENDS]
    done = {name: value for name, value in RESULT.items() if name not in ("data", "dataHash", "effects")}
    results = [
        {**(done if change else RESULT), **change, "callId": end, "stepId": end, "ok": not change}
        for end, change in ENDS.items()
    ]
    write_run(tmp_path, calls, results)
    import_paths(project, [tmp_path])
    run = project.runs.get()
    assert {call.external_id: call.outcome_words for call in run.own_calls.all()} == {end: end for end in ENDS}
    for end in ENDS:
        matching = parse(f"outcome:{end.replace(' ', '_')}", over="calls").calls(run)
        assert [call.external_id for call in matching] == [end]
    assert [call.external_id for call in parse("status:failed", over="calls").calls(run)] == ["failed", "timed out"]
    assert (run.failed_count, run.refused_count, run.unanswered_count, run.strip) == (2, 1, 0, "oetksr")
    rows = parse_page(operator_client.get(run.get_absolute_url())).select(".waterfall .call-row")
    assert [row.select_one(".row-status").text for row in rows] == [*ENDS]


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("risk:writes", ["c1"]),
        ("risk:read-only", ["c2"]),
        ("-risk:writes", ["c2"]),
        ("status:skipped", ["c2"]),
        ("reason:duplicate", ["c2"]),
        ("reason:blocked", []),
    ],
)
def test_calls_and_runs_are_filtered_by_risk_reason_and_skip(
    folder: Path, project: Project, query: str, calls: list[str]
) -> None:
    run = project.runs.get()
    parsed = parse(query, over="calls")
    assert parsed.problems == ()
    assert [call.external_id for call in parsed.calls(run)] == calls
    if not query.startswith("-"):
        assert list(parse(query).runs(project)) == ([run] if calls else [])
    facets = RunFacet.objects.filter(run=run, kind__in=("risk", "reason")).values_list("kind", "value", "count")
    assert sorted(facets) == [("reason", "duplicate", 1), ("risk", "read-only", 1), ("risk", "writes", 1)]


def test_a_risk_that_no_executor_records_is_refused_with_the_known_ones() -> None:
    [problem] = parse("risk:high", over="calls").problems
    assert "read-only, writes, commands" in problem


def test_rounds_of_a_foreach_are_no_attempts(operator_client: Client, project: Project, tmp_path: Path) -> None:
    rounds = [
        {**CALL, "callId": f"round {index}", "iteration": {**CALL["iteration"], "index": index}} for index in (0, 1)
    ]
    again = {**rounds[1], "callId": "round 1 again", "attempt": 2}
    calls = [*rounds, again]
    results = [{**RESULT, "callId": call["callId"], "attempt": call["attempt"]} for call in calls]
    write_run(tmp_path, calls, results)
    import_paths(project, [tmp_path])
    assert list(Call.objects.order_by("line").values_list("iteration", flat=True)) == [0, 1, 1]
    for name, attempts in (("round 0", "1"), ("round 1", "1 succeeded 2 succeeded")):
        page = parse_page(operator_client.get(Call.objects.get(external_id=name).get_absolute_url()))
        listed = page.select(".step-details dl.facts")[0].facts["Attempt"]
        assert listed == attempts


def test_an_export_has_every_member_again(folder: Path, project: Project, tmp_path: Path) -> None:
    export_run(project.runs.get(), tmp_path / "exported")
    assert (tmp_path / "exported" / "run.json").read_bytes().rstrip() == (folder / "run.json").read_bytes()
    assert (tmp_path / "exported" / "calls.jsonl").read_bytes() == (folder / "calls.jsonl").read_bytes()
    results = [json.loads(line) for line in (tmp_path / "exported" / "results.jsonl").read_text().splitlines()]
    assert [{name: result[name] for name in result if name != "canonical"} for result in results] == [RESULT, SKIP]


def test_a_call_of_another_agent_has_no_details_of_an_execution(operator_client: Client, project: Project) -> None:
    import_paths(project, [Path(__file__).resolve().parents[3] / "dashboard" / "samples" / "spotter" / "short.jsonl"])
    call = Call.objects.filter(project=project).first()
    assert call is not None
    for address in (call.get_absolute_url(), call.run.get_absolute_url()):
        assert parse_page(operator_client.get(address)).select("[data-execution]") == []
