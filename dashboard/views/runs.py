"""The pages of runs: the list and its saved views, one run, what its model saw, its replay, and deleting one."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.ingest.write import delete_run
from dashboard.models import AuditEntry, Run
from dashboard.runs.facet_counts import clear_facet_counts
from dashboard.runs.model_history import load_history, load_message_page, raw_message
from dashboard.runs.replay import ReplayedReceipts, load_replay_page, load_switch
from dashboard.runs.run_detail import RunDetailParams, is_unchanged, load_peek, load_run_page
from dashboard.runs.run_filters import (
    ViewRefused,
    build_view_box,
    create_saved_view,
    load_facet_groups,
    load_saved_views,
)
from dashboard.runs.run_list import RunListParams, build_run_list, find_first_cut
from dashboard.text.params import Params
from dashboard.views.site import render_page

NOTHING_NEW = 204
UNPROCESSABLE = 422


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


@require_POST
def save_view(request: OperatorRequest) -> HttpResponse:
    """Redirects to the saved view, or shows the list again with the reason beside the name."""
    require_operator(request, "Only operators of the project save and delete views.")
    params = RunListParams.from_query(request.POST)
    try:
        name = request.POST.get("name", "")
        view = create_saved_view(request.project, request.user, name=name, text=params.text, sort=params.sort)
    except ViewRefused as refused:
        page = build_run_list(request.project, params)
        views = load_saved_views(request.project)
        context = {
            "page": page,
            "facets": load_facet_groups(request.project, page.query, params.filter_url),
            "peek": None,
            "cut": None,
            "views": build_view_box(views, text=params.text, sort=params.sort, view="", refused=refused),
        }
        return render(request, "runs/list.html", context, status=UNPROCESSABLE)
    return redirect(f"{reverse('run-list')}?view={view.pk}")


@require_POST
def delete_view(request: OperatorRequest, pk: int) -> HttpResponse:
    """Redirects to the list with the filter and sort of the deleted view."""
    require_operator(request, "Only operators of the project save and delete views.")
    view = get_object_or_404(request.project.saved_views, pk=pk)
    view.delete()
    return redirect(reverse("run-list") + RunListParams(view.query, view.sort).url())


@require_safe
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = _get_run(request, pk)
    params = RunDetailParams(request.GET)
    if is_unchanged(run, params):
        return HttpResponse(status=NOTHING_NEW)
    switch = load_switch(run, request.GET, "q", "time", "skip")
    is_next = bool(params.after) and params.since is None
    context = {"page": load_run_page(run, params, switch)}
    return render_page(request, "runs/detail.html", context, partial="rows" if is_next else "live")


@require_safe
def model_view(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = _get_run(request, pk)
    params = Params(request.GET)
    if "message" in params:
        key = params.uuid("message")
        if "raw" in params:
            return raw_message(run, key)
        page = load_message_page(run, key, params.integer("from", default=0))
        return render(request, "runs/message.html", {"page": page})
    switch = load_switch(run, request.GET, "after", "before", "at", "branch", "step")
    history = load_history(
        run,
        after=params.text("after"),
        before=params.text("before"),
        at_end=params.text("at") == "end",
        branch_start=params.integer("branch", default=None),
        step=params.integer("step", default=None),
        replayed=ReplayedReceipts(run, switch.view.replay) if switch.view else None,
    )
    context = {"run": run, "history": history, "switch": switch}
    return render_page(request, "runs/model.html", context, partial="entries")


@require_safe
def replay(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = load_replay_page(_get_run(request, pk), request.GET)
    return render_page(request, "runs/replay.html", {"page": page}, partial="totals")


def _get_run(request: OperatorRequest, pk: UUID) -> Run:
    return get_object_or_404(request.project.runs, pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = get_object_or_404(request.project.runs, pk=pk)
    require_operator(request, "Only operators of the project delete runs.")
    if request.method != "POST":
        return render(request, "runs/delete.html", {"run": run, "child_count": run.children.count()})
    record_request(request, AuditEntry.Action.DELETION, f"run {run.external_id}")
    delete_run(run)
    clear_facet_counts(request.project)
    return redirect("run-list")
