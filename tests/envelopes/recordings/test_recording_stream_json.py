"""The output of stream-json: calls, subagents, the end of the run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings import UnknownFormat, detect_format
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourcePath,
)
from envelopes.recordings.claude_code import STREAM
from tests.envelopes.session_lines import FIXTURES, NEW, only, source

SCOUT = "33333333-cccc-4ccc-8ccc-333333333333/toolu_01task"
NAMED_SCOUT = "33333333-cccc-4ccc-8ccc-333333333333/a1b2c3d"


def stream(name: str = "stream.jsonl") -> list[Record | LineProblem]:
    return list(STREAM.read(source((FIXTURES / name).read_bytes()), SourcePath(name), {}))


def test_the_stream_gives_the_calls_of_the_run_and_of_its_subagent() -> None:
    records = stream()
    assert [(call.call, call.run, call.step) for call in only(CallRecord, records)] == [
        ("toolu_01task", SCOUT.split("/")[0], "msg_a"),
        ("toolu_01ls", SCOUT, "msg_b"),
    ]
    results = {result.call: result for result in only(ResultRecord, records)}
    assert json.loads(results["toolu_01ls"].result)["stdout"] == "orders.csv"
    assert (results["toolu_01task"].child_run, results["toolu_01task"].duration_ms) == (NAMED_SCOUT, 2900)
    assert STREAM.run_alias(NAMED_SCOUT, "toolu_01task") == SCOUT
    assert not only(LineProblem, records)


def test_the_result_line_ends_the_run_at_the_last_time_that_was_seen() -> None:
    runs = only(RunRecord, stream())
    assert (runs[0].model, runs[0].version, runs[0].cwd) == ("claude-sonnet-4-5", "2.1.39", "/srv/shop")
    assert runs[-1].ended_at == "2026-02-10T10:00:04.000Z"


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("stream.jsonl", "claude-code-stream"),
        ("sidechain.jsonl", "claude-code"),
        (f"resumed/{NEW}.jsonl", "claude-code"),
    ],
)
def test_a_file_is_known_by_what_it_says(name: str, format_name: str) -> None:
    content = (FIXTURES / name).read_bytes()
    assert detect_format(content, SourcePath(name)).name == format_name
    assert detect_format(b"\xef\xbb\xbf" + content[:300], SourcePath("upload")).name == format_name


def test_a_stream_is_no_session_because_a_result_in_it_has_a_session_id() -> None:
    cut = b'{"type":"user","session_id":"s","tool_use_result":{"sessionId":"x","log":"long'
    assert (
        detect_format((FIXTURES / "stream.jsonl").read_bytes()[:300] + cut, SourcePath("out.jsonl")).name
        == "claude-code-stream"
    )


def entry(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, "session_id": NEW, "uuid": "u1", **fields}).encode() + b"\n"


@pytest.mark.parametrize(("fields", "kind"), [({}, None), ({"isSynthetic": True}, "meta"), ({"isSynthetic": 1}, None)])
def test_a_message_that_the_client_made_has_a_kind(fields: dict[str, object], kind: str | None) -> None:
    raw = entry("user", message={"role": "user", "content": "look"}, **fields)
    [written] = only(MessageRecord, STREAM.read(source(raw), SourcePath("a.jsonl"), {}))
    assert written.kind == kind


@pytest.mark.parametrize(("kind", "remarks"), [("rate_limit_event", 0), ("tool_progress", 0), ("not_invented_yet", 1)])
def test_only_a_kind_of_line_that_is_not_known_is_remarked(kind: str, remarks: int) -> None:
    records = list(STREAM.read(source(entry(kind)), SourcePath("a.jsonl"), {}))
    assert [event.kind for event in only(EventRecord, records)] == [kind]
    assert len(only(RemarkRecord, records)) == remarks


@pytest.mark.parametrize(
    "lines",
    [
        [
            {"type": "init", "timestamp": "2026-11-27T06:10:38Z", "session_id": "9fc5545b", "model": "gemini-3-pro"},
            {"type": "tool_use", "tool_name": "glob", "tool_id": "glob_1", "parameters": {"pattern": "*"}},
        ],
        [{"type": "system", "subtype": "init", "uuid": "u", "session_id": "s", "qwen_code_version": "0.15.10"}],
        [
            {"type": "user", "uuid": "u1", "session_id": "s", "message": {"role": "user", "content": []}},
            {"type": "assistant", "uuid": "u2", "session_id": "s", "message": {"id": "u2", "content": []}},
        ],
    ],
    ids=["Gemini CLI", "Qwen Code", "Qwen Code without its beginning"],
)
def test_the_stream_of_another_agent_is_not_taken_for_one_of_claude_code(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(UnknownFormat):
        detect_format(b"".join(json.dumps(line).encode() + b"\n" for line in lines), SourcePath("out.jsonl"))
