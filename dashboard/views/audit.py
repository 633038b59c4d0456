"""The audit log, and the reveals that it records: the page of one call or artifact without masks."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import EXPORTS, record_request
from dashboard.models import Artifact, AuditEntry, Call
from dashboard.text.masks import masking
from dashboard.text.responses import sandboxed
from dashboard.views import artifacts, calls

ROWS = 200
REFUSAL = "Only operators of the project open the audit log."


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    require_operator(request, REFUSAL)
    entries = AuditEntry.objects.of_project(request.project)
    context = {"entries": entries[:ROWS], "total": entries.count(), "shown": ROWS}
    return render(request, "accounts/audit.html", context)


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
def reveal_call(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    call = get_object_or_404(request.project.calls, pk=pk)
    if request.method != "POST":
        return _back(request, "call-detail", call)
    return _reveal(request, f"call {call.external_id} ({pk})", lambda: calls.detail(request, pk))


@require_http_methods(["GET", "HEAD", "POST"])
def reveal_artifact(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """The page, or with `download` in the form the file itself."""
    artifact = get_object_or_404(request.project.artifacts, pk=pk)
    if request.method != "POST":
        return _back(request, "artifact-detail", artifact)
    view = artifacts.raw if "download" in request.POST else artifacts.detail
    what = "download of artifact" if "download" in request.POST else "artifact"
    return _reveal(request, f"{what} {artifact.role} ({pk})", lambda: view(request, pk))


def _back(request: OperatorRequest, name: str, shown: Call | Artifact) -> HttpResponse:
    """Links of a revealed page lead to the masked one."""
    query = request.GET.urlencode()
    return redirect(f"{reverse(name, args=[shown.pk])}{'?' if query else ''}{query}")


def _reveal(request: OperatorRequest, subject: str, render_page: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    require_operator(request, "Only operators of the project reveal what is masked.")
    record_request(request, AuditEntry.Action.REVEAL, subject)
    request.method = "GET"
    with masking(None):
        response = render_page()
    response.is_revealed = True  # type: ignore[attr-defined]
    return response
