"""A time budget that all bounded work of one request shares."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Deadline:
    """The end of a time budget of `seconds`, which begins with the first look at it.

    One is made for each request and used by every search, match and template of that request, so that many small
    pieces of work cannot each take the whole budget. Each of them does a first piece before it looks.

    >>> Deadline(60).is_over
    False
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end: float | None = None

    @property
    def remaining(self) -> float:
        now = time.monotonic()
        if self._end is None:
            self._end = now + self._seconds
        return max(0.0, self._end - now)

    @property
    def is_over(self) -> bool:
        return self.remaining <= 0


NO_DEADLINE = Deadline(math.inf)  # for commands and tests, which may take as long as they need
_current: ContextVar[Deadline] = ContextVar("deadline", default=NO_DEADLINE)


@contextmanager
def time_budget(seconds: float) -> Iterator[None]:
    """Gives the work inside of the block, in this thread alone, a new deadline."""
    token = _current.set(Deadline(seconds))
    try:
        yield
    finally:
        _current.reset(token)


def current_deadline() -> Deadline:
    return _current.get()
