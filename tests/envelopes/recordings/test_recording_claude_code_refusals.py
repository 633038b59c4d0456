"""Claude Code's files: refused lines and blocks have a reason and cost nothing beside them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
)
from tests.envelopes.session_lines import line, message, only, read, tool_result, tool_use


@pytest.mark.parametrize(
    ("raw", "path", "reason"),
    [
        (b'{"type":"user","sess\n', "$", "Unterminated string"),
        (b"[1,2]\n", "$", "expected a JSON object"),
        (b'{"type":"user","cwd":"\xff"}\n', "$", "not UTF-8 at byte 22: ff"),
        (b'{"type":"user","a":' + b"[" * 300 + b"]" * 300 + b"}\n", "$", "nested deeper than 200"),
        (b'{"type":"user","a":' + b"[" * 9000 + b"]" * 9000 + b"}\n", "$", "nested deeper than 200"),
        (b'{"type":"user"} 7\n', "$", "more after the end"),
        (b'{"type":["user"]}\n', "$.type", "no type"),
        (b'{"uuid":"u"}\n', "$.type", "no type"),
        (message("user", 5), "$.message.content", "expected a string or an array"),
        (line("assistant", message=[]), "$.message", "expected a JSON object"),
    ],
)
def test_a_refused_line_costs_no_line_beside_it(raw: bytes, path: str, reason: str) -> None:
    good = message("user", "Before"), message("user", "After")
    records = read(good[0] + raw + good[1])
    [problem] = only(LineProblem, records)
    assert (problem.line, problem.path) == (2, path)
    assert reason in problem.reason
    assert [message_record.line for message_record in only(MessageRecord, records)] == [1, 3]


def test_a_bad_block_costs_no_block_beside_it() -> None:
    blocks = ["text", tool_use(call=""), {**tool_use(), "name": 5}, tool_use("toolu_3"), {"type": "tool_result"}]
    records = read(message("assistant", blocks))
    assert [call.call for call in only(CallRecord, records)] == ["toolu_3"]
    problems = only(LineProblem, records)
    assert [(problem.path, problem.part) for problem in problems] == [
        ("$.message.content[0]", True),
        ("$.message.content[1].id", True),
        ("$.message.content[2].name", True),
        ("$.message.content[4].tool_use_id", True),
    ]
    assert problems[0].raw == b'"text"'


WRONG: list[Any] = [None, True, -1, 1e300, 2**70, "", "\x00", "\ud800", [], [[]], {}, {"type": 5}]


@pytest.mark.parametrize("kind", ["user", "assistant", "system", "progress", "summary", "content-replacement", "new"])
def test_a_field_of_the_wrong_type_raises_nothing_and_loses_no_call(kind: str) -> None:
    nested = json.loads(message(kind, [tool_use(), tool_result()], toolUseResult={"durationMs": 1}))
    data = {"type": "agent_progress", "agentId": "a1", "message": nested}
    good = {**nested, "data": data, "replacements": [{"toolUseId": "t", "replacement": "x"}], "summary": "s"}
    good |= {"microcompactMetadata": {"compactedToolIds": ["t"]}, "subtype": "microcompact_boundary"}
    calls = len(only(CallRecord, read(json.dumps(good).encode())))
    for field in good:
        for wrong in WRONG:
            records = read(json.dumps({**good, field: wrong}).encode())
            assert_storable(records)
            if field not in {"type", "message", "data"}:
                assert len(only(CallRecord, records)) == calls, (field, wrong)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_field_of_the_wrong_type_below_a_line_raises_nothing(wrong: Any) -> None:
    blocks = [{**block, field: wrong} for block in (tool_use(), tool_result()) for field in block]
    results = [{field: wrong} for field in ("durationMs", "agentId", "outputFile", "persistedOutputPath")]
    for content in (wrong, [wrong], blocks, *([block] for block in blocks)):
        assert_storable(read(message("user", content, toolUseResult=wrong)))
    for result in results:
        assert_storable(read(message("user", [tool_result()], toolUseResult=result)))
    for field in ("type", "agentId", "prompt", "message"):
        data = {"type": "agent_progress", "agentId": "a1", "message": {"message": {"content": blocks}}}
        assert_storable(read(line("progress", data={**data, field: wrong})))
    for subtype in ("compact_boundary", "microcompact_boundary", "api_error"):
        assert_storable(read(line("system", subtype=subtype, microcompactMetadata={"compactedToolIds": [wrong]})))
    assert_storable(read(line("content-replacement", replacements=[wrong, {"toolUseId": wrong}])))


def assert_storable(records: list[Record | LineProblem]) -> None:
    for record in records:
        for value in msgspec.structs.astuple(record):
            assert not isinstance(value, str) or "\0" not in value.encode().decode(), record


def test_nul_and_lone_surrogates_stay_as_they_were_written() -> None:
    raw = message("user", [tool_result(content="a\x00b\ud800c")])
    records = read(raw)
    assert only(ReceiptRecord, records)[0].content == b'"a\\u0000b\\ud800c"'
    assert not only(LineProblem, records)


@pytest.mark.parametrize(
    "stamp", ["yesterday", "2026-02-30T00:00:00Z", "2026-02-10T10:00:00Z\0", "0001-01-01T00:00:00+14:00", 5, None]
)
def test_a_timestamp_that_is_none_is_left_out(stamp: Any) -> None:
    records = read(message("user", [tool_result()], timestamp=stamp))
    assert only(ReceiptRecord, records)[0].at is None
    assert not only(LineProblem, records)


@pytest.mark.parametrize("raw", [b'[\n{"type":"user"},\n{"type":"user"}\n]\n', b'{\n"type":\n"user"\n\n}\n'])
def test_a_document_over_many_lines_is_refused_once(raw: bytes) -> None:
    [problem] = read(raw)
    assert isinstance(problem, LineProblem)
    assert problem.reason.startswith("one JSON document over many lines")
    assert problem.lines == 4


def test_a_byte_order_mark_and_blank_lines_are_no_problem() -> None:
    records = read(b"\xef\xbb\xbf" + message("user", "Count") + b"\n \r\n" + message("user", "More"))
    assert [message_record.line for message_record in only(MessageRecord, records)] == [1, 4]
    assert not only(LineProblem, records)


@pytest.mark.extended
def test_a_line_of_twelve_megabytes_is_read() -> None:
    text = "ä" * 6_000_000
    [receipt] = only(ReceiptRecord, read(message("user", [tool_result(content=text)], toolUseResult={"stdout": text})))
    assert json.loads(receipt.content) == text


@pytest.mark.parametrize(("kind", "remarks"), [("pr-link", 0), ("cost-state", 0), ("not-invented-yet", 1)])
def test_other_types_are_events_and_remarked_where_they_are_not_known(kind: str, remarks: int) -> None:
    records = read(line(kind, number=7))
    [event] = only(EventRecord, records)
    assert (event.kind, json.loads(event.payload)["number"]) == (kind, 7)
    assert len(only(RemarkRecord, records)) == remarks
