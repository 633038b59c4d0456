"""One recorded call under every variant of its family, in numbers: the strip of the Call page.

It is asked for by the page when it comes into view, so that a first screen costs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from django.http import QueryDict

from dashboard.models import Call, Project
from dashboard.renderers.preview_source import NoSubject, Subject, of_its_family
from dashboard.renderers.variant_pane import VariantKey, keys_of, preview_address
from dashboard.text.diff import Difference, difference
from dashboard.variants.fingerprints import FingerprintedReceipt, load_fingerprinted
from dashboard.variants.render_call import RenderFailed, is_cut, write_receipt
from dashboard.variants.variant_list import OfferedVariant, offered_variants
from envelopes.families.base import Family
from envelopes.lint.model import LintInput
from envelopes.lint.rules import lint
from envelopes.schema.receipt import Receipt
from envelopes.schema.variant import Variant
from envelopes.text.tokens import TokenCount, count_all

_Receipt: TypeAlias = tuple[OfferedVariant, Receipt | None, str]  # or why there is none


@dataclass(frozen=True, kw_only=True)
class StripCell:
    """`change` is in tokens against the recorded receipt; `failure` says why there is nothing."""

    key: VariantKey
    variant: Variant
    preview: str
    tokens: TokenCount | None = None
    change: int | None = None
    is_cut: bool = False
    findings: int = 0
    difference: Difference | None = None
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Strip:
    """`recorded` are the tokens of the receipt that the model got, where one was recorded."""

    family: str
    recorded: TokenCount | None
    cells: tuple[StripCell, ...]
    sent: tuple[FingerprintedReceipt, ...] = ()
    reason: str = ""

    @property
    def drifted(self) -> list[FingerprintedReceipt]:
        return [one for one in self.sent if one.drift]

    @property
    def unchanged(self) -> list[FingerprintedReceipt]:
        return [one for one in self.sent if not one.drift]


def variant_strip(project: Project, call: Call, query: QueryDict) -> Strip:
    """`query` is that of the Call page, which the cells lead to."""
    try:
        owner, subject = of_its_family(call)
    except NoSubject as error:
        return Strip(
            family=call.family, recorded=None, cells=(), reason=f"There is no envelope to write about. {error}"
        )
    receipts = [(one, *_written(subject, owner, one)) for one in offered_variants(project, owner)]
    texts = [receipt.text if receipt else "" for _, receipt, _ in receipts]
    counts = count_all(texts, model=subject.model)
    recorded = subject.recorded_tokens
    keys = keys_of(call, query, [one.key for one, _, _ in receipts])
    return Strip(
        family=owner.name,
        recorded=recorded,
        cells=tuple(_cells(subject, owner, zip(keys, receipts, counts, strict=True))),
        sent=tuple(load_fingerprinted(call)),
    )


def _written(subject: Subject, owner: Family, one: OfferedVariant) -> tuple[Receipt | None, str]:
    try:
        return write_receipt(subject.canonical, owner, one.variant, one.variant.policy), ""
    except RenderFailed as error:
        return None, str(error)


def _cells(
    subject: Subject, owner: Family, rows: Iterable[tuple[VariantKey, _Receipt, TokenCount]]
) -> Iterator[StripCell]:
    for key, (one, receipt, failure), tokens in rows:
        address = preview_address(subject.call, owner, key.key) if subject.call else ""
        cell = StripCell(key=key, variant=one.variant, preview=address, failure=failure)
        if receipt is None:
            yield cell
            continue
        recorded = subject.recorded_tokens
        yield replace(
            cell,
            tokens=tokens,
            change=None if recorded is None else tokens.count - recorded.count,
            is_cut=is_cut(receipt),
            findings=len(lint(LintInput(canonical=subject.canonical, receipt=receipt, cuts=subject.cuts), owner.lint)),
            difference=None if subject.recorded is None else difference(subject.recorded, receipt.text),
        )
