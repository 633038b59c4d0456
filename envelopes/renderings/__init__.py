"""Variants that serve every family, and the list of all that one family has.

Each is a renderer like a family's own: segments with pointers, within the policy, every cut stated.
"""

from __future__ import annotations

import msgspec

from envelopes.families.base import Family
from envelopes.renderings import canonical_json, markdown, outcome_json, tagged
from envelopes.variant import Variant

VARIANTS: tuple[Variant, ...] = (
    canonical_json.VARIANT,
    outcome_json.VARIANT,
    tagged.VARIANT,
    markdown.VARIANT,
)

__all__ = ["VARIANTS", "Variant", "variant", "variants_for"]


def variants_for(family: Family) -> tuple[Variant, ...]:
    """The receipt first, then the family's own, then the shared ones; each with the family's policy."""
    own = sorted(family.renderers, key=lambda name: name != "receipt")
    shared = [one for one in VARIANTS if one.name not in family.renderers]
    return (
        *(_own(family, name) for name in own),
        *(msgspec.structs.replace(one, policy=family.rendering) for one in shared),
    )


def variant(family: Family, name: str) -> Variant:
    """By name or by id. Raises KeyError for one that the family does not have."""
    found = next((one for one in variants_for(family) if name in (one.name, one.id)), None)
    if found is None:
        raise KeyError(name)
    return found


def _own(family: Family, name: str) -> Variant:
    return Variant(
        id=f"{family.name}/{name}",
        version=family.versions.get(name, 1),
        title=name.replace("_", " ").capitalize(),
        render=family.renderers[name],
        policy=family.rendering,
    )
