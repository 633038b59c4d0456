"""Builds the QuerySets for the tree of a filter: one over runs, two over calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from dashboard.filters.call_values import CALL, MEMBER, TIMES, has_time
from dashboard.filters.conditions import Conditions
from dashboard.filters.keys import Over, phrase_of
from dashboard.filters.syntax import TEXT, And, Node, Not, Or, Term, iterate_terms
from dashboard.models import Call, Message, Project, Run, RunCall, RunFacet
from dashboard.models.identity import derive_id
from dashboard.models.runs import CallQuerySet, RunQuerySet
from dashboard.models.search import ANY, matching_ids

# Up to this many runs with a facet or a text are selected by their ids and sorted; more of them are found soon by
# walking the list's own index. Either way the work is bounded, whatever the query planner believes.
COMMON_SECONDS = 600  # how long a term that more runs have is taken as common
INDEXED = ("tokens", "took")  # keys that have an index of calls of their own
SCANNED = ("waited", "exit", "seen")  # keys that the index of all calls has the columns of
TRIGRAM = 3  # characters
TEXT_SCAN = "SELECT run_id FROM dashboard_runtext WHERE project_id = %s AND text LIKE %s ESCAPE '\\' LIMIT %s"
TRIGRAM_SEARCH = """
SELECT t.run_id FROM dashboard_runtext_grams g JOIN dashboard_runtext t ON t.id = g.rowid
WHERE g.text MATCH %s AND t.project_id = %s LIMIT %s
"""


class RunSelection(NamedTuple):
    """Matching runs, unordered; `is_small` when a few were selected by their ids and are best sorted outright."""

    runs: RunQuerySet
    is_small: bool


def select_runs(project: Project, tree: And | Or, *, few: int | None = None) -> RunSelection:
    """Runs that meet the filter. Terms that at most `few` runs can meet, or FEW_RUNS, are looked up first."""
    conditions = Conditions(project.pk)
    ids = candidate_ids(project, tree, "runs", conditions, few)
    if ids is None:
        runs = Run.objects.filter(project=project)
    else:
        # SQLite would take the index of the project, or that of runs without a parent, for the better one and walk
        # all of them: COALESCE hides these two columns from it.
        runs = Run.objects.filter(Exact(Coalesce("project_id", "project_id"), project.pk), pk__in=ids)
    if not includes_children(tree):
        runs = runs.filter(parent__isnull=True)
    return RunSelection(runs.filter(conditions.on_run(tree)), ids is not None)


def includes_children(tree: And | Or) -> bool:
    """True with any term. The list of all runs has the runs of subagents below their parents.

    A filter looks for something, a failure for instance, and a parent does not fail with its child: without the
    children nobody would find it.
    """
    return bool(tree.nodes)


def select_calls(
    project: Project, tree: And | Or, exact: Mapping[Term, Collection[UUID]] | None = None
) -> CallQuerySet:
    """Calls of a project that meet the filter, unordered. The few runs that can have them are looked up first.

    Neither these nor the few calls that contain a word are looked for along the list of all calls (see `select_runs`).

    With terms about payloads these are candidates among the calls that are searchable, unless `exact` has the calls
    that contain each term.
    """
    conditions = Conditions(project.pk, exact)
    ids = candidate_ids(project, tree, "calls", conditions)
    demanded = [node for node in tree.nodes if isinstance(node, Term)] if isinstance(tree, And) else []
    if ids is None and not (exact is None and any(map(conditions.is_in_few_calls, demanded))):
        calls = Call.objects.filter(project=project)
    else:
        calls = Call.objects.filter(Exact(Coalesce("project_id", "project_id"), project.pk))
    if ids is not None:
        calls = calls.filter(run__in=ids)
    if any(map(phrase_of, iterate_terms(tree))):
        calls = calls.filter(search_id__isnull=False)
    return calls.filter(conditions.on_call(tree, CALL))


def filter_run_calls(calls: CallQuerySet, tree: And | Or, run: Run) -> CallQuerySet:
    """Those of a run's calls that meet the filter as that run has them."""
    condition = Conditions(run.project_id).on_call(tree, MEMBER)
    return calls.filter(pk__in=RunCall.objects.filter(condition, run=run).values("call"))


