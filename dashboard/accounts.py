"""Projects, their members, and how these sign in: by a one-time link, or with a name and a password.

Views look every object up through `request.project`, the project that a request works in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from dashboard.models import Membership, Project, SignInLink
from dashboard.models.projects import LINK_LIFETIME

DEFAULT_PROJECT = "default"
MAX_FAILURES = 10
FAILURE_MEMORY_SECONDS = 15 * 60


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
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], _args: Any, _options: Any) -> None:
        """Skips views that need no sign-in: a user without a project can still sign out."""
        if not getattr(view, "login_required", True) or not request.user.is_authenticated:
            return
        memberships = list(Membership.objects.filter(user=request.user).select_related("project").order_by("id"))
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


def is_blocked(name: str, address: str) -> bool:
    return int(cache.get(_failures_key(name, address), 0)) >= MAX_FAILURES


def count_failure(name: str, address: str) -> None:
    """Counts per name and address, so that no one can lock out another person from elsewhere."""
    key = _failures_key(name, address)
    if not cache.add(key, 1, FAILURE_MEMORY_SECONDS):
        try:
            cache.incr(key)
        except ValueError:  # it expired between the two calls
            cache.add(key, 1, FAILURE_MEMORY_SECONDS)


def _failures_key(name: str, address: str) -> str:
    digest = hashlib.sha256(f"{name.casefold()}\0{address}".encode("utf-8", "replace")).hexdigest()
    return f"sign-in-failures:{digest}"
