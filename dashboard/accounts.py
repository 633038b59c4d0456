"""Projects, their members, and how these sign in: by a one-time link, or with a name and a password.

Views look every object up through `request.project`, the project that a request works in.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from dashboard.models import (
    Artifact,
    Call,
    Comparison,
    Membership,
    Project,
    RecallReport,
    Run,
    SignInFailure,
    SignInLink,
)
from dashboard.models.notes import READER
from dashboard.models.projects import LINK_LIFETIME

NAMED_IN_ADDRESSES: dict[str, type[Any]] = {  # by the noun of an address's name
    "run": Run,
    "step": Run,
    "call": Call,
    "artifact": Artifact,
    "comparison": Comparison,
    "recall": RecallReport,
}
DEFAULT_PROJECT = "default"
DEMO_PROJECT = "demo"  # has the bundled recordings alone
OPERATOR = "operator"  # whom `demo` and `counterfoil PATH` sign in
# Failures within FAILURE_MEMORY after which a client waits: for one account, for all accounts, and failures of an
# account from everywhere, after which only known devices may try it.
MAX_FAILURES, MAX_CLIENT_FAILURES, MAX_ACCOUNT_FAILURES = 10, 50, 100
FAILURE_MEMORY = timedelta(minutes=15)
DEVICE_COOKIE, DEVICE_SECONDS = "known_device", 180 * 24 * 3600
IPV6_NETWORK_BITS = 64  # what one customer of a provider has
ADDRESS_CHARACTERS = 64


class OperatorRequest(HttpRequest):
    """A request behind sign-in: its user and project are set."""

    user: User
    htmx: HtmxDetails
    project: Project
    projects: list[Project]  # every project of the user, for the project switcher
    membership: Membership


class ProjectMiddleware:
    """Puts the signed-in user's project on the request; `?project=` is remembered in the session.

    Memberships are loaded with every request, so a lost one has an effect at once.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = READER.set("")
        try:
            return self.get_response(request)
        finally:
            READER.reset(token)

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], _args: Any, _options: Any) -> None:
        """Skips views that need no sign-in: a user without a project can still sign out."""
        if not getattr(view, "login_required", True) or not request.user.is_authenticated:
            return
        READER.set(request.user.get_username())
        rows = Membership.objects.filter(user=request.user.pk).select_related("project")
        memberships = sorted(rows, key=lambda membership: membership.pk)
        membership = _pick_membership(request, memberships)
        if membership is None:
            raise PermissionDenied("You are not a member of any project. Ask an operator to add you to one.")
        request.membership = membership  # type: ignore[attr-defined]
        request.project = membership.project  # type: ignore[attr-defined]
        request.projects = [membership.project for membership in memberships]  # type: ignore[attr-defined]


def _pick_membership(request: HttpRequest, memberships: list[Membership]) -> Membership | None:
    """The membership that the address names, else the session's, else the first.

    Raises Http404 for a project of which the user is no member.
    """
    by_slug = {membership.project.slug: membership for membership in memberships}
    slug = request.GET.get("project")
    if slug and by_slug and slug not in by_slug:
        raise Http404
    membership = by_slug.get(slug or request.session.get("project", "")) or next(iter(memberships), None)
    if slug and membership is not None and request.session.get("project") != slug:
        request.session["project"] = slug
    return membership


def find_other_project(request: HttpRequest) -> Project | None:
    """Another project of the person that has what the address names: a link may come from someone in that one."""
    match = getattr(request, "resolver_match", None)
    key = match.kwargs.get("pk") if match else None
    projects = [project for project in getattr(request, "projects", ()) if project != request.project]  # type: ignore[attr-defined]
    noun = (match.url_name or "").partition("-")[0] if match else ""
    if not projects or noun not in NAMED_IN_ADDRESSES or not isinstance(key, UUID):
        return None
    rows = NAMED_IN_ADDRESSES[noun]._default_manager.filter(pk=key).values_list("project", flat=True)
    return next((project for project in projects if project.pk in rows), None)


def require_operator(request: OperatorRequest, refusal: str) -> None:
    """Raises PermissionDenied with the sentence `refusal` for a member who may only look."""
    if not request.membership.may_write:
        raise PermissionDenied(refusal)


def get_or_create_project(slug: str = DEFAULT_PROJECT) -> Project:
    return Project.objects.get_or_create(slug=slug, defaults={"name": slug.replace("-", " ").capitalize()})[0]


