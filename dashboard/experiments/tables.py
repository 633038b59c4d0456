"""The tables of a comparison's page: totals, differences with their intervals, lint findings by rule, and the grid.

The grid has families or tools by columns; each cell is a mean and its change from the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dashboard.evidence.lint_findings import rule_label
from dashboard.experiments.aggregate import batch_key
from dashboard.experiments.measure_calls import MEASURES, Measure
from dashboard.experiments.params import LABELS, ComparisonParams, calls_href
from dashboard.experiments.significance import Interval
from dashboard.experiments.summary import ColumnSummary, Delta, MeasureSums, Summary, UnpairedSums
from dashboard.models import Comparison
from dashboard.text.formatting import format_change, format_count

FEW_CALLS = 20  # resampling fewer gives too narrow an interval to call a difference clear
NEARLY_ALL = 0.95  # of the calls: a total over fewer cannot be compared with one over all

# The grid:
STEPS = 4  # of colour, either way
STEPS_PER_DOUBLING = 4
FULLEST_SHARE = 0.25  # of cut calls: the change at which the colour is fullest
LEAST_MULTIPLE = 3  # from three times on a change is written as a multiple


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`tone` is good for a decrease and bad for an increase where the difference is clear; `split` counts calls."""

    value: str
    detail: str = ""
    split: str = ""
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """`cells` are pairs of a column's name and its figure, if it has one."""

    label: str
    cells: tuple[tuple[str, Figure | None], ...]


def _figure_row(label: str, names: Sequence[str], figures: Iterable[Figure | None]) -> FigureRow:
    return FigureRow(label=label, cells=tuple(zip(names, figures, strict=True)))


def total_rows(summary: Summary, names: Sequence[str]) -> tuple[FigureRow, ...]:
    calls = []
    for column in summary.columns:
        if column.calls == summary.calls:
            calls.append(Figure(value=format_count(column.calls)))
        else:
            share = f"{format_count(column.calls)} of {format_count(summary.calls)}"
            calls.append(Figure(value=share, tone="warn"))
    totals = (_figure_row(LABELS[measure], names, _totals(measure, summary)) for measure in MEASURES)
    return (_figure_row("Calls with a text", names, calls), *totals)


def _totals(measure: Measure, summary: Summary) -> Iterator[Figure]:
    for column in summary.columns:
        total = column.totals[measure]
        share = f" ({total.value / column.calls:.1%})" if measure == "cut" and column.calls else ""
        # A total over far fewer calls is smaller for that reason alone.
        is_partial = column.calls < NEARLY_ALL * summary.calls
        yield Figure(
            value=format_count(total.value) + share,
            detail=_format_interval(total.interval, sign=""),
            split=f"over {format_count(column.calls)} calls only" if is_partial else "",
        )


def difference_rows(columns: Sequence[ColumnSummary], names: Sequence[str]) -> tuple[FigureRow, ...]:
    pairs: list[Figure | None] = [None]
    for column in columns[1:]:
        pairs.append(Figure(value=format_count(next((delta.calls for delta in column.deltas.values()), 0))))
    differences = (
        _figure_row(
            LABELS[measure],
            names,
            [_difference(measure, column.deltas[measure]) if column.deltas else None for column in columns],
        )
        for measure in MEASURES
    )
    return (_figure_row("Calls with a text in both", names, pairs), *differences)


def _difference(measure: Measure, delta: Delta) -> Figure:
    if not delta.changed:
        return Figure(value="0", detail="the same in every call")
    interval = delta.interval
    excludes_zero = interval is not None and not interval.low <= 0 <= interval.high
    is_clear = excludes_zero and delta.calls >= FEW_CALLS
    detail = _format_interval(interval, sign="+") or "one call: no interval"
    if interval is not None and not is_clear:
        detail += ": too few calls to tell" if excludes_zero else ": no clear difference"
    if measure == "cut":  # in points: ten cut calls instead of one would be +900% of hardly anything
        share = f" ({format_change(100 * delta.change / delta.calls, '+.1f')} points)"
    else:
        share = f" ({format_change(delta.change / delta.baseline, '+.1%')})" if delta.baseline else ""
    more, fewer = format_count(delta.more), format_count(delta.fewer)
    return Figure(
        value=f"{format_change(delta.change)}{share}",
        detail=detail,
        split=f"{more} more, {fewer} fewer, p {format_probability(delta.probability)}",
        tone="" if not is_clear else "good" if delta.change < 0 else "bad",
    )


