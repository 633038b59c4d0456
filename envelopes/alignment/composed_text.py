"""A text that an agent put together from recorded fields, and which piece each character is from.

A receipt often shows a part of such a text: stdout and stderr joined, or lines of a file after an
edit. The aligner builds the text again, finds where the receipt shows it, and asks for the spans.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec

from envelopes.alignment.spans import Span


class ComposedPiece(msgspec.Struct, frozen=True):
    """Characters [start, end) of the string at `pointer`; a None pointer is the agent's own words."""

    pointer: str | None
    text: str
    start: int = 0


class ComposedText:
    """`text` is the pieces in order and nothing else. `spans` takes offsets into it."""

    def __init__(self, pieces: Iterable[ComposedPiece]) -> None:
        self._pieces = [piece for piece in pieces if piece.text]
        self._starts: list[int] = []
        at = 0
        for piece in self._pieces:
            self._starts.append(at)
            at += len(piece.text)
        self.text = "".join(piece.text for piece in self._pieces)

    def spans(self, at: int, start: int, end: int) -> list[Span]:
        """Characters [start, end) of `text` stand at `at` in the receipt."""
        found: list[Span] = []
        first = max(0, bisect_right(self._starts, start) - 1)
        for index in range(first, len(self._pieces)):
            begin, piece = self._starts[index], self._pieces[index]
            if begin >= end:
                break
            behind = begin + len(piece.text)
            low, high = start if start > begin else begin, end if end < behind else behind
            if piece.pointer is not None and low < high:
                offset = piece.start - begin
                found.append(Span(at + low - start, at + high - start, piece.pointer, low + offset, high + offset))
        return found
