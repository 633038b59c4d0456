"""The heat grid: families or tools by columns; each cell is a mean and how far it is from the baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboard.comparisons.ask import LABELS, Ask, calls_href
from dashboard.comparisons.cells import MEASURES, Measure
from dashboard.comparisons.summary import Summary, Sums
from dashboard.models import Comparison

STEPS = 4  # of the heat, either way
STEPS_PER_DOUBLING = 4


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """`heat` from -4 to 4: how far below or above the baseline, in quarters of a doubling."""

    value: str
    change: str
    heat: int
    href: str


@dataclass(frozen=True, kw_only=True)
class HeatRow:
    name: str
    calls: int
    cells: tuple[HeatCell | None, ...]


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
    rows: tuple[HeatRow, ...]


def heat_of(comparison: Comparison, summary: Summary, names: list[str], ask: Ask) -> Heat:
    groups = [one.tools if ask.by == "tool" else one.families for one in summary.columns]
    labels = sorted({label for group in groups for label in group})
    rows = [_heat_row(comparison, label, [group.get(label) for group in groups], ask) for label in labels]
    heads = [("", "name"), *((str(ordinal), name) for ordinal, name in enumerate(names))]
    if ask.order.isdigit() and int(ask.order) < len(names):
        place = int(ask.order)
        rows.sort(key=lambda row: -_mean(groups[place].get(row.name), ask.measure))
    return Heat(
        by=tuple(_choice(one, ask.address(by=one), is_current=ask.by == one) for one in ("family", "tool")),
        measures=tuple(
            _choice(LABELS[one], ask.address(measure=one), is_current=ask.measure == one) for one in MEASURES
        ),
        orders=tuple(_choice(label, ask.address(order=order), is_current=ask.order == order) for order, label in heads),
        unit="share of the calls" if ask.measure == "cut" else f"{LABELS[ask.measure].lower()} a call",
        rows=tuple(rows),
    )


def _choice(label: str, href: str, *, is_current: bool) -> Choice:
    return Choice(label=label, href=href, is_current=is_current)


def _mean(sums: Sums | None, measure: Measure) -> float:
    return getattr(sums, measure) / sums.calls if sums and sums.calls else 0.0


def _heat_row(comparison: Comparison, label: str, sums: list[Sums | None], ask: Ask) -> HeatRow:
    baseline = _mean(sums[0], ask.measure)
    return HeatRow(
        name=label,
        calls=max((one.calls for one in sums if one), default=0),
        cells=tuple(
            None if one is None else _heat_cell(comparison, label, ordinal, _mean(one, ask.measure), baseline, ask)
            for ordinal, one in enumerate(sums)
        ),
    )


def _heat_cell(comparison: Comparison, label: str, ordinal: int, value: float, baseline: float, ask: Ask) -> HeatCell:
    change = f"{value / baseline - 1:+.0%}" if ordinal and baseline else ""
    href = calls_href(comparison, ordinal, **{ask.by: label})
    written = f"{value:.1%}" if ask.measure == "cut" else f"{value:,.1f}"
    return HeatCell(value=written, change=change, heat=_steps(value, baseline) if ordinal else 0, href=href)


def _steps(value: float, baseline: float) -> int:
    if value == baseline:
        return 0
    if not baseline or not value:
        return STEPS if value else -STEPS
    steps = round(math.log2(value / baseline) * STEPS_PER_DOUBLING)
    return max(-STEPS, min(STEPS, steps))
