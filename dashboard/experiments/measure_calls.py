"""Measures calls for a comparison: a row for each call with a cell for each column, packed a batch at a time.

Tokens are counted a batch at a time as well. A batch of 200 calls under 3 variants takes about 6 KB: MessagePack
without field names, then zstd. Digests are the first 8 bytes of SHA-256: enough to see that a text changed, and half
of a row's size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal
from uuid import UUID

import msgspec
import pyzstd

from dashboard.evidence.call_inputs import CallInput, StoredCall, read_inputs
from dashboard.evidence.lint_findings import lint_recorded_receipt
from dashboard.experiments.stored_columns import bind_unchanged
from dashboard.models.runs import ReceiptAuthor
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

LEVEL = 3
MOST_FIELD_NAMES = 20  # of the dropped fields in a cell, each name once; `dropped` counts all of them

Measure = Literal["tokens", "characters", "cut", "lint", "dropped"]
MEASURES: tuple[Measure, ...] = ("tokens", "characters", "cut", "lint", "dropped")
_encoder = msgspec.msgpack.Encoder()


class Cell(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The measures of one receipt. `lint` has a rule's id for each finding; `problem` is the reason without a text.

    `is_cut`: the canonical result or the variant left text out; for a recorded receipt, lines of the complete output
    are missing from it.
    """

    characters: int
    tokens: int
    lines: int
    is_cut: bool
    dropped: int
    digest: bytes
    lint: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    problem: str = ""

    @property
    def values(self) -> tuple[int, int, int, int, int]:
        """In the order of MEASURES."""
        return self.tokens, self.characters, int(self.is_cut), len(self.lint), self.dropped


class MeasuredCall(msgspec.Struct, frozen=True, array_like=True):
    """One call. A cell is None where the family has no such variant, or where no receipt was recorded."""

    call: bytes
    tool: str
    family: str
    canonical: bytes  # digest of the envelope that was rendered
    cells: tuple[Cell | None, ...]
    versions: str = ""  # of the mapping and the policy that made the envelope

    @property
    def key(self) -> UUID:
        return UUID(bytes=self.call)

    def reorder(self, order: Sequence[int]) -> MeasuredCall:
        """The row with the cells of these columns, in this order."""
        return msgspec.structs.replace(self, cells=tuple([self.cells[ordinal] for ordinal in order]))

    def measured(self, ordinal: int) -> Cell | None:
        """The cell of a column, None when it has no text."""
        cell = self.cells[ordinal]
        return None if cell is None or cell.problem else cell

    def pair(self, ordinal: int) -> tuple[Cell, Cell] | None:
        """The cells of the baseline and of a column, None unless both have a text: only those are compared."""
        baseline, cell = self.measured(0), self.measured(ordinal)
        return None if baseline is None or cell is None else (baseline, cell)


_decoder = msgspec.msgpack.Decoder(list[MeasuredCall])
_stored_calls = msgspec.msgpack.Decoder(list[StoredCall])
_bind = lru_cache(maxsize=8)(bind_unchanged)  # a comparison has many portions with the same columns


def pack_rows(rows: Sequence[MeasuredCall]) -> bytes:
    return bytes(pyzstd.compress(_encoder.encode(rows), LEVEL))


def unpack_rows(data: bytes) -> list[MeasuredCall]:
    return _decoder.decode(pyzstd.decompress(data))


def pack_ids(ids: Iterable[UUID]) -> bytes:
    return b"".join(key.bytes for key in ids)


def unpack_ids(data: bytes) -> Iterator[UUID]:
    return (UUID(bytes=data[start : start + 16]) for start in range(0, len(data), 16))


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:8]


class MeasuredText(msgspec.Struct, frozen=True):
    """A cell without its tokens, and the text to count them in."""

    cell: Cell
    text: str


def pack_calls(calls: Sequence[StoredCall]) -> bytes:
    return _encoder.encode(calls)


def measure_packed(calls: bytes, specification: bytes) -> bytes:
    """Measures calls of `pack_calls` under the columns of a specification; the rows as MessagePack.

    A pure function that any process with the same version can compute. Raises ChangedVariant.
    """
    return _encoder.encode(measure_calls(read_inputs(_stored_calls.decode(calls)), _bind(specification)))


def join_rows(portions: Iterable[bytes]) -> bytes:
    """The rows of the portions of one batch, in order, as they are stored."""
    return pack_rows([row for portion in portions for row in _decoder.decode(portion)])


def measure_calls(calls: Iterable[CallInput], columns: Sequence[VariantColumn]) -> list[MeasuredCall]:
    rows: list[MeasuredCall] = []
    texts: list[str] = []
    for call in calls:
        measured = _measure_columns(call, columns)
        texts += [column.text for column in measured if column is not None]
        cells = tuple(None if column is None else column.cell for column in measured)
        rows.append(MeasuredCall(call.key.bytes, call.tool, call.family.name, digest(call.data), cells, call.versions))
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
    if call.halves is None or call.halves.receipt is None:
        return None
    halves, receipt = call.halves, call.halves.receipt
    links = FieldLinks(halves.reading.links, halves.reading.slices)
    findings, _ = lint_recorded_receipt(halves, call.missing)
    dropped = dropped_fields(fields, receipt, links.resolve)
    is_rewritten = call.author == ReceiptAuthor.HOOK  # no cut by itself
    is_cut = call.is_cut if is_rewritten else halves.is_cut
    return _measure(receipt, dropped, tuple(finding.rule for finding in findings), is_cut=is_cut)


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
