"""One call under the variants of its family: the right half of the Call page, and the strip with the numbers of all.

    ?right=variant-markdown

Each variant has a key, and the address names the one that is shown. Where no text can be shown, the pane gives the
reason: the family has no such variant, or the variant could not write this receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from django.http import QueryDict
from django.urls import reverse

from dashboard.calls.half_panes import TextSize
from dashboard.evidence.call_evidence import CallEvidence, load_evidence, utf8_length
from dashboard.evidence.lint_findings import FINDINGS_SHOWN, FindingLine, build_finding_line
from dashboard.models import Call, Project, Run
from dashboard.text.diff import Difference, compute_difference
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS
from dashboard.variants.fingerprints import FingerprintedReceipt, load_fingerprinted
from dashboard.variants.render_call import (
    CannotRender,
    RenderFailed,
    is_cut,
    load_canonical,
    load_cuts,
    load_family,
    write_receipt,
)
from dashboard.variants.variant_list import find_variant, offered_keys, offered_variants
from envelopes.families.base import Family
from envelopes.lint.model import LintInput
from envelopes.lint.rules import lint
from envelopes.schema.receipt import Receipt, Variant
from envelopes.schema.result import CanonicalResult
from envelopes.text.tokens import TokenCount, count_all

RIGHT = "variant-"
# One each. The small letters belong to the page; F is the failed call before, M loads more, N adds a note.
HOTKEYS = "ABCDEGHIJKLO"
NO_LINKS = 0  # characters of the recorded receipt to align: the strip compares its text alone


@dataclass(frozen=True, kw_only=True)
class VariantKey:
    """`href` is the Call page with this variant in its right half; `hotkey` is empty beyond the last letter."""

    key: str
    hotkey: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class VariantText:
    """The receipt that a variant writes of this call; `linked` of its characters come from the canonical result.

    `change` is in tokens against the recorded receipt, None without one.
    """

    variant: Variant
    window: ReceiptChunk
    size: TextSize
    change: int | None
    linked: int
    characters: int
    is_cut: bool
    spaces: bool
    findings: tuple[FindingLine, ...]
    findings_unlisted: int

    @property
    def more(self) -> int:
        return max(0, self.change or 0)

    @property
    def fewer(self) -> int:
        return max(0, -(self.change or 0))


@dataclass(frozen=True, kw_only=True)
class VariantPane:
    """`text` is None where `failure` gives the reason. `back` is the page with the recorded receipt again."""

    key: str
    hotkey: str
    back: str
    preview: str
    text: VariantText | None
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class StripCell:
    """`change` is in tokens against the recorded receipt; `failure` is the reason where there is no text."""

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
class VariantStrip:
    """`recorded` are the tokens of the receipt that the model got, if one was recorded; `is_rebuilt`: made of that."""

    family: str
    recorded: TokenCount | None
    cells: tuple[StripCell, ...]
    is_rebuilt: bool = False
    sent: tuple[FingerprintedReceipt, ...] = ()
    reason: str = ""

    @property
    def drifted(self) -> list[FingerprintedReceipt]:
        return [receipt for receipt in self.sent if receipt.drift]

    @property
    def unchecked(self) -> list[FingerprintedReceipt]:
        return [receipt for receipt in self.sent if not receipt.is_checked]

    @property
    def unchanged(self) -> list[FingerprintedReceipt]:
        return [receipt for receipt in self.sent if receipt.is_checked and not receipt.drift]


def requested_variant(query: Mapping[str, str]) -> str:
    """The key of the variant that the address puts into the right half, or nothing."""
    right = query.get("right", "")
    return right.removeprefix(RIGHT) if right.startswith(RIGHT) else ""


def load_variant_keys(project: Project, evidence: CallEvidence, query: QueryDict, run: Run) -> tuple[VariantKey, ...]:
    """Empty for a call of a family that is not installed."""
    try:
        owner = load_family(evidence)
    except CannotRender:
        return ()
    if run.pk != evidence.call.run_id:
        query = query.copy()
        query["run"] = str(run.pk)
    return _variant_keys(evidence.call, query, offered_keys(project, owner))


def _variant_keys(call: Call, query: QueryDict, keys: list[str]) -> tuple[VariantKey, ...]:
    """Links to the Call page: variants are shown beside the canonical result, so `left` is dropped."""
    current = requested_variant(query)
    rest = query.copy()
    for name in ("left", "right"):
        rest.pop(name, None)
    address = f"{reverse('call-detail', args=[call.pk])}?{rest.urlencode()}{'&' if rest else ''}right={RIGHT}"
    return tuple(
        VariantKey(key=key, hotkey=_hotkey(keys, key), href=address + quote(key), is_current=key == current)
        for key in keys
    )


def _hotkey(keys: list[str], key: str) -> str:
    return HOTKEYS[keys.index(key) :][:1] if key in keys else ""


def _preview_address(call: Call, owner: Family, key: str) -> str:
    """The page of the family's renderers with this call, where the variant's policy can be changed."""
    return f"{reverse('renderer-detail', args=[owner.name])}?{urlencode({'call': str(call.pk), 'variant': key})}"


def load_variant_pane(project: Project, evidence: CallEvidence, query: QueryDict) -> VariantPane | None:
    """None where the address names no variant."""
    key = requested_variant(query)
    if not key:
        return None
    text, failure, preview, hotkey = None, "", "", ""
    try:
        owner, canonical = load_canonical(evidence)
        preview = _preview_address(evidence.call, owner, key)
        offers = offered_variants(project, owner, also=[key])
        hotkey = _hotkey(offered_keys(project, owner), key)
        chosen = find_variant(offers, key)
        if chosen is None:
            known = ", ".join(offer.key for offer in offers)
            raise RenderFailed(f"The {owner.name} family of this call has no variant {key[:60]}. It has {known}.")
        text = _render_text(evidence, owner, canonical, chosen.variant, spaces="spaces" in query)
    except RenderFailed as error:
        failure = str(error)
    except CannotRender as error:
        failure = f"There is no envelope to write about. {error}"
    back = query.copy()
    back.pop("right", None)
    return VariantPane(key=key, hotkey=hotkey, back=f"?{back.urlencode()}", preview=preview, text=text, failure=failure)


def _render_text(
    evidence: CallEvidence, owner: Family, canonical: CanonicalResult, variant: Variant, *, spaces: bool
) -> VariantText:
    """Raises RenderFailed."""
    receipt = write_receipt(canonical, owner, variant, variant.policy)
    text = receipt.text
    tokens = evidence.tokens(text)
    cuts = load_cuts(evidence)
    findings = lint(LintInput(canonical=canonical, receipt=receipt, cuts=cuts), owner.lint)
    return VariantText(
        variant=variant,
        window=receipt_chunk(receipt, FieldLinks({}), 0, FIRST_CHARS, spaces=spaces),
        size=TextSize(bytes=utf8_length(text), lines=text.count("\n") + 1 if text else 0, tokens=tokens),
        change=tokens.count - evidence.receipt_tokens.count if evidence.halves.receipt else None,
        linked=sum(len(segment.text) for segment in receipt.segments if segment.source is not None),
        characters=len(text),
        is_cut=is_cut(receipt, cuts),
        spaces=spaces,
        findings=tuple(build_finding_line(finding, canonical=finding.pointer) for finding in findings[:FINDINGS_SHOWN]),
        findings_unlisted=max(0, len(findings) - FINDINGS_SHOWN),
    )


def load_variant_strip(project: Project, call: Call, query: QueryDict) -> VariantStrip:
    """The numbers of every variant; `query` is that of the Call page, to which the cells link.

    The page loads the strip when it scrolls into view: it costs more than the rest of a first screen.
    """
    evidence = load_evidence(call, {}, first=NO_LINKS)
    try:
        owner, canonical = load_canonical(evidence)
    except CannotRender as error:
        reason = f"There is no envelope to write about. {error}"
        return VariantStrip(family=call.family, recorded=None, cells=(), reason=reason)
    offers = offered_variants(project, owner)
    receipts: list[Receipt | RenderFailed] = []
    for offer in offers:
        try:
            receipts.append(write_receipt(canonical, owner, offer.variant, offer.variant.policy))
        except RenderFailed as error:
            receipts.append(error)
    texts = [receipt.text if isinstance(receipt, Receipt) else "" for receipt in receipts]
    counts = count_all(texts, model=call.run.model)
    keys = _variant_keys(call, query, [offer.key for offer in offers])
    recorded = evidence.receipt_tokens if evidence.halves.receipt else None
    cuts = load_cuts(evidence)
    cells = []
    for offer, key, receipt, tokens in zip(offers, keys, receipts, counts, strict=True):
        address = _preview_address(call, owner, key.key)
        if isinstance(receipt, RenderFailed):
            cells.append(StripCell(key=key, variant=offer.variant, preview=address, failure=str(receipt)))
            continue
        cells.append(
            StripCell(
                key=key,
                variant=offer.variant,
                preview=address,
                tokens=tokens,
                change=None if recorded is None else tokens.count - recorded.count,
                is_cut=is_cut(receipt, cuts),
                findings=len(lint(LintInput(canonical=canonical, receipt=receipt, cuts=cuts), owner.lint)),
                difference=None if recorded is None else compute_difference(evidence.receipt_text, receipt.text),
            )
        )
    chosen = evidence.chosen.get("receipt")
    return VariantStrip(
        family=owner.name,
        recorded=recorded,
        cells=tuple(cells),
        is_rebuilt=chosen is not None and chosen.fidelity == "reconstructed",
        sent=tuple(load_fingerprinted(call)),
    )
