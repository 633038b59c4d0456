"""Which fields a receipt says at each budget, found by writing it at many budgets and looking.

A renderer decides by itself what gives way first, so nothing is computed from its source: `sweep`
writes the receipt at budgets between the smallest and the one that holds everything, closer together
where a field changes between two of them. A budget is given in tokens and set in characters, since a
policy counts characters; `within_tokens` finds the one from the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from envelopes.pipeline.render import ReceiptTooLong
from envelopes.schema.receipt import Receipt
from envelopes.text.tokens import TokenCount, count_all, count_tokens

SMALLEST = 40  # characters: below that nothing is said
COARSE = 12
FINE = 16
CLOSE = 16  # characters between two budgets that need no third one between them
ATTEMPTS = 4
NEAR = 50  # the part of a budget that may stay unused

Write: TypeAlias = Callable[[int], Receipt]  # a ceiling in characters -> the receipt


class Trial(msgspec.Struct, frozen=True):
    """A ceiling in characters at which the receipt was written, and the tokens that it took."""

    characters: int
    tokens: int


class FieldThreshold(msgspec.Struct, frozen=True):
    """A field that the whole receipt says. The budgets are in tokens, of receipts that were written.

    `whole_from`: from there on up the field stands whole. `some_from`: from there on up some of it stands.
    """

    pointer: str
    characters: int
    whole_from: int
    some_from: int


class BudgetSweep(msgspec.Struct, frozen=True):
    """`tried` by characters, ascending; the last one is the whole receipt."""

    tried: tuple[Trial, ...]
    fates: tuple[FieldThreshold, ...]

    @property
    def whole(self) -> Trial:
        return self.tried[-1]


def count_field_characters(receipt: Receipt) -> dict[str, int]:
    """Characters by canonical pointer, in the order in which they first stand there."""
    counts: Counter[str] = Counter()
    for segment in receipt.segments:
        if segment.source is not None and segment.source.document == "canonical":
            counts[segment.source.pointer] += len(segment.text)
    return dict(counts)


def sweep(write: Write, ceiling: int) -> BudgetSweep:
    """Raises what the renderer raises at `ceiling`; a smaller budget that it breaks is left out."""
    whole = write(ceiling)
    length = max(len(whole.text), SMALLEST + 1)
    receipts = {length: whole}
    for step in range(COARSE):
        _try(write, round(SMALLEST * (length / SMALLEST) ** (step / COARSE)), receipts)
    said = {limit: count_field_characters(one) for limit, one in receipts.items()}
    for _ in range(FINE):
        if (limit := _between(said, count_field_characters(whole))) is None or not _try(write, limit, receipts):
            break
        said[limit] = count_field_characters(receipts[limit])
    tried = _counted(receipts)
    return BudgetSweep(tried, tuple(_fates(tried, [said[one.characters] for one in tried])))


def find_limit(write: Write, tokens: int, found: BudgetSweep) -> int:
    """A ceiling in characters whose receipt takes at most `tokens` and not many fewer; 0 when none does."""
    if found.whole.tokens <= tokens:
        return found.whole.characters
    below = max((one for one in found.tried if one.tokens <= tokens), default=Trial(0, 0), key=_size)
    above = next(one for one in found.tried if one.characters > below.characters)
    low, low_tokens, high, high_tokens = below.characters, below.tokens, above.characters, above.tokens
    for attempt in range(ATTEMPTS):
        if high - low <= max(1, tokens // NEAR) or low_tokens == tokens:
            break
        # Where the tokens should lie between the two; every other time the middle, for a renderer that goes in steps.
        part = 0.5 if attempt % 2 else (tokens - low_tokens) / max(1, high_tokens - low_tokens)
        middle = min(high - 1, max(low + 1, low + round((high - low) * part)))
        count = _tokens(write, middle)
        if count <= tokens:
            low, low_tokens = middle, count
        else:
            high, high_tokens = middle, count
    return low


def dropped_at(
    whole: Iterable[FieldThreshold], said: dict[str, int]
) -> tuple[list[FieldThreshold], list[FieldThreshold]]:
    """The fields that are gone from a receipt, and those of which a part is."""
    gone = [one for one in whole if not said.get(one.pointer)]
    shortened = [one for one in whole if 0 < said.get(one.pointer, 0) < one.characters]
    return gone, shortened


def apportion_tokens(pieces: list[str], whole: TokenCount) -> list[int]:
    """Tokens of each piece of a text, so that they sum up to the text's own.

    A token may reach over the seam of two pieces: each piece is counted by itself, and the difference is
    shared out by size.
    """
    counts = [one.count for one in count_all(pieces)]
    total = sum(counts)
    if not total:
        return counts
    exact = [count * whole.count / total for count in counts]
    shares = [int(one) for one in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: shares[index] - exact[index])
    for index in by_rest[: whole.count - sum(shares)]:
        shares[index] += 1
    return shares


def _size(one: Trial) -> int:
    return one.characters


def _try(write: Write, limit: int, receipts: dict[int, Receipt]) -> bool:
    try:
        receipts.setdefault(limit, write(limit))
    except ReceiptTooLong:
        return False
    return True


def _between(said: dict[int, dict[str, int]], whole: dict[str, int]) -> int | None:
    """The middle of the widest gap between two budgets at which some field stands differently."""
    limits = sorted(said)
    states = [{pointer: _state(said[limit], pointer, size) for pointer, size in whole.items()} for limit in limits]
    gaps = [
        (high / low, (low + high) // 2)
        for low, high, before, after in zip(limits, limits[1:], states, states[1:], strict=False)
        if high - low > CLOSE and before != after
    ]
    return max(gaps)[1] if gaps else None


def _state(said: dict[str, int], pointer: str, size: int) -> int:
    found = said.get(pointer, 0)
    return 2 if found >= size else int(found > 0)


def _counted(receipts: dict[int, Receipt]) -> tuple[Trial, ...]:
    limits = sorted(receipts)
    counts = count_all([receipts[limit].text for limit in limits])
    return tuple(Trial(limit, count.count) for limit, count in zip(limits, counts, strict=True))


def _fates(tried: tuple[Trial, ...], said: list[dict[str, int]]) -> Iterable[FieldThreshold]:
    for pointer, characters in said[-1].items():
        states = [_state(one, pointer, characters) for one in said]
        yield FieldThreshold(pointer, characters, _from(tried, states, 2), _from(tried, states, 1))


def _from(tried: tuple[Trial, ...], states: list[int], least: int) -> int:
    """The tokens of the first budget from which on the field never falls below that state again."""
    below = [index for index, state in enumerate(states) if state < least]
    return tried[below[-1] + 1 if below else 0].tokens


def _tokens(write: Write, limit: int) -> int:
    try:
        return count_tokens(write(limit).text).count
    except ReceiptTooLong:
        return 1 << 62
