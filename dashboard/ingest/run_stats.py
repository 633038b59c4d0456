"""Derives a run's counts, outcome strip and facets from its calls' columns. Reads no payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count

from dashboard.evidence.context_changes import ContextDrop, find_unexplained, store_drops
from dashboard.ingest.bulk import bulk_insert, bulk_update, unsaved_row
from dashboard.models import Call, ReceiptFingerprint, RecordedReceipt, Remark, RequestUsage, Run, RunCall, RunFacet
from dashboard.models.notes import count_annotation_facets
from dashboard.models.outcomes import Outcome
from dashboard.text.formatting import column_text, milliseconds_between

STRIP_LETTERS = 120
SEVERITY = "oswuckirtex"  # letters of a strip; in a long run each stands for many calls and shows the worst of them
STOPPED: dict[str, str] = {
    Outcome.UNANSWERED: "u",
    Outcome.SKIPPED: "s",
    Outcome.CANCELLED: "k",
    Outcome.INTERRUPTED: "i",
    Outcome.REFUSED: "r",
    Outcome.TIMED_OUT: "t",
}


@dataclass(frozen=True)
class OutcomeMark:
    """`name` is the `data-outcome` of the stylesheet; `word` counts calls, `sentence` describes one of them.

    `top` is where the bar begins: bars of trouble are taller, so that the colour is not the only signal.
    """

    name: str
    word: str
    sentence: str
    top: int


# By their letters; the legend of a run lists them in this order.
OUTCOMES = {
    "o": OutcomeMark("ok", "ok", "succeeded", 8),
    "w": OutcomeMark("waiting", "waited for a person", "waited for a person", 6),
    "c": OutcomeMark("cut", "cut", "cut before the model", 3),
    "e": OutcomeMark("failed", "failed", "failed", 0),
    "x": OutcomeMark("failed", "failed and cut", "failed, and cut before the model", 0),
    "t": OutcomeMark("failed", "timed out", "timed out", 0),
    "r": OutcomeMark("stopped", "refused", "refused", 3),
    "k": OutcomeMark("stopped", "cancelled", "cancelled", 4),
    "i": OutcomeMark("stopped", "interrupted", "interrupted", 4),
    "s": OutcomeMark("stopped", "skipped", "skipped", 6),
    "u": OutcomeMark("unanswered", "unanswered", "unanswered", 5),
}


class CallKind(NamedTuple):
    """The columns that count. A run of thousands of calls has some dozens of kinds, so each is judged once."""

    inherited: bool
    tool: str
    family: str
    status: str
    outcome: str
    error_kind: str
    source_error: bool | None
    exit_status: int | None
    is_cut: bool
    author: str
    is_waiting: bool
    is_disagreeing: bool
    attempt: int
    risk: str
    reason: str
    origin: str
    token_certainty: str

    @property
    def has_failed(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)


STAT_COLUMNS = (*CallKind._fields[1:], "tokens", "receipt_characters")
RECEIPT_VALUES = {"is_cut": "is_cut", "author": "author", "tokens": "tokens", "receipt_characters": "characters"}
RECEIPT_COLUMNS = [1 + STAT_COLUMNS.index(name) for name in RECEIPT_VALUES]
stat_columns: Callable[[Call], tuple[Any, ...]] = attrgetter(*STAT_COLUMNS)


class RunStats(NamedTuple):
    """Columns of the run, how many calls each facet (kind, value) has, and the unexplained drops of the context."""

    columns: dict[str, Any]
    facets: Counter[tuple[str, str]]
    drops: Sequence[ContextDrop]


def refresh_stats(runs: Sequence[Run], *, only_changed: bool = False) -> None:
    """Computes the counts from the stored calls and saves the runs.

    `only_changed`: a run whose counts are the same is not written; otherwise its revision is raised.
    """
    if not runs:
        return
    facets: dict[UUID, dict[tuple[str, str], RunFacet]] = {run.pk: {} for run in runs}
    for facet in RunFacet.objects.filter(run__in=runs):
        facets[facet.run_id][facet.kind, facet.value] = facet
    all_stats = _load_stats(runs)
    changed = []
    for run in runs:
        stats = all_stats[run.pk]
        if only_changed:
            has_same_facets = {key: facet.count for key, facet in facets[run.pk].items()} == stats.facets
            if has_same_facets and all(getattr(run, column) == value for column, value in stats.columns.items()):
                continue
            run.revision += 1
        if stats.drops or run.drop_count:
            store_drops(run, stats.drops)
        vars(run).update(stats.columns)
        run.duration_ms = milliseconds_between(run.started_at, run.ended_at or run.last_at) or 0
        changed.append(run)
    bulk_update(changed)
    _save_facets([(run, facets[run.pk], all_stats[run.pk].facets) for run in changed])


def _load_stats(runs: Sequence[Run]) -> dict[UUID, RunStats]:
    """Reads plain values instead of instances, of all runs in a few queries."""
    copies = RecordedReceipt.objects.shown_in_each(runs)
    members = RunCall.objects.filter(run__in=runs).order_by("run_id", "ordinal", "id")
    rows: Any = members.values_list("run_id", "call_id", "inherited", *(f"call__{column}" for column in STAT_COLUMNS))
    with_usage = set(RequestUsage.objects.filter(run__in=runs).values_list("run_id", flat=True).distinct())
    by_id = {run.pk: run for run in runs}
    stats = {}
    for key, of_run in groupby(rows.iterator(2_000), key=itemgetter(0)):
        calls = (as_in_run(columns, copies.get((key, call))) for _, call, *columns in of_run)
        drops = list(find_unexplained(by_id[key])) if key in with_usage else []
        stats[key] = compute_stats(by_id[key], calls, drops)
    for run in runs:
        if run.pk not in stats:
            stats[run.pk] = compute_stats(run, [], list(find_unexplained(run)) if run.pk in with_usage else [])
    remarks = Remark.objects.filter(run__in=runs).values_list("run_id", "kind").annotate(total=Count("pk"))
    for key, kind, total in remarks.order_by():
        stats[key].facets["remark", kind] = total
        stats[key].columns["remark_count"] += total
    drifted = ReceiptFingerprint.objects.exclude(drift="").filter(receipt__call__run__in=runs)
    for key, total in drifted.values_list("receipt__call__run").annotate(total=Count("receipt__call", distinct=True)):
        stats[key].facets["state", "drifted"] = total
    for key, totals in count_annotation_facets(runs).items():
        stats[key].facets.update(totals)
    return stats


def as_in_run(columns: list[Any], receipt: RecordedReceipt | None) -> tuple[Any, ...]:
    """The columns of a call, those of its receipt as this run has it; None where they are the call's own."""
    if receipt is not None:
        for index, name in zip(RECEIPT_COLUMNS, RECEIPT_VALUES.values(), strict=True):
            columns[index] = getattr(receipt, name)
    return tuple(columns)


