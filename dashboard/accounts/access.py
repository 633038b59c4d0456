"""The project that a request or a command works in. Views look every object up through `request.project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from dashboard.models import Membership, Project

DEFAULT_PROJECT = "default"


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
    if membership is not None and request.session.get("project") != membership.project.slug:
        request.session["project"] = membership.project.slug
    return membership


def get_or_create_project(slug: str = DEFAULT_PROJECT) -> Project:
    return Project.objects.get_or_create(slug=slug, defaults={"name": slug.replace("-", " ").capitalize()})[0]


def first_project() -> Project:
    """The oldest project; a new one when there is none."""
    return Project.objects.order_by("id").first() or get_or_create_project()
