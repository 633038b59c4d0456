"""Compares what each request to a model weighed with the request before it: what left the context, and why.

A provider reports the tokens of every request. A recording has them beside the model's messages, and they show what
no other line of it does: that something which was in the context is no longer there. What left it is explained by what
is recorded between the two requests (a compaction, a clear of some receipts, a rewind), or by nothing.

    compare_requests(requests, removals)   one `ContextChange` for each request, in order
    find_drops(requests)                   the positions of the requests that a removal has to explain
    grade_presence(...)                    whether something that came into the context is still there

A drop is more than a fifth of the request before and more than 5,000 tokens. Smaller differences have other causes:
the thinking of an earlier turn is not sent again, and reminders come and go. A removal that states how much it removed
explains a drop only when that is at least half of it. Providers and clients count differently, so the two numbers are
never equal.

>>> before, after = ModelRequest(147, 138_395), ModelRequest(154, 95_864)
>>> compare_requests([before, after], [])[1].unexplained
42531
>>> compare_requests([before, after], [ContextRemoval(150, "compaction")])[1].unexplained
0
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

LEAST_TOKENS = 5_000  # of a drop
LEAST_PERCENT = 20  # of the request before
ESTIMATE_PERCENT = 20  # by which a history may be counted too high: its messages are counted by their size

RemovalKind: TypeAlias = Literal["compaction", "clear", "rewind", "edit"]
Presence: TypeAlias = Literal["recorded", "superseded", "uncertain", "contradicted"]


class ModelRequest(NamedTuple):
    """One request of an agent: the line that has it, and the tokens of its whole input, cached or not."""

    line: int
    tokens: int


class ContextRemoval(NamedTuple):
    """Something recorded that takes text out of the context from the next request on.

    `tokens` is how much it removed, None where it may have been any part of the context.
    """

    line: int
    kind: RemovalKind
    tokens: int | None = None


class ContextChange(NamedTuple):
    """A request beside the one before it. `removals` are those recorded between the two."""

    request: ModelRequest
    before: ModelRequest | None = None
    removals: tuple[ContextRemoval, ...] = ()

    @property
    def growth(self) -> int:
        """In tokens, negative when the context became smaller."""
        return self.request.tokens - (self.before.tokens if self.before else 0)

    @property
    def is_drop(self) -> bool:
        return self.before is not None and _is_drop(self.before.tokens, self.request.tokens)

    @property
    def removed(self) -> int | None:
        """The tokens that the recorded removals account for; None when they may account for any number."""
        numbers = [removal.tokens for removal in self.removals]
        return None if None in numbers else sum(number for number in numbers if number is not None)

    @property
    def is_explained(self) -> bool:
        return self.removed is None or 2 * self.removed >= -self.growth

    @property
    def unexplained(self) -> int:
        """The tokens that left the context although nothing recorded accounts for half of them, else 0."""
        return -self.growth if self.is_drop and not self.is_explained else 0


def compare_requests(requests: Sequence[ModelRequest], removals: Iterable[ContextRemoval]) -> list[ContextChange]:
    """Compares the requests of one agent, in order of their lines, with what is recorded between them."""
    ordered = sorted(removals, key=lambda removal: removal.line)
    lines = [removal.line for removal in ordered]
    changes = [ContextChange(request) for request in requests[:1]]
    for before, request in zip(requests, requests[1:], strict=False):
        between = slice(bisect_right(lines, before.line), bisect_right(lines, request.line))
        changes.append(ContextChange(request, before, tuple(ordered[between])))
    return changes


def find_drops(requests: Sequence[ModelRequest]) -> list[int]:
    return [
        index
        for index, (before, request) in enumerate(zip(requests, requests[1:], strict=False), 1)
        if _is_drop(before.tokens, request.tokens)
    ]


def _is_drop(before: int, after: int) -> bool:
    lost = before - after
    return lost > LEAST_TOKENS and 100 * lost > LEAST_PERCENT * before


def grade_presence(*, is_superseded: bool, is_before_drop: bool, has_drop: bool, shown: int, recorded: int) -> Presence:
    """Grades whether a receipt is still in the context of a request that weighed `recorded` tokens, 0 when unknown.

    `shown` are the tokens of all that nothing recorded has removed. They are without the system prompt and the tools'
    definitions, so that more of them than the request weighed cannot all be there: what came in before an unexplained
    drop, or any of it where there is none. Without a drop the count itself may be too high, so it has to be far higher.

    >>> grade_presence(is_superseded=False, is_before_drop=True, has_drop=True, shown=105_089, recorded=95_864)
    'contradicted'
    """
    if is_superseded:
        return "superseded"
    is_heavier = 100 * shown > (100 if has_drop else 100 + ESTIMATE_PERCENT) * recorded > 0
    if is_heavier and (is_before_drop or not has_drop):
        return "contradicted"
    return "uncertain" if is_before_drop else "recorded"
