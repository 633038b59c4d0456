"""The pages of template variants: the editor with its live output, saving a version, and retiring a template."""

from __future__ import annotations

from dataclasses import replace

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts.access import OperatorRequest
from dashboard.renderers.variant_editor import Draft, EditorPage, load_editor_page
from dashboard.variants.templates import TemplateNotSaved, bring_back, load_versions, retire_template, save_version
from dashboard.views.rendering import render_page

UNPROCESSABLE = 422
NOT_THERE = "There is no such family, template or version."
SOURCES = ("call", "sample", "pasted")  # parameters of the address that name what the draft renders


@require_http_methods(["GET", "HEAD", "POST"])
def editor(request: OperatorRequest, name: str, template: str = "") -> HttpResponse:
    """A post shows the output of the draft; with `save` it stores a version."""
    draft = None
    if request.method == "POST":
        _require_operator(request)
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
    return render_page(request, "renderers/template.html", {"page": page}, partial="output")


@require_POST
def retire(request: OperatorRequest, name: str, template: str) -> HttpResponse:
    """Retires a template, or with `back` offers it again, and redirects to its page."""
    _require_operator(request)
    if not load_versions(request.project, name, template):
        raise Http404(NOT_THERE)
    if "back" in request.POST:
        bring_back(request.project, name, template)
    else:
        retire_template(request.project, name, template, request.user)
    return redirect("template-detail", name, template)


def _require_operator(request: OperatorRequest) -> None:
    if not request.membership.may_write:
        raise PermissionDenied("You may look at this project, but not keep anything in it.")


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
        )
    except TemplateNotSaved as refusal:
        refused = replace(page, problem=str(refusal), problem_line=refusal.line)
        return render(request, "renderers/template.html", {"page": refused}, status=UNPROCESSABLE)
    source = {name: request.GET[name] for name in SOURCES if name in request.GET}
    query = urlencode({**source, "variant": row.name})
    return redirect(f"{reverse('renderer-detail', args=[page.family.name])}?{query}")
