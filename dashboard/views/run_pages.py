"""One run: what happened in it, and what its model saw."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts.access import OperatorRequest
from dashboard.runs.message import raw_message, whole_message
from dashboard.runs.model_history import history_of
from dashboard.runs.replay_page import replay_page
from dashboard.runs.rewritten import Rewritten
from dashboard.runs.run_detail import Ask, is_unchanged, run_or_404, run_page
from dashboard.runs.variant_switch import variant_switch
from dashboard.views.rendering import render_page

NOTHING_NEW = 204


@require_GET
def detail(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request.project, pk)
    ask = Ask.of(request.GET)
    if is_unchanged(run, ask):
        return HttpResponse(status=NOTHING_NEW)
    switch = variant_switch(run, request.GET.dict(), "q", "time", "skip")
    is_next = bool(ask.after) and ask.since is None
    return render_page(
        request, "runs/detail.html", {"page": run_page(run, ask, switch)}, partial="rows" if is_next else "live"
    )


@require_GET
def model_view(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request.project, pk)
    wanted = request.GET
    if "message" in wanted and "raw" in wanted:
        return raw_message(run, wanted["message"])
    if "message" in wanted:
        return render(request, "runs/message.html", {"page": whole_message(run, wanted["message"], wanted.get("from"))})
    switch = variant_switch(run, wanted.dict(), "after", "before", "at")
    history = history_of(
        run,
        after=wanted.get("after", ""),
        before=wanted.get("before", ""),
        at_end=wanted.get("at") == "end",
        rewritten=Rewritten(run, switch.under.replayed) if switch.under else None,
    )
    context = {"run": run, "history": history, "switch": switch}
    return render_page(request, "runs/model.html", context, partial="entries")


@require_GET
def replay(request: OperatorRequest, pk: UUID) -> HttpResponse:
    run = run_or_404(request.project, pk)
    return render_page(request, "runs/replay.html", {"page": replay_page(run, request.GET)}, partial="weights")
