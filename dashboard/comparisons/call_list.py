"""Calls of a comparison, a page at a time: of a bucket, a tool, a family, or those that changed most.

`?after=` is the place of the last call that was shown, batch and index, so that a page deep in a hundred
thousand calls reads the batches behind it and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlencode
from uuid import UUID

from dashboard.comparisons.aggregate import place_key
from dashboard.comparisons.cells import Cell, Measure, Row
from dashboard.comparisons.changes import CHANGES, bucket, bucket_range
from dashboard.comparisons.column_order import Arrangement
from dashboard.comparisons.comparison_detail import CHANGE_TITLES, ChangedCall, changed_call, changed_calls, told_of
from dashboard.comparisons.params import pair_href
from dashboard.comparisons.summary import ColumnSummary, Sums
from dashboard.models import Comparison

PAGE = 50
FILTERS = ("sizes", "changes", "tool", "family")


@dataclass(frozen=True, kw_only=True)
class Listed:
    href: str
    key: UUID
    tool: str
    asked: str
    summary: str
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
    total: int | None  # where the summary knows it
    of: int  # so many changed, where the list holds the first of them
    baseline: str
    column: str
    rows: tuple[Listed, ...]
    changed: tuple[ChangedCall, ...]
    next_href: str
    back_href: str


@dataclass(frozen=True)
class Wanted:
    """What the address asks for; a number that makes no sense is as if it were not there."""

    column: int
    sizes: int | None
    changes: int | None
    tool: str
    family: str
    changed: Measure | None

    @classmethod
    def of(cls, query: Mapping[str, str], columns: int, *, column: str) -> Wanted:
        place = _number(column) or 0
        return cls(
            place if 0 <= place < columns else 0,
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
        said += [f"whose tokens changed by {_range(self.changes, sign='+')}"] if self.changes is not None else []
        return " ".join(["Calls", *said, f"under {column}"])

    def batches(self, shown: Arrangement) -> Sequence[int]:
        """Those that may hold such a call: a tool that was called twice in a hundred thousand calls is in two."""
        every = range(shown.comparison.batches.count())
        places = shown.summary.columns[self.column].places if shown.summary else {}
        if not places:
            return every
        asked = {"tool": self.tool, "family": self.family, "sizes": self.sizes, "changes": self.changes}
        keys = [place_key(kind, value) for kind, value in asked.items() if value not in ("", None)]
        held = [int.from_bytes(places.get(key, b""), "little") for key in keys]
        return [number for number in every if all(bits >> number & 1 for bits in held)]

    def rows(
        self, shown: Arrangement, batches: Sequence[int], behind: tuple[int, int] = (0, -1)
    ) -> Iterator[tuple[str, Row]]:
        """Each with its place, behind that batch and index."""
        batch, index = behind
        for number, rows in shown.load_batches([one for one in batches if one >= batch]):
            for place, row in enumerate(rows):
                if (number > batch or place > index) and self.takes(row):
                    yield f"{number}.{place}", row

    def total(self, column: ColumnSummary) -> int | None:
        """How many there are, when one thing alone is asked for."""
        parts = (
            None if self.sizes is None else column.sizes.get(self.sizes, 0),
            None if self.changes is None else column.changes.get(self.changes, 0),
            _calls_of(column.tools, self.tool),
            _calls_of(column.families, self.family),
        )
        found = [one for one in parts if one is not None]
        return found[0] if len(found) == 1 else None


def _calls_of(sums: Mapping[str, Sums], name: str) -> int | None:
    return (sums[name].calls if name in sums else 0) if name else None


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 4 else None


def _range(number: int, *, sign: str = "") -> str:
    low, high = bucket_range(number)
    sign = sign if number else ""
    return f"{low:{sign},}" if low == high else f"{low:{sign},} to {high:{sign},}"


def parsed_place(text: str) -> tuple[int, int]:
    """Batch and index of a place such as `3.17`; what makes no sense is the beginning."""
    batch, _, index = text.partition(".")
    return _number_of(batch), _number_of(index)


def calls_page(comparison: Comparison, query: Mapping[str, str]) -> CallsPage:
    shown = Arrangement.of(comparison, query)
    names = shown.names
    wanted = Wanted.of(query, len(names), column=query.get("column", ""))
    after = query.get("after", "")
    start = parsed_place(after) if after else (0, -1)
    found = [] if wanted.changed else list(islice(wanted.rows(shown, wanted.batches(shown), start), PAGE + 1))
    rest = shown.kept | {name: query[name] for name in ("column", *FILTERS) if name in query}
    changed = tuple(_changed(shown, wanted))
    return CallsPage(
        comparison=comparison,
        title=wanted.title(names[wanted.column]),
        total=_total(shown, wanted, changed),
        of=_of(shown, wanted) if changed else 0,
        baseline=names[0],
        column=names[wanted.column],
        rows=tuple(_listed(comparison, wanted, rest, found[:PAGE])),
        changed=changed,
        next_href=f"?{urlencode({**rest, 'after': found[PAGE - 1][0]})}" if len(found) > PAGE else "",
        back_href=f"{comparison.get_absolute_url()}?{urlencode({**shown.kept, 'column': max(1, wanted.column)})}",
    )


def _total(shown: Arrangement, wanted: Wanted, changed: tuple[ChangedCall, ...]) -> int | None:
    if wanted.changed or shown.summary is None:
        return len(changed) if wanted.changed else None
    return wanted.total(shown.summary.columns[wanted.column])


def _of(shown: Arrangement, wanted: Wanted) -> int:
    return changed_calls(shown.summary.columns[wanted.column], wanted.changed or "tokens") if shown.summary else 0


def _listed(
    comparison: Comparison, wanted: Wanted, rest: Mapping[str, str], found: list[tuple[str, Row]]
) -> Iterator[Listed]:
    """The address of each says which list it stands in and where, so that the pair can lead to the next one."""
    told = told_of([row.key for _, row in found])
    kept = {name: value for name, value in rest.items() if name != "column"}
    for place, row in found:
        yield Listed(
            href=pair_href(comparison, row.key, max(1, wanted.column), **kept, listed=wanted.column, at=place),
            key=row.key,
            tool=row.tool,
            asked=told.asked.get(row.key, ""),
            summary=told.summaries.get(row.key, ""),
            baseline=row.measured(0),
            cell=row.measured(wanted.column),
        )


def _changed(shown: Arrangement, wanted: Wanted) -> Iterator[ChangedCall]:
    if wanted.changed and wanted.column and shown.summary:
        found = shown.summary.columns[wanted.column].changed[wanted.changed]
        told = told_of([one.key for one in found])
        for one in found:
            href = pair_href(shown.comparison, one.key, wanted.column, **shown.kept, changed=wanted.changed)
            yield changed_call(one, href, told)


def _number_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
