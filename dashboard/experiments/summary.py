"""The summary of a finished comparison, added up in one pass over its batches.

Of a batch only sums are kept: by column, family, tool, bucket, and group for the intervals, with short lists of the
calls that changed most. The same batches give the same summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import add
from typing import NamedTuple

import msgspec
import pyzstd

from dashboard.experiments.aggregate import (
    CHANGE_MEASURES,
    ZEROS,
    CallChange,
    ColumnTotals,
    FamilyTool,
    Numbers,
    batch_key,
)
from dashboard.experiments.measure_calls import MEASURES, Measure, MeasuredCall
from dashboard.experiments.significance import GroupedValues, Interval, assign_groups, bootstrap_means, sign_test
from envelopes.text.tokens import current_encoding

MOST_FIELDS = 40


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """A measure over all calls of a column; `interval` is the bootstrap interval of the total."""

    value: int
    interval: Interval | None = None


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of a column and of the baseline over the calls that have both; `probability` is the sign test's."""

    calls: int
    baseline: int
    value: int
    interval: Interval | None
    more: int
    fewer: int
    probability: float

    @property
    def change(self) -> int:
        return self.value - self.baseline

    @property
    def changed(self) -> int:
        return self.more + self.fewer


class MeasureSums(msgspec.Struct, frozen=True, kw_only=True):
    """The measures of one column over some of the calls."""

    calls: int = 0
    tokens: int = 0
    characters: int = 0
    cut: int = 0
    lint: int = 0
    dropped: int = 0

    def without(self, other: MeasureSums) -> MeasureSums:
        names = self.__struct_fields__
        return MeasureSums(**{name: getattr(self, name) - getattr(other, name) for name in names})


class UnpairedSums(msgspec.Struct, frozen=True):
    """Sums of the calls of which only the baseline, or only the column, has a text."""

    baseline: MeasureSums = MeasureSums()
    column: MeasureSums = MeasureSums()


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`absent` calls have no text in the column: their family has no such variant, or no receipt was recorded.

    `unpaired` and `batch_bits` are by `batch_key`, for families and tools, and buckets too in `batch_bits`: bitmaps of
    the batches with such a call, lowest bit first. Both are empty in summaries of older versions, whose names for them
    are still those in the stored bytes.
    """

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
    families: dict[str, MeasureSums]
    tools: dict[str, MeasureSums]
    changed: dict[str, tuple[CallChange, ...]]
    unpaired: dict[str, UnpairedSums] = msgspec.field(default_factory=dict, name="lone")
    batch_bits: dict[str, bytes] = msgspec.field(default_factory=dict, name="places")

    def count_changed(self, measure: Measure) -> int:
        """How many calls belong to the list of a measure, of which `changed` holds the first.

        Calls with more or with fewer tokens; of the other measures, calls with more.
        """
        delta = self.deltas.get(measure)
        if delta is None:
            return 0
        return delta.changed if measure == "tokens" else delta.more


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    calls: int
    gone: int  # deleted between the start of the comparison and their batch
    unanswered: int = 0  # left out: nothing answered them
    unread: int = 0  # left out: the package of the family that read them is not installed
    columns: tuple[ColumnSummary, ...]
    tool_families: dict[str, str]
    encoding: str = ""  # that tokens were counted in; empty in summaries of older versions


def summarise(batches: Iterable[list[MeasuredCall]], *, columns: int, calls: int, seed: int) -> Summary:
    """`calls` were frozen at the start; those without a row are counted as `gone`."""
    groups = assign_groups(calls, seed)
    totals = [ColumnTotals(max(groups, default=-1) + 1) for _ in range(columns)]
    tool_families: dict[str, str] = {}
    row_count = 0
    for number, rows in enumerate(batches):
        tool_families.update((row.tool, row.family) for row in rows)
        for ordinal, column in enumerate(totals):
            column.add(rows, ordinal, groups[row_count : row_count + len(rows)], number)
        row_count += len(rows)
    values = [_ColumnValues(column.totals.values(), column.deltas.values()) for column in totals]
    intervals = _compute_intervals(values, seed)
    return Summary(
        calls=row_count,
        gone=calls - row_count,
        columns=tuple(
            _summarise_column(column, column_values, column_intervals)
            for column, column_values, column_intervals in zip(totals, values, intervals, strict=True)
        ),
        tool_families=dict(sorted(tool_families.items())),
        encoding=current_encoding(),
    )


class _ColumnValues(NamedTuple):
    totals: dict[Measure, GroupedValues]
    deltas: dict[Measure, GroupedValues]


_ColumnIntervals = dict[tuple[str, Measure], Interval | None]


def _compute_intervals(columns: list[_ColumnValues], seed: int) -> Iterator[_ColumnIntervals]:
    """The intervals of each column's totals and deltas, all from the same draws."""
    keys = [(kind, measure) for kind in _ColumnValues._fields for measure in MEASURES]
    values = [getattr(column, kind)[measure] for column in columns for kind, measure in keys]
    intervals = [
        None if mean is None else Interval(mean.low * grouped.count, mean.high * grouped.count)
        for mean, grouped in zip(bootstrap_means(values, seed), values, strict=True)
    ]
    for start in range(0, len(intervals), len(keys)):
        yield dict(zip(keys, intervals[start : start + len(keys)], strict=True))


