"""The variants that one project can choose from for a family, and those that others are measured by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.models import Project
from dashboard.variants.templates import (
    Keyed,
    as_variant,
    is_template,
    latest_by_family,
    latest_version,
    latest_versions,
    named_versions,
    retired_templates,
    template_names,
)
from envelopes.families.base import Family
from envelopes.families.plugins import PluginOrigin
from envelopes.families.registry import all_families, family, installed_families
from envelopes.schema.variant import Variant
from envelopes.variants import installed_variants, variant, variants_for

TEMPLATE = "template"


@dataclass(frozen=True, kw_only=True)
class Offered:
    """`key` is how an address names it."""

    key: str
    variant: Variant
    origin: str  # built in | the package that brings it | template

    @property
    def template(self) -> str:
        """The name of the template that it is, or nothing."""
        return self.key.partition("@")[0] if self.origin == TEMPLATE else ""


def offered(project: Project, owner: Family, also: Iterable[str] = ()) -> tuple[Offered, ...]:
    """The receipt first; templates of the project last, each in its latest version, but for retired ones.

    `also` are keys that are wanted besides: older versions, `name@2`, and templates that were retired.
    """
    found = (*_installed(owner), *_written(latest_versions(project, owner.name)))
    known = {one.key for one in found}
    missing = [key for key in also if key and key not in known]
    return (*found, *_written(named_versions(project, owner.name, missing)))


def offered_keys(project: Project, owner: Family) -> list[str]:
    """The keys of what is offered, in its order, without reading any template."""
    return [*(one.name for one in variants_for(owner)), *template_names(project, owner.name)]


def offered_by_family(project: Project, also: Iterable[str] = ()) -> dict[str, tuple[Offered, ...]]:
    """The same for every family; the templates of a project are read at once."""
    latest, wanted = latest_by_family(project), tuple(also)
    retired = {(one.family, one.name) for one in retired_templates(project)} if wanted else set()
    return {
        one.name: (
            *_installed(one),
            *_written(latest.get(one.name, [])),
            *_written(named_versions(project, one.name, [key for key in wanted if _is_left_out(one, key, retired)])),
        )
        for one in all_families()
    }


def _is_left_out(owner: Family, key: str, retired: set[tuple[str, str]]) -> bool:
    return "@" in key or (owner.name, key) in retired


def _installed(owner: Family) -> tuple[Offered, ...]:
    packages = {plugin.value.id: plugin.origin for plugin in installed_variants().plugins}
    own = {plugin.value.name: plugin.origin for plugin in installed_families().plugins}
    return tuple(
        Offered(key=one.name, variant=one, origin=_origin(packages.get(one.id) or own.get(one.id.partition("/")[0])))
        for one in variants_for(owner)
    )


def _written(templates: Keyed) -> tuple[Offered, ...]:
    return tuple(Offered(key=key, variant=as_variant(row), origin=TEMPLATE) for key, row in templates)


def _origin(found: PluginOrigin | None) -> str:
    if found is None:
        return "built in"
    return f"{found.package} {found.version}".strip() or found.target


def by_key(found: tuple[Offered, ...], key: str) -> Offered | None:
    return next((one for one in found if key in (one.key, one.variant.id)), None)


def current_variant(project_id: int, owner: str, variant_id: str) -> Variant | None:
    """The variant that an id stands for now, of a template its latest version.

    `owner` is the family's name. None when the variant is gone, or for `recorded`.
    """
    if is_template(variant_id):
        return latest_version(project_id, variant_id)
    try:
        return variant(family(owner), variant_id) if owner else None
    except KeyError:
        return None