def format_probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _format_interval(interval: Interval | None, *, sign: str) -> str:
    """Empty for a total where every call has the same number: resampling cannot vary it."""
    if interval is None or not (sign or interval.high > interval.low):
        return ""
    low, high = (format_change(end, f"{sign},.0f") for end in (interval.low, interval.high))
    return f"{low} to {high}"


def rule_rows(columns: Sequence[ColumnSummary], names: Sequence[str]) -> tuple[FigureRow, ...]:
    rules = sorted({rule for column in columns for rule in column.rules})
    return tuple(
        _figure_row(
            rule_label(rule), names, [Figure(value=format_count(column.rules.get(rule, 0))) for column in columns]
        )
        for rule in rules
    )


def build_notes(summary: Summary, names: list[str]) -> list[str]:
    """Sentences on calls that the numbers leave out, and on totals that most calls contradict."""
    notes = [f"{_format_calls(summary.gone)} deleted in the meantime and left out."] if summary.gone else []
    if summary.unanswered:
        chosen = format_count(summary.calls + summary.gone + summary.unanswered + summary.unread)
        have = "has no recorded result and was" if summary.unanswered == 1 else "have no recorded result and were"
        notes.append(f"{format_count(summary.unanswered)} of {chosen} calls {have} left out.")
    if summary.unread:
        notes.append(f"{_format_calls(summary.unread)} read by a family that is not installed and left out.")
    for name, column in zip(names, summary.columns, strict=True):
        if column.absent:
            reason = "no receipt was recorded" if name == "recorded" else "their family has no such variant"
            notes.append(f"{_format_calls(column.absent, 'has', 'have')} no text under {name}: {reason}.")
        if column.problems:
            calls = _format_calls(column.problems, "has", "have")
            notes.append(f"{calls} no text under {name}, which could not write it: {column.problem}")
    for name, column in zip(names, summary.columns, strict=True):
        notes += _contradiction(names[0], name, column)
    return notes


def _format_calls(number: int, one: str = "was", many: str = "were") -> str:
    return f"1 call {one}" if number == 1 else f"{format_count(number)} calls {many}"


def _contradiction(baseline: str, name: str, column: ColumnSummary) -> list[str]:
    """A sentence where a few large calls decide the total of tokens against most of the calls."""
    delta = column.deltas.get("tokens")
    if delta is None or not delta.change:
        return []
    contrary = delta.more if delta.change < 0 else delta.fewer
    if 2 * contrary <= delta.calls:
        return []
    total, single = ("fewer", "more") if delta.change < 0 else ("more", "fewer")
    return [
        f"{name} takes {total} tokens than {baseline} in all, but {single} in {format_count(contrary)} of "
        f"{format_count(delta.calls)} calls: the larger calls decide the total."
    ]


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """`heat` from -4 to 4 is how far the value is below or above the baseline over the calls that both have.

    `part` counts the calls behind the value, where these are not all of the row's; `is_faint` marks a change over too
    few calls.
    """

    value: str
    change: str
    part: str
    heat: int
    is_faint: bool
    href: str


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """`cells` are pairs of a column's name and its cell, if the column has calls of this row."""

    name: str
    calls: int
    cells: tuple[tuple[str, GridCell | None], ...]


@dataclass(frozen=True, kw_only=True)
class GridChoice:
    label: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class HeatGrid:
    by: tuple[GridChoice, ...]
    measures: tuple[GridChoice, ...]
    orders: tuple[GridChoice, ...]  # by name, then one for each column
    unit: str
    fullest: str
    few: int
    rows: tuple[GridRow, ...]


