"""Variants written as templates: their text keeps its sources, and they run in a process of their own.

    check(source)                        raises TemplateRefused with the line
    template_variant(…)                  a Variant like any other; its hash is over the text too

A template sees the envelope and nothing else, and knows no budget: it is run once for an envelope, and the
policy shortens what it wrote like any receipt (`fit`). The process is started when it is first needed, serves
one request after the other, and is ended and replaced when it works too long on an answer. Its work is measured,
not the clock: where others keep the machine busy, a template that is in order would be stopped for their sake.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Role, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult
from envelopes.schema.variant import Variant
from envelopes.text.fit_receipt import fit
from envelopes.variants.base import is_block

WORKER = Path(__file__).with_name("template_worker.py")
WORKS = 0.9  # seconds of its own that an answer may take
WAITS = 10.0  # seconds on the clock, for a machine that gives the process no time
STARTS_WITHIN = 20.0
SOURCE = 64 * 1024  # characters of a template
ANSWER = 16 * 1024 * 1024  # bytes
REMEMBERED = 8
ROLES = frozenset(get_args(Role))


class TemplateRefused(ValueError):
    """`line` counts from 1; None where no line is to blame."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line


def check(source: str) -> None:
    """Raises TemplateRefused for a text that is no template of this language."""
    if not source.strip():
        raise TemplateRefused("the template is empty", 1)
    if len(source) > SOURCE:
        raise TemplateRefused(f"it has {len(source):,} characters; at most {SOURCE:,} are taken")
    _asked(json.dumps({"source": source}))


def template_variant(variant_id: str, version: int, title: str, source: str, policy: RenderPolicy) -> Variant:
    def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
        return fit(_written(source, json.dumps(canonical.to_json())), policy)

    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return Variant(id=variant_id, version=version, title=title, render=render, policy=policy, digest=digest)


@lru_cache(maxsize=REMEMBERED)
def _written(source: str, canonical: str) -> tuple[Segment, ...]:
    """The same text and envelope give the same segments, so a search for a budget runs the template once."""
    return tuple(_segments(_asked(f'{{"source": {json.dumps(source)}, "canonical": {canonical}}}')))


def _segments(pieces: Iterable[list[Any]]) -> Iterable[Segment]:
    for text, pointer, start, end, role in pieces:
        source = None if pointer is None else SegmentSource("canonical", pointer, start, end)
        yield Segment(text, _role(text, role, source), source)


def _role(text: str, role: str, source: SegmentSource | None) -> Role:
    if role in ROLES:
        return role  # type: ignore[return-value]
    if source is None:
        return "break" if not text.strip("\n") else "label"
    return "preview" if is_block(text) else "value"


def _asked(request: str) -> list[list[Any]]:
    """`request` is JSON on one line. Raises TemplateRefused."""
    answer = _WORKER.ask(request)
    if "reason" in answer:
        raise TemplateRefused(answer["reason"], answer["line"])
    found: list[list[Any]] = answer["pieces"]
    return found


class _Watch:
    """Over one answer: `works` seconds of the process's own, `waits` seconds on the clock."""

    def __init__(self, process: int, works: float, waits: float) -> None:
        self._process, self._works, self._waits = process, works, waits
        self._began, self._since = time.monotonic(), spent(process)

    def rest(self) -> float:
        """How long nothing can be amiss: no process works for longer than the clock goes on."""
        left = (self._works - (spent(self._process) - self._since), self._began + self._waits - time.monotonic())
        return max(0.01, min(left))

    def look(self) -> None:
        """Raises TemplateRefused."""
        if spent(self._process) - self._since >= self._works:
            raise TemplateRefused(f"it worked for longer than {self._works:g} seconds and was stopped")
        if time.monotonic() - self._began >= self._waits:
            raise TemplateRefused(f"it did not answer within {self._waits:g} seconds and was stopped")


def spent(process: int) -> float:
    """Seconds that a process has worked, the system's work for it with it; where no clock tells, those that passed.

    The number of the clock is what clock_getcpuclockid(3) makes on Linux: Python has that for threads alone.
    """
    try:
        return time.clock_gettime(~process << 3 | 2)
    except OSError:
        return time.monotonic()


class _Worker:
    """One process at a time, one request at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, request: str) -> dict[str, Any]:
        with self._lock:
            process = self._running()
            try:
                line = self._exchanged(process, request.encode() + b"\n", WORKS, WAITS)
            except TemplateRefused:
                self._end(process)
                raise
            answer: dict[str, Any] = json.loads(line)
            return answer

    def _running(self) -> subprocess.Popen[bytes]:
        """A process that a fork left to us belongs to the parent: it is not ours to talk to."""
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        if find_spec("liquid") is None:
            raise TemplateRefused("template variants need the package python-liquid, which is not installed")
        self._owner = os.getpid()
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER), json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            close_fds=True,
        )
        try:
            if self._exchanged(process, b"", STARTS_WITHIN, STARTS_WITHIN) == b"ready\n":
                return process
        except TemplateRefused:
            self._end(process)  # else its late greeting would pass for an answer
            raise
        self._end(process)
        raise TemplateRefused("the process for templates did not start")

    def _exchanged(self, process: subprocess.Popen[bytes], request: bytes, works: float, waits: float) -> bytes:
        assert process.stdin is not None  # it was started with pipes
        assert process.stdout is not None
        found = b""
        watch = _Watch(process.pid, works, waits)
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            try:
                process.stdin.write(request)
                process.stdin.flush()
            except BrokenPipeError:
                raise TemplateRefused("it ended its process") from None
            while not found.endswith(b"\n"):
                while not ready.select(watch.rest()):
                    watch.look()
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part or len(found) > ANSWER:
                    raise TemplateRefused("it ended its process, by memory or by size")
                found += part
        return found

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.communicate()
        self._process = None


_WORKER = _Worker()
