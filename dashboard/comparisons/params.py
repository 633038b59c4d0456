"""The address parameters of a comparison's pages, and the addresses of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.comparisons.cells import MEASURES, Measure
from dashboard.comparisons.column_order import ColumnOrder
from dashboard.models import Comparison
from dashboard.text.params import Params

LABELS: dict[Measure, str] = {
    "tokens": "Tokens",
    "characters": "Characters",
    "cut": "Cut calls",
    "lint": "Lint findings",
    "dropped": "Fields dropped",
}


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
