"""Runs tools so that none of them can hold up a run: a call is started, and its answer is waited for with a limit.

    Workers        the protocol: start, cancel, wait, wake
    ThreadWorkers  a thread for each function, one event loop for coroutine functions
    CallContext    what a tool can ask about its call and report while it runs
    Finished       what a tool returned or raised

A thread cannot be stopped from outside. A call that passes its deadline is left to its thread, which is a daemon, and
what it returns later is reported like any other answer: the dispatcher knows that it is late. An event loop that a
coroutine blocks takes no more calls; the next coroutine gets a new loop.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from envelopes.schema.call import ToolCall
from envelopes.schema.settlement import Effects


@dataclass(frozen=True)
class Finished:
    """`key` is that of the call. Exactly one of `value` and `error` counts; `error` does where it is not None."""

    key: str
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class Progress:
    key: str
    message: str
    payload: dict[str, Any] | None = None


Report: TypeAlias = Finished | Progress


class Workers(Protocol):
    """Each started key is reported as Finished at most once; one that hangs never is."""

    def start(self, key: str, work: Callable[..., Any], *args: Any) -> None: ...

    def cancel(self, key: str) -> None:
        """Asks a coroutine to stop. A function has to look at its context."""

    def wait(self, seconds: float | None) -> Report | None:
        """The next report; None after `seconds`, or when `wake` was called."""

    def wake(self) -> None:
        """Ends a wait of another thread."""

    def report(self, report: Report) -> None: ...


@dataclass
class CallContext:
    """Answers a tool's questions about its call while it runs, and takes what it reports before it returns.

    `deadline_at` is ISO 8601 text. A tool that runs long looks at `is_cancelled` from time to time; an answer after the
    deadline is discarded. `assistant_text` is what the model wrote in the round of the call. `effects` are changes that
    the tool itself observed, `child_run_id` is a run that it started.
    """

    call: ToolCall
    report: Callable[[Report], None]
    deadline_at: str | None = None
    assistant_text: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    effects: Effects | None = None
    child_run_id: str | None = None

    @property
    def is_cancelled(self) -> bool:
        return self.stop.is_set()

    def progress(self, message: str, payload: dict[str, Any] | None = None) -> None:
        """Records a `step.progress` event of the call."""
        self.report(Progress(self.call.call_id, message, payload))


class ThreadWorkers:
    """Threads that are used again when their function returned, and an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._idle: deque[_Thread] = deque()
        self._loop: _LoopThread | None = None
        # The loop of each coroutine, and its task once the loop has begun it.
        self._tasks: dict[str, tuple[_LoopThread, asyncio.Task[None] | None]] = {}

    def start(self, key: str, work: Callable[..., Any], *args: Any) -> None:
        if inspect.iscoroutinefunction(work):
            self._start_coroutine(key, work, args)
            return
        try:
            thread = self._idle.pop() if self._idle else _Thread(self._idle, self._reports)
        except RuntimeError as error:  # the system has no more threads
            self._reports.put(Finished(key, error=error))
            return
        thread.jobs.put(lambda: self._run(key, work, args))

    def cancel(self, key: str) -> None:
        if (entry := self._tasks.pop(key, None)) is not None:
            loop_thread, task = entry
            if task is not None:
                loop_thread.call(task.cancel)
            loop_thread.probe()

    def wait(self, seconds: float | None) -> Report | None:
        try:
            return self._reports.get(timeout=None if seconds is None else max(seconds, 0.0))
        except queue.Empty:
            return None

    def wake(self) -> None:
        self._reports.put(None)

    def report(self, report: Report) -> None:
        self._reports.put(report)

    def close(self) -> None:
        """Ends the idle threads and the loop. Threads of calls that hang stay until the process ends."""
        while self._idle:
            self._idle.pop().jobs.put(None)
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def _run(self, key: str, work: Callable[..., Any], args: tuple[Any, ...]) -> Finished | None:
        try:
            value = work(*args)
        except BaseException as error:  # SystemExit of a tool ends the tool, not the run
            return Finished(key, error=error)
        if inspect.isawaitable(value):  # a function that returns a coroutine, such as a partial
            self._start_coroutine(key, _await, (value,))
            return None
        return Finished(key, value)

    def _start_coroutine(self, key: str, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self._loop is None or self._loop.is_blocked:
            self._loop = _LoopThread()
        loop_thread = self._loop

        async def run() -> None:
            if key not in self._tasks:  # it was cancelled between its task's creation and its first step
                return
            try:
                finished = Finished(key, await work(*args))
            except BaseException as error:  # a cancel as well is the end of the call
                finished = Finished(key, error=error)
            self._tasks.pop(key, None)
            self._reports.put(finished)

        def begin() -> None:
            if key in self._tasks:  # else it was cancelled while the loop was blocked, and must not run any more
                self._tasks[key] = loop_thread, loop_thread.loop.create_task(run())

        self._tasks[key] = loop_thread, None
        loop_thread.call(begin)


async def _await(value: Any) -> Any:
    return await value


class _Thread:
    """A daemon, so that a function that hangs does not keep the process alive."""

    def __init__(self, idle: deque[_Thread], reports: queue.SimpleQueue[Report | None]) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], Finished | None] | None] = queue.SimpleQueue()
        self._idle, self._reports = idle, reports
        threading.Thread(target=self._work, name="tool", daemon=True).start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            finished = job()
            self._idle.append(self)  # before the report: who gets it finds a thread for the next call
            if finished is not None:
                self._reports.put(finished)


class _LoopThread:
    """An event loop in a daemon thread. `probe` asks it for a sign of life; until it gives one it is blocked."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.is_blocked = False
        threading.Thread(target=self._work, name="tools", daemon=True).start()

    def call(self, function: Callable[[], Any]) -> None:
        self.loop.call_soon_threadsafe(function)

    def probe(self) -> None:
        self.is_blocked = True
        self.call(self._answer)

    def close(self) -> None:
        self.call(self._stop)

    def _answer(self) -> None:
        self.is_blocked = False

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.stop)  # behind the cancelled tasks

    def _work(self) -> None:
        self.loop.run_forever()
        self.loop.close()
