"""A time budget that all bounded work of one request shares."""

from __future__ import annotations

import math
import time


class Deadline:
    """The end of a time budget of `seconds`, which begins now.

    One is made for each request and handed to every search, match and difference of that request, so that many small
    pieces of work cannot each take the whole budget.

    >>> Deadline(60).is_over
    False
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end


NO_DEADLINE = Deadline(math.inf)  # for commands and tests, which may take as long as they need
