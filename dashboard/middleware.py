"""Middleware that every request passes, and the formatter that keeps a log event on one line."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

CONTROL_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}


class HeadersMiddleware:
    """Adds the headers that every response carries.

    Pages contain tool output, so no cache may store them unless a view sets another `Cache-Control`.
    """

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
    """Escapes control characters, so that no payload can forge a log line (reliability.md class 41)."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(CONTROL_ESCAPES)
