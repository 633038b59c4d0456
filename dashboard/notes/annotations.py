"""The panel of a run or a call with its notes, tags, assignment and review mark, and the changes of the latter three.

Each change returns the words that the audit log gets; it is empty where nothing changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.http import QueryDict
from django.urls import reverse

from dashboard.accounts import OperatorRequest
from dashboard.filters.names import Names
from dashboard.models import Assignment, Call, Note, Project, ReviewMark, Run, SavedView, Tag
from dashboard.models.notes import (
    Annotation,
    RowMarks,
    about,
    find_annotations,
    list_runs_of,
    list_runs_with,
    refresh_annotation_facets,
)
from dashboard.models.runs import CallQuerySet
from dashboard.notes.note_list import ListedNote, NoteDraft, list_notes

TAG = re.compile(r"[^\W_][\w.+-]{0,39}")
TAG_RULE = "A tag is one word of at most 40 letters, digits and the signs . + - _, and begins with a letter or a digit."
MAX_TAGS = 30  # of one run or call


class ChangeRefused(ValueError):
    """The sentence gives the reason."""


@dataclass(frozen=True, kw_only=True)
class AnnotationPanel:
    """`names` are the tags that the project has, `members` the names of its accounts.

    `queue` is the review queue that the reader comes from.
    """

    subject: Run | Call
    notes_url: str
    change_url: str
    query: str
    notes: Sequence[ListedNote]
    tags: Sequence[Tag]
    names: Sequence[str]
    assignment: Assignment | None
    members: Sequence[str]
    review: ReviewMark | None
    queue: SavedView | None
    draft: NoteDraft
    refusal: str = ""

    @property
    def is_call(self) -> bool:
        return isinstance(self.subject, Call)

    @property
    def noun(self) -> str:
        return "call" if self.is_call else "run"

    @property
    def reviewed_at(self) -> datetime | None:
        return self.review.created_at if self.review else None


def load_panel(
    request: OperatorRequest,
    subject: Run | Call,
    *,
    query: QueryDict | None = None,
    draft: NoteDraft | None = None,
    refusal: str = "",
    marks: RowMarks | None = None,
) -> AnnotationPanel:
    """At most seven queries, three where nothing was added. `query` is that of the page of the run or call.

    By default that is the request's own. A form that was refused comes with its `draft` and the reason. `marks` are
    those of the call's row, where a list beside it has loaded them.
    """
    known = find_annotations(subject, marks)
    tags, assignment, review = _load_annotations(subject, known)
    noun = "call" if isinstance(subject, Call) else "run"
    query = request.GET if query is None else query
    may_write = request.membership.may_write
    views = request.project.saved_views
    number = query.get("queue", "")
    return AnnotationPanel(
        subject=subject,
        notes_url=reverse(f"{noun}-notes", args=[subject.pk]),
        change_url=reverse(f"{noun}-annotate", args=[subject.pk]),
        query=query.urlencode(),
        notes=list_notes(subject, request.user, query, may_write=may_write) if Note in known else [],
        tags=tags,
        names=Names(request.project.pk).occurring("tag") if may_write else [],
        assignment=assignment,
        members=list_members(request.project) if may_write else [],
        review=review,
        queue=views.filter(pk=int(number)).first() if re.fullmatch("[0-9]{1,18}", number) else None,
        draft=draft or NoteDraft(),
        refusal=refusal,
    )


def _load_annotations(
    subject: Run | Call, known: Collection[type[Annotation]]
) -> tuple[list[Tag], Assignment | None, ReviewMark | None]:
    tags: list[Tag] = []
    assignment = review = None
    if Tag in known:
        tags = list(Tag.objects.filter(**about(subject)).select_related("created_by").order_by("name"))
    if Assignment in known:
        assignment = Assignment.objects.filter(**about(subject)).select_related("to").first()
    if ReviewMark in known:
        review = ReviewMark.objects.filter(**about(subject)).select_related("created_by").first()
    return tags, assignment, review


def list_members(project: Project) -> list[str]:
    """The names of their accounts, in order."""
    return sorted(project.memberships.values_list("user__username", flat=True))


def change_annotation(subject: Run | Call, user: User, form: QueryDict) -> str:
    """Does what `do` says: tag, untag, assign, review or reopen. Raises ChangeRefused."""
    action = form.get("do", "")
    with transaction.atomic():
        match action:
            case "tag":
                return _add_tag(subject, user, read_tag(form.get("tag", "")))
            case "untag":
                return _remove_tag(subject, read_tag(form.get("tag", "")))
            case "assign":
                return _assign(subject, user, form.get("to", ""))
            case "review":
                ReviewMark.objects.get_or_create(**about(subject), defaults={"created_by": user})
                return "marked as reviewed"
            case "reopen":
                return "marked as not reviewed" if ReviewMark.objects.filter(**about(subject)).delete()[0] else ""
    raise ChangeRefused("The form does not name a change: tag, untag, assign, review or reopen.")


def read_tag(text: str) -> str:
    """The name in lower case. Raises ChangeRefused."""
    name = text.strip().lower()
    if not TAG.fullmatch(name):
        raise ChangeRefused(TAG_RULE)
    return name


def _add_tag(subject: Run | Call, user: User, name: str) -> str:
    if Tag.objects.filter(**about(subject)).count() >= MAX_TAGS:
        raise ChangeRefused(f"There are {MAX_TAGS} tags here, which is the limit: remove one.")
    _, is_new = Tag.objects.get_or_create(**about(subject), name=name, defaults={"created_by": user})
    refresh_annotation_facets(list_runs_of(subject))
    return f"tag {name} added" if is_new else ""


def _remove_tag(subject: Run | Call, name: str) -> str:
    count, _ = Tag.objects.filter(**about(subject), name=name).delete()
    refresh_annotation_facets(list_runs_of(subject))
    return f"tag {name} removed" if count else ""


def _assign(subject: Run | Call, user: User, name: str) -> str:
    """An empty name ends the assignment."""
    if not name:
        count, _ = Assignment.objects.filter(**about(subject)).delete()
        refresh_annotation_facets(list_runs_of(subject))
        return "assignment ended" if count else ""
    member = User.objects.filter(memberships__project=subject.project, username=name).first()
    if member is None:
        raise ChangeRefused("Only a member of the project can be assigned.")
    Assignment.objects.update_or_create(**about(subject), defaults={"to": member, "created_by": user})
    refresh_annotation_facets(list_runs_of(subject))
    return f"assigned to {name}"


class TaggedCalls(NamedTuple):
    """`new` of `total` calls did not have the tag before; `is_whole` is false when more match than are tagged."""

    name: str
    total: int
    new: int
    reviewed: int
    is_whole: bool

    @property
    def had(self) -> int:
        return self.total - self.new


def tag_calls(project: Project, user: User, calls: CallQuerySet, name: str) -> TaggedCalls:
    """Tags the newest CHOSEN_CALLS of them. Calls with MAX_TAGS tags get this one too: it was asked for by name."""
    keys = list(calls.newest_first().values_list("pk", flat=True)[: settings.CHOSEN_CALLS + 1])
    is_whole, keys = len(keys) <= settings.CHOSEN_CALLS, keys[: settings.CHOSEN_CALLS]
    with transaction.atomic():
        tagged = set(Tag.objects.filter(call__in=keys, name=name).values_list("call_id", flat=True))
        new = [key for key in keys if key not in tagged]
        rows = (Tag(project=project, call_id=key, name=name, created_by=user) for key in new)
        Tag.objects.bulk_create(rows, ignore_conflicts=True)
        refresh_annotation_facets(list_runs_with(new))
    reviewed = ReviewMark.objects.filter(call__in=keys).count()
    return TaggedCalls(name, len(keys), len(new), reviewed, is_whole)
