"""The heat grid: families or tools by columns; each cell is a mean and how far it is from the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.comparisons.aggregate import place_key
from dashboard.comparisons.cells import MEASURES, Measure
from dashboard.comparisons.params import LABELS, Ask, calls_href
from dashboard.comparisons.summary import ColumnSummary, Lone, Summary, Sums
from dashboard.comparisons.tables import FEW
from dashboard.models import Comparison

STEPS = 4  # of the heat, either way
STEPS_PER_DOUBLING = 4
MULTIPLE = 3
FULLEST_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """`heat` from -4 to 4: how far below or above the baseline, in quarters of what is fullest, over the calls that
    both have. `part` says of how many calls the value is, when that is not all of the row's; `is_faint` that the
    change is over too few of them to be shown like one over many."""

    value: str
    change: str
    part: str
    heat: int
    is_faint: bool
    href: str


@dataclass(frozen=True, kw_only=True)
class HeatRow:
    """`cells` are the column's name and what stands there, if its family has that variant."""

    name: str
    calls: int
    cells: tuple[tuple[str, HeatCell | None], ...]


@dataclass(frozen=True, kw_only=True)
class Choice:
    label: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Heat:
    by: tuple[Choice, ...]
    measures: tuple[Choice, ...]
    orders: tuple[Choice, ...]  # name, then one for each column
    unit: str
    fullest: str
    few: int
    rows: tuple[HeatRow, ...]


def heat_of(comparison: Comparison, summary: Summary, names: list[str], ask: Ask) -> Heat:
    columns = dict(zip(names, summary.columns, strict=True))
    groups = [_sums(one, ask) for one in summary.columns]
    labels = sorted({label for group in groups for label in group})
    rows = [_heat_row(comparison, label, columns, ask) for label in labels]
    heads = [("", ask.by), *((str(ordinal), name) for ordinal, name in enumerate(names))]
    if ask.place is not None and ask.place < len(names):
        place = ask.place
        rows.sort(key=lambda row: -_mean(groups[place].get(row.name), ask.measure))
    return Heat(
        by=tuple(_choice(one, ask.address(by=one), is_current=ask.by == one) for one in ("family", "tool")),
        measures=tuple(
            _choice(LABELS[one], ask.address(measure=one), is_current=ask.measure == one) for one in MEASURES
        ),
        orders=tuple(_choice(label, ask.address(order=order), is_current=ask.order == order) for order, label in heads),
        unit="share of the calls" if ask.measure == "cut" else f"{LABELS[ask.measure].lower()} a call",
        fullest="25 points" if ask.measure == "cut" else "a doubling",
        few=FEW,
        rows=tuple(rows),
    )


def _choice(label: str, href: str, *, is_current: bool) -> Choice:
    return Choice(label=label, href=href, is_current=is_current)


def _mean(sums: Sums | None, measure: Measure) -> float:
    return getattr(sums, measure) / sums.calls if sums and sums.calls else 0.0


def _held(first: Sums | None, sums: Sums, lone: Lone | None) -> tuple[Sums, Sums] | None:
    """The baseline's sums and the column's over the calls that both have a text for, so that like is held to like."""
    if first is None or sums is first:
        return None
    if lone is None:  # also in an older summary, which cannot say which calls are meant
        return (first, sums) if first.calls == sums.calls else None
    pair = _without(first, lone.baseline), _without(sums, lone.column)
    return pair if pair[0].calls else None


def _without(sums: Sums, lone: Sums) -> Sums:
    return Sums(**{name: getattr(sums, name) - getattr(lone, name) for name in Sums.__struct_fields__})


def _heat_row(comparison: Comparison, label: str, columns: Mapping[str, ColumnSummary], ask: Ask) -> HeatRow:
    sums = {name: _sums(one, ask).get(label) for name, one in columns.items()}
    calls = max((one.calls for one in sums.values() if one), default=0)
    first = next(iter(sums.values()))
    cells = []
    for ordinal, (name, one) in enumerate(sums.items()):
        part = "" if one is None or one.calls == calls else f"of {one.calls:,}"
        href = calls_href(comparison, ordinal, **ask.kept, **{ask.by: label})
        held = None if one is None else _held(first, one, columns[name].lone.get(place_key(ask.by, label)))
        cells.append((name, None if one is None else _heat_cell(one, held, ask.measure, href=href, part=part)))
    return HeatRow(name=label, calls=calls, cells=tuple(cells))


def _sums(column: ColumnSummary, ask: Ask) -> dict[str, Sums]:
    return column.tools if ask.by == "tool" else column.families


def _heat_cell(sums: Sums, held: tuple[Sums, Sums] | None, measure: Measure, *, href: str, part: str) -> HeatCell:
    """Where the baseline has no calls of this row, there is nothing to be above or below."""
    baseline, value = (_mean(one, measure) for one in held or (sums, sums))
    mean = _mean(sums, measure)
    return HeatCell(
        value=f"{mean:.1%}" if measure == "cut" else f"{mean:,.1f}",
        change=_change(value, baseline, measure),
        part=part,
        heat=_steps(value, baseline, measure),
        is_faint=held is not None and held[0].calls < FEW,
        href=href,
    )


def _change(value: float, baseline: float, measure: Measure) -> str:
    """In points of a share; of anything else in per cent, and from three times on as a multiple."""
    if value == baseline:
        return ""
    if measure == "cut":
        return f"{100 * (value - baseline):+.1f} points"
    if not baseline:
        return "from 0"
    ratio = value / baseline
    if ratio >= MULTIPLE:
        return f"×{ratio:,.1f}"
    return f"{ratio - 1:+.0%}" if abs(ratio - 1) >= 0.005 else f"{ratio - 1:+.1%}"


def _steps(value: float, baseline: float, measure: Measure) -> int:
    if value == baseline:
        return 0
    if measure == "cut":  # one call of a hundred instead of none is no doubling
        steps = math.ceil(abs(value - baseline) * STEPS / FULLEST_SHARE)
        return int(math.copysign(min(STEPS, steps), value - baseline))
    if not baseline or not value:
        return STEPS if value else -STEPS
    steps = round(math.log2(value / baseline) * STEPS_PER_DOUBLING)
    return max(-STEPS, min(STEPS, steps))
