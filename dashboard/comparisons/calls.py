"""Calls of a comparison, a page at a time: of a bucket, a tool, a family, or those that changed most.

`?after=` is the place of the last call that was shown, batch and index, so that a page deep in a hundred
thousand calls reads the batches behind it and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.comparisons.cells import Cell, Measure, Row
from dashboard.comparisons.changes import CHANGES, bucket, bucket_range
from dashboard.comparisons.facts import column_names
from dashboard.comparisons.page import CHANGE_TITLES, ChangedCall, changed_call
from dashboard.comparisons.work import results_of, summary_of
from dashboard.models import Comparison

PAGE = 50


@dataclass(frozen=True, kw_only=True)
class Listed:
    href: str
    key: UUID
    tool: str
    baseline: Cell | None
    cell: Cell | None

    @property
    def change(self) -> str:
        return f"{self.cell.tokens - self.baseline.tokens:+,}" if self.cell and self.baseline else ""


@dataclass(frozen=True, kw_only=True)
class CallsPage:
    """Either rows of the batches, or the list of the calls that changed most."""

    comparison: Comparison
    title: str
    baseline: str
    column: str
    rows: tuple[Listed, ...]
    changed: tuple[ChangedCall, ...]
    next_href: str
    back_href: str


@dataclass(frozen=True)
class _Wanted:
    """What the address asks for; a number that makes no sense is as if it were not there."""

    column: int
    sizes: int | None
    changes: int | None
    tool: str
    family: str
    changed: Measure | None

    @classmethod
    def of(cls, query: Mapping[str, str], columns: int) -> _Wanted:
        column = _number(query.get("column", "")) or 0
        return cls(
            column if 0 <= column < columns else 0,
            _number(query.get("sizes", "")),
            _number(query.get("changes", "")),
            query.get("tool", ""),
            query.get("family", ""),
            next((one for one in CHANGES if one == query.get("changed")), None),
        )

    def takes(self, row: Row) -> bool:
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
        said = [f"of the tool {self.tool}"] if self.tool else []
        said += [f"of the family {self.family}"] if self.family else []
        said += [f"with {_range(self.sizes)} tokens"] if self.sizes is not None else []
        said += [f"whose tokens changed by {_range(self.changes)}"] if self.changes is not None else []
        return " ".join(["Calls", *said, f"under {column}"])


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 4 else None


def _range(number: int) -> str:
    low, high = bucket_range(number)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def calls_page(comparison: Comparison, query: Mapping[str, str]) -> CallsPage:
    names = column_names(comparison)
    wanted = _Wanted.of(query, len(names))
    found = [] if wanted.changed else _page(comparison, wanted, query.get("after", ""))
    rest = {name: query[name] for name in ("column", "sizes", "changes", "tool", "family") if name in query}
    address = reverse("comparison-pair", args=[comparison.pk, UUID(int=0)]).replace(str(UUID(int=0)), "{}")
    return CallsPage(
        comparison=comparison,
        title=wanted.title(names[wanted.column]),
        baseline=names[0],
        column=names[wanted.column],
        rows=tuple(
            Listed(
                href=f"{address.replace('{}', str(row.key))}?column={max(1, wanted.column)}",
                key=row.key,
                tool=row.tool,
                baseline=row.measured(0),
                cell=row.measured(wanted.column),
            )
            for _, row in found[:PAGE]
        ),
        changed=tuple(_changed(comparison, wanted)),
        next_href=f"?{urlencode({**rest, 'after': found[PAGE - 1][0]})}" if len(found) > PAGE else "",
        back_href=f"{comparison.get_absolute_url()}?column={max(1, wanted.column)}",
    )


def _changed(comparison: Comparison, wanted: _Wanted) -> Iterator[ChangedCall]:
    if wanted.changed and wanted.column and comparison.is_finished:
        for one in summary_of(comparison).columns[wanted.column].changed[wanted.changed]:
            yield changed_call(comparison, one, wanted.changed, wanted.column)


def _page(comparison: Comparison, wanted: _Wanted, after: str) -> list[tuple[str, Row]]:
    """One row more than a page shows, each with its place."""
    batch, _, index = after.partition(".")
    first, skipped = _number_of(batch), _number_of(index)
    found: list[tuple[str, Row]] = []
    for number, rows in enumerate(results_of(comparison, first=first), start=first):
        for place, row in enumerate(rows):
            if after and number == first and place <= skipped:
                continue
            if wanted.takes(row):
                found.append((f"{number}.{place}", row))
                if len(found) > PAGE:
                    return found
    return found


def _number_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def row_of(comparison: Comparison, call: UUID) -> Row | None:
    """The numbers of one call; None when the comparison does not have it."""
    for number, calls in comparison.batches.order_by("number").values_list("number", "calls").iterator(chunk_size=64):
        if call.bytes in bytes(calls):
            rows = next(results_of(comparison, first=number), [])
            return next((row for row in rows if row.call == call.bytes), None)
    return None
