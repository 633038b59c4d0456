"""Lists of a comparison's calls: those of a bucket, a tool or a family, and those that changed most.

`?after=` is the position of the last call shown, batch and index as in `3.17`, so that a page deep in a hundred
thousand calls reads the batches behind it and no others. The page of one call gets its position in `?at=`, and links
from there to the neighbours in the list that it was opened from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode
from uuid import UUID

from dashboard.evidence.argument_labels import argument_labels
from dashboard.evidence.lint_findings import rule_label
from dashboard.experiments.aggregate import CHANGE_MEASURES, CallChange, batch_key, bucket, format_bucket
from dashboard.experiments.measure_calls import Cell, Measure, MeasuredCall
from dashboard.experiments.params import ColumnOrder, calls_href, pair_href
from dashboard.experiments.stored_comparison import load_batches
from dashboard.experiments.summary import ColumnSummary
from dashboard.models import Call, Comparison
from dashboard.text.formatting import format_change
from dashboard.text.params import Params

PAGE_SIZE = 50
LARGEST_BUCKET = 999
FILTERS = ("sizes", "changes", "tool", "family")
CHANGE_TITLES: dict[Measure, str] = {
    "tokens": "Changed most in size",
    "dropped": "Lost most fields",
    "lint": "Most new lint findings",
}

Position = tuple[int, ...]  # number of the batch, index of the call in it
PositionedRow = tuple[str, MeasuredCall]  # the position as addresses write it


@dataclass(frozen=True)
class CallLabels:
    """The arguments and the summary of calls, a line each; nothing of deleted calls."""

    arguments: Mapping[UUID, str]
    summaries: Mapping[UUID, str]


def load_call_labels(keys: Sequence[UUID]) -> CallLabels:
    return CallLabels(argument_labels(keys), dict(Call.objects.filter(pk__in=keys).values_list("pk", "summary")))


@dataclass(frozen=True, kw_only=True)
class ListedCall:
    href: str
    key: UUID
    tool: str
    arguments: str
    summary: str
    baseline: Cell | None
    cell: Cell | None

    @property
    def change(self) -> str:
        return format_change(self.cell.tokens - self.baseline.tokens) if self.cell and self.baseline else ""


@dataclass(frozen=True, kw_only=True)
class ChangedCall:
    href: str
    key: str
    tool: str
    arguments: str
    summary: str
    before: int
    after: int
    change: str
    names: tuple[str, ...]


def build_changed_calls(
    columns: ColumnOrder, column: int, measure: Measure, changes: Iterable[CallChange], labels: CallLabels
) -> Iterator[ChangedCall]:
    """`changes` are those of the column's list for `measure`, or the first of them."""
    for change in changes:
        yield ChangedCall(
            href=pair_href(columns.comparison, change.key, column, **columns.query, changed=measure),
            key=change.call,
            tool=change.tool,
            arguments=labels.arguments.get(change.key, ""),
            summary=labels.summaries.get(change.key, ""),
            before=change.before,
            after=change.after,
            change=format_change(change.change),
            names=tuple(map(rule_label, change.names)) if measure == "lint" else change.names,
        )


