"""Computes how one text differs from another: by lines, and by words within lines that are alike.

Bounded whatever the texts contain. Equal beginnings and ends are set aside first. What lies between is aligned by the
longest common subsequence where that fits into memory, else split at lines that occur once on both sides and aligned
between them. A stretch that is too long even then counts as replaced, and `is_rough` is set.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from rapidfuzz.distance import Indel

from envelopes.text.preview import common_beginning, split_lines

LARGEST_TABLE = 40_000_000  # lines of one side times lines of the other: the bits of the table, 5 MB
MOST_LINES = 60_000  # of each side
MOST_WORDS = 1_500  # of a line; of a longer one only the equal ends are found
LONGEST_LINE = 16_000  # characters of a line that is split into words
LEAST_SIMILARITY = 0.4  # lines less alike than that share words only by chance
PAIR_REACH = 4  # lines ahead that are tried as a partner
WORD = re.compile(r"\w+|[^\S\n]+|[^\w\s]|\n")


class DiffBlock(NamedTuple):
    """Lines [left_start, left_end) became lines [right_start, right_end)."""

    left_start: int
    left_end: int
    right_start: int
    right_end: int
    is_same: bool


@dataclass(frozen=True, kw_only=True)
class Difference:
    """`uncompared`: lines of the longer side beyond those that are compared."""

    left: list[str]
    right: list[str]
    blocks: tuple[DiffBlock, ...]
    is_rough: bool
    uncompared: int

    @property
    def removed(self) -> int:
        return sum(block.left_end - block.left_start for block in self.blocks if not block.is_same)

    @property
    def added(self) -> int:
        return sum(block.right_end - block.right_start for block in self.blocks if not block.is_same)

    @property
    def is_none(self) -> bool:
        return not self.uncompared and all(block.is_same for block in self.blocks)


@dataclass(frozen=True, slots=True)
class DiffPiece:
    text: str
    is_changed: bool


def compute_difference(before: str, after: str) -> Difference:
    """The difference of two texts as blocks of lines, in order and without gaps."""
    left, right = split_lines(before), split_lines(after)
    uncompared = max(0, max(len(left), len(right)) - MOST_LINES)
    left, right = left[:MOST_LINES], right[:MOST_LINES]
    blocks, is_rough = align_items(left, right)
    return Difference(left=left, right=right, blocks=blocks, is_rough=is_rough, uncompared=uncompared)


def align_items(left: Sequence[Hashable], right: Sequence[Hashable]) -> tuple[tuple[DiffBlock, ...], bool]:
    """The blocks of two sequences, and whether a part was too long to be aligned."""
    numbers = dict(zip(dict.fromkeys(chain(left, right)), count(), strict=False))
    aligner = _Aligner(list(map(numbers.__getitem__, left)), list(map(numbers.__getitem__, right)))
    aligner.align(0, len(left), 0, len(right))
    return tuple(aligner.blocks), aligner.is_rough


class _Aligner:
    """Lines as numbers: equal numbers are equal lines."""

    def __init__(self, left: list[int], right: list[int]) -> None:
        self._left = left
        self._right = right
        self.blocks: list[DiffBlock] = []
        self.is_rough = False

    def align(self, left: int, left_end: int, right: int, right_end: int, *, may_split: bool = True) -> None:
        """Appends the blocks of left[left:left_end] and right[right:right_end]."""
        head = _equal_beginning(self._left[left:left_end], self._right[right:right_end])
        tail = _equal_beginning(self._left[left + head : left_end][::-1], self._right[right + head : right_end][::-1])
        self._add(left, left + head, right, right + head, is_same=True)
        self._align_middle(left + head, left_end - tail, right + head, right_end - tail, may_split=may_split)
        self._add(left_end - tail, left_end, right_end - tail, right_end, is_same=True)

    def _align_middle(self, left: int, left_end: int, right: int, right_end: int, *, may_split: bool) -> None:
        left_lines, right_lines = self._left[left:left_end], self._right[right:right_end]
        if not left_lines or not right_lines or len(left_lines) == len(right_lines) == 1:
            self._add(left, left_end, right, right_end, is_same=False)
        elif len(left_lines) * len(right_lines) <= LARGEST_TABLE:
            for step in Indel.opcodes(left_lines, right_lines):
                self._add(
                    left + step.src_start,
                    left + step.src_end,
                    right + step.dest_start,
                    right + step.dest_end,
                    is_same=step.tag == "equal",
                )
        elif may_split and (anchors := _find_anchors(left_lines, right_lines)):
            at_left, at_right = left, right
            for left_anchor, right_anchor in [*anchors, (len(left_lines), len(right_lines))]:
                self.align(at_left, left + left_anchor, at_right, right + right_anchor, may_split=False)
                at_left, at_right = left + left_anchor, right + right_anchor
        else:
            self.is_rough = True
            self._add(left, left_end, right, right_end, is_same=False)

    def _add(self, left: int, left_end: int, right: int, right_end: int, *, is_same: bool) -> None:
        """Blocks come in order and without gaps: neighbours of one kind become one block."""
        if left == left_end and right == right_end:
            return
        if self.blocks and self.blocks[-1].is_same == is_same:
            previous = self.blocks.pop()
            left, right = previous.left_start, previous.right_start
        self.blocks.append(DiffBlock(left, left_end, right, right_end, is_same))


def _equal_beginning(left: Sequence[object], right: Sequence[object]) -> int:
    equal = 0
    for before, after in zip(left, right, strict=False):
        if before != after:
            break
        equal += 1
    return equal


def _find_anchors(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Positions of lines that occur once on each side, as many as are in the same order on both.

    That is the longest increasing subsequence of their positions on the right, as in a patience diff.
    """
    unique = {line for line, times in Counter(left).items() if times == 1}
    unique &= {line for line, times in Counter(right).items() if times == 1}
    positions = {line: index for index, line in enumerate(right) if line in unique}
    pairs = [(index, positions[line]) for index, line in enumerate(left) if line in unique]
    ends: list[int] = []  # the smallest last position of a subsequence of each length
    last: list[int] = []  # the pair at that position
    previous: list[int] = []  # the pair before each pair in its subsequence
    for index, (_, position) in enumerate(pairs):
        length = bisect_left(ends, position)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [position]
        last[length : length + 1] = [index]
    anchors: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        anchors.append(pairs[index])
        index = previous[index]
    return anchors[::-1]


