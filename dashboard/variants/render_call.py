"""Renders a recorded call's stored envelope under any variant of its family, when a page or a command asks for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from dashboard.evidence.call_evidence import CallEvidence
from envelopes.families.base import Family, FieldCut
from envelopes.families.registry import family
from envelopes.lint.model import Shortened
from envelopes.pipeline.render import ReceiptTooLong, render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult, InvalidOutput
from envelopes.text.untrusted_json import Untrusted, parse_json
from envelopes.variants import Variant, family_variant, variants_for
from envelopes.variants.template import TemplateRefused

PROBLEM_CHARACTERS = 200


@dataclass(frozen=True)
class RenderedCall:
    family: Family
    variant: Variant
    receipt: Receipt


class RenderFailed(ValueError):
    """A variant could not write a receipt; the sentence gives its reason."""


class CannotRender(ValueError):
    """No variant can write a receipt of this call; the sentence is for the operator."""


class UnansweredCall(CannotRender):
    def __init__(self) -> None:
        super().__init__("Nothing answered this call: there is no result that a variant could write.")


class UninstalledFamily(CannotRender):
    """The package of the family that wrote the stored envelope is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"This call was read by the family {name!r}, of a package that is not installed.")


class UnreadableEnvelope(CannotRender):
    def __init__(self, reason: Exception) -> None:
        super().__init__(f"The stored envelope of this call cannot be read: {reason}")


class UnknownVariant(CannotRender):
    """`names` are the variants of the call's family, in order."""

    def __init__(self, name: str, owner: Family) -> None:
        self.names = tuple(variant.name for variant in variants_for(owner))
        super().__init__(f"The {owner.name} family has no variant {name!r}. It has: {', '.join(self.names)}.")


def render_call(evidence: CallEvidence, name: str = "receipt") -> RenderedCall:
    """Renders the envelope that the Call page shows. Raises CannotRender."""
    if not evidence.is_answered:
        raise UnansweredCall
    owner, canonical = load_canonical(evidence)
    try:
        chosen = family_variant(owner, name)
    except KeyError:
        raise UnknownVariant(name, owner) from None
    return RenderedCall(owner, chosen, render(canonical, owner, chosen.policy, variant=chosen))


def load_canonical(evidence: CallEvidence) -> tuple[Family, CanonicalResult]:
    """The stored envelope with the family that wrote it, which need not be today's.

    Raises UninstalledFamily and UnreadableEnvelope.
    """
    owner = load_family(evidence)
    try:
        return owner, CanonicalResult.from_json(parse_json(evidence.canonical))
    except (Untrusted, msgspec.ValidationError, InvalidOutput) as error:
        raise UnreadableEnvelope(error) from None


def load_family(evidence: CallEvidence) -> Family:
    """The family that wrote the stored envelope. Raises UninstalledFamily."""
    name = family_name(evidence)
    try:
        return family(name)
    except KeyError:
        raise UninstalledFamily(name) from None


def family_name(evidence: CallEvidence) -> str:
    """The family that wrote the stored envelope; it need not be installed."""
    stored = evidence.projection
    mapping = evidence.halves.mapping if stored is None else stored.mapping
    return mapping.partition(":")[0]


def load_cuts(evidence: CallEvidence) -> tuple[Shortened, ...]:
    """The fields of which the envelope holds less than the tool returned, as stored with it."""
    stored = evidence.projection
    cuts = evidence.halves.projection.cuts
    if stored is not None:
        cuts = msgspec.json.decode(bytes(stored.cuts), type=tuple[FieldCut, ...])
    return tuple(Shortened(cut.pointer, cut.cut) for cut in cuts)


def write_receipt(canonical: CanonicalResult, owner: Family, variant: Variant, policy: RenderPolicy) -> Receipt:
    """Raises RenderFailed, whatever the variant raises: it may come from a package or an operator."""
    try:
        return write_limited_receipt(canonical, owner, variant, policy)
    except ReceiptTooLong as error:
        raise RenderFailed(str(error)) from error


def write_limited_receipt(canonical: CanonicalResult, owner: Family, variant: Variant, policy: RenderPolicy) -> Receipt:
    """Raises ReceiptTooLong, after which a search for a budget can continue, and RenderFailed for all else."""
    try:
        return render(canonical, owner, policy, variant=variant)
    except ReceiptTooLong:
        raise
    except Exception as error:
        raise RenderFailed(f"{variant.id} could not write this receipt. {type(error).__name__}: {error}") from error


def describe_failure(error: Exception) -> str:
    """One sentence on why a variant wrote no text: a template's line and reason, or the exception."""
    if isinstance(error, TemplateRefused):
        return f"the template failed: {error}"[:PROBLEM_CHARACTERS]
    return f"{type(error).__name__}: {error}"[:PROBLEM_CHARACTERS]


def is_cut(receipt: Receipt, cuts: Collection[object]) -> bool:
    """True for a receipt with a marker of text that it leaves out, or of an envelope that was shortened (`cuts`)."""
    return bool(cuts) or any(segment.role == "marker" for segment in receipt.segments)
