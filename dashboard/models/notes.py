"""Notes, tags, assignments and review marks: what operators add to runs and calls.

Each row is about one run or about one call, and is deleted with it. Nothing of it is evidence: exports of a run leave
it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import connection, models
from django.db.models import Count, F, Q, QuerySet, Value
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from dashboard.models.fields import CompactUUIDField, read_stored_id
from dashboard.models.projects import Membership, Project
from dashboard.models.runs import Call, Run, RunCall, RunFacet

# The name of the person whose request is being answered: `assigned:me` means that one. Empty in commands.
READER: ContextVar[str] = ContextVar("reader", default="")
Subject = Literal["run", "call"]


class Annotation(models.Model):
    """A row about a run or about a call. `created_by` is None when that account was deleted."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="%(class)ss")
    run = models.ForeignKey(Run, models.CASCADE, null=True, related_name="%(class)ss")
    call = models.ForeignKey(Call, models.CASCADE, null=True, related_name="%(class)ss")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                condition=Q(run__isnull=True, call__isnull=False) | Q(run__isnull=False, call__isnull=True),
                name="%(class)s_of_one",
            )
        ]

    @property
    def subject(self) -> Run | Call:
        """The run or the call that the row is about."""
        subject = self.run or self.call
        assert subject is not None
        return subject

    @property
    def author(self) -> str:
        return self.created_by.get_username() if self.created_by else "a deleted account"


class NoteQuerySet(models.QuerySet["Note"]):
    def matching(self, value: str) -> NoteQuerySet:
        """Notes that have every word of `value`; all notes for `yes`."""
        words = [] if value.casefold() == "yes" else value.split()
        return self.filter(*(Q(text__icontains=word) for word in words))

    def with_subject(self) -> NoteQuerySet:
        """Joins what a page of a note shows: its run or its call, and its authors."""
        joined = self.select_related("run", "call__run", "call__source", "created_by", "changed_by")
        return joined.defer("run__plan", "run__document", "call__run__plan", "call__run__document")


class Note(Annotation):
    """A text about a run, a call, or the characters [start, end) of one half of a call.

    `sha256` is that of the half's whole text when the note was written; another one now means that the text changed.
    `quote` is the beginning of these characters with secrets masked.
    """

    text = models.TextField()
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    changed_at = models.DateTimeField(null=True)
    half = models.CharField(max_length=9, default="")  # as `calls.half_panes.Half`; empty: no range
    sha256 = models.CharField(max_length=64, default="")
    start = models.BigIntegerField(default=0)
    end = models.BigIntegerField(default=0)
    quote = models.TextField(default="")

    objects = NoteQuerySet.as_manager()

    def __str__(self) -> str:
        return f"note {self.pk}"


class Tag(Annotation):
    """A short name on a run or a call, in lower case."""

    name = models.CharField(max_length=40)

    class Meta(Annotation.Meta):
        constraints = [
            *Annotation.Meta.constraints,
            models.UniqueConstraint(fields=["run", "name"], name="one_tag_of_run"),
            models.UniqueConstraint(fields=["call", "name"], name="one_tag_of_call"),
        ]
        indexes = [models.Index(fields=["project", "name"], name="tags_by_name")]

    def __str__(self) -> str:
        return self.name


class Assignment(Annotation):
    """The member who takes care of a run or a call; `created_by` assigned it."""

    to = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    class Meta(Annotation.Meta):
        constraints = [
            *Annotation.Meta.constraints,
            models.UniqueConstraint(fields=["run"], name="one_assignment_of_run"),
            models.UniqueConstraint(fields=["call"], name="one_assignment_of_call"),
        ]

    def __str__(self) -> str:
        return f"assigned to {self.to_id}"


class ReviewMark(Annotation):
    """A run or a call was reviewed: by `created_by`, at `created_at`."""

    class Meta(Annotation.Meta):
        constraints = [
            *Annotation.Meta.constraints,
            models.UniqueConstraint(fields=["run"], name="one_review_mark_of_run"),
            models.UniqueConstraint(fields=["call"], name="one_review_mark_of_call"),
        ]

    def __str__(self) -> str:
        return f"reviewed by {self.created_by_id}"


