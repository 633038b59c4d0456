"""The list of families with their variants, and the page of one family with the preview of a variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode

from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.evidence.lint_findings import FindingLine, finding_line
from dashboard.models import Call, Project, RunFacet
from dashboard.renderers.preview import PreviewOptions, ReceiptPreview, read_options, render_preview
from dashboard.renderers.preview_source import (
    PASTE_BYTES,
    InvalidEnvelope,
    NoSource,
    PreviewSource,
    load_source,
    name_samples,
    recent_calls,
)
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, NEXT_CHARS, TextChunk
from dashboard.text.params import parse_integer
from dashboard.variants.render_call import RenderFailed
from dashboard.variants.templates import retired_templates
from dashboard.variants.variant_list import OfferedVariant, offered_by_family, offered_variants
from envelopes.families.base import Family
from envelopes.families.plugins import BrokenPlugin
from envelopes.families.registry import all_families, family, installed_families
from envelopes.variants import installed_variants


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """`ceiling` is the longest receipt of the family's own policy, in characters. `retired` are names of templates."""

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
    """`broken` are installed packages that could not be loaded."""

    families: tuple[FamilyRow, ...]
    broken: tuple[BrokenPlugin, ...]


def load_renderer_list(project: Project) -> RendererList:
    facets = RunFacet.objects.filter(project=project, kind="family").values_list("value")
    uses = {value: (runs, calls) for value, runs, calls in facets.annotate(runs=Count("pk"), calls=Sum("count"))}
    offers = offered_by_family(project)
    retired = [(template.family, template.name) for template in retired_templates(project)]
    rows = []
    for owner in all_families():
        runs, calls = uses.get(owner.name, (0, 0))
        rows.append(
            FamilyRow(
                name=owner.name,
                title=owner.title,
                url=reverse("renderer-detail", args=[owner.name]),
                variants=offers[owner.name],
                retired=tuple(name for family_name, name in retired if family_name == owner.name),
                ceiling=owner.rendering.characters,
                samples=len(owner.samples),
                runs=runs,
                calls=calls,
            )
        )
    return RendererList(families=tuple(rows), broken=(*installed_families().broken, *installed_variants().broken))


@dataclass(frozen=True, kw_only=True)
class SampleName:
    name: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class RefusedPaste:
    """A pasted text and the reason why it is not an envelope."""

    text: str
    reason: str
    path: str
    line: int | None


@dataclass(frozen=True, kw_only=True)
class RendererPage:
    """Without a source, `missing` is the reason, and `missing_href` leads on where that is known.

    What no option changes is computed when the template asks for it: a fragment after a change of an option does not.
    """

    project: Project
    family: Family
    variants: tuple[OfferedVariant, ...]
    source: PreviewSource | None = None
    missing: str = ""
    missing_href: str = ""
    options: PreviewOptions | None = None
    preview: ReceiptPreview | None = None
    failure: str = ""
    findings: tuple[FindingLine, ...] = ()
    refused: RefusedPaste | None = None
    paste_limit: int = PASTE_BYTES

    @cached_property
    def canonical(self) -> TextChunk | None:
        if self.source is None:
            return None
        return json_markup.first_chunk(json_markup.indent_json(self.source.raw), FIRST_CHARS, "data-pointer")

    @cached_property
    def samples(self) -> tuple[SampleName, ...]:
        current = self.source.query.get("sample") if self.source else None
        return tuple(SampleName(name=name, is_current=name == current) for name in name_samples(self.family))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(recent_calls(self.project, self.family))


def load_renderer_page(project: Project, name: str, query: Mapping[str, str]) -> RendererPage:
    """Raises KeyError for an unknown family."""
    owner = family(name)
    variants = offered_variants(project, owner, also=[query.get("variant", ""), query.get("against", "")])
    page = RendererPage(project=project, family=owner, variants=variants)
    try:
        source = load_source(project, owner, query)
    except NoSource as missing:
        return replace(page, missing=str(missing), missing_href=missing.href)
    options = read_options(query, variants, has_recorded=source.recorded is not None)
    page = replace(page, source=source, options=options)
    try:
        preview = render_preview(source, owner, options, variants)
    except RenderFailed as error:
        return replace(page, failure=str(error))
    findings = tuple(finding_line(finding, canonical=finding.pointer) for finding in preview.findings)
    return replace(page, preview=preview, findings=findings)


def load_refused_page(project: Project, name: str, text: str, refusal: InvalidEnvelope) -> RendererPage:
    """The page with the refused text still in its box. Raises KeyError for an unknown family."""
    page = load_renderer_page(project, name, {})
    paste = RefusedPaste(text=text[:PASTE_BYTES], reason=str(refusal), path=refusal.path, line=refusal.line)
    return replace(page, refused=paste)


@dataclass(frozen=True, kw_only=True)
class CanonicalPage:
    """A later window of the canonical half."""

    family: Family
    source: PreviewSource
    window: TextChunk


def load_canonical_page(project: Project, name: str, query: Mapping[str, str]) -> CanonicalPage | None:
    """The window from `?offset=` on, None where that is no number. Raises KeyError for an unknown family, NoSource."""
    start = parse_integer(query.get("offset", "0"))
    if start is None:
        return None
    owner = family(name)
    source = load_source(project, owner, query)
    text = json_markup.indent_json(source.raw)
    window = json_markup.later_chunk(text, min(start, len(text)), NEXT_CHARS)
    return CanonicalPage(family=owner, source=source, window=window)
