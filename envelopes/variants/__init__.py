"""Variants that serve every family, and the list of all that one family has.

Each is a renderer like a family's own: segments with pointers, within the policy, every cut stated.
Installed packages add others (`envelopes.families.plugins`): an id `family/name` belongs to one family, any other
serves all of them.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from envelopes.families import plugins
from envelopes.families.base import Family
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.variant import Variant
from envelopes.variants import canonical_json, markdown, outcome_json, tagged

VARIANTS: tuple[Variant, ...] = (
    canonical_json.VARIANT,
    outcome_json.VARIANT,
    tagged.VARIANT,
    markdown.VARIANT,
)

__all__ = ["VARIANTS", "Variant", "reload_plugins", "installed_variants", "variant", "variants_for"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def variants_for(family: Family) -> tuple[Variant, ...]:
    """The receipt first, then the family's own, then the shared ones; each with the family's policy.

    Behind them those of packages; one that is made for this family keeps its own policy.
    """
    own = sorted(family.renderers, key=lambda name: name != "receipt")
    added = [plugin.value for plugin in installed_variants().plugins]
    shared = [one for one in (*VARIANTS, *added) if "/" not in one.id and one.name not in family.renderers]
    return (
        *(_own(family, name) for name in own),
        *(msgspec.structs.replace(one, policy=family.rendering) for one in shared),
        *(one for one in added if one.id.startswith(f"{family.name}/") and one.name not in family.renderers),
    )


@cache
def installed_variants() -> plugins.LoadedPlugins[Variant]:
    """Looked for once a process."""
    taken = {one.name for one in VARIANTS} | {"recorded", "none", "receipt"}

    def check(one: Variant) -> None:
        _check(one, taken)
        taken.add(one.id)
        taken.add(one.name)

    return plugins.load_plugins(plugins.VARIANTS, Variant, check)


def reload_plugins() -> None:
    """Forgets what packages added: for a process in which one is installed while it runs."""
    installed_variants.cache_clear()


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


def _check(one: Variant, taken: set[str]) -> None:
    """Raises plugins.InvalidPlugin."""
    held: tuple[tuple[object, type], ...] = ((one.id, str), (one.version, int), (one.policy, RenderPolicy))
    for thing, kind in held:
        if not isinstance(thing, kind):
            raise plugins.InvalidPlugin(f"a {kind.__name__} is expected, not {type(thing).__name__}")
    parts = one.id.split("/")
    if len(parts) not in (1, 2) or not all(NAME.fullmatch(part) for part in parts):
        raise plugins.InvalidPlugin(f"the id {one.id!r} is neither `name` nor `family/name` in lower-case words")
    if one.id in taken or one.name in taken:
        raise plugins.InvalidPlugin(f"there is a variant {one.name} already")
    if not callable(one.render):
        raise plugins.InvalidPlugin(f"{one.id}: its `render` is no function")
