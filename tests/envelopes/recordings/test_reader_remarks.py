"""A value that a reader leaves out or reads in another way is a remark, in the recordings of every agent.

`tests/faults/bad_fields.py` has those of Claude Code, of executors and of what programs send.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envelopes.recordings import detect_format
from envelopes.recordings.base import CallRecord, LineProblem, Record, RemarkRecord, ResultRecord, SourcePath
from tests.envelopes.recordings.samples import FOLDER, HEAD_BYTES, lines_of

CODEX = "codex/rollout-2026-05-11T11-26-55-019e1625-789d-76c0-80ab-3724b5ddb799.jsonl"
GEMINI = "gemini_cli/entire_ab_2b9748b105_0_full.json"
INSPECT = "inspect_ai/log_tool_call_error.json"
LANGCHAIN = "message_dumps/toolmessage_artifact_langchain_core_1.7.2.json"
PYDANTIC = "message_dumps/messages_pydantic_ai_2.68.0.json"
MCP = "mcp_frames/generated_mcp_2.3.0_stdio_frames.jsonl"
QWEN = "releases/qwen_code_0.15.10.jsonl"
MINI, SWE = "mini_swe_agent/local.traj.json", "swe_agent/humanevalfix-python-0.traj"
TYPE, TIME = "left out: wrong type", "left out: no time"
NUMBER, OUTCOME = "left out: not a possible number", "left out: not a known outcome"
# A sample, the path of a value (a kind of line before it), another value, and what became of that.
ROWS: tuple[tuple[str, str, Any, str], ...] = (
    (CODEX, "session_meta $.payload.id", 7, TYPE),
    (CODEX, "session_meta $.payload.timestamp", "soon", TIME),
    (CODEX, "session_meta $.payload.cwd", ["a"], TYPE),
    (CODEX, "session_meta $.payload.cli_version", 7, TYPE),
    (CODEX, "session_meta $.payload.git", "main", TYPE),
    (CODEX, "session_meta $.payload.git.branch", {"a": 1}, TYPE),
    (CODEX, "session_meta $.payload.base_instructions.text", 7, TYPE),
    (CODEX, "turn_context $.payload.model", 7, TYPE),
    (CODEX, "response_item message $.payload.role", 7, TYPE),
    (CODEX, "event_msg user_message $.payload.message", 7, TYPE),
    (CODEX, "event_msg token_count $.payload.info", "none", TYPE),
    (CODEX, "event_msg token_count $.payload.info.last_token_usage", "none", TYPE),
    (CODEX, "event_msg token_count $.payload.info.last_token_usage.input_tokens", -1, NUMBER),
    (CODEX, "event_msg $.type", "news", "an event without a meaning, like later lines of its kind: it is unknown"),
    (GEMINI, "$.sessionId", 7, TYPE),
    (GEMINI, "$.startTime", "soon", TIME),
    (GEMINI, "$.startTime", "2026-01-15T20:51:48", "taken as UTC: it has no offset"),
    (GEMINI, "$.startTime", 1768510308, "read as a time since 1970"),
    (GEMINI, "$.messages", "none", TYPE),
    (GEMINI, "$.messages[0].id", 7, TYPE),
    (GEMINI, "$.messages[0].timestamp", {"a": 1}, "left out: no text"),
    (GEMINI, "$.messages[1].tokens.input", "many", NUMBER),
    (GEMINI, "$.messages[1].toolCalls", {"a": 1}, TYPE),
    (GEMINI, "$.messages[1].toolCalls[0].status", ["success"], TYPE),
    (INSPECT, "$.eval.run_id", 7, TYPE),
    (INSPECT, "$.eval.created", "soon", TIME),
    (INSPECT, "$.eval.packages", "all", TYPE),
    (INSPECT, "$.samples[0].messages", "none", TYPE),
    (INSPECT, "$.samples[0].messages[0].role", 7, TYPE),
    (LANGCHAIN, "$.messages_to_dict[0].data", "none", TYPE),
    (LANGCHAIN, "$.messages_to_dict[0].data.tool_calls", {"a": 1}, TYPE),
    (LANGCHAIN, "$.messages_to_dict[1].data.status", "perhaps", OUTCOME),
    (PYDANTIC, "$[0].parts", "none", TYPE),
    (PYDANTIC, "$[0].parts[0].timestamp", "soon", TIME),
    (PYDANTIC, "$[0].parts[0].part_kind", "news", "read as a part of the model: not a known kind"),
    (PYDANTIC, "$[1].model_name", 7, TYPE),
    (MCP, "$.ts", "soon", TIME),
    (MCP, "$.server", 7, TYPE),
    (SWE, "$.trajectory", {"a": 1}, TYPE),
)


def steps(path: str) -> list[str | int]:
    parts = path.removeprefix("$").replace("[", ".[").split(".")[1:]
    return [int(part[1:-1]) if part.startswith("[") else part for part in parts]


def replaced(document: Any, path: str, value: Any) -> Any:
    first, *others = steps(path)
    target = document
    for step, following in zip([first, *others], others, strict=False):
        target = target[step]
        assert following is not None
    assert target[(others or [first])[-1]] != value
    target[(others or [first])[-1]] = value
    return document


def changed(file: Path, path: str, value: Any) -> bytes:
    *kinds, path = path.split()
    if file.suffix != ".jsonl":
        return json.dumps(replaced(json.loads(file.read_bytes()), path, value)).encode()
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    place = next(number for number, line in enumerate(lines) if is_of(line, kinds, path))
    lines[place] = replaced(lines[place], path, value)
    return b"\n".join(json.dumps(line).encode() for line in lines) + b"\n"


def is_of(line: Any, kinds: list[str], path: str) -> bool:
    """A line of the kinds with a value at the path."""
    payload = line.get("payload")
    own = [line.get("type"), payload.get("type") if isinstance(payload, dict) else None]
    for step in steps(path):
        line = line.get(step) if isinstance(line, dict) else None
    return own[: len(kinds)] == kinds and line is not None


def read(raw: bytes, file: Path) -> list[Record | LineProblem]:
    recording = detect_format(raw[:HEAD_BYTES], SourcePath(file.name))
    assert recording is not None
    return list(recording.read(lines_of(raw), SourcePath(file.name), {}))


@pytest.mark.parametrize(("sample", "path", "value", "became"), ROWS, ids=[f"{row[1]} {row[2]}" for row in ROWS])
def test_a_value_of_another_type_or_meaning_is_a_remark(sample: str, path: str, value: Any, became: str) -> None:
    file = FOLDER / sample
    records = read(changed(file, path, value), file)
    assert [record for record in records if isinstance(record, LineProblem)] == []
    remarks = [record for record in records if isinstance(record, RemarkRecord)]
    expected = (
        path.split()[-1].replace(".input_tokens", "") if became == NUMBER and sample == CODEX else path.split()[-1]
    )
    assert [(remark.path, remark.became) for remark in remarks if remark.path == expected] == [(expected, became)]
    assert remarks[0].was
    assert all(record.run == remarks[0].run for record in records if isinstance(record, CallRecord))


@pytest.mark.parametrize("sample", [CODEX, GEMINI, QWEN, INSPECT, LANGCHAIN, PYDANTIC, MCP, MINI, SWE])
def test_a_recording_as_agents_write_it_has_no_remark(sample: str) -> None:
    file = FOLDER / sample
    assert [record for record in read(file.read_bytes(), file) if isinstance(record, RemarkRecord)] == []


@pytest.mark.parametrize(
    ("sample", "path"),
    [
        (CODEX, "session_meta $.timestamp"),
        (CODEX, "session_meta $.payload.timestamp"),
        (GEMINI, "$.startTime"),
        (GEMINI, "$.messages[0].timestamp"),
        (INSPECT, "$.eval.created"),
        (PYDANTIC, "$[0].timestamp"),
        (PYDANTIC, "$[0].parts[0].timestamp"),
        (MCP, "$.ts"),
    ],
)
def test_digits_behind_the_microsecond_are_a_remark_where_they_are_not_noughts(sample: str, path: str) -> None:
    file = FOLDER / sample
    whole = [read(changed(file, path, f"2026-03-01T09:00:00.{digits}Z"), file) for digits in ("123456000", "12345678")]
    remarks = [[record for record in records if isinstance(record, RemarkRecord)] for records in whole]
    assert remarks[0] == []
    assert {(remark.path, remark.became) for remark in remarks[1]} == {(path.split()[-1], "cut to microseconds")}


TRACES = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "a" * 32,
                            "spanId": "b" * 16,
                            "name": "execute_tool ls",
                            "startTimeUnixNano": "1792489225005406000",
                            "endTimeUnixNano": "1792489225005778000",
                            "attributes": [
                                {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
                                {"key": "gen_ai.tool.name", "value": {"stringValue": "ls"}},
                                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "54"}},
                            ],
                        }
                    ]
                }
            ],
        }
    ]
}
SPAN = "$.resourceSpans[0].scopeSpans[0].spans[0]"


@pytest.mark.parametrize(
    ("path", "value", "became"),
    [
        ("$.resourceSpans[0].resource", "none", TYPE),
        (f"{SPAN}.spanId", 7, TYPE),
        (f"{SPAN}.startTimeUnixNano", "soon", TIME),
        (f"{SPAN}.endTimeUnixNano", ["1"], TIME),
        (f"{SPAN}.attributes", "none", TYPE),
        (f"{SPAN}.attributes[2]", "none", TYPE),
        (f"{SPAN}.attributes[2].value", {"intValue": "many"}, TYPE),
    ],
)
def test_a_value_that_a_trace_cannot_have_is_a_remark(path: str, value: Any, became: str) -> None:
    file = Path("trace.json")
    plain = read(json.dumps(TRACES).encode(), file)
    assert [record for record in plain if isinstance(record, RemarkRecord | LineProblem)] == []
    document = json.loads(json.dumps(TRACES))
    records = read(json.dumps(replaced(document, path, value)).encode(), file)
    noted = [record for record in records if isinstance(record, RemarkRecord | LineProblem)]
    assert [record.path for record in noted] == [path]
    assert [record.became for record in noted if isinstance(record, RemarkRecord)] in ([became], [])


def test_a_trace_whose_only_span_is_none_is_a_problem() -> None:
    document = replaced(json.loads(json.dumps(TRACES)), SPAN, "none")
    assert [
        (record.path, record.reason)
        for record in read(json.dumps(document).encode(), Path("trace.json"))
        if isinstance(record, LineProblem)
    ] == [(SPAN, TYPE)]


def test_nanoseconds_of_a_trace_are_cut_without_a_remark() -> None:
    """Nearly every span has them, so remarks on them would hide the others; `dashboard/docs/intake.md` states it."""
    file = Path("trace.json")
    document = replaced(json.loads(json.dumps(TRACES)), f"{SPAN}.endTimeUnixNano", "1792489225005778999")
    records = read(json.dumps(document).encode(), file)
    assert [record for record in records if isinstance(record, RemarkRecord | LineProblem)] == []
    (result,) = [record for record in records if isinstance(record, ResultRecord)]
    assert result.ended_at is not None
    assert result.ended_at.endswith(".005778Z")
