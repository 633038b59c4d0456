"""The list of runs, and deleting one. The pages of a single run are in `run_pages`."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts.access import OperatorRequest
from dashboard.ingest.deletion import delete_run
from dashboard.runs.facets import forget_counts
from dashboard.runs.peek import peek_at
from dashboard.runs.run_list import ListState, run_page, sidebar
from dashboard.runs.saved_views import saved_views, view_box
from dashboard.views.rendering import render_page
from dashboard.views.run_pages import detail, model_view, replay

__all__ = ["delete", "detail", "index", "model_view", "replay"]


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    # The rows alone are fetched by an address that spells the filter out.
    views = [] if request.htmx and "view" not in request.GET else saved_views(request.project)
    state = ListState.from_address(request.GET, views)
    peek = peek_at(request.project, state.peek, state.without_peek)
    if request.htmx and request.htmx.target == "peek":
        response = render(request, "runs/_peek.html", {"peek": peek})
        patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response
    page = run_page(request.project, state)
    if request.htmx and state.seen == page.digest:
        return HttpResponse(status=204)
    box = view_box(views, text=state.text, sort=state.sort, asked=request.GET.get("view", ""))
    facets = [] if request.htmx else sidebar(request.project, page)
    context = {"page": page, "facets": facets, "peek": peek, "views": box}
    return render_page(request, "runs/list.html", context, partial="rows")


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(request.project.runs, pk=pk)
    if not request.membership.may_write:
        raise PermissionDenied("Only operators of the project delete runs.")
    if request.method != "POST":
        return render(request, "runs/delete.html", {"run": run, "child_count": run.children.count()})
    delete_run(run)
    forget_counts(request.project)
    return redirect("run-list")
