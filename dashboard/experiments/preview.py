"""A receipt rendered now under an operator's options, and what it contains: roles, fields, findings, differences.

The options are in the address:

    variant=receipt   budget=800 of=950 (tokens; without a budget, or with all there are: the variant's own policy)
    head=50   cut=lines|characters
    against=recorded|<variant>   view=side|unified   spaces=1   row=0

The variant is measured at many budgets once, and the result is cached for a while: it does not depend on the budget
that is chosen, so a change of an option renders a handful of receipts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from django.core.cache import cache

from dashboard.experiments.preview_source import PreviewSource
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, DiffView, build_diff_page
from dashboard.text.params import Params
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS
from dashboard.variants.render_call import RenderFailed, is_cut, write_limited_receipt, write_receipt
from dashboard.variants.variant_list import RECORDED, OfferedVariant, find_variant
from envelopes.families.base import Family
from envelopes.lint.model import Finding, LintInput, Shortened
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
from envelopes.schema.budget import CutAt, RenderPolicy
from envelopes.schema.receipt import Receipt, Variant
from envelopes.text.pointer import iterate_scalars
from envelopes.text.tokens import TokenCount, count_tokens

MOST_TOKENS = 1_000_000
FIELDS_SHOWN = 80
SWEEP_CACHE_SECONDS = 600
SMALLEST_BUDGET = 16  # tokens
DIFF_MARKUP_CHARACTERS = 64 * 1024  # of the first rows of a difference; a key loads more
NOTHING = "none"  # of `against`: no difference is shown


@dataclass(frozen=True, kw_only=True)
class PreviewOptions:
    """`budget` is None under the variant's own policy; `against` is empty where no difference is shown."""

    chosen: OfferedVariant
    budget: int | None
    head_share: int
    cut_at: CutAt
    against: str
    view: DiffView
    spaces: bool
    row: int
    problems: tuple[str, ...]

    @property
    def policy(self) -> RenderPolicy:
        own = self.chosen.variant.policy
        return msgspec.structs.replace(own, head_share=self.head_share, cut_at=self.cut_at)


def read_options(
    query: Mapping[str, str], variants: tuple[OfferedVariant, ...], *, has_recorded: bool
) -> PreviewOptions:
    """`variants` are those of the family, the default first."""
    params = Params(query)
    keys = [variant.key for variant in variants]
    key = params.text("variant", default=keys[0])
    chosen = find_variant(variants, key)
    if chosen is None:
        params.problems.append(f"variant={key[:60]} is not a variant of this family, which has {', '.join(keys)}")
        chosen = variants[0]
    own = chosen.variant.policy
    references = [*([RECORDED] if has_recorded else []), NOTHING, *keys]
    against = params.choice("against", references, default=references[0])
    # A slider at its right end asks for everything, also of the next variant, whose `of` is another number.
    budget = params.integer("budget", default=MOST_TOKENS, least=1, most=MOST_TOKENS)
    whole = params.integer("of", default=MOST_TOKENS, least=1, most=MOST_TOKENS)
    cut_at: CutAt = params.choice("cut", ("lines", "characters"), default=own.cut_at)
    view: DiffView = params.choice("view", ("side", "unified"), default="side")
    return PreviewOptions(
        chosen=chosen,
        budget=budget if budget < whole else None,
        head_share=params.integer("head", default=own.head_share, most=100),
        cut_at=cut_at,
        against="" if against == NOTHING else against,
        view=view,
        spaces=params.flag("spaces"),
        row=params.integer("row", default=0),
        problems=tuple(params.problems),
    )


@dataclass(frozen=True, kw_only=True)
class RoleLine:
    role: str
    characters: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class FieldLine:
    """A field that the whole receipt contains, with what of it this receipt contains.

    From budgets of `whole_from` tokens on it is complete, below `some_from` it is dropped. `state` at this budget is
    complete, shortened or dropped.
    """

    pointer: str
    characters: int
    total: int
    tokens: int
    whole_from: int
    some_from: int
    state: str


@dataclass(frozen=True, kw_only=True)
class PreviewDifference:
    """`title` names the text on the left; `reason` says why there is no difference."""

    title: str
    tokens: TokenCount | None = None
    page: DiffPage | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class ReceiptPreview:
    """`largest` is the right end of the slider: the tokens of the receipt under the variant's own policy.

    `is_bounded` is true for a budget below that. `omitted` are fields of the result that the variant never writes.
    """

    variant: Variant
    policy: RenderPolicy
    receipt: Receipt
    cuts: tuple[Shortened, ...]
    window: ReceiptChunk
    tokens: TokenCount
    largest: int
    is_bounded: bool
    roles: tuple[RoleLine, ...]
    fields: tuple[FieldLine, ...]
    fields_unlisted: int
    dropped: int
    shortened: int
    omitted: tuple[str, ...]
    omitted_unlisted: int
    trials: int
    findings: tuple[Finding, ...]
    difference: PreviewDifference | None

    @property
    def characters(self) -> int:
        return len(self.receipt.text)

    @property
    def lines(self) -> int:
        return self.receipt.text.count("\n") + 1 if self.receipt.text else 0

    @property
    def is_cut(self) -> bool:
        return is_cut(self.receipt, self.cuts)


