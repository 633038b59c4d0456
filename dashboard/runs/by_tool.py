"""Where the time and the tokens of a run went: sums by tool, of the points that the overview has read.

Time is a tool's own where it was measured, and never a wait that is known as a person's. Calls run beside
each other, so that the sum may be more than the run took.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

SHOWN = 10  # tools; those behind them are one row


class Spent(Protocol):
    """A call as the sums need it."""

    @property
    def tool(self) -> str: ...
    @property
    def work_ms(self) -> int: ...
    @property
    def tokens(self) -> int: ...


class Spending(NamedTuple):
    """Of one tool, or of all that are left out. Shares are in percent of all calls that were added up."""

    tool: str
    is_rest: bool
    calls: int
    time_ms: int
    time_share: int
    tokens: int
    token_share: int


@dataclass(frozen=True)
class ByTool:
    rows: Sequence[Spending]

    @property
    def sentence(self) -> str:
        """The answer in a line: what took most of the time, and what got most of the tokens."""
        named = [row for row in self.rows if not row.is_rest]
        slow = max(named, key=lambda row: row.time_ms, default=None)
        large = max(named, key=lambda row: row.tokens, default=None)
        said = [f"{slow.tool} took {slow.time_share} % of the tools' time"] if slow and slow.time_ms else []
        said += [f"{large.tool} got {large.token_share} % of the tokens"] if large and large.tokens else []
        return ", ".join(said)


def by_tool(points: Iterable[Spent]) -> ByTool:
    """Most time first."""
    sums: dict[str, list[int]] = {}
    for point in points:
        one = sums.setdefault(point.tool, [0, 0, 0])
        one[0] += 1
        one[1] += point.work_ms
        one[2] += point.tokens
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][2], item[0]))
    _, time_ms, tokens = _added(one for _, one in ordered)
    shown, rest = ordered[:SHOWN], ordered[SHOWN:]
    if rest:
        shown.append((f"{len(rest)} others", _added(one for _, one in rest)))
    return ByTool(
        [
            Spending(tool, place == SHOWN, calls, took, _share(took, time_ms), got, _share(got, tokens))
            for place, (tool, (calls, took, got)) in enumerate(shown)
        ]
    )


def _added(sums: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*sums, strict=True)] or [0, 0, 0]


def _share(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole else 0
