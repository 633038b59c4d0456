"""What the pages say of a finished comparison, added up in one pass over its batches.

Nothing of a batch outlives it but sums: by column, by family, by tool, by bucket, by group for the
intervals, and short lists of the calls that changed most. The same batches give the same summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import add
from typing import NamedTuple

import msgspec
import pyzstd

from dashboard.comparisons.aggregate import NOTHING, Adding, Numbers, Part, place_key
from dashboard.comparisons.cells import MEASURES, Measure, Row
from dashboard.comparisons.changes import CHANGES, Changed
from dashboard.comparisons.significance import Spread, bootstrap_means, groups_of, sign_test
from envelopes.text.tokens import count_tokens

MOST_FIELDS = 40


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


class Lone(msgspec.Struct, frozen=True):
    """Sums of the calls that only the baseline, or only the column, has a text for."""

    baseline: Sums = Sums()
    column: Sums = Sums()


class ColumnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`absent` calls have no text here: no such variant in their family, or nothing recorded.

    `lone` is by family (`family command`) and by tool, and only where there is any. `places` are the batches that
    hold a call of a tool, a family or a bucket, a bit each, lowest first. Both are empty in older summaries.
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
    families: dict[str, Sums]
    tools: dict[str, Sums]
    changed: dict[str, tuple[Changed, ...]]
    lone: dict[str, Lone] = {}
    places: dict[str, bytes] = {}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    calls: int
    gone: int  # deleted between the start and their batch
    unanswered: int = 0  # left out: nothing came back that a variant could write
    unread: int = 0  # left out: the family that read them is of a package that is not installed
    columns: tuple[ColumnSummary, ...]
    tool_families: dict[str, str]
    encoding: str = ""  # that tokens were counted in; of older ones it is not known


def summarise(batches: Iterable[list[Row]], *, columns: int, calls: int, seed: int) -> Summary:
    """`calls` were frozen; fewer rows mean that some are `gone`, or that nothing answered them."""
    groups = groups_of(calls, seed)
    adding = [Adding(max(groups, default=-1) + 1) for _ in range(columns)]
    tool_families: dict[str, str] = {}
    place = 0
    for number, rows in enumerate(batches):
        tool_families.update((row.tool, row.family) for row in rows)
        for ordinal, column in enumerate(adding):
            column.add(rows, ordinal, groups[place : place + len(rows)], number)
        place += len(rows)
    spreads = [_Spreads(one.totals.spreads(), one.deltas.spreads()) for one in adding]
    return Summary(
        calls=place,
        gone=calls - place,
        columns=tuple(
            _summary(one, *found)
            for one, found in zip(adding, zip(spreads, _intervals(spreads, seed), strict=True), strict=True)
        ),
        tool_families=dict(sorted(tool_families.items())),
        encoding=count_tokens("").encoding,
    )


class _Spreads(NamedTuple):
    totals: dict[Measure, Spread]
    deltas: dict[Measure, Spread]


_Intervals = dict[tuple[str, Measure], Bounds | None]


def _intervals(columns: list[_Spreads], seed: int) -> Iterator[_Intervals]:
    """All from the same draws; by column, then by what it is of."""
    keys = [(kind, measure) for kind in _Spreads._fields for measure in MEASURES]
    spreads = [getattr(one, kind)[measure] for one in columns for kind, measure in keys]
    found = bootstrap_means(spreads, seed)
    bounds = [
        None if one is None else Bounds(one.low * spread.count, one.high * spread.count)
        for one, spread in zip(found, spreads, strict=True)
    ]
    for start in range(0, len(bounds), len(keys)):
        yield dict(zip(keys, bounds[start : start + len(keys)], strict=True))


def _summary(adding: Adding, spreads: _Spreads, intervals: _Intervals) -> ColumnSummary:
    totals: dict[str, Total] = {
        measure: Total(value=int(spread.total), interval=intervals["totals", measure])
        for measure, spread in spreads.totals.items()
    }
    deltas: dict[str, Delta] = {
        measure: _delta(adding, place, spreads.deltas[measure], intervals["deltas", measure])
        for place, measure in enumerate(MEASURES)
        if spreads.deltas[measure].count
    }
    return ColumnSummary(
        calls=spreads.totals["tokens"].count,
        absent=adding.absent,
        problems=adding.problems,
        problem=adding.problem,
        totals=totals,
        deltas=deltas,
        rules=_largest(adding.rules),
        fields=_largest(adding.fields, MOST_FIELDS),
        sizes=dict(sorted(adding.sizes.items())),
        changes=dict(sorted(adding.changes.items())),
        families=_folded(adding.parts, 0),
        tools=_folded(adding.parts, 1),
        changed={measure: adding.changed(measure) for measure in CHANGES},
        lone=_lone(adding),
        places={key: _bits(number) for key, number in sorted(adding.places.items())},
    )


def _bits(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _lone(adding: Adding) -> dict[str, Lone]:
    found: dict[str, Lone] = {}
    for place, kind in enumerate(("family", "tool")):
        baseline, column = (_folded(side, place) for side in adding.lone)
        for name in sorted(baseline.keys() | column.keys()):
            found[place_key(kind, name)] = Lone(baseline.get(name, Sums()), column.get(name, Sums()))
    return found


def _folded(parts: Mapping[Part, Numbers], place: int) -> dict[str, Sums]:
    """By family (0) or by tool (1)."""
    found: dict[str, Numbers] = {}
    for part, numbers in parts.items():
        found[part[place]] = tuple(map(add, found.get(part[place], NOTHING), numbers))
    return {
        name: Sums(calls=calls, **dict(zip(MEASURES, rest, strict=True)))
        for name, (calls, *rest) in sorted(found.items())
    }


def _delta(adding: Adding, place: int, spread: Spread, interval: Bounds | None) -> Delta:
    before, more, fewer = adding.before[place], adding.more[place], adding.fewer[place]
    return Delta(
        calls=spread.count,
        baseline=before,
        value=before + int(spread.total),
        interval=interval,
        more=more,
        fewer=fewer,
        probability=sign_test(more, fewer),
    )


def _largest(counts: Counter[str], most: int | None = None) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most])


def packed_summary(summary: Summary) -> bytes:
    return bytes(pyzstd.compress(msgspec.msgpack.encode(summary)))


def unpacked_summary(data: bytes) -> Summary:
    return msgspec.msgpack.decode(pyzstd.decompress(data), type=Summary)
