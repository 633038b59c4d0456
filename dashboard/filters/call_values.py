"""Conditions on values of a call that follow from several of its columns: its times, and what its receipt had of it."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, Case, Expression, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual

from dashboard.filters.keys import Share
from dashboard.models import RecordedReceipt
from dashboard.models.call_times import own_time, waiting_time


class Row(NamedTuple):
    """Leads to the columns of a call and of its run: prefixes of lookups, and columns of ids."""

    call: str
    run: str
    project: str
    run_id: str


RUN = Row("", "", "project_id", "pk")
CALL = Row("", "run__", "project_id", "run_id")
MEMBER = Row("call__", "run__", "run__project_id", "run_id")

TIMES = {"took": own_time, "waited": waiting_time}
MEASURES = (*TIMES, "seen")
LOOKUPS: dict[str, type[Expression]] = {
    "exact": Exact,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
    "lt": LessThan,
    "lte": LessThanOrEqual,
}


def has_time(kind: str, bounds: dict[str, Any], prefix: str, *, is_hidden: bool = False) -> Q:
    """Calls with a time of that kind within the bounds; one without it meets the negation. `prefix` leads to the call.

    `is_hidden`: without its index, as `hidden` does.
    """
    time: Expression = TIMES[kind](prefix)
    if is_hidden:
        time = Coalesce(time, Value(None), output_field=BigIntegerField())
    return compare(time, bounds) & Q(IsNull(time, rhs=False))


def has_receipt(row: Row) -> Q:
    """Calls with a recorded receipt, by the rule of `Call.has_tokens`; the indexes of lists have the tokens."""
    is_absent = Exact(receipt_value(row, "fidelity"), Value("absent"))
    return compare(receipt_value(row, "tokens"), {"gt": 0}) | ~Q(is_absent)


def has_seen(row: Row, bounds: dict[str, Any]) -> Q:
    """Calls of which the recording proves that the model got so many lines, or such a share of the lines.

    Of a log that holds more than the model got, the lines are at most those that are counted; of an output that the
    source shortened, all lines are at least those. Both may have been less than any lower bound.
    """
    seen, lines = (receipt_value(row, column) for column in ("seen_lines", "output_lines"))
    condition = Q(GreaterThan(lines, Value(0))) & has_receipt(row)
    for lookup, bound in bounds.items():
        is_share = isinstance(bound, Share)
        left, right = (seen * 1_000, lines * bound.thousandths) if is_share else (seen, Value(bound))
        condition &= Q(LOOKUPS[lookup](left, right))
        is_least = lookup in ("gt", "gte") or (lookup == "exact" and bound not in (0, Share(0)))
        if is_least:
            condition &= ~Q(Exact(receipt_value(row, "fidelity"), Value("inflated")))
        if is_least and is_share:
            condition &= ~Q(Exact(F(f"{row.call}result_fidelity"), Value("bounded")))
    return condition


def receipt_value(row: Row, column: str) -> Expression:
    """A column of the receipt that a call has in a run: a copied call may have another one there than in its own."""
    of_call = "receipt_fidelity" if column == "fidelity" else column
    if row is not MEMBER:
        return hidden(f"{row.call}{of_call}")
    receipts = RecordedReceipt.objects.filter(call=OuterRef("call"), run=OuterRef("run"))
    newest = receipts.order_by(Case(When(superseded_line__isnull=True, then=0), default=1), "-seq")
    in_run = Coalesce(Subquery(newest.values(column)[:1]), F(f"call__{of_call}"))
    return Case(When(call__run=F("run"), then=F(f"call__{of_call}")), default=in_run)


def compare(value: Expression, bounds: dict[str, Any]) -> Q:
    return reduce(and_, (Q(LOOKUPS[lookup](value, bound)) for lookup, bound in bounds.items()))


def hidden(column: str) -> Expression:
    """The column without its index: SQLite would rather sort all that the index has than walk a list in its order."""
    return Coalesce(F(column), F(column))
