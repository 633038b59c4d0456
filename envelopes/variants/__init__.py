"""Variants that serve every family, and the list of all variants of one family.

Each is a renderer like a family's own: segments with pointers, within the policy, every cut stated. Installed
packages add others (`envelopes.families.plugins`): a variant with the id `family/name` belongs to that family, any
other serves all families.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from envelopes.families import plugins
from envelopes.families.base import Family
from envelopes.families.registry import find_other_encoding
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Variant
from envelopes.variants import canonical_json, markdown, outcome_json, tagged

VARIANTS: tuple[Variant, ...] = (
    canonical_json.VARIANT,
    outcome_json.VARIANT,
    tagged.VARIANT,
    markdown.VARIANT,
)

__all__ = ["VARIANTS", "Variant", "family_variant", "installed_variants", "reload_plugins", "variants_for"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def variants_for(family: Family) -> tuple[Variant, ...]:
    """The variants of a family: its receipt, its other renderers, the shared ones, and those of packages for it.

    Each has the family's policy; only a package's variant for this family keeps its own.
    """
    own = [
        Variant(
            id=f"{family.name}/{name}",
            version=family.versions.get(name, 1),
            title=name.replace("_", " ").capitalize(),
            render=family.renderers[name],
            policy=family.rendering,
            digest=find_other_encoding(family),
        )
        for name in sorted(family.renderers, key=lambda name: name != "receipt")
    ]
    installed = [plugin.value for plugin in installed_variants().plugins]
    others = [candidate for candidate in (*VARIANTS, *installed) if candidate.name not in family.renderers]
    shared = [candidate for candidate in others if "/" not in candidate.id]
    return (
        *own,
        *(msgspec.structs.replace(candidate, policy=family.rendering) for candidate in shared),
        *(candidate for candidate in others if candidate.id.startswith(f"{family.name}/")),
    )


@cache
def installed_variants() -> plugins.LoadedPlugins[Variant]:
    """Loads the variants of installed packages, once a process."""
    taken = {candidate.name for candidate in VARIANTS} | {"recorded", "none", "receipt"}

    def check(candidate: Variant) -> None:
        _check(candidate, taken)
        taken.update((candidate.id, candidate.name))

    return plugins.load_plugins(plugins.VARIANTS, Variant, check)


def reload_plugins() -> None:
    """Clears the cache of installed variants, for a process in which a package was installed meanwhile."""
    installed_variants.cache_clear()


def family_variant(family: Family, name: str) -> Variant:
    """Finds a variant of the family by its name or id. Raises KeyError."""
    for candidate in variants_for(family):
        if name in (candidate.name, candidate.id):
            return candidate
    raise KeyError(name)


def _check(candidate: Variant, taken: set[str]) -> None:
    """Raises plugins.InvalidPlugin."""
    types: tuple[tuple[object, type], ...] = (
        (candidate.id, str),
        (candidate.version, int),
        (candidate.policy, RenderPolicy),
    )
    for value, expected in types:
        if not isinstance(value, expected):
            raise plugins.InvalidPlugin(f"a {expected.__name__} is expected, not {type(value).__name__}")
    parts = candidate.id.split("/")
    if len(parts) not in (1, 2) or not all(NAME.fullmatch(part) for part in parts):
        raise plugins.InvalidPlugin(f"the id {candidate.id!r} is neither `name` nor `family/name` in lower-case words")
    if candidate.id in taken or candidate.name in taken:
        raise plugins.InvalidPlugin(f"there is a variant {candidate.name} already")
    if not callable(candidate.render):
        raise plugins.InvalidPlugin(f"{candidate.id}: its `render` is not a function")
