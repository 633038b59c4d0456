"""The pages of renderers: the list of families, the preview of a variant, pasted envelopes, and drifted receipts."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import OperatorRequest
from dashboard.checks.drift import load_drift_list
from dashboard.renderers.preview_source import InvalidEnvelope, NoSource, store_pasted
from dashboard.renderers.renderer_pages import (
    load_canonical_page,
    load_refused_page,
    load_renderer_list,
    load_renderer_page,
)
from dashboard.views.rendering import render_page

UNPROCESSABLE = 422
NO_FAMILY = "There is no such family."


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    return render(request, "renderers/list.html", {"page": load_renderer_list(request.project)})


@require_GET
def drifted(request: OperatorRequest) -> HttpResponse:
    page = load_drift_list(request.project, request.GET)
    return render(request, "renderers/drifted.html", {"page": page})


@require_GET
def detail(request: OperatorRequest, name: str) -> HttpResponse:
    try:
        page = load_renderer_page(request.project, name, request.GET)
    except KeyError:
        raise Http404(NO_FAMILY) from None
    partial = "output" if request.htmx.target == "variant-text" else "workbench"
    return render_page(request, "renderers/detail.html", {"page": page}, partial=partial)


@require_GET
def canonical(request: OperatorRequest, name: str) -> HttpResponse:
    """The window of the canonical half from `?offset=` on, appended to the first one, or a page of its own."""
    try:
        page = load_canonical_page(request.project, name, request.GET)
    except (KeyError, NoSource):
        raise Http404 from None
    if page is None:
        raise Http404
    return render_page(request, "renderers/canonical.html", {"page": page}, partial="window")


@require_POST
def paste(request: OperatorRequest, name: str) -> HttpResponse:
    """Stores a pasted envelope and redirects to its preview, or shows the form again with what is wrong."""
    if not request.membership.may_write:
        raise PermissionDenied("You may look at this project, but not keep anything in it.")
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
    return render(request, "renderers/detail.html", {"page": page}, status=UNPROCESSABLE)
