"""Builds the QuerySets for the terms of a filter: one over runs, one over calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, Protocol
from uuid import UUID

from django.core.cache import cache
from django.db import connection
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.utils import timezone

from dashboard.models import Project, ReceiptFingerprint, RecordedReceipt, Remark, RequestUsage, Run, RunCall, RunFacet
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import (
    FAILED,
    HALVES_DISAGREE,
    IDLE_BEFORE_ASSUMED_ENDED,
    UNANSWERED,
    CallQuerySet,
    ReceiptAuthor,
    RunQuerySet,
    derive_id,
)

# Up to this many runs with a facet or a text are selected by their ids and sorted; more of them are found soon by
# walking the list's own index. Either way the work is bounded, whatever the query planner believes.
FEW_RUNS = 400
COMMON_SECONDS = 600  # how long a term that more runs have is taken as common
TRIGRAM = 3  # characters
TEXT_SCAN = "SELECT run_id FROM dashboard_runtext WHERE project_id = %s AND text LIKE %s ESCAPE '\\' LIMIT %s"
TRIGRAM_SEARCH = """
SELECT t.run_id FROM dashboard_runtext_grams g JOIN dashboard_runtext t ON t.id = g.rowid
WHERE g.text MATCH %s AND t.project_id = %s LIMIT %s
"""


class FilterTerm(Protocol):
    """The part of `language.Term` that is used here; `language` imports this module."""

    @property
    def kind(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def is_negated(self) -> bool: ...


Facet = tuple[str, str]

FACETS = frozenset(
    {"tool", "family", "outcome", "risk", "reason", "author", "agent", "source", "model", "state", "context", "remark"}
)
# Terms that are another name of a facet.
FACET_ALIASES: dict[Facet, Facet] = {
    ("status", "failed"): ("state", "failed"),
    ("status", "unanswered"): ("state", "unanswered"),
    ("status", "skipped"): ("outcome", Outcome.SKIPPED.value),
    ("cut", "yes"): ("state", "cut"),
    ("child", "yes"): ("state", "child"),
}
# Terms that mean the absence of a facet.
ABSENT_FACETS: dict[Facet, Facet] = {("status", "ok"): ("state", "failed"), ("cut", "no"): ("state", "cut")}


class RunSelection(NamedTuple):
    """Matching runs, unordered; `is_small` when a few were selected by their ids and are best sorted outright."""

    runs: RunQuerySet
    is_small: bool


def select_runs(project: Project, terms: Sequence[FilterTerm], *, few: int = FEW_RUNS) -> RunSelection:
    """Runs that meet all terms. Terms that at most `few` runs can meet are looked up first."""
    ids, open_terms = candidate_ids(project, terms, few)
    if ids is None:
        runs = Run.objects.filter(project=project)
    else:
        # SQLite would take the index of the project, or that of runs without a parent, for the better one and walk
        # all of them: COALESCE hides these two columns from it.
        runs = Run.objects.filter(Exact(Coalesce("project_id", "project_id"), project.pk), pk__in=ids)
    if not includes_children(terms):
        runs = runs.filter(parent__isnull=True)
    idle_before = timezone.now() - IDLE_BEFORE_ASSUMED_ENDED
    for term in open_terms:
        runs = _filter_runs(runs, term, idle_before)
    return RunSelection(runs, ids is not None)


def includes_children(terms: Sequence[FilterTerm]) -> bool:
    """True with any term. The list of all runs has the runs of subagents below their parents.

    A filter looks for something, a failure for instance, and a parent does not fail with its child: without the
    children nobody would find it.
    """
    return bool(terms)


def candidate_ids(
    project: Project, terms: Sequence[FilterTerm], few: int = FEW_RUNS
) -> tuple[frozenset[UUID] | None, list[FilterTerm]]:
    """Ids among which every matching run is, and the terms that still have to be compared run by run.

    The ids are None when no term is rare. A text is compared even when it is rare: its index ignores more of the
    letter case than the filter does.
    """
    ids: frozenset[UUID] | None = None
    open_terms = []
    for term in terms:
        rare = None if term.is_negated else _rare_ids(project, term, few)
        if rare is None or term.kind == "text":
            open_terms.append(term)
        if rare is not None:
            ids = rare if ids is None else ids & rare
    return ids, open_terms


def _rare_ids(project: Project, term: FilterTerm, few: int) -> frozenset[UUID] | None:
    """Ids of the runs with a rare facet or text; None for a common one, which is not counted again for a while."""
    facet = _facet(term)
    if facet is None and term.kind != "text":
        return None
    key = f"common-term:{derive_id(project.pk, *(facet or ('text', term.value))).hex}"
    if cache.get(key):
        return None
    if facet is None:
        ids = find_text(project.pk, term.value, few + 1)
    else:
        facets = RunFacet.objects.filter(project=project, kind=facet[0], value=facet[1])
        ids = list(facets.values_list("run_id", flat=True)[: few + 1])
    if ids is not None and len(ids) > few:
        cache.set(key, "common", COMMON_SECONDS)
        return None
    return None if ids is None else frozenset(ids)


def find_text(project_id: int, text: str, limit: int) -> list[UUID] | None:
    """Runs that may contain the text in title or id, by the trigrams of SQLite; all of them when under `limit`.

    None without that index: PostgreSQL's planner uses its own (migration 0002). A text too short for a trigram is
    searched in the texts themselves, which lie close together, while the rows of runs are wide and in another order.
    """
    if connection.vendor != "sqlite" or not _has_trigrams(str(connection.settings_dict["NAME"])):
        return None
    with connection.cursor() as cursor:
        if len(text) < TRIGRAM:
            cursor.execute(TEXT_SCAN, [project_id, f"%{connection.ops.prep_for_like_query(text)}%", limit])
        else:
            cursor.execute(TRIGRAM_SEARCH, ['"' + text.replace('"', '""') + '"', project_id, limit])
        return [UUID(bytes=row[0]) for row in cursor.fetchall()]


@lru_cache
def _has_trigrams(_database: str) -> bool:
    with connection.cursor() as cursor:
        return "dashboard_runtext_grams" in connection.introspection.table_names(cursor)


def _facet(term: FilterTerm) -> Facet | None:
    facet = (term.kind, term.value)
    return FACET_ALIASES.get(facet, facet) if term.kind in FACETS or facet in FACET_ALIASES else None


def _filter_runs(runs: RunQuerySet, term: FilterTerm, idle_before: datetime) -> RunQuerySet:
    if facet := _facet(term):
        return runs.with_facet(*facet, is_present=not term.is_negated)
    if absent := ABSENT_FACETS.get((term.kind, term.value)):
        return runs.with_facet(*absent, is_present=term.is_negated)
    condition = _run_condition(term, idle_before)
    return runs.exclude(condition) if term.is_negated else runs.filter(condition)


def _run_condition(term: FilterTerm, idle_before: datetime) -> Q:
    """A condition on the run's own row."""
    is_idle = Q(last_at__isnull=True) | Q(last_at__lt=idle_before)
    match term.kind, term.value:
        case "text", text:
            return Q(title__icontains=text) | Q(external_id__icontains=text)
        case "status", "ended":
            return Q(ended_at__isnull=False)
        case "status", "live":
            return Q(ended_at__isnull=True) & ~is_idle
        case "status", "idle":
            return Q(ended_at__isnull=True) & is_idle
        case "child", "no":
            return Q(parent__isnull=True)
        case _:  # child:any
            return Q()


