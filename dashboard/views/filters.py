"""The completions of a filter box, and the saved views of the Runs and the Calls page."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.calls.call_table import CallTableParams, load_call_table
from dashboard.filters.keys import Over
from dashboard.filters.language import MAX_CHARACTERS
from dashboard.filters.names import complete
from dashboard.filters.saved_views import ViewRefused, build_view_box, create_saved_view, load_saved_views
from dashboard.models import SavedView
from dashboard.runs.run_filters import load_facet_groups
from dashboard.runs.run_list import RunListParams, build_run_list
from dashboard.text.params import Params
from dashboard.views.site import render_page

REFUSAL = "Only operators of the project save and delete views."
UNPROCESSABLE = 422


@require_safe
def completions(request: OperatorRequest) -> HttpResponse:
    params = Params(request.GET)
    text = params.text("q", longest=MAX_CHARACTERS, strip=False)
    at = params.integer("at", default=len(text), most=len(text))
    return render(request, "filters/_completions.html", {"completions": complete(request.project, text, at)})


@require_POST
def save_view(request: OperatorRequest) -> HttpResponse:
    """Redirects to the saved view, or shows the list again with the reason beside the name."""
    require_operator(request, REFUSAL)
    over: Over = "calls" if request.POST.get("over") == "calls" else "runs"
    params = CallTableParams(request.POST) if over == "calls" else RunListParams.from_query(request.POST)
    name, text = request.POST.get("name", ""), params.q if isinstance(params, CallTableParams) else params.text
    try:
        view = create_saved_view(request.project, request.user, name=name, text=text, sort=params.sort, over=over)
    except ViewRefused as refused:
        views = load_saved_views(request.project, over)
        box = build_view_box(views, text=text, sort=params.sort, view="", over=over, refused=refused)
        context = _list_context(request, params) | {"views": box}
        return render_page(request, f"{over}/list.html", context, status=UNPROCESSABLE)
    return redirect(_list_url(view, f"?view={view.pk}"))


def _list_context(request: OperatorRequest, params: CallTableParams | RunListParams) -> dict[str, Any]:
    if isinstance(params, CallTableParams):
        return {"page": load_call_table(request.project, params)}
    page = build_run_list(request.project, params)
    facets = load_facet_groups(request.project, page.query, params.filter_url)
    return {"page": page, "facets": facets, "peek": None, "cut": None}


@require_POST
def delete_view(request: OperatorRequest, pk: int) -> HttpResponse:
    """Redirects to the list with the filter and sort of the deleted view."""
    require_operator(request, REFUSAL)
    view = get_object_or_404(request.project.saved_views, pk=pk)
    view.delete()
    return redirect(_list_url(view, RunListParams(view.query, view.sort).url()))


def _list_url(view: SavedView, query: str) -> str:
    return reverse("call-list" if view.over == SavedView.Over.CALLS else "run-list") + query
