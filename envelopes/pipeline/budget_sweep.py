"""Measures which fields a receipt contains at each budget, by rendering it at many budgets.

A renderer decides by itself what it drops first, so nothing is computed from its source: `sweep` renders the
receipt at budgets between the smallest and the one that holds everything, closer together where a field changes
between two of them. An operator gives a budget in tokens while a policy counts characters; `find_limit` converts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from envelopes.pipeline.render import ReceiptTooLong
from envelopes.schema.receipt import Receipt
from envelopes.text.tokens import TokenCount, count_all, count_tokens

SMALLEST = 40  # characters: a smaller receipt contains nothing
COARSE = 12  # budgets that are tried first
FINE = 16  # budgets that are tried then, at most
CLOSE = 16  # characters between two budgets that need no third one between them
ATTEMPTS = 4
NEAR = 50  # one part in so many of a budget may stay unused
NEVER = 1 << 62  # tokens of a receipt that its renderer cannot write

Write: TypeAlias = Callable[[int], Receipt]  # a limit in characters -> the receipt


class Trial(msgspec.Struct, frozen=True):
    """A limit in characters at which the receipt was rendered, and the tokens of that receipt."""

    characters: int
    tokens: int


class FieldThreshold(msgspec.Struct, frozen=True):
    """A field of the whole receipt, and from which budgets on a receipt contains it.

    From `whole_from` tokens on the field is complete, from `some_from` tokens on there is some of it; both are
    tokens of receipts that were rendered.
    """

    pointer: str
    characters: int
    whole_from: int
    some_from: int


class BudgetSweep(msgspec.Struct, frozen=True):
    """`trials` by characters, ascending; the last one is the whole receipt."""

    trials: tuple[Trial, ...]
    thresholds: tuple[FieldThreshold, ...]

    @property
    def whole(self) -> Trial:
        return self.trials[-1]


def sweep(write: Write, ceiling: int) -> BudgetSweep:
    """Renders at most 29 receipts. A budget that the renderer exceeds is left out; `ceiling` raises ReceiptTooLong."""
    whole = write(ceiling)
    length = max(len(whole.text), SMALLEST + 1)
    receipts = {length: whole}
    for step in range(COARSE):
        _try(write, round(SMALLEST * (length / SMALLEST) ** (step / COARSE)), receipts)
    fields = {limit: count_field_characters(receipt) for limit, receipt in receipts.items()}
    for _ in range(FINE):
        if (limit := _widest_gap(fields, fields[length])) is None or not _try(write, limit, receipts):
            break
        fields[limit] = count_field_characters(receipts[limit])
    limits = sorted(receipts)
    counts = count_all([receipts[limit].text for limit in limits])
    trials = tuple(Trial(limit, count.count) for limit, count in zip(limits, counts, strict=True))
    return BudgetSweep(trials, tuple(_thresholds(trials, [fields[limit] for limit in limits])))


def find_limit(write: Write, tokens: int, measured: BudgetSweep) -> int:
    """A limit in characters whose receipt takes at most `tokens` and not many fewer; 0 when none does."""
    if measured.whole.tokens <= tokens:
        return measured.whole.characters
    fitting = [trial for trial in measured.trials if trial.tokens <= tokens]
    below = max(fitting, default=Trial(0, 0), key=lambda trial: trial.characters)
    above = next(trial for trial in measured.trials if trial.characters > below.characters)
    low, low_tokens, high, high_tokens = below.characters, below.tokens, above.characters, above.tokens
    for attempt in range(ATTEMPTS):
        if high - low <= max(1, tokens // NEAR) or low_tokens == tokens:
            break
        # Where the tokens should lie between the two; every other time the middle, for a renderer that goes in steps.
        part = 0.5 if attempt % 2 else (tokens - low_tokens) / max(1, high_tokens - low_tokens)
        middle = min(high - 1, max(low + 1, low + round((high - low) * part)))
        try:
            count = count_tokens(write(middle).text).count
        except ReceiptTooLong:
            count = NEVER
        if count <= tokens:
            low, low_tokens = middle, count
        else:
            high, high_tokens = middle, count
    return low


def count_field_characters(receipt: Receipt) -> dict[str, int]:
    """Characters of the receipt by canonical pointer, in the order in which the fields first appear."""
    counts: Counter[str] = Counter()
    for segment in receipt.segments:
        if segment.source is not None and segment.source.document == "canonical":
            counts[segment.source.pointer] += len(segment.text)
    return dict(counts)


def dropped_at(
    fields: Sequence[FieldThreshold], characters: dict[str, int]
) -> tuple[list[FieldThreshold], list[FieldThreshold]]:
    """The fields that a receipt with these characters does not contain, and those of which it has a part."""
    dropped = [field for field in fields if not characters.get(field.pointer)]
    shortened = [field for field in fields if 0 < characters.get(field.pointer, 0) < field.characters]
    return dropped, shortened


def apportion_tokens(pieces: list[str], whole: TokenCount) -> list[int]:
    """Tokens of each piece of a text, so that they sum up to the text's own.

    A token may cross the boundary of two pieces: each piece is counted by itself, and the difference is shared out
    by size.
    """
    counts = [count.count for count in count_all(pieces)]
    total = sum(counts)
    if not total:
        return counts
    exact = [count * whole.count / total for count in counts]
    shares = [int(share) for share in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: shares[index] - exact[index])
    for index in by_rest[: whole.count - sum(shares)]:
        shares[index] += 1
    return shares


def _try(write: Write, limit: int, receipts: dict[int, Receipt]) -> bool:
    try:
        receipts.setdefault(limit, write(limit))
    except ReceiptTooLong:
        return False
    return True


def _widest_gap(fields: dict[int, dict[str, int]], whole: dict[str, int]) -> int | None:
    """The middle of the widest gap between two limits at which the state of some field differs."""
    limits = sorted(fields)
    states = [{pointer: _state(fields[limit], pointer, size) for pointer, size in whole.items()} for limit in limits]
    gaps = [
        (high / low, (low + high) // 2)
        for low, high, before, after in zip(limits, limits[1:], states, states[1:], strict=False)
        if high - low > CLOSE and before != after
    ]
    return max(gaps)[1] if gaps else None


def _state(characters: dict[str, int], pointer: str, size: int) -> int:
    """2 for a field that is complete, 1 for a part of it, 0 for nothing."""
    count = characters.get(pointer, 0)
    return 2 if count >= size else int(count > 0)


def _thresholds(trials: tuple[Trial, ...], fields: list[dict[str, int]]) -> Iterable[FieldThreshold]:
    for pointer, characters in fields[-1].items():
        states = [_state(counts, pointer, characters) for counts in fields]
        yield FieldThreshold(pointer, characters, _tokens_from(trials, states, 2), _tokens_from(trials, states, 1))


def _tokens_from(trials: tuple[Trial, ...], states: list[int], least: int) -> int:
    """The tokens of the first trial after which the field never falls below that state again."""
    below = [index for index, state in enumerate(states) if state < least]
    return trials[below[-1] + 1 if below else 0].tokens
