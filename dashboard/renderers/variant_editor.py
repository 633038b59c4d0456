"""The page on which a template variant is written, with the text that it renders for one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dashboard.models import Project, RetiredTemplate, TemplateVariant
from dashboard.renderers.preview_source import NoSource, PreviewSource, load_source
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.params import parse_integer
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.variants.render_call import RenderFailed, write_receipt
from dashboard.variants.templates import as_variant, load_versions, retired_templates
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.variants.template import TemplateRefused, check_template

FIRST_TEMPLATE = """{{ summary_text | headline }}
{% for member in result %}
{{ member[0] }}: {{ member[1] | json }}{% endfor %}
{% for artifact in artifacts %}
{{ artifact.path }}{% endfor %}
"""


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
    """What the template writes, or the reason why it writes nothing; `line` counts from 1."""

    window: ReceiptChunk | None = None
    tokens: TokenCount | None = None
    characters: int = 0
    reason: str = ""
    line: int | None = None


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

    @cached_property
    def canonical(self) -> TextChunk | None:
        """What a template can use. Computed when the template asks for it: it stays the same while one types."""
        if self.source is None:
            return None
        return json_markup.first_chunk(json_markup.indent_json(self.source.raw), FIRST_CHARS, "data-pointer")


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
    return DraftOutput(
        window=receipt_chunk(receipt, FieldLinks({}), 0, FIRST_CHARS),
        tokens=count_tokens(receipt.text, model=source.model),
        characters=len(receipt.text),
    )