def pair_lines(left: Sequence[str], right: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Pairs alike lines of a changed block, each side in its order; None is a missing partner."""
    pairs: list[tuple[int | None, int | None]] = []
    at_left = at_right = 0
    while at_left < len(left) and at_right < len(right):
        left_rest, right_rest = len(left) - at_left, len(right) - at_right
        reach = min(PAIR_REACH, abs(left_rest - right_rest) + 1)
        # Only the longer side may skip lines.
        left_ahead = range(at_left, min(len(left), at_left + reach)) if left_rest > right_rest else (at_left,)
        right_ahead = range(at_right, min(len(right), at_right + reach)) if right_rest > left_rest else (at_right,)
        best = max(
            ((left_index, right_index) for left_index in left_ahead for right_index in right_ahead),
            key=lambda pair: Indel.normalized_similarity(left[pair[0]][:200], right[pair[1]][:200]),
        )
        pairs.extend((index, None) for index in range(at_left, best[0]))
        pairs.extend((None, index) for index in range(at_right, best[1]))
        pairs.append(best)
        at_left, at_right = best[0] + 1, best[1] + 1
    pairs.extend((index, None) for index in range(at_left, len(left)))
    pairs.extend((None, index) for index in range(at_right, len(right)))
    return pairs


def diff_words(before: str, after: str) -> tuple[list[DiffPiece], list[DiffPiece]]:
    """The changed pieces of two lines; all of both lines where they have little in common."""
    left, right = [], []
    if max(len(before), len(after)) <= LONGEST_LINE:
        left, right = WORD.findall(before), WORD.findall(after)
    if max(len(before), len(after)) > LONGEST_LINE or max(len(left), len(right)) > MOST_WORDS:
        return _diff_ends(before, after)
    steps = Indel.opcodes(left, right)
    same = sum(len("".join(left[step.src_start : step.src_end])) for step in steps if step.tag == "equal")
    if same * 2 < LEAST_SIMILARITY * (len(before) + len(after)):
        return [DiffPiece(before, is_changed=True)], [DiffPiece(after, is_changed=True)]
    return (
        _pieces(left, [(step.src_start, step.src_end, step.tag != "equal") for step in steps]),
        _pieces(right, [(step.dest_start, step.dest_end, step.tag != "equal") for step in steps]),
    )


def _pieces(words: list[str], steps: list[tuple[int, int, bool]]) -> list[DiffPiece]:
    return [DiffPiece("".join(words[start:end]), is_changed) for start, end, is_changed in steps if start < end]


def _diff_ends(before: str, after: str) -> tuple[list[DiffPiece], list[DiffPiece]]:
    """Two long lines without their equal ends."""
    head = common_beginning(before, after)
    tail = common_beginning(before[head:][::-1], after[head:][::-1])
    return _middle_changed(before, head, tail), _middle_changed(after, head, tail)


def _middle_changed(line: str, head: int, tail: int) -> list[DiffPiece]:
    end = len(line) - tail
    pieces = [DiffPiece(line[:head], is_changed=False), DiffPiece(line[head:end], is_changed=True)]
    pieces.append(DiffPiece(line[end:], is_changed=False))
    return [piece for piece in pieces if piece.text]
