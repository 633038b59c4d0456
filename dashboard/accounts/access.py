"""Who is asking, and for which project. Every object is looked up through `request.project`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from dashboard.models import Membership, Project
from dashboard.prepared import given, instance, names_of, prepared


class OperatorRequest(HttpRequest):
    """A request behind sign-in: the user is known, and so is the project."""

    user: User
    htmx: HtmxDetails
    project: Project
    projects: list[Project]  # all that the user may see, for switching
    membership: Membership


USER, PLACE, PROJECT = (
    names_of(User),
    names_of(Membership, "memberships__"),
    names_of(Project, "memberships__project__"),
)


@prepared
def _user_with_places() -> QuerySet[Any, Any]:
    """One row for each membership; one with empty places for who has none."""
    found = User.objects.filter(pk=given("user", User, "id"))
    return found.order_by("memberships__id").values_list(*USER, *PLACE, *PROJECT)


class MemberBackend(ModelBackend):
    """Django's names and passwords. Who is signed in comes with all memberships, in one query for every page."""

    def get_user(self, user_id: int) -> User | None:
        rows = _user_with_places(user=user_id)
        user = instance(User, rows[0][: len(USER)]) if rows else None
        if user is None or not self.user_can_authenticate(user):
            return None
        user.places = [_place(row[len(USER) :]) for row in rows if row[len(USER)] is not None]  # type: ignore[attr-defined]
        return user


def _place(row: Sequence[Any]) -> Membership:
    membership = instance(Membership, row[: len(PLACE)])
    membership.project = instance(Project, row[len(PLACE) :])
    return membership


class ProjectMiddleware:
    """Puts the signed-in user's project on the request; `?project=` is remembered in the session."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], _args: Any, _options: Any) -> None:
        """Not for the views that need no sign-in: who belongs to no project can still sign out."""
        if getattr(view, "login_required", True) and request.user.is_authenticated:
            memberships: list[Membership] = request.user.places  # type: ignore[attr-defined]
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
