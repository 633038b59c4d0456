"""Template variants of a project: versions that never change, and saving a new one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from dashboard.models import Project, RetiredTemplate, TemplateVariant
from dashboard.text.params import parse_integer
from envelopes.families.base import Family
from envelopes.schema.budget import RECEIPT_CHARACTERS, RenderPolicy
from envelopes.schema.receipt import Variant
from envelopes.variants import variants_for
from envelopes.variants.template import TemplateRefused, check_template, template_variant

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
VERSIONED = re.compile(r"([a-z][a-z0-9_]{0,39})@([0-9]{1,6})")
RESERVED = frozenset({"recorded", "none"})
PREFIX = "template/"  # of the ids; ids of packages have two parts, so none begins with it
FEWEST_CHARACTERS = 200

KeyedTemplates = list[tuple[str, TemplateVariant]]


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
    rows = project.template_variants.filter(family=family).in_use()
    return list(rows.order_by("name").values_list("name", flat=True).distinct())


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
) -> TemplateVariant:
    """Saves a new version, or returns the latest one when nothing differs; a retired template is brought back.

    Raises TemplateNotSaved.
    """
    if not NAME.fullmatch(name):
        raise TemplateNotSaved(
            "A name is lower-case letters, digits and underscores, at most 40, and begins with a letter."
        )
    if name in RESERVED or name in {variant.name for variant in variants_for(owner)}:
        raise TemplateNotSaved(f"There is a variant {name} already that is no template: take another name.")
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
