"""How one receipt differs from another: lines, and words within lines that are alike.

Bounded whatever the texts hold. Equal ends are set aside first; what lies between is aligned by the longest
common sequence where that fits into memory, else cut at lines that occur once in both and aligned between
them; a stretch too long even then counts as replaced, and `is_rough` says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from rapidfuzz.distance import Indel

from envelopes.text.preview import split_lines

TABLE = 40_000_000  # lines of one side times lines of the other: the bits of the table, 5 MB
LINES = 60_000  # of each side
WORDS = 1_500  # of a line; of a longer one only equal ends are told
LONG = 16_000  # characters of a line whose words are not even looked for
ALIKE = 0.4  # two lines below that share only chance
WORD = re.compile(r"\w+|[^\S\n]+|[^\w\s]|\n")


class Block(NamedTuple):
    """Lines [left_start, left_end) became lines [right_start, right_end)."""

    left_start: int
    left_end: int
    right_start: int
    right_end: int
    is_same: bool


@dataclass(frozen=True, kw_only=True)
class Difference:
    """`uncompared`: lines of the longer side beyond what is looked at."""

    left: list[str]
    right: list[str]
    blocks: tuple[Block, ...]
    is_rough: bool
    uncompared: int

    @property
    def removed(self) -> int:
        return sum(one.left_end - one.left_start for one in self.blocks if not one.is_same)

    @property
    def added(self) -> int:
        return sum(one.right_end - one.right_start for one in self.blocks if not one.is_same)

    @property
    def is_none(self) -> bool:
        return not self.uncompared and all(one.is_same for one in self.blocks)


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    is_changed: bool


def difference(before: str, after: str) -> Difference:
    left, right = split_lines(before), split_lines(after)
    uncompared = max(0, max(len(left), len(right)) - LINES)
    left, right = left[:LINES], right[:LINES]
    numbers = dict(zip(dict.fromkeys(chain(left, right)), count(), strict=False))
    aligned = _Aligned(list(map(numbers.__getitem__, left)), list(map(numbers.__getitem__, right)))
    aligned.align(0, len(left), 0, len(right))
    return Difference(
        left=left, right=right, blocks=tuple(aligned.blocks), is_rough=aligned.is_rough, uncompared=uncompared
    )


class _Aligned:
    """Lines as numbers: equal numbers are equal lines."""

    def __init__(self, left: list[int], right: list[int]) -> None:
        self._left = left
        self._right = right
        self.blocks: list[Block] = []
        self.is_rough = False

    def align(self, left: int, left_end: int, right: int, right_end: int, *, may_split: bool = True) -> None:
        head = _equal_ends(self._left[left:left_end], self._right[right:right_end])
        tail = _equal_ends(self._left[left + head : left_end][::-1], self._right[right + head : right_end][::-1])
        self._same(left, left + head, right, right + head)
        self._align_middle(left + head, left_end - tail, right + head, right_end - tail, may_split=may_split)
        self._same(left_end - tail, left_end, right_end - tail, right_end)

    def _align_middle(self, left: int, left_end: int, right: int, right_end: int, *, may_split: bool) -> None:
        if left == left_end or right == right_end or left_end - left == right_end - right == 1:
            self._changed(left, left_end, right, right_end)
        elif (left_end - left) * (right_end - right) <= TABLE:
            self._align_exactly(left, left_end, right, right_end)
        elif may_split and (anchors := _anchors(self._left[left:left_end], self._right[right:right_end])):
            self._align_between(anchors, left, left_end, right, right_end)
        else:
            self.is_rough = True
            self._changed(left, left_end, right, right_end)

    def _align_exactly(self, left: int, left_end: int, right: int, right_end: int) -> None:
        for step in Indel.opcodes(self._left[left:left_end], self._right[right:right_end]):
            add = self._same if step.tag == "equal" else self._changed
            add(
                left + step.src_start,
                left + step.src_end,
                right + step.dest_start,
                right + step.dest_end,
            )

    def _align_between(
        self, anchors: list[tuple[int, int]], left: int, left_end: int, right: int, right_end: int
    ) -> None:
        at_left, at_right = left, right
        for one, other in [*anchors, (left_end - left, right_end - right)]:
            self.align(at_left, left + one, at_right, right + other, may_split=False)
            at_left, at_right = left + one, right + other

    def _same(self, left: int, left_end: int, right: int, right_end: int) -> None:
        self._add(Block(left, left_end, right, right_end, is_same=True))

    def _changed(self, left: int, left_end: int, right: int, right_end: int) -> None:
        self._add(Block(left, left_end, right, right_end, is_same=False))

    def _add(self, block: Block) -> None:
        """They come in order, without a gap: neighbours of one kind are one block."""
        if block.left_start == block.left_end and block.right_start == block.right_end:
            return
        if self.blocks and self.blocks[-1].is_same == block.is_same:
            before = self.blocks.pop()
            block = Block(before.left_start, block.left_end, before.right_start, block.right_end, block.is_same)
        self.blocks.append(block)


def _equal_ends(left: Sequence[object], right: Sequence[object]) -> int:
    equal = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        equal += 1
    return equal


def _anchors(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    """Lines that occur once on each side, as many as stand in the same order on both."""
    once = {line for line, times in Counter(left).items() if times == 1}
    once &= {line for line, times in Counter(right).items() if times == 1}
    places = {line: at for at, line in enumerate(right) if line in once}
    pairs = [(at, places[line]) for at, line in enumerate(left) if line in once]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, at) in enumerate(pairs):
        length = bisect_left(ends, at)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [at]
        last[length : length + 1] = [index]
    found: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def paired(left: Sequence[str], right: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """The lines of a changed block beside each other: alike ones together, each side in its order."""
    found: list[tuple[int | None, int | None]] = []
    at = other = 0
    while at < len(left) and other < len(right):
        reach = min(4, abs(len(left) - at - (len(right) - other)) + 1)
        ahead = range(other, min(len(right), other + reach)) if len(right) - other > len(left) - at else (other,)
        behind = range(at, min(len(left), at + reach)) if len(left) - at > len(right) - other else (at,)
        best = max(((one, two) for one in behind for two in ahead), key=lambda pair: _likeness(left, right, pair))
        found.extend((one, None) for one in range(at, best[0]))
        found.extend((None, two) for two in range(other, best[1]))
        found.append(best)
        at, other = best[0] + 1, best[1] + 1
    found.extend((one, None) for one in range(at, len(left)))
    found.extend((None, two) for two in range(other, len(right)))
    return found


def _likeness(left: Sequence[str], right: Sequence[str], pair: tuple[int, int]) -> float:
    return float(Indel.normalized_similarity(left[pair[0]][:200], right[pair[1]][:200]))


def words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """What of two lines changed; all of both where they have little in common."""
    if max(len(before), len(after)) > LONG:
        return _ends(before, after)
    left, right = WORD.findall(before), WORD.findall(after)
    if max(len(left), len(right)) > WORDS:
        return _ends(before, after)
    steps = Indel.opcodes(left, right)
    same = sum(len("".join(left[one.src_start : one.src_end])) for one in steps if one.tag == "equal")
    if same * 2 < ALIKE * (len(before) + len(after)):
        return [Piece(before, is_changed=True)], [Piece(after, is_changed=True)]
    return (
        _pieces(left, [(one.src_start, one.src_end, one.tag != "equal") for one in steps]),
        _pieces(right, [(one.dest_start, one.dest_end, one.tag != "equal") for one in steps]),
    )


def _pieces(line: list[str], steps: list[tuple[int, int, bool]]) -> list[Piece]:
    return [Piece("".join(line[start:end]), is_changed) for start, end, is_changed in steps if start < end]


def _ends(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    head = _common_head(before, after)
    tail = _common_head(before[head:][::-1], after[head:][::-1])
    return _between(before, head, tail), _between(after, head, tail)


def _common_head(one: str, other: str) -> int:
    """By halves, as comparing slices costs next to nothing."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _between(line: str, head: int, tail: int) -> list[Piece]:
    middle = len(line) - tail
    parts = [
        Piece(line[:head], is_changed=False),
        Piece(line[head:middle], is_changed=True),
        Piece(line[middle:], is_changed=False),
    ]
    return [part for part in parts if part.text]
