"""The list of runs, two runs beside each other, and deleting one. `views/workspace.py` shows a run."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.filters.saved_views import build_view_box, load_saved_views
from dashboard.ingest.delete_runs import delete_run
from dashboard.models import AuditEntry, Run
from dashboard.runs.facet_counts import clear_facet_counts
from dashboard.runs.run_comparison import (
    RunComparisonParams,
    find_original,
    load_chosen,
    load_run_comparison,
)
from dashboard.runs.run_detail import load_peek
from dashboard.runs.run_filters import load_facet_groups
from dashboard.runs.run_list import RunListParams, build_run_list, find_first_cut
from dashboard.runs.run_pair import load_pair
from dashboard.text.params import Params
from dashboard.views.site import render_page

NOTHING_NEW = 204


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    # Requests for the rows alone have the filter in their address, never a saved view.
    views = [] if request.htmx and "view" not in request.GET else load_saved_views(request.project)
    params = RunListParams.from_query(request.GET, views)
    peek = None
    if request.GET.get("peek"):
        peek = load_peek(request.project, Params(request.GET).uuid("peek"), params.page_url)
    if request.htmx and request.htmx.target == "peek":
        response = render(request, "runs/_peek.html", {"peek": peek})
        patch_vary_headers(response, ["HX-Request", "HX-Target"])
        return response
    page = build_run_list(request.project, params)
    if request.htmx and params.seen == page.digest:
        return HttpResponse(status=NOTHING_NEW)
    box = build_view_box(views, text=params.text, sort=params.sort, view=request.GET.get("view", ""))
    facets = [] if request.htmx else load_facet_groups(request.project, page.query, params.filter_url)
    cut = None if request.htmx else find_first_cut(request.project, page.query)
    context = {"page": page, "facets": facets, "peek": peek, "views": box, "cut": cut}
    return render_page(request, "runs/list.html", context, partial="rows")


@require_safe
def against(request: OperatorRequest, pk: UUID, other: UUID) -> HttpResponse:
    """Two runs call by call, or with `pair` the two calls of one row."""
    runs = request.project.runs
    params = RunComparisonParams(request.GET)
    page = load_run_comparison(get_object_or_404(runs, pk=pk), get_object_or_404(runs, pk=other), params)
    if params.pair is None:
        return render_page(request, "runs/against.html", {"page": page})
    pair = load_pair(page, request.project)
    if pair is None:
        raise Http404
    return render_page(request, "runs/against_pair.html", {"page": pair})


@require_safe
def against_chosen(request: OperatorRequest) -> HttpResponse:
    """Leads from two checked runs of the list to the page that compares them, the older one on the left."""
    keys = Params(request.GET).uuids("run", request.GET.getlist("run"))
    runs = load_chosen(request.project, keys)
    if len(runs) == 2:
        return redirect("run-against", *(run.pk for run in runs))
    return render_page(request, "runs/against_chosen.html", {"number": len(keys)})


@require_safe
def against_original(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = _get_run(request, pk)
    original = find_original(run)
    if original is None:
        raise Http404
    return redirect("run-against", original.pk, run.pk)


def _get_run(request: OperatorRequest, pk: UUID) -> Run:
    return get_object_or_404(request.project.runs, pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(request.project.runs, pk=pk)
    require_operator(request, "Only operators of the project delete runs.")
    if request.method != "POST":
        return render_page(request, "runs/delete.html", {"run": run, "child_count": run.children.count()})
    record_request(request, AuditEntry.Action.DELETION, f"run {run.external_id}")
    delete_run(run)
    clear_facet_counts(request.project)
    return redirect("run-list")
