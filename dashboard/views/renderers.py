"""How each family speaks to the model: the list, one family's preview, and what is pasted into it."""

from __future__ import annotations

import re
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import OperatorRequest
from dashboard.calls.call_variants import load_variant_strip
from dashboard.checks.drift import load_drift_list
from dashboard.renderers import preview_pasted
from dashboard.renderers.preview_source import NoSubject
from dashboard.renderers.renderer_detail import canonical_page, refused_page, renderer_page
from dashboard.renderers.renderer_list import renderer_list
from dashboard.views.rendering import render_page

UNPROCESSABLE = 422
NO_FAMILY = "There is no such family."


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    return render(request, "renderers/list.html", {"page": renderer_list(request.project)})


@require_GET
def drifted(request: OperatorRequest) -> HttpResponse:
    page = load_drift_list(request.project, request.GET)
    return render(request, "renderers/drifted.html", {"page": page})


@require_GET
def detail(request: OperatorRequest, name: str) -> HttpResponse:
    try:
        page = renderer_page(request.project, name, request.GET.dict())
    except KeyError:
        raise Http404(NO_FAMILY) from None
    partial = "turned" if request.htmx.target == "written" else "workbench"
    return render_page(request, "renderers/detail.html", {"page": page}, partial=partial)


@require_GET
def canonical(request: OperatorRequest, name: str) -> HttpResponse:
    """The window of the canonical half from `?offset=` on, to be put behind the first, or to be read by itself."""
    offset = request.GET.get("offset", "0")
    if not re.fullmatch(r"[0-9]{1,15}", offset):
        raise Http404
    try:
        page = canonical_page(request.project, name, request.GET, int(offset))
    except (KeyError, NoSubject):
        raise Http404 from None
    return render_page(request, "renderers/canonical.html", {"page": page}, partial="window")


@require_GET
def strip(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """A call under all variants of its family: a fragment of the Call page, and a page of its own."""
    call = get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)
    shown = load_variant_strip(request.project, call, request.GET)
    return render_page(request, "renderers/strip.html", {"call": call, "strip": shown}, partial="strip")


@require_POST
def paste(request: OperatorRequest, name: str) -> HttpResponse:
    """An envelope to look at; the answer leads to its preview, or back to the box with what is wrong in it."""
    if not request.membership.may_write:
        raise PermissionDenied("You may look at this project, but not keep anything in it.")
    text = request.POST.get("envelope", "")
    try:
        sha256 = preview_pasted.keep(request.project, text)
    except preview_pasted.Refused as refusal:
        return _refused(request, name, text, refusal)
    return redirect(f"{reverse('renderer-detail', args=[name])}?pasted={sha256}")


def _refused(request: OperatorRequest, name: str, text: str, refusal: preview_pasted.Refused) -> HttpResponse:
    try:
        page = refused_page(request.project, name, text, refusal)
    except KeyError:
        raise Http404(NO_FAMILY) from None
    return render(request, "renderers/detail.html", {"page": page}, status=UNPROCESSABLE)
