"""The facets beside the list of runs: every value that occurs, with how many runs have it.

Counts are over all runs of the project, whatever the filter says, and are kept until a facet is added
or a minute has passed: grouping the facets of 20,000 runs on every visit would cost more than the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from django.core.cache import cache
from django.db.models import Count, QuerySet

from dashboard.filters.language import Query, Term
from dashboard.models import Project, RunFacet
from dashboard.prepared import prepared
from dashboard.text.escaping import printable
from dashboard.text.formatting import format_count

MOST_VALUES = 12  # of one kind; the rest is found by typing
KEPT_FOR = 60  # seconds

GROUPS = {
    "state": "State",
    "tool": "Tool",
    "family": "Family",
    "agent": "Agent",
    "source": "Source",
    "model": "Model",
}
STATE_WORDS = {
    "failed": "has failed calls",
    "cut": "has cut results",
    "unanswered": "has unanswered calls",
    "retried": "has retries",
    "halves": "halves disagree",
    "disagree": "sources disagree",
    "drifted": "has drifted receipts",
    "child": "is a child run",
}
# What the search bar writes for a state, where it has a shorter word.
STATE_TERMS = {
    "failed": ("status", "failed"),
    "cut": ("cut", "yes"),
    "unanswered": ("status", "unanswered"),
    "child": ("child", "yes"),
}


# By kind: the values that most runs have, each with how many, and how many values are left out.
Counts: TypeAlias = dict[str, tuple[list[tuple[str, int]], int]]


class FacetValue(NamedTuple):
    label: str
    number: str
    href: str
    is_current: bool


class FacetGroup(NamedTuple):
    label: str
    values: Sequence[FacetValue]
    left_out: int
    is_open: bool


def facet_groups(project: Project, query: Query, address: Callable[[str], str]) -> list[FacetGroup]:
    """`address` makes a link from a filter's text."""
    counts = _counts(project)
    groups = []
    for kind, label in GROUPS.items():
        found, left_out = counts.get(kind, ((), 0))
        values = [_value(kind, value, number, query, address) for value, number in found]
        if values:
            is_open = kind in ("state", "tool") or any(value.is_current for value in values)
            groups.append(FacetGroup(label, values, left_out, is_open))
    return groups


def _value(kind: str, value: str, number: int, query: Query, address: Callable[[str], str]) -> FacetValue:
    term = Term(*STATE_TERMS[value]) if kind == "state" and value in STATE_TERMS else Term(kind, value)
    label = STATE_WORDS[value] if kind == "state" else printable(value)
    return FacetValue(label, format_count(number), address(query.toggled(term.kind, term.value)), term in query)


def forget_counts(project: Project) -> None:
    cache.delete(_key(project))


@prepared
def _newest_facet() -> QuerySet[Any, Any]:
    return RunFacet.objects.order_by("-pk").values_list("pk")[:1]


def _counts(project: Project) -> Counts:
    newest = _newest_facet()
    kept = cache.get(_key(project))
    if kept is not None and kept[0] == newest:
        return cast(Counts, kept[1])
    counted = _count(project)
    cache.set(_key(project), (newest, counted), KEPT_FOR)
    return counted


def _count(project: Project) -> Counts:
    found = RunFacet.objects.filter(project=project).values_list("kind", "value").annotate(runs=Count("pk"))
    counts: dict[str, list[tuple[str, int]]] = {}
    for kind, value, number in sorted(found, key=lambda row: (-row[2], row[1])):
        if kind != "state" or value in STATE_WORDS:
            counts.setdefault(kind, []).append((value, number))
    return {kind: (values[:MOST_VALUES], len(values[MOST_VALUES:])) for kind, values in counts.items()}


def _key(project: Project) -> str:
    return f"run-facets:{project.pk}"
