"""What went wrong, in plain words. Nothing of the request's content is repeated."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

PAGE = "errors/page.html"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _apart(
        400, "This request cannot be read", "Its address, host or form is not one that this dashboard understands."
    )


def no_permission(request: HttpRequest, exception: Exception) -> HttpResponse:
    """`exception` is our own sentence, when a view or a middleware raised one."""
    text = str(exception) or "Your role in this project does not include this. An operator can do it."
    return _page(request, 403, "You may not do this", text)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    text = "It never was in this project, or it was deleted. The address may also be incomplete."
    return _page(request, 404, "There is nothing here", text)


def failed(request: HttpRequest) -> HttpResponse:
    text = "The dashboard made a mistake; nothing that was stored is lost. The server's log has the reason."
    return _apart(500, "This did not work", text)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = "The form was too old, or it came from another site. Go back, reload the page and try again."
    return _page(request, 403, "This form was not accepted", text)


def _page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    return render(request, PAGE, {"title": title, "text": text}, status=status)


def _apart(status: int, title: str, text: str) -> HttpResponse:
    """Without the request: who is asking may be unknowable, or asking the database may be what failed."""
    return HttpResponse(render_to_string(PAGE, {"title": title, "text": text}), status=status)
