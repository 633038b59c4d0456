"""The pages of used-line recall: reports and the form of a new one, one report, its calls, one call, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.experiments.recall_pages import (
    load_recall_call,
    load_recall_calls,
    load_recall_list,
    load_recall_page,
)
from dashboard.experiments.recall_report import cancel_recall, start_recall
from dashboard.experiments.receipt_limits import load_limits_page
from dashboard.experiments.stored_comparison import CannotCompare, load_form
from dashboard.models import RecallReport
from dashboard.views.experiments import act_on, render_measured
from dashboard.views.site import render_page

UNPROCESSABLE = 422
LOOK_ONLY = "Only operators of the project measure and delete."
ACTIONS: Mapping[str, Callable[[RecallReport], object]] = {"cancel": cancel_recall, "delete": RecallReport.delete}


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: OperatorRequest) -> HttpResponse:
    form = load_form(request.project, request.POST if request.method == "POST" else request.GET)
    context: dict[str, object] = {"form": form, "page": load_recall_list(request.project), "refusal": ""}
    if request.method != "POST":
        return render_page(request, "experiments/recall_list.html", context, partial="rows")
    require_operator(request, LOOK_ONLY)
    try:
        return redirect(start_recall(request.project, form, request.user))
    except CannotCompare as refusal:
        context["refusal"] = str(refusal)
        return render_page(request, "experiments/recall_list.html", context, status=UNPROCESSABLE)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    report = _report(request, pk)
    if request.method == "POST":
        require_operator(request, LOOK_ONLY)
        return act_on(request, report, ACTIONS, "recall-list")
    return render_measured(request, "experiments/recall.html", load_recall_page(report), is_open=report.is_open)


@require_safe
def calls(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = load_recall_calls(_report(request, pk), request.GET)
    return render_page(request, "experiments/recall_calls.html", {"page": page})


@require_safe
def call(request: OperatorRequest, pk: UUID, call: UUID) -> HttpResponse:
    row = get_object_or_404(request.project.calls.select_related("run"), pk=call)
    page = load_recall_call(_report(request, pk), row)
    if page is None:
        raise Http404("The report has no quoted line of this call.")
    return render_page(request, "experiments/recall_call.html", {"page": page})


@require_safe
def limits(request: OperatorRequest, pk: UUID) -> HttpResponse:
    report = _report(request, pk)
    page = load_limits_page(report, request.GET)
    return redirect(report) if page is None else render_page(request, "experiments/recall_limits.html", {"page": page})


def _report(request: OperatorRequest, pk: UUID) -> RecallReport:
    return get_object_or_404(request.project.recall_reports, pk=pk)
