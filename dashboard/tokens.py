"""Access tokens: how programs send recordings and read them, each for one project and one purpose.

    create_token(project, name, scope, by)   the token, shown once
    accepts_token(scope, methods)            a view for programs: it answers 401 without a token of that scope

A token is `cft_KEY_SECRET`. The key finds its row, the hash of the secret is compared in constant time. Whoever sends
wrong ones is counted as for sign-in; a token in use may ask TOKEN_REQUESTS_A_MINUTE times in each web process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from dashboard.accounts import FAILURE_MEMORY, count_failure, identify_client, is_blocked
from dashboard.faults import drop_connection, find_outage
from dashboard.models import AccessToken, Project
from dashboard.project_rules import load_rules
from dashboard.text.masks import current_masks

PREFIX = "cft"
ACCOUNT = "access token"  # under which failures are counted
NO_SECRET = "0" * 64  # compared with where no token has the key, so that both take as long
NOTED_EVERY = timedelta(minutes=1)
REALM = 'Bearer realm="counterfoil"'
# The whole rows of a token in use and of its project. Django takes 0.4 ms of each request to compose the same question
# and to make the instances, SQLite 0.05 ms to answer it.
ROWS_BY_KEY = (
    "SELECT token.*, project.* FROM dashboard_accesstoken token"
    " JOIN dashboard_project project ON project.id = token.project_id WHERE token.key = %s AND token.revoked_at IS NULL"
)
_LOADED: dict[str, tuple[tuple[Any, ...], AccessToken]] = {}  # by key: the rows as they were, and their instance


class TokenRequest(HttpRequest):
    """A request with a valid token: its project and token are set."""

    project: Project
    token: AccessToken


class NameTaken(ValueError):
    """The project has a token of this name in use."""


def create_token(project: Project, name: str, scope: str, *, by: str) -> str:
    """Returns the token, of which only a hash is stored. Raises NameTaken."""
    key, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            AccessToken.objects.create(
                project=project, name=name, scope=scope, key=key, secret_sha256=_digest(secret), created_by=by[:150]
            )
    except IntegrityError:
        raise NameTaken(f"The project has a token {name!r} in use: revoke it first, or choose another name.") from None
    return f"{PREFIX}_{key}_{secret}"


def revoke_token(token: AccessToken) -> bool:
    """False where it was revoked before."""
    in_use = AccessToken.objects.filter(pk=token.pk, revoked_at=None)
    return in_use.update(revoked_at=timezone.now()) == 1


def find_token(text: str) -> AccessToken | None:
    """The token in use that `text` is; None for anything else."""
    prefix, _, rest = text.partition("_")
    key, _, secret = rest.partition("_")
    known = prefix == PREFIX and key.isascii() and key.isalnum()
    token = _load_token(key[:16]) if known else None
    stored = token.secret_sha256 if token is not None else NO_SECRET
    return token if hmac.compare_digest(_digest(secret), stored) else None


def _load_token(key: str) -> AccessToken | None:
    """The token in use with that key, whose rows are compared with those that its instance was made of."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS_BY_KEY, [key])
        rows = cursor.fetchone()
    if rows is None:
        _LOADED.pop(key, None)
        return None
    known, token = _LOADED.get(key, (None, None))
    if rows != known:
        token = AccessToken.objects.filter(key=key, revoked_at=None).select_related("project").first()
        if token is not None:
            _LOADED[key] = rows, token
    return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class RequestRate:
    """How many requests each token may still send: a bucket that fills again within a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._buckets: dict[str, tuple[float, float]] = {}  # by key: what is left, and when that was

    def wait_seconds(self, token: str, most: int) -> float:
        """0 where the token may send now; else after how many seconds. `most` is the number a minute."""
        with self._lock:
            now = self._clock()
            left, then = self._buckets.get(token, (float(most), now))
            left = min(float(most), left + (now - then) * most / 60)
            self._buckets[token] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) * 60 / most


RATE = RequestRate()
View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def accepts_token(scope: str, methods: list[str]) -> Callable[[View], View]:
    """Declares a view that programs call with a token of `scope` in `Authorization: Bearer`, instead of a session.

    Other methods are answered with 405, whoever asks.
    """

    def declare(view: View) -> View:
        @wraps(view)
        def check(request: HttpRequest, *arguments: Any, **options: Any) -> HttpResponseBase:
            refusal = authorise(request, scope)
            return view(request, *arguments, **options) if refusal is None else refusal

        checked = csrf_exempt(login_not_required(require_http_methods(methods)(check)))
        return cast(View, checked)

    return declare


def authorise(request: HttpRequest, scope: str) -> JsonResponse | None:
    """Sets the project and the token of the request; returns the refusal where there is no valid token."""
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    token = find_token(text.strip()) if kind.lower() == "bearer" else None
    if token is None:
        return _refuse_token(request, is_sent=bool(text))
    if token.scope != scope:
        return _refuse(403, f"This token is for {token.scope}; the address needs one for {scope}.")
    if wait := RATE.wait_seconds(token.key, settings.TOKEN_REQUESTS_A_MINUTE):
        sentence = f"This token may send {settings.TOKEN_REQUESTS_A_MINUTE:,} requests a minute."
        return _refuse(429, sentence, {"Retry-After": str(int(wait) + 1)})
    _note_use(token)
    request.project, request.token = token.project, token  # type: ignore[attr-defined]
    if (masks := current_masks()) is not None:
        masks.rules = load_rules(token.project)
    return None


def _refuse_token(request: HttpRequest, *, is_sent: bool) -> JsonResponse:
    """A client that sent many wrong tokens waits, which a valid token never has to."""
    client = identify_client(request, ACCOUNT)
    if is_sent and is_blocked(ACCOUNT, client):
        seconds = str(int(FAILURE_MEMORY.total_seconds()))
        return _refuse(429, "Too many wrong tokens came from this address.", {"Retry-After": seconds})
    if is_sent:
        count_failure(ACCOUNT, client)
    sentence = "This token is not valid here." if is_sent else "Send a token: Authorization: Bearer cft_…"
    return _refuse(401, sentence, {"WWW-Authenticate": REALM})


def _refuse(status: int, sentence: str, headers: dict[str, str] | None = None) -> JsonResponse:
    return JsonResponse({"error": sentence}, status=status, headers=headers)


def _note_use(token: AccessToken) -> None:
    now = timezone.now()
    if token.used_at is not None and now - token.used_at <= NOTED_EVERY:
        return
    try:
        AccessToken.objects.filter(pk=token.pk).update(used_at=now)
    except DatabaseError as error:
        if find_outage(error) is None:
            raise
        drop_connection()  # a store that cannot be written can be read
