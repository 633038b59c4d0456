"""The events that an executor reports while it works (CALL 3.3).

ExecutionEvent   one line for progress, logs and telemetry
check_events     the problems of a run's events in their order, in sentences
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from envelopes.schema.timestamps import check_instant

EventType: TypeAlias = Literal[
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
]
Level: TypeAlias = Literal["info", "warn", "error"]

EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
_CLOSING = ("step.finished", "step.failed")
_RUN_ENDS = ("run.finished", "run.cancelled")


class InvalidEvent(ValueError):
    """An event that breaks an invariant; the message begins with the field."""


class ExecutionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run, a step or a call.

    `seq` counts a run's events from 1 without a gap, where the source numbers them (OD-25). The event of a
    step has its `step_id`; the event of a call has the call's step as well.

    >>> event = ExecutionEvent(
    ...     type="run.started", run_id="r1", timestamp="2026-01-05T10:00:00Z", level="info", message="Run started"
    ... )
    >>> event.call_id is None
    True
    """

    type: EventType
    run_id: str
    timestamp: str
    level: Level
    message: str
    call_id: str | None = None
    step_id: str | None = None
    tool: str | None = None
    payload: dict[str, Any] | None = None
    seq: int | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check_instant("timestamp", self.timestamp)
        for name in ("run_id", "message"):
            if not getattr(self, name):
                raise InvalidEvent(f"{name}: empty")
        if self.seq is not None and self.seq < 1:
            raise InvalidEvent(f"seq: {self.seq} is less than 1")
        if not self.step_id and (self.type.startswith("step.") or self.call_id):
            raise InvalidEvent(f"step_id: missing from a {self.type} event")


def check_events(events: Sequence[ExecutionEvent], calls: Iterable[str]) -> list[str]:
    """The problems of one whole run's events; `calls` are the ids of its calls (CALL-072, CALL-073)."""
    return [
        *_numbering_problems(events),
        *_run_problems([event.type for event in events]),
        *(
            problem
            for call in calls
            for problem in _call_problems(call, [event.type for event in events if event.call_id == call])
        ),
    ]


def _numbering_problems(events: Sequence[ExecutionEvent]) -> Iterable[str]:
    numbers = [event.seq for event in events if event.seq is not None]
    if numbers and numbers != list(range(1, len(events) + 1)):
        yield "seq: the numbers have a gap, a repetition or another order"


def _run_problems(types: list[EventType]) -> Iterable[str]:
    if types[:1] != ["run.started"] or types.count("run.started") != 1:
        yield "a run begins with run.started, once"
    if not types or types[-1] not in _RUN_ENDS or sum(kind in _RUN_ENDS for kind in types) != 1:
        yield "a run ends with run.finished or run.cancelled, once"
    if "run.confirmed" in types and "run.confirmationRequested" not in types[: types.index("run.confirmed")]:
        yield "run.confirmed without an earlier run.confirmationRequested"


def _call_problems(call: str, types: list[EventType]) -> Iterable[str]:
    """A call has one start, then one end. Progress after the end is allowed: it reports a late result (OD-8)."""
    starts = [at for at, kind in enumerate(types) if kind == "step.started"]
    ends = [at for at, kind in enumerate(types) if kind in _CLOSING]
    if len(starts) != 1:
        yield f"{call}: step.started {len(starts)} times"
    if len(ends) != 1:
        yield f"{call}: step.finished or step.failed {len(ends)} times"
    if starts and ends and ends[0] < starts[0]:
        yield f"{call}: ended before it started"
    if starts and "step.progress" in types[: starts[0]]:
        yield f"{call}: step.progress before step.started"
