"""Template variants of a project: their versions, which nothing changes, and the writing of a new one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from dashboard.models import Project, RetiredTemplate, TemplateVariant
from dashboard.prepared import given, prepared
from envelopes.families.base import Family
from envelopes.schema.budget import RECEIPT_CHARACTERS, RenderPolicy
from envelopes.schema.variant import Variant
from envelopes.variants import variants_for
from envelopes.variants.template import TemplateRefused, check, template_variant

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED = frozenset({"recorded", "none"})
PREFIX = "template/"  # of the ids; no package can have it, whose ids have two parts
VERSIONED = re.compile(r"([a-z][a-z0-9_]{0,39})@([0-9]{1,6})")

Keyed = list[tuple[str, TemplateVariant]]


class NotSaved(ValueError):
    """A sentence for the operator; `line` of the template, where one is to blame."""

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


def latest_versions(project: Project, family: str) -> Keyed:
    """Of those that are not retired. One query; by name."""
    rows = _in_use(project.template_variants.filter(family=family)).order_by("name", "version")
    return [(name, row) for name, row in {row.name: row for row in rows}.items()]


@prepared
def _names() -> QuerySet[Any, Any]:
    mine = TemplateVariant.objects.filter(
        project=given("project", TemplateVariant, "project"), family=given("family", TemplateVariant, "family")
    )
    return _in_use(mine).order_by("name").values_list("name").distinct()


def template_names(project: Project, family: str) -> list[str]:
    """As `latest_versions` has them, for a page that only says which there are."""
    return [name for (name,) in _names(project=project.pk, family=family)]


def latest_by_family(project: Project) -> dict[str, Keyed]:
    """Of every family what is not retired, with one query."""
    found: dict[str, dict[str, TemplateVariant]] = defaultdict(dict)
    for row in _in_use(project.template_variants.all()).order_by("family", "name", "version"):
        found[row.family][row.name] = row
    return {family: list(rows.items()) for family, rows in found.items()}


def kept_version(project_id: int, variant_id: str, version: int) -> Variant | None:
    """The very version that a comparison or a receipt names, whatever was written since."""
    row = _of(project_id, variant_id).filter(version=version).first()
    return None if row is None else as_variant(row)


def latest_version(project_id: int, variant_id: str) -> Variant | None:
    row = _of(project_id, variant_id).order_by("-version").first()
    return None if row is None else as_variant(row)


def is_template(variant_id: str) -> bool:
    return variant_id.startswith(PREFIX)


def _of(project_id: int, variant_id: str) -> QuerySet[TemplateVariant]:
    family, _, name = variant_id.removeprefix(PREFIX).partition("/")
    return TemplateVariant.objects.filter(project=project_id, family=family, name=name)


def named_versions(project: Project, family: str, keys: Iterable[str]) -> Keyed:
    """The versions that are named as `name@2`, and of a retired template the latest; a query for each of those."""
    found: Keyed = []
    for key in keys:
        mine = project.template_variants.filter(family=family)
        if named := VERSIONED.fullmatch(key):
            rows = mine.filter(name=named[1], version=int(named[2]))
        else:
            rows = mine.filter(name=key).order_by("-version")[:1]
        found.extend((key, row) for row in rows)
    return found


def retired_templates(project: Project) -> QuerySet[RetiredTemplate]:
    return project.retired_templates.order_by("family", "name")


def retire(project: Project, family: str, name: str, by: User) -> None:
    """It is offered no longer. Nothing is deleted: what names a version, a comparison above all, writes it still."""
    RetiredTemplate.objects.get_or_create(project=project, family=family, name=name, defaults={"retired_by": by})


def bring_back(project: Project, family: str, name: str) -> None:
    project.retired_templates.filter(family=family, name=name).delete()


def _in_use(rows: QuerySet[TemplateVariant]) -> QuerySet[TemplateVariant]:
    same = {"project": OuterRef("project"), "family": OuterRef("family"), "name": OuterRef("name")}
    return rows.filter(~Exists(RetiredTemplate.objects.filter(**same)))


def versions(project: Project, family: str, name: str) -> list[TemplateVariant]:
    """The newest first."""
    rows = project.template_variants.filter(family=family, name=name).select_related("created_by")
    return list(rows.order_by("-version"))


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
    """A new version, or the latest one when it says the same; a retired template is back with it. Raises NotSaved."""
    if not NAME.fullmatch(name):
        raise NotSaved("A name is lower-case letters, digits and underscores, at most 40, and begins with a letter.")
    if name in RESERVED or name in {one.name for one in variants_for(owner)}:
        raise NotSaved(f"There is a variant {name} already that is no template: take another name.")
    if not characters.isdigit() or not 200 <= int(characters) <= RECEIPT_CHARACTERS:
        raise NotSaved(f"The ceiling is a whole number from 200 to {RECEIPT_CHARACTERS:,} characters.")
    source = source.replace("\r\n", "\n")  # how a browser sends lines
    try:
        check(source)
    except TemplateRefused as refused:
        raise NotSaved(f"{refused.reason}.", refused.line) from None
    row = TemplateVariant(
        project=project,
        family=owner.name,
        name=name,
        title=title.strip()[:100] or name,
        source=source,
        characters=int(characters),
        head_share=owner.rendering.head_share,
        cut_at=owner.rendering.cut_at,
        note=note.strip()[:200],
        created_by=author,
    )
    stored = _stored(row)
    bring_back(project, owner.name, name)
    return stored


def _stored(row: TemplateVariant) -> TemplateVariant:
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
        raise NotSaved("Somebody saved another version just now: look at it, then save again.") from None
    return row
