"""What a run's history is read from: one page of messages and of calls, all receipts as bare numbers.

Receipts hang on calls, so no index knows their order within a run: their places and tokens are read
for the whole run in one pass, and everything else about them only for those that a page shows.
Compactions are few and read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    BinaryField,
    Case,
    CharField,
    Count,
    ExpressionWrapper,
    F,
    IntegerField,
    Q,
    QuerySet,
    Sum,
    UUIDField,
    Value,
    When,
)
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Cast, Substr

from dashboard.models import Event, Message, Observation, Receipt, Run, RunCall
from dashboard.prepared import Row, given, prepared
from dashboard.text.payload_preview import Payload
from envelopes.text.tokens import CHARACTERS_PER_TOKEN

COMPACTION = "compact_boundary"
PARTIAL_COMPACTION = "partial_compact_boundary"  # some messages before it stayed
AT_ONCE = 40  # keys that one query of details asks for
WHOLE_BYTES = 1_000_000  # a longer payload is read only as far as it is shown
HEAD_BYTES = 64 * 1024

# What stands behind or in front of a place, for rows whose kind comes after, before or with the place's own
# on one line.
SIDES: Mapping[str, Callable[[Any, Any], Q]] = {
    "behind": lambda line, _: Q(at_line__gt=line),
    "behind, the line too": lambda line, _: Q(at_line__gte=line),
    "behind by key": lambda line, key: Q(at_line__gt=line) | Q(at_line=line, key__gt=key),
    "ahead": lambda line, _: Q(at_line__lt=line),
    "ahead, the line too": lambda line, _: Q(at_line__lte=line),
    "ahead by key": lambda line, key: Q(at_line__lt=line) | Q(at_line=line, key__lt=key),
}

COLUMNS = {
    "message": ("at_line", "key", "at", "added", "role"),
    "call": ("at_line", "key", "at", "added", "inherited", "call__tool", "call__status", "call__receipt_count"),
}
SUMS = ("before", "told", "total")
RECEIPT = (
    "id",
    "at",
    "fidelity",
    "observation_id",
    "superseded_line",
    "superseded_reason",
    "call_id",
    "call__tool",
    "call__is_cut",
    "call__seen_lines",
    "call__output_lines",
    "call__status",
)


class Placed(NamedTuple):
    """A receipt as a number, its id in hexadecimal, and where it stopped standing, None when it stands.

    An inherited call's receipt lies where the call is, and stopped standing in another run's history.
    """

    line: int
    key: str
    tokens: int
    superseded_line: int | None
    superseded_at: datetime | None
    superseded_reason: str


class Compaction(NamedTuple):
    line: int
    key: UUID
    at: datetime | None
    message: str
    kind: str

    @property
    def is_partial(self) -> bool:
        return self.kind == PARTIAL_COMPACTION


class Sums(NamedTuple):
    """Of one kind: how many rows stand in front of a place, their tokens behind a line, and how many there are."""

    before: int
    tokens: int
    total: int


def page(kind: str, run: Run, side: str, place: Mapping[str, Any], limit: int, *, ascending: bool) -> list[Any]:
    """Rows as mappings of COLUMNS; `side` is one of SIDES, or nothing for all; `place` is its line and key."""
    rows = _page(kind, side, limit, "up" if ascending else "down", run=run.pk, **place)
    return [dict(zip(COLUMNS[kind], row, strict=True)) for row in rows]


def sums(kind: str, run: Run, side: str, place: Mapping[str, Any], since: int) -> Sums:
    """In front of a place; without a `side` nothing is, and the rows are only counted."""
    rows = _sums(kind, side, run=run.pk, since=since, **place) if side else _total(kind, run=run.pk)
    before, tokens, total = rows[0] if rows else (0, 0, 0)
    return Sums(before, tokens or 0, total)


def receipts_of(run: Run) -> list[Placed]:
    """All of the run, in no order."""
    return [Placed(line, key.replace("-", ""), *rest) for line, key, *rest in _receipts(run=run.pk)]


def compactions_of(run: Run) -> list[Compaction]:
    """In order: what stands before one, the model no longer saw after it."""
    return sorted(Compaction(*row) for row in _compactions(run=run.pk))


def receipt_details(keys: Sequence[UUID]) -> dict[UUID, Mapping[str, Any]]:
    """What a page says of receipts, at most AT_ONCE of them."""
    rows = _receipt_details(**_filled(keys)) if keys else []
    return {row[0]: dict(zip(RECEIPT, row, strict=True)) for row in rows}


def messages_data(keys: Sequence[UUID]) -> dict[UUID, Payload]:
    return _payloads(_messages_data(**_filled(keys)) if keys else [])


def arguments_data(calls: Sequence[UUID]) -> dict[UUID, Payload]:
    """By call."""
    return _payloads(_arguments_data(**_filled(calls)) if calls else [])


def observations_data(keys: Sequence[UUID]) -> dict[UUID, Payload]:
    return _payloads(_observations_data(**_filled(keys)) if keys else [])


def _estimate(column: str) -> ExpressionWrapper[CombinedExpression]:
    """Tokens by size, for what was stored without a count of its own."""
    return ExpressionWrapper(F(column) / CHARACTERS_PER_TOKEN, output_field=IntegerField())


def _own_messages() -> QuerySet[Any, Any]:
    return Message.objects.filter(run=given("run", Message, "run"))


def _messages() -> QuerySet[Any, Any]:
    added = Case(When(tokens__gt=0, then=F("tokens")), default=_estimate("size"), output_field=IntegerField())
    rows: QuerySet[Any, Any] = _own_messages().annotate(at_line=F("line"), key=F("id"), added=added)
    return rows


def _members() -> QuerySet[Any, Any]:
    return RunCall.objects.filter(run=given("run", RunCall, "run"))


def _calls() -> QuerySet[Any, Any]:
    added = _estimate("call__args_bytes")
    at = F("call__started_at")
    rows: QuerySet[Any, Any] = _members().annotate(at_line=F("ordinal"), key=F("call_id"), at=at, added=added)
    return rows


BARE: Mapping[str, Callable[[], QuerySet[Any, Any]]] = {"message": _own_messages, "call": _members}
ROWS: Mapping[str, Callable[[], QuerySet[Any, Any]]] = {"message": _messages, "call": _calls}


@prepared
def _page(kind: str, side: str, limit: int, order: str) -> QuerySet[Any, Any]:
    rows = ROWS[kind]()
    if side:
        rows = rows.filter(SIDES[side](given("line", Message, "line"), given("key", Message, "id")))
    ordered = rows.order_by("at_line", "key") if order == "up" else rows.order_by("-at_line", "-key")
    return ordered.values_list(*COLUMNS[kind])[:limit]


@prepared
def _sums(kind: str, side: str) -> QuerySet[Any, Any]:
    ahead = SIDES[side](given("line", Message, "line"), given("key", Message, "id"))
    told = Sum("added", filter=ahead & Q(at_line__gt=given("since", Message, "line")))
    rows: QuerySet[Any, Any] = ROWS[kind]().order_by().values("run")
    rows = rows.annotate(before=Count("id", filter=ahead), told=told, total=Count("id"))
    return rows.values_list(*SUMS)


@prepared
def _total(kind: str) -> QuerySet[Any, Any]:
    rows: QuerySet[Any, Any] = BARE[kind]().order_by().values("run")
    rows = rows.annotate(before=Value(0), told=Value(0), total=Count("id"))
    return rows.values_list(*SUMS)


@prepared
def _receipts() -> QuerySet[Any, Any]:
    place = Case(
        When(call__memberships__inherited=True, then=F("call__memberships__ordinal")),
        default=F("line"),
        output_field=IntegerField(),
    )
    rows = Receipt.objects.filter(call__memberships__run=given("run", RunCall, "run"))
    ended = Case(When(call__memberships__inherited=False, then=F("superseded_line")), output_field=IntegerField())
    rows = rows.annotate(at_line=place, key=Cast("id", CharField()), ended=ended)
    return rows.values_list("at_line", "key", "tokens", "ended", "superseded_at", "superseded_reason")


@prepared
def _compactions() -> QuerySet[Any, Any]:
    own = Event.objects.filter(run=given("run", Event, "run"), kind__in=(COMPACTION, PARTIAL_COMPACTION))
    return own.values_list("line", "id", "at", "message", "kind")


@prepared
def _receipt_details() -> QuerySet[Any, Any]:
    return _wanted(Receipt.objects.all(), "id").values_list(*RECEIPT)


@prepared
def _messages_data() -> QuerySet[Any, Any]:
    return _wanted(Message.objects.all(), "id").values_list("id", "size", _head())


@prepared
def _arguments_data() -> QuerySet[Any, Any]:
    arguments = Observation.objects.filter(surface="args", selected=True)
    return _wanted(arguments, "call_id").values_list("call_id", "size", _head())


@prepared
def _observations_data() -> QuerySet[Any, Any]:
    return _wanted(Observation.objects.all(), "id").values_list("id", "size", _head())


def _wanted(rows: QuerySet[Any, Any], column: str) -> QuerySet[Any, Any]:
    """Those with one of AT_ONCE keys. As a plain column: a relation takes no placeholders in a list."""
    keys = [given(f"key{number}", Message, "id") for number in range(AT_ONCE)]
    rows = rows.alias(wanted=ExpressionWrapper(F(column), output_field=UUIDField()))
    return rows.filter(wanted__in=keys)


def _filled(keys: Sequence[UUID]) -> dict[str, UUID]:
    """As many keys as a prepared query has places; the last one stands in those that are left."""
    return {f"key{number}": keys[min(number, len(keys) - 1)] for number in range(AT_ONCE)}


def _head() -> Case:
    """The data, or the head of one beyond WHOLE_BYTES."""
    return Case(
        When(size__lte=WHOLE_BYTES, then=F("data")),
        default=Substr("data", 1, HEAD_BYTES, output_field=BinaryField()),
        output_field=BinaryField(),
    )


def _payloads(rows: Sequence[Row]) -> dict[UUID, Payload]:
    return {key: Payload(bytes(data), size) for key, size, data in rows}
