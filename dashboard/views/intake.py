"""The addresses to which programs send what they record. Each needs a token of scope ingest."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from dashboard.api.answers import JSON, PROTOBUF
from dashboard.api.intake import (
    CONTENT_TYPES,
    HOOK_TYPES,
    RECORD_TYPES,
    TRACE_TYPES,
    BodyRefused,
    json_response,
    limits,
    receive_content,
    receive_hook,
    receive_logs,
    receive_records,
    receive_traces,
    write_status,
)
from dashboard.artifacts.ingest import QuotaExceeded, StoreFailed
from dashboard.artifacts.upload_folders import UploadsFull
from dashboard.ingest.live import KeyReused
from dashboard.ingest.sources import SourceMoved
from dashboard.middleware import accepts_body
from dashboard.tokens import TokenRequest, accepts_token

BAD_REQUEST, UNPROCESSABLE, UNAVAILABLE, FULL = 400, 422, 503, 507
RETRY_SECONDS = "30"


def answers_refusals(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answers what was refused, or what the store has no room for, with a sentence in JSON."""

    @wraps(view)
    def answer(request: TokenRequest, *arguments: Any, **options: Any) -> HttpResponse:
        try:
            return view(request, *arguments, **options)
        except BodyRefused as refusal:
            return json_response({"error": str(refusal)}, refusal.status)
        except KeyReused as refusal:
            return json_response({"error": str(refusal)}, UNPROCESSABLE)
        except (QuotaExceeded, UploadsFull, StoreFailed, SourceMoved) as refusal:
            status = FULL if isinstance(refusal, QuotaExceeded) else UNAVAILABLE
            response = json_response({"error": str(refusal)}, status)
            response["Retry-After"] = RETRY_SECONDS
            return response

    return answer


def answers_as_otlp(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Refuses a request in protobuf in protobuf: its client does not read JSON."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **options: Any) -> HttpResponse:
        response = view(request, *arguments, **options)
        is_refusal = response.status_code >= BAD_REQUEST and response.headers.get("Content-Type") == JSON
        if is_refusal and request.content_type == PROTOBUF:
            write_status(response)
        return response

    return answer


@accepts_body("INTAKE_BODY_LIMIT_BYTES", RECORD_TYPES, in_chunks=True)
@accepts_token("ingest", ["POST"])
@answers_refusals
def records(request: TokenRequest) -> HttpResponse:
    """Native records, one JSON object a line. 200 when at least one is stored, 422 when each was refused."""
    answer, status = receive_records(request)
    return json_response(answer, status)


@accepts_body("UPLOAD_LIMIT_BYTES", CONTENT_TYPES)
@accepts_token("ingest", ["PUT"])
@answers_refusals
def artifact(request: TokenRequest, sha256: str) -> HttpResponse:
    return json_response(receive_content(request, sha256))


@accepts_body("INTAKE_BODY_LIMIT_BYTES", TRACE_TYPES, in_chunks=True)
@answers_as_otlp
@accepts_token("ingest", ["POST"])
@answers_refusals
def traces(request: TokenRequest) -> HttpResponse:
    """An OTLP trace request; the answer has its encoding."""
    answer, content_type = receive_traces(request)
    return HttpResponse(answer, content_type=content_type)


@accepts_body("INTAKE_BODY_LIMIT_BYTES", TRACE_TYPES, in_chunks=True)
@answers_as_otlp
@accepts_token("ingest", ["POST"])
@answers_refusals
def logs(request: TokenRequest) -> HttpResponse:
    """An OTLP log request, of which the tool results of Claude Code and Codex are stored."""
    answer, content_type = receive_logs(request)
    return HttpResponse(answer, content_type=content_type)


@accepts_body("INTAKE_BODY_LIMIT_BYTES", HOOK_TYPES, in_chunks=True)
@accepts_token("ingest", ["POST"])
@answers_refusals
def claude_code_hook(request: TokenRequest) -> HttpResponse:
    """One event. The answer is an empty object, which lets a hook that prints it change nothing."""
    answer, status = receive_hook(request)
    return json_response(answer if answer.rejected else {}, status)


@accepts_token("ingest", ["GET", "HEAD"])
def show_limits(request: TokenRequest) -> HttpResponse:
    return json_response(limits(request.project))
