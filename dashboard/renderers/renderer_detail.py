"""One family's renderer page: what to write about, under which knobs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dashboard.evidence.lint_findings import FindingLine, finding_line
from dashboard.models import Call, Project
from dashboard.renderers.preview import Preview, preview
from dashboard.renderers.preview_options import Knobs, knobs
from dashboard.renderers.preview_pasted import LIMIT, Refused
from dashboard.renderers.preview_source import NoSubject, SampleName, Subject, recent_calls, sample_outputs, subject
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, NEXT_CHARS, TextChunk
from dashboard.variants.render_call import RenderFailed
from dashboard.variants.variant_list import OfferedVariant, offered_variants
from envelopes.families.base import Family
from envelopes.families.registry import family


@dataclass(frozen=True, kw_only=True)
class RefusedPaste:
    """What was pasted and why it is no envelope."""

    text: str
    reason: str
    path: str
    line: int | None


@dataclass(frozen=True, kw_only=True)
class RendererPage:
    """Without a subject `missing` says why, and `missing_href` leads on where that is known.

    What no knob changes is made when it is asked for: a fragment of a turn asks for none of it.
    """

    project: Project
    family: Family
    variants: tuple[OfferedVariant, ...]
    subject: Subject | None
    missing: str
    missing_href: str
    knobs: Knobs | None
    preview: Preview | None
    failure: str
    findings: tuple[FindingLine, ...]
    paste_limit: int
    refused: RefusedPaste | None = None

    @cached_property
    def canonical(self) -> TextChunk | None:
        if self.subject is None:
            return None
        return json_markup.head(json_markup.pretty(self.subject.raw), FIRST_CHARS, "data-pointer")

    @cached_property
    def samples(self) -> tuple[SampleName, ...]:
        current = self.subject.named.get("sample") if self.subject else None
        return tuple(SampleName(name=one, is_current=one == current) for one in sample_outputs(self.family))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(recent_calls(self.project, self.family))


@dataclass(frozen=True, kw_only=True)
class CanonicalPage:
    """A later window of the canonical half."""

    family: Family
    subject: Subject
    window: TextChunk


def canonical_page(project: Project, name: str, query: Mapping[str, str], start: int) -> CanonicalPage:
    """Raises KeyError for an unknown family, and NoSubject."""
    owner = family(name)
    shown = subject(project, owner, query)
    text = json_markup.pretty(shown.raw)
    window = json_markup.rest(text, min(start, len(text)), NEXT_CHARS)
    return CanonicalPage(family=owner, subject=shown, window=window)


def renderer_page(project: Project, name: str, query: Mapping[str, str]) -> RendererPage:
    """Raises KeyError for an unknown family."""
    owner = family(name)
    variants = offered_variants(project, owner, also=[query.get("variant", ""), query.get("against", "")])
    empty = RendererPage(
        project=project,
        family=owner,
        variants=variants,
        subject=None,
        missing="",
        missing_href="",
        knobs=None,
        preview=None,
        failure="",
        findings=(),
        paste_limit=LIMIT,
    )
    try:
        shown = subject(project, owner, query)
    except NoSubject as missing:
        return replace(empty, missing=str(missing), missing_href=missing.href)
    return _with_preview(empty, shown, query)


def refused_page(project: Project, name: str, text: str, refusal: Refused) -> RendererPage:
    """The page with what was pasted still in its box. Raises KeyError for an unknown family."""
    page = renderer_page(project, name, {})
    said = RefusedPaste(text=text[:LIMIT], reason=str(refusal), path=refusal.path, line=refusal.line)
    return replace(page, refused=said)


def _with_preview(page: RendererPage, shown: Subject, query: Mapping[str, str]) -> RendererPage:
    turned = knobs(query, page.variants, has_recorded=shown.recorded is not None)
    found, failure = None, ""
    try:
        found = preview(shown, page.family, turned, page.variants)
    except RenderFailed as error:
        failure = str(error)
    return replace(
        page,
        subject=shown,
        knobs=turned,
        preview=found,
        failure=failure,
        findings=tuple(finding_line(one, canonical=one.pointer) for one in found.findings) if found else (),
    )
