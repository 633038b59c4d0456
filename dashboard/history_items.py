"""What stands in a run's history, as metadata in one order: messages, calls, receipts, replacements, compactions.

An item's place is (line, rank, key): the line of the source, the kind's rank within a line, and the
row's id. A page is cut out of five ordered queries by that place, so that no page reads what
another shows, and no payload is read here at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    ExpressionWrapper,
    F,
    IntegerField,
    Max,
    Q,
    QuerySet,
    Sum,
    UUIDField,
    Value,
    When,
)
from django.db.models.expressions import CombinedExpression

from dashboard.models import Event, Message, Receipt, Run, RunCall
from envelopes.tokens import CHARACTERS_PER_TOKEN

COMPACTION = "compact_boundary"
NO_KEY = UUID(int=0)
Rows: TypeAlias = QuerySet[Any, Any]


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
class Kind:
    """`rows` yields dicts with at_line, key, at, added and whatever the kind is shown by."""

    name: str
    rank: int
    rows: Callable[[Run], Rows]


def place_of(text: str) -> Place | None:
    """A place from the address bar; None when it is not one."""
    parts = text.split("-")
    if len(parts) != 3 or len(text) > 60 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    try:
        return Place(int(parts[0]), int(parts[1]), UUID(hex=parts[2]))
    except ValueError:
        return None


def items_after(run: Run, place: Place | None, limit: int) -> list[Item]:
    """The first `limit` items behind `place`; from the beginning when it is None."""
    found = [item for kind in KINDS for item in _some(kind, run, place, limit, ascending=True)]
    return sorted(found, key=lambda item: item.place)[:limit]


def items_before(run: Run, place: Place | None, limit: int) -> list[Item]:
    """The last `limit` items in front of `place`; of the whole history when it is None."""
    found = [item for kind in KINDS for item in _some(kind, run, place, limit, ascending=False)]
    return sorted(found, key=lambda item: item.place)[-limit:]


@dataclass(frozen=True, slots=True)
class Counts:
    """`before` items stand in front of a place, out of `total`; `tokens` is what of those still stands there."""

    before: int
    total: int
    tokens: int


def counts_at(run: Run, place: Place | None, *, since: int) -> Counts:
    """`since` is the line of the last compaction in front of `place`, -1 without one: tokens count from there."""
    before = total = tokens = 0
    for kind in KINDS:
        ahead = Q() if place is None else _side(kind.rank, place, ascending=False)
        sums = kind.rows(run).aggregate(
            before=Count(Case(When(ahead, then=1))) if ahead else Count("*"),
            total=Count("*"),
            tokens=Sum(Case(When(ahead & Q(at_line__gt=since), then=F("added")), default=0)),
        )
        before, total, tokens = before + sums["before"], total + sums["total"], tokens + (sums["tokens"] or 0)
    return Counts(before, total, max(0, tokens))


def compactions(run: Run) -> list[tuple[int, datetime | None]]:
    """Line and stamp of each compaction, in order: what stands before one, the model no longer saw after it."""
    return list(run.events.filter(kind=COMPACTION).order_by("line").values_list("line", "at"))


def _some(kind: Kind, run: Run, place: Place | None, limit: int, *, ascending: bool) -> Iterable[Item]:
    rows = kind.rows(run)
    if place is not None:
        rows = rows.filter(_side(kind.rank, place, ascending=ascending))
    order = ("at_line", "key") if ascending else ("-at_line", "-key")
    for row in rows.order_by(*order)[:limit]:
        yield Item(Place(row["at_line"], kind.rank, row["key"]), kind.name, row["at"], row["added"] or 0, row)


def _side(rank: int, place: Place, *, ascending: bool) -> Q:
    """Strictly behind or in front of `place`, for the rows of one rank."""
    beyond = Q(at_line__gt=place.line) if ascending else Q(at_line__lt=place.line)
    if rank == place.rank:
        within = Q(key__gt=place.key) if ascending else Q(key__lt=place.key)
        return beyond | (Q(at_line=place.line) & within)
    return beyond | Q(at_line=place.line) if (rank > place.rank) is ascending else beyond


def _estimate(column: str) -> ExpressionWrapper[CombinedExpression]:
    """Tokens by size, for what was stored without a count of its own."""
    return ExpressionWrapper(F(column) / CHARACTERS_PER_TOKEN, output_field=IntegerField())


def _messages(run: Run) -> Rows:
    added = Case(When(tokens__gt=0, then=F("tokens")), default=_estimate("size"), output_field=IntegerField())
    rows = Message.objects.filter(run=run).annotate(at_line=F("line"), key=F("id"), added=added)
    return rows.values("at_line", "key", "at", "added", "role", "size")


def _calls(run: Run) -> Rows:
    rows = RunCall.objects.filter(run=run).annotate(
        at_line=F("ordinal"), key=F("call_id"), at=F("call__started_at"), added=_estimate("call__args_bytes")
    )
    return rows.values(
        "at_line", "key", "at", "added", "inherited", "call__tool", "call__status", "call__receipt_count"
    )


# An inherited call's receipts lie at lines of another file: they are shown where the call is.
RECEIPT_LINE = Case(
    When(call__memberships__inherited=True, then=F("call__memberships__ordinal")),
    default=F("line"),
    output_field=IntegerField(),
)


def _receipts(run: Run) -> Rows:
    rows = Receipt.objects.filter(call__memberships__run=run).annotate(
        at_line=RECEIPT_LINE, key=F("id"), added=F("tokens")
    )
    return rows.values(
        "at_line",
        "key",
        "at",
        "added",
        "seq",
        "fidelity",
        "characters",
        "observation_id",
        "superseded_at",
        "superseded_line",
        "superseded_reason",
        "call_id",
        "call__tool",
        "call__is_cut",
        "call__seen_lines",
        "call__output_lines",
        "call__status",
    )


def _replacements(run: Run) -> Rows:
    """Receipts that stop standing at a line, one item a line: a compaction may end hundreds."""
    rows = Receipt.objects.filter(
        call__memberships__run=run, call__memberships__inherited=False, superseded_line__isnull=False
    )
    grouped = rows.annotate(at_line=F("superseded_line"), key=Value(NO_KEY, UUIDField())).values("at_line", "key")
    return grouped.annotate(
        at=Max("superseded_at"), added=-Sum("tokens"), count=Count("id"), reason=Max("superseded_reason")
    )


def _compactions(run: Run) -> Rows:
    rows = Event.objects.filter(run=run, kind=COMPACTION).annotate(at_line=F("line"), key=F("id"), added=F("line") * 0)
    return rows.values("at_line", "key", "at", "added", "message")


KINDS = (
    Kind("message", 0, _messages),
    Kind("call", 1, _calls),
    Kind("receipt", 2, _receipts),
    Kind("replacement", 3, _replacements),
    Kind("compaction", 4, _compactions),
)