ANNOTATIONS: tuple[type[Annotation], ...] = (Note, Tag, Assignment, ReviewMark)


def about(subject: Run | Call) -> dict[str, Any]:
    """The columns of an annotation about this run or call, for lookups and for new rows."""
    return {"run" if isinstance(subject, Run) else "call": subject, "project_id": subject.project_id}


# SQL, because Django takes five times as long to build and compile these queries as the database to answer them. The
# first column is the place of the kind in ANNOTATIONS, or NOTES_OF_RUN: the notes of a run and of its calls.
NOTES_OF_RUN = 4
COUNTED_ANNOTATIONS = """
WITH keys(id) AS (VALUES {keys})
SELECT 0, {subject}_id, count(*), '' FROM dashboard_note WHERE {subject}_id IN (SELECT id FROM keys)
GROUP BY {subject}_id
UNION ALL SELECT 1, {subject}_id, 1, name FROM dashboard_tag WHERE {subject}_id IN (SELECT id FROM keys)
UNION ALL SELECT 2, {subject}_id, 1, '' FROM dashboard_assignment WHERE {subject}_id IN (SELECT id FROM keys)
UNION ALL SELECT 3, {subject}_id, 1, '' FROM dashboard_reviewmark WHERE {subject}_id IN (SELECT id FROM keys)
"""
COUNTED_NOTES_OF_RUN = """
UNION ALL SELECT 4, run_id, count, '' FROM dashboard_runfacet
WHERE kind = 'note' AND run_id IN (SELECT id FROM keys)
"""


def _count_annotations(subject: Subject, keys: Sequence[UUID]) -> list[tuple[int, UUID, int, str]]:
    """Rows of kind, run or call, number and name, which is that of a tag, in one query."""
    field = CompactUUIDField()
    sql = COUNTED_ANNOTATIONS.format(subject=subject, keys=", ".join(["(%s)"] * len(keys)))
    if subject == "run":
        sql += COUNTED_NOTES_OF_RUN
    with connection.cursor() as cursor:
        cursor.execute(sql, [field.get_db_prep_value(key, connection) for key in keys])
        return [(kind, read_stored_id(key), number, name) for kind, key, number, name in cursor.fetchall()]


def find_annotations(subject: Run | Call, marks: RowMarks | None = None) -> set[type[Annotation]]:
    """The kinds of annotations that a run or a call has, in one query: most have none, which saves one for each.

    `marks` are those of a call's row, where they are loaded: then no query is left.
    """
    if marks is not None:
        known = (marks.notes, marks.tags, marks.is_assigned, marks.is_reviewed)
        return {kind for kind, has_any in zip(ANNOTATIONS, known, strict=True) if has_any}
    rows = _count_annotations("run" if isinstance(subject, Run) else "call", [subject.pk])
    return {ANNOTATIONS[kind] for kind, *_ in rows if kind != NOTES_OF_RUN}


def move_annotations(source: Run | Call, target: Run | Call) -> None:
    """Moves what is about a run or a call to the one that takes its rows over; what that one has already stays behind.

    Both are runs, or both are calls.
    """
    field = "run" if isinstance(source, Run) else "call"
    old, new = {field: source}, {field: target}
    Note.objects.filter(**old).update(**new)
    names = Tag.objects.filter(**new).values("name")
    Tag.objects.filter(**old).exclude(name__in=names).update(**new)
    for model in (Assignment, ReviewMark):
        if not model._default_manager.filter(**new).exists():
            model._default_manager.filter(**old).update(**new)


ANNOTATION_FACETS = ("tag", "assigned", "note")
FacetTotals: TypeAlias = dict[tuple[str, str], int]  # by kind and value


