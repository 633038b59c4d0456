"""A run or a call as one self-contained HTML file, and as Markdown for an issue tracker."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST, require_safe

from dashboard.accounts import OperatorRequest
from dashboard.audit import record_request
from dashboard.models import AuditEntry
from dashboard.sharing.issue import write_call_issue, write_run_issue
from dashboard.sharing.share_file import share_call, share_run
from dashboard.text.masks import current_masks
from dashboard.text.responses import sandboxed
from dashboard.views.calls import file_name


@require_POST
def call(request: OperatorRequest, pk: UUID) -> StreamingHttpResponse:
    """The call with the receipt in view, masked for viewers and operators alike."""
    row = get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)
    markup = share_call(row, QueryDict(request.POST.get("query", "")), origin=_origin(request))
    record_request(request, AuditEntry.Action.EXPORT, f"call {row.external_id} ({pk}) {_describe_file()}")
    return _download(markup, file_name(row.tool, row.external_id, "html"))


@require_POST
def run(request: OperatorRequest, pk: UUID) -> StreamingHttpResponse:
    row = get_object_or_404(request.project.runs, pk=pk)
    markup = share_run(row, origin=_origin(request))
    record_request(request, AuditEntry.Action.EXPORT, f"run {row.external_id} ({pk}) {_describe_file()}")
    return _download(markup, file_name("run", row.external_id, "html"))


@require_safe
def call_issue(request: OperatorRequest, pk: UUID) -> HttpResponse:
    row = get_object_or_404(request.project.calls.with_run_and_source(), pk=pk)
    return _markdown(write_call_issue(row, request.GET, origin=_origin(request)))


@require_safe
def run_issue(request: OperatorRequest, pk: UUID) -> HttpResponse:
    row = get_object_or_404(request.project.runs, pk=pk)
    return _markdown(write_run_issue(row, origin=_origin(request)))


def _describe_file() -> str:
    return "as an HTML file, masked" if current_masks() else "as an HTML file, without masks"


def _markdown(text: str) -> HttpResponse:
    return sandboxed(HttpResponse(text, content_type="text/markdown; charset=utf-8"))


def _origin(request: OperatorRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


def _download(markup: str, name: str) -> StreamingHttpResponse:
    """Its texts are masked already; masks drawn by the middleware would change the hashes."""
    response = StreamingHttpResponse([markup.encode()], content_type="text/html; charset=utf-8")
    response.is_masked = True  # type: ignore[attr-defined]
    return sandboxed(response, file_name=name)
