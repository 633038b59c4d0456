"""Middleware that every request passes, and the formatter that keeps a log event on one line."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.sessions.exceptions import SessionInterrupted
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.request import UnreadablePostError
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.urls import is_valid_path, resolve

from dashboard.faults import find_outage
from dashboard.text.formatting import format_size
from dashboard.text.masks import mask_line
from dashboard.text.params import parse_integer
from dashboard.text.responses import prefers_json, render_error
from envelopes.text.credentials import REDACTED, redact
from envelopes.text.deadline import time_budget

LOG_SECRETS = (
    (re.compile(r"(?i)(sign-in(?:/|%(?:25)*2f)+)[^\s'\"]+"), rf"\g<1>{REDACTED}"),
    (re.compile(r"\bcft_[0-9a-f]+_[\w-]+"), REDACTED),  # an access token
    (re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])"), REDACTED),  # the token of a one-time link, wherever it is
    (re.compile(r"(?<=[\w/])\?[\w.-]+=[^\s'\"]*"), f"?{REDACTED}"),
    (re.compile(r"(Key \([^)]*\)=)\(.*\)"), rf"\1({REDACTED})"),  # the detail of PostgreSQL's errors
)
CONTROL_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}


HEALTH = "/healthz"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
View = TypeVar("View", bound=Callable[..., object])


FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
PROGRAMS = ("/api/", "/v1/", "/mcp")  # how addresses begin whose answers are JSON


def accepts_body(setting: str, types: tuple[str, ...] = FORMS, *, in_chunks: bool = False) -> Callable[[View], View]:
    """Lets an address accept as many bytes as the setting `setting` says, instead of BODY_LIMIT_BYTES.

    With other `types` than those of forms the body may be compressed by gzip. `in_chunks`: a body may come without its
    size, as some exporters on Node.js send it; the view has to count what it reads.
    """

    def declare(view: View) -> View:
        view.body_limit = setting  # type: ignore[attr-defined]
        view.body_types = types  # type: ignore[attr-defined]
        view.accepts_chunks = in_chunks  # type: ignore[attr-defined]
        return view

    return declare


def comes_in_chunks(request: HttpRequest) -> bool:
    """True for a body in chunks alone, of which the server finds the end."""
    meta = request.META
    is_ended = bool(meta.get("wsgi.input_terminated")) and not meta.get("CONTENT_LENGTH")
    return is_ended and meta.get("HTTP_TRANSFER_ENCODING", "").strip().lower() == "chunked"


def _reads_chunks(request: HttpRequest) -> bool:
    return comes_in_chunks(request) and bool(_view_attribute(request.path_info, "accepts_chunks", None))


class BodyLimitMiddleware:
    """Refuses a body by its size and its type before anything reads it, on every address and for everybody.

    Sign-in and roles are checked later, and the CSRF check reads a form before either. A body without a declared
    size (chunked) is refused unread, but for addresses that count what they read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        refusal = self._refusal(request)
        return self.get_response(request) if refusal is None else answer_error(request, *refusal)

    def _refusal(self, request: HttpRequest) -> tuple[int, str, str] | None:
        """Status, title and sentence; None for a body that may be read."""
        if request.path_info.startswith(PROGRAMS) and not is_valid_path(request.path_info):
            return None  # answered with 404, which reads no body
        is_chunked = "HTTP_TRANSFER_ENCODING" in request.META
        if is_chunked and not _reads_chunks(request):
            return 411, "Length required", "Send the size of the body in Content-Length, not in chunks."
        length = parse_integer(request.META.get("CONTENT_LENGTH") or "0")
        if length is None:
            return 400, "This request cannot be read", "Its Content-Length is not a number."
        if length > settings.BODY_LIMIT_BYTES and length > (limit := _body_limit(request.path_info)):
            sizes = f"The body has {format_size(length)}; this address accepts at most {format_size(limit)}."
            return 413, "Too large", sizes
        if (length or is_chunked) and request.method == "POST":
            encoding = request.headers.get("Content-Encoding", "identity")
            types = _view_attribute(request.path_info, "body_types", FORMS)
            title = "Not a form" if types is FORMS else "Unsupported type"
            if request.content_type not in types:
                return 415, title, f"Send the body as {' or '.join(types)}."
            if encoding != "identity" and (types is FORMS or encoding != "gzip"):
                how = "uncompressed" if types is FORMS else "as it is or compressed by gzip"
                return 415, title, f"Send the body {how}."
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answers 400 where the client stopped sending."""
        if not isinstance(exception, UnreadablePostError):
            return None
        sentence = "Its body ended early, or was sent too slowly."
        return answer_error(request, 400, "This request cannot be read", sentence)


def answer_error(request: HttpRequest, status: int, title: str, sentence: str, *, retry_after: int = 0) -> HttpResponse:
    """The error as a page, or as JSON where programs or clients that prefer it ask."""
    if not (request.path_info.startswith(PROGRAMS) or prefers_json(request)):
        may_repeat = retry_after > 0 and request.method in SAFE_METHODS
        return render_error(status, title, sentence, retry_after=retry_after, may_repeat=may_repeat)
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return JsonResponse({"error": f"{title}. {sentence}"}, status=status, headers=headers)


def _view_attribute(path: str, name: str, default: Any) -> Any:
    try:
        return getattr(resolve(path).func, name, default)
    except Http404:
        return default


def _body_limit(path: str) -> int:
    limit: int = getattr(settings, _view_attribute(path, "body_limit", "BODY_LIMIT_BYTES"))
    return limit


class CompressionMiddleware(GZipMiddleware):
    """Django's, which pads what it compresses, so that no length tells what a secret on the page is (BREACH).

    A download keeps its length, and a range of bytes is one of the stored bytes.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.status_code != 200 or "attachment" in response.headers.get("Content-Disposition", ""):
            return response
        return super().process_response(request, response)


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


