"""What a run's history weighs as it was recorded and as a variant would have written it, side by side.

Only receipts change: messages stay as recorded, arguments count by their size, and what the model would
have done otherwise nobody knows. A receipt counts at the line of its call, as the last one stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.models import Message, Run
from dashboard.runs.history_rows import compactions_of
from dashboard.runs.model_history import GAUGE_TOKENS
from dashboard.runs.replay import Member, Replayed
from envelopes.text.tokens import CHARACTERS_PER_TOKEN


@dataclass(frozen=True, kw_only=True)
class ReplayedCall:
    """`after` is None where the variant wrote nothing; the recorded receipt counts then."""

    member: Member
    after: int | None
    before_running: int
    after_running: int

    @property
    def change(self) -> str:
        return "" if self.after is None else f"{self.after - self.member.receipt:+,}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """`compacted_at` is the line at which the history reaches the limit for the first time."""

    tokens: int
    receipts: int
    compacted_at: int | None


@dataclass(frozen=True, kw_only=True)
class Weights:
    """`recorded_at` is the line of the first compaction that was recorded; the limit is then what the history
    weighed there, unless another was asked for."""

    limit: int
    recorded_at: int | None
    before: Side
    after: Side
    calls: tuple[ReplayedCall, ...]

    @property
    def change(self) -> str:
        share = f" ({self.after.tokens / self.before.tokens - 1:+.1%})" if self.before.tokens else ""
        return f"{self.after.tokens - self.before.tokens:+,}{share}"


class _Step(NamedTuple):
    """The history with one message or call more: what both sides weigh, and what their receipts do."""

    line: int
    member: Member | None
    after: int | None
    totals: tuple[int, int]
    receipts: tuple[int, int]


def weights_of(run: Run, replayed: Replayed, limit: int | None = None) -> Weights:
    steps = list(_steps(run, replayed))
    first = next(iter(compactions_of(run)), None)
    if limit is None:
        limit = GAUGE_TOKENS if first is None else _weight_before(steps, first.line)
    last = steps[-1] if steps else _Step(0, None, None, (0, 0), (0, 0))
    before, after = (
        Side(tokens=last.totals[side], receipts=last.receipts[side], compacted_at=_passed(steps, side, limit))
        for side in (0, 1)
    )
    return Weights(
        limit=limit,
        recorded_at=None if first is None else first.line,
        before=before,
        after=after,
        calls=tuple(
            ReplayedCall(member=one.member, after=one.after, before_running=one.totals[0], after_running=one.totals[1])
            for one in steps
            if one.member is not None
        ),
    )


def _steps(run: Run, replayed: Replayed) -> Iterator[_Step]:
    """Messages and calls in the order of their lines."""
    messages = Message.objects.filter(run=run).values_list("line", "tokens", "size")
    entries: list[tuple[int, int, Member | None]] = [
        (line, tokens or size // CHARACTERS_PER_TOKEN, None)
        for line, tokens, size in messages  # as the model view
    ]
    entries += [(one.line, one.args, one) for one in replayed.members]
    totals = receipts = (0, 0)
    for line, tokens, member in sorted(entries, key=lambda entry: entry[0]):
        after = None if member is None else replayed.tokens.get(member.key)
        added = (0, 0) if member is None else (member.receipt, member.receipt if after is None else after)
        receipts = (receipts[0] + added[0], receipts[1] + added[1])
        totals = (totals[0] + tokens + added[0], totals[1] + tokens + added[1])
        yield _Step(line, member, after, totals, receipts)


def _weight_before(steps: list[_Step], line: int) -> int:
    return max((one.totals[0] for one in steps if one.line < line), default=GAUGE_TOKENS)


def _passed(steps: list[_Step], side: int, limit: int) -> int | None:
    return next((one.line for one in steps if one.totals[side] >= limit), None)
