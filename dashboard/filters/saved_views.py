"""Saved views: a filter and a sort of the Runs or the Calls page, under a name for the whole project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dashboard.filters.keys import Over
from dashboard.filters.language import MAX_CHARACTERS, NEWEST, parse
from dashboard.models import Project, SavedView
from dashboard.text.formatting import column_text

MAX_NAME_CHARACTERS = 60
MAX_VIEWS = 100  # of a project


class ViewRefused(ValueError):
    """The sentence gives the reason; `name` is what was typed, for the form to show it again."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(frozen=True)
class ViewBox:
    """`current` is the view that the list shows; `can_save` is false where the filter and sort are the default ones.

    `text` and `sort` are those of the list, `over` is what it lists.
    """

    views: Sequence[SavedView]
    current: SavedView | None
    can_save: bool
    refused: ViewRefused | None
    text: str
    sort: str
    over: Over
    max_name_characters: int = MAX_NAME_CHARACTERS


def load_saved_views(project: Project, over: Over = "runs") -> list[SavedView]:
    """By name. Sorted here, because databases differ on the order of letters."""
    return sorted(project.saved_views.filter(over=over), key=lambda view: (view.name.casefold(), view.name))


def find_view(views: Sequence[SavedView], pk: str) -> SavedView | None:
    """The view whose id is in the address. Compared as text: an address may contain anything."""
    return next((view for view in views if str(view.pk) == pk), None)


def describe_missing_view(text: str, over: Over) -> str:
    """A sentence about an address that names a view which does not exist; `text` is the address's own filter."""
    instead = "this is the list without it" if text else f"these are all {over}"
    return f"There is no such saved view, it may have been deleted; {instead}."


def build_view_box(
    views: Sequence[SavedView],
    *,
    text: str,
    sort: str,
    view: str,
    over: Over = "runs",
    refused: ViewRefused | None = None,
) -> ViewBox:
    """Two views may have the same filter: the one that the address names is current, else the first."""
    same = [saved for saved in views if (saved.query, saved.sort) == (text, sort)]
    current = find_view(same, view) or next(iter(same), None)
    can_save = bool(refused) or (current is None and bool(text or sort != NEWEST))
    return ViewBox(views, current, can_save, refused, text, sort, over)


def create_saved_view(
    project: Project, user: User, *, name: str, text: str, sort: str, over: Over = "runs"
) -> SavedView:
    """Raises ViewRefused."""
    clean = column_text(" ".join(name.split()), MAX_CHARACTERS)
    if problem := _find_problem(project, clean, text, over):
        raise ViewRefused(problem, name)
    view = SavedView(
        project=project,
        over=over,
        name=clean,
        query=column_text(text, MAX_CHARACTERS),
        sort=sort,
        created_by=user,
    )
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError:
        taken = f"There is already a view named “{clean}”: choose another name, or delete it first."
        raise ViewRefused(taken, name) from None
    return view


def _find_problem(project: Project, name: str, text: str, over: Over) -> str:
    if not name:
        return "A view needs a name."
    if len(name) > MAX_NAME_CHARACTERS:
        return f"The name has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are stored."
    if problems := parse(text, over=over, reads_texts=over == "calls").problems:
        return f"The filter matches nothing, so it is not saved. {problems[0]}"
    if project.saved_views.count() >= MAX_VIEWS:
        return f"The project has {MAX_VIEWS} views, which is the limit: delete one first."
    return ""
