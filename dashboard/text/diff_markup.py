"""A difference as rows to be read: changed lines with some equal ones around them, changed words marked.

What changed and has no shape is drawn: white space inside a change, a newline that one side lacks. `spaces`
draws all of it. A page carries rows up to a weight; the rest begins at `next_row` of the following one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Literal, TypeAlias

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.diff import Block, Difference, Piece, paired, words
from dashboard.text.text_markup import escape

AROUND = 3  # equal lines before and after a change
ROOM = 200_000  # characters of markup on one page
ROW = 200  # of those, what a row takes beside its text
LINE = 4_000  # characters of one line; more is said, never left out in silence
PAIRED = 2_000  # lines of a changed block that are laid beside each other by likeness

View: TypeAlias = Literal["side", "unified"]
Kind: TypeAlias = Literal["same", "changed", "removed", "added", "gap"]


@dataclass(frozen=True, kw_only=True)
class Side:
    number: int
    html: SafeString
    left_out: int = 0  # characters of this line that are not shown


@dataclass(frozen=True, kw_only=True)
class Row:
    """`gap`: `count` equal lines that are not shown. A unified row has one side, or two equal ones."""

    kind: Kind
    left: Side | None = None
    right: Side | None = None
    count: int = 0

    @property
    def is_gap(self) -> bool:
        return self.kind == "gap"

    @property
    def gap(self) -> str:
        return f"{self.count:,} equal line{'' if self.count == 1 else 's'}"

    @property
    def is_line(self) -> bool:
        return self.kind != "gap"

    @property
    def is_added(self) -> bool:
        return self.left is None

    @property
    def is_removed(self) -> bool:
        return self.right is None

    @property
    def one(self) -> Side | None:
        """The line of a unified row."""
        return self.right or self.left

    @property
    def means(self) -> str:
        """Of a unified row: it stood there, it stands there now, or both."""
        return "was" if self.right is None else "same" if self.left else "is"


@dataclass(frozen=True, kw_only=True)
class DiffPage:
    difference: Difference
    rows: tuple[Row, ...]
    first_row: int
    next_row: int | None


def diff_page(found: Difference, view: View, *, spaces: bool, start: int = 0, room: int = ROOM) -> DiffPage:
    rows: list[Row] = []
    next_row = None
    drawn = _rows(found, view, spaces=spaces)
    for index, row in islice(enumerate(drawn), start, None):
        if room < 0:
            next_row = index
            break
        rows.append(row)
        room -= ROW + sum(len(side.html) for side in (row.left, row.right) if side)
    return DiffPage(difference=found, rows=tuple(rows), first_row=start, next_row=next_row)


def _rows(found: Difference, view: View, *, spaces: bool) -> Iterator[Row]:
    drawn = _Drawn(found, spaces=spaces)
    for index, block in enumerate(found.blocks):
        if block.is_same:
            is_last = index == len(found.blocks) - 1
            yield from drawn.equal(block, before=AROUND if index else 0, after=0 if is_last else AROUND)
        elif view == "side":
            yield from drawn.beside(block)
        else:
            yield from drawn.unified(block)


class _Drawn:
    def __init__(self, found: Difference, *, spaces: bool) -> None:
        self._found = found
        self._spaces = spaces

    def equal(self, block: Block, *, before: int, after: int) -> Iterator[Row]:
        """`before` lines after the change before it, `after` lines before the next one, a gap between them."""
        length = block.left_end - block.left_start
        if length <= before + after + 1:
            before, after = length, 0
        for offset in range(before):
            yield self._equal_row(block, offset)
        if before + after < length:
            yield Row(kind="gap", count=length - before - after)
        for offset in range(length - after, length):
            yield self._equal_row(block, offset)

    def _equal_row(self, block: Block, offset: int) -> Row:
        pieces = [Piece(self._found.left[block.left_start + offset], is_changed=False)]
        return Row(
            kind="same",
            left=self._side(block.left_start + offset, pieces),
            right=self._side(block.right_start + offset, pieces),
        )

    def beside(self, block: Block) -> Iterator[Row]:
        for one, other in self._pairs(block):
            left, right = self._worded(one, other)
            kind: Kind = "changed" if left and right else "removed" if left else "added"
            yield Row(kind=kind, left=left, right=right)

    def unified(self, block: Block) -> Iterator[Row]:
        """What goes before what comes; twice through the pairs, as holding the rows would hold the whole block."""
        pairs = list(self._pairs(block))
        for one, other in pairs:
            if one is not None:
                yield Row(kind="removed", left=self._worded(one, other)[0])
        for one, other in pairs:
            if other is not None:
                yield Row(kind="added", right=self._worded(one, other)[1])

    def _pairs(self, block: Block) -> Iterable[tuple[int | None, int | None]]:
        left = self._found.left[block.left_start : block.left_end]
        right = self._found.right[block.right_start : block.right_end]
        rest = zip_longest(range(PAIRED, len(left)), range(PAIRED, len(right)))
        for one, other in chain(paired(left[:PAIRED], right[:PAIRED]), rest):
            yield (
                None if one is None else block.left_start + one,
                None if other is None else block.right_start + other,
            )

    def _worded(self, one: int | None, other: int | None) -> tuple[Side | None, Side | None]:
        if one is None or other is None:
            left = None if one is None else self._side(one, [Piece(self._found.left[one], is_changed=False)])
            right = None if other is None else self._side(other, [Piece(self._found.right[other], is_changed=False)])
            return left, right
        before, after = words(self._found.left[one], self._found.right[other])
        return self._side(one, before), self._side(other, after)

    def _side(self, index: int, pieces: list[Piece]) -> Side:
        shown: list[str] = []
        room = LINE
        for piece in pieces:
            shown.append(self._piece(Piece(piece.text[: max(0, room)], piece.is_changed)))
            room -= len(piece.text)
        return Side(number=index + 1, html=mark_safe("".join(shown)), left_out=max(0, -room))

    def _piece(self, piece: Piece) -> str:
        drawn = self._spaces or (piece.is_changed and piece.text.isspace())
        # The row is the line: its newline is drawn where it matters, and never breaks the row.
        body = escape(piece.text if drawn else piece.text.removesuffix("\n"), spaces=drawn).replace("↵\n", "↵")
        return f'<mark class="word">{body}</mark>' if piece.is_changed and piece.text else body