def count_annotation_facets(runs: Iterable[Run | UUID]) -> dict[UUID, FacetTotals]:
    """By run: how many of it and its calls, inherited ones included, have each tag and are assigned to each person.

    The value `yes` of the kind `note` counts their notes.
    """
    chosen = list(runs)
    totals: dict[UUID, FacetTotals] = defaultdict(lambda: defaultdict(int))
    sources: tuple[tuple[str, QuerySet[Any]], ...] = (
        ("tag", Tag.objects.annotate(value=F("name"))),
        ("assigned", Assignment.objects.annotate(value=F("to__username"))),
        ("note", Note.objects.annotate(value=Value("yes"))),
    )
    for kind, rows in sources:
        for owner in ("run", "call__memberships__run") if rows.exists() else ():  # most stores have none of a kind
            named = rows.filter(**{f"{owner}__in": chosen}).values_list(owner, "value")
            for run, name, total in named.annotate(total=Count("pk")).order_by():
                totals[run][kind, name] += total
    return totals


def list_runs_of(subject: Run | Call) -> list[Run]:
    """The run, or every run that lists the call."""
    return [subject] if isinstance(subject, Run) else list_runs_with([subject.pk])


def list_runs_with(calls: Collection[UUID]) -> list[Run]:
    runs = Run.objects.filter(pk__in=RunCall.objects.filter(call__in=calls).values("run"))
    return list(runs.only("project", "sort_at"))


def refresh_annotation_facets(runs: Sequence[Run]) -> None:
    """Stores the facets of tags, assignments and notes of these runs after a change of them."""
    totals = count_annotation_facets(runs)
    RunFacet.objects.filter(run__in=runs, kind__in=ANNOTATION_FACETS).delete()
    RunFacet.objects.bulk_create(
        RunFacet(run=run, project_id=run.project_id, kind=kind, value=value, sort_at=run.sort_at, count=count)
        for run in runs
        for (kind, value), count in totals[run.pk].items()
    )


@receiver(pre_delete, sender=Membership)
def end_assignments(instance: Membership, **_signal: object) -> None:
    """Ends what is assigned to a member who leaves a project, before the membership or the account is deleted."""
    ended = Assignment.objects.filter(project=instance.project_id, to=instance.user_id)
    calls = set(ended.exclude(call=None).values_list("call", flat=True))
    runs = {run.pk: run for run in list_runs_with(calls)} | {
        run.pk: run for run in Run.objects.filter(assignments__in=ended).only("project", "sort_at")
    }
    ended.delete()
    refresh_annotation_facets(list(runs.values()))


@dataclass(frozen=True)
class RowMarks:
    """The annotations of a run or a call that its row in a list shows; `notes` of a run counts its calls' too.

    False where it shows none: an assignment is not in the row.
    """

    notes: int = 0
    tags: tuple[str, ...] = ()
    is_assigned: bool = False
    is_reviewed: bool = False
    subject: Subject = "call"

    def __bool__(self) -> bool:
        return bool(self.notes or self.tags or self.is_reviewed)

    @property
    def notes_title(self) -> str:
        number = "1 note" if self.notes == 1 else f"{self.notes:,} notes"
        return number if self.subject == "call" else f"{number} on the run and its calls"


def load_row_marks(subject: Subject, keys: Sequence[UUID]) -> Mapping[UUID, RowMarks]:
    """The marks of the rows that have any, in one query. Notes of a run are counted with those of its calls."""
    if not keys:
        return {}
    notes: dict[UUID, int] = {}
    tags: dict[UUID, list[str]] = defaultdict(list)
    flags: dict[type[Annotation], set[UUID]] = {Assignment: set(), ReviewMark: set()}
    for kind, key, number, name in _count_annotations(subject, keys):
        if kind == NOTES_OF_RUN or (ANNOTATIONS[kind] is Note and subject == "call"):
            notes[key] = number
        elif ANNOTATIONS[kind] is Tag:
            tags[key].append(name)
        elif ANNOTATIONS[kind] in flags:
            flags[ANNOTATIONS[kind]].add(key)
    assigned, reviewed = flags[Assignment], flags[ReviewMark]
    return {
        key: RowMarks(notes.get(key, 0), tuple(sorted(tags[key])), key in assigned, key in reviewed, subject)
        for key in {*notes, *tags, *assigned, *reviewed}
    }
