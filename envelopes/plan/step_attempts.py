"""The calls of one step: its iterations side by side (OD-16), and further attempts of those that failed (OD-5 to OD-7).

StepRounds   dispatches the calls of a step until each has ended, or the step is stopped
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from envelopes.plan.dispatch import Dispatcher, Environment, result_of
from envelopes.plan.schema import Defaults, Step
from envelopes.plan.steps import NextAttempt, StepEnd, decide_retry, next_call, on_error
from envelopes.plan.tool_answers import SettledCall
from envelopes.plan.verify import end_of_call, end_of_foreach
from envelopes.schema.call import Limits, ToolCall, ToolResult
from envelopes.schema.tool import ToolDefinition

DEFAULT_CONCURRENCY = 8  # the most, for a policy without a limit


class StepRounds:
    """`calls` are the first attempts, in the order of the iterations. `run` returns when none of them is in flight.

    The first failure that is neither skipped nor tried again stops the step: calls that run come to their end, no
    other one is started. `cancelled` stops it as well, and asks the running calls to end.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        step: Step,
        tool: ToolDefinition,
        calls: Sequence[ToolCall],
        defaults: Defaults,
        limits: Limits,
        environment: Environment,
        jitter: float,
        cancelled: threading.Event,
    ) -> None:
        self._dispatcher, self._step, self._tool, self._defaults = dispatcher, step, tool, defaults
        self._limits, self._environment, self._jitter, self._cancelled = limits, environment, jitter, cancelled
        self._count = len(calls)
        self._pending = deque(calls)
        self._waiting: list[tuple[float, ToolCall]] = []  # further attempts, with their start on the steady clock
        self._calls: dict[str, ToolCall] = {}  # as they were built: the recorded ones have no secrets
        self._results: dict[int, ToolResult] = {}
        self._is_stopped = False
        self.call_ids: list[str] = []

    @property
    def concurrency(self) -> int:
        """How many calls may run at the same time. A tool that writes runs alone unless it is parallel-safe."""
        if self._step.foreach is None or (self._tool.risk != "read-only" and not self._tool.parallel_safe):
            return 1
        allowed = self._limits.max_concurrency
        return max(1, min(self._step.foreach.concurrency, DEFAULT_CONCURRENCY if allowed is None else allowed))

    def run(self) -> None:
        while True:
            if self._cancelled.is_set():
                self._dispatcher.cancel()
            if self._is_stopped or self._cancelled.is_set():
                self._pending.clear()
                self._waiting.clear()
            self._start_ready()
            if not self._dispatcher.in_flight and not self._waiting and not self._pending:
                return
            has_room = self._dispatcher.in_flight < self.concurrency
            next_start = min((start for start, _ in self._waiting), default=None) if has_room else None
            for settled in self._dispatcher.wait(next_start):
                self._handle(settled)

    def end_and_output(self) -> tuple[StepEnd, Any]:
        is_cancelled = self._cancelled.is_set()
        if self._step.foreach is None:
            end, output = end_of_call(self._results.get(0), is_over=True, is_cancelled=is_cancelled)
        else:
            results = [self._results.get(index) for index in range(self._count)]
            failure = on_error(self._step, self._defaults)
            end, output = end_of_foreach(results, failure, is_over=True, is_cancelled=is_cancelled)
        assert end is not None  # the step is over
        return end, output

    def _start_ready(self) -> None:
        while self._dispatcher.in_flight < self.concurrency:
            if self._is_stopped or self._cancelled.is_set():
                return
            call = self._take_ready()
            if call is None:
                return
            self._calls[call.call_id] = call
            self.call_ids.append(call.call_id)
            if (settled := self._dispatcher.start(call)) is not None:
                self._handle(settled)

    def _take_ready(self) -> ToolCall | None:
        """A further attempt whose wait is over, else the next first attempt."""
        now = self._dispatcher.clock.steady()
        for entry in sorted(self._waiting, key=lambda entry: entry[0]):
            if entry[0] <= now:
                self._waiting.remove(entry)
                return entry[1]
        return self._pending.popleft() if self._pending else None

    def _handle(self, settled: SettledCall) -> None:
        call, result = self._calls.pop(settled.call.call_id), result_of(settled)
        self._results[0 if call.iteration is None else call.iteration.index] = result
        retry = None
        if not result.ok:
            decision = decide_retry(result, self._step, self._defaults, self._limits, self._tool.risk)
            if not isinstance(decision, NextAttempt):
                self._is_stopped = self._is_stopped or decision == "stop"
            elif not self._is_stopped and not self._cancelled.is_set():
                retry = self._with_jitter(decision)
        self._dispatcher.report(settled, retry)
        if retry is not None:
            self._wait_for(call, retry)

    def _with_jitter(self, attempt: NextAttempt) -> NextAttempt:
        shorter = int(attempt.wait_ms * self._jitter * self._environment.chance())
        return msgspec.structs.replace(attempt, wait_ms=attempt.wait_ms - shorter) if shorter else attempt

    def _wait_for(self, call: ToolCall, attempt: NextAttempt) -> None:
        """No wait is longer than the run may still take: the gate then refuses the attempt."""
        clock, deadline_s = self._dispatcher.clock, self._dispatcher.gates.deadline_s
        wait_s = attempt.wait_ms / 1_000
        if deadline_s is not None:
            wait_s = min(wait_s, max(0.0, deadline_s - clock.now()))
        again = next_call(call, call_id=self._environment.new_id(), created_at=clock.stamp())
        self._waiting.append((clock.steady() + wait_s, again))