def _save_facets(runs: Sequence[tuple[Run, dict[tuple[str, str], RunFacet], Counter[tuple[str, str]]]]) -> None:
    """Each run with its stored facets and their counts now. Those that changed are replaced or deleted."""
    stale: list[int] = []
    new: list[RunFacet] = []
    for run, stored, counts in runs:
        unchanged = {
            key for key, facet in stored.items() if (facet.count, facet.sort_at) == (counts.get(key), run.sort_at)
        }
        stale += [facet.pk for key, facet in stored.items() if key not in unchanged]
        columns = {"run_id": run.pk, "project_id": run.project_id, "sort_at": run.sort_at}
        new += [
            unsaved_row(RunFacet, kind=kind, value=value, count=count, **columns)
            for (kind, value), count in counts.items()
            if (kind, value) not in unchanged
        ]
    if stale:
        RunFacet.objects.filter(pk__in=stale).delete()
    bulk_insert(RunFacet, new)


def compute_stats(run: Run, rows: Iterable[tuple[Any, ...]], drops: Sequence[ContextDrop] = ()) -> RunStats:
    """`rows` are `inherited` and STAT_COLUMNS of each call in run order; they are read once, as there may be many.

    An inherited call counts as an own call only in the run that it comes from.
    """
    amounts = {"token_count": 0, "receipt_characters": 0}
    letters: list[str] = []
    letter_by_key: dict[tuple[Any, ...], str] = {}
    counts: Counter[tuple[Any, ...]] = Counter()
    for *columns, tokens, characters in rows:
        key = tuple(columns)
        counts[key] += 1
        letters.append(letter_by_key.get(key) or letter_by_key.setdefault(key, outcome_letter(CallKind(*key))))
        amounts["token_count"] += tokens
        amounts["receipt_characters"] += characters
    kinds = [(CallKind(*key), count) for key, count in counts.items()]
    certainty = "exact" if {kind.token_certainty for kind, _ in kinds} == {"exact"} else "estimate"
    derived = {**_sum_kinds(kinds), **amounts, "token_certainty": certainty, "strip": build_strip(letters)}
    derived |= {"drop_count": len(drops), "remark_count": 0}
    facets = _count_facets(run, kinds)
    if drops:
        facets["context", "uncertain"] = len(drops)
    return RunStats(derived, facets, drops)


