"""The pages of renderers: the preview of a family, drifted receipts, and the editor of template variants."""

from __future__ import annotations

from dataclasses import replace

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.experiments.drift import load_drift_list
from dashboard.experiments.preview_source import InvalidEnvelope, NoSource, store_pasted
from dashboard.experiments.renderer_pages import (
    Draft,
    EditorPage,
    load_canonical_page,
    load_editor_page,
    load_refused_page,
    load_renderer_page,
)
from dashboard.middleware import accepts_body
from dashboard.variants.variant_list import TemplateNotSaved, bring_back, load_versions, retire_template, save_version
from dashboard.views.site import render_page

UNPROCESSABLE = 422
NO_FAMILY = "There is no such family."
LOOK_ONLY = "Only operators of the project store pasted results and templates."


@require_safe
def drifted(request: OperatorRequest) -> HttpResponse:
    page = load_drift_list(request.project, request.GET)
    return render_page(request, "experiments/drifted.html", {"page": page})


@require_safe
def detail(request: OperatorRequest, name: str) -> HttpResponse:
    try:
        page = load_renderer_page(request.project, name, request.GET)
    except KeyError:
        raise Http404(NO_FAMILY) from None
    partial = "output" if request.htmx.target == "variant-text" else "workbench"
    return render_page(request, "experiments/renderer.html", {"page": page}, partial=partial)


@require_safe
def canonical(request: OperatorRequest, name: str) -> HttpResponse:
    """The window of the canonical half from `?offset=` on, appended to the first one, or a page of its own."""
    try:
        page = load_canonical_page(request.project, name, request.GET)
    except (KeyError, NoSource):
        raise Http404 from None
    if page is None:
        raise Http404
    return render_page(request, "experiments/canonical.html", {"page": page}, partial="window")


@accepts_body("TEXT_BODY_LIMIT_BYTES")
@require_POST
def paste(request: OperatorRequest, name: str) -> HttpResponse:
    """Stores a pasted envelope and redirects to its preview, or shows the form again with what is wrong."""
    require_operator(request, LOOK_ONLY)
    text = request.POST.get("envelope", "")
    try:
        sha256 = store_pasted(request.project, text)
    except InvalidEnvelope as refusal:
        return _refuse(request, name, text, refusal)
    return redirect(f"{reverse('renderer-detail', args=[name])}?pasted={sha256}")


def _refuse(request: OperatorRequest, name: str, text: str, refusal: InvalidEnvelope) -> HttpResponse:
    try:
        page = load_refused_page(request.project, name, text, refusal)
    except KeyError:
        raise Http404(NO_FAMILY) from None
    return render_page(request, "experiments/renderer.html", {"page": page}, status=UNPROCESSABLE)


NOT_THERE = "There is no such family, template or version."
SOURCES = ("call", "sample", "pasted")  # parameters of the address that name what the draft renders


@accepts_body("TEXT_BODY_LIMIT_BYTES")
@require_http_methods(["GET", "HEAD", "POST"])
def editor(request: OperatorRequest, name: str, template: str = "") -> HttpResponse:
    """A post shows the output of the draft; with `save` it stores a version."""
    draft = None
    if request.method == "POST":
        require_operator(request, LOOK_ONLY)
        form = request.POST
        draft = Draft(
            name=template or form.get("name", "").strip(),
            title=form.get("title", ""),
            source=form.get("source", ""),
            characters=form.get("characters", "").strip(),
            note=form.get("note", ""),
        )
    try:
        page = load_editor_page(request.project, name, template, request.GET, draft)
    except KeyError:
        raise Http404(NOT_THERE) from None
    if draft is not None and "save" in request.POST:
        return _save(request, page, draft)
    return render_page(request, "experiments/template.html", {"page": page}, partial="output")


@require_POST
def retire(request: OperatorRequest, name: str, template: str) -> HttpResponse:
    """Retires a template, or with `back` offers it again, and redirects to its page."""
    require_operator(request, LOOK_ONLY)
    if not load_versions(request.project, name, template):
        raise Http404(NOT_THERE)
    if "back" in request.POST:
        bring_back(request.project, name, template)
    else:
        retire_template(request.project, name, template, request.user)
    return redirect("template-detail", name, template)


def _save(request: OperatorRequest, page: EditorPage, draft: Draft) -> HttpResponse:
    try:
        row = save_version(
            request.project,
            page.family,
            request.user,
            name=draft.name,
            title=draft.title,
            source=draft.source,
            characters=draft.characters,
            note=draft.note,
            is_new=page.version is None,
        )
    except TemplateNotSaved as refusal:
        refused = replace(page, problem=str(refusal), problem_line=refusal.line)
        return render_page(request, "experiments/template.html", {"page": refused}, status=UNPROCESSABLE)
    source = {name: request.GET[name] for name in SOURCES if name in request.GET}
    query = urlencode({**source, "variant": row.name})
    return redirect(f"{reverse('renderer-detail', args=[page.family.name])}?{query}")