CALL_CONDITIONS: dict[Facet, Q] = {
    ("status", "failed"): FAILED,
    ("status", "ok"): Q(outcome=Outcome.SUCCEEDED),
    ("status", "skipped"): Q(outcome=Outcome.SKIPPED),
    ("status", "unanswered"): UNANSWERED,
    ("status", "waiting"): Q(is_waiting=True),
    ("state", "failed"): FAILED,
    ("state", "cut"): Q(is_cut=True),
    ("state", "unanswered"): UNANSWERED,
    ("state", "retried"): Q(attempt__gt=1),
    ("state", "halves"): HALVES_DISAGREE,
    ("state", "disagree"): Q(is_disagreeing=True),
    ("state", "drifted"): Q(pk__in=ReceiptFingerprint.objects.exclude(drift="").values("receipt__call")),
    ("cut", "yes"): Q(is_cut=True),
    ("cut", "no"): Q(is_cut=False),
}


# Terms over a call's receipt: the column and its value.
RECEIPT_TERMS: dict[Facet, tuple[str, object]] = {
    ("state", "cut"): ("is_cut", True),
    ("cut", "yes"): ("is_cut", True),
    ("cut", "no"): ("is_cut", False),
    **{("author", author): ("author", author) for author in ReceiptAuthor.values},
}


def filter_calls(calls: CallQuerySet, terms: Iterable[FilterTerm], run: Run | None = None) -> CallQuerySet:
    """The calls that meet all terms, in the order of `calls`; `run` is the only one that has them."""
    for term in terms:
        condition = _is_uncertain(run) if term.kind == "context" else _call_condition(term)
        if run is not None and run.may_have_copies and (term.kind, term.value) in RECEIPT_TERMS:
            condition = _has_receipt_in(run, *RECEIPT_TERMS[term.kind, term.value])
        calls = calls.exclude(condition) if term.is_negated else calls.filter(condition)
    return calls


def _has_receipt_in(run: Run, column: str, value: object) -> Q:
    """A copied call may have another receipt in this run than in its own."""
    copies = RecordedReceipt.objects.shown_in(run)
    matching = [call for call, receipt in copies.items() if getattr(receipt, column) == value]
    return (Q(**{column: value}) & ~Q(pk__in=list(copies))) | Q(pk__in=matching)


def _is_uncertain(run: Run | None) -> Q:
    """Calls that were in the context of a run when tokens left it unexplained, and that nothing had removed before.

    Without a run, each call's own one.
    """
    removed = RecordedReceipt.objects.filter(
        call=OuterRef(OuterRef("call")), superseded_line__lte=OuterRef("line"), run=OuterRef("run")
    )
    drops = RequestUsage.objects.filter(
        run=OuterRef("run"),
        dropped_tokens__gt=0,
        dropped_after__lt=OuterRef("ordinal"),
        dropped_before__gt=OuterRef("ordinal"),
    ).exclude(Exists(removed))
    members = RunCall.objects.filter(Exists(drops))
    return Q(pk__in=members.filter(run=F("call__run") if run is None else run).values("call"))


def _call_condition(term: FilterTerm) -> Q:
    if condition := CALL_CONDITIONS.get((term.kind, term.value)):
        return condition
    if term.kind == "remark":
        return Q(pk__in=Remark.objects.filter(kind=term.value, call__isnull=False).values("call"))
    if term.kind in ("tool", "family", "outcome", "risk", "reason", "author"):
        return Q(**{term.kind: term.value})
    text = term.value
    return (
        Q(tool__icontains=text)
        | Q(summary__icontains=text)
        | Q(external_id__icontains=text)
        | Q(error_kind__icontains=text)
    )