def candidate_ids(
    project: Project, node: Node, over: Over = "runs", conditions: Conditions | None = None, few: int | None = None
) -> frozenset[UUID] | None:
    """Ids of the runs among which every match, or the run of every match, is. None when no term is rare."""
    conditions = conditions or Conditions(project.pk)
    few = settings.FEW_RUNS if few is None else few
    if isinstance(node, Not):
        return None
    if isinstance(node, Term) and phrase_of(node):
        return _find_runs_with_text(node, conditions, few) if over == "runs" else None
    if isinstance(node, Term):
        return _rare_ids(project, node, over, conditions, few)
    sets = [candidate_ids(project, child, over, conditions, few) for child in node.nodes]
    rare = [ids for ids in sets if ids is not None]
    if isinstance(node, Or):
        return frozenset().union(*rare) if len(rare) == len(sets) else None
    return frozenset.intersection(*rare) if rare else None


def _rare_ids(project: Project, term: Term, over: Over, conditions: Conditions, few: int) -> frozenset[UUID] | None:
    """Ids of the runs with a rare facet or text; None for a common one, which is not counted again for a while."""
    facet = conditions.facet(term)
    is_of_calls = term.kind in INDEXED or (over == "runs" and term.kind in SCANNED)
    if facet is None and not is_of_calls and (term.kind, over) != (TEXT, "runs"):
        return None
    key = f"common-term:{few}:{derive_id(project.pk, term.kind, *(facet[1] if facet else [term.value])).hex}"
    if cache.get(key):
        return None
    ids: Sequence[UUID] | None
    if is_of_calls:
        ids = _find_runs_of_calls(project, term, conditions, few + 1)
    elif facet is None:
        ids = find_text(project.pk, term.value, few + 1)
    else:
        facets = RunFacet.objects.filter(project=project, kind=facet[0], value__in=facet[1])
        ids = list(facets.values_list("run_id", flat=True)[: few + 1])
    if ids is not None and len(ids) > few:
        cache.set(key, "common", COMMON_SECONDS)
        return None
    if facet and over == "calls" and not ids:
        return None  # facets are counted after the calls were stored
    return None if ids is None else frozenset(ids)


def _find_runs_with_text(term: Term, conditions: Conditions, few: int) -> frozenset[UUID] | None:
    """Ids of the runs that list a call, or have a message, that may contain the words; None where more than a few do.

    Along the list of all runs a word that no call contains would be looked for in the calls of each run.
    """
    phrase = phrase_of(term)
    if phrase is None or not conditions.is_in_few_calls(term):
        return None
    members = RunCall.objects.filter(call__search_id__in=matching_ids(term.kind, phrase, is_listed=True))
    ids = set(members.values_list("run_id", flat=True).distinct()[: few + 1])
    if term.kind == ANY:
        messages = Message.objects.filter(search_id__in=matching_ids(term.kind, phrase, is_listed=True))
        ids.update(messages.values_list("run_id", flat=True).distinct()[: few + 1])
    return frozenset(ids) if len(ids) <= few else None


def _find_runs_of_calls(project: Project, term: Term, conditions: Conditions, limit: int) -> list[UUID]:
    """Runs that may have such a call, from an index; at least `limit` ids, of whatever, where there are more.

    A copied call may have another receipt in the run of its copy.
    """
    if term.kind in SCANNED:  # found before their runs: along the list each run's calls would be read
        found = Call.objects.filter(conditions.on_call(term, CALL), project=project).order_by("-started_at", "-id")
        keys = list(found.values_list("pk", flat=True)[:limit])
        if len(keys) == limit:
            return keys
        has_call = Q(call__in=keys)
    elif term.kind in TIMES:
        has_call = has_time(term.kind, conditions.bounds(term), "call__")
    else:
        has_call = conditions.bounded(term, f"call__{term.kind}")
    members = RunCall.objects.filter(has_call, call__project=project)
    copies = RunCall.objects.filter(inherited=True, run__project=project)
    return [run for rows in (members, copies) for run in rows.values_list("run_id", flat=True)[:limit]]


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