@dataclass(frozen=True)
class CallFilter:
    """Which calls of a column an address asks for; `changed` names a list of those that changed most."""

    column: int
    sizes: int | None
    changes: int | None
    tool: str
    family: str
    changed: Measure | None

    @classmethod
    def read(cls, query: Mapping[str, str], column: int) -> CallFilter:
        params = Params(query)
        return cls(
            column=column,
            sizes=params.integer("sizes", default=None, most=LARGEST_BUCKET),
            changes=params.integer("changes", default=None, least=-LARGEST_BUCKET, most=LARGEST_BUCKET),
            tool=query.get("tool", ""),
            family=query.get("family", ""),
            changed=next((measure for measure in CHANGE_MEASURES if measure == query.get("changed")), None),
        )

    def matches(self, row: MeasuredCall) -> bool:
        cell = row.measured(self.column)
        if cell is None or (self.tool and row.tool != self.tool) or (self.family and row.family != self.family):
            return False
        if self.sizes is not None and bucket(cell.tokens) != self.sizes:
            return False
        pair = row.pair(self.column)
        return self.changes is None or (pair is not None and bucket(pair[1].tokens - pair[0].tokens) == self.changes)

    def title(self, column: str) -> str:
        if self.changed:
            return f"{CHANGE_TITLES[self.changed]} under {column}"
        parts = ["Calls"]
        parts += [f"of the tool {self.tool}"] if self.tool else []
        parts += [f"of the family {self.family}"] if self.family else []
        parts += [f"with {format_bucket(self.sizes)} tokens"] if self.sizes is not None else []
        if self.changes is not None:
            parts.append(f"whose tokens changed by {format_bucket(self.changes, sign='+')}")
        return " ".join([*parts, f"under {column}"])

    def batches(self, columns: ColumnOrder) -> Sequence[int]:
        """The batches that may contain such a call: a tool that was called twice is in two of a thousand."""
        every = range(columns.comparison.batches.count())
        bits = columns.summary.columns[self.column].batch_bits if columns.summary else {}
        if not bits:
            return every
        values = {"tool": self.tool, "family": self.family, "sizes": self.sizes, "changes": self.changes}
        keys = [batch_key(kind, value) for kind, value in values.items() if value is not None and value != ""]
        bitmaps = [int.from_bytes(bits.get(key, b""), "little") for key in keys]
        return [number for number in every if all(bitmap >> number & 1 for bitmap in bitmaps)]

    def rows_after(self, columns: ColumnOrder, batches: Sequence[int], start: Position) -> Iterator[PositionedRow]:
        """Matching calls behind a position, a few batches in memory at a time."""
        batch, index = start
        for number, rows in columns.load_batches([number for number in batches if number >= batch]):
            for position, row in enumerate(rows):
                if (number > batch or position > index) and self.matches(row):
                    yield f"{number}.{position}", row

    def rows_before(self, columns: ColumnOrder, batches: Sequence[int], start: Position) -> Iterator[PositionedRow]:
        """Matching calls before a position, from there backwards."""
        batch, index = start
        for number, rows in columns.load_batches([number for number in reversed(batches) if number <= batch]):
            for position in reversed(range(index if number == batch else len(rows))):
                if self.matches(rows[position]):
                    yield f"{number}.{position}", rows[position]

    def total(self, column: ColumnSummary) -> int | None:
        """How many calls match; None for a combination of filters, which the summary does not count."""
        totals = []
        if self.sizes is not None:
            totals.append(column.sizes.get(self.sizes, 0))
        if self.changes is not None:
            totals.append(column.changes.get(self.changes, 0))
        for name, sums in ((self.tool, column.tools), (self.family, column.families)):
            if name:
                totals.append(sums[name].calls if name in sums else 0)
        return totals[0] if len(totals) == 1 else None


@dataclass(frozen=True, kw_only=True)
class CallsPage:
    """Either `rows` of the batches, or the `changed` calls: the first `total` of `changed_total`.

    `is_of_baseline`: the list is of the baseline's own receipts, which are compared with nothing.
    """

    comparison: Comparison
    title: str
    total: int | None  # where the summary has it
    changed_total: int
    baseline: str
    column: str
    is_of_baseline: bool
    rows: tuple[ListedCall, ...]
    changed: tuple[ChangedCall, ...]
    next_href: str
    back_href: str


def load_calls_page(comparison: Comparison, query: Mapping[str, str], *, page_size: int = PAGE_SIZE) -> CallsPage:
    columns = ColumnOrder.read(comparison, query)
    params = Params(query)
    call_filter = CallFilter.read(query, params.integer("column", default=1, most=len(columns.names) - 1))
    summary = columns.summary.columns[call_filter.column] if columns.summary else None
    rows: list[PositionedRow] = []
    changed: tuple[ChangedCall, ...] = ()
    changed_total = 0
    if call_filter.changed is None:
        total = call_filter.total(summary) if summary else None
        start = params.cursor("after", 2, separator=".") or (0, -1)
        rows = list(islice(call_filter.rows_after(columns, call_filter.batches(columns), start), page_size + 1))
    else:
        if summary and call_filter.column:
            changed = _load_changed_calls(columns, call_filter.column, call_filter.changed, summary)
            changed_total = summary.count_changed(call_filter.changed)
        total = len(changed)
    carried = columns.query | {name: query[name] for name in ("column", *FILTERS) if name in query}
    back = urlencode({**columns.query, "column": max(1, call_filter.column)})
    last = rows[page_size - 1][0] if len(rows) > page_size else ""
    return CallsPage(
        comparison=comparison,
        title=call_filter.title(columns.names[call_filter.column]),
        total=total,
        changed_total=changed_total,
        baseline=columns.names[0],
        column=columns.names[call_filter.column],
        is_of_baseline=call_filter.column == 0,
        rows=tuple(_listed_calls(comparison, call_filter, carried, rows[:page_size])),
        changed=changed,
        next_href=f"?{urlencode({**carried, 'after': last})}" if last else "",
        back_href=f"{comparison.get_absolute_url()}?{back}",
    )


