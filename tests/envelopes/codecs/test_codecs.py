"""CALL's wire form: the specification's own objects are read exactly, and every record round-trips."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.codecs import call as calls
from envelopes.schema.call import EVENT_TYPES, CallError, ExecutionEvent, ToolCall, ToolResult
from envelopes.schema.settlement import Created, Effects, Settlement
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json
from tests.envelopes.settled import (
    AT,
    CALLS,
    EXTRA,
    MAYBE_TEXT,
    NAME,
    OBJECT,
    TIME,
    TOOL_CALL,
    TOOL_RESULT,
    call,
    settlements,
)


@pytest.mark.parametrize(("text", "kind"), [(TOOL_CALL, ToolCall), (TOOL_RESULT, ToolResult)])
def test_the_specifications_own_object_is_read_and_written_unchanged(text: str, kind: Any) -> None:
    record = calls.decode(json.loads(text), kind)
    assert json.dumps(calls.encode(record)) == json.dumps(json.loads(text))
    assert not record.extra


def test_the_specifications_call_is_understood_field_by_field() -> None:
    record = calls.decode(json.loads(TOOL_CALL), ToolCall)
    assert (record.call_id, record.run_id, record.step_id, record.tool) == ("uuid", "uuid", "s5", "vault.createFile")
    assert (record.attempt, record.timeout_ms, record.cancellable, record.risk_level) == (1, 30_000, True, "writes")
    assert record.args == {"path": "XYZ/Foo.md", "content": "..."}
    assert record.iteration is not None
    assert (record.iteration.index, record.iteration.item_name) == (3, "item")
    assert record.iteration.item_value == {"path": "XYZ/Foo.md"}
    assert (record.created_at, record.executor_version) == ("2025-12-16T18:12:00Z", "1.0.0")
    assert (record.tool_registry_version, record.preview) == ("1.0", "Create note “Foo” in folder XYZ")
    assert (record.category, record.confirmation_id) == ("vault", "uuid")
    assert record.policy.confirmations_required
    assert record.policy.sandbox.enabled
    assert record.policy.sandbox.allowed_roots == ("/",)
    assert record.policy.sandbox.deny_patterns == ("..", "://")
    assert record.policy.limits.max_concurrency == 4


def test_the_specifications_result_is_understood_field_by_field() -> None:
    record = calls.decode(json.loads(TOOL_RESULT), ToolResult)
    assert (record.status, record.ok, record.attempt, record.duration_ms) == ("ok", True, 1, 240)
    assert record.data == {"path": "XYZ/Foo.md", "etag": "abc123", "mtime": 1734372720000}
    assert record.effects == Effects(
        side_effects_observed=("create-file",), created=(Created(path="XYZ/Foo.md", kind="file"),)
    )
    assert (record.started_at, record.ended_at) == (AT, AT)
    assert record.user_message == "Created XYZ/Foo.md"


@pytest.mark.parametrize(
    ("text", "kind", "optional"),
    [
        (
            *(TOOL_CALL, ToolCall),
            "argsHash timeoutMs deadlineAt iteration loopId plannerVersion preview category confirmationId",
        ),
        (TOOL_RESULT, ToolResult, "dataHash effects userMessage debugMessage"),
    ],
)
def test_what_has_a_question_mark_in_the_specification_may_be_missing(text: str, kind: Any, optional: str) -> None:
    document = {name: value for name, value in json.loads(text).items() if name not in optional.split()}
    assert calls.encode(calls.decode(document, kind)) == document
    with_nulls = document | dict.fromkeys(optional.split())
    assert calls.encode(calls.decode(with_nulls, kind)) == document


def test_an_error_and_effects_may_say_no_more_than_they_have_to() -> None:
    document = json.loads(TOOL_RESULT) | {
        "status": "error",
        "ok": False,
        "error": {"code": "CONFLICT", "message": "etag differs"},
        "effects": {
            "modified": [{"path": "a", "kind": "file"}],
            "deleted": [{"path": "b", "kind": "folder"}],
        },
    }
    del document["data"]
    record = calls.decode(document, ToolResult)
    assert calls.encode(record) == document
    assert record.effects is not None
    assert (record.effects.side_effects_observed, record.effects.created, record.effects.renamed) == (None, None, None)


def test_the_optional_fields_have_these_names_on_the_wire() -> None:
    document = json.loads(TOOL_CALL) | {
        "argsHash": "sha256:ab",
        "deadlineAt": "2025-12-16T18:12:30Z",
        "loopId": "l1",
        "plannerVersion": "0.9",
        "providerCallId": "toolu_1",
        "coercions": [{"pointer": "/limit", "before": "5", "after": 5}],
        "redactions": ["/token"],
    }
    record = calls.decode(document, ToolCall)
    assert (record.args_hash, record.deadline_at, record.loop_id) == ("sha256:ab", "2025-12-16T18:12:30Z", "l1")
    assert (record.planner_version, record.provider_call_id, record.redactions) == ("0.9", "toolu_1", ("/token",))
    assert record.coercions[0].after == 5
    assert calls.encode(record) == document


def test_a_failed_results_fields_have_these_names_on_the_wire() -> None:
    document = {
        "callId": "c1",
        "runId": "r1",
        "stepId": "s1",
        "tool": "T",
        "attempt": 2,
        "status": "error",
        "ok": False,
        "dataHash": "sha256:ab",
        "error": {"code": "CONFLICT", "message": "etag differs", "details": {"etag": "b"}, "retryable": True},
        "startedAt": AT,
        "endedAt": AT,
        "durationMs": 3,
        "effects": {
            "modified": [{"path": "a", "kind": "file", "beforeEtag": "1", "afterEtag": "2"}],
            "deleted": [{"path": "b", "kind": "folder", "trashed": True}],
            "renamed": [{"from": "c", "to": "d"}],
        },
        "userMessage": "The note was changed.",
        "debugMessage": "If-Match failed",
        "canonical": {"kept": "as it is"},
    }
    record = calls.decode(document, ToolResult)
    assert record.error == CallError(code="CONFLICT", message="etag differs", details={"etag": "b"}, retryable=True)
    assert record.effects is not None
    assert record.effects.renamed is not None
    assert (record.effects.renamed[0].from_path, record.effects.renamed[0].to_path) == ("c", "d")
    assert record.extra == {"canonical": {"kept": "as it is"}}
    assert calls.encode(record) == document


def test_an_event_has_these_names_on_the_wire() -> None:
    document = {
        "type": "step.progress",
        "timestamp": AT,
        "level": "warn",
        "message": "half way",
        "tool": "T",
        "payload": {"done": 5},
        "seq": 3,
        "runId": "r1",
        "callId": "c1",
        "stepId": "s1",
    }
    record = calls.decode(document, ExecutionEvent)
    assert (record.type, record.level, record.call_id, record.step_id) == ("step.progress", "warn", "c1", "s1")
    assert list(calls.encode(record).items()) == list(document.items())


@pytest.mark.parametrize(
    ("text", "kind", "at", "value", "path", "reason"),
    [
        (TOOL_CALL, ToolCall, ("attempt",), "1", "$.attempt", "Expected `int`"),
        (TOOL_CALL, ToolCall, ("attempt",), 0, "$", "attempt: 0 is less than 1"),
        (TOOL_CALL, ToolCall, ("runId",), None, "$", "missing required field `runId`"),
        (TOOL_CALL, ToolCall, ("createdAt",), "now", "$", "createdAt: 'now'"),
        (TOOL_CALL, ToolCall, ("deadlineAt",), "soon", "$", "deadlineAt: 'soon'"),
        (TOOL_CALL, ToolCall, ("cancellable",), "yes", "$.cancellable", "Expected `bool`"),
        (TOOL_CALL, ToolCall, ("riskLevel",), "none", "$.riskLevel", "Invalid enum value"),
        (TOOL_CALL, ToolCall, ("policy", "sandbox", "allowedRoots"), "/", "$.policy.sandbox.allowedRoots", "Expected"),
        (TOOL_CALL, ToolCall, ("policy", "confirmationsRequired"), 1, "$.policy.confirmationsRequired", "Expected"),
        (TOOL_CALL, ToolCall, ("policy",), [], "$.policy", "Expected `object`"),
        (TOOL_CALL, ToolCall, ("iteration", "itemNames"), "x", "$.iteration", "unknown field 'itemNames'"),
        (TOOL_RESULT, ToolResult, ("effects", "created"), [{"path": "a", "size": 1}], "$.effects.created[0]", "'size'"),
        (
            *(TOOL_RESULT, ToolResult, ("effects", "modified"), [{"path": "a", "kind": "folder"}]),
            *("$.effects.modified[0].kind", "Invalid enum value 'folder'"),
        ),
        (TOOL_RESULT, ToolResult, ("status",), "done", "$.status", "Invalid enum value 'done'"),
        (TOOL_RESULT, ToolResult, ("ok",), False, "$", "ok: False beside status 'ok'"),
        (TOOL_RESULT, ToolResult, ("durationMs",), None, "$", "missing required field `durationMs`"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_in_the_document(
    text: str, kind: Any, at: tuple[str, ...], value: Any, path: str, reason: str
) -> None:
    document = json.loads(text)
    holder = document
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    with pytest.raises(Untrusted) as refused:
        calls.decode(document, kind)
    assert refused.value.path == path
    assert reason in refused.value.reason


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_a_value_other_than_an_object_is_not_a_call(document: Any) -> None:
    with pytest.raises(Untrusted, match="Expected `object`"):
        calls.decode(document, ToolCall)


@given(CALLS)
def test_any_call_is_read_again_as_it_was_written(record: ToolCall) -> None:
    document = calls.encode(record)
    assert calls.decode(document, ToolCall) == record
    assert calls.encode(calls.decode(parse_json(dump_json(document)), ToolCall)) == document


@given(CALLS, settlements(), EXTRA)
def test_any_result_is_read_again_as_it_was_written(settled_call: ToolCall, settlement: Settlement, extra: Any) -> None:
    record = msgspec.structs.replace(calls.to_result(settled_call, settlement), extra=extra)
    document = calls.encode(record)
    assert calls.decode(document, ToolResult) == record
    assert calls.encode(calls.decode(parse_json(dump_json(document)), ToolResult)) == document


EVENTS = st.builds(
    ExecutionEvent,
    type=st.sampled_from(EVENT_TYPES),
    **dict.fromkeys(("run_id", "message", "step_id"), NAME),
    **dict.fromkeys(("call_id", "tool"), MAYBE_TEXT),
    timestamp=TIME,
    level=st.sampled_from(["info", "warn", "error"]),
    payload=st.none() | OBJECT,
    seq=st.none() | st.integers(1, 2**53),
    extra=EXTRA,
)


@given(EVENTS)
def test_any_event_is_read_again_as_it_was_written(record: ExecutionEvent) -> None:
    assert calls.decode(calls.encode(record), ExecutionEvent) == record


@given(st.lists(CALLS, max_size=3))
def test_a_file_of_calls_is_read_again_line_by_line(records: list[ToolCall]) -> None:
    raw = b"".join(calls.encode_lines(records))
    assert raw.count(b"\n") == len(records)
    assert list(calls.decode_lines(raw, ToolCall)) == records


@given(st.lists(EVENTS, max_size=3), st.lists(settlements(), max_size=3))
def test_files_of_results_and_of_events_are_too(events: list[ExecutionEvent], ends: list[Settlement]) -> None:
    results = [calls.to_result(call(), settlement) for settlement in ends]
    assert list(calls.decode_lines(b"".join(calls.encode_lines(results)), ToolResult)) == results
    assert list(calls.decode_lines(b"".join(calls.encode_lines(events)), ExecutionEvent)) == events


def test_a_line_is_cut_at_its_newline_alone_and_blank_ones_are_passed_over() -> None:
    record = call(args={"text": "a\u2028b\x0bc"})
    [line] = calls.encode_lines([record])
    assert list(calls.decode_lines(b"\n" + line + b"  \n" + line.rstrip(b"\n"), ToolCall)) == [record, record]


@pytest.mark.parametrize(
    ("line", "path", "reason"),
    [
        (b'{"callId": 1}', "$", "line 3: "),
        (b"{oops", "$", "line 3: "),
        (b'{"callId": "\xff"}', "$", "line 3: not UTF-8"),
    ],
)
def test_a_line_that_is_no_call_is_named_by_its_number(line: bytes, path: str, reason: str) -> None:
    [good] = calls.encode_lines([call()])
    record = calls.decode_lines(good + b"\n" + line + b"\n", ToolCall)
    assert next(record) == call()
    with pytest.raises(Untrusted) as refused:
        next(record)
    assert refused.value.reason.startswith(reason)
