"""Review queues: saved views of calls, worked through call by call until each is marked as reviewed.

A queue has no state of its own: what is left is what the view selects and nobody marked as reviewed, newest first.
Several people may work on one queue; each gets the next call that none of them has marked so far.

    list_queues(project)                       the queues with the number of calls that are left
    load_queue(project, view, after)           one queue, and the address of its next call
    change_chosen(project, user, form)         tags calls, or adds them to the queue of the tag REVIEW_TAG
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.http import QueryDict

from dashboard.filters.language import MAX_CHARACTERS, Query, parse
from dashboard.filters.saved_views import load_saved_views
from dashboard.models import Call, Project, ReviewMark, SavedView
from dashboard.models.runs import CallQuerySet
from dashboard.notes.annotations import ChangeRefused, TaggedCalls, read_tag, tag_calls
from dashboard.text.params import Params

MOST_LISTED = 30  # queues whose calls are counted: each costs a query
REVIEW_TAG, REVIEW_VIEW = "review", "Added to review"


@dataclass(frozen=True)
class ReviewQueue:
    """`left` counts the calls that are not reviewed, COUNTED_CALLS + 1 for more; None where it was not counted.

    `next_url` is empty when none is left, or when the view cannot be a queue: then `problem` has the reason.
    """

    view: SavedView
    left: int | None
    next_url: str
    problem: str = ""

    @property
    def left_label(self) -> str:
        if self.left is None:
            return "not counted"
        return (
            f"{settings.COUNTED_CALLS:,}+ to review"
            if self.left > settings.COUNTED_CALLS
            else f"{self.left:,} to review"
        )


def _select_left(project: Project, query: Query) -> CallQuerySet:
    return query.calls_in(project).exclude(pk__in=ReviewMark.objects.filter(call__isnull=False).values("call"))


def load_queue(project: Project, view: SavedView, after: UUID | None = None) -> ReviewQueue:
    """The queue with the address of its next call behind `after`; behind the last one it begins anew."""
    query = parse(view.query, over="calls")
    if view.over != SavedView.Over.CALLS or query.problems:
        problem = query.problems[0] if query.problems else "This view lists runs; a review queue is a view of calls."
        return ReviewQueue(view, None, "", problem)
    keys = list(_select_left(project, query).newest_first().values_list("pk", flat=True)[: settings.COUNTED_CALLS + 1])
    following = _find_following(project, query, keys, after)
    url = ""
    if following is not None:
        url = f"{Call(pk=following).get_absolute_url()}?{urlencode({'queue': view.pk})}#main"
    return ReviewQueue(view, len(keys), url)


def _find_following(project: Project, query: Query, keys: Sequence[UUID], after: UUID | None) -> UUID | None:
    """The call behind `after` in the order of the queue, which `after` has left when it was reviewed."""
    if after in keys:
        others = [*keys[keys.index(after) + 1 :], *keys[: keys.index(after)]]
        return others[0] if others else None
    call = Call.objects.filter(pk=after, project=project).only("started_at").first() if after else None
    if call is not None and call.started_at is not None:
        left = _select_left(project, query).filter(started_at__lte=call.started_at)
        behind = left.exclude(started_at=call.started_at, pk__gte=call.pk).newest_first().values_list("pk", flat=True)
        if (following := behind.first()) is not None:
            return following
    return keys[0] if keys else None


def list_queues(project: Project) -> list[ReviewQueue]:
    """Every saved view of calls."""
    views = load_saved_views(project, "calls")
    queues = [load_queue(project, view) for view in views[:MOST_LISTED]]
    return queues + [ReviewQueue(view, None, "") for view in views[MOST_LISTED:]]


def change_chosen(project: Project, user: User, form: QueryDict) -> TaggedCalls:
    """Tags the checked calls, or with `all` those of the filter `q`. Raises ChangeRefused.

    `do=review` adds them to review: they get the tag of a saved view, which is made where there is none.
    """
    name = REVIEW_TAG if form.get("do") == "review" else read_tag(form.get("tag", ""))
    params = Params(form)
    keys = params.uuids("call", form.getlist("call"))
    if form.get("all"):
        query = parse(params.text("q", longest=MAX_CHARACTERS + 1), over="calls")
        if query.problems:
            raise ChangeRefused(query.problems[0])
        calls = query.calls_in(project)
    elif keys:
        calls = project.calls.filter(pk__in=keys)
    else:
        raise ChangeRefused("No call is checked.")
    tagged = tag_calls(project, user, calls, name)
    if form.get("do") == "review":
        columns = {"query": f"tag:{REVIEW_TAG}", "sort": "newest", "created_by": user}
        SavedView.objects.get_or_create(project=project, over="calls", name=REVIEW_VIEW, defaults=columns)
    return tagged
