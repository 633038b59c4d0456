"""A run without a call open, with one, and the permanent address of a call, which leads there."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard.accounts import OperatorRequest
from dashboard.calls.stages import export_call, export_receipt
from dashboard.evidence.call_evidence import load_evidence
from dashboard.models import Call, Run
from dashboard.notes.annotations import load_panel
from dashboard.runs.model_history import load_history, load_message_page, raw_message
from dashboard.runs.replay import ReplayedReceipts, load_replay_page, load_switch
from dashboard.runs.run_detail import RunDetailParams, is_unchanged, load_run_page
from dashboard.text.params import Params
from dashboard.text.responses import sandboxed
from dashboard.views.site import is_visit, render_page
from dashboard.workspace.page import build_replay_chart, load_whole_run, load_workspace
from dashboard.workspace.run_strip import load_run_strip
from dashboard.workspace.steps import (
    GOALS,
    TABS,
    RunPosition,
    build_run_tabs,
    find_goal,
    follow_list,
    keep_list,
    load_call,
    load_place,
    load_step_list,
    locate_call,
    place_outside,
    shown_tab,
)

PANEL = "step"  # the id of the open step, which a walk from step to step replaces alone
ROWS = "step-rows"  # of the list beside it, which is asked for again while the run is live
NOTHING_NEW = 204


@require_safe
def run(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The steps of a run and its overview. A live run asks for both again, with the revision that it has."""
    run = get_object_or_404(request.project.runs, pk=pk)
    params = RunDetailParams(request.GET)
    if is_unchanged(run, params):
        return HttpResponse(status=NOTHING_NEW)
    switch = load_switch(run, request.GET, "q", "time", "skip")
    is_next = bool(params.after) and params.since is None
    context = {
        "page": load_run_page(run, params, switch),
        "strip": load_run_strip(run),
        "tabs": build_run_tabs(run, "", request.GET),
        "panel": load_panel(request, run) if is_visit(request) else None,
    }
    return render_page(request, "workspace/run.html", context, partial="rows" if is_next else "live")


@require_safe
def run_context(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The history of a whole run, or one message of it."""
    run = get_object_or_404(request.project.runs, pk=pk)
    params = Params(request.GET)
    if "message" in params:
        return _render_message(request, run, params)
    if request.htmx and request.htmx.target == ROWS:
        return render_step_rows(request, run, "context")
    if is_unchanged(run, RunDetailParams(request.GET)):
        return HttpResponse(status=NOTHING_NEW)
    switch = load_switch(run, request.GET, "after", "before", "at", "branch", "step", "position", "since")
    history = load_history(
        run,
        after=params.text("after"),
        before=params.text("before"),
        at_end=params.text("at") == "end",
        branch_start=params.integer("branch", default=None),
        step=params.integer("step", default=None),
        replayed=ReplayedReceipts(run, switch.view.replay) if switch.view else None,
    )
    whole = load_whole_run(run, "context", request.GET, with_steps=is_visit(request))
    context = {"run": run, "history": history, "switch": switch, "whole": whole}
    return render_page(request, "workspace/history.html", context, partial="entries")


def _render_message(request: OperatorRequest, run: Run, params: Params) -> HttpResponse:
    key = params.uuid("message")
    if "raw" in params:
        return raw_message(run, key)
    page = load_message_page(run, key, params.integer("from", default=0))
    return render_page(request, "workspace/message.html", {"page": page})


@require_safe
def run_replay(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """The tokens of a whole run under another renderer, call by call."""
    run = get_object_or_404(request.project.runs, pk=pk)
    if request.htmx and request.htmx.target == ROWS:
        return render_step_rows(request, run, "replay")
    page = load_replay_page(run, request.GET)
    context = {
        "page": page,
        "chart": build_replay_chart(run, page.view.name, page.view.totals),
        "whole": load_whole_run(run, "replay", request.GET, with_steps=is_visit(request)),
    }
    return render_page(request, "workspace/replay.html", context, partial="totals")


@require_safe
def step(request: OperatorRequest, pk: UUID, position: int, tab: str) -> HttpResponse:
    """A call of a run by its position; `?go=` leads to the next step of a kind."""
    if tab not in TABS:
        raise Http404
    run = get_object_or_404(request.project.runs.defer("plan", "document"), pk=pk)
    place = load_place(run, position, tab, request.GET)
    if place is None:
        raise Http404
    if request.htmx and request.htmx.target == ROWS:
        return render_step_rows(request, run, shown_tab(tab, request.GET), place)
    call = load_call(place)
    place = follow_list(request.project, place, call, tab, request.GET)
    goal = request.GET.get("go", "")
    if goal in GOALS and (url := find_goal(place, tab, goal, keep_list(place, request.GET))):
        return redirect(url)
    return _render_step(request, call, place, tab, missed=goal if goal in GOALS else "")


def render_step_rows(request: OperatorRequest, run: Run, tab: str, place: RunPosition | None = None) -> HttpResponse:
    """The list beside a step or a tab about the whole run, and the counts, which a live run asks for again."""
    if is_unchanged(run, RunDetailParams(request.GET)):
        return HttpResponse(status=NOTHING_NEW)
    named = place or load_place(run, Params(request.GET).integer("position", default=0), tab, request.GET)
    steps = load_step_list(run, named, tab, request.GET, is_whole=place is None)
    response = render(request, "workspace/page.html#rows", {"steps": steps, "place": named})
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@require_safe
def call(request: OperatorRequest, pk: UUID) -> HttpResponse:
    """Redirects to the step of the call; `?as=` is the call or its receipt as text, JSON or Markdown."""
    form, calls = request.GET.get("as"), request.project.calls
    if form is None and (url := locate_call(request.project, pk, request.GET)):
        return redirect(url)
    call = get_object_or_404(calls.with_run_and_source(), pk=pk)
    if form is None:
        place = follow_list(request.project, place_outside(call), call, "halves", request.GET)
        return _render_step(request, call, place, "halves")
    evidence = load_evidence(call, request.GET)
    export = export_receipt if request.GET.get("what") == "receipt" else export_call
    exported = export(evidence, form)
    if exported is None:
        raise Http404
    content_type, text = exported
    return sandboxed(HttpResponse(text, content_type=f"{content_type}; charset=utf-8"))


def _name_run(query: QueryDict, run: UUID) -> QueryDict:
    """The parameters that choose the same evidence at the permanent address of the call, which needs the run too."""
    named = query.copy()
    named["run"] = str(run)
    return named


def _render_step(
    request: OperatorRequest, call: Call, place: RunPosition, tab: str, *, missed: str = ""
) -> HttpResponse:
    """The page, or the open step alone where htmx asks for that."""
    is_panel = bool(request.htmx) and request.htmx.target == PANEL
    query = keep_list(place, request.GET)
    workspace = load_workspace(request.project, call, place, tab, query, with_steps=not is_panel)
    marks = workspace.steps.current_marks if workspace.steps else None
    context = {
        "workspace": workspace,
        "page": workspace.call,
        "presence": workspace.presence,
        "call": call,
        "place": place,
        "panel": load_panel(request, call, query=_name_run(request.GET, place.run.pk), marks=marks),
        "missed": missed,
        "run_key": place.run.pk,
    }
    response = render(request, "workspace/page.html#step" if is_panel else "workspace/page.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response
