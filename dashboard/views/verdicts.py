"""Reviews: one blind pair after another, what came of them, and the files that go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.accounts.access import OperatorRequest
from dashboard.comparisons.export import json_pieces
from dashboard.comparisons.lifecycle import Unusable
from dashboard.models import Comparison, Review
from dashboard.reviews import verdicts
from dashboard.reviews.export import preference_lines, verdict_lines
from dashboard.reviews.queue import pair_of, queue_page
from dashboard.reviews.tally import verdict_page
from dashboard.text.responses import sandboxed
from dashboard.views.calls import file_name

NOT_ACCEPTED = 422
Export = Callable[[Comparison], Iterator[str]]
EXPORTS: Mapping[str, tuple[Export, str, str]] = {
    "numbers": (json_pieces, "application/json", "json"),
    "verdicts": (verdict_lines, "application/x-ndjson", "jsonl"),
    "preferences": (preference_lines, "application/x-ndjson", "jsonl"),
}


@require_GET
def index(request: OperatorRequest, pk: UUID) -> HttpResponse:
    return render(request, "comparisons/verdicts.html", {"page": verdict_page(_finished(request, pk)), "refused": ""})


@require_http_methods(["GET", "HEAD", "POST"])
def review(request: OperatorRequest, pk: UUID, ordinal: int) -> HttpResponse:
    comparison = _finished(request, pk)
    if not request.membership.may_write:
        raise PermissionDenied("Only operators of the project judge.")
    if request.method == "POST":
        return _judged(request, comparison, ordinal)
    found = get_object_or_404(comparison.reviews.select_related("comparison"), ordinal=ordinal)
    page = queue_page(request.project, found, request.user, is_whole=request.GET.get("whole") == "1")
    return render(request, "comparisons/review.html", {"page": page})


@require_GET
def export(request: OperatorRequest, pk: UUID, what: str) -> HttpResponseBase:
    comparison = _finished(request, pk)
    if what not in EXPORTS:
        raise Http404
    lines, content_type, ending = EXPORTS[what]
    response = StreamingHttpResponse(lines(comparison), content_type=content_type)
    return sandboxed(response, file_name=file_name(what, comparison.pk, ending))


def _finished(request: OperatorRequest, pk: UUID) -> Comparison:
    comparison = get_object_or_404(request.project.comparisons, pk=pk)
    if not comparison.is_finished:
        raise Http404("The comparison has not finished.")
    return comparison


def _judged(request: OperatorRequest, comparison: Comparison, ordinal: int) -> HttpResponse:
    try:
        found = verdicts.start_review(comparison, ordinal)
        if request.POST.get("do") == "undo":
            verdicts.undo(found, request.user)
        elif request.POST.get("do") != "start":
            _record(request, found)
    except Unusable as unusable:
        context = {"page": verdict_page(comparison), "refused": str(unusable)}
        return render(request, "comparisons/verdicts.html", context, status=NOT_ACCEPTED)
    return redirect("comparison-review", comparison.pk, ordinal)


def _record(request: OperatorRequest, review: Review) -> None:
    """The texts are those of now: what the page showed a moment ago, and what the verdict's hashes keep."""
    try:
        key = UUID(request.POST.get("call", ""))
    except ValueError:
        raise Http404 from None
    call = get_object_or_404(request.project.calls.select_related("run"), pk=key)
    pair = pair_of(review, call, request.user)
    if pair is None:
        raise Unusable("This call no longer has two texts.")
    said, note = request.POST.get("do", ""), request.POST.get("note", "")
    verdicts.judge(review, key, request.user, said=said, note=note, texts=pair.texts)
