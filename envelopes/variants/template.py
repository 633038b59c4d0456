"""Variants written as templates, which run in a process of their own and keep the sources of their text.

    check_template(source)   raises TemplateRefused with the line
    find_missing_fields(…)   fields that an envelope lacks, each with its line
    template_variant(…)      a Variant like any other; its hash includes the source

A template sees only the envelope and no budget: it is run once for an envelope, and the policy shortens its text
like any receipt (`fit`). The process is started on first use, serves one request after the other, and is ended and
replaced when an answer takes too much work. Processor time is measured, not the clock: on a busy machine a correct
template must not be stopped because of other processes.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

from envelopes.families.fitting import fit
from envelopes.families.segments import is_block
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Role, Segment, SegmentSource, Variant
from envelopes.schema.result import CanonicalResult
from envelopes.text.deadline import current_deadline

PROGRAM = Path(__file__).with_name("template_worker.py")
WORK_SECONDS = 0.9  # processor time for one answer
WAIT_SECONDS = 10.0  # on the clock, for a machine that gives the process no time
START_SECONDS = 20.0
MAX_SOURCE_CHARACTERS = 64 * 1024
MAX_ANSWER_BYTES = 16 * 1024 * 1024
CACHED_RENDERINGS = 8
CACHED_REFUSALS, REFUSAL_SECONDS = 1_000, 600
ROLES = frozenset(get_args(Role))


class TemplateRefused(ValueError):
    """A template that cannot be parsed or run. `line` counts from 1; None where the reason belongs to no line."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


class TemplateUnanswered(TemplateRefused):
    """A template that was not run, or got no time: it may well be run another time."""


class _TimeLimit:
    """The limits of one answer: `work` seconds of processor time, `wait` seconds on the clock."""

    def __init__(self, process: int, work: float, wait: float) -> None:
        self._process, self._work, self._wait = process, work, wait
        self._started, self._used = time.monotonic(), used_seconds(process)

    def remaining(self) -> float:
        """Seconds in which no limit can be reached: a process works no longer than the time that passes."""
        work = self._work - (used_seconds(self._process) - self._used)
        wait = self._started + self._wait - time.monotonic()
        return max(0.01, min(work, wait))

    def check(self) -> None:
        """Raises TemplateRefused."""
        if used_seconds(self._process) - self._used >= self._work:
            raise TemplateRefused(f"it worked for longer than {self._work:g} seconds and was stopped")
        if time.monotonic() - self._started >= self._wait:
            raise TemplateUnanswered(f"it did not answer within {self._wait:g} seconds and was stopped")


def used_seconds(process: int) -> float:
    """Processor seconds that a process has used, in user and system mode; without such a clock, monotonic time.

    The clock's number is that of clock_getcpuclockid(3) on Linux, which Python has for threads only.
    """
    try:
        return time.clock_gettime(~process << 3 | 2)
    except OSError:
        return time.monotonic()


