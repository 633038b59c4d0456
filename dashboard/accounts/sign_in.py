"""Members of projects and how they sign in: one-time links, or a name and a password."""

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

MAX_FAILURES = 10
FAILURE_MEMORY_SECONDS = 15 * 60


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
