"""The second projection of the RFC: a canonical result becomes a receipt (RFC-073 to RFC-085).

    render(canonical, family, policy)   -> Receipt     bounded, every character with its source
    lint_input(projection, receipt)     -> LintInput   both halves, for `envelopes.lint.rules.lint`

The family is an argument: this module knows none. The same envelope and policy give the same receipt.
"""

from __future__ import annotations

import msgspec

from envelopes.families.base import Family
from envelopes.families.segments import render_stub
from envelopes.lint.model import LintInput, Shortened
from envelopes.pipeline.project import Projection, is_stub
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Receipt, Variant, text_receipt
from envelopes.schema.result import CanonicalResult


class ReceiptTooLong(ValueError):
    """A renderer wrote more than its policy allows. That is a fault of the renderer, so nothing is cut here."""


def render(
    canonical: CanonicalResult, family: Family, policy: RenderPolicy, *, variant: str | Variant = "receipt"
) -> Receipt:
    """Renders the text that the model reads.

    `variant` is the name of one of the family's renderers, or a variant that serves every family. The number of
    characters in the family's own policy is a default: output with a budget that the tool's definition promises comes
    on top of it (E-29), whatever the other options are. Any other number holds as it is.
    Raises KeyError for a name that the family lacks and ReceiptTooLong when the renderer exceeds the policy.

    >>> from envelopes import ToolError, builtin
    >>> family, _ = builtin("WebFetch")
    >>> error = ToolError(kind="network_failed", message="no route to host", retryable=True)
    >>> canonical = CanonicalResult(tool_name="WebFetch", status="error", summary_text="not fetched", error=error)
    >>> print(render(canonical, family, family.rendering).text)
    WebFetch failed: no route to host
    Kind: network_failed
    Same call again: may work
    """
    if isinstance(variant, Variant):
        name, renderer = variant.id, variant.render
    else:
        name, renderer = f"{family.name}/{variant}", family.renderers[variant]
        renderer = render_stub if is_stub(canonical) else renderer
    if policy.characters == family.rendering.characters and canonical.error is None and not is_stub(canonical):
        policy = msgspec.structs.replace(policy, characters=policy.characters + family.granted(canonical.result))
    receipt = text_receipt(renderer(canonical, policy))
    if len(receipt.text) > policy.characters:
        raise ReceiptTooLong(f"{name} wrote {len(receipt.text)} characters, its policy allows {policy.characters}")
    return receipt


def lint_input(projection: Projection, receipt: Receipt) -> LintInput:
    """Both halves of a call whose receipt was rendered from this projection."""
    cuts = tuple(Shortened(field_cut.pointer, field_cut.cut) for field_cut in projection.cuts)
    return LintInput(canonical=projection.canonical, receipt=receipt, cuts=cuts)
