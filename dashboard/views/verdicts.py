"""Reviews: one blind pair after another, their verdicts, and the exports of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.accounts import OperatorRequest, require_operator
from dashboard.audit import record_request
from dashboard.experiments.export import export_json
from dashboard.experiments.stored_comparison import CannotCompare
from dashboard.experiments.verdicts import (
    export_preferences,
    export_verdicts,
    judge,
    load_pair,
    load_queue_page,
    load_verdict_page,
    start_review,
    undo_verdict,
)
from dashboard.models import AuditEntry, Comparison, Review
from dashboard.text.responses import sandboxed
from dashboard.views.calls import file_name
from dashboard.views.site import render_page

UNPROCESSABLE = 422
Export = Callable[[Comparison], Iterator[str]]
EXPORTS: Mapping[str, tuple[Export, str, str]] = {
    "numbers": (export_json, "application/json", "json"),
    "verdicts": (export_verdicts, "application/x-ndjson", "jsonl"),
    "preferences": (export_preferences, "application/x-ndjson", "jsonl"),
}


@require_safe
def index(request: OperatorRequest, pk: UUID) -> HttpResponse:
    page = load_verdict_page(_finished(request, pk))
    return render_page(request, "experiments/verdicts.html", {"page": page, "refusal": ""})


@require_http_methods(["GET", "HEAD", "POST"])
def review(request: OperatorRequest, pk: UUID, ordinal: int) -> HttpResponse:
    comparison = _finished(request, pk)
    require_operator(request, "Only operators of the project judge.")
    if request.method == "POST":
        return _judge(request, comparison, ordinal)
    row = get_object_or_404(comparison.reviews.select_related("comparison"), ordinal=ordinal)
    page = load_queue_page(request.project, row, request.user, is_whole=request.GET.get("whole") == "1")
    return render(request, "experiments/review.html", {"page": page})


@require_safe
def export(request: OperatorRequest, pk: UUID, what: str) -> HttpResponseBase:
    comparison = _finished(request, pk)
    if what not in EXPORTS:
        raise Http404
    record_request(request, AuditEntry.Action.EXPORT, f"{what} of comparison {comparison.pk}")
    lines, content_type, ending = EXPORTS[what]
    response = StreamingHttpResponse(lines(comparison), content_type=content_type)
    return sandboxed(response, file_name=file_name(what, comparison.pk, ending))


def _finished(request: OperatorRequest, pk: UUID) -> Comparison:
    comparison = get_object_or_404(request.project.comparisons, pk=pk)
    if not comparison.is_finished:
        raise Http404("The comparison has not finished.")
    return comparison


def _judge(request: OperatorRequest, comparison: Comparison, ordinal: int) -> HttpResponse:
    action = request.POST.get("do", "")
    try:
        row = start_review(comparison, ordinal)
        if action == "undo":
            undo_verdict(row, request.user)
        elif action != "start":
            _record(request, row, action)
    except CannotCompare as refusal:
        context = {"page": load_verdict_page(comparison), "refusal": str(refusal)}
        return render_page(request, "experiments/verdicts.html", context, status=UNPROCESSABLE)
    return redirect("comparison-review", comparison.pk, ordinal)


def _record(request: OperatorRequest, row: Review, answer: str) -> None:
    """Stores a verdict with the hashes of today's texts, which the page showed a moment ago."""
    try:
        key = UUID(request.POST.get("call", ""))
    except ValueError:
        raise Http404 from None
    call = get_object_or_404(request.project.calls.select_related("run"), pk=key)
    pair = load_pair(row, call, request.user)
    if pair is None:
        raise CannotCompare("This call no longer has two texts.")
    judge(row, key, request.user, answer=answer, note=request.POST.get("note", ""), texts=pair.texts)
