"""What stands in a run's history, in one order: messages, calls, receipts, replacements, compactions.

An item's place is (line, rank, key): the line of the source, the kind's rank within a line, and the
row's id. No payload is read here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.models import Run
from dashboard.runs.history_rows import Compaction, Placed, compactions_of, page, receipt_details, receipts_of, sums
from dashboard.runs.rewritten import Rewritten

NO_KEY = UUID(int=0)
RANKS = {"message": 0, "call": 1, "receipt": 2, "replacement": 3, "compaction": 4}
PAGED = ("message", "call")  # a page at a time; the other kinds are read whole, as numbers


@dataclass(frozen=True, slots=True, order=True)
class Place:
    line: int
    rank: int
    key: UUID = NO_KEY

    def __str__(self) -> str:
        return f"{self.line}-{self.rank}-{self.key.hex}"


@dataclass(frozen=True, slots=True)
class Item:
    """`tokens` is what the item adds to the model's history, negative when a receipt is taken out of it."""

    place: Place
    kind: str
    at: datetime | None
    tokens: int
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """`before` items stand in front of a place, out of `total`; `tokens` is what of those still stands there."""

    before: int
    total: int
    tokens: int


def place_of(text: str) -> Place | None:
    """A place from the address bar; None when it is not one."""
    parts = text.split("-")
    if len(parts) != 3 or len(text) > 60 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    try:
        return Place(int(parts[0]), int(parts[1]), UUID(hex=parts[2]))
    except ValueError:
        return None


class Mark(NamedTuple):
    """An item of the kinds that are read whole. A run may have a hundred thousand, so it is no more than it must."""

    line: int
    rank: int
    key: str  # hexadecimal
    tokens: int
    kind: str = "receipt"
    at: datetime | None = None
    row: Mapping[str, Any] = {}

    @property
    def item(self) -> Item:
        return Item(Place(self.line, self.rank, UUID(self.key)), self.kind, self.at, self.tokens, self.row)


class Timeline:
    """One run's items. A fixed number of queries, whatever is asked for."""

    def __init__(self, run: Run, rewritten: Rewritten | None = None) -> None:
        self._run = run
        self._rewritten = rewritten
        self.compactions = compactions_of(run)
        receipts = receipts_of(run)
        self._marks = _marks(rewritten.placed(receipts) if rewritten else receipts, self.compactions)

    def after(self, place: Place | None, limit: int) -> list[Item]:
        """The first `limit` items behind `place`; from the beginning when it is None. `limit` is at most AT_ONCE."""
        found = [item for kind in PAGED for item in self._paged(kind, place, limit, ascending=True)]
        start = 0 if place is None else bisect_right(self._marks, _key(place), key=_key)
        found += [mark.item for mark in self._marks[start : start + limit]]
        return self._detailed(sorted(found, key=lambda item: item.place)[:limit])

    def before(self, place: Place | None, limit: int) -> list[Item]:
        """The last `limit` items in front of `place`; of the whole history when it is None."""
        found = [item for kind in PAGED for item in self._paged(kind, place, limit, ascending=False)]
        end = len(self._marks) if place is None else bisect_left(self._marks, _key(place), key=_key)
        found += [mark.item for mark in self._marks[max(0, end - limit) : end]]
        return self._detailed(sorted(found, key=lambda item: item.place)[-limit:])

    def counts(self, place: Place | None, *, since: int) -> Counts:
        """In front of `place`, nothing when it is None.

        `since` is the line of the last compaction in front of it, -1 without one: tokens count from there.
        """
        ahead = [] if place is None else self._marks[: bisect_left(self._marks, _key(place), key=_key)]
        before, total = len(ahead), len(self._marks)
        tokens = sum(mark.tokens for mark in ahead if mark.line > since)
        for kind in PAGED:
            found = sums(kind, self._run, _side(kind, place, ascending=False), _given(place), since)
            before, total, tokens = before + found.before, total + found.total, tokens + found.tokens
        return Counts(before, total, max(0, tokens))

    def _paged(self, kind: str, place: Place | None, limit: int, *, ascending: bool) -> Iterator[Item]:
        side = _side(kind, place, ascending=ascending)
        for row in page(kind, self._run, side, _given(place), limit, ascending=ascending):
            yield Item(Place(row["at_line"], RANKS[kind], row["key"]), kind, row["at"], row["added"] or 0, row)

    def _detailed(self, items: list[Item]) -> list[Item]:
        """Receipts with what a page says of them."""
        keys = [item.place.key for item in items if item.kind == "receipt"]
        rows = receipt_details(keys)
        if self._rewritten:
            rows = {**self._rewritten.unsent_details(keys), **rows}
        return [
            Item(item.place, item.kind, rows[item.place.key]["at"], item.tokens, rows[item.place.key])
            if item.kind == "receipt"
            else item
            for item in items
        ]


def _marks(receipts: Iterable[Placed], compactions: Sequence[Compaction]) -> list[Mark]:
    """In order. No two have the same line, rank and key, so nothing behind these is compared."""
    found = [Mark(one.line, RANKS["receipt"], one.key, one.tokens) for one in receipts]
    found += _replacements(receipts, sorted(one.line for one in compactions))
    rank = RANKS["compaction"]
    for one in compactions:
        row = {"message": one.message, "is_partial": one.is_partial}
        found.append(Mark(one.line, rank, one.key.hex, 0, "compaction", one.at, row))
    return sorted(found)


def _key(of: Place | Mark) -> tuple[int, int, str]:
    return of.line, of.rank, of.key if isinstance(of.key, str) else of.key.hex


def _replacements(receipts: Iterable[Placed], compacted: Sequence[int]) -> Iterator[Mark]:
    """Receipts that stop standing at a line, one item a line: a compaction may end hundreds.

    What was compacted away before that line no longer weighed anything, and cannot be taken out again.
    """
    ended = [one for one in receipts if one.superseded_line is not None]
    ended.sort(key=lambda one: one.superseded_line or 0)
    for line, group in groupby(ended, key=lambda one: one.superseded_line or 0):
        gone = list(group)
        at = max((one.superseded_at for one in gone if one.superseded_at), default=None)
        row = {"count": len(gone), "reason": max(one.superseded_reason for one in gone)}
        since = max(compacted[: bisect_left(compacted, line)], default=-1)
        tokens = -sum(one.tokens for one in gone if one.line > since)
        yield Mark(line, RANKS["replacement"], NO_KEY.hex, tokens, "replacement", at, row)


def _side(kind: str, place: Place | None, *, ascending: bool) -> str:
    """The name of what stands strictly behind or in front of `place`, for the rows of one kind."""
    if place is None:
        return ""
    way, rank = "behind" if ascending else "ahead", RANKS[kind]
    if rank == place.rank:
        return f"{way} by key"
    return f"{way}, the line too" if (rank > place.rank) is ascending else way


def _given(place: Place | None) -> dict[str, Any]:
    return {} if place is None else {"line": place.line, "key": place.key}
