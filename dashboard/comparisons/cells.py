"""The numbers of a comparison: a row a call, a cell a column, packed a batch at a time.

A batch of 200 calls under 3 variants takes about 6 KB: MessagePack without field names, then zstd. Digests
are the first 8 bytes of SHA-256: enough to see that a text changed, and half of what a row weighs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal
from uuid import UUID

import msgspec
import pyzstd

LEVEL = 3
FIELDS_NAMED = 20  # of the dropped ones, each name once; all of them are counted

Measure = Literal["tokens", "characters", "cut", "lint", "dropped"]
MEASURES: tuple[Measure, ...] = ("tokens", "characters", "cut", "lint", "dropped")


class Cell(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One receipt, measured. `lint` names a rule once for each finding, `problem` says why there is no text.

    `is_cut`: text was left out by the canonical result or by the variant; of a recorded receipt, lines of the
    complete output are not in it.
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

    def value(self, measure: Measure) -> int:
        return self.values[MEASURES.index(measure)]

    @property
    def values(self) -> tuple[int, int, int, int, int]:
        """In the order of MEASURES."""
        return self.tokens, self.characters, int(self.is_cut), len(self.lint), self.dropped


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One call. A cell is None where the family has no such variant, or where no receipt was recorded."""

    call: bytes
    tool: str
    family: str
    canonical: bytes  # digest of the envelope that was rendered
    cells: tuple[Cell | None, ...]

    @property
    def key(self) -> UUID:
        return UUID(bytes=self.call)

    def arranged(self, order: Sequence[int]) -> Row:
        """With those of its cells, in that order."""
        return msgspec.structs.replace(self, cells=tuple([self.cells[ordinal] for ordinal in order]))

    def measured(self, ordinal: int) -> Cell | None:
        """The cell, when there is a text in it."""
        cell = self.cells[ordinal]
        return None if cell is None or cell.problem else cell

    def pair(self, ordinal: int) -> tuple[Cell, Cell] | None:
        """The baseline's cell and the column's, when both have a text: only those are held against each other."""
        baseline, cell = self.measured(0), self.measured(ordinal)
        return None if baseline is None or cell is None else (baseline, cell)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Row])


def packed(rows: Sequence[Row]) -> bytes:
    return bytes(pyzstd.compress(_encoder.encode(rows), LEVEL))


def unpacked(data: bytes) -> list[Row]:
    return _decoder.decode(pyzstd.decompress(data))


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:8]


def packed_ids(ids: Iterable[UUID]) -> bytes:
    return b"".join(one.bytes for one in ids)


def unpacked_ids(data: bytes) -> Iterator[UUID]:
    return (UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16))
