"""Adds up one column of a comparison batch by batch: sums and short lists, nothing that grows with the calls.

A call's numbers travel as a tuple, its count and then MEASURES, and are added with `map`: a comparison of 100,000 calls
under three variants makes 300,000 of these additions.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import add, gt, lt, sub
from typing import TypeAlias
from uuid import UUID

import msgspec

from dashboard.experiments.measure_calls import MEASURES, Cell, Measure, MeasuredCall
from dashboard.experiments.significance import GroupedValues

MOST_CHANGED = 50
CHANGE_MEASURES: tuple[Measure, ...] = ("tokens", "dropped", "lint")  # by size, by lost fields, by new findings
_CHANGE_INDEXES = tuple((measure, MEASURES.index(measure)) for measure in CHANGE_MEASURES)

Numbers: TypeAlias = tuple[int, ...]
NumbersPair: TypeAlias = tuple[Numbers, Numbers]  # the baseline's and the column's, in the order of MEASURES
FamilyTool: TypeAlias = tuple[str, str]
ZEROS: Numbers = (0,) * (1 + len(MEASURES))


class CallChange(msgspec.Struct, frozen=True, array_like=True):
    """A call whose measure changed: `call` is its id in hexadecimal digits."""

    call: str
    tool: str
    before: int
    after: int
    names: tuple[str, ...] = ()  # fields that were lost, rules with a new finding

    @property
    def change(self) -> int:
        return self.after - self.before

    @property
    def key(self) -> UUID:
        return UUID(hex=self.call)


def bucket(value: int) -> int:
    """The number of the bucket that holds a value.

    Buckets double: 0 holds 0, 1 holds 1, 2 holds 2 and 3, 3 holds 4 to 7; decreases have negative numbers.
    """
    return value.bit_length() if value >= 0 else -(-value).bit_length()


def format_bucket(number: int, *, sign: str = "") -> str:
    """The range of a bucket's values, as `4 to 7`; `sign` is `+` for changes."""
    if number == 0:
        return "0"
    low, high = 1 << (abs(number) - 1), (1 << abs(number)) - 1
    low, high = (low, high) if number > 0 else (-high, -low)
    return f"{low:{sign},}" if low == high else f"{low:{sign},} to {high:{sign},}"


class GroupSums:
    """Adds up numbers by group of calls, for the intervals."""

    def __init__(self, groups: int) -> None:
        self._sums: list[Numbers] = [ZEROS] * groups

    def add(self, group: int, numbers: Numbers) -> None:
        self._sums[group] = tuple(map(add, self._sums[group], numbers))

    def values(self) -> dict[Measure, GroupedValues]:
        counts, *sums = zip(*self._sums, strict=True) if self._sums else [()] * len(ZEROS)
        return {measure: GroupedValues(list(column), counts) for measure, column in zip(MEASURES, sums, strict=True)}


