"""The address parameters of a comparison's pages, and the addresses of its calls.

    columns=2.0.1   the order of the columns, by their stored ordinals; the leftmost is the baseline
    column=2        the column that is compared with the baseline, by its position in that order
    by=tool   measure=lint   order=1   the rows, cells and order of the grid

Columns that `columns` does not name are hidden. The stored comparison keeps its order; its numbers are summarised once
for each column that was made the baseline, by a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from django.urls import reverse

from dashboard.experiments.measure_calls import MEASURES, Measure, MeasuredCall
from dashboard.experiments.stored_columns import load_column_rows, load_columns
from dashboard.experiments.stored_comparison import (
    baseline_first,
    load_batches,
    load_summary,
)
from dashboard.experiments.summary import Summary, unpack_summary
from dashboard.models import Comparison, ComparisonBaseline, ComparisonColumn
from dashboard.text.params import Params
from dashboard.variants.variant_list import VariantColumn

FEWEST_COLUMNS = 2
LABELS: dict[Measure, str] = {
    "tokens": "Tokens",
    "characters": "Characters",
    "cut": "Cut calls",
    "lint": "Lint findings",
    "dropped": "Fields dropped",
}


@dataclass(frozen=True)
class ColumnOrder:
    """`order` has stored ordinals; `rows` are the stored columns, one row for each family that a column serves."""

    comparison: Comparison
    order: tuple[int, ...]
    rows: tuple[ComparisonColumn, ...]

    @classmethod
    def read(cls, comparison: Comparison, query: Mapping[str, str]) -> ColumnOrder:
        """The order of the address; the stored one where the address has none, or one that is impossible."""
        rows = tuple(load_column_rows(comparison))
        stored = tuple(dict.fromkeys(row.ordinal for row in rows))
        return cls(comparison, _parse_order(query.get("columns", ""), stored) or stored, rows)

    @cached_property
    def stored_order(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.ordinal for row in self.rows))

    @cached_property
    def names(self) -> list[str]:
        names = {row.ordinal: row.name for row in self.rows}
        return [names[ordinal] for ordinal in self.order]

    @property
    def hidden(self) -> int:
        return len(self.stored_order) - len(self.order)

    @property
    def value(self) -> str:
        """`2.0.1`"""
        return ".".join(map(str, self.order))

    @property
    def param(self) -> str:
        """The value of `?columns=`, empty for the stored order."""
        return "" if self.order == self.stored_order else self.value

    @property
    def query(self) -> dict[str, str]:
        """The parameter that addresses of calls carry on, if any."""
        return {"columns": self.param} if self.param else {}

    def with_baseline(self, position: int) -> ColumnOrder:
        rest = (*self.order[:position], *self.order[position + 1 :])
        return replace(self, order=(self.order[position], *rest))

    def moved(self, position: int, by: int) -> ColumnOrder | None:
        """None where the column would leave the order, or become the baseline."""
        target = position + by
        if not 0 < target < len(self.order):
            return None
        order = list(self.order)
        order.insert(target, order.pop(position))
        return replace(self, order=tuple(order))

    def without(self, position: int) -> ColumnOrder | None:
        """None where too few columns would be left."""
        if len(self.order) <= FEWEST_COLUMNS:
            return None
        return replace(self, order=(*self.order[:position], *self.order[position + 1 :]))

    def reset(self) -> ColumnOrder:
        return replace(self, order=self.stored_order)

    @cached_property
    def summary(self) -> Summary | None:
        """None where the comparison has not finished, or was not summarised against this baseline."""
        baseline = self.order[0]
        if not self.comparison.is_finished:
            return None
        if baseline == 0:
            summary = load_summary(self.comparison)
        else:
            packed = self.comparison.baselines.filter(ordinal=baseline).values_list("summary", flat=True).first()
            if packed is None:
                return None
            summary = unpack_summary(bytes(packed))
        positions = baseline_first(baseline, len(self.stored_order))
        columns = tuple(summary.columns[positions.index(ordinal)] for ordinal in self.order)
        return msgspec.structs.replace(summary, columns=columns)

    @cached_property
    def is_requested(self) -> bool:
        """True while the summary against this baseline was requested and a worker has not computed it."""
        return self.summary is None and self.comparison.baselines.filter(ordinal=self.order[0]).exists()

    def load_batches(self, numbers: Sequence[int]) -> Iterator[tuple[int, list[MeasuredCall]]]:
        for number, rows in load_batches(self.comparison, numbers):
            yield number, [self.reorder(row) for row in rows]

    def reorder(self, row: MeasuredCall) -> MeasuredCall:
        return row.reorder(self.order) if self.param else row

    def load_columns(self) -> list[VariantColumn]:
        """The columns as they can be rendered today."""
        columns = load_columns(self.rows)
        return [replace(columns[ordinal], ordinal=position) for position, ordinal in enumerate(self.order)]


def _parse_order(text: str, stored: Sequence[int]) -> tuple[int, ...]:
    known = {str(ordinal): ordinal for ordinal in stored}
    named = text.split(".")[: len(stored) + 1]
    order = tuple(known[name] for name in named if name in known)
    is_valid = len(order) == len(named) == len(set(order)) and len(order) >= FEWEST_COLUMNS
    return order if is_valid else ()


def request_summary(comparison: Comparison, columns: str) -> ColumnOrder:
    """Queues the summary against the first of `columns`, unless it exists, and returns the order."""
    order = ColumnOrder.read(comparison, {"columns": columns})
    if order.order[0] and comparison.is_finished:
        ComparisonBaseline.objects.get_or_create(comparison=comparison, ordinal=order.order[0])
    return order


class ComparisonParams:
    """`column` is compared with the baseline; `by`, `measure` and `order` are the rows, cells and order of the grid.

    `order` is the column that the grid is sorted by, None for the names of its rows.
    """

    def __init__(self, query: Mapping[str, str], columns: ColumnOrder) -> None:
        last = len(columns.names) - 1
        self._columns = columns
        self._params = params = Params(query)
        params.text("columns")
        self.column = params.integer("column", default=1, least=1, most=last)
        self.by = params.choice("by", ("family", "tool"), default="family")
        self.measure: Measure = params.choice("measure", MEASURES, default="tokens")
        self.order = params.integer("order", default=None, most=last)

    @property
    def carried(self) -> dict[str, str]:
        """The parameters that addresses of calls carry on."""
        return self._columns.query

    def url(self, **changes: object) -> str:
        return self._params.url(**{"columns": self._columns.param, **changes})

    def url_in_order(self, order: ColumnOrder) -> str:
        """The page with its columns in another order, and the same column compared if it is still there."""
        current = self._columns.order[self.column]
        column = order.order.index(current) if current in order.order else 1
        return self.url(columns=order.param, column=max(1, column), order=None)


def calls_href(comparison: Comparison, column: int, **filters: object) -> str:
    return f"{reverse('comparison-calls', args=[comparison.pk])}?{urlencode({'column': column, **filters})}"


def pair_href(comparison: Comparison, key: UUID, column: int, **listed: object) -> str:
    """The page of one call; `listed` describes the list that it was opened from, for the links to its neighbours."""
    return f"{reverse('comparison-pair', args=[comparison.pk, key])}?{urlencode({'column': column, **listed})}"
