"""One call of a comparison: its envelope, the baseline's receipt and a column's, and the measures of both.

The texts are rendered again for the page. Where a text is no longer the one that was measured, the page shows a
warning; the numbers stay those of the comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.calls.half_panes import JsonPane, build_args_pane
from dashboard.evidence.argument_labels import argument_labels
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.experiments.call_list import ListNeighbours, find_neighbours
from dashboard.experiments.measure_calls import Cell, digest
from dashboard.experiments.params import ColumnOrder
from dashboard.experiments.stored_comparison import find_row
from dashboard.models import Call, Comparison
from dashboard.text import json_markup
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, DiffView, build_diff_page
from dashboard.text.formatting import format_change
from dashboard.text.params import Params
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from dashboard.variants.fingerprints import text_bytes
from dashboard.variants.render_call import describe_failure, family_name
from dashboard.variants.variant_list import VariantColumn
from envelopes.families.registry import family
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt


@dataclass(frozen=True, kw_only=True)
class ColumnReceipt:
    """The receipt that a column writes of a call today; `problem` is the reason where it writes none."""

    name: str
    receipt: Receipt | None
    links: FieldLinks
    cell: Cell | None
    problem: str
    call: Call
    role: str = ""

    @property
    def window(self) -> ReceiptChunk | None:
        return None if self.receipt is None else receipt_chunk(self.receipt, self.links, 0, FIRST_CHARS)

    @property
    def text(self) -> str:
        return "" if self.receipt is None else self.receipt.text

    @property
    def has_changed(self) -> bool:
        """True when the text is no longer the one that was measured."""
        return self.cell is not None and self.receipt is not None and digest(text_bytes(self.text)) != self.cell.digest


@dataclass(frozen=True, kw_only=True)
class PairPage:
    comparison: Comparison
    call: Call
    canonical: TextChunk
    is_canonical_changed: bool
    baseline: ColumnReceipt
    column: ColumnReceipt
    args: JsonPane
    arguments: str
    others: tuple[tuple[int, str], ...]  # positions and names of the columns beside the baseline
    ordinal: int
    change: str
    view: DiffView
    spaces: bool
    difference: DiffPage | None
    neighbours: ListNeighbours


def load_pair_page(comparison: Comparison, call: Call, query: Mapping[str, str]) -> PairPage | None:
    """None when the comparison has no numbers of the call."""
    row = find_row(comparison, call.pk)
    if row is None:
        return None
    order = ColumnOrder.read(comparison, query)
    row, columns = order.reorder(row), order.load_columns()
    params = Params(query)
    ordinal = params.integer("column", default=1, least=1, most=len(columns) - 1)
    view: DiffView = params.choice("view", ("side", "unified"), default="side")
    spaces = params.flag("spaces")
    evidence = load_evidence(call, {})
    baseline = render_column(evidence, columns[0], row.cells[0], role="baseline")
    column = render_column(evidence, columns[ordinal], row.cells[ordinal])
    page = None
    if baseline.receipt is not None and column.receipt is not None:
        lines = compute_difference(baseline.text, column.text)
        page = build_diff_page(lines, view, spaces=spaces, start=params.integer("row", default=0))
    return PairPage(
        comparison=comparison,
        call=call,
        canonical=json_markup.first_chunk(json_markup.indent_json(evidence.canonical), FIRST_CHARS, "data-pointer"),
        is_canonical_changed=digest(evidence.canonical) != row.canonical,
        baseline=baseline,
        column=column,
        args=build_args_pane(evidence),
        arguments=argument_labels([call.pk]).get(call.pk, ""),
        others=tuple((column.ordinal, column.name) for column in columns[1:]),
        ordinal=ordinal,
        change=_format_change(row.pair(ordinal)),
        view=view,
        spaces=spaces,
        difference=page,
        neighbours=find_neighbours(order, call.pk, ordinal, query),
    )


def _format_change(pair: tuple[Cell, Cell] | None) -> str:
    """The change in tokens as it was measured; empty unless both columns have a text."""
    if pair is None:
        return ""
    before, after = (cell.tokens for cell in pair)
    share = f" ({format_change(after / before - 1, '+.1%')})" if before else ""
    return f"{format_change(after - before)} tokens{share}"


def render_column(evidence: CallEvidence, column: VariantColumn, cell: Cell | None, *, role: str = "") -> ColumnReceipt:
    """Renders the call under the column's variant; the recorded column has the receipt of the source, with links."""
    links = FieldLinks({})
    problem = ""
    receipt = None
    if column.is_recorded:
        reading = evidence.halves.reading
        links = FieldLinks(reading.links, reading.slices)
        receipt = evidence.halves.receipt
        problem = "" if receipt else "No receipt was recorded."
    else:
        receipt, problem = _render_variant(evidence, column)
    return ColumnReceipt(
        name=column.name, receipt=receipt, links=links, cell=cell, problem=problem, call=evidence.call, role=role
    )


def _render_variant(evidence: CallEvidence, column: VariantColumn) -> tuple[Receipt | None, str]:
    owner = family_name(evidence)
    variant = column.variants.get(owner)
    if variant is None:
        return None, f"The {owner} family has no variant {column.name}."
    try:
        return render(evidence.envelope, family(owner), variant.policy, variant=variant), ""
    except Exception as error:  # variants come from packages and operators: the page shows why one failed
        return None, describe_failure(error)
