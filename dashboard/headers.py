"""Headers that every answer carries, and a log that stays one line an event."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}


# Bytes as recorded are never a page of ours, whatever they hold (reliability.md section 0, 7).
INERT_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

Answer = TypeVar("Answer", bound=HttpResponseBase)


def inert(response: Answer, *, file_name: str = "") -> Answer:
    """No browser runs, frames or guesses at what is in it. With a name, which is safe to quote, it is a download."""
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = INERT_POLICY
    if file_name:
        response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


class HeadersMiddleware:
    """Pages hold what tools said: no cache may keep them unless a view says otherwise."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class SessionCookieMiddleware:
    """Ignores a session cookie that Django cannot have set.

    A cookie can be quoted so that it holds a NUL, and PostgreSQL refuses a query with one. Django's keys are
    ASCII letters and digits.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        if not (key.isascii() and key.isalnum()):
            request.COOKIES.pop(settings.SESSION_COOKIE_NAME, None)
        return self.get_response(request)


class OneLineFormatter(logging.Formatter):
    """Control characters are written out, so that no payload can forge a line (reliability.md class 41)."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(CONTROL)
