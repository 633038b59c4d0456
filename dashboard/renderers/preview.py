"""A receipt written now, under knobs, and everything that is told about it.

What a variant does at other budgets is the same however the slider stands, so it is found once and remembered
for a while; a turn of a knob writes a handful of receipts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from django.core.cache import cache

from dashboard.renderers.preview_options import RECORDED, Knobs
from dashboard.renderers.preview_source import Subject
from dashboard.text.chunks import FIRST_CHARS
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, build_diff_page
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from dashboard.variants.render_call import RenderFailed, is_cut, write_limited_receipt, write_receipt
from dashboard.variants.variant_list import OfferedVariant, find_variant
from envelopes.families.base import Family
from envelopes.lint.model import Finding, LintInput
from envelopes.lint.rules import lint
from envelopes.pipeline.budget_sweep import (
    BudgetSweep,
    Write,
    apportion_tokens,
    count_field_characters,
    dropped_at,
    find_limit,
    sweep,
)
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import JsonValue
from envelopes.schema.variant import Variant
from envelopes.text.pointer import join
from envelopes.text.tokens import TokenCount, count_tokens

ROWS_SHOWN = 80
REMEMBERED_FOR = 600  # seconds
SMALLEST_BUDGET = 16
DIFF_ROOM = 64 * 1024  # characters of markup that come with each turn of a knob; the rest is one key away


@dataclass(frozen=True, kw_only=True)
class RoleLine:
    role: str
    characters: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class FieldLine:
    """A field that the whole receipt says. `state` at this budget is whole, shortened or gone."""

    pointer: str
    characters: int
    of: int
    tokens: int
    whole_from: int
    some_from: int
    state: str


@dataclass(frozen=True, kw_only=True)
class Compared:
    """`title` is what stands on the left of the difference; `reason` why there is none."""

    title: str
    tokens: TokenCount | None = None
    page: DiffPage | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """`largest` is the slider's right end: the tokens of the whole receipt under the variant's own policy.

    `is_bounded`: a budget below that was asked for.
    """

    variant: Variant
    policy: RenderPolicy
    receipt: Receipt
    window: ReceiptWindow
    tokens: TokenCount
    largest: int
    is_bounded: bool
    roles: tuple[RoleLine, ...]
    fields: tuple[FieldLine, ...]
    fields_left: int
    gone: int
    shortened: int
    unsaid: tuple[str, ...]
    unsaid_left: int
    tried: int
    findings: tuple[Finding, ...]
    compared: Compared | None

    @property
    def characters(self) -> int:
        return len(self.receipt.text)

    @property
    def lines(self) -> int:
        return self.receipt.text.count("\n") + 1 if self.receipt.text else 0

    @property
    def is_cut(self) -> bool:
        return is_cut(self.receipt)


def preview(subject: Subject, owner: Family, knobs: Knobs, variants: tuple[OfferedVariant, ...]) -> Preview:
    """Raises RenderFailed."""
    variant = knobs.chosen.variant
    swept = _swept(subject, owner, variant, knobs.policy)
    receipt, policy = _within(subject, owner, knobs, swept)
    tokens = count_tokens(receipt.text, model=subject.model)
    said = count_field_characters(receipt)
    gone, shortened = dropped_at(swept.thresholds, said)
    told = {one.pointer for one in swept.thresholds}
    unsaid = [one for one in _leaves(subject.canonical.to_json(), "") if one not in told]
    fields = list(_fields(receipt, swept, tokens))
    return Preview(
        variant=variant,
        policy=policy,
        receipt=receipt,
        window=receipt_window(receipt, Links({}), 0, FIRST_CHARS, spaces=knobs.spaces),
        tokens=tokens,
        largest=max(swept.whole.tokens, SMALLEST_BUDGET),
        is_bounded=knobs.budget is not None and knobs.budget < swept.whole.tokens,
        roles=tuple(_roles(receipt, tokens)),
        fields=tuple(fields[:ROWS_SHOWN]),
        fields_left=max(0, len(fields) - ROWS_SHOWN),
        gone=len(gone),
        shortened=len(shortened),
        unsaid=tuple(unsaid[:ROWS_SHOWN]),
        unsaid_left=max(0, len(unsaid) - ROWS_SHOWN),
        tried=len(swept.trials),
        findings=lint(LintInput(canonical=subject.canonical, receipt=receipt, cuts=subject.cuts), owner.lint),
        compared=_compared(subject, owner, knobs, receipt, variants),
    )


def _write(subject: Subject, owner: Family, variant: Variant, policy: RenderPolicy) -> Write:
    def write(characters: int) -> Receipt:
        limited = msgspec.structs.replace(policy, characters=characters)
        return write_limited_receipt(subject.canonical, owner, variant, limited)

    return write


def _swept(subject: Subject, owner: Family, variant: Variant, policy: RenderPolicy) -> BudgetSweep:
    """What a variant writes is decided by its hash, its policy and the envelope."""
    digest = hashlib.sha256(subject.raw).hexdigest()
    key = f"sweep-{owner.name}-{variant.hash}-{policy.fingerprint}-{digest}"
    found = cache.get(key)
    if not isinstance(found, BudgetSweep):
        write_receipt(
            subject.canonical, owner, variant, policy
        )  # one that breaks its policy is told so and goes no further
        found = sweep(_write(subject, owner, variant, policy), policy.characters)
        cache.set(key, found, REMEMBERED_FOR)
    return found


def _within(subject: Subject, owner: Family, knobs: Knobs, swept: BudgetSweep) -> tuple[Receipt, RenderPolicy]:
    policy = knobs.policy
    if knobs.budget is not None and knobs.budget < swept.whole.tokens:
        limit = find_limit(_write(subject, owner, knobs.chosen.variant, policy), knobs.budget, swept)
        policy = msgspec.structs.replace(policy, characters=limit)
    return write_receipt(subject.canonical, owner, knobs.chosen.variant, policy), policy


def _roles(receipt: Receipt, tokens: TokenCount) -> Iterator[RoleLine]:
    texts: dict[str, list[str]] = {}
    for segment in receipt.segments:
        texts.setdefault(segment.role, []).append(segment.text)
    counts = apportion_tokens(["".join(found) for found in texts.values()], tokens)
    for (role, found), count in zip(texts.items(), counts, strict=True):
        yield RoleLine(role=role, characters=sum(map(len, found)), tokens=count)


def _fields(receipt: Receipt, swept: BudgetSweep, tokens: TokenCount) -> Iterator[FieldLine]:
    texts: dict[str, list[str]] = {one.pointer: [] for one in swept.thresholds}
    own: list[str] = []
    for segment in receipt.segments:
        texts.get(segment.source.pointer if segment.source else "", own).append(segment.text)
    counts = apportion_tokens(["".join(found) for found in (*texts.values(), own)], tokens)
    for fate, found, count in zip(swept.thresholds, texts.values(), counts, strict=False):
        characters = sum(map(len, found))
        yield FieldLine(
            pointer=fate.pointer,
            characters=characters,
            of=fate.characters,
            tokens=count,
            whole_from=fate.whole_from,
            some_from=fate.some_from,
            state="whole" if characters >= fate.characters else "shortened" if characters else "gone",
        )


def _leaves(value: JsonValue, pointer: str) -> Iterator[str]:
    """Pointers of what says something: no null, no empty text or list."""
    match value:
        case dict():
            for key, child in value.items():
                yield from _leaves(child, join(pointer, key))
        case list():
            for index, child in enumerate(value):
                yield from _leaves(child, join(pointer, index))
        case None | "":
            return
        case _:
            yield pointer


def _compared(
    subject: Subject, owner: Family, knobs: Knobs, receipt: Receipt, variants: tuple[OfferedVariant, ...]
) -> Compared | None:
    if not knobs.against:
        return None
    try:
        title, before, tokens = _other(subject, owner, knobs, variants)
    except RenderFailed as error:
        return Compared(title=knobs.against, reason=str(error))
    found = compute_difference(before, receipt.text)
    page = build_diff_page(found, knobs.view, spaces=knobs.spaces, start=knobs.row, room=DIFF_ROOM)
    return Compared(title=title, tokens=tokens, page=page)


def _other(
    subject: Subject, owner: Family, knobs: Knobs, variants: tuple[OfferedVariant, ...]
) -> tuple[str, str, TokenCount | None]:
    """What is compared with: the recorded receipt, or another variant under its own policy."""
    if knobs.against == RECORDED and subject.recorded is not None:
        return "the recorded receipt", subject.recorded, subject.recorded_tokens
    other = find_variant(variants, knobs.against) or variants[0]
    text = write_receipt(subject.canonical, owner, other.variant, other.variant.policy).text
    return other.variant.id, text, count_tokens(text, model=subject.model)
