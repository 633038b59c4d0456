"""Narrows the list of runs by its facets.

Facets are every value that occurs in the runs of the filter, with the number of runs that a click on it lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.filters.language import Query
from dashboard.models import Project
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import ReceiptAuthor
from dashboard.runs.facet_counts import MAX_VALUES, facet_term, load_facet_counts
from dashboard.text.formatting import format_count
from dashboard.text.text_markup import printable

GROUPS = {
    "state": "State",
    "tag": "Tag",
    "assigned": "Assigned to",
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
