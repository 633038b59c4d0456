"""The Experiments page, and redirects from the addresses that its parts had as Renderers and Comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

from django.http import Http404, HttpResponse, HttpResponsePermanentRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.experiments.comparison_pages import load_comparison_list
from dashboard.experiments.renderer_pages import load_renderer_list
from dashboard.models import Comparison, RecallReport
from dashboard.views.site import render_page

Measured = TypeVar("Measured", Comparison, RecallReport)


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    """The whole page, or the rows of comparisons alone, which renew themselves while one is open."""
    context: dict[str, object] = {"comparisons": load_comparison_list(request.project)}
    template = "experiments/_comparison_list.html"
    if not request.htmx or request.htmx.boosted:
        template, context["renderers"] = "experiments/list.html", load_renderer_list(request.project)
    response = render_page(request, template, context)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
def moved(request: OperatorRequest, rest: str = "", folder: str = "") -> HttpResponse:
    """Redirects an old address to the new one, with its query string; `folder` is what stands before `rest` there."""
    address = f"{reverse('experiment-list')}{folder}{quote(rest)}"
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address)


def render_measured(request: OperatorRequest, template: str, page: object, *, is_open: bool) -> HttpResponse:
    """The page of a comparison or report. The fragment of one that is done renews the whole page: it has numbers."""
    response = render_page(request, template, {"page": page}, partial="progress")
    if request.htmx and not request.htmx.boosted and not is_open:
        response["HX-Refresh"] = "true"
    return response


def act_on(
    request: OperatorRequest, row: Measured, actions: Mapping[str, Callable[[Measured], object]], list_page: str
) -> HttpResponse:
    """Does what the pressed button names, and redirects to the row, or to `list_page` once the row is deleted."""
    action = request.POST.get("do", "")
    if action not in actions:
        raise Http404("Unknown action.")
    actions[action](row)
    return redirect(list_page) if action == "delete" else redirect(row)
