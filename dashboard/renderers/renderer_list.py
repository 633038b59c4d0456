"""The Renderers page: every family with its variants, and how often recorded runs used it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.models import Project, RunFacet
from dashboard.variants.templates import retired_templates
from dashboard.variants.variant_list import OfferedVariant, offered_by_family
from envelopes.families.base import Family
from envelopes.families.plugins import BrokenPlugin
from envelopes.families.registry import all_families, installed_families
from envelopes.variants import installed_variants


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """`ceiling` in characters, of the family's own policy. `retired` are names of templates."""

    name: str
    title: str
    url: str
    variants: tuple[OfferedVariant, ...]
    retired: tuple[str, ...]
    ceiling: int
    samples: int
    runs: int
    calls: int

    @property
    def runs_url(self) -> str:
        return f"{reverse('run-list')}?{urlencode({'q': f'family:{self.name}'})}"


@dataclass(frozen=True, kw_only=True)
class RendererList:
    """`broken`: what installed packages meant to add, and could not."""

    families: tuple[FamilyRow, ...]
    broken: tuple[BrokenPlugin, ...]


def renderer_list(project: Project) -> RendererList:
    used = {
        value: (runs, calls)
        for value, runs, calls in RunFacet.objects.filter(project=project, kind="family")
        .values_list("value")
        .annotate(runs=Count("pk"), calls=Sum("count"))
    }
    offers = offered_by_family(project)
    retired = [(one.family, one.name) for one in retired_templates(project)]
    return RendererList(
        families=tuple(
            _row(
                one,
                offers[one.name],
                tuple(name for family, name in retired if family == one.name),
                *used.get(one.name, (0, 0)),
            )
            for one in all_families()
        ),
        broken=(*installed_families().broken, *installed_variants().broken),
    )


def _row(one: Family, offers: tuple[OfferedVariant, ...], retired: tuple[str, ...], runs: int, calls: int) -> FamilyRow:
    return FamilyRow(
        name=one.name,
        title=one.title,
        url=reverse("renderer-detail", args=[one.name]),
        variants=offers,
        retired=retired,
        ceiling=one.rendering.characters,
        samples=len(one.samples),
        runs=runs,
        calls=calls,
    )
