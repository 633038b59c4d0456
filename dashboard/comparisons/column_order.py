"""The columns of a comparison in the order that somebody looks at them in: `?columns=2.0.1`.

The leftmost is the baseline, and one that is not named is not shown. The frozen comparison stays as it is; its
numbers are added up once for each column that was made the baseline, in the background. On the pages a column's
number is its place in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from dashboard.comparisons.cells import Row
from dashboard.comparisons.frozen_columns import load_column_rows, load_columns
from dashboard.comparisons.results import baseline_first, load_batches, load_summary
from dashboard.comparisons.summary import Summary, unpacked_summary
from dashboard.models import Comparison, ComparisonBaseline, ComparisonColumn
from dashboard.variants.variant_list import VariantColumn

FEWEST = 2  # columns


@dataclass(frozen=True)
class Arrangement:
    """`order` are ordinals as they were frozen, `names` those of all columns in that frozen order."""

    comparison: Comparison
    order: tuple[int, ...]
    rows: tuple[ComparisonColumn, ...]

    @classmethod
    def of(cls, comparison: Comparison, query: Mapping[str, str]) -> Arrangement:
        """An order that makes no sense is as if it were not there."""
        rows = tuple(load_column_rows(comparison))
        every = tuple(dict.fromkeys(row.ordinal for row in rows))
        return cls(comparison, _order(query.get("columns", ""), every) or every, rows)

    @cached_property
    def every(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.ordinal for row in self.rows))

    @cached_property
    def names(self) -> list[str]:
        names = {row.ordinal: row.name for row in self.rows}
        return [names[ordinal] for ordinal in self.order]

    @property
    def hidden(self) -> int:
        return len(self.every) - len(self.order)

    @property
    def kept(self) -> dict[str, str]:
        """What an address has to say; nothing of the order that was frozen."""
        return {} if self.order == self.every else {"columns": self.said}

    @property
    def said(self) -> str:
        return ".".join(map(str, self.order))

    def led_by(self, place: int) -> Arrangement:
        rest = (*self.order[:place], *self.order[place + 1 :])
        return replace(self, order=(self.order[place], *rest))

    def moved(self, place: int, by: int) -> Arrangement | None:
        """None where it would leave the others, or become the baseline."""
        target = place + by
        if not 0 < target < len(self.order):
            return None
        order = list(self.order)
        order.insert(target, order.pop(place))
        return replace(self, order=tuple(order))

    def without(self, place: int) -> Arrangement | None:
        if len(self.order) <= FEWEST:
            return None
        return replace(self, order=(*self.order[:place], *self.order[place + 1 :]))

    def restored(self) -> Arrangement:
        return replace(self, order=self.every)

    @cached_property
    def summary(self) -> Summary | None:
        """None where the comparison has not ended, or was not added up against this baseline."""
        if not self.comparison.is_finished:
            return None
        found = self._summary()
        if found is None:
            return None
        places = baseline_first(self.order[0], len(self.every))
        return msgspec.structs.replace(found, columns=tuple(found.columns[places.index(one)] for one in self.order))

    def _summary(self) -> Summary | None:
        if self.order[0] == 0:
            return load_summary(self.comparison)
        kept = self.comparison.baselines.filter(ordinal=self.order[0]).values_list("summary", flat=True).first()
        return None if kept is None else unpacked_summary(bytes(kept))

    @cached_property
    def is_asked_for(self) -> bool:
        """Somebody wants its numbers, and a worker adds them up or will."""
        return self.summary is None and self.comparison.baselines.filter(ordinal=self.order[0]).exists()

    def load_batches(self, numbers: Sequence[int]) -> Iterator[tuple[int, list[Row]]]:
        for number, rows in load_batches(self.comparison, numbers):
            yield number, [self.row(row) for row in rows]

    def row(self, row: Row) -> Row:
        return row.arranged(self.order) if self.kept else row

    def columns(self) -> list[VariantColumn]:
        """As they can be rendered today."""
        found = load_columns(self.rows)
        return [replace(found[ordinal], ordinal=place) for place, ordinal in enumerate(self.order)]


def _order(text: str, every: Sequence[int]) -> tuple[int, ...]:
    known = {str(ordinal): ordinal for ordinal in every}
    named = text.split(".")[: len(every) + 1]
    order = tuple(known[one] for one in named if one in known)
    is_sound = len(order) == len(named) == len(set(order)) and len(order) >= FEWEST
    return order if is_sound else ()


def ask_for(comparison: Comparison, said: str) -> Arrangement:
    """Has the numbers of that order's baseline added up, where they are not there yet."""
    wanted = Arrangement.of(comparison, {"columns": said})
    if wanted.order[0] and comparison.is_finished:
        ComparisonBaseline.objects.get_or_create(comparison=comparison, ordinal=wanted.order[0])
    return wanted
