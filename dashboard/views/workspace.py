"""A run with one of its calls open, and the permanent address of a call, which leads there."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.calls.stages import export_call, export_receipt
from dashboard.evidence.call_evidence import load_evidence
from dashboard.models import Call
from dashboard.notes.annotations import load_panel
from dashboard.runs.run_detail import RunDetailParams, is_unchanged
from dashboard.text.responses import sandboxed
from dashboard.workspace.page import load_workspace
from dashboard.workspace.steps import (
    GOALS,
    TABS,
    RunPosition,
    find_goal,
    load_place,
    locate_call,
    place_outside,
)

PANEL = "step"  # the id of the open step, which a walk from step to step replaces alone
ROWS = "step-rows"  # of the list beside it, which is asked for again while the run is live
NOTHING_NEW = 204


@require_safe
def step(request: OperatorRequest, pk: UUID, position: int, tab: str) -> HttpResponse:
    """A call of a run by its position; `?go=` leads to the next step of a kind."""
    if tab not in TABS:
        raise Http404
    run = get_object_or_404(request.project.runs, pk=pk)
    place = load_place(run, position, tab, request.GET)
    if place is None:
        raise Http404
    if request.htmx and request.htmx.target == ROWS and is_unchanged(run, RunDetailParams(request.GET)):
        return HttpResponse(status=NOTHING_NEW)
    goal = "" if request.htmx.target == ROWS else request.GET.get("go", "")
    if goal in GOALS and (url := find_goal(place, tab, goal, request.GET)):
        return redirect(url)
    call = get_object_or_404(Call.objects.with_run_and_source(), pk=place.call)
    return _render_step(request, call, place, tab, missed=goal if goal in GOALS else "")


@require_safe
def call(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Redirects to the step of the call; `?as=` is the call or its receipt as text, JSON or Markdown."""
    call = get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)
    form = request.GET.get("as")
    if form is None:
        url = locate_call(request.project, call, request.GET)
        return redirect(url) if url else _render_step(request, call, place_outside(call), "halves")
    evidence = load_evidence(call, request.GET)
    export = export_receipt if request.GET.get("what") == "receipt" else export_call
    exported = export(evidence, form)
    if exported is None:
        raise Http404
    content_type, text = exported
    return sandboxed(HttpResponse(text, content_type=f"{content_type}; charset=utf-8"))


def _query_in(query: QueryDict, call: Call, place: RunPosition) -> QueryDict:
    """The parameters that choose the same evidence at the permanent address: a copied call needs the run too."""
    if place.run.pk == call.run_id:
        return query
    named = query.copy()
    named["run"] = str(place.run.pk)
    return named


def _render_step(
    request: OperatorRequest, call: Call, place: RunPosition, tab: str, *, missed: str = ""
) -> HttpResponse:
    """The page, or the open step alone where htmx asks for that."""
    part = {PANEL: "#step", ROWS: "#rows"}.get(request.htmx.target or "", "") if request.htmx else ""
    is_panel = part == "#step"
    workspace = load_workspace(request.project, call, place, tab, request.GET, with_steps=not is_panel)
    context = {
        "workspace": workspace,
        "page": workspace.call,
        "presence": workspace.presence,
        "call": call,
        "place": place,
        "panel": load_panel(request, call, query=_query_in(request.GET, call, place)),
        "missed": missed,
        "run_key": place.run.pk,
    }
    response = render(request, f"workspace/page.html{part}", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response