def _load_changed_calls(
    columns: ColumnOrder, column: int, measure: Measure, summary: ColumnSummary
) -> tuple[ChangedCall, ...]:
    changes = summary.changed[measure]
    labels = load_call_labels([change.key for change in changes])
    return tuple(build_changed_calls(columns, column, measure, changes, labels))


def _listed_calls(
    comparison: Comparison, call_filter: CallFilter, carried: Mapping[str, str], rows: list[PositionedRow]
) -> Iterator[ListedCall]:
    """Each address names the list and the call's position in it, so that the page of the call finds its neighbours."""
    labels = load_call_labels([row.key for _, row in rows])
    filters = {name: value for name, value in carried.items() if name != "column"}
    column = call_filter.column
    for position, row in rows:
        yield ListedCall(
            href=pair_href(comparison, row.key, max(1, column), **filters, listed=column, at=position),
            key=row.key,
            tool=row.tool,
            arguments=labels.arguments.get(row.key, ""),
            summary=labels.summaries.get(row.key, ""),
            baseline=row.measured(0),
            cell=row.measured(column),
        )


@dataclass(frozen=True, kw_only=True)
class ListNeighbours:
    """`position` is `3 of 50` in a list of known length; `back_title` names the list that `back_href` leads to."""

    previous_href: str = ""
    next_href: str = ""
    position: str = ""
    back_href: str
    back_title: str = ""


def find_neighbours(columns: ColumnOrder, key: UUID, column: int, query: Mapping[str, str]) -> ListNeighbours:
    """The calls beside one call in the list that the reader comes from; only the way back without such a list."""
    comparison = columns.comparison
    params = Params(query)
    listed = params.integer("listed", default=0, most=len(columns.names) - 1) if "listed" in query else column
    call_filter = CallFilter.read(query, listed)
    comparison_href = f"{comparison.get_absolute_url()}?{urlencode({**columns.query, 'column': column})}"
    alone = ListNeighbours(back_href=comparison_href)
    if not comparison.is_finished:
        return alone
    if call_filter.changed and call_filter.column:
        return _find_changed_neighbours(columns, key, call_filter.column, call_filter.changed) or alone
    start = params.cursor("at", 2, separator=".")
    if start is None or not any(name in query for name in FILTERS) or not _is_at(comparison, key, start):
        return alone
    carried = columns.query | {name: query[name] for name in (*FILTERS, "listed") if name in query}
    filters = {name: value for name, value in carried.items() if name != "listed"}

    def href(positioned: PositionedRow | None) -> str:
        return (
            "" if positioned is None else pair_href(comparison, positioned[1].key, column, **carried, at=positioned[0])
        )

    batches = call_filter.batches(columns)
    return ListNeighbours(
        previous_href=href(next(call_filter.rows_before(columns, batches, start), None)),
        next_href=href(next(call_filter.rows_after(columns, batches, start), None)),
        back_href=calls_href(comparison, call_filter.column, **filters),
        back_title=call_filter.title(columns.names[call_filter.column]),
    )


def _find_changed_neighbours(columns: ColumnOrder, key: UUID, column: int, measure: Measure) -> ListNeighbours | None:
    """The neighbours in the list of calls that changed most; None when the call is not in it."""
    if columns.summary is None:
        return None
    keys = [change.key for change in columns.summary.columns[column].changed[measure]]
    if key not in keys:
        return None
    index = keys.index(key)
    hrefs = [pair_href(columns.comparison, call, column, **columns.query, changed=measure) for call in keys]
    back = urlencode({**columns.query, "column": column})
    return ListNeighbours(
        previous_href=hrefs[index - 1] if index else "",
        next_href=hrefs[index + 1] if index + 1 < len(hrefs) else "",
        position=f"{index + 1} of {len(keys)}",
        back_href=f"{columns.comparison.get_absolute_url()}?{back}",
    )


def _is_at(comparison: Comparison, key: UUID, position: Position) -> bool:
    """True when the call is at the position that the address states."""
    batch, index = position
    rows = [row for _, rows in load_batches(comparison, [batch]) for row in rows]
    return index < len(rows) and rows[index].key == key
