"""Error pages in plain words. They repeat nothing of the request's content."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

PAGE = "errors/page.html"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "Its address, host or form is not one that this dashboard understands."
    return _render_without_request(400, "This request cannot be read", text)


def no_permission(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`exception` has our own sentence when a view or a middleware raised it."""
    text = str(exception) or "Your role in this project does not include this. An operator can do it."
    return _render(request, 403, "Not allowed", text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "It was never in this project, or it was deleted. The address may also be incomplete."
    return _render(request, 404, "Not found", text)


def failed(request: HttpRequest) -> HttpResponse:
    text = "Nothing that was stored is lost. The server's log has the reason."
    return _render_without_request(500, "Server error", text)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = "The form was too old, or it came from another site. Go back, reload the page and try again."
    return _render(request, 403, "This form was not accepted", text)


def _render(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    return render(request, PAGE, {"title": title, "text": text}, status=status)


def _render_without_request(status: int, title: str, text: str) -> HttpResponse:
    """Renders no user and no project: the host may be unknown, or the database query for them may be what failed."""
    return HttpResponse(render_to_string(PAGE, {"title": title, "text": text}), status=status)