def build_grid(comparison: Comparison, summary: Summary, names: Sequence[str], params: ComparisonParams) -> HeatGrid:
    measure = params.measure
    groups = [column.tools if params.by == "tool" else column.families for column in summary.columns]
    labels = sorted({label for group in groups for label in group})
    if params.order is not None:
        ordering = groups[params.order]
        labels.sort(key=lambda label: -_mean(ordering.get(label), measure))
    orders = [(None, params.by), *enumerate(names)]
    return HeatGrid(
        by=tuple(GridChoice(label=by, href=params.url(by=by), is_current=params.by == by) for by in ("family", "tool")),
        measures=tuple(
            GridChoice(label=LABELS[name], href=params.url(measure=name), is_current=measure == name)
            for name in MEASURES
        ),
        orders=tuple(
            GridChoice(label=label, href=params.url(order=order), is_current=params.order == order)
            for order, label in orders
        ),
        unit="share of the calls" if measure == "cut" else f"{LABELS[measure].lower()} a call",
        fullest="25 points" if measure == "cut" else "a doubling",
        few=FEW_CALLS,
        rows=tuple(_grid_row(comparison, label, summary.columns, names, params) for label in labels),
    )


def _grid_row(
    comparison: Comparison, label: str, columns: Sequence[ColumnSummary], names: Sequence[str], params: ComparisonParams
) -> GridRow:
    sums = [(column.tools if params.by == "tool" else column.families).get(label) for column in columns]
    calls = max((column_sums.calls for column_sums in sums if column_sums), default=0)
    cells: list[tuple[str, GridCell | None]] = []
    for ordinal, (name, column, column_sums) in enumerate(zip(names, columns, sums, strict=True)):
        if column_sums is None:
            cells.append((name, None))
            continue
        unpaired = column.unpaired.get(batch_key(params.by, label))
        paired = _paired(sums[0], column_sums, unpaired) if ordinal else None
        baseline, value = (_mean(side, params.measure) for side in paired or (column_sums, column_sums))
        mean = _mean(column_sums, params.measure)
        cell = GridCell(
            value=f"{mean:.1%}" if params.measure == "cut" else f"{mean:,.1f}",
            change=_format_change(value, baseline, params.measure),
            part="" if column_sums.calls == calls else f"of {column_sums.calls:,}",
            heat=_heat(value, baseline, params.measure),
            is_faint=paired is not None and paired[0].calls < FEW_CALLS,
            href=calls_href(comparison, ordinal, **params.carried, **{params.by: label}),
        )
        cells.append((name, cell))
    return GridRow(name=label, calls=calls, cells=tuple(cells))


def _mean(sums: MeasureSums | None, measure: Measure) -> float:
    return getattr(sums, measure) / sums.calls if sums and sums.calls else 0.0


def _paired(
    baseline: MeasureSums | None, column: MeasureSums, unpaired: UnpairedSums | None
) -> tuple[MeasureSums, MeasureSums] | None:
    """The baseline's sums and the column's over the calls of which both have a text; None where there are none."""
    if baseline is None:
        return None
    if unpaired is None:  # all are paired, or an older summary does not have the unpaired
        return (baseline, column) if baseline.calls == column.calls else None
    paired = baseline.without(unpaired.baseline), column.without(unpaired.column)
    return paired if paired[0].calls else None


def _format_change(value: float, baseline: float, measure: Measure) -> str:
    """A share changes by points, anything else by per cent, and from three times on by a multiple."""
    if value == baseline:
        return ""
    if measure == "cut":
        return f"{format_change(100 * (value - baseline), '+.1f')} points"
    if not baseline:
        return "from 0"
    ratio = value / baseline
    if ratio >= LEAST_MULTIPLE:
        return f"×{ratio:,.1f}"
    return format_change(ratio - 1, "+.0%" if abs(ratio - 1) >= 0.005 else "+.1%")


def _heat(value: float, baseline: float, measure: Measure) -> int:
    """Steps of colour from -STEPS to STEPS, full at a doubling, or at FULLEST_SHARE for shares."""
    if value == baseline:
        return 0
    if measure == "cut":  # one cut call of a hundred instead of none is no doubling
        steps = math.ceil(abs(value - baseline) * STEPS / FULLEST_SHARE)
        return int(math.copysign(min(STEPS, steps), value - baseline))
    if not baseline or not value:
        return STEPS if value else -STEPS
    steps = round(math.log2(value / baseline) * STEPS_PER_DOUBLING)
    return max(-STEPS, min(STEPS, steps))
