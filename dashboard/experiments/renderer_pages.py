"""The pages of renderers: the list of families, one family with a preview, and the editor of a template variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cached_property
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Sum
from django.urls import reverse

from dashboard.evidence.lint_findings import FindingLine, build_finding_line
from dashboard.experiments.preview import PreviewOptions, ReceiptPreview, read_options, render_preview
from dashboard.experiments.preview_source import (
    PASTE_BYTES,
    InvalidEnvelope,
    NoSource,
    PreviewSource,
    load_source,
    name_samples,
    recent_calls,
)
from dashboard.experiments.stored_comparison import Selection
from dashboard.filters.syntax import Term
from dashboard.models import Call, Project, RetiredTemplate, RunFacet, TemplateVariant
from dashboard.text import json_markup
from dashboard.text.params import parse_integer
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, NEXT_CHARS, TextChunk
from dashboard.variants.render_call import RenderFailed, write_receipt
from dashboard.variants.variant_list import (
    OfferedVariant,
    as_variant,
    load_versions,
    offered_by_family,
    offered_variants,
    retired_templates,
)
from envelopes.families.base import Family
from envelopes.families.plugins import BrokenPlugin
from envelopes.families.registry import all_families, family, installed_families
from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.variants import installed_variants
from envelopes.variants.template import (
    MissingField,
    TemplateRefused,
    TemplateUnanswered,
    check_template,
    find_missing_fields,
)

FIRST_TEMPLATE = """{{ summary_text | headline }}
{% for member in result %}
{{ member[0] }}: {{ member[1] | json }}{% endfor %}
{% for artifact in artifacts %}
{{ artifact.path }}{% endfor %}
"""


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
    since: date | None

    @property
    def runs_url(self) -> str:
        terms = [Term("family", self.name), *([Term("after", self.since.isoformat())] if self.since else [])]
        return f"{reverse('run-list')}?{urlencode({'q': ' '.join(map(str, terms))})}"


@dataclass(frozen=True, kw_only=True)
class RendererList:
    """`broken` are installed packages that could not be loaded. Runs are counted `since` that day; None for all."""

    since: date | None
    families: tuple[FamilyRow, ...]
    broken: tuple[BrokenPlugin, ...]


def load_renderer_list(project: Project) -> RendererList:
    """Counts the last days of a project with more than NEWEST_CALLS."""
    names = [owner.name for owner in all_families()]  # without them PostgreSQL reads the facets of all days
    facets = RunFacet.objects.filter(project=project, kind="family", value__in=names)
    if since := project.calls.find_last_days(settings.NEWEST_CALLS):
        facets = facets.filter(sort_at__gte=datetime.combine(since, time.min, UTC))
    counts = facets.values_list("value").annotate(runs=Count("pk"), calls=Sum("count"))
    uses = {value: (runs, calls) for value, runs, calls in counts}
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
                since=since,
            )
        )
    return RendererList(
        since=since, families=tuple(rows), broken=(*installed_families().broken, *installed_variants().broken)
    )


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
class SameTool:
    """All calls of the tool of a preview; `href` is the form of a comparison under the same variant and budget."""

    tool: str
    calls: int
    href: str


@dataclass(frozen=True, kw_only=True)
class RendererPage:
    """Without a source, `missing` is the reason, and `missing_href` leads on where that is known.

    Properties that no option changes are computed on demand: the fragment after such a change does not use them.
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
    def samples(self) -> tuple[SampleName, ...]:
        current = self.source.query.get("sample") if self.source else None
        return tuple(SampleName(name=name, is_current=name == current) for name in name_samples(self.family))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(recent_calls(self.project, self.family))

    @cached_property
    def same_tool(self) -> SameTool | None:
        """None for samples and pasted envelopes, which no tool was called for."""
        if self.source is None or self.source.call is None or self.options is None:
            return None
        tool = self.source.call.tool
        selection = Selection(query=str(Term("tool", tool)), family=self.family.name)
        form = {"query": selection.query, "family": selection.family, "variant": self.options.chosen.key}
        if self.preview is not None and self.preview.is_bounded:
            form["budget"] = str(self.options.budget)
        address = f"{reverse('comparison-new')}?{urlencode(form)}"
        return SameTool(tool=tool, calls=selection.calls(self.project).count(), href=address)


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
    findings = tuple(build_finding_line(finding, canonical=finding.pointer) for finding in preview.findings)
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


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The fields of the form as they were typed."""

    name: str
    title: str
    source: str
    characters: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class DraftOutput:
    """The text that the template writes, or the reason why it writes nothing; `line` counts from 1.

    `missing` are fields that it names and this result lacks, None where the time of the page did not reach so far.
    """

    window: ReceiptChunk | None = None
    tokens: TokenCount | None = None
    characters: int = 0
    reason: str = ""
    line: int | None = None
    missing: Sequence[MissingField] | None = ()


@dataclass(frozen=True, kw_only=True)
class EditorPage:
    """`version` is the one whose text is in the box, None for a new variant. `source` is what the draft renders."""

    family: Family
    draft: Draft
    version: TemplateVariant | None
    retired: RetiredTemplate | None
    versions: tuple[TemplateVariant, ...]
    source: PreviewSource | None
    output: DraftOutput
    problem: str = ""
    problem_line: int | None = None


def load_editor_page(
    project: Project, name: str, template: str, query: Mapping[str, str], draft: Draft | None = None
) -> EditorPage:
    """The version of `?version=`, or the latest one. Raises KeyError for an unknown family, template or version."""
    owner = family(name)
    versions = load_versions(project, owner.name, template) if template else []
    version = None
    if template:
        number = query.get("version", "")
        version = next((row for row in versions if number in ("", str(row.version))), None)
        if version is None:
            raise KeyError(template)
    if draft is None:
        draft = _first_draft(owner, version)
    source = None
    try:
        source = load_source(project, owner, query)
        output = _render_draft(owner, source, draft)
    except NoSource as missing:
        output = DraftOutput(reason=str(missing))
    retired = retired_templates(project).filter(family=owner.name, name=template)
    return EditorPage(
        family=owner,
        draft=draft,
        version=version,
        retired=retired.select_related("retired_by").first(),
        versions=tuple(versions),
        source=source,
        output=output,
    )


def _first_draft(owner: Family, version: TemplateVariant | None) -> Draft:
    if version is None:
        ceiling = min(owner.rendering.characters, RECEIPT_CHARACTERS)
        return Draft(name="", title="", source=FIRST_TEMPLATE, characters=str(ceiling))
    return Draft(name=version.name, title=version.title, source=version.source, characters=str(version.characters))


def _render_draft(owner: Family, source: PreviewSource, draft: Draft) -> DraftOutput:
    text = draft.source.replace("\r\n", "\n")  # browsers send lines of a textarea with both characters
    try:
        check_template(text)
    except TemplateRefused as refused:
        return DraftOutput(reason=f"{refused.reason}.", line=refused.line)
    ceiling = parse_integer(draft.characters, least=1) or RECEIPT_CHARACTERS
    row = TemplateVariant(
        family=owner.name,
        name="draft",
        version=0,
        title="Draft",
        source=text,
        characters=min(ceiling, RECEIPT_CHARACTERS),
        head_share=owner.rendering.head_share,
        cut_at=owner.rendering.cut_at,
    )
    variant = as_variant(row)
    try:
        receipt = write_receipt(source.canonical, owner, variant, variant.policy)
    except RenderFailed as failed:
        cause = failed.__cause__
        if isinstance(cause, TemplateRefused):
            return DraftOutput(reason=f"{cause.reason}.", line=cause.line)
        return DraftOutput(reason=str(failed))
    missing: Sequence[MissingField] | None
    try:
        missing = find_missing_fields(text, source.canonical)
    except TemplateUnanswered:
        missing = None
    return DraftOutput(
        window=receipt_chunk(receipt, FieldLinks({}), 0, FIRST_CHARS),
        tokens=count_tokens(receipt.text, model=source.model),
        characters=len(receipt.text),
        missing=missing,
    )
