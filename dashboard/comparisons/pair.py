"""One call of a comparison: its envelope, the baseline's receipt and the column's, and what was measured of both.

The texts are written anew. Where one is no longer the text that was measured, the page says so: the
numbers stay those of the comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dashboard.calls.panes import JsonPane, args_pane
from dashboard.comparisons.cells import Cell, digest
from dashboard.comparisons.column_order import Arrangement
from dashboard.comparisons.results import find_row
from dashboard.comparisons.walk import Walk, walk_of
from dashboard.evidence.argument_labels import argument_labels
from dashboard.evidence.call_evidence import Surfaces, surfaces_of
from dashboard.models import Call, Comparison
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, DiffView, build_diff_page
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from dashboard.variants.fingerprints import text_bytes
from dashboard.variants.render_call import describe_failure, family_name
from dashboard.variants.variant_list import VariantColumn
from envelopes.families.registry import family
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt


@dataclass(frozen=True, kw_only=True)
class Written:
    """One column's receipt of this call, as it is written today. `problem` says why there is none."""

    name: str
    receipt: Receipt | None
    links: Links
    cell: Cell | None
    problem: str
    call: Call
    role: str = ""

    @property
    def window(self) -> ReceiptWindow | None:
        return None if self.receipt is None else receipt_window(self.receipt, self.links, 0, FIRST_CHARS)

    @property
    def text(self) -> str:
        return "" if self.receipt is None else self.receipt.text

    @property
    def has_changed(self) -> bool:
        """It is no longer the text that was measured."""
        return self.cell is not None and self.receipt is not None and digest(text_bytes(self.text)) != self.cell.digest


@dataclass(frozen=True, kw_only=True)
class PairPage:
    comparison: Comparison
    call: Call
    canonical: TextChunk
    is_canonical_changed: bool
    baseline: Written
    column: Written
    args: JsonPane
    asked: str
    others: tuple[tuple[int, str], ...]  # the columns that can be held against the baseline
    ordinal: int
    change: str
    view: DiffView
    spaces: bool
    difference: DiffPage | None
    walk: Walk


def pair_page(comparison: Comparison, call: Call, query: Mapping[str, str]) -> PairPage | None:
    """None when the comparison does not have that call, or has not come to it."""
    row = find_row(comparison, call.pk)
    if row is None:
        return None
    shown = Arrangement.of(comparison, query)
    row, columns = shown.row(row), shown.columns()
    ordinal = column_of(query, len(columns))
    surfaces = surfaces_of(call, {})
    baseline = replace(written(surfaces, columns[0], row.cells[0]), role="baseline")
    column = written(surfaces, columns[ordinal], row.cells[ordinal])
    canonical = json_markup.pretty(surfaces.canonical)
    view: DiffView = "unified" if query.get("view") == "unified" else "side"
    spaces = query.get("spaces") == "1"
    return PairPage(
        comparison=comparison,
        call=call,
        canonical=json_markup.head(canonical, FIRST_CHARS, "data-pointer"),
        is_canonical_changed=digest(surfaces.canonical) != row.canonical,
        baseline=baseline,
        column=column,
        args=args_pane(surfaces),
        asked=argument_labels([call.pk]).get(call.pk, ""),
        others=tuple((one.ordinal, one.name) for one in columns[1:]),
        ordinal=ordinal,
        change=_change(row.pair(ordinal)),
        view=view,
        spaces=spaces,
        difference=_difference(baseline, column, view, spaces=spaces, start=_start(query.get("row", ""))),
        walk=walk_of(comparison, call.pk, ordinal, query),
    )


def _change(pair: tuple[Cell, Cell] | None) -> str:
    """In tokens, as they were measured."""
    if pair is None:
        return ""
    before, after = (one.tokens for one in pair)
    share = f" ({after / before - 1:+.1%})" if before else ""
    return f"{after - before:+,} tokens{share}"


def _start(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def column_of(query: Mapping[str, str], columns: int) -> int:
    wanted = query.get("column", "")
    column = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 3 else 1
    return column if 0 < column < columns else 1


def written(surfaces: Surfaces, column: VariantColumn, cell: Cell | None) -> Written:
    reading = surfaces.halves.reading
    links = Links(reading.links, reading.slices) if column.is_recorded else Links({})
    receipt, problem = _receipt(surfaces, column)
    return Written(name=column.name, receipt=receipt, links=links, cell=cell, problem=problem, call=surfaces.call)


def _receipt(surfaces: Surfaces, column: VariantColumn) -> tuple[Receipt | None, str]:
    if column.is_recorded:
        receipt = surfaces.halves.receipt
        return receipt, "" if receipt else "No receipt was recorded."
    owner = family_name(surfaces)
    variant = column.variants.get(owner)
    if variant is None:
        return None, f"The {owner} family has no variant {column.name}."
    try:
        return render(surfaces.envelope, family(owner), variant.policy, variant=variant), ""
    except Exception as error:  # a variant may be anybody's
        return None, describe_failure(error)


def _difference(baseline: Written, column: Written, view: DiffView, *, spaces: bool, start: int) -> DiffPage | None:
    if baseline.receipt is None or column.receipt is None:
        return None
    return build_diff_page(compute_difference(baseline.text, column.text), view, spaces=spaces, start=start)
