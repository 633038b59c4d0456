"""Claude Code's own spans: both halves of the calls that its transcript has, under the same names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from envelopes.recordings import decode_traces, detect_format, find_format
from envelopes.recordings.base import (
    CallRecord,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from tests.envelopes.recordings.samples import FOLDER, lines_of, read_bytes, read_sample

RELEASE = FOLDER / "releases" / "claude_code_2.1.332"
TRACES = (FOLDER / "releases" / "claude_code_2.1.332.traces.jsonl").read_bytes()
SENT: dict[str, Any] = json.loads((FOLDER / "releases" / "claude_code_2.1.332.sent.json").read_bytes())
TRANSCRIPTS = [read_sample(str(path.relative_to(FOLDER))) for path in sorted(RELEASE.rglob("*.jsonl"))]
FORMAT = "claude-code-otel"


def spans() -> Any:
    return json.loads(TRACES)


def records_of(request: Any) -> list[Record | LineProblem]:
    """The records of a request as it is sent live: of the lines that it becomes."""
    lines = decode_traces(json.dumps(request).encode(), is_json=True)
    assert {line.format for line in lines} <= {FORMAT}
    source = [SourceLine(number, 0, line.raw + b"\n") for number, line in enumerate(lines, start=1)]
    return list(find_format(FORMAT).read(iter(source), SourcePath("live", is_live=True), {}))


def attributes_of(request: Any, name: str) -> list[dict[str, Any]]:
    return [
        span
        for resource in request["resourceSpans"]
        for scoped in resource["scopeSpans"]
        for span in scoped["spans"]
        if span["name"] == name
    ]


def change(request: Any, name: str, key: str, edit: Callable[[str], str], **added: bool) -> Any:
    """The request with another text in an attribute of each span of this name, and more attributes beside it."""
    for span in attributes_of(request, name):
        for attribute in span["attributes"]:
            if attribute["key"] == key:
                attribute["value"] = {"stringValue": edit(attribute["value"]["stringValue"])}
        span["attributes"] += [{"key": added_key, "value": {"boolValue": value}} for added_key, value in added.items()]
    return request


def only(kind: type[Any], records: list[Record | LineProblem]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_spans_have_the_halves_of_the_transcript() -> None:
    records = records_of(spans())
    assert not only(LineProblem, records)
    calls = {call.call: call for sample in TRANSCRIPTS for call in sample.calls}
    results = {call: result for sample in TRANSCRIPTS for call, result in sample.results.items()}
    receipts = {receipt.call: json.loads(receipt.content) for receipt in only(ReceiptRecord, records)}
    assert receipts == SENT
    traced = {call.call: call for call in only(CallRecord, records)}
    refused = calls.keys() - traced.keys()  # before they ran
    assert {calls[call].tool for call in refused} == {"Edit", "NoSuchTool"}
    for call, record in traced.items():
        assert (record.run, record.tool) == (calls[call].run, calls[call].tool)
        assert json.loads(record.args).items() >= json.loads(calls[call].args or b"{}").items()
    returned = {result.call: result for result in only(ResultRecord, records) if result.result is not None}
    assert len(returned.keys() - results.keys()) == 2  # of the subagents, whose transcripts have no results
    for call in returned.keys() & results.keys():
        assert json.loads(returned[call].result) == json.loads(results[call].result or b"null")
        assert returned[call].fidelity == results[call].fidelity


def test_a_call_failed_where_its_execution_did() -> None:
    records = records_of(spans())
    flags = {result.call: result.is_error for result in only(ResultRecord, records) if result.is_error is not None}
    recorded = {
        record.call: bool(record.is_error)
        for sample in TRANSCRIPTS
        for record in sample.records
        if isinstance(record, ResultRecord)
    }
    assert flags == {call: recorded[call] for call in flags}
    assert sum(flags.values()) == 5
    assert len(flags) == 21


def test_receipts_that_stand_together_are_reconstructed() -> None:
    receipts = only(ReceiptRecord, records_of(spans()))
    together = {json.dumps(SENT[receipt.call])[:24] for receipt in receipts if receipt.fidelity == "reconstructed"}
    assert len(together) == 3  # two of one step, and one with a message behind it
    assert {receipt.fidelity for receipt in receipts} == {"recorded", "reconstructed"}


def test_the_runs_are_the_session_and_its_subagents() -> None:
    runs = only(RunRecord, records_of(spans()))
    assert {run.run for run in runs} == {sample.calls[0].run for sample in TRANSCRIPTS}
    assert {run.title for run in runs if run.title} == {"look around"}
    assert {(run.model, run.version) for run in runs if run.model} == {("claude-opus-5-5", "2.1.332")}


@pytest.mark.parametrize(
    ("name", "key", "kind"),
    [
        ("claude_code.llm_request", "new_context", ReceiptRecord),
        ("claude_code.tool", "new_context", ResultRecord),
    ],
)
def test_a_value_that_the_client_cut_is_left_out(name: str, key: str, kind: type[Record]) -> None:
    cut = change(spans(), name, key, lambda text: text[:40], **{f"{key}_truncated": True})
    found = [record for record in records_of(cut) if isinstance(record, kind)]
    assert not [record for record in found if isinstance(record, ReceiptRecord) or record.result]  # type: ignore[union-attr]


def test_arguments_that_the_client_cut_are_not_recorded() -> None:
    cut = change(spans(), "claude_code.tool", "tool_input", lambda text: text[:30])
    assert {call.args for call in only(CallRecord, records_of(cut)) if call.tool == "Bash"} == {None}


def test_a_span_without_a_session_is_refused_alone() -> None:
    request = spans()
    attributes_of(request, "claude_code.tool")[0]["attributes"] = []
    problems = only(LineProblem, records_of(request))
    assert [problem.reason for problem in problems] == ["no session.id"]


def test_a_file_of_such_traces_is_one_of_the_agents_events() -> None:
    assert detect_format(TRACES, SourcePath("traces.jsonl")).name == FORMAT
    sample = read_bytes(TRACES, "traces.jsonl")
    assert {receipt.call for receipt in only(ReceiptRecord, list(sample.records))} == SENT.keys()
    assert not sample.problems


def test_spans_of_others_beside_them_are_read_as_before() -> None:
    request, other = spans(), {"name": "execute_tool x", "traceId": "ab" * 16, "spanId": "cd" * 8, "kind": 1}
    other |= {"startTimeUnixNano": "1772355600000000000", "endTimeUnixNano": "1772355601000000000"}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x", "gen_ai.tool.call.id": "call_1"}
    other["attributes"] = [{"key": key, "value": {"stringValue": value}} for key, value in named.items()]
    request["resourceSpans"].append({"scopeSpans": [{"scope": {"name": "mine"}, "spans": [other]}]})
    lines = decode_traces(json.dumps(request).encode(), is_json=True)
    assert {line.format for line in lines} == {FORMAT, "otlp"}
    records = list(find_format("otlp").read(lines_of(json.dumps(request).encode()), SourcePath("t.jsonl"), {}))
    assert {call.tool for call in only(CallRecord, records)} == {"x"}
    assert [problem.path for problem in only(LineProblem, records)] == ["$.resourceSpans"]
