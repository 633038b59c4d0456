"""Finds the lines of outputs that later steps of the same run quote. It needs no model and no verdicts of people.

    walk(steps)      the features of each output that a later argument or message of the model contains first
    build_items      those features as items: minimal sets of carrier pieces, one of which a receipt must keep
    keeps            True when a receipt's text contains one of the carriers whole

A step is what a run has in order: what the user wrote, what the model wrote, the arguments of a call, its output. A
feature of a line is the whole line (20 characters and 3 tokens or more), each 8 tokens in a row (24 characters or
more), and each identifier or path of 12 characters or more. Output i is credited with a feature where nothing before
it had it, and no other output showed it before its first use. Reasoning is no step: callers leave it out.

A missing item proves nothing: errors, passes and absences are acted on and not quoted. So a call without an item has
no recall, and the measure is a mean over many calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from envelopes.recall.baselines import OutputPiece, split_pieces
from envelopes.text.untrusted_json import dump_json

StepKind = Literal["user", "assistant", "call", "output"]

LINE_CHARACTERS, LINE_TOKENS = 20, 3
SHINGLE_TOKENS, SHINGLE_CHARACTERS = 8, 24
NAME_CHARACTERS = 12
MOST_CARRIERS = 3  # pieces; a feature on more of them says nothing about one

_TOKEN = re.compile(r"\w+|[^\w\s]")
_NAME = re.compile(r"\w[\w./-]{10,}\w")
_IS_NAME = re.compile(r"[_/.]|[a-z][A-Z]|[A-Za-z][0-9]|[0-9][A-Za-z]")
_LETTER = re.compile(r"[A-Za-z]")


class RunStep(NamedTuple):
    """One step of a run. `text` of a call are its arguments' strings, a line each or more.

    `is_scored` is false for outputs that are read but not credited: lists of names, echoes, receipts that were cut.
    """

    kind: StepKind
    key: str
    text: str
    is_scored: bool = True


class ItemUse(NamedTuple):
    """A feature (its hash in this process) of output `output`, the pieces that carry it, and the step that used it.

    Outputs and steps are indexes into the steps of the run.
    """

    output: int
    feature: int
    carriers: tuple[int, ...]
    used_by: int


class UsedItem(NamedTuple):
    """Pieces of an output of which a receipt must keep one, and the first step that quoted them."""

    carriers: tuple[int, ...]
    used_by: int


def walk(steps: Sequence[RunStep], *, cwd: str = "") -> Iterator[ItemUse]:
    """The uses of one run, in the order of the steps that use them."""
    seen: set[int] = set()
    unused: dict[int, tuple[int, tuple[int, ...]]] = {}
    for index, step in enumerate(steps):
        if step.kind == "output":
            carriers = _find_carriers(split_pieces(step.text, cwd))
            for feature in carriers.keys() & seen:  # shown before, or not its own: no output can be credited now
                unused.pop(feature, None)
            if step.is_scored:
                new = ((feature, tuple(places)) for feature, places in carriers.items() if feature not in seen)
                unused.update((feature, (index, places)) for feature, places in new if len(places) <= MOST_CARRIERS)
            seen.update(carriers)
            continue
        features = find_features(step.text, cwd)
        if step.kind != "user":
            for feature in features & unused.keys():
                output, places = unused.pop(feature)
                yield ItemUse(output, feature, places, index)
        seen |= features


def find_unprompted(steps: Iterable[RunStep], among: Collection[int], *, cwd: str = "") -> set[int]:
    """The features in `among` that the model wrote in this run before anything showed them: a stop list for others."""
    seen: set[int] = set()
    unprompted: set[int] = set()
    wanted = frozenset(among)
    for step in steps:
        features = wanted & find_features(step.text, cwd)
        if step.kind in ("assistant", "call"):
            unprompted |= features - seen
        seen |= features
    return unprompted


def build_items(uses: Iterable[ItemUse], stopped: Collection[int] = ()) -> Mapping[int, tuple[UsedItem, ...]]:
    """The items by output: the carrier sets that contain no other, each with its first use. `stopped` are features.

    Carriers ascend and are MOST_CARRIERS at most, so their parts are looked up: an output may have thousands of items.
    """
    first_use: dict[int, dict[tuple[int, ...], int]] = {}
    for use in uses:
        if use.feature not in stopped:
            by_carriers = first_use.setdefault(use.output, {})
            by_carriers[use.carriers] = min(use.used_by, by_carriers.get(use.carriers, use.used_by))
    return {
        output: tuple(
            UsedItem(carriers, by_carriers[carriers])
            for carriers in sorted(by_carriers)
            if not any(part in by_carriers for size in range(1, len(carriers)) for part in combinations(carriers, size))
        )
        for output, by_carriers in first_use.items()
    }


def keeps(receipt: str, carriers: Iterable[OutputPiece], *, cwd: str = "") -> bool:
    """True when the text has one of the pieces whole, in any white space; also within a string of JSON."""
    if cwd:
        receipt = receipt.replace(f"{cwd.rstrip('/')}/", "")
    plain = " ".join(receipt.split())
    in_strings = " ".join(receipt.replace("\\t", " ").replace("\\n", " ").split()) if "\\" in receipt else plain
    return any(piece.text in plain or dump_json(piece.text).decode()[1:-1] in in_strings for piece in carriers)


def collect_strings(value: object) -> Iterator[str]:
    """The strings within decoded JSON, member names left out, in its order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from collect_strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from collect_strings(member)


def find_features(text: str, cwd: str = "") -> set[int]:
    return {feature for piece in split_pieces(text, cwd) for feature in _features(piece.text)}


def _find_carriers(pieces: Iterable[OutputPiece]) -> dict[int, list[int]]:
    carriers: dict[int, list[int]] = {}
    for number, piece in enumerate(pieces):
        for feature in set(_features(piece.text)):
            carriers.setdefault(feature, []).append(number)
    return carriers


def _features(text: str) -> Iterator[int]:
    """Hashes instead of texts: the shingles of a long run take ten times its size as strings."""
    tokens = _TOKEN.findall(text)
    if len(text) >= LINE_CHARACTERS and len(tokens) >= LINE_TOKENS:
        yield hash(("line", text))
    for start in range(len(tokens) - SHINGLE_TOKENS + 1):
        shingle = " ".join(tokens[start : start + SHINGLE_TOKENS])
        if len(shingle) >= SHINGLE_CHARACTERS:
            yield hash(("shingle", shingle))
    for name in _NAME.findall(text):
        if len(name) >= NAME_CHARACTERS and _LETTER.search(name) and _IS_NAME.search(name):
            yield hash(("name", name))
