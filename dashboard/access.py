"""Who is asking, and for which project. Every object is looked up through `request.project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from dashboard.models import Membership, Project


class OperatorRequest(HttpRequest):
    """A request behind sign-in: the user is known, and so is the project."""

    user: User
    htmx: HtmxDetails
    project: Project
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
            membership = _membership(request, request.user)
            if membership is None:
                raise PermissionDenied("You are not a member of any project. Ask an operator for a place in one.")
            request.membership = membership  # type: ignore[attr-defined]
            request.project = membership.project  # type: ignore[attr-defined]


def _membership(request: HttpRequest, user: User) -> Membership | None:
    wanted = request.GET.get("project") or request.session.get("project")
    memberships = list(Membership.objects.filter(user=user).select_related("project").order_by("id"))
    found = next((one for one in memberships if one.project.slug == wanted), memberships[0] if memberships else None)
    if found is not None and request.session.get("project") != found.project.slug:
        request.session["project"] = found.project.slug
    return found
