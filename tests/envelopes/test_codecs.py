"""The codecs: the specification's own objects hold exactly, and whatever is written is read again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.artifact import MemorySink
from envelopes.call import CallError, ToolCall, ToolResult
from envelopes.codecs import call as calls
from envelopes.codecs import content_blocks, holon
from envelopes.codecs import outcome as outcomes
from envelopes.codecs.content_blocks import ContentBlocks
from envelopes.effects import Created, Effects
from envelopes.event import EVENT_TYPES, ExecutionEvent
from envelopes.outcome import (
    DENIAL_GATES,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolTimeout,
)
from envelopes.receipt import ImagePart, OtherPart, Receipt, Segment, TextPart
from envelopes.result import ArtifactRef, CanonicalResult, ToolError
from envelopes.settlement import Settlement, StoredOutput
from envelopes.untrusted import Untrusted, dump, tame
from tests.envelopes.settled import (
    AT,
    CALLS,
    COUNT,
    EXTRA,
    FEW,
    JSON,
    MAYBE_TEXT,
    NAME,
    OBJECT,
    ODD_TEXT,
    TEXT,
    TIME,
    TOOL_CALL,
    TOOL_RESULT,
    call,
    canonical_of,
    output_of,
    settled,
    settlements,
)

# CALL


@pytest.mark.parametrize(("text", "kind"), [(TOOL_CALL, ToolCall), (TOOL_RESULT, ToolResult)])
def test_the_specifications_own_object_is_read_and_written_as_it_stands(text: str, kind: Any) -> None:
    record = calls.decode(json.loads(text), kind)
    assert json.dumps(calls.encode(record)) == json.dumps(json.loads(text))
    assert not record.extra


def test_the_specifications_call_is_understood_field_by_field() -> None:
    found = calls.decode(json.loads(TOOL_CALL), ToolCall)
    assert (found.call_id, found.run_id, found.step_id, found.tool) == ("uuid", "uuid", "s5", "vault.createFile")
    assert (found.attempt, found.timeout_ms, found.cancellable, found.risk_level) == (1, 30_000, True, "writes")
    assert found.args == {"path": "XYZ/Foo.md", "content": "..."}
    assert found.iteration is not None
    assert (found.iteration.index, found.iteration.item_name) == (3, "item")
    assert found.iteration.item_value == {"path": "XYZ/Foo.md"}
    assert (found.created_at, found.executor_version) == ("2025-12-16T18:12:00Z", "1.0.0")
    assert (found.tool_registry_version, found.preview) == ("1.0", "Create note “Foo” in folder XYZ")
    assert (found.category, found.confirmation_id) == ("vault", "uuid")
    assert found.policy.confirmations_required
    assert found.policy.sandbox.enabled
    assert found.policy.sandbox.allowed_roots == ("/",)
    assert found.policy.sandbox.deny_patterns == ("..", "://")
    assert found.policy.limits.max_concurrency == 4


def test_the_specifications_result_is_understood_field_by_field() -> None:
    found = calls.decode(json.loads(TOOL_RESULT), ToolResult)
    assert (found.status, found.ok, found.attempt, found.duration_ms) == ("ok", True, 1, 240)
    assert found.data == {"path": "XYZ/Foo.md", "etag": "abc123", "mtime": 1734372720000}
    assert found.effects == Effects(
        side_effects_observed=("create-file",), created=(Created(path="XYZ/Foo.md", kind="file"),)
    )
    assert (found.started_at, found.ended_at) == (AT, AT)
    assert found.user_message == "Created XYZ/Foo.md"


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
    found = calls.decode(document, ToolCall)
    assert (found.args_hash, found.deadline_at, found.loop_id) == ("sha256:ab", "2025-12-16T18:12:30Z", "l1")
    assert (found.planner_version, found.provider_call_id, found.redactions) == ("0.9", "toolu_1", ("/token",))
    assert found.coercions[0].after == 5
    assert calls.encode(found) == document


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
    found = calls.decode(document, ToolResult)
    assert found.error == CallError(code="CONFLICT", message="etag differs", details={"etag": "b"}, retryable=True)
    assert found.effects is not None
    assert found.effects.renamed is not None
    assert (found.effects.renamed[0].from_path, found.effects.renamed[0].to_path) == ("c", "d")
    assert found.extra == {"canonical": {"kept": "as it is"}}
    assert calls.encode(found) == document


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
    found = calls.decode(document, ExecutionEvent)
    assert (found.type, found.level, found.call_id, found.step_id) == ("step.progress", "warn", "c1", "s1")
    assert list(calls.encode(found).items()) == list(document.items())


@pytest.mark.parametrize(
    ("text", "kind", "at", "value", "path", "said"),
    [
        (TOOL_CALL, ToolCall, ("attempt",), "1", "$.attempt", "Expected `int`"),
        (TOOL_CALL, ToolCall, ("attempt",), 0, "$", "attempt: 0 is less than 1"),
        (TOOL_CALL, ToolCall, ("runId",), None, "$", "missing required field `runId`"),
        (TOOL_CALL, ToolCall, ("createdAt",), "now", "$", "createdAt: 'now'"),
        (TOOL_CALL, ToolCall, ("riskLevel",), "none", "$.riskLevel", "Invalid enum value"),
        (TOOL_CALL, ToolCall, ("policy", "sandbox", "allowedRoots"), "/", "$.policy.sandbox.allowedRoots", "Expected"),
        (TOOL_CALL, ToolCall, ("policy", "confirmationsRequired"), 1, "$.policy.confirmationsRequired", "Expected"),
        (TOOL_CALL, ToolCall, ("policy",), [], "$.policy", "Expected `object`"),
        (TOOL_CALL, ToolCall, ("iteration", "itemNames"), "x", "$.iteration", "unknown field 'itemNames'"),
        (TOOL_RESULT, ToolResult, ("effects", "created"), [{"path": "a", "size": 1}], "$.effects.created[0]", "'size'"),
        (TOOL_RESULT, ToolResult, ("status",), "done", "$.status", "Invalid enum value 'done'"),
        (TOOL_RESULT, ToolResult, ("ok",), False, "$", "ok: False beside status 'ok'"),
        (TOOL_RESULT, ToolResult, ("durationMs",), None, "$", "missing required field `durationMs`"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_in_the_document(
    text: str, kind: Any, at: tuple[str, ...], value: Any, path: str, said: str
) -> None:
    document = json.loads(text)
    holder = document
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    with pytest.raises(Untrusted) as refused:
        calls.decode(document, kind)
    assert refused.value.path == path
    assert said in refused.value.reason


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_what_is_no_object_is_no_call(document: Any) -> None:
    with pytest.raises(Untrusted, match="Expected `object`"):
        calls.decode(document, ToolCall)


@FEW
@given(CALLS)
def test_any_call_is_read_again_as_it_was_written(record: ToolCall) -> None:
    document = calls.encode(record)
    assert calls.decode(document, ToolCall) == record
    assert calls.encode(calls.decode(tame(dump(document)), ToolCall)) == document


@FEW
@given(CALLS, settlements(), EXTRA)
def test_any_result_is_read_again_as_it_was_written(made: ToolCall, settlement: Settlement, extra: Any) -> None:
    record = msgspec.structs.replace(calls.result_of(made, settlement), extra=extra)
    document = calls.encode(record)
    assert calls.decode(document, ToolResult) == record
    assert calls.encode(calls.decode(tame(dump(document)), ToolResult)) == document


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


@FEW
@given(EVENTS)
def test_any_event_is_read_again_as_it_was_written(record: ExecutionEvent) -> None:
    assert calls.decode(calls.encode(record), ExecutionEvent) == record


@FEW
@given(st.lists(CALLS, max_size=3))
def test_a_file_of_calls_is_read_again_line_by_line(records: list[ToolCall]) -> None:
    raw = b"".join(calls.encode_lines(records))
    assert raw.count(b"\n") == len(records)
    assert list(calls.decode_lines(raw, ToolCall)) == records


def test_a_line_is_cut_at_its_newline_alone_and_blank_ones_are_passed_over() -> None:
    record = call(args={"text": "a\u2028b\x0bc"})
    [line] = calls.encode_lines([record])
    assert list(calls.decode_lines(b"\n" + line + b"  \n" + line.rstrip(b"\n"), ToolCall)) == [record, record]


@pytest.mark.parametrize(
    ("line", "path", "said"),
    [
        (b'{"callId": 1}', "$", "line 3: "),
        (b"{oops", "$", "line 3: "),
        (b'{"callId": "\xff"}', "$", "line 3: not UTF-8"),
    ],
)
def test_a_line_that_is_no_call_is_named_by_its_number(line: bytes, path: str, said: str) -> None:
    [good] = calls.encode_lines([call()])
    found = calls.decode_lines(good + b"\n" + line + b"\n", ToolCall)
    assert next(found) == call()
    with pytest.raises(Untrusted) as refused:
        next(found)
    assert refused.value.reason.startswith(said)


# CALL and the settlement


@FEW
@given(CALLS, settlements())
def test_a_settlement_comes_back_from_its_result_but_for_the_error_of_a_skip(
    made: ToolCall, settlement: Settlement
) -> None:
    found = calls.settlement_of(calls.result_of(made, settlement))
    if settlement.end == "skipped":  # CALL writes no error for it
        assert (found.phase, found.end, found.denied_reason) == ("pre_dispatch", "skipped", settlement.denied_reason)
        assert found.error is not None
        assert found.error.message == (settlement.user_message or (settlement.error and settlement.error.message))
    else:
        assert found == msgspec.structs.replace(settlement, call_id=made.call_id)


@FEW
@given(CALLS, settlements())
def test_a_result_comes_back_from_its_settlement(made: ToolCall, settlement: Settlement) -> None:
    result = calls.result_of(made, settlement)
    assert calls.result_of(made, calls.settlement_of(result)) == result


def test_a_result_belongs_to_the_attempt_of_its_call() -> None:
    made = call(call_id="c7", run_id="r7", step_id="s7", tool="T7", attempt=3, provider_call_id="toolu_7")
    found = calls.result_of(made, settled("fits"))
    assert (found.call_id, found.run_id, found.step_id, found.tool) == ("c7", "r7", "s7", "T7")
    assert (found.attempt, found.provider_call_id) == (3, "toolu_7")


def test_a_success_needs_none_of_our_own_fields() -> None:
    found = calls.encode(calls.result_of(call(), settled("fits", data={})))
    assert not found.keys() & {
        "phase",
        "deniedReason",
        "dataRef",
        "wasCoerced",
        "deadlineAt",
        "providerCallId",
        "error",
    }


def test_a_refused_call_is_told_like_this() -> None:
    result = calls.result_of(call(), settled("policy_denied", was_coerced=True, deadline_at=AT))
    assert calls.encode(result) == {
        "callId": "c1",
        "runId": "r1",
        "stepId": "s1",
        "tool": "ExecCommand",
        "attempt": 1,
        "status": "error",
        "ok": False,
        "error": {
            "code": "POLICY_DENIED",
            "message": "this is policy_denied",
            "retryable": False,
            "kind": "policy_denied",
        },
        "startedAt": AT,
        "endedAt": AT,
        "durationMs": 0,
        "phase": "pre_dispatch",
        "deniedReason": "pre_hook",
        "wasCoerced": True,
        "deadlineAt": AT,
    }


def test_a_large_output_is_written_by_reference() -> None:
    stored = StoredOutput(artifact_id="a1", summary="40 rows", size_bytes=13_000)
    result = calls.result_of(call(), settled("large", data=None, stored=stored, data_hash="sha256:ab"))
    written = calls.encode(result)
    assert written["dataRef"] == {"artifactId": "a1", "summary": "40 rows", "sizeBytes": 13_000}
    assert written["dataHash"] == "sha256:ab"
    assert "data" not in written


@pytest.mark.parametrize("name", ["duplicate", "blocked"])
def test_a_skip_gives_its_reason_in_the_user_message(name: str) -> None:
    result = calls.result_of(call(), settled(name))
    assert (result.error, result.user_message) == (None, f"this is {name}")
    told = calls.result_of(call(), settled(name, user_message="Already done."))
    assert told.user_message == "Already done."
    silent = ToolError(kind="duplicate_tool_call", message="", retryable=False)
    assert calls.result_of(call(), settled("duplicate", error=silent)).user_message == "duplicate_tool_call"
    found = calls.settlement_of(result).error
    assert found is not None
    assert found.kind == settled(name).error.kind  # type: ignore[union-attr]


def foreign(status: str, error: dict[str, Any] | None = None, **fields: Any) -> Settlement:
    document = {"callId": "c", "runId": "r", "stepId": "s", "tool": "T", "attempt": 1, "status": status, "ok": False}
    document |= {"startedAt": AT, "endedAt": AT, "durationMs": 4} | ({"error": error} if error else {}) | fields
    return calls.settlement_of(calls.decode(document, ToolResult))


@pytest.mark.parametrize(
    ("status", "code", "row", "kind", "retryable"),
    [
        ("error", "VALIDATION_ERROR", ("pre_dispatch", "error", "validation"), "validation_error", False),
        ("error", "POLICY_DENIED", ("pre_dispatch", "error", "pre_hook"), "policy_denied", False),
        ("error", "NOT_FOUND", ("executed", "error", None), "not_found", False),
        ("error", "CONFLICT", ("executed", "error", None), "conflict", False),
        ("error", "PRECONDITION_FAILED", ("executed", "error", None), "precondition_failed", False),
        ("error", "INTERNAL_ERROR", ("executed", "error", None), "internal_error", False),
        ("error", "NETWORK_FAILED", ("executed", "error", None), "network_failed", True),
        ("timeout", "TIMEOUT", ("executed", "timeout", None), "timeout", False),
        ("cancelled", "CANCELLED", ("executed", "cancelled", None), "cancelled", True),
        ("skipped", "E_SKIP", ("pre_dispatch", "skipped", "duplicate"), "e_skip", False),
    ],
)
def test_a_foreign_result_is_settled_by_its_code(
    status: str, code: str, row: tuple[Any, ...], kind: str, *, retryable: bool
) -> None:
    found = foreign(status, {"code": code, "message": "m"})
    assert (found.phase, found.end, found.denied_reason) == row
    assert found.error == ToolError(kind=kind, message="m", retryable=retryable)
    assert found.code == code


def test_a_foreign_code_is_kept_as_it_was_written() -> None:
    assert foreign("error", {"code": "E_Odd", "message": "m"}).recorded_code == "E_Odd"
    assert foreign("error", {"code": "NOT_FOUND", "message": "m"}).recorded_code is None


@pytest.mark.parametrize("said", [True, False])
def test_what_a_foreign_result_says_of_retrying_counts(*, said: bool) -> None:
    assert foreign("error", {"code": "NETWORK_FAILED", "message": "m", "retryable": said}).retryable is said


def test_a_foreign_skip_without_a_reason_says_no_more_than_that() -> None:
    found = foreign("skipped", userMessage="not needed")
    assert found.error == ToolError(kind="skipped", message="not needed", retryable=False)


def test_a_denial_alone_says_that_the_call_never_ran() -> None:
    found = foreign("timeout", {"code": "TIMEOUT", "message": "m"}, deniedReason="deadline")
    assert (found.phase, found.denied_reason) == ("pre_dispatch", "deadline")


# Outcomes

AGO = st.integers(-(2**40), 2**40).map(lambda microseconds: microseconds / 1_000_000)
SPAN = st.integers(0, 2**31)
OUTCOMES = st.one_of(
    st.builds(
        ToolExecutionResult, call_id=NAME, tool_name=NAME, output=OBJECT, elapsed_ms=SPAN, was_coerced=st.booleans()
    ),
    st.builds(ToolTimeout, call_id=NAME, tool_name=NAME, deadline_s=AGO, elapsed_ms=SPAN, retryable=st.booleans()),
    st.builds(ToolFailure, call_id=NAME, tool_name=NAME, error=TEXT, retryable=st.booleans(), elapsed_ms=SPAN),
    st.just(ToolFailure("c1", "T", "cancelled")),
    st.builds(ToolDenied, call_id=NAME, tool_name=NAME, reason=st.sampled_from(sorted(DENIAL_GATES)), details=TEXT),
    st.builds(
        ToolArtifactReference,
        **dict.fromkeys(("call_id", "tool_name", "artifact_id"), NAME),
        summary=st.text(min_size=1, max_size=200),
        size_bytes=COUNT,
    ),
)


@FEW
@given(OUTCOMES)
def test_any_outcome_comes_back_from_its_settlement(outcome: Any) -> None:
    settlement = outcomes.decode(outcome, ended_at=AT)
    assert outcomes.encode(settlement, canonical_of(settlement, outcome.tool_name), MemorySink()) == outcome


def test_a_settlement_of_an_outcome_ends_when_it_is_told_to() -> None:
    found = outcomes.decode(ToolExecutionResult("c1", "T", {}, 1_500, was_coerced=True), ended_at=AT)
    assert (found.started_at, found.ended_at, found.duration_ms) == ("2025-12-16T18:11:59.500000+00:00", AT, 1_500)
    assert found.was_coerced


def test_a_timeout_carries_its_deadline_as_a_point_in_time() -> None:
    found = outcomes.decode(ToolTimeout("c1", "T", 1765908721.25, 10, retryable=False), ended_at=AT)
    assert found.deadline_at == "2025-12-16T18:12:01.250000Z"
    assert found.error == ToolError(
        kind="tool_timed_out", message="Tool execution timed out after 10 ms.", retryable=False
    )
    assert outcomes.encode(settled("timed_out"), canonical_of(settled("timed_out")), MemorySink()) == ToolTimeout(
        "c1", "ExecCommand", 1765908721.0, 0, retryable=False
    )


def test_an_operators_cancel_is_a_failure_that_may_be_retried_whatever_was_stored() -> None:
    stored = settled("cancelled", error=ToolError(kind="cancelled", message="by olga", retryable=False), duration_ms=9)
    assert outcomes.encode(stored, canonical_of(stored), MemorySink()) == ToolFailure(
        "c1", "ExecCommand", "cancelled", retryable=True, elapsed_ms=9
    )


def test_a_failure_keeps_its_words_and_its_time() -> None:
    stored = settled("tool_error", duration_ms=9)
    assert outcomes.encode(stored, canonical_of(stored), MemorySink()) == ToolFailure(
        "c1", "ExecCommand", "this is tool_error", retryable=False, elapsed_ms=9
    )


def test_a_large_output_is_referred_to_by_the_familys_first_artifact() -> None:
    settlement = settled("large")
    canonical = msgspec.structs.replace(canonical_of(settlement), artifacts=(ArtifactRef("a/0"), ArtifactRef("a/1")))
    sink = MemorySink()
    found = outcomes.encode(settlement, canonical, sink)
    assert found == ToolArtifactReference("c1", "ExecCommand", "a/0", "it ran", 12_001)
    assert not sink.texts


def test_a_large_output_without_an_artifact_is_kept_whole() -> None:
    sink = MemorySink()
    found = outcomes.encode(settled("large"), canonical_of(settled("large")), sink)
    assert isinstance(found, ToolArtifactReference)
    assert sink.texts == {found.artifact_id: json.dumps(output_of(12_001))}


def test_a_stored_output_without_a_summary_takes_the_envelopes() -> None:
    settlement = settled("large", data=None, stored=StoredOutput(artifact_id="a1", size_bytes=5))
    assert outcomes.encode(settlement, canonical_of(settlement), MemorySink()) == ToolArtifactReference(
        "c1", "ExecCommand", "a1", "it ran", 5
    )


# Holon


def envelope(result: Any, *paths: str) -> CanonicalResult:
    artifacts = tuple(ArtifactRef(path) for path in paths)
    return CanonicalResult(tool_name="T", status="success", summary_text="s", result=result, artifacts=artifacts)


PATHS = st.lists(NAME.map(ArtifactRef), max_size=3).map(tuple)
# Results that look like those with artifacts in them, and ones that have them already.
POINTING = st.recursive(
    JSON,
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["task", "artifacts", "stdout_artifact", "path", "items"]),
            inner | st.integers(0, 3) | st.just([{"path": "p"}]),
            max_size=3,
        )
        | st.lists(inner, max_size=2)
    ),
    max_leaves=6,
)
CANONICALS = st.builds(
    CanonicalResult,
    tool_name=NAME,
    status=st.just("success"),
    summary_text=NAME,
    result=POINTING.filter(lambda value: value is not None),
    artifacts=PATHS,
) | st.builds(
    CanonicalResult,
    tool_name=NAME,
    status=st.just("error"),
    summary_text=NAME,
    error=st.builds(
        ToolError,
        kind=NAME,
        message=TEXT,
        details=st.none() | OBJECT,
        recovery_hint=MAYBE_TEXT,
        retryable=st.booleans(),
    ),
    artifacts=PATHS,
)


@FEW
@given(CANONICALS)
def test_any_envelope_comes_back_from_holons(canonical: CanonicalResult) -> None:
    written = holon.encode(canonical)
    assert holon.decode(written) == canonical
    assert None not in written.values()


@pytest.mark.parametrize(
    ("result", "written"),
    [
        (
            {"stdout_preview": "a", "stdout_artifact": 0},
            {"stdout_preview": "a", "stdout_artifact": 0, "artifacts": [{"path": "p"}]},
        ),
        (
            {"retrieval_status": "success", "task": {"task_id": "t1", "output_artifact": 0}},
            {
                "retrieval_status": "success",
                "task": {"task_id": "t1", "output_artifact": 0, "artifacts": [{"path": "p"}]},
            },
        ),
        ({"a": None, "b": {"c": 1}}, {"a": None, "b": {"c": 1}, "artifacts": [{"path": "p"}]}),
        ({"a": {"x_artifact": True}}, {"a": {"x_artifact": True}, "artifacts": [{"path": "p"}]}),
    ],
)
def test_artifacts_stand_beside_what_points_at_them(result: Any, written: Any) -> None:
    assert holon.encode(envelope(result, "p")) == {
        "tool_name": "T",
        "status": "success",
        "summary_text": "s",
        "result": written,
    }
    assert holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": written}) == envelope(
        result, "p"
    )


def test_an_object_that_stands_in_two_places_gets_its_artifacts_once() -> None:
    shared = {"stdout_artifact": 0}
    canonical = envelope({"first": shared, "second": shared}, "p")
    assert holon.decode(holon.encode(canonical)) == canonical


@pytest.mark.parametrize("result", [[1], "text", {"artifacts": 3}, {"artifacts": [{"path": "own"}]}])
def test_artifacts_without_a_place_in_the_result_stay_at_the_top(result: Any) -> None:
    written = holon.encode(envelope(result, "p"))
    assert written["artifacts"] == [{"path": "p"}]
    assert written["result"] == result


def test_an_errors_artifacts_stay_at_the_top_and_its_nulls_are_left_out() -> None:
    error = ToolError(kind="k", message="m", retryable=False)
    canonical = CanonicalResult(
        tool_name="T", status="error", summary_text="s", error=error, artifacts=(ArtifactRef("p"),)
    )
    assert holon.encode(canonical) == {
        "tool_name": "T",
        "status": "error",
        "summary_text": "s",
        "error": {"kind": "k", "message": "m", "retryable": False},
        "artifacts": [{"path": "p"}],
    }


def test_artifacts_of_several_items_become_one_list_and_their_indexes_move() -> None:
    items = [
        {"index": 1, "result": {"stdout_artifact": 0, "artifacts": [{"path": "a"}]}},
        {
            "index": 2,
            "result": {"stdout_artifact": 0, "stderr_artifact": 1, "artifacts": [{"path": "b"}, {"path": "c"}]},
        },
        {"index": 3, "result": {"stdout_artifact": None}},
    ]
    found = holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": {"items": items}})
    assert found.artifacts == (ArtifactRef("a"), ArtifactRef("b"), ArtifactRef("c"))
    assert found.result == {
        "items": [
            {"index": 1, "result": {"stdout_artifact": 0}},
            {"index": 2, "result": {"stdout_artifact": 1, "stderr_artifact": 2}},
            {"index": 3, "result": {"stdout_artifact": None}},
        ]
    }


def test_artifacts_with_more_than_a_path_belong_to_the_tool() -> None:
    result = {"artifacts": [{"path": "a", "size": 1}], "more": {"artifacts": [{"path": 1}]}}
    assert holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": result}) == envelope(
        result
    )


@pytest.mark.parametrize(
    ("document", "summary_text"),
    [
        ({"status": "success", "result": {}}, "T gave no summary"),
        ({"status": "error", "error": {"kind": "k", "message": "no\ndisk"}}, "no disk"),
        ({"status": "error", "error": {"kind": "k", "message": ""}}, "T gave no summary"),
    ],
)
def test_a_summary_that_holon_leaves_out_is_filled_in(document: dict[str, Any], summary_text: str) -> None:
    found = holon.decode({"tool_name": "T"} | document)
    assert found.summary_text == summary_text
    assert found.error is None or found.error.retryable is False


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ({"result": {"task": 1}}, {"task": 1, "disposition": "deferred"}),
        ({"result": "soon"}, {"value": "soon", "disposition": "deferred"}),
        ({}, {"disposition": "deferred"}),
    ],
)
def test_a_deferred_call_succeeded_with_that_disposition(said: dict[str, Any], result: Any) -> None:
    found = holon.decode({"tool_name": "T", "status": "deferred", "summary_text": "s"} | said)
    assert found == envelope(result)


@pytest.mark.parametrize(
    ("document", "path", "said"),
    [
        ([], "$", "an envelope is an object"),
        ({"tool_name": 1, "status": "success", "result": 1}, "$.tool_name", "Expected `str`"),
        ({"tool_name": "T", "status": "odd", "result": 1}, "$.status", "Invalid enum value"),
        ({"tool_name": "T", "status": "success"}, "$", "neither a result nor an error"),
        ({"tool_name": "T", "result": 1}, "$", "missing required field"),
        ({"tool_name": "T", "status": "success", "result": 1, "artifacts": [{}]}, "$.artifacts[0]", "missing required"),
    ],
)
def test_what_is_no_envelope_is_refused(document: Any, path: str, said: str) -> None:
    with pytest.raises(Untrusted) as refused:
        holon.decode(document)
    assert refused.value.path == path
    assert said in refused.value.reason


# Content blocks


def test_a_receipt_is_one_text_block_and_its_artifacts() -> None:
    receipt = Receipt((TextPart((Segment("Exit ", "label"), Segment("0", "value"))),))
    assert content_blocks.encode(ContentBlocks(receipt)) == {"content": [{"type": "text", "text": "Exit 0"}]}
    assert content_blocks.encode(ContentBlocks(receipt, (ArtifactRef("a"),))) == {
        "content": [{"type": "text", "text": "Exit 0"}],
        "artifacts": [{"path": "a"}],
    }


def test_a_tool_use_block_is_kept_untouched() -> None:
    used = {"type": "tool_use", "id": "toolu_1", "name": "T", "input": {"n": 2**70, "text": "\ud800"}}
    found = content_blocks.decode({"content": [used]})
    [part] = found.receipt.parts
    assert isinstance(part, OtherPart)
    assert part.kind == "tool_use"
    assert content_blocks.encode(found) == {"content": [used]}


def test_an_image_is_read_as_one() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8h"}
    found = content_blocks.decode({"content": [{"type": "image", "source": source}]})
    assert found.receipt.parts == (ImagePart("image/png", "aGVsbG8h", 6),)


def test_a_text_in_place_of_blocks_is_one_block() -> None:
    assert content_blocks.decode({"content": "done", "artifacts": None}).receipt.text == "done"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": 1},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa", "more": 1}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}, "more": 1},
        {"type": "thinking", "thinking": "…"},
    ],
)
def test_a_block_that_no_part_holds_whole_is_kept_as_its_json(block: dict[str, Any]) -> None:
    found = content_blocks.decode({"content": [block]})
    assert isinstance(found.receipt.parts[0], OtherPart)
    assert content_blocks.encode(found) == {"content": [block]}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$"),
        ({"text": "a"}, "$"),
        ({"content": 3}, "$.content"),
        ({"content": [{"type": "text", "text": "a"}, "b"]}, "$.content[1]"),
        ({"content": [{"text": "a"}]}, "$.content[0]"),
        ({"content": [], "artifacts": [{"name": "a"}]}, "$.artifacts"),
    ],
)
def test_what_is_no_list_of_blocks_is_refused(document: Any, path: str) -> None:
    with pytest.raises(Untrusted) as refused:
        content_blocks.decode(document)
    assert refused.value.path == path


BLOCKS = st.builds(
    ContentBlocks,
    st.lists(
        st.builds(lambda text: TextPart((Segment(text, "label"),)), ODD_TEXT)
        | st.builds(lambda data: ImagePart("image/png", data, len(data) * 3 // 4), TEXT)
        | st.builds(lambda used: OtherPart("tool_use", dump({"type": "tool_use", "input": used}).decode()), OBJECT),
        max_size=4,
    ).map(lambda parts: Receipt(tuple(parts))),
    PATHS,
)


@FEW
@given(BLOCKS)
def test_any_receipt_comes_back_from_its_blocks(blocks: ContentBlocks) -> None:
    assert content_blocks.decode(content_blocks.encode(blocks)) == blocks


@FEW
@given(st.lists(st.lists(st.builds(Segment, TEXT, st.just("value")), max_size=3), max_size=3))
def test_a_receipt_of_texts_never_becomes_a_tool_use(texts: list[list[Segment]]) -> None:
    receipt = Receipt(tuple(TextPart(tuple(segments)) for segments in texts))
    written = content_blocks.encode(ContentBlocks(receipt))
    assert {block["type"] for block in written["content"]} <= {"text"}  # type: ignore[union-attr,index,call-overload]
    assert content_blocks.decode(written).receipt.text == receipt.text
