"""From one pair of a comparison to the next, in the list that the reader comes from.

Two kinds of lists: the calls that changed most (`?changed=tokens`), which the summary holds, and those of a
tool, a family or a bucket, which are found again in the batches, from the call's own place (`?at=3.17`) on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from dashboard.comparisons.call_list import FILTERS, Wanted, parsed_place
from dashboard.comparisons.cells import Row
from dashboard.comparisons.column_order import Arrangement
from dashboard.comparisons.params import calls_href, pair_href
from dashboard.comparisons.results import load_batches
from dashboard.models import Comparison


@dataclass(frozen=True, kw_only=True)
class Walk:
    """`place` is of a list whose length is known; `back_title` names the list that `back_href` leads to."""

    previous_href: str = ""
    next_href: str = ""
    place: str = ""
    back_href: str
    back_title: str = ""


def walk_of(comparison: Comparison, key: UUID, column: int, query: Mapping[str, str]) -> Walk:
    shown = Arrangement.of(comparison, query)
    names = shown.names
    wanted = Wanted.of(query, len(names), column=query.get("listed", str(column)))
    up = f"{comparison.get_absolute_url()}?{urlencode({**shown.kept, 'column': column})}"
    if not comparison.is_finished:
        return Walk(back_href=up)
    if wanted.changed and wanted.column:
        return _of_changed(shown, key, wanted, up)
    if "at" not in query or not any(name in query for name in FILTERS):
        return Walk(back_href=up)
    kept = shown.kept | {name: query[name] for name in (*FILTERS, "listed") if name in query}
    batch, index = parsed_place(query["at"])
    if not _stands_at(comparison, key, batch, index):
        return Walk(back_href=up)

    batches = wanted.batches(shown)

    def address(found: tuple[str, Row] | None) -> str:
        return "" if found is None else pair_href(comparison, found[1].key, column, **kept, at=found[0])

    filters = {name: value for name, value in kept.items() if name != "listed"}
    return Walk(
        previous_href=address(next(_before(shown, wanted, batches, (batch, index)), None)),
        next_href=address(next(wanted.rows(shown, batches, (batch, index)), None)),
        back_href=calls_href(comparison, wanted.column, **filters),
        back_title=wanted.title(names[wanted.column]),
    )


def _of_changed(shown: Arrangement, key: UUID, wanted: Wanted, up: str) -> Walk:
    columns = shown.summary.columns if shown.summary else ()
    keys = [one.key for one in columns[wanted.column].changed[wanted.changed or "tokens"]] if columns else []
    if key not in keys:
        return Walk(back_href=up)
    at = keys.index(key)
    before, behind = (
        pair_href(shown.comparison, keys[place], wanted.column, **shown.kept, changed=wanted.changed)
        if 0 <= place < len(keys)
        else ""
        for place in (at - 1, at + 1)
    )
    return Walk(
        previous_href=before,
        next_href=behind,
        place=f"{at + 1} of {len(keys)}",
        back_href=up,
    )


def _stands_at(comparison: Comparison, key: UUID, batch: int, index: int) -> bool:
    """An address may say anything."""
    rows = [row for _, some in load_batches(comparison, [batch]) for row in some]
    return index < len(rows) and rows[index].key == key


def _before(
    shown: Arrangement, wanted: Wanted, batches: Sequence[int], at: tuple[int, int]
) -> Iterator[tuple[str, Row]]:
    """Backwards, a few batches in memory at a time."""
    batch, index = at
    for number, rows in shown.load_batches([one for one in reversed(batches) if one <= batch]):
        for place in reversed(range(index if number == batch else len(rows))):
            if wanted.takes(rows[place]):
                yield f"{number}.{place}", rows[place]
