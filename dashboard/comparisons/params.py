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


ADDRESS = {"columns": "", "column": 1, "by": "family", "measure": "tokens", "order": ""}  # and what goes unsaid


@dataclass(frozen=True)
class Ask:
    """What the address says; anything that makes no sense there is as if it were not."""

    column: int
    by: str
    measure: Measure
    order: str
    columns: str = ""  # the arrangement, where it is not the frozen one

    @classmethod
    def of(cls, query: Mapping[str, str], columns: int, said: str = "") -> Ask:
        column = _place(query.get("column", ""))
        measure = next((one for one in MEASURES if one == query.get("measure")), MEASURES[0])
        by = "tool" if query.get("by") == "tool" else "family"
        return cls(column if column and column < columns else 1, by, measure, query.get("order", ""), said)

    @property
    def kept(self) -> dict[str, str]:
        """What the addresses of calls have to keep."""
        return {"columns": self.columns} if self.columns else {}

    @property
    def place(self) -> int | None:
        """The column that the grid is ordered by; None for its names."""
        return _place(self.order)

    def address(self, **changes: object) -> str:
        kept = {name: getattr(self, name) for name in ADDRESS} | changes
        return "?" + urlencode({name: value for name, value in kept.items() if value != ADDRESS[name]})


def _place(text: str) -> int | None:
    """int() refuses some of what isdigit() takes, such as ²."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 else None


def calls_href(comparison: Comparison, column: int, **wanted: object) -> str:
    return f"{reverse('comparison-calls', args=[comparison.pk])}?{urlencode({'column': column, **wanted})}"


def pair_href(comparison: Comparison, key: UUID, column: int, **listed: object) -> str:
    """One call's halves. `listed` says in which list of calls it was found, so that the page can walk that list."""
    return f"{reverse('comparison-pair', args=[comparison.pk, key])}?{urlencode({'column': column, **listed})}"
