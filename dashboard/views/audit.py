"""The audit log, and the reveals that it records: the page of one call or artifact without masks."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import EXPORTS, record_request
from dashboard.models import AuditEntry, Call
from dashboard.models.runs import step_url
from dashboard.text.masks import masking
from dashboard.text.responses import sandboxed
from dashboard.views import artifacts, workspace
from dashboard.views.site import render_page
from dashboard.workspace.steps import load_place

ROWS = 200
REFUSAL = "Only operators of the project open the audit log."


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    require_operator(request, REFUSAL)
    entries = AuditEntry.objects.of_project(request.project)
    context = {"entries": entries[:ROWS], "total": entries.count(), "shown": ROWS}
    return render_page(request, "accounts/audit.html", context)


@require_safe
def export(request: OperatorRequest, form: str) -> HttpResponse:
    """All entries as CSV or JSON lines, the newest first."""
    require_operator(request, REFUSAL)
    if form not in EXPORTS:
        raise Http404
    content_type, export_entries = EXPORTS[form]
    return sandboxed(
        HttpResponse(export_entries(request.project), content_type=f"{content_type}; charset=utf-8"),
        file_name=f"audit.{form}",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def reveal_step(request: OperatorRequest, pk: UUID, position: int, tab: str) -> HttpResponseBase:
    place = load_place(get_object_or_404(request.project.runs, pk=pk), position, tab, request.GET)
    if place is None:
        raise Http404
    if request.method != "POST":
        return _back(request, step_url(pk, position, tab))
    call = Call.objects.get(pk=place.call)
    return _reveal(request, f"call {call.external_id} ({call.pk})", lambda: workspace.step(request, pk, position, tab))


@require_http_methods(["GET", "HEAD", "POST"])
def reveal_artifact(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """The page, or with `download` in the form the file itself."""
    artifact = get_object_or_404(request.project.artifacts, pk=pk)
    if request.method != "POST":
        return _back(request, artifact.get_absolute_url())
    view = artifacts.raw if "download" in request.POST else artifacts.detail
    what = "download of artifact" if "download" in request.POST else "artifact"
    return _reveal(request, f"{what} {artifact.role} ({pk})", lambda: view(request, pk))


def _back(request: OperatorRequest, address: str) -> HttpResponse:
    """Links of a revealed page lead to the masked one."""
    query = request.GET.urlencode()
    return redirect(f"{address}{'?' if query else ''}{query}")


def _reveal(request: OperatorRequest, subject: str, render_page: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    require_operator(request, "Only operators of the project reveal what is masked.")
    record_request(request, AuditEntry.Action.REVEAL, subject)
    request.method = "GET"
    with masking(None):
        response = render_page()
    response.is_revealed = True  # type: ignore[attr-defined]
    return response
