"""What a comparison says of single calls: which changed most, and in which bucket a number lies."""

from __future__ import annotations

from uuid import UUID

import msgspec

from dashboard.comparisons.cells import Measure

CHANGES: tuple[Measure, ...] = ("tokens", "dropped", "lint")  # by size, by lost fields, by new findings


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """One call that changed: `call` is its id in hexadecimal digits."""

    call: str
    tool: str
    before: int
    after: int
    names: tuple[str, ...] = ()  # fields that were lost, rules that are broken anew

    @property
    def change(self) -> int:
        return self.after - self.before

    @property
    def key(self) -> UUID:
        return UUID(hex=self.call)


def bucket(value: int) -> int:
    """Buckets double: 0 holds 0, 1 holds 1, 2 holds 2 and 3, 3 holds 4 to 7; a decrease has a negative one."""
    return value.bit_length() if value >= 0 else -(-value).bit_length()


def bucket_range(number: int) -> tuple[int, int]:
    """The smallest and the largest value of a bucket."""
    if number == 0:
        return 0, 0
    low, high = 1 << (abs(number) - 1), (1 << abs(number)) - 1
    return (low, high) if number > 0 else (-high, -low)
