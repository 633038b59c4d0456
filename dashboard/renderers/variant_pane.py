"""The right half of the Call page under a variant: what the model would have been told, and was not.

    ?right=variant-markdown

Each variant of the call's family has a key; the address holds which one is shown. What cannot be shown is
said in its place: a variant that this family has not, or one that could not write this receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec
from django.http import QueryDict
from django.urls import reverse

from dashboard.calls.lint_findings import FINDINGS_SHOWN, FindingLine, finding_line
from dashboard.calls.panes import Size
from dashboard.evidence.call_evidence import Surfaces, utf8_length
from dashboard.models import Call, Project
from dashboard.text.chunks import FIRST_CHARS
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from dashboard.variants.render_call import RenderFailed, family_name, is_cut, load_canonical, load_cuts, write_receipt
from dashboard.variants.variant_list import find_variant, offered_keys, offered_variants
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.lint.model import LintInput
from envelopes.lint.rules import lint
from envelopes.schema.result import CanonicalResult, InvalidOutput
from envelopes.schema.variant import Variant
from envelopes.text.untrusted_json import Untrusted

RIGHT = "variant-"
HOTKEYS = "ABCDEFGHIJKL"  # one each; the small letters are the page's own, M loads more


@dataclass(frozen=True, kw_only=True)
class VariantKey:
    """`href` is the Call page with this variant in its right half."""

    key: str
    hotkey: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class VariantText:
    """What a variant writes of this call; `linked` of its characters come from the canonical result.

    `change` is in tokens against the recorded receipt, None where there is none.
    """

    variant: Variant
    window: ReceiptWindow
    size: Size
    change: int | None
    linked: int
    characters: int
    is_cut: bool
    spaces: bool
    findings: tuple[FindingLine, ...]
    findings_left: int

    @property
    def more(self) -> int:
        return max(0, self.change or 0)

    @property
    def fewer(self) -> int:
        return max(0, -(self.change or 0))


@dataclass(frozen=True, kw_only=True)
class VariantPane:
    """`text` is None where `failure` says why there is none. `back` is the page with the receipt again."""

    key: str
    hotkey: str
    back: str
    preview: str
    text: VariantText | None
    failure: str = ""


def hotkeys(keys: list[str]) -> dict[str, str]:
    """Empty for those beyond the last letter."""
    return {key: HOTKEYS[place : place + 1] for place, key in enumerate(keys)}


def variant_keys(project: Project, surfaces: Surfaces, query: QueryDict) -> tuple[VariantKey, ...]:
    """None for a call of a family that is not installed."""
    try:
        owner = family(family_name(surfaces))
    except KeyError:
        return ()
    return keys_of(surfaces.call, query, offered_keys(project, owner))


def keys_of(call: Call, query: QueryDict, keys: list[str]) -> tuple[VariantKey, ...]:
    current, address = asked_for(query), call_address(call, query)
    return tuple(
        VariantKey(key=key, hotkey=hotkey, href=address + quote(key), is_current=key == current)
        for key, hotkey in hotkeys(keys).items()
    )


def asked_for(query: Mapping[str, str]) -> str:
    """The key of the variant that the address wants in the right half, or nothing."""
    right = query.get("right", "")
    return right.removeprefix(RIGHT) if right.startswith(RIGHT) else ""


def call_address(call: Call, query: QueryDict) -> str:
    """The Call page under a variant, but for its key; beside it the canonical result, which it was written from."""
    changed = query.copy()
    for name in ("left", "right"):
        changed.pop(name, None)
    kept = f"{changed.urlencode()}&" if changed else ""
    return f"{reverse('call-detail', args=[call.pk])}?{kept}right={RIGHT}"


def variant_pane(project: Project, surfaces: Surfaces, query: QueryDict) -> VariantPane | None:
    """None where the address asks for no variant."""
    key = asked_for(query)
    if not key:
        return None
    text, failure, preview, hotkey = None, "", "", ""
    try:
        owner, canonical = load_canonical(surfaces)
        preview = preview_address(surfaces.call, owner, key)
        hotkey = hotkeys(offered_keys(project, owner)).get(key, "")
        chosen = _chosen(project, owner, key)
        text = _text(surfaces, owner, canonical, chosen, spaces="spaces" in query)
    except RenderFailed as error:
        failure = str(error)
    except (Untrusted, msgspec.ValidationError, InvalidOutput, KeyError) as error:
        failure = f"There is no envelope to write about: {error}"
    back = query.copy()
    back.pop("right", None)
    return VariantPane(key=key, hotkey=hotkey, back=f"?{back.urlencode()}", preview=preview, text=text, failure=failure)


def preview_address(call: Call, owner: Family, key: str) -> str:
    """The Renderers page: the same text under knobs, with its difference to the receipt."""
    return f"{reverse('renderer-detail', args=[owner.name])}?{urlencode({'call': str(call.pk), 'variant': key})}"


def _chosen(project: Project, owner: Family, key: str) -> Variant:
    """Raises RenderFailed."""
    variants = offered_variants(project, owner, also=[key])
    found = find_variant(variants, key)
    if found is None:
        known = ", ".join(one.key for one in variants)
        raise RenderFailed(
            f"The {owner.name} family, which this call is of, has no variant {key[:60]}. It has {known}."
        )
    return found.variant


def _text(
    surfaces: Surfaces, owner: Family, canonical: CanonicalResult, variant: Variant, *, spaces: bool
) -> VariantText:
    """Raises RenderFailed."""
    receipt = write_receipt(canonical, owner, variant, variant.policy)
    text = receipt.text
    tokens = surfaces.tokens(text)
    findings = lint(LintInput(canonical=canonical, receipt=receipt, cuts=load_cuts(surfaces)), owner.lint)
    linked = sum(len(one.text) for one in receipt.segments if one.source is not None)
    return VariantText(
        variant=variant,
        window=receipt_window(receipt, Links({}), 0, FIRST_CHARS, spaces=spaces),
        size=Size(bytes=utf8_length(text), lines=text.count("\n") + 1 if text else 0, tokens=tokens),
        change=tokens.count - surfaces.receipt_tokens.count if surfaces.halves.receipt else None,
        linked=linked,
        characters=len(text),
        is_cut=is_cut(receipt),
        spaces=spaces,
        findings=tuple(finding_line(one, canonical=one.pointer) for one in findings[:FINDINGS_SHOWN]),
        findings_left=max(0, len(findings) - FINDINGS_SHOWN),
    )
