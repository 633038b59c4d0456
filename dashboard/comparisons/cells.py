"""The numbers of a comparison: a row for each call with a cell for each column, packed a batch at a time.

A batch of 200 calls under 3 variants takes about 6 KB: MessagePack without field names, then zstd. Digests are the
first 8 bytes of SHA-256: enough to see that a text changed, and half of a row's size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal
from uuid import UUID

import msgspec
import pyzstd

LEVEL = 3
MOST_FIELD_NAMES = 20  # of the dropped fields in a cell, each name once; `dropped` counts all of them

Measure = Literal["tokens", "characters", "cut", "lint", "dropped"]
MEASURES: tuple[Measure, ...] = ("tokens", "characters", "cut", "lint", "dropped")


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[MeasuredCall])


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
