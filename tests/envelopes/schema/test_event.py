"""Events: ten types, three levels, and the order of a run's events."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from envelopes.schema.event import EVENT_TYPES, ExecutionEvent, InvalidEvent, Level, check_events
from tests.envelopes.settled import AT


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
