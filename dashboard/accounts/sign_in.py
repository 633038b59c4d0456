"""People, their place in a project, and how they get in: one-time links, or a name and a password."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from dashboard.models import Membership, Project, SignInLink
from dashboard.models.projects import LINK_LIFETIME

DEFAULT_PROJECT = "default"
FAILURES_ALLOWED = 10
FAILURES_FORGOTTEN_AFTER = 15 * 60  # seconds


def default_project() -> Project:
    """The first project there is; made when there is none."""
    found = Project.objects.order_by("id").first()
    if found is not None:
        return found
    return Project.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})[0]


@transaction.atomic
def create_member(name: str, project: Project, role: str) -> tuple[User, bool]:
    """The user and whether it is new. Somebody known gets the role in this project; no password is touched."""
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    Membership.objects.update_or_create(user=user, project=project, defaults={"role": role})
    return user, is_new


def new_link(user: User) -> tuple[str, datetime]:
    """The path of a one-time link and when it expires. The token itself is kept nowhere."""
    token = SignInLink.new_token()
    link = SignInLink.objects.create(
        user=user, token_sha256=SignInLink.digest(token), expires_at=timezone.now() + LINK_LIFETIME
    )
    return reverse("sign-in-link", args=[token]), link.expires_at


def why_closed(token: str) -> str:
    """Why a link does not work, for the person who holds it; empty when it does."""
    link = SignInLink.objects.filter(token_sha256=SignInLink.digest(token)).first()
    if link is None:
        return "This sign-in link is not known here. It may be incomplete: copy the whole line."
    if link.used_at is not None:
        return f"This sign-in link was used on {link.used_at:%Y-%m-%d at %H:%M} UTC. A link works once."
    if not link.is_open:
        return f"This sign-in link expired on {link.expires_at:%Y-%m-%d at %H:%M} UTC."
    return ""


def use_link(token: str) -> User | None:
    """Uses the link up. Of two who try at once, the update lets one through."""
    links = SignInLink.objects.filter(token_sha256=SignInLink.digest(token), user__is_active=True)
    if links.filter(used_at=None, expires_at__gt=timezone.now()).update(used_at=timezone.now()) != 1:
        return None
    return User.objects.get(sign_in_links__token_sha256=SignInLink.digest(token))


def is_blocked(name: str, address: str) -> bool:
    return int(cache.get(_failures_of(name, address), 0)) >= FAILURES_ALLOWED


def note_failure(name: str, address: str) -> None:
    """Counted per name and address, so that nobody can lock somebody else out from afar."""
    key = _failures_of(name, address)
    if not cache.add(key, 1, FAILURES_FORGOTTEN_AFTER):
        try:
            cache.incr(key)
        except ValueError:  # it expired between the two
            cache.add(key, 1, FAILURES_FORGOTTEN_AFTER)


def _failures_of(name: str, address: str) -> str:
    digest = hashlib.sha256(f"{name.casefold()}\0{address}".encode("utf-8", "replace")).hexdigest()
    return f"sign-in-failures:{digest}"
