"""Dispatches calls: gates, record, run, deadline, settlement. The executor of plans and the turn loop share it.

    Environment   time, ids, chance and workers, given from outside so that a test decides them
    RunClock      the times of one run: a wall clock that never goes back
    EventLog      the events of a run, numbered without a gap (OD-25)
    Dispatcher    `start` begins a call or refuses it, `wait` returns the calls that ended, `report` writes their event

Each call is settled exactly once, whatever its tool does. Every attempt has a deadline; what a tool answers later is
recorded as a `step.progress` event with `late_result` and changes nothing (OD-8).
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import msgspec

from envelopes.codecs import call as codec
from envelopes.plan.effects import EffectsObserver, merge
from envelopes.plan.gates import Admitted, Denied, Gates, Hook, allow
from envelopes.plan.recorders import Recorder
from envelopes.plan.redaction import find_texts, mask, mask_text, redact_call, redact_error, redact_result
from envelopes.plan.steps import NextAttempt
from envelopes.plan.tool_answers import (
    FAILED,
    TIMED_OUT,
    SettledCall,
    Tool,
    ToolFailed,
    fail,
    find_end,
    json_object,
    read_finished,
    result_data,
)
from envelopes.plan.workers import CallContext, Finished, Progress, Report, ThreadWorkers, Workers
from envelopes.schema.call import EventType, ExecutionEvent, Level, ToolCall, ToolResult
from envelopes.schema.outcome import CANCELLED
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.schema.settlement import Effects, End, Settlement
from envelopes.schema.timestamps import format_instant
from envelopes.schema.tool import ToolDefinition
from envelopes.text.canonical_json import NotCanonical, named_hash

DEFAULT_TIMEOUT_MS = 600_000  # of an attempt that nobody gave a timeout, so that none can hang for ever
GRACE_MS = 2_000  # that a cancelled call has to end by itself


@dataclass(frozen=True)
class Environment:
    """`now` is in seconds since 1970, `steady` a clock that never goes back; `chance` returns numbers from 0 to 1."""

    now: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = lambda: str(uuid4())
    chance: Callable[[], float] = random.random
    make_workers: Callable[[], Workers] = ThreadWorkers


class RunClock:
    """The wall clock of a run: the time at its start plus what passed on the steady clock (OD-32).

    A wall clock that is set back would let a call begin before its confirmation.
    """

    def __init__(self, environment: Environment) -> None:
        self.steady = environment.steady
        self._start, self._steady_start = environment.now(), environment.steady()

    def now(self) -> float:
        return self._start + self.steady() - self._steady_start

    def stamp(self, seconds: float | None = None) -> str:
        return format_instant(self.now() if seconds is None else seconds, timespec="milliseconds")


class EventLog:
    def __init__(self, run_id: str, recorder: Recorder, clock: RunClock) -> None:
        self.run_id, self._recorder, self._clock, self._count = run_id, recorder, clock, 0

    def emit(
        self,
        kind: EventType,
        message: str,
        *,
        level: Level = "info",
        call: ToolCall | None = None,
        step_id: str | None = None,
        tool: str | None = None,
        payload: dict[str, Any] | None = None,
    ) -> None:
        self._count += 1
        event = ExecutionEvent(
            type=kind,
            run_id=self.run_id,
            timestamp=self._clock.stamp(),
            level=level,
            message=message,
            call_id=call.call_id if call else None,
            step_id=call.step_id if call else step_id,
            tool=call.tool if call else tool,
            payload=payload,
            seq=self._count,
        )
        self._recorder.add(event)


@dataclass
class _Flight:
    """A call that runs. `due_s` and `cancel_due_s` are on the steady clock."""

    call: ToolCall
    tool: Tool
    admitted: Admitted
    context: CallContext
    started_at: str
    started_s: float
    due_s: float
    secrets: frozenset[str]
    cancel_due_s: float | None = None

    @property
    def writes(self) -> bool:
        return self.tool.definition.risk != "read-only"

    @property
    def end_s(self) -> float:
        return self.due_s if self.cancel_due_s is None else min(self.due_s, self.cancel_due_s)


@dataclass
class Dispatcher:
    """The calls of one run or turn. Used by one thread; tools run on the workers.

    `assistant_text` is what the model wrote beside the calls that are started next. The hooks of the gates run on the
    workers, too, with the deadline of their call; `is_cancelled` ends the wait for one. With `answers_faults` a gate
    that raises refuses its call, without it the exception ends the run. `prepare` is called with each call that ran
    before its result is recorded; one for which it raises has failed. `describe` gives further members of the record.
    """

    tools: Mapping[str, Tool]
    gates: Gates
    log: EventLog
    recorder: Recorder
    workers: Workers
    clock: RunClock
    observer: EffectsObserver | None = None
    grace_ms: int = GRACE_MS
    assistant_text: str = ""
    is_cancelled: Callable[[], bool] = lambda: False
    answers_faults: bool = False
    prepare: Callable[[SettledCall], None] = lambda _settled: None
    describe: Callable[[SettledCall], dict[str, Any]] = lambda _settled: {}
    _flights: dict[str, _Flight] = field(default_factory=dict)
    _late: dict[str, _Flight] = field(default_factory=dict)
    _settled: list[SettledCall] = field(default_factory=list)  # calls that ended while a hook was waited for

    def __post_init__(self) -> None:
        self.gates.pre_hook = self._limit(self.gates.pre_hook)
        self.gates.approve_write = self._limit(self.gates.approve_write)

    @property
    def in_flight(self) -> int:
        return len(self._flights) + len(self._settled)

    def start(self, call: ToolCall) -> SettledCall | None:
        """Starts a call that the gates admit; one that they refuse is settled and returned."""
        tool = self.tools.get(call.tool)
        recorded, secrets = redact_call(call, tool.definition.sensitive if tool else ())
        if recorded.category is None and tool is not None and tool.family is not None:
            recorded = msgspec.structs.replace(recorded, category=tool.family.name)
        message = recorded.preview or f"{call.tool} is scheduled"
        self.log.emit("step.scheduled", message, call=call, payload=_round(call))
        try:
            decision = self.gates.admit(call)
        except Exception as fault:
            if not self.answers_faults:
                raise
            decision = self.gates.refuse(call, fault)
        if isinstance(decision, Denied):
            return self._refuse(recorded, decision, tool, secrets)
        self._launch(recorded, decision, secrets)
        return None

    def wait(self, until_s: float | None = None) -> list[SettledCall]:
        """Waits for the next answer, deadline or progress, at most until `until_s` on the steady clock.

        Without a call in flight and without `until_s` it returns at once. The list is empty for a wait that ended for
        another reason than the end of a call.
        """
        if self._settled:
            settled, self._settled = self._settled, []
            return settled
        limit = self._next_end(until_s)
        return [] if limit is None else self._take(self.workers.wait(max(0.0, limit - self.clock.steady())))

    def _next_end(self, until_s: float | None) -> float | None:
        ends = [flight.end_s for flight in self._flights.values()]
        return min([*ends, *([] if until_s is None else [until_s])], default=None)

    def _take(self, report: Report | None) -> list[SettledCall]:
        """The calls that ended by a report, or meanwhile by their deadlines."""
        settled = [self._finish(report)] if isinstance(report, Finished) else []
        if isinstance(report, Progress):
            self._note_progress(report)
        return [*(entry for entry in settled if entry is not None), *self._expire()]

    def _limit(self, hook: Hook) -> Hook:
        """The hook on a worker: one that does not answer before the deadline of its call refuses the call."""

        def ask(call: ToolCall, admitted: Admitted) -> bool:
            key = f"hook of {call.call_id}"
            due_s = self.clock.steady() + self._find_timeout(call, admitted.tool) / 1_000
            self.workers.start(key, hook, call, admitted)
            while (now := self.clock.steady()) < due_s and not self.is_cancelled():
                report = self.workers.wait(max(0.0, (self._next_end(due_s) or due_s) - now))
                if isinstance(report, Finished) and report.key == key:
                    if report.error is not None:
                        raise report.error
                    return bool(report.value)
                self._settled += self._take(report)
            return False

        return hook if hook is allow else ask

    def _find_timeout(self, call: ToolCall, tool: ToolDefinition) -> int:
        """The milliseconds that an attempt may take if it begins now."""
        timeout_ms = call.timeout_ms or tool.timeout_ms or DEFAULT_TIMEOUT_MS
        if self.gates.deadline_s is None:
            return timeout_ms
        # Rounded up: an attempt that ends a moment before the run would leave room for another one.
        return max(1, min(timeout_ms, math.ceil((self.gates.deadline_s - self.clock.now()) * 1_000)))

    def cancel(self) -> None:
        """Asks the calls that can be cancelled to end, within the grace period (OD-27)."""
        for key, flight in self._flights.items():
            if flight.tool.definition.cancellable and flight.cancel_due_s is None:
                flight.cancel_due_s = self.clock.steady() + self.grace_ms / 1_000
                flight.context.stop.set()
                self.workers.cancel(key)

    def report(self, settled: SettledCall, retry: NextAttempt | None = None) -> None:
        """Writes the event of a call that ended; a failure that is tried again is a warning (OD-26)."""
        call, settlement = settled.call, settled.settlement
        summary = mask_text(settled.complete.summary_text, settled.secrets)
        payload: dict[str, Any] = {"status": settlement.end, "durationMs": settlement.duration_ms, **_round(call)}
        if settlement.end in ("ok", "skipped"):
            level: Level = "info" if settlement.end == "ok" else "warn"
            self.log.emit("step.finished", summary, call=call, level=level, payload=payload)
            return
        payload |= {"code": settlement.code, "willRetry": retry is not None}
        if retry is not None:
            payload |= {"nextAttempt": retry.attempt, "attempts": retry.attempts, "waitMs": retry.wait_ms}
        level = "error" if retry is None else "warn"
        self.log.emit("step.failed", summary, call=call, level=level, payload=payload)
        if retry is not None and retry.is_clamped:
            clamp = {"requested": msgspec.to_builtins(retry.requested), "attempts": retry.attempts}
            message = "the policy allows fewer attempts or a shorter wait than the plan asks for"
            payload = {"clamped": True, "waitMs": retry.wait_ms, **clamp}
            self.log.emit("step.progress", message, call=call, level="warn", payload=payload)

    def _refuse(self, call: ToolCall, denied: Denied, tool: Tool | None, secrets: frozenset[str]) -> SettledCall:
        assert denied.settlement.error is not None  # a refusal has one
        complete = redact_error(fail(call.tool, denied.settlement.error), secrets)
        settlement = msgspec.structs.replace(denied.settlement, error=complete.error)
        self.recorder.add(call)
        self.log.emit("step.started", f"{call.tool} is refused", call=call)
        settled = SettledCall(call, settlement, complete, call.args, tool.family if tool else None, secrets)
        self.recorder.add(msgspec.structs.replace(codec.to_result(call, settlement), extra=self.describe(settled)))
        return settled

    def _launch(self, call: ToolCall, admitted: Admitted, secrets: frozenset[str]) -> None:
        """Records the call, then starts it. `call` has no secrets: the tool gets them with its input."""
        tool, now = self.tools[call.tool], self.clock.now()
        timeout_ms = self._find_timeout(call, tool.definition)
        deadline_at = self.clock.stamp(now + timeout_ms / 1_000)
        recorded = msgspec.structs.replace(
            call,
            timeout_ms=timeout_ms,
            deadline_at=deadline_at,
            coercions=() if secrets else admitted.coercions,  # their values could be secrets
        )
        self.recorder.add(recorded)
        self.log.emit("step.started", f"{call.tool} starts", call=recorded, payload=_round(call))
        started_s = self.clock.steady()
        context = CallContext(recorded, self.workers.report, deadline_at, self.assistant_text)
        flight = _Flight(
            call=recorded,
            tool=tool,
            admitted=admitted,
            context=context,
            started_at=self.clock.stamp(now),
            started_s=started_s,
            due_s=started_s + timeout_ms / 1_000,
            secrets=secrets,
        )
        if flight.writes:
            self.recorder.commit()  # what may change the world is on disk before it starts
            if self.observer is not None:
                self.observer.begin(call.call_id)
        self._flights[call.call_id] = flight
        self.workers.start(call.call_id, tool.run, admitted.input, context)

    def _finish(self, finished: Finished) -> SettledCall | None:
        flight = self._flights.pop(finished.key, None)
        if flight is None:
            self._note_late(finished)
            return None
        definition = flight.tool.definition
        complete, debug = read_finished(definition, finished.value, finished.error)
        if isinstance(finished.error, asyncio.CancelledError) and not flight.context.is_cancelled:
            stopped = ToolError(kind=FAILED, message="the tool cancelled itself", retryable=False)
            complete = fail(definition.name, stopped)
        observed = self.observer.end(finished.key) if self.observer is not None and flight.writes else None
        return self._settle(flight, complete, observed, debug)

    def _expire(self) -> list[SettledCall]:
        now = self.clock.steady()
        return [self._give_up(flight, now) for flight in tuple(self._flights.values()) if flight.end_s <= now]

    def _give_up(self, flight: _Flight, now: float) -> SettledCall:
        """Settles a call without an answer: a timeout at its deadline, else a cancel."""
        key, definition = flight.call.call_id, flight.tool.definition
        self._late[key] = self._flights.pop(key)
        flight.context.stop.set()
        self.workers.cancel(key)
        if flight.due_s <= now:
            message = f"no answer within {flight.call.timeout_ms} ms"
            error = ToolError(kind=TIMED_OUT, message=message, retryable=definition.retry_on_timeout)
        else:
            message = f"it did not end within {self.grace_ms} ms of its cancellation"
            error = ToolError(kind=CANCELLED, message=message, retryable=True)
        observed = self.observer.leave() if self.observer is not None and flight.writes else None
        return self._settle(flight, fail(definition.name, error), observed, None)

    def _settle(
        self, flight: _Flight, complete: CompleteOutput, observed: Effects | None, debug: str | None
    ) -> SettledCall:
        end: End = find_end(complete)
        data: dict[str, Any] | None = None
        if end == "ok":
            try:
                data = result_data(complete)
            except ToolFailed as failure:
                end, complete = "error", fail(flight.tool.name, failure.to_error())
        sensitive = flight.tool.definition.sensitive_result
        secrets = flight.secrets | find_texts(data, sensitive)
        complete, debug = redact_error(complete, flight.secrets), mask_text(debug, flight.secrets)
        duration_s = self.clock.steady() - flight.started_s
        settlement = Settlement(
            call_id=flight.call.call_id,
            end=end,
            data=data,
            data_hash=None if data is None else _hash(data),
            error=complete.error,
            was_coerced=flight.admitted.was_coerced,
            started_at=flight.started_at,
            ended_at=self.clock.stamp(),
            duration_ms=int(duration_s * 1_000),
            deadline_at=flight.call.deadline_at,
            effects=merge(observed, flight.context.effects),
            user_message=complete.summary_text,
            debug_message=debug,
        )
        settled = SettledCall(flight.call, settlement, complete, flight.admitted.args, flight.tool.family, secrets)
        try:
            if end == "ok":
                self.prepare(settled)
        except Exception as fault:
            message = f"its output could not be stored: {type(fault).__name__}"
            error = ToolError(kind=FAILED, message=message, retryable=not flight.writes)
            _, trace = read_finished(flight.tool.definition, None, fault)
            return self._settle(flight, fail(flight.tool.name, error), observed, trace)
        extra = self.describe(settled)
        if flight.context.child_run_id is not None:
            extra["childRunId"] = flight.context.child_run_id
        recorded = msgspec.structs.replace(codec.to_result(flight.call, settlement), extra=extra)
        self.recorder.add(redact_result(recorded, secrets, sensitive))
        return settled

    def _note_late(self, finished: Finished) -> None:
        flight = self._late.pop(finished.key, None)
        if flight is None:
            return
        if self.observer is not None and flight.writes:
            self.observer.end(finished.key)
        how = "raised" if finished.error is not None else "returned"
        message = f"{flight.tool.name} {how} after its call had ended; the answer is discarded"
        self.log.emit("step.progress", message, call=flight.call, level="warn", payload={"late_result": True})

    def _note_progress(self, progress: Progress) -> None:
        flight = self._flights.get(progress.key) or self._late.get(progress.key)
        if flight is not None:
            payload = None if progress.payload is None else mask(json_object(progress.payload), flight.secrets)
            message = mask_text(str(progress.message), flight.secrets) or "progress"
            self.log.emit("step.progress", message, call=flight.call, payload=payload)


def result_of(settled: SettledCall) -> ToolResult:
    return codec.to_result(settled.call, settled.settlement)


def _round(call: ToolCall) -> dict[str, Any]:
    """Attempt and iteration of a call, for the payload of its events."""
    iteration = {} if call.iteration is None else {"iteration": call.iteration.index}
    return {"attempt": call.attempt, **iteration}


def _hash(data: dict[str, Any]) -> str | None:
    try:
        return named_hash(data)
    except NotCanonical:
        return None
