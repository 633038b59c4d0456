"""From calls to rows of a comparison: every column's receipt, measured. Tokens are counted a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from dashboard.comparisons.cells import FIELDS_NAMED, Cell, Row, digest
from dashboard.evidence.call_inputs import CallInput
from dashboard.evidence.lint_findings import lint_recorded_receipt
from dashboard.text.receipt_markup import Links
from dashboard.variants.fingerprints import text_bytes
from dashboard.variants.render_call import describe_failure
from dashboard.variants.variant_list import VariantColumn
from envelopes.alignment.coverage import dropped_fields, generalize_pointers, scalar_fields
from envelopes.lint.model import LintInput
from envelopes.lint.rules import lint
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt, text_receipt
from envelopes.schema.variant import Variant
from envelopes.text.tokens import count_all

NOTHING = text_receipt(())


class _Beat(Protocol):
    def __call__(self) -> None: ...


class Measured(msgspec.Struct, frozen=True):
    """A cell but for its tokens, and the text that they are counted in."""

    cell: Cell
    text: str


def rows_of(
    subjects: Iterable[CallInput], columns: Sequence[VariantColumn], *, beat: _Beat = lambda: None
) -> list[Row]:
    """`beat` is called after each call, so that a long batch keeps its lease."""
    rows: list[Row] = []
    measured: list[tuple[Measured | None, ...]] = []
    for subject in subjects:
        found = measured_columns(subject, columns)
        measured.append(found)
        cells = tuple(None if one is None else one.cell for one in found)
        rows.append(Row(subject.key.bytes, subject.tool, subject.family.name, digest(subject.data), cells))
        beat()
    counts = iter(count_all([one.text for some in measured for one in some if one is not None]))
    return [
        msgspec.structs.replace(
            row,
            cells=tuple(
                None if cell is None else msgspec.structs.replace(cell, tokens=next(counts).count) for cell in row.cells
            ),
        )
        for row in rows
    ]


def measured_columns(subject: CallInput, columns: Sequence[VariantColumn]) -> tuple[Measured | None, ...]:
    fields = scalar_fields(subject.canonical)
    # The walk over the result is the same for every column, so they share one pair's.
    first = LintInput(
        canonical=subject.canonical,
        receipt=NOTHING,
        cuts=subject.cuts,
        has_artifact=lambda path: path not in subject.missing,
    )
    return tuple([_measured(subject, column, fields, first) for column in columns])


def _measured(subject: CallInput, column: VariantColumn, fields: dict[str, str], first: LintInput) -> Measured | None:
    if column.is_recorded:
        return _recorded(subject, fields)
    variant = column.variants.get(subject.family.name)
    return None if variant is None else _rendered(subject, variant, fields, first)


def _rendered(subject: CallInput, variant: Variant, fields: dict[str, str], first: LintInput) -> Measured:
    try:
        receipt = render(subject.canonical, subject.family, variant.policy, variant=variant)
    except Exception as error:  # a variant may be anybody's: what it cannot write is a cell that says so
        return _failed(error)
    pair = first.with_receipt(receipt)
    found = lint(pair, subject.family.lint)
    is_cut = bool(subject.cuts) or pair.has_marker
    rules = tuple(one.rule for one in found)
    return _cell(receipt, dropped_fields(fields, receipt), rules, is_cut=is_cut)


def _recorded(subject: CallInput, fields: dict[str, str]) -> Measured | None:
    halves = subject.surfaces.halves if subject.surfaces else None
    if halves is None or halves.receipt is None:
        return None
    links = Links(halves.reading.links, halves.reading.slices)
    found, _ = lint_recorded_receipt(halves, subject.missing)
    dropped = dropped_fields(fields, halves.receipt, links.of)
    is_cut = any(not one.cut.is_whole for one in halves.outputs)
    return _cell(halves.receipt, dropped, tuple(one.rule for one in found), is_cut=is_cut)


def _cell(receipt: Receipt, dropped: Sequence[str], rules: tuple[str, ...], *, is_cut: bool) -> Measured:
    text = receipt.text
    cell = Cell(
        characters=len(text),
        tokens=0,
        lines=text.count("\n") + 1 if text else 0,
        is_cut=is_cut,
        dropped=len(dropped),
        digest=digest(text_bytes(text)),
        lint=rules,
        fields=generalize_pointers(dropped)[:FIELDS_NAMED],
    )
    return Measured(cell, text)


def _failed(error: Exception) -> Measured:
    nothing = Cell(
        characters=0, tokens=0, lines=0, is_cut=False, dropped=0, digest=b"", problem=describe_failure(error)
    )
    return Measured(nothing, "")
