"""One column of a comparison while its rows go by: sums and short lists, nothing that grows with the calls.

A call's numbers travel as a tuple, its count and then MEASURES, and are added by `map`: a hundred thousand
calls under three variants are three hundred thousand of these additions.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import add, gt, lt, sub
from typing import TypeAlias

from dashboard.comparisons.cells import MEASURES, Cell, Measure, Row
from dashboard.comparisons.changes import CHANGES, Changed, bucket
from dashboard.comparisons.significance import Spread

MOST_CHANGED = 50

Numbers: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[Numbers, Numbers]  # the baseline's and the column's, in the order of MEASURES
Part: TypeAlias = tuple[str, str]  # family and tool
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
    """`parts` are sums by family and tool, and `lone` those of calls that only the baseline or only this column has
    a text for; `before`, `more` and `fewer` are of the pairs, in the order of MEASURES. `places` says, a bit each, in
    which batches there is such a call, by what a list of calls is narrowed with."""

    def __init__(self, groups: int) -> None:
        self.totals, self.deltas = GroupSums(groups), GroupSums(groups)
        self.parts: dict[Part, Numbers] = {}
        self.lone: tuple[dict[Part, Numbers], dict[Part, Numbers]] = ({}, {})
        self.places: dict[str, int] = defaultdict(int)
        self.before = self.more = self.fewer = NOTHING[1:]
        self.absent = self.problems = 0
        self.problem = ""
        self.rules: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.changes: Counter[int] = Counter()
        self._ranked: Mapping[Measure, list[tuple[int, str, Changed]]] = {measure: [] for measure in CHANGES}

    def add(self, rows: Sequence[Row], ordinal: int, groups: Sequence[int], batch: int) -> None:
        """A batch, its number, and the group of each of its rows."""
        parts: dict[Part, list[Numbers]] = defaultdict(list)
        pairs: list[Pair] = []
        for row, group in zip(rows, groups, strict=True):
            cell, part = row.cells[ordinal], (row.family, row.tool)
            baseline = row.measured(0) if ordinal else None
            if cell is None or cell.problem:
                self._add_nothing(cell)
                self._add_lone(0, part, baseline)
                continue
            values = cell.values
            parts[part].append((1, *values))
            self._add_cell(cell, values, group)
            if baseline is not None:
                pairs.append((baseline.values, values))
                self._add_pair(row, (baseline, cell), pairs[-1], group)
            elif ordinal:
                self._add_lone(1, part, cell)
        for part, numbers in parts.items():
            self.parts[part] = _added(self.parts.get(part, NOTHING), numbers)
        if pairs:
            self._add_pairs(pairs)
        for key in _keys(parts, pairs):
            self.places[key] |= 1 << batch

    def changed(self, measure: Measure) -> tuple[Changed, ...]:
        ranked = sorted(self._ranked[measure], key=lambda one: one[:2], reverse=True)
        return tuple(changed for _, _, changed in ranked)

    def _add_nothing(self, cell: Cell | None) -> None:
        if cell is None:
            self.absent += 1
        else:
            self.problems += 1
            self.problem = self.problem or cell.problem

    def _add_lone(self, side: int, part: Part, cell: Cell | None) -> None:
        if cell is not None:
            self.lone[side][part] = _added(self.lone[side].get(part, NOTHING), [(1, *cell.values)])

    def _add_cell(self, cell: Cell, values: Numbers, group: int) -> None:
        self.totals.add(group, (1, *values))
        if cell.lint:
            self.rules.update(cell.lint)
        if cell.fields:
            self.fields.update(cell.fields)
        self.sizes[bucket(cell.tokens)] += 1

    def _add_pair(self, row: Row, cells: tuple[Cell, Cell], pair: Pair, group: int) -> None:
        before, after = pair
        self.deltas.add(group, (1, *map(sub, after, before)))
        self.changes[bucket(after[0] - before[0])] += 1
        for measure, place in PLACES if after != before else ():
            if after[place] != before[place]:
                self._rank(measure, row, cells, before[place], after[place])

    def _add_pairs(self, pairs: Sequence[Pair]) -> None:
        before, after = (list(zip(*side, strict=True)) for side in zip(*pairs, strict=True))
        self.before = tuple(map(add, self.before, map(sum, before)))
        self.more = tuple(map(add, self.more, [sum(map(gt, *two)) for two in zip(after, before, strict=True)]))
        self.fewer = tuple(map(add, self.fewer, [sum(map(lt, *two)) for two in zip(after, before, strict=True)]))

    def _rank(self, measure: Measure, row: Row, cells: tuple[Cell, Cell], before: int, after: int) -> None:
        weight = abs(after - before) if measure == "tokens" else after - before
        ranked = self._ranked[measure]
        if weight <= 0 or (len(ranked) == MOST_CHANGED and weight < ranked[0][0]):
            return
        # Of equal weight, the call whose id comes first: the list must not depend on the order of batches.
        changed = Changed(row.call.hex(), row.tool, before, after, _new_names(measure, *cells))
        entry = (weight, _inverted(row.call), changed)
        (heapq.heappush if len(ranked) < MOST_CHANGED else heapq.heappushpop)(ranked, entry)


def place_key(kind: str, value: str | int) -> str:
    """Under which `places` holds the batches with such a call: `tool` Bash, `sizes` 7, and so on."""
    return f"{kind} {value}"


def _keys(parts: Mapping[Part, Sequence[Numbers]], pairs: Sequence[Pair]) -> Iterator[str]:
    """Of one batch."""
    for kind, names in (("family", {family for family, _ in parts}), ("tool", {tool for _, tool in parts})):
        yield from (place_key(kind, name) for name in names)
    sizes = {bucket(numbers[1]) for some in parts.values() for numbers in some}
    changes = {bucket(after[0] - before[0]) for before, after in pairs}
    yield from (place_key("sizes", number) for number in sizes)
    yield from (place_key("changes", number) for number in changes)


PLACES = tuple((measure, MEASURES.index(measure)) for measure in CHANGES)


def _added(first: Numbers, rest: Sequence[Numbers]) -> Numbers:
    return tuple(map(sum, zip(first, *rest, strict=True)))


def _new_names(measure: Measure, baseline: Cell, cell: Cell) -> tuple[str, ...]:
    match measure:
        case "dropped":
            return tuple(name for name in cell.fields if name not in baseline.fields)
        case "lint":
            return tuple((Counter(cell.lint) - Counter(baseline.lint)).elements())
    return ()


def _inverted(call: bytes) -> str:
    return bytes(255 - one for one in call).hex()
