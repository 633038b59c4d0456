"""Calls, results and events: the fields of the specification, the values that are refused, and an order of events."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from envelopes.schema.call import (
    EVENT_TYPES,
    CallError,
    ExecutionEvent,
    InvalidCall,
    InvalidEvent,
    Iteration,
    Level,
    Limits,
    ToolCall,
    ToolResult,
    check_events,
)
from envelopes.schema.settlement import StoredOutput
from envelopes.schema.timestamps import (
    check_instant,
    epoch_seconds,
    format_instant,
    parse_instant,
    subtract_milliseconds,
)
from envelopes.schema.tool import RiskLevel
from tests.envelopes.settled import AT, call

FAILED = CallError(code="NOT_FOUND", message="no such file")
TIMED_OUT = CallError(code="TIMEOUT", message="too slow")
CANCELLED = CallError(code="CANCELLED", message="stopped")


def result(**fields: Any) -> ToolResult:
    known: dict[str, Any] = {
        "call_id": "c1",
        "run_id": "r1",
        "step_id": "s1",
        "tool": "T",
        "attempt": 1,
        "status": "ok",
        "ok": True,
        "data": {},
        "started_at": AT,
        "ended_at": AT,
        "duration_ms": 0,
    }
    return ToolResult(**known | fields)


def failed(status: str, error: CallError | None, **fields: Any) -> ToolResult:
    return result(status=status, ok=False, data=None, error=error, **fields)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *[
            ({name: ""}, f"{name}: empty")
            for name in ("call_id", "run_id", "step_id", "tool", "executor_version", "tool_registry_version")
        ],
        ({"attempt": 0}, "attempt: 0 is less than 1"),
        ({"timeout_ms": 0}, "timeout_ms: 0 is less than 1"),
        ({"created_at": "today"}, "created_at: 'today' is not an ISO 8601 time"),
        ({"deadline_at": "2025-12-16T18:12"}, "deadline_at: "),
    ],
)
def test_a_call_that_says_something_odd_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        call(**changed)


def test_the_first_attempt_and_the_shortest_timeout_are_one() -> None:
    assert (call(attempt=1).attempt, call(timeout_ms=1).timeout_ms) == (1, 1)


def test_what_was_not_given_is_none() -> None:
    optional = "args_hash timeout_ms deadline_at iteration loop_id planner_version preview category confirmation_id"
    bare = call()
    assert [getattr(bare, name) for name in (*optional.split(), "provider_call_id")] == [None] * 10


def test_the_provider_has_an_id_of_its_own() -> None:
    assert call(provider_call_id="toolu_1").call_id == "c1"


@pytest.mark.parametrize("risk", get_args(RiskLevel))
def test_a_risk_level_is_one_of_three(risk: Any) -> None:
    assert get_args(RiskLevel) == ("read-only", "writes", "commands")
    stored = msgspec.to_builtins(call(risk_level=risk))
    assert msgspec.convert(stored, ToolCall).risk_level == risk
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'none'"):
        msgspec.convert(stored | {"risk_level": "none"}, ToolCall)


def test_counts_are_not_negative() -> None:
    assert (Iteration(index=0, item_name="item", item_value=None).index, Limits(max_steps=0).max_steps) == (0, 0)
    with pytest.raises(InvalidCall, match="index: -1"):
        Iteration(index=-1, item_name="item", item_value=None)
    with pytest.raises(InvalidCall, match="max_run_ms: -1"):
        Limits(max_run_ms=-1)


@pytest.mark.parametrize(
    "sound",
    [
        result(),
        result(data=None, data_ref=StoredOutput(artifact_id="a1")),
        failed("error", FAILED),
        failed("timeout", TIMED_OUT),
        failed("cancelled", CANCELLED),
        failed("skipped", None, user_message="already done"),
        failed("skipped", FAILED),
    ],
)
def test_a_result_is_ok_exactly_when_its_status_is(sound: ToolResult) -> None:
    assert sound.ok == (sound.status == "ok")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ok": False}, "ok: False beside status 'ok'"),
        ({"status": "error", "error": FAILED, "data": None}, "ok: True beside status 'error'"),
        ({"data": None}, "data: a result that is ok has its data"),
        ({"data_ref": StoredOutput(artifact_id="a1")}, "data: a result that is ok has its data"),
        ({"error": FAILED}, "error: in a result that is ok"),
        ({"call_id": ""}, "call_id: empty"),
        ({"run_id": ""}, "run_id: empty"),
        ({"step_id": ""}, "step_id: empty"),
        ({"tool": ""}, "tool: empty"),
        ({"attempt": 0}, "attempt: 0"),
        ({"duration_ms": -1}, "duration_ms: -1"),
        ({"started_at": "x"}, "started_at: "),
        ({"ended_at": "x"}, "ended_at: "),
        ({"deadline_at": "x"}, "deadline_at: "),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        result(**changed)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ("error", None, "error: missing in a result whose status is 'error'"),
        ("timeout", None, "error: missing"),
        ("cancelled", None, "error: missing"),
        ("skipped", None, "user_message: a skipped result"),
        ("error", TIMED_OUT, "error: code 'TIMEOUT' beside status 'error'"),
        ("error", CANCELLED, "error: code 'CANCELLED' beside status 'error'"),
        ("timeout", FAILED, "error: code 'NOT_FOUND' beside status 'timeout'"),
        ("timeout", CANCELLED, "error: code 'CANCELLED' beside status 'timeout'"),
        ("cancelled", FAILED, "error: code 'NOT_FOUND' beside status 'cancelled'"),
    ],
)
def test_a_failed_result_has_the_error_that_its_status_requires(
    status: str, error: CallError | None, message: str
) -> None:
    with pytest.raises(InvalidCall, match=f"^{message}"):
        failed(status, error)


@pytest.mark.parametrize("payload", [{"data": {}}, {"data_ref": StoredOutput(artifact_id="a1")}])
def test_a_failed_result_has_no_data(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall, match="data: in a result whose status is 'error'"):
        result(**{"status": "error", "ok": False, "data": None, "error": FAILED} | payload)


@pytest.mark.parametrize(
    "text", ["2025-12-16T18:12:00Z", "2025-12-16T18:12:00.123456+02:00", "20251216T181200Z", "9999-12-31T00:00:00Z"]
)
def test_a_time_with_an_offset_is_a_point_in_time(text: str) -> None:
    check_instant("at", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2025-12-16",
        "2025-12-16T18:12:00",
        "2025-13-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "2025-12-16T18:12:00Z\0",
    ],
)
def test_a_text_that_names_no_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^at: "):
        check_instant("at", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01t00:00:00z", 0.0),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:60Z", 60.0),
        ("1970-01-01T01:00:60.5+01:00", 60.5),
        ("1970-01-01 00:00:01-00:00", 1.0),
    ],
)
def test_each_form_of_rfc_3339_is_read(text: str, seconds: float) -> None:
    check_instant("at", text)
    instant = parse_instant(text)
    assert instant is not None
    assert (instant.timestamp(), epoch_seconds(text)) == (seconds, seconds)


def test_a_point_in_time_is_the_same_in_seconds_to_the_microsecond() -> None:
    assert epoch_seconds("2025-12-16T18:12:00.123456Z") == 1765908720.123456
    assert format_instant(1765908720.123456) == "2025-12-16T18:12:00.123456Z"
    assert subtract_milliseconds("2025-12-16T19:12:00+01:00", 1_500) == "2025-12-16T18:11:58.500000+00:00"
    with pytest.raises(ValueError, match="is not a point in time"):
        format_instant(1e30)


def event(kind: Any, **fields: Any) -> ExecutionEvent:
    step = {"step_id": "s1", "call_id": "c1"} if kind.startswith("step.") else {}
    known = {"type": kind, "run_id": "r1", "timestamp": AT, "level": "info", "message": kind}
    return ExecutionEvent(**known | step | fields)


def story(*kinds: str) -> list[ExecutionEvent]:
    return [event(kind) for kind in ("run.started", *kinds, "run.finished")]


def test_there_are_ten_types() -> None:
    assert EVENT_TYPES == (
        "run.started",
        "run.confirmationRequested",
        "run.confirmed",
        "run.cancelled",
        "step.scheduled",
        "step.started",
        "step.progress",
        "step.finished",
        "step.failed",
        "run.finished",
    )


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_each_type_is_read(kind: str) -> None:
    stored = msgspec.to_builtins(event(kind))
    assert msgspec.convert(stored, ExecutionEvent).type == kind


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"type": "step.paused"}, "Invalid enum value 'step.paused'"),
        ({"level": "debug"}, "Invalid enum value 'debug'"),
        ({"timestamp": "later"}, "timestamp: 'later' is not an ISO 8601 time"),
        ({"run_id": ""}, "run_id: empty"),
        ({"message": ""}, "message: empty"),
        ({"seq": 0}, "seq: 0 is less than 1"),
        ({"step_id": None, "call_id": None}, "step_id: missing from a step.started event"),
        ({"step_id": ""}, "step_id: missing from a step.started event"),
        ({"payload": [1]}, "Expected `object | null`"),
    ],
)
def test_an_odd_event_is_refused(changed: dict[str, Any], message: str) -> None:
    stored = msgspec.to_builtins(event("step.started"))
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(stored | changed, ExecutionEvent)


def test_a_call_belongs_to_a_step() -> None:
    with pytest.raises(InvalidEvent, match="step_id: missing from a run.cancelled event"):
        event("run.cancelled", call_id="c1")


@pytest.mark.parametrize("level", get_args(Level))
def test_a_level_is_one_of_three(level: str) -> None:
    assert get_args(Level) == ("info", "warn", "error")
    assert event("run.started", level=level, seq=1).level == level


def test_what_an_event_need_not_say_is_none() -> None:
    bare = event("run.started")
    assert (bare.call_id, bare.step_id, bare.tool, bare.payload, bare.seq) == (None,) * 5


@pytest.mark.parametrize(
    "kinds",
    [
        ("step.scheduled", "step.started", "step.progress", "step.progress", "step.finished"),
        ("run.confirmationRequested", "run.confirmed", "step.started", "step.failed"),
        ("step.started", "step.failed", "step.progress"),
    ],
)
def test_a_sound_story_has_no_problems(kinds: tuple[str, ...]) -> None:
    assert check_events(story(*kinds), ["c1"]) == []


def test_a_run_may_be_cancelled_instead_of_finished() -> None:
    assert check_events([event("run.started", seq=1), event("run.cancelled", seq=2)], []) == []


@pytest.mark.parametrize(
    ("kinds", "problems"),
    [
        ((), ["c1: step.started 0 times", "c1: step.finished or step.failed 0 times"]),
        (("step.finished",), ["c1: step.started 0 times"]),
        (("step.started",), ["c1: step.finished or step.failed 0 times"]),
        (("step.started", "step.finished", "step.failed"), ["c1: step.finished or step.failed 2 times"]),
        (("step.started", "step.started", "step.finished"), ["c1: step.started 2 times"]),
        (("step.finished", "step.started"), ["c1: ended before it started"]),
        (("step.progress", "step.started", "step.finished"), ["c1: step.progress before step.started"]),
        (
            ("run.confirmed", "step.started", "step.finished"),
            ["run.confirmed without an earlier run.confirmationRequested"],
        ),
    ],
)
def test_each_call_starts_once_and_then_ends_once(kinds: tuple[str, ...], problems: list[str]) -> None:
    assert check_events(story(*kinds), ["c1"]) == problems


def test_another_calls_events_prove_nothing() -> None:
    events = story("step.started", "step.finished")
    assert check_events(events, ["c2"]) == ["c2: step.started 0 times", "c2: step.finished or step.failed 0 times"]


BEGINNING, ENDING = "a run begins with run.started, once", "a run ends with run.finished or run.cancelled, once"


@pytest.mark.parametrize(
    ("kinds", "problems"),
    [
        ((), [BEGINNING, ENDING]),
        (("run.finished",), [BEGINNING]),
        (("run.started",), [ENDING]),
        (("run.started", "run.started", "run.finished"), [BEGINNING]),
        (("run.started", "run.cancelled", "run.finished"), [ENDING]),
        (("run.started", "run.finished", "run.confirmationRequested"), [ENDING]),
    ],
)
def test_a_run_has_one_beginning_and_one_end(kinds: tuple[str, ...], problems: list[str]) -> None:
    assert check_events([event(kind) for kind in kinds], []) == problems


@pytest.mark.parametrize(("numbers", "sound"), [((1, 2), True), ((1, 3), False), ((2, 1), False), ((None, 1), False)])
def test_the_numbers_of_a_run_have_no_gap(numbers: tuple[int | None, int], *, sound: bool) -> None:
    events = [event("run.started", seq=numbers[0]), event("run.finished", seq=numbers[1])]
    assert (check_events(events, []) == []) is sound
