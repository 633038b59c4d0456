"""The pages of comparisons: the form of a new one, one comparison, its calls, and one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.experiments.call_list import load_calls_page
from dashboard.experiments.comparison_pages import load_comparison_page, request_baseline
from dashboard.experiments.pair import load_pair_page
from dashboard.experiments.stored_comparison import CannotCompare, cancel, load_form, pin, resume, start_form
from dashboard.models import Comparison
from dashboard.variants.variant_list import UnusableColumns
from dashboard.views.experiments import act_on, render_measured
from dashboard.views.site import render_page

UNPROCESSABLE = 422
LOOK_ONLY = "Only operators of the project start and change comparisons."
ACTIONS: Mapping[str, Callable[[Comparison], object]] = {
    "cancel": cancel,
    "resume": resume,
    "pin": lambda comparison: pin(comparison, is_pinned=True),
    "unpin": lambda comparison: pin(comparison, is_pinned=False),
    "delete": Comparison.delete,
}


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: OperatorRequest) -> HttpResponse:
    form = load_form(request.project, request.POST if request.method == "POST" else request.GET)
    if request.method != "POST":
        return render_page(request, "experiments/new.html", {"form": form, "refusal": ""}, partial="choice")
    require_operator(request, LOOK_ONLY)
    try:
        comparison = start_form(request.project, form, request.user)
    except (CannotCompare, UnusableColumns) as refusal:
        context = {"form": form, "refusal": str(refusal)}
        return render_page(request, "experiments/new.html", context, status=UNPROCESSABLE)
    return redirect(comparison)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    comparison = _comparison(request, pk)
    if request.method == "POST":
        require_operator(request, LOOK_ONLY)
        if request.POST.get("do") == "baseline":
            return redirect(request_baseline(comparison, request.POST.get("columns", ""), request.GET))
        return act_on(request, comparison, ACTIONS, "experiment-list")
    page = load_comparison_page(comparison, request.GET)
    is_open = comparison.is_open or page.columns.is_requested
    return render_measured(request, "experiments/comparison.html", page, is_open=is_open)


@require_safe
def calls(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = load_calls_page(_comparison(request, pk), request.GET)
    return render_page(request, "experiments/calls.html", {"page": page})


@require_safe
def pair(request: OperatorRequest, pk: UUID, call: UUID) -> HttpResponse:
    row = get_object_or_404(request.project.calls.select_related("run"), pk=call)
    page = load_pair_page(_comparison(request, pk), row, request.GET)
    if page is None:
        raise Http404("The comparison has no numbers of this call.")
    return render_page(request, "experiments/pair.html", {"page": page})


def _comparison(request: OperatorRequest, pk: UUID) -> Comparison:
    return get_object_or_404(request.project.comparisons, pk=pk)