def _sum_kinds(kinds: Sequence[tuple[CallKind, int]]) -> dict[str, int]:
    def total(holds: Callable[[CallKind], bool]) -> int:
        return sum(count for kind, count in kinds if holds(kind))

    return {
        "call_count": sum(count for _, count in kinds),
        "own_call_count": total(lambda kind: not kind.inherited and kind.origin == "message"),
        "progress_call_count": total(lambda kind: kind.origin == "progress"),
        "failed_count": total(lambda kind: kind.has_failed),
        "refused_count": total(lambda kind: kind.outcome == Outcome.REFUSED),
        "cut_count": total(lambda kind: kind.is_cut),
        "unanswered_count": total(lambda kind: kind.status == Call.Status.UNKNOWN),
    }


def outcome_letter(call: Call | CallKind) -> str:
    """o succeeded, c cut, w waited for a person, e failed, x failed and cut, and the first of STOPPED otherwise."""
    if call.outcome in STOPPED:
        return STOPPED[call.outcome]
    if call.has_failed:
        return "x" if call.is_cut else "e"
    if call.is_cut:
        return "c"
    return "w" if call.is_waiting else "o"


def halves_disagree(call: Call | CallKind) -> bool:
    """True when the source flagged a failure that did not happen, or did not flag one that did.

    A source without an error flag cannot disagree. A command that exits with 1 gave a result: agents flag it or not,
    and neither is wrong.
    """
    if call.source_error is None or call.status == Call.Status.UNKNOWN:
        return False
    has_error = call.status == Call.Status.ERROR
    return not (has_error or call.exit_status) if call.source_error else has_error


def build_strip(letters: Sequence[str]) -> str:
    """One letter a call. A longer run has 120 letters, each the worst of an equal share of the calls."""
    if len(letters) <= STRIP_LETTERS:
        return "".join(letters)
    edges = [index * len(letters) // STRIP_LETTERS for index in range(STRIP_LETTERS + 1)]
    shares = [letters[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return "".join(max(share, key=SEVERITY.index) for share in shares)


def _count_facets(run: Run, kinds: Sequence[tuple[CallKind, int]]) -> Counter[tuple[str, str]]:
    run_facets = (
        *(("agent", run.agent), ("source", run.source_format), ("model", run.model)),
        ("branch", column_text(run.branch, 200)),
    )
    facets = Counter({(kind, value): 1 for kind, value in run_facets if value})
    facets["state", "child" if run.parent_id else "top"] = 1
    for call, count in kinds:
        facets.update(dict.fromkeys(call_facets(call), count))
    return facets


def call_facets(call: CallKind) -> list[tuple[str, str]]:
    """The facets that a run has by such a call."""
    states = {
        "failed": call.has_failed,
        "cut": call.is_cut,
        "unanswered": call.status == Call.Status.UNKNOWN,
        "retried": call.attempt > 1,
        "halves": halves_disagree(call),
        "disagree": call.is_disagreeing,
    }
    words = (("risk", call.risk), ("reason", call.reason), ("author", call.author), ("error", call.error_kind))
    return [
        *(("outcome", call.outcome), ("tool", column_text(call.tool, 200)), ("family", call.family)),
        *((kind, value) for kind, value in words if value),
        *(("state", state) for state, holds in states.items() if holds),
    ]
