"""The audit log, and the reveals that it records: the page of one call or artifact without masks."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from uuid import UUID

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, record_audit, require_operator
from dashboard.models import Artifact, AuditEntry, Call
from dashboard.text.masks import masking
from dashboard.text.responses import sandboxed
from dashboard.views import artifacts, calls

ROWS = 200
COLUMNS = ("at", "person", "client", "action", "subject")
REFUSAL = "Only operators of the project open the audit log."
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\0")


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
    rows = AuditEntry.objects.of_project(request.project).values_list(*COLUMNS)
    if form == "csv":
        return sandboxed(HttpResponse(_csv(rows), content_type="text/csv; charset=utf-8"), file_name="audit.csv")
    if form != "jsonl":
        raise Http404
    lines = (json.dumps(dict(zip(COLUMNS, (row[0].isoformat(), *row[1:]), strict=True))) + "\n" for row in rows)
    content_type = "application/x-ndjson; charset=utf-8"
    return sandboxed(HttpResponse("".join(lines), content_type=content_type), file_name="audit.jsonl")


def _csv(rows: Iterable[tuple[object, ...]]) -> str:
    """Texts that a spreadsheet would compute begin with an apostrophe (reliability.md class 40)."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for row in rows:
        texts = [str(value) for value in row]
        writer.writerow([f"'{text}" if text.startswith(FORMULA) else text for text in texts])
    return file.getvalue()


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
    record_audit(request, AuditEntry.Action.REVEAL, subject)
    request.method = "GET"
    with masking(None):
        response = render_page()
    response.is_revealed = True  # type: ignore[attr-defined]
    return response
