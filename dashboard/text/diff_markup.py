"""A difference as rows: changed lines with some equal ones around them, and changed words marked.

Changes without a visible shape are drawn: white space inside a change, a newline that one side lacks; `spaces` draws
all white space. A page has rows up to a weight; `next_row` is the first row of the next page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, islice, zip_longest
from typing import Literal, NamedTuple, TypeAlias

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.diff import DiffBlock, Difference, DiffPiece, diff_words, pair_lines
from dashboard.text.masks import mask_text
from dashboard.text.text_markup import escape

CONTEXT_LINES = 3  # equal lines before and after a change
PAGE_WEIGHT = 200_000  # characters of markup on one page
ROW_WEIGHT = 200  # of a row beside its text
LONGEST_LINE = 4_000  # characters of one line; the page says how many are left out
# Lines of a difference that are paired by likeness; the rest are paired in order. A number and no time, because the
# rows of a page have to be numbered as those of the page before it.
PAIRED_LINES = 8_000

DiffView: TypeAlias = Literal["side", "unified"]
RowKind: TypeAlias = Literal["same", "changed", "removed", "added", "gap"]


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    """`left_out`: characters of this line that are not shown."""

    number: int
    html: SafeString
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class DiffRow:
    """A gap is `count` equal lines that are not shown. A unified row has one side, or two equal ones."""

    kind: RowKind
    left: DiffLine | None = None
    right: DiffLine | None = None
    count: int = 0

    @property
    def line(self) -> DiffLine | None:
        """The line of a unified row."""
        return self.right or self.left

    @property
    def css_class(self) -> str:
        """The class of a unified row's cell: the line was removed, is new, or is on both sides."""
        return "was" if self.right is None else "same" if self.left else "is"


@dataclass(frozen=True, kw_only=True)
class DiffPage:
    difference: Difference
    rows: tuple[DiffRow, ...]
    first_row: int
    next_row: int | None


def build_diff_page(
    difference: Difference, view: DiffView, *, spaces: bool, start: int = 0, room: int = PAGE_WEIGHT
) -> DiffPage:
    """Rows from number `start` on, as many as `room` characters of markup hold. Rows before them are only counted."""
    renderer = _RowRenderer(difference, spaces=spaces)
    rows: list[DiffRow] = []
    next_row = None
    for index, plan in islice(enumerate(_plan_rows(difference, view)), start, None):
        if room < 0:
            next_row = index
            break
        row = renderer.row(plan)
        rows.append(row)
        room -= ROW_WEIGHT + sum(len(line.html) for line in (row.left, row.right) if line)
    return DiffPage(difference=difference, rows=tuple(rows), first_row=start, next_row=next_row)


class _RowPlan(NamedTuple):
    """A row before it is rendered: the lines that it shows or compares, of which a unified row shows one side."""

    kind: RowKind
    left: int | None = None
    right: int | None = None
    hidden: int = 0
    shows_left: bool = True
    shows_right: bool = True


def _plan_rows(difference: Difference, view: DiffView) -> Iterator[_RowPlan]:
    paired = PAIRED_LINES
    for index, block in enumerate(difference.blocks):
        if block.is_same:
            is_last = index == len(difference.blocks) - 1
            before, after = CONTEXT_LINES if index else 0, 0 if is_last else CONTEXT_LINES
            yield from _equal_rows(block, before=before, after=after)
            continue
        pairs = _pairs(difference, block, paired)
        paired = max(0, paired - len(pairs))
        if view == "side":
            for left, right in pairs:
                yield _RowPlan("removed" if right is None else "added" if left is None else "changed", left, right)
        else:  # removed lines before added ones
            yield from (_RowPlan("removed", *pair, shows_right=False) for pair in pairs if pair[0] is not None)
            yield from (_RowPlan("added", *pair, shows_left=False) for pair in pairs if pair[1] is not None)


