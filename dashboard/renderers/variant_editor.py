"""The page on which a template variant is written, with what it yields for one subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dashboard.models import Project, RetiredTemplate, TemplateVariant
from dashboard.renderers.preview_source import NoSubject, Subject, subject
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from dashboard.variants.render_call import RenderFailed, write_receipt
from dashboard.variants.templates import as_variant, load_versions, retired_templates
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.variants.template import TemplateRefused, check_template

BEGINNING = """{{ summary_text | headline }}
{% for member in result %}
{{ member[0] }}: {{ member[1] | json }}{% endfor %}
{% for artifact in artifacts %}
{{ artifact.path }}{% endfor %}
"""


@dataclass(frozen=True, kw_only=True)
class Draft:
    name: str
    title: str
    source: str
    characters: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Yielded:
    """What the template writes for the subject, or why it does not; `line` counts from 1."""

    window: ReceiptWindow | None = None
    tokens: TokenCount | None = None
    characters: int = 0
    reason: str = ""
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class EditorPage:
    """`shown` is the version whose text stands in the box, None for a new variant; `retired` when it was.

    `about` is the subject that it is tried on, None where there is none.
    """

    family: Family
    draft: Draft
    shown: TemplateVariant | None
    retired: RetiredTemplate | None
    versions: tuple[TemplateVariant, ...]
    about: Subject | None
    yielded: Yielded
    problem: str = ""
    problem_line: int | None = None

    @cached_property
    def canonical(self) -> TextChunk | None:
        """What the template can say: made when it is asked for, as no letter that is typed changes it."""
        if self.about is None:
            return None
        return json_markup.head(json_markup.pretty(self.about.raw), FIRST_CHARS, "data-pointer")


def editor_page(
    project: Project, name: str, template: str, query: Mapping[str, str], draft: Draft | None = None
) -> EditorPage:
    """Raises KeyError for an unknown family, template or version."""
    owner = family(name)
    rows = load_versions(project, owner.name, template) if template else []
    shown = _version(rows, query.get("version", "")) if template else None
    draft = draft or _draft(owner, shown)
    about, missing = _about(project, owner, query)
    yielded = _yielded(owner, about, draft) if about else Yielded(reason=missing)
    gone = retired_templates(project).filter(family=owner.name, name=template).select_related("retired_by").first()
    return EditorPage(
        family=owner,
        draft=draft,
        shown=shown,
        retired=gone,
        versions=tuple(rows),
        about=about,
        yielded=yielded,
    )


def _version(rows: list[TemplateVariant], wanted: str) -> TemplateVariant:
    found = next((row for row in rows if wanted in ("", str(row.version))), None)
    if found is None:
        raise KeyError(wanted)
    return found


def _draft(owner: Family, shown: TemplateVariant | None) -> Draft:
    if shown is None:
        ceiling = min(owner.rendering.characters, RECEIPT_CHARACTERS)
        return Draft(name="", title="", source=BEGINNING, characters=str(ceiling))
    return Draft(name=shown.name, title=shown.title, source=shown.source, characters=str(shown.characters))


def _about(project: Project, owner: Family, query: Mapping[str, str]) -> tuple[Subject | None, str]:
    try:
        return subject(project, owner, query), ""
    except NoSubject as missing:
        return None, str(missing)


def _yielded(owner: Family, about: Subject, draft: Draft) -> Yielded:
    source = draft.source.replace("\r\n", "\n")
    try:
        check_template(source)
    except TemplateRefused as refused:
        return Yielded(reason=f"{refused.reason}.", line=refused.line)
    ceiling = int(draft.characters) if draft.characters.isdigit() and len(draft.characters) < 6 else 0
    row = TemplateVariant(
        family=owner.name,
        name="draft",
        version=0,
        title="Draft",
        source=source,
        characters=min(ceiling or RECEIPT_CHARACTERS, RECEIPT_CHARACTERS),
        head_share=owner.rendering.head_share,
        cut_at=owner.rendering.cut_at,
    )
    variant = as_variant(row)
    try:
        receipt = write_receipt(about.canonical, owner, variant, variant.policy)
    except RenderFailed as failed:
        cause = failed.__cause__
        line = cause.line if isinstance(cause, TemplateRefused) else None
        reason = f"{cause.reason}." if isinstance(cause, TemplateRefused) else str(failed)
        return Yielded(reason=reason, line=line)
    return Yielded(
        window=receipt_window(receipt, Links({}), 0, FIRST_CHARS),
        tokens=count_tokens(receipt.text, model=about.model),
        characters=len(receipt.text),
    )
