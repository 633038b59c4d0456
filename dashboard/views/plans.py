"""The plan of a run, its confirmation, and its cancel. Plans start from the command line only."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.models import Run
from dashboard.plans.confirmation_page import load_confirmation_page
from dashboard.plans.decisions import DecisionForm, cancel, decide
from dashboard.plans.plan_view import load_plan_page
from dashboard.runs.run_detail import RunDetailParams, is_unchanged
from dashboard.text.params import Params
from dashboard.views.site import is_visit, render_page
from dashboard.views.workspace import ROWS, render_step_rows
from dashboard.workspace.page import load_whole_run

NOTHING_NEW = 204


@require_safe
def plan(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The steps of the plan; those of a live run are asked for again."""
    run = _get_planned_run(request, pk)
    if request.htmx and request.htmx.target == ROWS:
        return render_step_rows(request, run, "halves")
    if is_unchanged(run, RunDetailParams(request.GET)):
        return HttpResponse(status=NOTHING_NEW)
    with_steps = is_visit(request) or not run.is_live  # the end of a run changes the list beside the plan, too
    context = {
        "page": load_plan_page(run),
        "whole": load_whole_run(run, "plan", request.GET, with_steps=with_steps),
        "is_cancelled": "cancelled" in request.GET,
    }
    return render_page(request, "plans/plan.html", context, partial="steps")


@require_http_methods(["GET", "HEAD", "POST"])
def confirmation(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Shows what is to be confirmed, or was; a POST is the decision of an operator."""
    run = _get_planned_run(request, pk)
    problem = ""
    if request.method == "POST":
        require_operator(request, "Only operators of the project confirm plans.")
        form = DecisionForm(
            is_approved=request.POST.get("decision") == "approve",
            reason=request.POST.get("reason", "").strip(),
            plan_hash=request.POST.get("plan_hash", ""),
            policy_hash=request.POST.get("policy_hash", ""),
        )
        problem = decide(request, run, form)
        if not problem:
            return redirect("run-plan", run.pk)
    page = load_confirmation_page(run, Params(request.GET).integer("call", default=None), problem)
    if page is None:
        raise Http404
    return render_page(request, "plans/confirmation.html", {"page": page}, status=422 if problem else 200)


@require_POST
def cancel_run(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Asks the command that runs the plan to cancel it."""
    run = _get_planned_run(request, pk)
    require_operator(request, "Only operators of the project cancel runs.")
    is_asked = cancel(request, run)
    response = redirect("run-plan", run.pk)
    if is_asked:
        response["Location"] += "?cancelled"
    return response


def _get_planned_run(request: OperatorRequest, pk: UUID) -> Run:
    run = get_object_or_404(request.project.runs, pk=pk)
    if not run.plan:
        raise Http404
    return run
