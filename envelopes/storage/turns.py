"""Days that a clock does not name, and years that a date does not: counted by how often they turn.

Times only ever rise in a log, so a fall by more than half a period (12 hours of a clock) is the next
period. Lines are looked at in some places alone. Two places that are more than half a period apart would
be taken for nearer ones, so each stretch between two is tried in between, and one that does not add up
is divided until it does, or is too short: MOST places in all. Times are microseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

import msgspec

MOST = 400  # places
TRIED_AT = 0.382  # of a stretch. In the middle of two periods there is one; here it shows up to three and more
SHORT = 2 * 1024  # bytes
SLACK = 60 * 1_000_000  # µs: lines of several threads cross by moments, which is order enough


class Stamped(msgspec.Struct, frozen=True, order=True):
    """A line that begins at the byte `offset`."""

    offset: int
    time: int


class Turns(msgspec.Struct, frozen=True):
    """What lines at `known` places say, with their periods counted; `is_counted` where that changed any."""

    known: tuple[Stamped, ...]
    period: int
    is_counted: bool = False

    def time_at(self, offset: int, said: int) -> int:
        """The time of a line at `offset` that says `said`."""
        at = max(0, bisect_right(self.known, offset, key=lambda one: one.offset) - 1)
        return turned(self.known[at].time, said, self.period) if self.known else said

    def nearest(self, said: int) -> int:
        """`said` in the period in which it lies within what is known, else in the one in which it misses it least."""
        if not self.known:
            return said
        first, last = self.known[0].time, max(one.time for one in self.known)
        periods = range((last - said) // self.period + 2)
        return min((said + self.period * one for one in periods), key=lambda time: max(first - time, time - last, 0))


def turned(before: int, said: int, period: int) -> int:
    """The time nearest to `before` at which a clock says `said`."""
    return before + (said - before + period // 2) % period - period // 2


def turns_of(lines: Iterable[Stamped], probe: Callable[[int, int], Stamped | None] | None, period: int) -> Turns:
    """`lines` in their order, as they say. `probe(start, end)` looks for one more; None where all are given."""
    known: list[Stamped] = []
    trying = _Trying(probe, period)
    for one in lines:
        known += trying.between(known[-1], one) if known else [one]
    return Turns(tuple(known), period, trying.is_counted)


class _Trying:
    def __init__(self, probe: Callable[[int, int], Stamped | None] | None, period: int) -> None:
        self._probe = probe
        self._period = period
        self._left = MOST
        self.is_counted = False

    def between(self, before: Stamped, after: Stamped) -> list[Stamped]:
        """`after` with its periods counted, and what lies before it and was looked at."""
        direct = self._behind(before, after)
        middle = self._middle(before, after)
        if middle is None:
            return [direct]
        by_way = self._behind(before, middle)
        if before.time - SLACK <= by_way.time <= direct.time + SLACK and self._behind(by_way, after) == direct:
            return [by_way, direct]
        first = self.between(before, middle)
        return first + self.between(first[-1], after)

    def _behind(self, before: Stamped, said: Stamped) -> Stamped:
        time = turned(before.time, said.time, self._period)
        self.is_counted = self.is_counted or time != said.time
        return Stamped(said.offset, time)

    def _middle(self, before: Stamped, after: Stamped) -> Stamped | None:
        size = after.offset - before.offset
        if self._probe is None or self._left == 0 or size < SHORT:
            return None
        self._left -= 1
        found = self._probe(before.offset + int(size * TRIED_AT), after.offset)
        return found if found and before.offset < found.offset < after.offset else None
