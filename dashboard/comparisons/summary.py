"""What the pages say of a finished comparison, added up in one pass over its batches.

Nothing of a batch outlives it but sums: by column, by family, by tool, by bucket, by group for the
intervals, and short lists of the calls that changed most. The same batches give the same summary.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
import pyzstd

from dashboard.comparisons.cells import MEASURES, Cell, Measure, Row
from dashboard.comparisons.statistics import Spread, bootstrap_means, groups_of, sign_test

MOST_CHANGED = 50
MOST_FIELDS = 40
CHANGES: tuple[Measure, ...] = ("tokens", "dropped", "lint")  # by size, by lost fields, by new findings


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    low: float
    high: float


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """`interval` is of the total, from calls drawn again and again."""

    value: int
    interval: Bounds | None = None


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """The column against the baseline over the calls that have both; `probability` is the sign test's."""

    calls: int
    baseline: int
    value: int
    interval: Bounds | None
    more: int
    fewer: int
    probability: float

    @property
    def change(self) -> int:
        return self.value - self.baseline


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Of one column over some of the calls."""

    calls: int = 0
    tokens: int = 0
    characters: int = 0
    cut: int = 0
    lint: int = 0
    dropped: int = 0


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """One call that changed: `call` is its id in hexadecimal digits."""

    call: str
    tool: str
    before: int
    after: int
    names: tuple[str, ...] = ()  # fields that were lost, rules that are broken anew

    @property
    def change(self) -> int:
        return self.after - self.before

    @property
    def key(self) -> UUID:
        return UUID(hex=self.call)


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`absent` calls have no text here: no such variant in their family, or nothing recorded."""

    calls: int
    absent: int
    problems: int
    problem: str  # the first one, as an example
    totals: dict[str, Total]
    deltas: dict[str, Delta]
    rules: dict[str, int]
    fields: dict[str, int]  # names of dropped fields, with the calls that lost them
    sizes: dict[int, int]  # calls by bucket of tokens
    changes: dict[int, int]  # calls by bucket of the change in tokens
    families: dict[str, Sums]
    tools: dict[str, Sums]
    changed: dict[str, tuple[Changed, ...]]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    calls: int
    gone: int  # deleted between the start and their batch
    columns: tuple[ColumnSummary, ...]
    tool_families: dict[str, str]


def bucket(value: int) -> int:
    """Buckets double: 0 holds 0, 1 holds 1, 2 holds 2 and 3, 3 holds 4 to 7; a decrease has a negative one."""
    return value.bit_length() if value >= 0 else -(-value).bit_length()


def bucket_range(number: int) -> tuple[int, int]:
    """The smallest and the largest value of a bucket."""
    if number == 0:
        return 0, 0
    low, high = 1 << (abs(number) - 1), (1 << abs(number)) - 1
    return (low, high) if number > 0 else (-high, -low)


@dataclass
class _Adding:
    """One column while rows go by."""

    groups: int
    totals: dict[Measure, Spread] = field(init=False)
    deltas: dict[Measure, Spread] = field(init=False)
    before: Counter[Measure] = field(default_factory=Counter)
    more: Counter[Measure] = field(default_factory=Counter)
    fewer: Counter[Measure] = field(default_factory=Counter)
    absent: int = 0
    problems: int = 0
    problem: str = ""
    rules: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    changes: Counter[int] = field(default_factory=Counter)
    families: dict[str, Counter[str]] = field(default_factory=dict)
    tools: dict[str, Counter[str]] = field(default_factory=dict)
    changed: dict[Measure, list[tuple[int, str, Changed]]] = field(init=False)

    def __post_init__(self) -> None:
        self.totals = {measure: Spread(self.groups) for measure in MEASURES}
        self.deltas = {measure: Spread(self.groups) for measure in MEASURES}
        self.changed = {measure: [] for measure in CHANGES}

    def add(self, row: Row, ordinal: int, group: int) -> None:
        cell = row.measured(ordinal)
        if cell is None:
            self._add_nothing(row.cells[ordinal])
            return
        sums = (self.families.setdefault(row.family, Counter()), self.tools.setdefault(row.tool, Counter()))
        for measure in MEASURES:
            value = cell.value(measure)
            self.totals[measure].add(group, value)
            for one in sums:
                one[measure] += value
        for one in sums:
            one["calls"] += 1
        self.rules.update(cell.lint)
        self.fields.update(cell.fields)
        self.sizes[bucket(cell.tokens)] += 1
        pair = row.pair(ordinal) if ordinal else None
        if pair is not None:
            self._add_pair(row, *pair, group)

    def _add_nothing(self, cell: Cell | None) -> None:
        if cell is None:
            self.absent += 1
        else:
            self.problems += 1
            self.problem = self.problem or cell.problem

    def _add_pair(self, row: Row, baseline: Cell, cell: Cell, group: int) -> None:
        for measure in MEASURES:
            before, after = baseline.value(measure), cell.value(measure)
            self.deltas[measure].add(group, after - before)
            self.before[measure] += before
            self.more[measure] += after > before
            self.fewer[measure] += after < before
            if measure in CHANGES and after != before:
                self._rank(measure, row, baseline, cell)
        self.changes[bucket(cell.tokens - baseline.tokens)] += 1

    def _rank(self, measure: Measure, row: Row, baseline: Cell, cell: Cell) -> None:
        before, after = baseline.value(measure), cell.value(measure)
        weight = abs(after - before) if measure == "tokens" else after - before
        if weight <= 0:
            return
        ranked = self.changed[measure]
        if len(ranked) == MOST_CHANGED and weight < ranked[0][0]:
            return
        names = _new_names(measure, baseline, cell)
        # Of equal weight, the call whose id comes first: the list must not depend on the order of batches.
        entry = (weight, _inverted(row.call), Changed(row.call.hex(), row.tool, before, after, names))
        (heapq.heappush if len(ranked) < MOST_CHANGED else heapq.heappushpop)(ranked, entry)


