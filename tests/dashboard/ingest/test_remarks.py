"""Whatever an import changes, leaves out or assumes is a remark: listed, counted and found by its kind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.evidence.remarks import MAX_REMARKS
from dashboard.filters.language import parse
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Project, Remark, Run, load_slices
from tests.dashboard.api.sending import Sender
from tests.dashboard.api.test_traces import request, span
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice")]

FORK = "0f5f6d8e-0000-4000-8000-000000000002"


def imported(project: Project, folder: Path, lines: Iterable[Any], name: str = SESSION) -> Run:
    import_paths(project, [write(folder / f"{name}.jsonl", list(lines))])
    return Run.objects.get(external_id=name)


def raw(line: dict[str, Any], value: str) -> bytes:
    """The line with `value` as it is instead of the text @."""
    return json.dumps(line).encode().replace(b'"@"', value.encode())


BASH = {"stdout": "a", "stderr": ""}
AUDIT: dict[str, tuple[str, dict[str, Any], list[tuple[str, str, str]]]] = {
    "results": (
        "results.jsonl",
        {"status": "melted", "startedAt": "soon", "durationMs": -1, "ok": "perhaps"},
        [
            ("duration", "$.durationMs", "-1"),
            ("status", "status", "melted"),
            ("timestamp", "$.startedAt", '"soon"'),
            ("value", "$.ok", '"perhaps"'),
        ],
    ),
    "files of a result": (
        "results.jsonl",
        {"files": [{"role": "log", "path": "/a", "size": "much", "sha256": 5}, {"role": "log"}, "c"]},
        [
            ("value", "$.files[0].sha256", "5"),
            ("value", "$.files[0].size", '"much"'),
            ("value", "$.files[1]", '{"role": "log"}'),
            ("value", "$.files[2]", '"c"'),
        ],
    ),
    "two files of one path": (
        "results.jsonl",
        {"files": [{"role": "log", "path": "/a"}, {"role": "copy", "path": "/a"}]},
        [("value", "$.files[1]", '{"role": "copy", "path": "/a"}')],
    ),
    "files that are no list": ("results.jsonl", {"files": {}}, [("value", "$.files", "{}")]),
    "the end of a receipt": (
        "receipts.jsonl",
        {"superseded": {"position": -1, "at": "soon", "reason": 7}},
        [
            ("timestamp", "$.superseded.at", '"soon"'),
            ("value", "$.superseded.position", "-1"),
            ("value", "$.superseded.reason", "7"),
        ],
    ),
    "an end of a receipt that is no object": (
        "receipts.jsonl",
        {"superseded": "yes"},
        [("value", "$.superseded", '"yes"')],
    ),
    "the message of an event": (
        "events.jsonl",
        {"message": "m" * 501, "level": "loud"},
        [("length", "message", "m" * 200), ("value", "$.level", '"loud"')],
    ),
    "calls": (
        "calls.jsonl",
        {"attempt": "two", "stepId": 5},
        [("value", "$.attempt", '"two"'), ("value", "$.stepId", "5")],
    ),
    "numbers and words of a call that no column holds": (
        "calls.jsonl",
        {"attempt": 2**31, "iteration": {"index": 2**31}, "riskLevel": "unforeseeable"},
        [
            ("number", "iteration.index", "2147483648"),
            ("status", "riskLevel", "unforeseeable"),
            ("value", "$.attempt", "2147483648"),
        ],
    ),
}


@pytest.mark.parametrize("name", AUDIT)
def test_fields_of_an_executor_that_have_no_possible_value_are_remarks(
    name: str, project: Project, tmp_path: Path
) -> None:
    file, fields, remarks = AUDIT[name]
    call = {"runId": "r", "callId": "c", "tool": "Bash", "args": {}}
    objects = {
        "calls.jsonl": call,
        "results.jsonl": {"runId": "r", "callId": "c", "status": "ok", "data": {}},
        "receipts.jsonl": {"run": "r", "call": "c", "text": "done"},
        "events.jsonl": {"runId": "r", "callId": "c", "type": "note"},
    }
    for other, document in objects.items():
        write(tmp_path / "r" / other, [document | (fields if other == file else {})])
    write(tmp_path / "r" / "run.json", [{"runId": "r", "plan": {}}])
    import_paths(project, [tmp_path])
    assert sorted(Remark.objects.values_list("kind", "path", "was")) == remarks
    assert set(Remark.objects.values_list("call", flat=True)) == {Call.objects.get().pk}


def test_a_second_result_is_named_and_kept(project: Project, tmp_path: Path) -> None:
    """One that differs in spacing and the order of members alone is the same result."""
    results = BASH, {"stdout": "b", "stderr": ""}, {"stderr": "", "stdout": "a"}
    imported(project, tmp_path, [asks("toolu_01"), *(answers("toolu_01", "a", result) for result in results)])
    assert Call.objects.get().observations.filter(surface="result").count() == 3
    remark = Remark.objects.get()
    assert (remark.kind, remark.line, remark.was) == ("result", 3, '{"stdout": "b", "stderr": ""}')
    assert remark.became == "kept beside the other result, which the page shows"


@pytest.mark.parametrize(("args", "kinds"), [('{"q": 1}', []), ('{"q": 2}', ["arguments"]), ("1", ["arguments"])])
def test_arguments_of_a_tool_span_are_second_ones_where_their_value_differs(
    project: Project, args: str, kinds: list[str]
) -> None:
    """The model's span has them as a value in its messages, the tool's as a text of JSON with spaces."""
    called = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}
    messages = json.dumps([{"role": "assistant", "parts": [called]}])
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
    tool["gen_ai.tool.call.arguments"] = args
    sent = request(span(1, "chat", model, seconds=1), span(2, "execute_tool", tool, seconds=2))
    Sender(project).post("/v1/traces", json.dumps(sent).encode(), "application/json")
    derive_waiting(project)
    assert Call.objects.get().observations.filter(surface="args").count() == 2
    assert list(Remark.objects.values_list("kind", flat=True)) == kinds


@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_second_tool_of_a_call_is_named_in_either_order(first: str, project: Project, tmp_path: Path) -> None:
    """A parent's progress line reports a call of the agent's file under the name of another tool."""
    data = {"type": "agent_progress", "agentId": "a1", "message": asks("toolu_01", "Read"), "prompt": "look"}
    report = {"type": "progress", "sessionId": SESSION, "parentToolUseID": "toolu_00", "data": data}
    parent = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_00"), report])
    line = asks("toolu_01") | {"isSidechain": True, "agentId": "a1"}
    child = write(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", [line])
    for path in (child, parent) if first == "child" else (parent, child):
        import_paths(project, [path])
    run, call = Run.objects.get(external_id=f"{SESSION}/a1"), Call.objects.get(external_id="toolu_01")
    expected = {
        "child": (2, "Read", "left out: another record of the call has Bash"),
        "parent": (1, "Bash", "read in place of Read, which another record has"),
    }
    [remark] = Remark.objects.all()
    assert (call.tool, remark.run, remark.call, remark.kind) == ("Bash", run, call.pk, "tool")
    assert (remark.line, remark.was, remark.became) == expected[first]
    assert set(parse("remark:tool", over="calls").calls(run)) == {call}


def test_a_parent_that_cannot_be_one_is_named(project: Project, tmp_path: Path) -> None:
    parents = {"a": "a", "b": "c", "c": "b"}
    for run, parent in parents.items():
        write(tmp_path / run / "run.json", [{"runId": run, "parentRunId": parent, "plan": {}}])
    import_paths(project, [tmp_path])
    remarks = Remark.objects.order_by("run__external_id").values_list("run__external_id", "path", "was", "became")
    assert list(remarks) == [
        ("a", "parent_run", "a", "left out: a run is not its own parent"),
        ("c", "parent_run", "b", "left out: that run descends from this one"),
    ]


def test_two_messages_with_one_number_are_both_kept(project: Project, tmp_path: Path) -> None:
    lines = [{"run": "r", "seq": 1, "role": "user", "text": text} for text in ("first", "second", "first")]
    import_paths(project, [write(tmp_path / "r" / "messages.jsonl", lines)])
    messages = list(Run.objects.get().messages.order_by("line"))
    load_slices(messages)
    assert [bytes(message.data) for message in messages] == [b'"first"', b'"second"']


def test_remarks_are_found_and_shown(client: Client, project: Project, tmp_path: Path) -> None:
    lines = [asks("toolu_01", "B\u0430sh", at="soon"), asks("toolu_02"), answers("toolu_02")]
    run = imported(project, tmp_path, lines)
    call = Call.objects.get(external_id="toolu_01")
    assert set(parse("remark:name", over="calls").calls(run)) == {call}
    assert set(parse("remark:timestamp", over="calls").calls(run)) == {call}
    assert list(parse("remark:timestamp").runs(project)) == [run]
    assert list(parse("remark:clock").runs(project)) == []
    page = parse_page(client.get(f"/runs/{run.pk}/"))
    rows = page.rows("#remarks tbody tr")
    assert rows == [
        ["line 1", "name", "tool", "B\u0430sh", "kept as it is: Latin letters beside Cyrillic ones that look alike"],
        ["line 1", "timestamp", "$.timestamp", "soon", "left out: no time"],
    ]
    listed = parse_page(client.get(f"/calls/{call.pk}/")).rows("#remarks tbody tr")
    assert listed == rows
    assert not parse_page(client.get(f"/calls/{Call.objects.get(external_id='toolu_02').pk}/")).has("#remarks")


@pytest.mark.postgresql
def test_a_page_lists_the_first_remarks_and_counts_the_others(client: Client, project: Project, tmp_path: Path) -> None:
    run = imported(project, tmp_path, [asks(f"toolu_{number}", at="soon") for number in range(MAX_REMARKS + 2)])
    remarks = parse_page(client.get(f"/runs/{run.pk}/")).select_one("#remarks")
    assert len(remarks.rows("tbody tr")) == MAX_REMARKS
    assert remarks.by_text("2 more are not")
    assert remarks.select_one("summary").text.startswith("52 values")


def test_the_value_of_a_remark_is_masked_like_the_argument_that_it_is_of(
    client: Client, project: Project, tmp_path: Path
) -> None:
    twice = raw(asks("toolu_01", "Bash", {"password": "@"}), '"hunter2-of-old","password":"hunter3"')
    run = imported(project, tmp_path, [twice])
    assert Remark.objects.get().was == '"hunter2-of-old"'
    for url in (f"/runs/{run.pk}/", f"/calls/{Call.objects.get().pk}/"):
        assert "hunter" not in client.get(url).content.decode()


def test_remarks_are_the_same_after_deriving_again_and_after_the_deletion_of_a_fork(
    project: Project, tmp_path: Path
) -> None:
    lines = [asks("toolu_01", "B\u0430sh"), answers("toolu_01", "a", BASH)]
    imported(project, tmp_path, lines)
    fork = [line | {"forkedFrom": {"sessionId": SESSION}, "sessionId": FORK} for line in lines]
    imported(project, tmp_path, [*fork, asks("toolu_09", session=FORK)], FORK)
    stored = list(Remark.objects.filter(kind__in=Remark.Kind.of_evidence()).values("id", "call", "line", "kind", "was"))
    Call.objects.update(derivation="")
    derive_waiting(project)
    assert (
        list(Remark.objects.filter(kind__in=Remark.Kind.of_evidence()).values("id", "call", "line", "kind", "was"))
        == stored
    )
    delete_run(Run.objects.get(external_id=SESSION))
    [left] = Remark.objects.all()
    assert (left.run.external_id, left.kind, left.run.remark_count) == (FORK, "name", 1)
