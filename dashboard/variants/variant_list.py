"""The variants that a project can choose from for a family, and the columns that names of variants refer to.

`receipt` is another renderer in each family, `tail_first` exists for commands alone. `terse` is a template of the
project in its latest version, `terse@2` in version 2. `recorded` is no variant: it is the receipt that the
source recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.models import Project
from dashboard.variants.templates import (
    KeyedTemplates,
    as_variant,
    is_template,
    latest_by_family,
    load_latest_version,
    named_versions,
    retired_templates,
    template_names,
)
from envelopes.families.base import Family
from envelopes.families.plugins import PluginOrigin
from envelopes.families.registry import all_families, family, installed_families
from envelopes.schema.receipt import Variant
from envelopes.variants import family_variant, installed_variants, variants_for

RECORDED = "recorded"
TEMPLATE = "template"
MOST_COLUMNS = 8
NAME_CHARACTERS = 64


@dataclass(frozen=True, kw_only=True)
class OfferedVariant:
    """A variant of one family; `key` is its name in addresses."""

    key: str
    variant: Variant
    origin: str  # built in | the package that brings it | template

    @property
    def template(self) -> str:
        """The name of the template behind the variant, empty for other variants."""
        return self.key.partition("@")[0] if self.origin == TEMPLATE else ""


OffersByFamily = Mapping[str, tuple[OfferedVariant, ...]]


@dataclass(frozen=True)
class VariantColumn:
    """A name with the variant of that name in each family; `variants` is empty for `recorded`."""

    ordinal: int
    name: str
    variants: Mapping[str, Variant]

    @property
    def is_recorded(self) -> bool:
        return self.name == RECORDED


class UnusableColumns(ValueError):
    """These names cannot be compared; the sentence is for the operator."""


def offered_variants(project: Project, owner: Family, also: Iterable[str] = ()) -> tuple[OfferedVariant, ...]:
    """The family's variants: `receipt` first, the project's templates last, each in its latest version.

    Retired templates are left out. `also` are keys that are added: older versions (`name@2`) and retired templates.
    """
    latest = latest_by_family(project, owner.name).get(owner.name, [])
    offers = (*_installed(owner), *_templates(latest))
    known = {offer.key for offer in offers}
    missing = [key for key in also if key and key not in known]
    return (*offers, *_templates(named_versions(project, owner.name, missing)))


def offered_keys(project: Project, owner: Family) -> list[str]:
    """The keys of `offered_variants` in the same order, without loading any template's text."""
    return [*(variant.name for variant in variants_for(owner)), *template_names(project, owner.name)]


def offered_by_family(project: Project, also: Iterable[str] = ()) -> dict[str, tuple[OfferedVariant, ...]]:
    """`offered_variants` of every family, with one query for all templates of the project."""
    latest, extra = latest_by_family(project), tuple(also)
    retired = {(template.family, template.name) for template in retired_templates(project)} if extra else set()
    offers = {}
    for owner in all_families():
        named = [key for key in extra if "@" in key or (owner.name, key) in retired]
        templates = [*latest.get(owner.name, []), *named_versions(project, owner.name, named)]
        offers[owner.name] = (*_installed(owner), *_templates(templates))
    return offers


def _installed(owner: Family) -> tuple[OfferedVariant, ...]:
    origins = {plugin.value.id: plugin.origin for plugin in installed_variants().plugins}
    family_origins = {plugin.value.name: plugin.origin for plugin in installed_families().plugins}
    return tuple(
        OfferedVariant(
            key=variant.name,
            variant=variant,
            origin=_origin_label(origins.get(variant.id) or family_origins.get(variant.id.partition("/")[0])),
        )
        for variant in variants_for(owner)
    )


def _origin_label(origin: PluginOrigin | None) -> str:
    if origin is None:
        return "built in"
    return f"{origin.package} {origin.version}".strip() or origin.target


def _templates(templates: KeyedTemplates) -> tuple[OfferedVariant, ...]:
    return tuple(OfferedVariant(key=key, variant=as_variant(row), origin=TEMPLATE) for key, row in templates)


def find_variant(offers: Iterable[OfferedVariant], key: str) -> OfferedVariant | None:
    """The variant with that key or id."""
    return next((offer for offer in offers if key in (offer.key, offer.variant.id)), None)


def load_current_variant(project_id: int, owner: str, variant_id: str) -> Variant | None:
    """The variant that an id names today, of a template its latest version. None when it is gone, or `recorded`."""
    if is_template(variant_id):
        return load_latest_version(project_id, variant_id)
    try:
        return family_variant(family(owner), variant_id) if owner else None
    except KeyError:
        return None


def variant_names(offers: OffersByFamily) -> list[str]:
    """`recorded`, `receipt`, then the other names in the order of the families."""
    return [RECORDED, *dict.fromkeys(offer.key for family_offers in offers.values() for offer in family_offers)]


def bind_columns(project: Project, names: Sequence[str], families: Iterable[str]) -> list[VariantColumn]:
    """Finds what each name means in each of the families. Raises UnusableColumns."""
    if len(names) < 2 or len(names) > MOST_COLUMNS:
        raise UnusableColumns(f"A comparison needs 2 to {MOST_COLUMNS} variants; {len(names)} were named.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UnusableColumns(f"{', '.join(repeated)} is named twice.")
    every = offered_by_family(project, also=names)
    offers = {owner: every[owner] for owner in sorted(set(families)) if owner in every}
    return [VariantColumn(ordinal, name, _bind(name, offers)) for ordinal, name in enumerate(names)]


def _bind(name: str, offers: OffersByFamily) -> dict[str, Variant]:
    if name == RECORDED:
        return {}
    bound = {}
    for owner, family_offers in offers.items():
        offer = find_variant(family_offers, name)
        if offer is not None:
            bound[owner] = offer.variant
    if not bound or len(name) > NAME_CHARACTERS:
        known = ", ".join(variant_names(offers))
        raise UnusableColumns(f"There is no variant “{name[:NAME_CHARACTERS]}” for these calls. There is: {known}.")
    return bound
