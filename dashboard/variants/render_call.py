"""A recorded call's envelope written by any variant of its family, computed when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.evidence.call_evidence import Surfaces
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult
from envelopes.text.untrusted_json import tame
from envelopes.variants import Variant, variant, variants_for


@dataclass(frozen=True)
class Rendered:
    family: Family
    variant: Variant
    receipt: Receipt


class UnknownVariant(ValueError):
    """`names` are those that the call's family has, in order."""

    def __init__(self, name: str, owner: Family) -> None:
        self.names = tuple(one.name for one in variants_for(owner))
        super().__init__(f"The {owner.name} family has no variant {name!r}. It has: {', '.join(self.names)}.")


class UninstalledFamily(ValueError):
    """The family that wrote the stored envelope is of a package that is not here."""

    def __init__(self, name: str) -> None:
        super().__init__(f"This call was read by the family {name!r}, of a package that is not installed.")


class UnansweredCall(ValueError):
    def __init__(self) -> None:
        super().__init__("Nothing answered this call: there is no result that a variant could write.")


def rendered(surfaces: Surfaces, name: str = "receipt") -> Rendered:
    """The envelope is the one that the Call page shows. Raises UnknownVariant, UninstalledFamily, UnansweredCall."""
    if not surfaces.is_answered:
        raise UnansweredCall
    try:
        owner, canonical = canonical_of(surfaces)
    except KeyError as gone:
        raise UninstalledFamily(gone.args[0]) from None
    try:
        found = variant(owner, name)
    except KeyError:
        raise UnknownVariant(name, owner) from None
    return Rendered(owner, found, render(canonical, owner, found.policy, variant=found))


def canonical_of(surfaces: Surfaces) -> tuple[Family, CanonicalResult]:
    """The stored envelope belongs to the family that wrote it, which need not be today's. Raises KeyError."""
    return family_of(surfaces), CanonicalResult.from_json(tame(surfaces.canonical))


def family_of(surfaces: Surfaces) -> Family:
    """Raises KeyError for one that is not installed."""
    stored = surfaces.projection
    mapping = surfaces.halves.mapping if stored is None else stored.mapping
    return family(mapping.partition(":")[0])
