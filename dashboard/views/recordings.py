"""The import page with its uploads and followed paths, and the Problems page of lines that could not be imported."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.artifacts.upload_folders import UploadsFull, reserve_upload_folder
from dashboard.audit import record_request
from dashboard.ingest.problem_pages import problem_page
from dashboard.ingest.uploads import FolderUpload, UploadRefused, import_uploads
from dashboard.ingest.watch import remove_followed
from dashboard.middleware import accepts_body
from dashboard.models import AuditEntry
from dashboard.text.params import LARGEST
from dashboard.text.responses import sandboxed
from dashboard.views.site import render_page
from envelopes.recordings import RECORDINGS


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    page = problem_page(request.project, request.GET)
    return render_page(request, "problems/list.html", {"page": page}, partial="problems")


@require_safe
def raw(request: OperatorRequest, pk: int) -> HttpResponse:
    """A download that no browser opens as a page."""
    if pk > LARGEST:  # an address may have any number; SQLite raises OverflowError above this
        raise Http404
    problem = get_object_or_404(request.project.problems, pk=pk)
    response = HttpResponse(bytes(problem.raw), content_type="application/octet-stream")
    return sandboxed(response, file_name=f"problem-{problem.pk}.bin")


UNPROCESSABLE, UNAVAILABLE = 422, 503
RETRY_SECONDS = 30


# The check of the CSRF token reads the whole body, so the role is checked first; the token follows in _upload.
@csrf_exempt
@accepts_body("UPLOAD_LIMIT_BYTES")
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: OperatorRequest) -> HttpResponse:
    require_operator(request, "Only operators of the project import recordings.")
    if request.method != "POST":
        return _render_form(request)
    try:
        with reserve_upload_folder(int(request.META.get("CONTENT_LENGTH") or 0)) as folder:
            request.upload_handlers = [FolderUpload(request, folder)]
            response: HttpResponse = _upload(request)
            return response
    except UploadsFull as full:
        response = _render_form(request, str(full), UNAVAILABLE)
        response["Retry-After"] = str(RETRY_SECONDS)
        return response


@csrf_protect
def _upload(request: OperatorRequest) -> HttpResponse:
    try:
        result = import_uploads(request.project, request.FILES.getlist("files"), request.POST.getlist("paths"))
    except UploadRefused as refusal:
        return _render_form(request, str(refusal), UNPROCESSABLE)
    return render_page(request, "runs/imported.html", {"imported": result})


def _render_form(request: OperatorRequest, refusal: str = "", status: int = 200) -> HttpResponse:
    formats = [recording.title for recording in RECORDINGS]
    followed = request.project.followed_paths.order_by("path")
    context = {"refused": refusal, "formats": formats, "limit": settings.UPLOAD_LIMIT_BYTES, "followed": followed}
    return render_page(request, "runs/import.html", context, status=status)


@require_POST
def unfollow(request: OperatorRequest, pk: int) -> HttpResponse:
    """Ends the following of a path; what was imported from it stays."""
    require_operator(request, "Only operators of the project end what is followed.")
    row = get_object_or_404(request.project.followed_paths, pk=pk)
    remove_followed(request.project.slug, [row.path])
    record_request(request, AuditEntry.Action.SETTING, f"path {row.path} no longer followed")
    return redirect("import-new")