@transaction.atomic
def create_member(name: str, project: Project, role: str) -> tuple[User, bool]:
    """The user and whether it is new. A known user gets the role in this project and keeps the password."""
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    Membership.objects.update_or_create(user=user, project=project, defaults={"role": role})
    return user, is_new


def create_link(user: User) -> tuple[str, datetime]:
    """The path of a one-time link and when it expires. Only the token's digest is stored."""
    token = SignInLink.new_token()
    link = SignInLink.objects.create(
        user=user, token_sha256=SignInLink.digest(token), expires_at=timezone.now() + LINK_LIFETIME
    )
    return reverse("sign-in-link", args=[token]), link.expires_at


def explain_refusal(token: str) -> str:
    """Why a link does not work, for the person who follows it; empty when it works."""
    link = SignInLink.objects.filter(token_sha256=SignInLink.digest(token)).first()
    if link is None:
        return "This sign-in link is not known here. It may be incomplete: copy the whole line."
    if link.used_at is not None:
        return f"This sign-in link was used on {link.used_at:%Y-%m-%d at %H:%M} UTC. A link works once."
    if not link.is_open:
        return f"This sign-in link expired on {link.expires_at:%Y-%m-%d at %H:%M} UTC."
    return ""


def use_link(token: str) -> User | None:
    """Marks the link as used and returns its user. When two requests use it at once, one gets None."""
    links = SignInLink.objects.filter(token_sha256=SignInLink.digest(token), user__is_active=True)
    if links.filter(used_at=None, expires_at__gt=timezone.now()).update(used_at=timezone.now()) != 1:
        return None
    return User.objects.get(sign_in_links__token_sha256=SignInLink.digest(token))


@dataclass(frozen=True)
class SignInClient:
    """The client that failures are counted of. A known device has signed in to this account before."""

    key: str
    is_known_device: bool


def identify_client(request: HttpRequest, name: str) -> SignInClient:
    """Identifies a client by the cookie that an earlier sign-in to this account left, else by its address."""
    device = request.get_signed_cookie(DEVICE_COOKIE, "", salt=_account_digest(name), max_age=DEVICE_SECONDS)
    if device:
        return SignInClient(f"device {device}", is_known_device=True)
    return SignInClient(client_address(request), is_known_device=False)


def remember_device(response: HttpResponse, user: User) -> None:
    """Leaves the cookie of a known device, so that failures of others cannot lock this person out."""
    response.set_signed_cookie(
        DEVICE_COOKIE,
        secrets.token_urlsafe(16),
        salt=_account_digest(user.get_username()),
        max_age=DEVICE_SECONDS,
        path=reverse("sign-in"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def client_address(request: HttpRequest) -> str:
    """The address of the client as the nearest trusted proxy names it; of an IPv6 client its network of 64 bits."""
    hops = [request.META.get("REMOTE_ADDR", ""), *reversed(request.headers.get("X-Forwarded-For", "").split(","))]
    client = str(hops[0])
    for hop, sender in zip(hops[1:], hops, strict=False):
        if not _is_trusted(sender) or (address := _parse_address(hop)) is None:
            break
        client = str(address)
    address = _parse_address(client)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return client[:ADDRESS_CHARACTERS]


def _is_trusted(sender: str) -> bool:
    address = _parse_address(sender)
    return address is not None and any(address in network for network in settings.TRUSTED_PROXIES)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def is_blocked(name: str, client: SignInClient) -> bool:
    """True after too many failures of this client, for this account or others, or of this account from anywhere.

    The latter two do not count for a known device: nobody else can lock its owner out. A one-time link always works.
    """
    recent = SignInFailure.objects.filter(at__gt=timezone.now() - FAILURE_MEMORY)
    of_account, of_client = recent.filter(account_sha256=_account_digest(name)), recent.filter(client=client.key)
    if of_account.filter(client=client.key).count() >= MAX_FAILURES:
        return True
    is_too_many = of_account.count() >= MAX_ACCOUNT_FAILURES or of_client.count() >= MAX_CLIENT_FAILURES
    return is_too_many and not client.is_known_device


def count_failure(name: str, client: SignInClient) -> None:
    SignInFailure.objects.filter(at__lt=timezone.now() - FAILURE_MEMORY).delete()
    SignInFailure.objects.create(account_sha256=_account_digest(name), client=client.key)


def _account_digest(name: str) -> str:
    return hashlib.sha256(name.casefold().encode("utf-8", "replace")).hexdigest()
