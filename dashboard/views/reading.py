"""The reading API: JSON for programs with a token, and for people whose client asks a page's address for JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from dashboard.api import answers, reading
from dashboard.api.intake import BodyRefused, json_response, read_body
from dashboard.api.mcp_server import answer_message
from dashboard.middleware import accepts_body
from dashboard.text.responses import prefers_json, sandboxed
from dashboard.tokens import TokenRequest, accepts_token

ACCEPTED, UNPROCESSABLE = 202, 422
READ = accepts_token("read", ["GET", "HEAD"])
Answer = Callable[..., HttpResponse]


def runs(request: TokenRequest) -> HttpResponse:
    return json_response(reading.list_runs(request.project, request.GET.dict()))


def run(request: TokenRequest, pk: UUID) -> HttpResponse:
    return json_response(reading.find_run(request.project, pk))


def context(request: TokenRequest, pk: UUID, position: int) -> HttpResponse:
    return json_response(reading.load_step_context(request.project, pk, position))


def calls(request: TokenRequest) -> HttpResponse:
    return json_response(reading.list_calls(request.project, request.GET.dict()))


def halves(request: TokenRequest, pk: UUID) -> HttpResponse:
    return json_response(reading.load_halves(request.project, pk, request.GET.dict()))


def half(request: TokenRequest, pk: UUID, half: str) -> HttpResponse:
    """The window of that half from `?offset=` on."""
    part = half if half in reading.PARTS else ""
    return json_response(reading.load_halves(request.project, pk, request.GET.dict() | {"part": part}))


def step(request: TokenRequest, pk: UUID, position: int, tab: str) -> HttpResponse:
    """The halves of the call at that position of the run; on its tab Context the model's context there."""
    if tab == "context":
        return context(request, pk, position)
    return json_response(reading.load_halves_at(request.project, pk, position, request.GET.dict()))


def unseen(request: TokenRequest, pk: UUID) -> HttpResponse:
    return _or_reason(lambda: reading.load_unseen(request.project, pk, request.GET.dict()))


def variant(request: TokenRequest, pk: UUID, name: str) -> HttpResponse:
    return _or_reason(lambda: reading.render_variant(request.project, pk, name, request.GET.dict()))


def artifacts(request: TokenRequest) -> HttpResponse:
    return json_response(reading.list_artifacts(request.project, request.GET.dict()))


def artifact(request: TokenRequest, pk: UUID) -> HttpResponse:
    return _or_reason(lambda: reading.load_artifact(request.project, pk, request.GET.dict()))


def experiments(request: TokenRequest) -> HttpResponse:
    return json_response(reading.list_experiments(request.project, request.GET.dict()))


def _or_reason(load: Callable[[], object]) -> HttpResponse:
    try:
        return json_response(load())
    except reading.NotAnswered as reason:
        return json_response({"error": str(reason)}, UNPROCESSABLE)


@accepts_body("TEXT_BODY_LIMIT_BYTES", ("application/json",))
@accepts_token("mcp", ["POST"])
def mcp(request: TokenRequest) -> HttpResponse:
    """One JSON-RPC message, one answer: no session and no stream. A notification is answered with 202."""
    try:
        answer = answer_message(request.project, read_body(request))
    except BodyRefused as refusal:
        return json_response({"error": str(refusal)}, refusal.status)
    if answer is None:
        return HttpResponse(status=ACCEPTED)
    return sandboxed(HttpResponse(answer, content_type="application/json"))


@login_not_required
@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The description of the API; it has nothing of any project."""
    return json_response(answers.openapi())


def or_json(page: Callable[..., HttpResponseBase], answer: Answer) -> Callable[..., HttpResponseBase]:
    """The page, or `answer` where the client prefers JSON. Both need the same session.

    Other pages answer with their own data (`views.site.render_page`).
    """

    @wraps(page)
    def choose(request: HttpRequest, *arguments: Any, **options: Any) -> HttpResponseBase:
        response = (answer if prefers_json(request) else page)(request, *arguments, **options)
        patch_vary_headers(response, ["Accept"])
        return response

    return cast(Callable[..., HttpResponseBase], choose)
