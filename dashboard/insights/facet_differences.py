"""Compares calls that meet a condition with the other calls of a filter: the share of each facet's value in both.

Values are counted by the databases, in one pass for what is stored with a call and one for what is stored with its
run; calls outside the selection are the difference of two counts. Shares are of calls, of which one run may have made
many, and nothing is adjusted for anything else: the page claims no cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from django.db.models import Case, CharField, Count, Q, Value, When

from dashboard.filters.keys import KEYS
from dashboard.filters.language import Query, parse
from dashboard.filters.syntax import And, Not, Or, Term
from dashboard.insights.call_numbers import InsightsParams, link_calls
from dashboard.models import Project
from dashboard.models.outcomes import Outcome
from dashboard.models.runs import CallQuerySet, ReceiptAuthor
from dashboard.text.chart_markup import format_share
from dashboard.text.formatting import format_change

MOST_ROWS = 40
FEW_CALLS = 20  # in a selection; shares of fewer say little
# Terms of the language as bands of a number, with the condition for each.
TOKEN_BANDS = {
    "..199": Q(tokens__lt=200),
    "200..999": Q(tokens__lt=1_000),
    "1000..4999": Q(tokens__lt=5_000),
    ">=5000": Q(tokens__gte=5_000),
}
TIME_BANDS = {
    "..999ms": Q(took_ms__lt=1_000),
    "1000ms..9999ms": Q(took_ms__lt=10_000),
    "10s..59999ms": Q(took_ms__lt=60_000),
    ">=60s": Q(took_ms__gte=60_000),
}
VALUE_LABELS = {
    "..199": "under 200",
    "200..999": "200 to 999",
    "1000..4999": "1,000 to 4,999",
    ">=5000": "5,000 and more",
    "..999ms": "under 1 s",
    "1000ms..9999ms": "1 to 10 s",
    "10s..59999ms": "10 to 60 s",
    ">=60s": "1 min and more",
    "retried": "second and later tries",
    "waiting": "waited for a person",
}
CALL_KEYS = ("tool", "family", "outcome", "risk", "reason", "author")  # columns, by the key that filters them
RUN_KEYS = {"agent": "run__agent", "model": "run__model", "source": "run__source_format", "branch": "run__branch"}
LABELS = {
    "tokens": "Tokens of the receipt",
    "error": "Kind of error",
    "author": "Author of the receipt",
    "exit": "Exit status",
    "reason": "Stopped because",
    "source": "Format",
    "state": "Mark",
    "status": "Mark",
}

Facet: TypeAlias = "tuple[str, str]"  # key and value of its term
FacetCounts: TypeAlias = "Counter[Facet]"


class SideCount(NamedTuple):
    """Calls with a value on one side, of all calls there. `url` is empty without any."""

    number: int
    of: int
    url: str

    @property
    def share(self) -> float:
        return self.number / self.of if self.of else 0.0

    @property
    def share_text(self) -> str:
        return format_share(self.share)


@dataclass(frozen=True)
class FacetDifference:
    kind: str
    value: str
    inside: SideCount
    outside: SideCount

    @property
    def points(self) -> float:
        return 100 * (self.inside.share - self.outside.share)

    @property
    def points_text(self) -> str:
        return format_change(self.points, "+.1f")


@dataclass(frozen=True)
class DifferencePage:
    """`selection` is the condition, as text; its problems stop the comparison."""

    selection: Query
    inside: SideCount
    outside: SideCount
    rows: tuple[FacetDifference, ...]
    left_out: int  # values whose shares differ less

    @property
    def is_small(self) -> bool:
        return min(self.inside.of, self.outside.of) < FEW_CALLS


def load_differences(project: Project, query: Query, params: InsightsParams) -> DifferencePage:
    """Six queries, whatever the number of facets. Reads all calls of the filter."""
    selection = parse(params.where, over="calls")
    if selection.problems or not selection:
        none = SideCount(0, 0, "")
        return DifferencePage(selection, none, none, (), 0)
    nodes = (selection.tree,) if isinstance(selection.tree, Or) else selection.tree.nodes
    chosen, rest = query.narrowed(*nodes), query.narrowed(Not(nodes[0] if len(nodes) == 1 else And(nodes)))
    every, every_total = _count_facets(query.calls_in(project))
    inside, inside_total = _count_facets(chosen.calls_in(project))
    spellings = _choose_spellings(every)
    every, inside = _merge_spellings(every, spellings), _merge_spellings(inside, spellings)
    outside_total = every_total - inside_total
    rows = [
        FacetDifference(
            LABELS.get(facet[0], facet[0].capitalize()),
            _label(*facet),
            _side(chosen, facet, inside[facet], inside_total),
            _side(rest, facet, number - inside[facet], outside_total),
        )
        for facet, number in every.items()
        if inside_total and outside_total
    ]
    differing = sorted((row for row in rows if row.points), key=lambda row: (-abs(row.points), row.kind, row.value))
    return DifferencePage(
        selection,
        SideCount(inside_total, inside_total, link_calls(chosen) if inside_total else ""),
        SideCount(outside_total, outside_total, link_calls(rest) if outside_total else ""),
        tuple(differing[:MOST_ROWS]),
        len(differing[MOST_ROWS:]),
    )


def _side(query: Query, facet: Facet, number: int, total: int) -> SideCount:
    return SideCount(number, total, link_calls(query.narrowed(Term(*facet))) if number else "")


def _label(kind: str, value: str) -> str:
    if kind == "outcome":
        return Outcome(value).word
    if kind == "author":
        return ReceiptAuthor(value).label
    return VALUE_LABELS.get(value, value) if kind in ("tokens", "took", "state", "status") else value


def _count_facets(calls: CallQuerySet) -> tuple[FacetCounts, int]:
    """The number of calls by facet, and of all of them."""
    counts: FacetCounts = Counter()
    total = 0
    timed = calls.order_by().with_own_time()
    banded = timed.annotate(token_band=_band(TOKEN_BANDS), time_band=_band(TIME_BANDS))
    columns = (*CALL_KEYS, "token_band", "time_band", "exit_status", "attempt", "is_waiting")
    for *values, tokens, took, status, attempt, is_waiting, number in banded.values_list(*columns).annotate(
        n=Count("*")
    ):
        total += number
        counts.update({(key, value): number for key, value in zip(CALL_KEYS, values, strict=True) if value})
        counts["tokens", tokens] += number
        counts["took", took] += number if took else 0
        counts["exit", str(status)] += number if status is not None else 0
        counts["state", "retried"] += number if attempt > 1 else 0
        counts["status", "waiting"] += number if is_waiting else 0
    errors = calls.order_by().exclude(error_kind="").values_list("error_kind").annotate(n=Count("*"))
    counts.update({("error", value): number for value, number in errors})
    of_runs = calls.order_by().values_list(*RUN_KEYS.values()).annotate(n=Count("*"))
    for *values, number in of_runs:
        counts.update({(key, value): number for key, value in zip(RUN_KEYS, values, strict=True) if value})
    return counts, total


def _band(bands: Mapping[str, Q]) -> Case:
    """The name of the first band that holds; empty where the number is missing."""
    whens: Iterable[When] = (When(condition, then=Value(name)) for name, condition in bands.items())
    return Case(*whens, default=Value(""), output_field=CharField())


def _choose_spellings(counts: FacetCounts) -> dict[Facet, str]:
    """The spelling that is first in the alphabet, of names that differ in case alone: a filter takes them for one."""
    spellings: dict[Facet, str] = {}
    for key, value in sorted(counts):
        spellings.setdefault((key, value.casefold()), value)
    return spellings


def _merge_spellings(counts: FacetCounts, spellings: Mapping[Facet, str]) -> FacetCounts:
    merged: FacetCounts = Counter()
    for (key, value), number in counts.items():
        if number:
            merged[key, spellings[key, value.casefold()] if KEYS[key].is_name else value] += number
    return merged
