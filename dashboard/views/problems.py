"""The Problems page, and the stored bytes of a refused line."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from dashboard.accounts.access import OperatorRequest
from dashboard.ingest.problem_list import problem_page
from dashboard.text.params import LARGEST
from dashboard.text.responses import sandboxed
from dashboard.views.rendering import render_page


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
