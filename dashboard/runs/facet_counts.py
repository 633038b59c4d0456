"""Counts, for each value of a facet, the runs that a click on it would list.

Without a filter these are all runs with that value. With one they are counted in the newest runs that match, within
bounds; a number is then a lower bound. Counts are cached until a facet is added or a minute has passed: grouping the
facets of 20,000 runs on every visit would cost more than the page.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Q, QuerySet

from dashboard.filters import queryset
from dashboard.filters.call_values import MEMBER
from dashboard.filters.conditions import Conditions, asks_for_call
from dashboard.filters.language import Query, exclude_each_other, parse
from dashboard.filters.syntax import And, Node, Or, Term
from dashboard.ingest.run_stats import STAT_COLUMNS, CallKind, as_in_run, call_facets
from dashboard.models import Project, RecordedReceipt, Run, RunCall, RunFacet
from dashboard.models.identity import derive_id

COUNTED_BY_CALL = 200  # runs, where a click asks for a call that meets several terms
COUNTED_CALLS = 1_500
WALKED_RUNS = 4_000  # the newest, among which those that match are looked for
MAX_VALUES = 12  # of one kind; the rest can be typed
CACHE_SECONDS = 60
# The term of a state in the search bar, where there is a shorter one.
STATE_TERMS = {
    "failed": Term("status", "failed"),
    "cut": Term("cut", "yes"),
    "unanswered": Term("status", "unanswered"),
    "child": Term("child", "yes"),
}

Facet = tuple[str, str]  # kind and value
OF_OTHER_TABLES = Q(kind__in=("remark", "context")) | Q(kind="state", value="drifted")  # than that of calls


class FacetCounts(NamedTuple):
    """Runs by facet; when the count is not `is_whole`, there are at least that many."""

    numbers: dict[Facet, int]
    is_whole: bool


def facet_term(kind: str, value: str) -> Term:
    """The term that selects the facet."""
    return STATE_TERMS.get(value, Term(kind, value)) if kind == "state" else Term(kind, value)


def load_facet_counts(project: Project, query: Query) -> FacetCounts:
    """The counts for a filter without a problem, those of this minute."""
    key, cleared_key = f"run-facets:{derive_id(project.pk, str(query)).hex}", f"run-facets-cleared:{project.pk}"
    newest = RunFacet.objects.order_by("-pk").values_list("pk", flat=True).first()
    cached = cache.get_many([key, cleared_key])
    state = (newest, cached.get(cleared_key))
    if key in cached and cached[key][0] == state:
        return cast(FacetCounts, cached[key][1])
    counts = _count_facets(project, query)
    cache.set(key, (state, counts), CACHE_SECONDS)
    return counts


def clear_facet_counts(project: Project) -> None:
    cache.set(f"run-facets-cleared:{project.pk}", time.time_ns(), CACHE_SECONDS)


def _count_facets(project: Project, query: Query) -> FacetCounts:
    if not query:
        return FacetCounts(_group_facets(RunFacet.objects.filter(project=project)), is_whole=True)
    runs, is_whole = _load_runs(project, query.tree)
    numbers = _group_facets(RunFacet.objects.filter(run__in=runs))
    shared = [node for node in _nodes(query.tree) if asks_for_call(node)]
    if shared:
        numbers, is_whole = _count_with_call(project, query, shared, runs, FacetCounts(numbers, is_whole))
    demanded = {facet: len(runs) for facet in numbers if facet_term(*facet) in query}
    return FacetCounts({facet: number for facet, number in (numbers | demanded).items() if number}, is_whole)


def _count_with_call(
    project: Project, query: Query, shared: Sequence[Node], runs: Sequence[UUID], counts: FacetCounts
) -> FacetCounts:
    """The counts where the filter asks for a call already: a term about calls is met by that call, or by another one.

    It is met by another call where the language takes it so, because no one call can meet it too.
    """
    conditions = Conditions(project.pk)
    numbers, is_whole = dict(counts.numbers), counts.is_whole and len(runs) <= COUNTED_BY_CALL
    runs = runs[:COUNTED_BY_CALL]
    asked: dict[Facet, Term] = {}
    others: dict[str, dict[Facet, int]] = {}
    for kind, value in list(numbers):
        term = facet_term(kind, value)
        if term in query or not asks_for_call(term):
            continue
        if not any(isinstance(node, Term) and exclude_each_other(node, term, "calls") for node in shared):
            asked[kind, value] = term
        elif len(shared) > 1:
            tree = And(parse(query.toggled(term.kind, term.value)).tree.nodes[:-1])
            if str(tree) not in others:
                other_runs, is_each = _load_runs(project, tree)
                others[str(tree)] = _group_facets(RunFacet.objects.filter(run__in=other_runs))
                is_whole = is_whole and is_each
            numbers[kind, value] = others[str(tree)].get((kind, value), 0)
    calls = RunCall.objects.filter(conditions.on_one_call(And(tuple(shared)), MEMBER), run__in=runs)
    by_columns, is_every_call = _group_calls(calls)
    # Each facet of another table is one more condition of a statement, so only those are counted that a page can list.
    others_asked = {
        facet: numbers[facet] for facet in asked if facet[0] in ("remark", "context") or facet == ("state", "drifted")
    }
    totals = {
        facet: Count("run", filter=conditions.on_one_call(asked[facet], MEMBER), distinct=True)
        for facet in _most_frequent(others_asked)
    }
    numbers |= {(kind, value): by_columns.get((kind, value.casefold()), 0) for kind, value in asked}
    if totals:
        with_facet = RunFacet.objects.filter(OF_OTHER_TABLES, run__in=runs).values("run")
        calls = calls.filter(run__in=with_facet)
        named = {f"facet_{number}": total for number, total in enumerate(totals.values())}
        numbers |= dict(zip(totals, calls.aggregate(**named).values(), strict=True))
    return FacetCounts(numbers, is_whole and is_every_call)


def _group_calls(calls: QuerySet[RunCall]) -> tuple[dict[Facet, int], bool]:
    """The number of runs by facet of these calls, each call as its run has it; values in lower case.

    False with it when there are more calls than are counted.
    """
    columns = ("run_id", "call_id", "inherited", *(f"call__{name}" for name in STAT_COLUMNS))
    rows: Any = list(calls.values_list(*columns)[: COUNTED_CALLS + 1])
    forks = {run for run, _, is_inherited, *_ in rows if is_inherited}
    copies = RecordedReceipt.objects.shown_in_each(Run.objects.filter(pk__in=forks)) if forks else {}
    runs_by_kind: dict[tuple[Any, ...], set[UUID]] = {}
    for run, call, *values in rows:
        kind = as_in_run(values, copies.get((run, call)))[: len(CallKind._fields)]
        runs_by_kind.setdefault(kind, set()).add(run)
    by_facet: dict[Facet, set[UUID]] = {}
    for kind, runs in runs_by_kind.items():
        for facet_kind, value in call_facets(CallKind(*kind)):
            by_facet.setdefault((facet_kind, value.casefold()), set()).update(runs)
    return {facet: len(runs) for facet, runs in by_facet.items()}, len(rows) <= COUNTED_CALLS


def _load_runs(project: Project, tree: And | Or) -> tuple[list[UUID], bool]:
    """The newest runs that match, and whether these are all."""
    runs, is_small = queryset.select_runs(project, tree, few=2 * settings.COUNTED_RUNS)
    if not is_small:
        walked = project.runs.order_by("-sort_at", "-id").values_list("sort_at", flat=True)
        if oldest := walked[WALKED_RUNS : WALKED_RUNS + 1].first():
            runs = runs.filter(sort_at__gt=oldest)
    ids = list(runs.order_by("-sort_at", "-id").values_list("pk", flat=True)[: settings.COUNTED_RUNS + 1])
    return ids[: settings.COUNTED_RUNS], len(ids) <= settings.COUNTED_RUNS and (is_small or oldest is None)


def _group_facets(facets: QuerySet[RunFacet]) -> dict[Facet, int]:
    """The number of runs by facet; spellings of one name are one facet, as they are in a filter."""
    rows = facets.values_list("kind", "value").annotate(runs=Count("pk"))
    spellings: dict[Facet, dict[str, int]] = {}
    for kind, value, number in rows:
        spellings.setdefault((kind, value.casefold()), {})[value] = number
    numbers = {}
    for (kind, _), by_value in spellings.items():
        value, number = max(by_value.items(), key=lambda item: (item[1], item[0]))
        if len(by_value) > 1:
            number = facets.filter(kind=kind, value__in=by_value).values("run").distinct().count()
        numbers[kind, value] = number
    return numbers


def _most_frequent(numbers: dict[Facet, int]) -> list[Facet]:
    """The values that a page lists, by kind."""
    by_kind: dict[str, list[Facet]] = {}
    for facet in sorted(numbers, key=lambda facet: (-numbers[facet], facet)):
        by_kind.setdefault(facet[0], []).append(facet)
    return [facet for facets in by_kind.values() for facet in facets[:MAX_VALUES]]


def _nodes(tree: And | Or) -> Sequence[Node]:
    return tree.nodes if isinstance(tree, And) else (tree,)