def _summarise_column(column: ColumnTotals, values: _ColumnValues, intervals: _ColumnIntervals) -> ColumnSummary:
    totals: dict[str, Total] = {
        measure: Total(value=int(grouped.total), interval=intervals["totals", measure])
        for measure, grouped in values.totals.items()
    }
    deltas: dict[str, Delta] = {}
    for index, measure in enumerate(MEASURES):
        grouped = values.deltas[measure]
        if grouped.count:
            before, more, fewer = column.before[index], column.more[index], column.fewer[index]
            deltas[measure] = Delta(
                calls=grouped.count,
                baseline=before,
                value=before + int(grouped.total),
                interval=intervals["deltas", measure],
                more=more,
                fewer=fewer,
                probability=sign_test(more, fewer),
            )
    return ColumnSummary(
        calls=values.totals["tokens"].count,
        absent=column.absent,
        problems=column.problems,
        problem=column.problem,
        totals=totals,
        deltas=deltas,
        rules=_most_common(column.rules),
        fields=_most_common(column.fields, MOST_FIELDS),
        sizes=dict(sorted(column.sizes.items())),
        changes=dict(sorted(column.changes.items())),
        families=_sums_by(column.parts, 0),
        tools=_sums_by(column.parts, 1),
        changed={measure: column.most_changed(measure) for measure in CHANGE_MEASURES},
        unpaired=_unpaired_sums(column),
        batch_bits={
            key: bits.to_bytes((bits.bit_length() + 7) // 8, "little")
            for key, bits in sorted(column.batch_bits.items())
        },
    )


def _unpaired_sums(column: ColumnTotals) -> dict[str, UnpairedSums]:
    unpaired: dict[str, UnpairedSums] = {}
    for index, kind in enumerate(("family", "tool")):
        baseline_sums, column_sums = (_sums_by(side, index) for side in column.unpaired)
        for name in sorted(baseline_sums.keys() | column_sums.keys()):
            unpaired[batch_key(kind, name)] = UnpairedSums(
                baseline_sums.get(name, MeasureSums()), column_sums.get(name, MeasureSums())
            )
    return unpaired


def _sums_by(parts: Mapping[FamilyTool, Numbers], index: int) -> dict[str, MeasureSums]:
    """Sums by family (`index` 0) or by tool (1)."""
    sums: dict[str, Numbers] = {}
    for part, numbers in parts.items():
        sums[part[index]] = tuple(map(add, sums.get(part[index], ZEROS), numbers))
    return {
        name: MeasureSums(calls=calls, **dict(zip(MEASURES, values, strict=True)))
        for name, (calls, *values) in sorted(sums.items())
    }


def _most_common(counts: Counter[str], most: int | None = None) -> dict[str, int]:
    """By count, then by name, so that the order does not depend on that of the batches."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def pack_summary(summary: Summary) -> bytes:
    return bytes(pyzstd.compress(msgspec.msgpack.encode(summary)))


def unpack_summary(data: bytes) -> Summary:
    return msgspec.msgpack.decode(pyzstd.decompress(data), type=Summary)
