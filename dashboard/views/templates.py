"""Variants that operators write: the editor, its live preview, and the saving of a version."""

from __future__ import annotations

from dataclasses import replace

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts.access import OperatorRequest
from dashboard.renderers.variant_editor import Draft, EditorPage, editor_page
from dashboard.variants.templates import TemplateNotSaved, bring_back, load_versions, save_version
from dashboard.variants.templates import retire as set_aside
from dashboard.views.rendering import render_page

UNPROCESSABLE = 422
NOT_THERE = "There is no such family, template or version."


@require_http_methods(["GET", "HEAD", "POST"])
def editor(request: OperatorRequest, name: str, template: str = "") -> HttpResponse:
    """A post shows what the draft yields; with `save` it becomes a version."""
    if request.method == "POST":
        _require_operator(request)
    draft = _draft(request, template) if request.method == "POST" else None
    try:
        page = editor_page(request.project, name, template, request.GET.dict(), draft)
    except KeyError:
        raise Http404(NOT_THERE) from None
    if draft is not None and "save" in request.POST:
        return _save(request, page, draft)
    return render_page(request, "renderers/template.html", {"page": page}, partial="yielded")


@require_POST
def retire(request: OperatorRequest, name: str, template: str) -> HttpResponse:
    """Out of the lists of choice, or with `back` into them again. The answer is the template's page."""
    _require_operator(request)
    if not load_versions(request.project, name, template):
        raise Http404(NOT_THERE)
    if "back" in request.POST:
        bring_back(request.project, name, template)
    else:
        set_aside(request.project, name, template, request.user)
    return redirect("template-detail", name, template)


def _require_operator(request: OperatorRequest) -> None:
    if not request.membership.may_write:
        raise PermissionDenied("You may look at this project, but not keep anything in it.")


def _draft(request: OperatorRequest, template: str) -> Draft:
    said = request.POST
    return Draft(
        name=template or said.get("name", "").strip(),
        title=said.get("title", ""),
        source=said.get("source", ""),
        characters=said.get("characters", "").strip(),
        note=said.get("note", ""),
    )


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
    except TemplateNotSaved as refused:
        told = replace(page, problem=str(refused), problem_line=refused.line)
        return render(request, "renderers/template.html", {"page": told}, status=UNPROCESSABLE)
    kept = {key: request.GET.get(key, "") for key in ("call", "sample", "pasted") if key in request.GET}
    query = urlencode({**kept, "variant": row.name})
    return redirect(f"{reverse('renderer-detail', args=[page.family.name])}?{query}")
