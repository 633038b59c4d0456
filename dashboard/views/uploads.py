"""Recordings from the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from dashboard.accounts.access import OperatorRequest
from dashboard.ingest.uploads import Refused, import_uploads, limit_bytes
from dashboard.text.formatting import format_size
from envelopes.recordings import RECORDINGS

TOO_LARGE, UNPROCESSABLE = 413, 422


# The token's check reads the body, so what must hold before that is asked first; the check itself follows.
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: OperatorRequest) -> HttpResponse:
    if not request.membership.may_write:
        raise PermissionDenied("You may look at this project's runs, but not add to them.")
    length = request.META.get("CONTENT_LENGTH") or "0"
    if request.method == "POST" and (not length.isdecimal() or int(length) > limit_bytes()):
        size = f"has {format_size(int(length))}" if length.isdecimal() else "does not say its size"
        refused = f"This upload {size}; at most {format_size(limit_bytes())} are taken at once."
        return _form(request, {"refused": refused}, TOO_LARGE)
    response: HttpResponse = _take(request)
    return response


@csrf_protect
def _take(request: OperatorRequest) -> HttpResponse:
    if request.method != "POST":
        return _form(request, {"refused": ""})
    try:
        imported = import_uploads(request.project, request.FILES.getlist("files"), request.POST.getlist("paths"))
    except Refused as error:
        return _form(request, {"refused": str(error)}, UNPROCESSABLE)
    return render(request, "runs/imported.html", {"imported": imported})


def _form(request: OperatorRequest, context: Mapping[str, Any], status: int = 200) -> HttpResponse:
    formats = [form.title for form in RECORDINGS]
    return render(request, "runs/import.html", {**context, "formats": formats, "limit": limit_bytes()}, status=status)
