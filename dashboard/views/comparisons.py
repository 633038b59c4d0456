"""Comparisons: the list, a new one, one of them, its calls, and what it says as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.accounts.access import OperatorRequest
from dashboard.comparisons import lifecycle
from dashboard.comparisons.call_list import calls_page
from dashboard.comparisons.comparison_detail import comparison_page, led_address
from dashboard.comparisons.comparison_list import comparison_list
from dashboard.comparisons.lifecycle import Unusable, start_comparison
from dashboard.comparisons.new_comparison import comparison_form
from dashboard.comparisons.pair import pair_page
from dashboard.models import Comparison
from dashboard.variants.variant_list import UnusableColumns
from dashboard.views.rendering import render_page

NOT_ACCEPTED = 422
DEEDS: Mapping[str, Callable[[Comparison], object]] = {
    "cancel": lifecycle.cancel,
    "resume": lifecycle.resume,
    "pin": lambda one: lifecycle.pin(one, is_pinned=True),
    "unpin": lambda one: lifecycle.pin(one, is_pinned=False),
    "forget": lifecycle.forget,
}


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    page = comparison_list(request.project)
    return render_page(request, "comparisons/list.html", {"page": page}, partial="rows")


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: OperatorRequest) -> HttpResponse:
    form, selection = comparison_form(request.project, request.POST if request.method == "POST" else request.GET)
    if request.method != "POST":
        return render_page(request, "comparisons/new.html", {"form": form, "refused": ""}, partial="choice")
    _must_write(request)
    try:
        started = start_comparison(request.project, selection, form.chosen, name=form.name, user=request.user)
    except (Unusable, UnusableColumns) as unusable:
        context = {"form": form, "refused": str(unusable)}
        return render(request, "comparisons/new.html", context, status=NOT_ACCEPTED)
    return redirect(started)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    comparison = _comparison(request, pk)
    if request.method == "POST":
        return _done(request, comparison)
    page = comparison_page(comparison, request.GET)
    response = render_page(request, "comparisons/detail.html", {"page": page}, partial="progress")
    if request.htmx and not request.htmx.boosted and not (comparison.is_open or page.shown.is_asked_for):
        response["HX-Refresh"] = "true"
    return response


@require_GET
def calls(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return render(request, "comparisons/calls.html", {"page": calls_page(_comparison(request, pk), request.GET)})


@require_GET
def pair(request: OperatorRequest, pk: UUID, call: UUID) -> HttpResponse:
    found = get_object_or_404(request.project.calls.select_related("run"), pk=call)
    page = pair_page(_comparison(request, pk), found, request.GET)
    if page is None:
        raise Http404("The comparison has no numbers of this call.")
    return render(request, "comparisons/pair.html", {"page": page})


def _comparison(request: OperatorRequest, pk: UUID) -> Comparison:
    return get_object_or_404(request.project.comparisons, pk=pk)


def _must_write(request: OperatorRequest) -> None:
    if not request.membership.may_write:
        raise PermissionDenied("Only operators of the project start and change comparisons.")


def _done(request: OperatorRequest, comparison: Comparison) -> HttpResponse:
    _must_write(request)
    if request.POST.get("do") == "lead":
        return redirect(led_address(comparison, request.POST.get("columns", ""), request.GET))
    deed = DEEDS.get(request.POST.get("do", ""))
    if deed is None:
        raise Http404("There is nothing of that name to do.")
    deed(comparison)
    return redirect("comparison-list") if request.POST.get("do") == "forget" else redirect(comparison)
