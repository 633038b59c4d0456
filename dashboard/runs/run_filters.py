"""Narrows the list of runs by its facets and the saved views, each a filter and a sort under a name.

Facets are every value that occurs in the runs of the filter, with the number of runs that a click on it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from dashboard.filters.language import MAX_CHARACTERS, Query, parse
from dashboard.models import Project, SavedView
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import ReceiptAuthor
from dashboard.runs.facet_counts import MAX_VALUES, facet_term, load_facet_counts
from dashboard.text.formatting import column_text, format_count
from dashboard.text.text_markup import printable

GROUPS = {
    "state": "State",
    "outcome": "Outcome",
    "author": "Receipt",
    "context": "Context",
    "tool": "Tool",
    "family": "Family",
    "agent": "Agent",
    "source": "Source",
    "model": "Model",
    "branch": "Branch",
    "error": "Error",
    "remark": "Changed on import",
}
STATE_LABELS = {
    "failed": "has failed calls",
    "cut": "has cut results",
    "unanswered": "has unanswered calls",
    "retried": "has retries",
    "halves": "error flag wrong",
    "disagree": "logs disagree",
    "drifted": "has drifted receipts",
    "child": "is a child run",
}
# Outcomes that nearly all runs have, or that a state counts already.
SHOWN_AS_STATES = frozenset(("outcome", value) for value in ("succeeded", "failed", "unanswered"))
LABELS = {("outcome", outcome.value): outcome.word for outcome in Outcome}
LABELS |= {("author", author.value): author.label for author in ReceiptAuthor}
LABELS["context", "uncertain"] = "dropped unexplained"
MAX_NAME_CHARACTERS = 60
MAX_VIEWS = 100  # of a project: the page lists all of them


@dataclass(frozen=True, slots=True)
class FacetValue:
    label: str
    number: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class FacetGroup:
    label: str
    values: Sequence[FacetValue]
    left_out: int
    is_open: bool


def load_facet_groups(project: Project, query: Query, filter_url: Callable[[str], str]) -> list[FacetGroup]:
    """`filter_url` makes an address from a filter's text. Beside a filter with a problem no number is shown."""
    counts = load_facet_counts(project, Query() if query.problems else query)
    by_kind: dict[str, list[tuple[str, int]]] = {}
    for (kind, value), number in sorted(counts.numbers.items(), key=lambda row: (-row[1], row[0])):
        if (kind != "state" or value in STATE_LABELS) and (kind, value) not in SHOWN_AS_STATES:
            by_kind.setdefault(kind, []).append((value, number))
    groups = []
    for kind, label in GROUPS.items():
        rows = by_kind.get(kind, [])
        values = []
        for value, number in rows[:MAX_VALUES]:
            term = facet_term(kind, value)
            value_label = STATE_LABELS[value] if kind == "state" else printable(LABELS.get((kind, value), value))
            shown = "" if query.problems else format_count(number) + "+" * (not counts.is_whole)
            url = filter_url(query.toggled(term.kind, term.value))
            values.append(FacetValue(value_label, shown, url, term in query))
        if values:
            is_open = kind in ("state", "tool") or any(value.is_current for value in values)
            groups.append(FacetGroup(label, values, len(rows[MAX_VALUES:]), is_open))
    return groups


class ViewRefused(ValueError):
    """The sentence gives the reason; `name` is what was typed, for the form to show it again."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(frozen=True)
class ViewBox:
    """`current` is the view that the list shows; `can_save` is false where the filter and sort are the default ones."""

    views: Sequence[SavedView]
    current: SavedView | None
    can_save: bool
    refused: ViewRefused | None
    max_name_characters: int = MAX_NAME_CHARACTERS


def load_saved_views(project: Project) -> list[SavedView]:
    """By name. Sorted here, because databases differ on the order of letters."""
    return sorted(project.saved_views.all(), key=lambda view: (view.name.casefold(), view.name))


def find_view(views: Sequence[SavedView], pk: str) -> SavedView | None:
    """The view whose id is in the address. Compared as text: an address may contain anything."""
    return next((view for view in views if str(view.pk) == pk), None)


def build_view_box(
    views: Sequence[SavedView], *, text: str, sort: str, view: str, refused: ViewRefused | None = None
) -> ViewBox:
    """Two views may have the same filter: the one that the address names is current, else the first."""
    same = [saved for saved in views if (saved.query, saved.sort) == (text, sort)]
    current = find_view(same, view) or next(iter(same), None)
    can_save = bool(refused) or (current is None and bool(text or sort != "newest"))
    return ViewBox(views, current, can_save, refused)


def create_saved_view(project: Project, user: User, *, name: str, text: str, sort: str) -> SavedView:
    """Raises ViewRefused."""
    clean = column_text(" ".join(name.split()), MAX_CHARACTERS)
    if problem := _find_problem(project, clean, text):
        raise ViewRefused(problem, name)
    view = SavedView(project=project, name=clean, query=column_text(text, MAX_CHARACTERS), sort=sort, created_by=user)
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError:
        taken = f"There is already a view named “{clean}”: choose another name, or delete it first."
        raise ViewRefused(taken, name) from None
    return view


def _find_problem(project: Project, name: str, text: str) -> str:
    if not name:
        return "A view needs a name."
    if len(name) > MAX_NAME_CHARACTERS:
        return f"The name has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are stored."
    if problems := parse(text).problems:
        return f"The filter matches nothing, so it is not saved. {problems[0]}"
    if project.saved_views.count() >= MAX_VIEWS:
        return f"The project has {MAX_VIEWS} views, which is the limit: delete one first."
    return ""
