"""Responses without a view's own page: errors, and recorded bytes with the headers that they need."""

from __future__ import annotations

from typing import TypeVar

from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseBase
from django.template.loader import render_to_string

# A browser must not run recorded bytes, whatever they contain (D-7).
SANDBOX_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

Response = TypeVar("Response", bound=HttpResponseBase)


def prefers_json(request: HttpRequest) -> bool:
    """True for a client that names JSON before HTML; one that accepts anything gets the page."""
    is_read = request.method in ("GET", "HEAD")
    return is_read and request.get_preferred_type(["text/html", "application/json"]) == "application/json"


def sandboxed(response: Response, *, file_name: str = "") -> Response:
    """Keeps browsers from running, framing or sniffing the content; a `file_name` makes it a download.

    `file_name` is written between quotes as it is, so callers pass only names that they made themselves.
    """
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = SANDBOX_POLICY
    if file_name:
        response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


def render_error(status: int, title: str, text: str, *, retry_after: int = 0, may_repeat: bool = False) -> HttpResponse:
    """Renders no user and no project: the host may be unknown, or the query for them may be what failed.

    `may_repeat` offers the same address again.
    """
    context = {"title": title, "text": text, "may_repeat": may_repeat}
    response = HttpResponse(render_to_string("errors/page.html", context), status=status)
    if retry_after:
        response["Retry-After"] = str(retry_after)
    return response