class TemplateProcess:
    """Runs templates in one process at a time, one request at a time."""

    def __init__(
        self, program: Path = PROGRAM, *, work_seconds: float = WORK_SECONDS, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self.work_seconds, self.wait_seconds = work_seconds, wait_seconds
        self.process: subprocess.Popen[bytes] | None = None
        self._program = program
        self._lock = threading.Lock()
        self._refusals: OrderedDict[bytes, tuple[float, TemplateRefused]] = OrderedDict()
        self._owner = 0

    def request(self, request: str) -> list[list[Any]]:
        """Returns the pieces of the answer. `request` is JSON on one line. Raises TemplateRefused.

        A refusal is remembered for a while, because the next page would run the same template over the same
        envelope. Where the current deadline is over, nothing is run (TemplateUnanswered).
        """
        key = hashlib.sha256(request.encode()).digest()
        since, refusal = self._refusals.get(key, (0.0, None))
        if refusal is not None and time.monotonic() - since < REFUSAL_SECONDS:
            raise type(refusal)(refusal.reason, refusal.line)
        deadline = current_deadline()
        if deadline.is_over or not self._lock.acquire(timeout=min(deadline.remaining, threading.TIMEOUT_MAX)):
            raise TemplateUnanswered("the time of one page was over before it could run; open the call by itself")
        try:
            return self._answer(request)
        except TemplateUnanswered:
            raise
        except TemplateRefused as refused:
            self._refusals[key] = time.monotonic(), refused.with_traceback(None)
            while len(self._refusals) > CACHED_REFUSALS:
                self._refusals.popitem(last=False)
            raise
        finally:
            self._lock.release()

    def _answer(self, request: str) -> list[list[Any]]:
        process = self._running_process()
        try:
            line = self._exchange(process, request.encode() + b"\n", self.work_seconds, self.wait_seconds)
        except TemplateRefused:
            self.stop()
            raise
        answer: dict[str, Any] = json.loads(line)
        if "reason" in answer:
            raise TemplateRefused(answer["reason"], answer["line"])
        pieces: list[list[Any]] = answer["pieces"]
        return pieces

    def _running_process(self) -> subprocess.Popen[bytes]:
        """Starts a process unless one is running. After a fork the process belongs to the parent and is not used."""
        if self.process is not None and self._owner == os.getpid() and self.process.poll() is None:
            return self.process
        if find_spec("liquid") is None:
            raise TemplateUnanswered("template variants need the package python-liquid, which is not installed")
        self.stop()
        self._owner = os.getpid()
        self.process = process = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-I", str(self._program), json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            close_fds=True,
        )
        try:
            if self._exchange(process, b"", START_SECONDS, START_SECONDS) == b"ready\n":
                return process
        except TemplateRefused:
            self.stop()  # its late "ready" would be taken for an answer
            raise
        self.stop()
        raise TemplateUnanswered("the process for templates did not start")

    def _exchange(self, process: subprocess.Popen[bytes], request: bytes, work: float, wait: float) -> bytes:
        assert process.stdin is not None  # it was started with pipes
        assert process.stdout is not None
        answer = b""
        limit = _TimeLimit(process.pid, work, wait)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            try:
                process.stdin.write(request)
                process.stdin.flush()
            except BrokenPipeError:
                raise TemplateRefused("it ended its process") from None
            while not answer.endswith(b"\n"):
                while not selector.select(limit.remaining()):
                    limit.check()
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part or len(answer) > MAX_ANSWER_BYTES:
                    raise TemplateRefused("it ended its process, by memory or by size")
                answer += part
        return answer

    def stop(self) -> None:
        """Ends the process, if it is ours, and closes its pipes; the next request starts another one."""
        if self.process is None:
            return
        if self._owner == os.getpid():
            self.process.kill()
        self.process.wait()  # at once also in a fork: it has no such child
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None  # it was started with pipes
            with suppress(BrokenPipeError):
                pipe.close()
        self.process = None


TEMPLATE_PROCESS = TemplateProcess()
atexit.register(TEMPLATE_PROCESS.stop)


def check_template(source: str, process: TemplateProcess = TEMPLATE_PROCESS) -> None:
    """Raises TemplateRefused for a text that is not a template of this language."""
    if not source.strip():
        raise TemplateRefused("the template is empty", 1)
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise TemplateRefused(f"it has {len(source):,} characters; at most {MAX_SOURCE_CHARACTERS:,} are allowed")
    process.request(json.dumps({"source": source}))


class MissingField(NamedTuple):
    """A field that a template names and an envelope lacks. `nearest` is a name that the envelope has there, or ""."""

    line: int
    path: str
    nearest: str


def find_missing_fields(
    source: str, canonical: CanonicalResult, process: TemplateProcess = TEMPLATE_PROCESS
) -> list[MissingField]:
    """By line. Raises TemplateRefused."""
    request = json.dumps({"source": source, "canonical": canonical.to_json(), "missing": True})
    return [MissingField(*piece) for piece in process.request(request)]


def template_variant(
    variant_id: str,
    version: int,
    title: str,
    source: str,
    policy: RenderPolicy,
    process: TemplateProcess = TEMPLATE_PROCESS,
) -> Variant:
    def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
        return fit(_render(source, json.dumps(canonical.to_json()), process), policy)

    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return Variant(id=variant_id, version=version, title=title, render=render, policy=policy, digest=digest)


@lru_cache(maxsize=CACHED_RENDERINGS)
def _render(source: str, canonical: str, process: TemplateProcess) -> tuple[Segment, ...]:
    """Renders an envelope. Cached, because a search for a budget renders the same one again and again."""
    pieces = process.request(f'{{"source": {json.dumps(source)}, "canonical": {canonical}}}')
    segments = []
    for text, pointer, start, end, role in pieces:
        origin = None if pointer is None else SegmentSource("canonical", pointer, start, end)
        segments.append(Segment(text, _segment_role(text, role, origin), origin))
    return tuple(segments)


def _segment_role(text: str, role: str, source: SegmentSource | None) -> Role:
    if role in ROLES:
        return role  # type: ignore[return-value]
    if source is None:
        return "break" if not text.strip("\n") else "label"
    return "preview" if is_block(text) else "value"
