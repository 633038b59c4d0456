"""Saved views of the Runs page: listed beside the presets, kept and deleted by operators.

kept = saved_views(project)             # one query
view_box(kept, text="cut:yes", sort="newest", asked="", refused=None)
save_view(project, user, name="Cut, by tokens", text="cut:yes", sort="tokens")   # raises NotSaved
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from dashboard.filters.language import MAX_CHARACTERS, parse
from dashboard.models import Project, SavedView
from dashboard.prepared import given, prepared
from dashboard.text.column_values import column_text

LONGEST_NAME = 60  # characters
MOST_VIEWS = 100  # of a project: all of them stand on the page


class View(NamedTuple):
    id: int
    name: str
    query: str
    sort: str

    @property
    def href(self) -> str:
        return f"?view={self.id}"


class NotSaved(ValueError):
    """The sentence says why; `name` is what was typed, to be mended."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(frozen=True)
class ViewBox:
    """`current` is the view that the list shows; `can_save` is false where there is nothing to keep."""

    views: Sequence[View]
    current: View | None
    can_save: bool
    refused: NotSaved | None
    longest_name: int = LONGEST_NAME


@prepared
def _views() -> QuerySet[Any, Any]:
    found = SavedView.objects.filter(project=given("project", SavedView, "project"))
    return found.values_list(*View._fields)


def saved_views(project: Project) -> list[View]:
    """By name. Sorted here, because the databases differ on the order of letters."""
    return sorted(map(View._make, _views(project=project.pk)), key=lambda view: (view.name.casefold(), view.name))


def asked_view(views: Sequence[View], asked: str) -> View | None:
    """The view whose id stands in the address. Compared as text: an address may hold anything."""
    return next((view for view in views if str(view.id) == asked), None)


def view_box(views: Sequence[View], *, text: str, sort: str, asked: str, refused: NotSaved | None = None) -> ViewBox:
    """Two views may hold the same filter: the one that the address names is current, else the first."""
    same = [view for view in views if (view.query, view.sort) == (text, sort)]
    current = asked_view(same, asked) or next(iter(same), None)
    can_save = bool(refused) or (current is None and bool(text or sort != "newest"))
    return ViewBox(views, current, can_save, refused)


def save_view(project: Project, user: User, *, name: str, text: str, sort: str) -> SavedView:
    """Raises NotSaved."""
    clean = column_text(" ".join(name.split()), MAX_CHARACTERS)
    if problem := _problem(project, clean, text):
        raise NotSaved(problem, name)
    kept = SavedView(project=project, name=clean, query=column_text(text, MAX_CHARACTERS), sort=sort, created_by=user)
    try:
        with transaction.atomic():
            kept.save()
    except IntegrityError:
        raise NotSaved(
            f"There is already a view named “{clean}”: take another name, or delete it first.", name
        ) from None
    return kept


def forget_view(view: SavedView) -> None:
    """The runs that it lists are untouched."""
    view.delete()


def _problem(project: Project, name: str, text: str) -> str:
    if not name:
        return "A view needs a name."
    if len(name) > LONGEST_NAME:
        return f"The name has {len(name)} characters; at most {LONGEST_NAME} are kept."
    if problems := parse(text).problems:
        return f"The filter finds nothing, so it is not kept. {problems[0]}"
    if project.saved_views.count() >= MOST_VIEWS:
        return f"The project has {MOST_VIEWS} views, as many as there may be: delete one first."
    return ""
