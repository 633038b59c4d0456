"""What could not be taken in."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from dashboard.accounts.access import OperatorRequest
from dashboard.ingest.problem_list import BIGGEST_ID, problem_page
from dashboard.text.responses import sandboxed
from dashboard.views.rendering import render_page


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    page = problem_page(request.project, request.GET.dict())
    return render_page(request, "problems/list.html", {"page": page}, partial="problems")


@require_safe
def raw(request: OperatorRequest, pk: int) -> HttpResponse:
    """The stored bytes as a download that no browser opens as a page of ours."""
    if pk > BIGGEST_ID:
        raise Http404
    problem = get_object_or_404(request.project.problems, pk=pk)
    response = HttpResponse(bytes(problem.raw), content_type="application/octet-stream")
    return sandboxed(response, file_name=f"problem-{problem.pk}.bin")