class TurnsMiddleware:
    """Works on ANSWERS_AT_ONCE pages at a time in this process; the next ones wait, and those beyond them get 503.

    The server has more threads than that, so some are free for `/healthz`, forms and files, however much the pages
    cost. A form does not wait: a slow client would keep its turn while it sends.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._turns = BoundedSemaphore(settings.ANSWERS_AT_ONCE)
        self._places = BoundedSemaphore(settings.ANSWERS_AT_ONCE + settings.ANSWERS_WAITING)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in SAFE_METHODS or request.path == HEALTH:
            return self.get_response(request)
        if not self._places.acquire(blocking=False):
            return _busy(request)
        try:
            if not self._turns.acquire(timeout=settings.ANSWER_WAIT_SECONDS):
                return _busy(request)
            try:
                return self.get_response(request)
            finally:
                self._turns.release()
        finally:
            self._places.release()


def _busy(request: HttpRequest) -> HttpResponse:
    return answer_error(request, 503, "Busy", "Many requests are being answered. Try again in a moment.", retry_after=2)


class TimeBudgetMiddleware:
    """Gives the searches, matches and templates of each request one time budget together."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with time_budget(settings.ANSWER_SECONDS):
            return self.get_response(request)


class StoredSessionMiddleware(SessionMiddleware):
    """Django's sessions, and pages that can be read while the session cannot be saved."""

    def process_request(self, request: HttpRequest) -> None:
        """Ignores a session cookie that Django cannot have set.

        A cookie can be quoted so that it holds a NUL, and PostgreSQL refuses a query with one. Django's keys are
        ASCII letters and digits.
        """
        key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
        if not (key.isascii() and key.isalnum()):
            request.COOKIES.pop(settings.SESSION_COOKIE_NAME, None)
        super().process_request(request)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        try:
            return super().process_response(request, response)
        except (DatabaseError, SessionInterrupted) as error:
            if request.method in SAFE_METHODS and find_outage(error):
                return response  # what it would have remembered is the project of the address
            raise


class OneLineFormatter(logging.Formatter):
    """Keeps secrets out of the log, and payloads from forging one of its lines.

    A traceback follows its line indented. One-time links are secrets whatever the status of the response, query
    strings may contain what somebody searched for, and messages of exceptions may contain anything.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _mask(super().formatMessage(record)).translate(CONTROL_ESCAPES)

    def formatException(self, ei: Any) -> str:
        return _mask(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for pattern, replacement in LOG_SECRETS:
            text = pattern.sub(replacement, text)
        return "\n\t".join(line.translate(CONTROL_ESCAPES) for line in redact(text).split("\n"))


def _mask(text: str) -> str:
    return mask_line(text, settings.MASK_SECONDS) if settings.MASK else text
