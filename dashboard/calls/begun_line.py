"""The line of which the model got only the beginning.

A cut counts whole lines. Of a preview that ends within one, and of an output on one line, that alone
would say "none of 1 lines" of 2,000 characters that the model did get.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envelopes.schema.receipt import Receipt
from envelopes.text.preview import Cut

LONG = 1_000  # characters: from there on the beginning of the line is no place to lead to
Piece = tuple[int, int]  # characters [start, end) of a text


@dataclass(frozen=True, kw_only=True)
class Begun:
    """Characters [start, end) of a text are the beginning of its line number `line`, counted from 1."""

    line: int
    start: int
    end: int


def begun_line(text: str, shown: Iterable[Piece], cut: Cut) -> Begun | None:
    """The first line that is not shown whole, where `shown` holds its beginning."""
    first = cut.gaps[0][0] if cut.gaps else -1
    for begin, end in _joined(sorted(shown)):
        start = text.rfind("\n", 0, end) + 1
        if begin <= start < end < len(text) and text.count("\n", 0, start) == first:
            return Begun(line=first + 1, start=start, end=end)
    return None


def shown_of(receipt: Receipt, pointer: str) -> list[Piece]:
    """The pieces of one recorded field that stand in a receipt."""
    return [
        (one.source.start, one.source.end)
        for one in receipt.segments
        if one.source is not None
        and (one.source.document, one.source.pointer) == ("complete", pointer)
        and one.source.start is not None
        and one.source.end is not None
    ]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    begin, reached = -1, -1
    for start, end in pieces:
        if start > reached >= 0:
            yield begin, reached
        if start > reached or reached < 0:
            begin = start
        reached = max(reached, end)
    if reached >= 0:
        yield begin, reached
