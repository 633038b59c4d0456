"""Splits outputs into pieces, and cuts them at a budget in ways that know nothing of a tool, to compare receipts with.

    random, first, last, head+tail, bm25        each takes whole pieces while they fit

Sizes are characters; a page counts four to a token. BM25 ranks pieces by the words of a query: the arguments of the
call and the last message of the user. Part of its lead may be mechanical, because later steps share words with them.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Baseline = Literal["random", "first", "last", "head+tail", "bm25"]
BASELINES: tuple[Baseline, ...] = ("random", "first", "last", "head+tail", "bm25")

PIECE_CHARACTERS = 400  # a longer line is several pieces
BM25_K1, BM25_B = 1.2, 0.75

_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\s*(?:[^\s:]+:)?[0-9]+(?:→|\t|:)")  # `12→`, `12:`, `path:12:`
_WORD = re.compile(r"\w+")


class OutputPiece(NamedTuple):
    """A line of an output, or a part of a long one, with its white space collapsed. `line` counts from 0."""

    line: int
    text: str

    @property
    def size(self) -> int:
        """In characters, with its line feed."""
        return len(self.text) + 1


class BaselineQuery(NamedTuple):
    """`text` has the words that `bm25` looks for; the draw of `random` depends on `seed`."""

    text: str
    seed: str


def split_pieces(text: str, cwd: str = "") -> list[OutputPiece]:
    """The lines that are not empty, without reminders of the system, the working directory and line numbers."""
    if "<system-reminder>" in text:
        text = _REMINDER.sub(lambda match: "\n" * match[0].count("\n"), text)
    pieces = []
    for number, line in enumerate(text.split("\n")):
        stripped = strip_line(line, cwd)
        pieces += [
            OutputPiece(number, stripped[start : start + PIECE_CHARACTERS])
            for start in range(0, len(stripped), PIECE_CHARACTERS)
        ]
    return pieces


def strip_line(line: str, cwd: str = "") -> str:
    """The line without its number and path, relative to the working directory, with its white space collapsed."""
    if cwd:
        line = line.replace(f"{cwd.rstrip('/')}/", "")
    if numbered := _NUMBER.match(line):
        line = line[numbered.end() :]
    return " ".join(line.split())


def pick_pieces(
    pieces: Sequence[OutputPiece], baseline: Baseline, characters: int, query: BaselineQuery
) -> frozenset[int]:
    """The indexes of the pieces that a cut at this size keeps."""
    order = list(range(len(pieces)))
    match baseline:
        case "first":
            return _fill(pieces, order, characters)
        case "last":
            return _fill(pieces, reversed(order), characters)
        case "head+tail":
            head = _fill(pieces, order, characters // 2)
            return head | _fill(pieces, (index for index in reversed(order) if index not in head), characters // 2)
        case "random":
            random.Random(query.seed).shuffle(order)  # noqa: S311 - the same draw each time
            return _fill(pieces, order, characters)
        case "bm25":
            scores = score_pieces(pieces, query.text)
            return _fill(pieces, sorted(order, key=lambda index: (-scores[index], index)), characters)


def _fill(pieces: Sequence[OutputPiece], order: Iterable[int], characters: int) -> frozenset[int]:
    kept = []
    for index in order:
        characters -= pieces[index].size
        if characters < 0:
            break
        kept.append(index)
    return frozenset(kept)


def score_pieces(pieces: Sequence[OutputPiece], query: str) -> list[float]:
    """BM25 of each piece for the distinct words of the query."""
    words = [Counter(_WORD.findall(piece.text.lower())) for piece in pieces]
    wanted = set(_WORD.findall(query.lower()))
    frequency = Counter(word for counted in words for word in counted if word in wanted)
    average = sum(counted.total() for counted in words) / len(words) if words else 0.0
    weights = {
        word: math.log(1 + (len(pieces) - count + 0.5) / (count + 0.5)) for word, count in sorted(frequency.items())
    }
    scores = []
    for counted in words:
        norm = BM25_K1 * (1 - BM25_B + BM25_B * counted.total() / average) if average else BM25_K1
        terms = ((weights[word], count) for word, count in counted.items() if word in weights)
        scores.append(math.fsum(weight * count * (BM25_K1 + 1) / (count + norm) for weight, count in terms))
    return scores