def _equal_rows(block: DiffBlock, *, before: int, after: int) -> Iterator[_RowPlan]:
    """`before` lines behind the change before the block, `after` lines before the next change, a gap between."""
    length = block.left_end - block.left_start
    if length <= before + after + 1:
        before, after = length, 0
    for offset in range(before):
        yield _RowPlan("same", block.left_start + offset, block.right_start + offset)
    if before + after < length:
        yield _RowPlan("gap", hidden=length - before - after)
    for offset in range(length - after, length):
        yield _RowPlan("same", block.left_start + offset, block.right_start + offset)


def _pairs(difference: Difference, block: DiffBlock, most: int) -> list[tuple[int | None, int | None]]:
    """The lines of a changed block, the first `most` paired by likeness and the rest in order."""
    left = difference.left[block.left_start : block.left_end]
    right = difference.right[block.right_start : block.right_end]
    rest = zip_longest(range(most, len(left)), range(most, len(right)))
    return [
        (
            None if left_index is None else block.left_start + left_index,
            None if right_index is None else block.right_start + right_index,
        )
        for left_index, right_index in chain(pair_lines(left[:most], right[:most]), rest)
    ]


def _mask_lines(lines: list[str]) -> list[str]:
    """The lines as they may be shown; a secret may run over several."""
    text = "".join(lines)
    masked = mask_text(text)
    if masked is text:
        return lines
    ends = list(accumulate(map(len, lines)))
    return [masked[end - len(line) : end] for line, end in zip(lines, ends, strict=True)]


class _RowRenderer:
    def __init__(self, difference: Difference, *, spaces: bool) -> None:
        self._left, self._right = difference.left, difference.right
        self._spaces = spaces
        # The difference is that of the stored lines; shown are the masked ones, which are as long.
        self._shown_left, self._shown_right = _mask_lines(difference.left), _mask_lines(difference.right)

    def row(self, plan: _RowPlan) -> DiffRow:
        if plan.kind == "gap":
            return DiffRow(kind="gap", count=plan.hidden)
        if plan.kind == "same" and plan.left is not None and plan.right is not None:
            pieces = [DiffPiece(self._left[plan.left], is_changed=False)]
            return DiffRow(
                kind="same",
                left=self._line(self._shown_left, plan.left, pieces),
                right=self._line(self._shown_right, plan.right, pieces),
            )
        left, right = self._changed_lines(plan.left, plan.right)
        return DiffRow(
            kind=plan.kind, left=left if plan.shows_left else None, right=right if plan.shows_right else None
        )

    def _changed_lines(self, left: int | None, right: int | None) -> tuple[DiffLine | None, DiffLine | None]:
        if left is not None and right is not None:
            before, after = diff_words(self._left[left], self._right[right])
            return self._line(self._shown_left, left, before), self._line(self._shown_right, right, after)
        return (
            None if left is None else self._whole_line(self._left, self._shown_left, left),
            None if right is None else self._whole_line(self._right, self._shown_right, right),
        )

    def _whole_line(self, lines: list[str], shown: list[str], index: int) -> DiffLine:
        return self._line(shown, index, [DiffPiece(lines[index], is_changed=False)])

    def _line(self, shown: list[str], index: int, pieces: list[DiffPiece]) -> DiffLine:
        """`shown` are the lines of the side, masked; the pieces are of the stored line."""
        html: list[str] = []
        line, at = shown[index], 0
        for piece in pieces:
            text = line[at : min(at + len(piece.text), LONGEST_LINE)]
            at += len(piece.text)
            draws_spaces = self._spaces or (piece.is_changed and text.isspace())
            # The row is the line: its newline is drawn where it matters, and never breaks the row.
            body = escape(text if draws_spaces else text.removesuffix("\n"), spaces=draws_spaces).replace("↵\n", "↵")
            html.append(f'<mark class="word">{body}</mark>' if piece.is_changed and text else body)
        return DiffLine(number=index + 1, html=mark_safe("".join(html)), left_out=max(0, at - LONGEST_LINE))
