"""The Artifact page and the download. An artifact is found by its id, never by a path."""

from __future__ import annotations

from uuid import UUID

from django.http import FileResponse, Http404, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_GET

from dashboard.access import OperatorRequest
from dashboard.artifact_page import artifact_page
from dashboard.artifact_window import Missing, content_of
from dashboard.models import Artifact
from dashboard.views.calls import INERT_POLICY, file_name
from dashboard.views.rendering import render_page


@require_GET
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = artifact_page(_artifact(request, pk), request.GET)
    return render_page(request, "artifacts/detail.html", {"page": page, "artifact": page.artifact}, partial="window")


@require_GET
def raw(request: OperatorRequest, pk: UUID) -> HttpResponseBase:
    """The whole content as a text file to save; never as a page of ours."""
    artifact = _artifact(request, pk)
    etag = f'"{artifact.sha256}"'
    if artifact.sha256 and request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    try:
        stream = content_of(artifact)
    except Missing:
        raise Http404 from None
    response = FileResponse(stream, as_attachment=True, filename=file_name(artifact.role, artifact.pk, "txt"))
    response["Content-Type"] = "text/plain; charset=utf-8"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = INERT_POLICY
    response["ETag"] = etag
    patch_vary_headers(response, ["Cookie"])
    return response


def _artifact(request: OperatorRequest, pk: UUID) -> Artifact:
    return get_object_or_404(
        request.project.artifacts.select_related("call__run", "call__source", "observation"), pk=pk
    )
