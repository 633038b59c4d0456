"""Who is asking, and for which project. Every object is looked up through `request.project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from dashboard.models import Membership, Project


class OperatorRequest(HttpRequest):
    """A request behind sign-in: the user is known, and so is the project."""

    user: User
    htmx: HtmxDetails
    project: Project
    projects: list[Project]  # all that the user may see, for switching
    membership: Membership


class ProjectMiddleware:
    """Puts the signed-in user's project on the request; `?project=` is remembered in the session."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], _args: Any, _options: Any) -> None:
        """Not for the views that need no sign-in: who belongs to no project can still sign out."""
        if request.user.is_authenticated and getattr(view, "login_required", True):
            memberships = list(request.user.memberships.select_related("project").order_by("id"))
            membership = _wanted(request, memberships)
            if membership is None:
                raise PermissionDenied("You are not a member of any project. Ask an operator for a place in one.")
            request.membership = membership  # type: ignore[attr-defined]
            request.project = membership.project  # type: ignore[attr-defined]
            request.projects = [one.project for one in memberships]  # type: ignore[attr-defined]


def _wanted(request: HttpRequest, memberships: list[Membership]) -> Membership | None:
    """The one that the address names, else the session's, else the first. A project of others is not found."""
    by_slug = {one.project.slug: one for one in memberships}
    named = request.GET.get("project")
    if named and by_slug and named not in by_slug:
        raise Http404
    found = by_slug.get(named or request.session.get("project", "")) or next(iter(memberships), None)
    if found is not None and request.session.get("project") != found.project.slug:
        request.session["project"] = found.project.slug
    return found
