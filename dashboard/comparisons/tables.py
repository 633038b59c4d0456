"""The figures of a comparison as they are written: totals, differences with what they are worth, lint by rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dashboard.comparisons.cells import MEASURES, Measure
from dashboard.comparisons.params import LABELS
from dashboard.comparisons.summary import Bounds, ColumnSummary, Delta, Summary
from dashboard.text.formatting import format_count

FEW = 20  # calls: drawn again from fewer, their own numbers leave too narrow an interval to tell anything by
WHOLE = 0.95  # of the calls: a total over fewer is not to be held beside one over all


@dataclass(frozen=True, kw_only=True)
class Figure:
    """`tone` is good for fewer and bad for more, when the interval leaves no doubt; `split` counts single calls."""

    value: str
    detail: str = ""
    split: str = ""
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """`cells` are the column's name and its figure, if it has one here."""

    label: str
    cells: tuple[tuple[str, Figure | None], ...]


def _row(label: str, names: Sequence[str], figures: Iterable[Figure | None]) -> FigureRow:
    return FigureRow(label=label, cells=tuple(zip(names, figures, strict=True)))


def total_rows(summary: Summary, names: Sequence[str]) -> tuple[FigureRow, ...]:
    held = _row("Calls with a text", names, (_held(one.calls, summary.calls) for one in summary.columns))
    return (held, *(_row(LABELS[one], names, _totals(one, summary)) for one in MEASURES))


def _held(calls: int, of: int) -> Figure:
    if calls == of:
        return Figure(value=format_count(calls))
    return Figure(value=f"{calls:,} of {of:,}", tone="warn")


def _totals(measure: Measure, summary: Summary) -> Iterator[Figure]:
    for one in summary.columns:
        total = one.totals[measure]
        share = f" ({total.value / one.calls:.1%})" if measure == "cut" and one.calls else ""
        # A total over far fewer calls is smaller for that alone, so it says so where it stands.
        part = f"over {format_count(one.calls)} calls only" if one.calls < WHOLE * summary.calls else ""
        yield Figure(value=format_count(total.value) + share, detail=_ends(total.interval, sign=""), split=part)


def difference_rows(columns: Sequence[ColumnSummary], names: Sequence[str]) -> tuple[FigureRow, ...]:
    pairs = (Figure(value=format_count(_pairs(one))) if place else None for place, one in enumerate(columns))
    held = _row("Calls with a text in both", names, pairs)
    return (held, *(_row(LABELS[one], names, _differences(one, columns)) for one in MEASURES))


def _differences(measure: Measure, columns: Sequence[ColumnSummary]) -> Iterator[Figure | None]:
    for one in columns:
        yield _difference(measure, one.deltas[measure]) if one.deltas else None


def _pairs(column: ColumnSummary) -> int:
    return next((one.calls for one in column.deltas.values()), 0)


def _difference(measure: Measure, delta: Delta) -> Figure:
    if not (delta.more or delta.fewer):
        return Figure(value="0", detail="the same in every call")
    bounds = delta.interval
    is_apart = bounds is not None and not bounds.low <= 0 <= bounds.high
    is_clear = is_apart and delta.calls >= FEW
    doubt = "too few calls to tell" if is_apart else "no clear difference"
    worth = _ends(bounds, sign="+") or "one call: no interval"
    return Figure(
        value=f"{delta.change:+,}{_share(measure, delta)}",
        detail=worth if is_clear or bounds is None else f"{worth}: {doubt}",
        split=f"{format_count(delta.more)} more, {format_count(delta.fewer)} fewer, p {probability(delta.probability)}",
        tone="" if not is_clear else "good" if delta.change < 0 else "bad",
    )


def _share(measure: Measure, delta: Delta) -> str:
    """Of cut calls in points: ten calls instead of one would be +900 % of hardly anything."""
    if measure == "cut":
        return f" ({100 * delta.change / delta.calls:+.1f} points)"
    return f" ({delta.change / delta.baseline:+.1%})" if delta.baseline else ""


def probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _ends(bounds: Bounds | None, *, sign: str) -> str:
    """Nothing where every call said the same: no drawing could tell how another one would have been."""
    if bounds is None or not (sign or bounds.high > bounds.low):
        return ""
    return f"{bounds.low:{sign},.0f} to {bounds.high:{sign},.0f}"


def rule_rows(columns: Sequence[ColumnSummary], names: Sequence[str]) -> tuple[FigureRow, ...]:
    rules = sorted({rule for one in columns for rule in one.rules})
    return tuple(
        _row(rule, names, (Figure(value=format_count(one.rules.get(rule, 0))) for one in columns)) for rule in rules
    )


def notes_of(summary: Summary, names: list[str]) -> list[str]:
    """What the numbers leave out, and where a total says another thing than most of its calls."""
    notes = [f"{_calls(summary.gone)} deleted in the meantime and left out."] if summary.gone else []
    if summary.unanswered:
        chosen = format_count(summary.calls + summary.gone + summary.unanswered + summary.unread)
        have = "has no recorded result and was" if summary.unanswered == 1 else "have no recorded result and were"
        notes.append(f"{format_count(summary.unanswered)} of {chosen} calls {have} left out.")
    if summary.unread:
        notes.append(f"{_calls(summary.unread)} read by a family that is not installed and left out.")
    for name, one in zip(names, summary.columns, strict=True):
        if one.absent:
            reason = "no receipt was recorded" if name == "recorded" else "their family has no such variant"
            notes.append(f"{_calls(one.absent, 'has', 'have')} no text under {name}: {reason}.")
        if one.problems:
            have = _calls(one.problems, "has", "have")
            notes.append(f"{have} no text under {name}, which could not write it: {one.problem}")
    return [*notes, *chain.from_iterable(_turned(names[0], *one) for one in zip(names, summary.columns, strict=True))]


def _calls(number: int, one: str = "was", many: str = "were") -> str:
    return f"1 call {one}" if number == 1 else f"{format_count(number)} calls {many}"


def _turned(baseline: str, name: str, column: ColumnSummary) -> list[str]:
    """A few large calls may decide a total that most calls contradict."""
    delta = column.deltas.get("tokens")
    if delta is None or not delta.change:
        return []
    against = delta.more if delta.change < 0 else delta.fewer
    if 2 * against <= delta.calls:
        return []
    total, single = ("fewer", "more") if delta.change < 0 else ("more", "fewer")
    return [
        f"{name} takes {total} tokens than {baseline} in all, but {single} in {format_count(against)} of "
        f"{format_count(delta.calls)} calls: the larger calls decide the total."
    ]