class ColumnTotals:
    """The running totals of a column.

    `parts`: sums by family and tool. `unpaired`: the same for calls of which only the baseline, or only this column,
    has a text. `before`, `more` and `fewer` cover the pairs, in the order of MEASURES. `batch_bits`: by `batch_key`, a
    bitmap of the batches that contain such a call, so that filtered lists skip the others.
    """

    def __init__(self, groups: int) -> None:
        self.totals, self.deltas = GroupSums(groups), GroupSums(groups)
        self.parts: dict[FamilyTool, Numbers] = {}
        self.unpaired: tuple[dict[FamilyTool, Numbers], dict[FamilyTool, Numbers]] = ({}, {})
        self.batch_bits: dict[str, int] = defaultdict(int)
        self.before = self.more = self.fewer = ZEROS[1:]
        self.absent = self.problems = 0
        self.problem = ""
        self.rules: Counter[str] = Counter()
        self.fields: Counter[str] = Counter()
        self.sizes: Counter[int] = Counter()
        self.changes: Counter[int] = Counter()
        self._ranked: Mapping[Measure, list[tuple[int, str, CallChange]]] = {measure: [] for measure in CHANGE_MEASURES}

    def add(self, rows: Sequence[MeasuredCall], ordinal: int, groups: Sequence[int], batch: int) -> None:
        """Adds a batch: its rows, the column's ordinal, the group of each row, and the batch's number."""
        parts: dict[FamilyTool, list[Numbers]] = defaultdict(list)
        pairs: list[NumbersPair] = []
        for row, group in zip(rows, groups, strict=True):
            cell, part = row.cells[ordinal], (row.family, row.tool)
            baseline = row.measured(0) if ordinal else None
            if cell is None or cell.problem:
                self._add_missing(cell)
                self._add_unpaired(0, part, baseline)
                continue
            values = cell.values
            parts[part].append((1, *values))
            self._add_cell(cell, values, group)
            if baseline is not None:
                pairs.append((baseline.values, values))
                self._add_pair(row, (baseline, cell), pairs[-1], group)
            elif ordinal:
                self._add_unpaired(1, part, cell)
        for part, numbers in parts.items():
            self.parts[part] = _add_numbers(self.parts.get(part, ZEROS), numbers)
        if pairs:
            self._add_pairs(pairs)
        for key in _batch_keys(parts, pairs):
            self.batch_bits[key] |= 1 << batch

    def most_changed(self, measure: Measure) -> tuple[CallChange, ...]:
        ranked = sorted(self._ranked[measure], key=lambda entry: entry[:2], reverse=True)
        return tuple(change for _, _, change in ranked)

    def _add_missing(self, cell: Cell | None) -> None:
        if cell is None:
            self.absent += 1
        else:
            self.problems += 1
            self.problem = self.problem or cell.problem

    def _add_unpaired(self, side: int, part: FamilyTool, cell: Cell | None) -> None:
        if cell is not None:
            sums = self.unpaired[side]
            sums[part] = _add_numbers(sums.get(part, ZEROS), [(1, *cell.values)])

    def _add_cell(self, cell: Cell, values: Numbers, group: int) -> None:
        self.totals.add(group, (1, *values))
        if cell.lint:
            self.rules.update(cell.lint)
        if cell.fields:
            self.fields.update(cell.fields)
        self.sizes[bucket(cell.tokens)] += 1

    def _add_pair(self, row: MeasuredCall, cells: tuple[Cell, Cell], pair: NumbersPair, group: int) -> None:
        before, after = pair
        self.deltas.add(group, (1, *map(sub, after, before)))
        self.changes[bucket(after[0] - before[0])] += 1
        for measure, index in _CHANGE_INDEXES if after != before else ():
            if after[index] != before[index]:
                self._rank(measure, row, cells, before[index], after[index])

    def _add_pairs(self, pairs: Sequence[NumbersPair]) -> None:
        before, after = (list(zip(*side, strict=True)) for side in zip(*pairs, strict=True))
        self.before = tuple(map(add, self.before, map(sum, before)))
        self.more = tuple(map(add, self.more, [sum(map(gt, *sides)) for sides in zip(after, before, strict=True)]))
        self.fewer = tuple(map(add, self.fewer, [sum(map(lt, *sides)) for sides in zip(after, before, strict=True)]))

    def _rank(self, measure: Measure, row: MeasuredCall, cells: tuple[Cell, Cell], before: int, after: int) -> None:
        weight = abs(after - before) if measure == "tokens" else after - before
        ranked = self._ranked[measure]
        if weight <= 0 or (len(ranked) == MOST_CHANGED and weight < ranked[0][0]):
            return
        change = CallChange(row.call.hex(), row.tool, before, after, _new_names(measure, *cells))
        # Of equal weights the call with the lower id ranks higher: the list must not depend on the order of batches.
        inverted_id = bytes(255 - byte for byte in row.call).hex()
        (heapq.heappush if len(ranked) < MOST_CHANGED else heapq.heappushpop)(ranked, (weight, inverted_id, change))


def batch_key(kind: str, value: str | int) -> str:
    """The key of `batch_bits` for calls of a tool, a family or a bucket: `tool Bash`, `sizes 7`."""
    return f"{kind} {value}"


def _batch_keys(parts: Mapping[FamilyTool, Sequence[Numbers]], pairs: Sequence[NumbersPair]) -> Iterator[str]:
    values: dict[str, set[str] | set[int]] = {
        "family": {family for family, _ in parts},
        "tool": {tool for _, tool in parts},
        "sizes": {bucket(numbers[1]) for calls in parts.values() for numbers in calls},
        "changes": {bucket(after[0] - before[0]) for before, after in pairs},
    }
    return (batch_key(kind, value) for kind, kind_values in values.items() for value in kind_values)


def _add_numbers(first: Numbers, rest: Sequence[Numbers]) -> Numbers:
    return tuple(map(sum, zip(first, *rest, strict=True)))


def _new_names(measure: Measure, baseline: Cell, cell: Cell) -> tuple[str, ...]:
    match measure:
        case "dropped":
            return tuple(name for name in cell.fields if name not in baseline.fields)
        case "lint":
            return tuple((Counter(cell.lint) - Counter(baseline.lint)).elements())
    return ()
