"""Headers that every answer carries, and a log that stays one line an event."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}


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


class OneLineFormatter(logging.Formatter):
    """Control characters are written out, so that no payload can forge a line (reliability.md class 41)."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(CONTROL)
