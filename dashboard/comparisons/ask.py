"""What the address of a comparison's page says, and the addresses that lead on from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.comparisons.cells import MEASURES, Measure
from dashboard.models import Comparison

LABELS: dict[Measure, str] = {
    "tokens": "Tokens",
    "characters": "Characters",
    "cut": "Cut calls",
    "lint": "Lint findings",
    "dropped": "Fields dropped",
}


@dataclass(frozen=True)
class Ask:
    """What the address says; anything that makes no sense there is as if it were not."""

    column: int
    by: str
    measure: Measure
    order: str

    @classmethod
    def of(cls, query: Mapping[str, str], columns: int) -> Ask:
        column = _place(query.get("column", ""))
        measure = next((one for one in MEASURES if one == query.get("measure")), MEASURES[0])
        by = "tool" if query.get("by") == "tool" else "family"
        return cls(column if column and column < columns else 1, by, measure, query.get("order", ""))

    @property
    def place(self) -> int | None:
        """The column that the grid is ordered by; None for its names."""
        return _place(self.order)

    def address(self, **changes: object) -> str:
        kept = {"column": self.column, "by": self.by, "measure": self.measure, "order": self.order} | changes
        defaults = {"column": 1, "by": "family", "measure": "tokens", "order": ""}
        return "?" + urlencode({name: value for name, value in kept.items() if value != defaults[name]})


def _place(text: str) -> int | None:
    """int() refuses some of what isdigit() takes, such as ²."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 else None


def calls_href(comparison: Comparison, column: int, **wanted: object) -> str:
    return f"{reverse('comparison-calls', args=[comparison.pk])}?{urlencode({'column': column, **wanted})}"


def pair_href(comparison: Comparison, key: UUID, column: int, **listed: object) -> str:
    """One call's halves. `listed` says in which list of calls it was found, so that the page can walk that list."""
    return f"{reverse('comparison-pair', args=[comparison.pk, key])}?{urlencode({'column': column, **listed})}"
