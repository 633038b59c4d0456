"""The Experiments page, and redirects from the addresses that its parts had as Renderers and Comparisons."""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpResponse, HttpResponsePermanentRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.experiments.comparison_pages import load_comparison_list
from dashboard.experiments.renderer_pages import load_renderer_list


@require_safe
def index(request: OperatorRequest) -> HttpResponse:
    """The whole page, or the rows of comparisons alone, which renew themselves while one is open."""
    context: dict[str, object] = {"comparisons": load_comparison_list(request.project)}
    template = "experiments/_comparison_list.html"
    if not request.htmx or request.htmx.boosted:
        template, context["renderers"] = "experiments/list.html", load_renderer_list(request.project)
    response = render(request, template, context)
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_safe
def moved(request: OperatorRequest, rest: str = "", folder: str = "") -> HttpResponse:
    """Redirects an old address to the new one, with its query string; `folder` is what stands before `rest` there."""
    address = f"{reverse('experiment-list')}{folder}{quote(rest)}"
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address)