def render_preview(
    source: PreviewSource, owner: Family, options: PreviewOptions, variants: tuple[OfferedVariant, ...]
) -> ReceiptPreview:
    """Raises RenderFailed."""
    variant, policy = options.chosen.variant, options.policy
    measured = _sweep_budgets(source, owner, variant, policy)
    is_bounded = options.budget is not None and options.budget < measured.whole.tokens
    if options.budget is not None and is_bounded:
        limit = find_limit(_limited_writer(source, owner, variant, policy), options.budget, measured)
        policy = msgspec.structs.replace(policy, characters=limit)
    receipt = write_receipt(source.canonical, owner, variant, policy)
    tokens = count_tokens(receipt.text, model=source.model)
    dropped, shortened = dropped_at(measured.thresholds, count_field_characters(receipt))
    written = {threshold.pointer for threshold in measured.thresholds}
    scalars = iterate_scalars(source.canonical.to_json())  # a receipt has no null and no empty text
    omitted = [pointer for pointer, value in scalars if value is not None and value != "" and pointer not in written]
    fields = list(_field_lines(receipt, measured, tokens))
    return ReceiptPreview(
        variant=variant,
        policy=policy,
        receipt=receipt,
        cuts=source.cuts,
        window=receipt_chunk(receipt, FieldLinks({}), 0, FIRST_CHARS, spaces=options.spaces),
        tokens=tokens,
        largest=max(measured.whole.tokens, SMALLEST_BUDGET),
        is_bounded=is_bounded,
        roles=tuple(_role_lines(receipt, tokens)),
        fields=tuple(fields[:FIELDS_SHOWN]),
        fields_unlisted=max(0, len(fields) - FIELDS_SHOWN),
        dropped=len(dropped),
        shortened=len(shortened),
        omitted=tuple(omitted[:FIELDS_SHOWN]),
        omitted_unlisted=max(0, len(omitted) - FIELDS_SHOWN),
        trials=len(measured.trials),
        findings=lint(LintInput(canonical=source.canonical, receipt=receipt, cuts=source.cuts), owner.lint),
        difference=_compute_difference(source, owner, options, receipt, variants),
    )


def _limited_writer(source: PreviewSource, owner: Family, variant: Variant, policy: RenderPolicy) -> Write:
    def write(characters: int) -> Receipt:
        limited = msgspec.structs.replace(policy, characters=characters)
        return write_limited_receipt(source.canonical, owner, variant, limited)

    return write


def _sweep_budgets(source: PreviewSource, owner: Family, variant: Variant, policy: RenderPolicy) -> BudgetSweep:
    """Cached by the variant's hash, its policy and the envelope, which decide every receipt."""
    digest = hashlib.sha256(source.raw).hexdigest()
    key = f"sweep-{owner.name}-{variant.hash}-{policy.fingerprint}-{digest}"
    measured = cache.get(key)
    if not isinstance(measured, BudgetSweep):
        write_receipt(source.canonical, owner, variant, policy)  # a variant that exceeds its policy fails here
        measured = sweep(_limited_writer(source, owner, variant, policy), policy.characters)
        cache.set(key, measured, SWEEP_CACHE_SECONDS)
    return measured


def _role_lines(receipt: Receipt, tokens: TokenCount) -> Iterator[RoleLine]:
    texts: dict[str, list[str]] = {}
    for segment in receipt.segments:
        texts.setdefault(segment.role, []).append(segment.text)
    counts = apportion_tokens(["".join(parts) for parts in texts.values()], tokens)
    for (role, parts), count in zip(texts.items(), counts, strict=True):
        yield RoleLine(role=role, characters=sum(map(len, parts)), tokens=count)


def _field_lines(receipt: Receipt, measured: BudgetSweep, tokens: TokenCount) -> Iterator[FieldLine]:
    texts: dict[str, list[str]] = {threshold.pointer: [] for threshold in measured.thresholds}
    unlinked: list[str] = []
    for segment in receipt.segments:
        texts.get(segment.source.pointer if segment.source else "", unlinked).append(segment.text)
    counts = apportion_tokens(["".join(parts) for parts in (*texts.values(), unlinked)], tokens)
    for threshold, parts, count in zip(measured.thresholds, texts.values(), counts, strict=False):
        characters = sum(map(len, parts))
        is_complete = characters >= threshold.characters
        yield FieldLine(
            pointer=threshold.pointer,
            characters=characters,
            total=threshold.characters,
            tokens=count,
            whole_from=threshold.whole_from,
            some_from=threshold.some_from,
            state="complete" if is_complete else "shortened" if characters else "dropped",
        )


def _compute_difference(
    source: PreviewSource,
    owner: Family,
    options: PreviewOptions,
    receipt: Receipt,
    variants: tuple[OfferedVariant, ...],
) -> PreviewDifference | None:
    """The difference to the recorded receipt, or to another variant under its own policy; None where none is wanted."""
    if not options.against:
        return None
    if options.against == RECORDED and source.recorded is not None:
        title, before, tokens = "the recorded receipt", source.recorded, source.recorded_tokens
    else:
        other = (find_variant(variants, options.against) or variants[0]).variant
        try:
            before = write_receipt(source.canonical, owner, other, other.policy).text
        except RenderFailed as error:
            return PreviewDifference(title=options.against, reason=str(error))
        title, tokens = other.id, count_tokens(before, model=source.model)
    page = build_diff_page(
        compute_difference(before, receipt.text),
        options.view,
        spaces=options.spaces,
        start=options.row,
        room=DIFF_MARKUP_CHARACTERS,
    )
    return PreviewDifference(title=title, tokens=tokens, page=page)
