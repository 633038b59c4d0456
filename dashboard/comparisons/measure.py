"""Measures the receipts of calls under the columns of a comparison. Tokens are counted a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from dashboard.comparisons.cells import MOST_FIELD_NAMES, Cell, MeasuredCall, digest
from dashboard.evidence.call_evidence import CallInput
from dashboard.evidence.lint_findings import lint_recorded_receipt
from dashboard.text.receipt_markup import FieldLinks
from dashboard.variants.fingerprints import text_bytes
from dashboard.variants.render_call import describe_failure
from dashboard.variants.variant_list import VariantColumn
from envelopes.alignment.coverage import dropped_fields, generalize_pointers, scalar_fields
from envelopes.lint.model import LintInput
from envelopes.lint.rules import lint
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt, Variant, text_receipt
from envelopes.text.tokens import count_all


class MeasuredText(msgspec.Struct, frozen=True):
    """A cell without its tokens, and the text to count them in."""

    cell: Cell
    text: str


def measure_calls(
    calls: Iterable[CallInput], columns: Sequence[VariantColumn], *, on_call: Callable[[], object] = lambda: None
) -> list[MeasuredCall]:
    """`on_call` is called after each call, so that a long batch can renew its lease."""
    rows: list[MeasuredCall] = []
    texts: list[str] = []
    for call in calls:
        measured = _measure_columns(call, columns)
        texts += [column.text for column in measured if column is not None]
        cells = tuple(None if column is None else column.cell for column in measured)
        rows.append(MeasuredCall(call.key.bytes, call.tool, call.family.name, digest(call.data), cells))
        on_call()
    counts = iter(count_all(texts))
    counted = []
    for row in rows:
        counted_cells = [cell and msgspec.structs.replace(cell, tokens=next(counts).count) for cell in row.cells]
        counted.append(msgspec.structs.replace(row, cells=tuple(counted_cells)))
    return counted


def _measure_columns(call: CallInput, columns: Sequence[VariantColumn]) -> list[MeasuredText | None]:
    """None for a column whose name has no variant in the call's family, and for a receipt that was not recorded."""
    fields = scalar_fields(call.canonical)
    # The rules walk the result once for all columns: inputs made by `with_receipt` share that work.
    shared = LintInput(
        canonical=call.canonical,
        receipt=text_receipt(()),
        cuts=call.cuts,
        has_artifact=lambda path: path not in call.missing,
    )
    measured: list[MeasuredText | None] = []
    for column in columns:
        variant = column.variants.get(call.family.name)
        if column.is_recorded:
            measured.append(_measure_recorded(call, fields))
        else:
            measured.append(None if variant is None else _measure_rendered(call, variant, fields, shared))
    return measured


def _measure_rendered(call: CallInput, variant: Variant, fields: dict[str, str], shared: LintInput) -> MeasuredText:
    try:
        receipt = render(call.canonical, call.family, variant.policy, variant=variant)
    except Exception as error:  # variants come from packages and operators: a failure becomes a cell with its problem
        problem = describe_failure(error)
        return MeasuredText(
            Cell(characters=0, tokens=0, lines=0, is_cut=False, dropped=0, digest=b"", problem=problem), ""
        )
    lint_input = shared.with_receipt(receipt)
    findings = lint(lint_input, call.family.lint)
    is_cut = bool(call.cuts) or lint_input.has_marker
    rules = tuple(finding.rule for finding in findings)
    return _measure(receipt, dropped_fields(fields, receipt), rules, is_cut=is_cut)


def _measure_recorded(call: CallInput, fields: dict[str, str]) -> MeasuredText | None:
    halves = call.evidence.halves if call.evidence else None
    if halves is None or halves.receipt is None:
        return None
    links = FieldLinks(halves.reading.links, halves.reading.slices)
    findings, _ = lint_recorded_receipt(halves, call.missing)
    dropped = dropped_fields(fields, halves.receipt, links.resolve)
    is_cut = any(not output.cut.is_whole for output in halves.outputs)
    return _measure(halves.receipt, dropped, tuple(finding.rule for finding in findings), is_cut=is_cut)


def _measure(receipt: Receipt, dropped: Sequence[str], rules: tuple[str, ...], *, is_cut: bool) -> MeasuredText:
    text = receipt.text
    cell = Cell(
        characters=len(text),
        tokens=0,
        lines=text.count("\n") + 1 if text else 0,
        is_cut=is_cut,
        dropped=len(dropped),
        digest=digest(text_bytes(text)),
        lint=rules,
        fields=generalize_pointers(dropped)[:MOST_FIELD_NAMES],
    )
    return MeasuredText(cell, text)