def _new_names(measure: Measure, baseline: Cell, cell: Cell) -> tuple[str, ...]:
    match measure:
        case "dropped":
            return tuple(name for name in cell.fields if name not in baseline.fields)
        case "lint":
            return tuple((Counter(cell.lint) - Counter(baseline.lint)).elements())
    return ()


def _inverted(call: bytes) -> str:
    return bytes(255 - one for one in call).hex()


def summarise(batches: Iterable[list[Row]], *, columns: int, calls: int, seed: int) -> Summary:
    """`calls` were frozen; fewer rows mean that some were deleted before their turn."""
    groups = groups_of(calls, seed)
    adding = [_Adding(max(groups, default=-1) + 1) for _ in range(columns)]
    tool_families: dict[str, str] = {}
    place = 0
    for rows in batches:
        for row in rows:
            tool_families[row.tool] = row.family
            for ordinal, column in enumerate(adding):
                column.add(row, ordinal, groups[place])
            place += 1
    return Summary(
        calls=place,
        gone=calls - place,
        columns=tuple(
            _summary(one, intervals) for one, intervals in zip(adding, _intervals(adding, seed), strict=True)
        ),
        tool_families=dict(sorted(tool_families.items())),
    )


_Intervals = dict[tuple[str, Measure], Bounds | None]


def _intervals(adding: list[_Adding], seed: int) -> Iterator[_Intervals]:
    """All from the same draws; by column, then by what it is of."""
    keys = [(kind, measure) for kind in ("totals", "deltas") for measure in MEASURES]
    spreads = [getattr(one, kind)[measure] for one in adding for kind, measure in keys]
    found = bootstrap_means(spreads, seed)
    bounds = [
        None if one is None else Bounds(one.low * spread.count, one.high * spread.count)
        for one, spread in zip(found, spreads, strict=True)
    ]
    for start in range(0, len(bounds), len(keys)):
        yield dict(zip(keys, bounds[start : start + len(keys)], strict=True))


def _summary(adding: _Adding, intervals: _Intervals) -> ColumnSummary:
    totals: dict[str, Total] = {
        measure: Total(value=int(adding.totals[measure].total), interval=intervals["totals", measure])
        for measure in MEASURES
    }
    pairs = adding.deltas["tokens"].count
    deltas: dict[str, Delta] = {
        measure: _delta(adding, measure, intervals["deltas", measure]) for measure in MEASURES if pairs
    }
    return ColumnSummary(
        calls=adding.totals["tokens"].count,
        absent=adding.absent,
        problems=adding.problems,
        problem=adding.problem,
        totals=totals,
        deltas=deltas,
        rules=_largest(adding.rules),
        fields=_largest(adding.fields, MOST_FIELDS),
        sizes=dict(sorted(adding.sizes.items())),
        changes=dict(sorted(adding.changes.items())),
        families={name: Sums(**sums) for name, sums in sorted(adding.families.items())},
        tools={name: Sums(**sums) for name, sums in sorted(adding.tools.items())},
        changed={measure: _first(ranked) for measure, ranked in adding.changed.items()},
    )


def _delta(adding: _Adding, measure: Measure, interval: Bounds | None) -> Delta:
    spread = adding.deltas[measure]
    more, fewer = adding.more[measure], adding.fewer[measure]
    return Delta(
        calls=spread.count,
        baseline=adding.before[measure],
        value=adding.before[measure] + int(spread.total),
        interval=interval,
        more=more,
        fewer=fewer,
        probability=sign_test(more, fewer),
    )


def _largest(counts: Counter[str], most: int | None = None) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most])


def _first(ranked: list[tuple[int, str, Changed]]) -> tuple[Changed, ...]:
    return tuple(changed for _, _, changed in sorted(ranked, key=lambda one: one[:2], reverse=True))


def packed_summary(summary: Summary) -> bytes:
    return bytes(pyzstd.compress(msgspec.msgpack.encode(summary)))


def unpacked_summary(data: bytes) -> Summary:
    return msgspec.msgpack.decode(pyzstd.decompress(data), type=Summary)
