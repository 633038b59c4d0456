"""The variants of a project: its templates, what it offers for each family, and the columns that names refer to.

`receipt` is another renderer in each family, `tail_first` exists for commands alone. `terse` is a template of the
project in its latest version, `terse@2` in version 2; a saved version never changes. `recorded` is no variant: it is
the receipt that the source recorded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from dashboard.models import Project, RetiredTemplate, TemplateVariant
from dashboard.text.params import parse_integer
from envelopes.families.base import Family
from envelopes.families.plugins import PluginOrigin
from envelopes.families.registry import all_families, family, installed_families
from envelopes.schema.budget import RECEIPT_CHARACTERS, RenderPolicy
from envelopes.schema.receipt import Variant
from envelopes.text.tokens import CHARACTERS_PER_TOKEN
from envelopes.variants import family_variant, installed_variants, variants_for
from envelopes.variants.template import TemplateRefused, check_template, template_variant

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
VERSIONED = re.compile(r"([a-z][a-z0-9_]{0,39})@([0-9]{1,6})")
RESERVED = frozenset({"recorded", "none"})
PREFIX = "template/"  # of the ids; ids of packages have two parts, so none begins with it
FEWEST_CHARACTERS = 200

KeyedTemplates = list[tuple[str, TemplateVariant]]
RECORDED = "recorded"
TEMPLATE = "template"
MOST_COLUMNS = 8
NAME_CHARACTERS = 64


class TemplateNotSaved(ValueError):
    """A sentence for the operator; `line` of the template, where a line is the cause."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def as_variant(row: TemplateVariant) -> Variant:
    policy = RenderPolicy(
        characters=row.characters,
        head_share=row.head_share,
        cut_at="characters" if row.cut_at == "characters" else "lines",
    )
    return template_variant(f"{PREFIX}{row.family}/{row.name}", row.version, row.title, row.source, policy)


def is_template(variant_id: str) -> bool:
    return variant_id.startswith(PREFIX)


def latest_by_family(project: Project, family: str = "") -> dict[str, KeyedTemplates]:
    """The latest version of each template that is not retired, by family and name. One query."""
    rows = project.template_variants.filter(family=family) if family else project.template_variants.all()
    latest: dict[str, dict[str, TemplateVariant]] = defaultdict(dict)
    for row in rows.in_use().order_by("family", "name", "version"):
        latest[row.family][row.name] = row
    return {family: list(templates.items()) for family, templates in latest.items()}


def template_names(project: Project, family: str) -> list[str]:
    """Names of the family's templates that are not retired, in order."""
    names = set(project.template_variants.filter(family=family).values_list("name", flat=True))
    if names:
        names -= set(retired_templates(project).filter(family=family).values_list("name", flat=True))
    return sorted(names)


def load_version(project_id: int, variant_id: str, version: int) -> Variant | None:
    """The version that a comparison or a receipt names, whatever was saved since."""
    row = TemplateVariant.objects.with_id(project_id, variant_id).filter(version=version).first()
    return None if row is None else as_variant(row)


def load_latest_version(project_id: int, variant_id: str) -> Variant | None:
    row = TemplateVariant.objects.with_id(project_id, variant_id).order_by("-version").first()
    return None if row is None else as_variant(row)


def named_versions(project: Project, family: str, keys: Iterable[str]) -> KeyedTemplates:
    """The versions named as `name@2`, and the latest of each template named without one. A query a key."""
    templates: KeyedTemplates = []
    for key in keys:
        rows = project.template_variants.filter(family=family)
        if versioned := VERSIONED.fullmatch(key):
            rows = rows.filter(name=versioned[1], version=int(versioned[2]))
        else:
            rows = rows.filter(name=key).order_by("-version")[:1]
        templates.extend((key, row) for row in rows)
    return templates


def load_versions(project: Project, family: str, name: str) -> list[TemplateVariant]:
    """All versions of a template, the newest first."""
    rows = project.template_variants.filter(family=family, name=name).select_related("created_by")
    return list(rows.order_by("-version"))


def retired_templates(project: Project) -> QuerySet[RetiredTemplate]:
    return project.retired_templates.order_by("family", "name")


def retire_template(project: Project, family: str, name: str, by: User) -> None:
    """Takes the template out of every choice. Its versions stay, for comparisons and addresses that name them."""
    RetiredTemplate.objects.get_or_create(project=project, family=family, name=name, defaults={"retired_by": by})


def bring_back(project: Project, family: str, name: str) -> None:
    project.retired_templates.filter(family=family, name=name).delete()


def save_version(
    project: Project,
    owner: Family,
    author: User,
    *,
    name: str,
    title: str,
    source: str,
    characters: str,
    note: str = "",
    is_new: bool = False,
) -> TemplateVariant:
    """Saves a new version, or returns the latest one when nothing differs; a retired template is brought back.

    `is_new`: the name must be free, so that nobody's template gets a version by a name that is used by chance.
    Raises TemplateNotSaved.
    """
    if not NAME.fullmatch(name):
        raise TemplateNotSaved(
            "A name is lower-case letters, digits and underscores, at most 40, and begins with a letter."
        )
    if name in RESERVED or name in {variant.name for variant in variants_for(owner)}:
        raise TemplateNotSaved(f"There is already a variant {name}: choose another name.")
    if is_new and load_versions(project, owner.name, name):
        raise TemplateNotSaved(f"There is already a template {name}: open it to change it, or choose another name.")
    ceiling = parse_integer(characters, least=FEWEST_CHARACTERS, most=RECEIPT_CHARACTERS)
    if ceiling is None:
        raise TemplateNotSaved(
            f"The longest text is a whole number from {FEWEST_CHARACTERS} to {RECEIPT_CHARACTERS:,} characters."
        )
    source = source.replace("\r\n", "\n")  # browsers send lines of a textarea with both characters
    try:
        check_template(source)
    except TemplateRefused as refused:
        raise TemplateNotSaved(f"{refused.reason}.", refused.line) from None
    row = TemplateVariant(
        project=project,
        family=owner.name,
        name=name,
        title=title.strip()[:100] or name,
        source=source,
        characters=ceiling,
        head_share=owner.rendering.head_share,
        cut_at=owner.rendering.cut_at,
        note=note.strip()[:200],
        created_by=author,
    )
    stored = _store(row)
    bring_back(project, owner.name, name)
    return stored


def _store(row: TemplateVariant) -> TemplateVariant:
    rows = TemplateVariant.objects.filter(project=row.project, family=row.family, name=row.name)
    latest = rows.order_by("-version").first()
    if latest and (latest.source, latest.title, latest.characters) == (row.source, row.title, row.characters):
        return latest
    row.version = (rows.aggregate(Max("version"))["version__max"] or 0) + 1
    row.sha256 = as_variant(row).digest
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise TemplateNotSaved("Somebody saved another version just now: look at it, then save again.") from None
    return row


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


def within_budget(variant: Variant, tokens: int | None) -> Variant:
    """The variant under a policy of at most so many tokens, of four characters each; as it is without a budget."""
    if tokens is None:
        return variant
    characters = min(variant.policy.characters, tokens * CHARACTERS_PER_TOKEN)
    return msgspec.structs.replace(variant, policy=msgspec.structs.replace(variant.policy, characters=characters))


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
    return load_latest_version(project_id, variant_id) if is_template(variant_id) else find_installed(owner, variant_id)


def find_installed(owner: str, variant_id: str) -> Variant | None:
    """The built-in variant or that of a package with this id, for the family named `owner`; None when it is gone."""
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
