"""One column of a comparison while its rows go by: sums and short lists, nothing that grows with the calls.

A call's numbers travel as a tuple, its count and then MEASURES, and are added by `map`: a hundred thousand
calls under three variants are three hundred thousand of these additions.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from operator import add, gt, lt, sub
from typing import TypeAlias

from dashboard.comparisons.cells import MEASURES, Cell, Measure, Row
from dashboard.comparisons.changes import CHANGES, Changed, bucket
from dashboard.comparisons.statistics import Spread

MOST_CHANGED = 50

Numbers: TypeAlias = tuple[int, ...]
NOTHING: Numbers = (0,) * (1 + len(MEASURES))


class GroupSums:
    """By group of calls, for the intervals."""

    def __init__(self, groups: int) -> None:
        self._sums: list[Numbers] = [NOTHING] * groups

    def add(self, group: int, numbers: Numbers) -> None:
        self._sums[group] = tuple(map(add, self._sums[group], numbers))

    def spreads(self) -> dict[Measure, Spread]:
        counts, *sums = zip(*self._sums, strict=True) if self._sums else [()] * len(NOTHING)
        return {measure: Spread(list(of), counts) for measure, of in zip(MEASURES, sums, strict=True)}


class Adding:
    """`parts` are sums by family and tool; `before`, `more` and `fewer` are of the pairs, in the order of MEASURES."""

    def __init__(self, groups: int) -> None:
        self.totals, self.deltas = GroupSums(groups), GroupSums(groups)
        self.parts: dict[tuple[str, str], Numbers] = {}
        self.before = self.more = self.fewer = NOTHING[1:]
        self.absent = self.problems = 0
        self.problem = ""
        self.rules: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.changes: Counter[int] = Counter()
        self._ranked: Mapping[Measure, list[tuple[int, str, Changed]]] = {measure: [] for measure in CHANGES}

    def add(self, row: Row, ordinal: int, group: int) -> None:
        cell = row.cells[ordinal]
        if cell is None or cell.problem:
            self._add_nothing(cell)
            return
        numbers = (1, *cell.values)
        self.totals.add(group, numbers)
        part = row.family, row.tool
        self.parts[part] = tuple(map(add, self.parts.get(part, NOTHING), numbers))
        if cell.lint:
            self.rules.update(cell.lint)
        if cell.fields:
            self.fields.update(cell.fields)
        self.sizes[bucket(cell.tokens)] += 1
        baseline = row.cells[0] if ordinal else None
        if baseline is not None and not baseline.problem:
            self._add_pair(row, baseline, cell, group)

    def changed(self, measure: Measure) -> tuple[Changed, ...]:
        ranked = sorted(self._ranked[measure], key=lambda one: one[:2], reverse=True)
        return tuple(changed for _, _, changed in ranked)

    def _add_nothing(self, cell: Cell | None) -> None:
        if cell is None:
            self.absent += 1
        else:
            self.problems += 1
            self.problem = self.problem or cell.problem

    def _add_pair(self, row: Row, baseline: Cell, cell: Cell, group: int) -> None:
        before, after = baseline.values, cell.values
        self.deltas.add(group, (1, *map(sub, after, before)))
        self.before = tuple(map(add, self.before, before))
        self.more = tuple(map(add, self.more, map(gt, after, before)))
        self.fewer = tuple(map(add, self.fewer, map(lt, after, before)))
        self.changes[bucket(cell.tokens - baseline.tokens)] += 1
        for measure, place in PLACES:
            if after[place] != before[place]:
                self._rank(measure, row, (baseline, cell), before[place], after[place])

    def _rank(self, measure: Measure, row: Row, cells: tuple[Cell, Cell], before: int, after: int) -> None:
        weight = abs(after - before) if measure == "tokens" else after - before
        ranked = self._ranked[measure]
        if weight <= 0 or (len(ranked) == MOST_CHANGED and weight < ranked[0][0]):
            return
        # Of equal weight, the call whose id comes first: the list must not depend on the order of batches.
        changed = Changed(row.call.hex(), row.tool, before, after, _new_names(measure, *cells))
        entry = (weight, _inverted(row.call), changed)
        (heapq.heappush if len(ranked) < MOST_CHANGED else heapq.heappushpop)(ranked, entry)


PLACES = tuple((measure, MEASURES.index(measure)) for measure in CHANGES)


def _new_names(measure: Measure, baseline: Cell, cell: Cell) -> tuple[str, ...]:
    match measure:
        case "dropped":
            return tuple(name for name in cell.fields if name not in baseline.fields)
        case "lint":
            return tuple((Counter(cell.lint) - Counter(baseline.lint)).elements())
    return ()


def _inverted(call: bytes) -> str:
    return bytes(255 - one for one in call).hex()
