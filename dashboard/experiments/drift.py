"""Checks which texts would be written differently today, and lists the receipts that drifted.

Two kinds of texts are rendered again: receipts that this system sent, each with its fingerprint, and the texts of
pinned comparisons, of which batches hold a digest. `dashboard.variants.fingerprints` has the four reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Max
from django.utils import timezone

from dashboard.evidence.call_inputs import load_call_inputs
from dashboard.experiments.measure_calls import MeasuredCall, measure_calls, unpack_ids
from dashboard.experiments.stored_columns import load_column_rows, load_columns
from dashboard.experiments.stored_comparison import load_results, load_summary
from dashboard.models import Call, Comparison, ComparisonColumn, Project, ReceiptFingerprint, Run, RunFacet
from dashboard.models.comparisons import PinnedCheck
from dashboard.text.params import Params
from dashboard.variants.fingerprints import (
    NOT_INSTALLED,
    OTHER_TEXT,
    Drift,
    ReasonDetail,
    changed_version,
    find_drift,
    name_changed_version,
)
from dashboard.variants.variant_list import is_template, load_current_variant, load_version, within_budget
from envelopes.schema.receipt import Variant
from envelopes.text.tokens import current_encoding
from envelopes.variants.template import TemplateUnanswered

PAGE_SIZE = 100
MOST_DETAILS = 5  # of the drifts of a pinned comparison, on its page
REASONS = {
    "variant": "the variant is gone, or has another version",
    "policy": "the same variant has another policy",
    "canonical": "the canonical result was derived again and is another",
    "text": "nothing of that changed, and the text did",
    "tokens": "the text is the same, and is counted as more or fewer tokens",
}

ColumnToday = tuple[ComparisonColumn, Variant | None]  # a stored column, and what its id means today


@dataclass(frozen=True)
class DriftCheck:
    """How many texts were rendered again, and which drifted. `unchecked` pinned texts have no call any more."""

    sent: int
    pinned: int
    drifted: tuple[Drift, ...]
    unchecked: int = 0


def check_all(project: Project | None = None) -> DriftCheck:
    """Renders every sent and pinned text again, of one project or of all, and stores the results."""
    sent = 0
    drifted: list[Drift] = []
    fingerprints = ReceiptFingerprint.objects.select_related("receipt__call__run").order_by("pk")
    if project is not None:
        fingerprints = fingerprints.filter(receipt__call__project=project)
    for fingerprint in fingerprints.iterator(chunk_size=200):
        try:
            drift = find_drift(fingerprint)
        except TemplateUnanswered:  # the next check tries it again
            continue
        sent += 1
        fingerprint.drift = drift.reason if drift else ""
        fingerprint.checked_at = timezone.now()
        fingerprint.save(update_fields=["drift", "checked_at"])
        drifted += [drift] if drift else []
    _mark_runs(project)
    pinned = unchecked = 0
    comparisons = Comparison.objects.pinned().filter(state=Comparison.State.FINISHED).order_by("pinned_at", "pk")
    for comparison in comparisons if project is None else comparisons.filter(project=project):
        texts, missing, drifts = _check_pinned(comparison)
        pinned, unchecked = pinned + texts, unchecked + missing
        drifted += drifts
    return DriftCheck(sent, pinned, tuple(drifted), unchecked)


def _mark_runs(project: Project | None) -> None:
    """Replaces the facets behind `state:drifted`, which finds the runs with drifted receipts."""
    marked = RunFacet.objects.filter(kind="state", value="drifted")
    drifted = Call.objects.exclude(receipts__fingerprint=None).exclude(receipts__fingerprint__drift="")
    if project is not None:
        marked, drifted = marked.filter(project=project), drifted.filter(project=project)
    marked.delete()
    counts = dict(drifted.values_list("run").annotate(Count("id")).order_by("run"))
    RunFacet.objects.bulk_create(
        RunFacet(
            run=run, project_id=run.project_id, kind="state", value="drifted", sort_at=run.sort_at, count=counts[run.pk]
        )
        for run in Run.objects.filter(pk__in=counts)
    )


def _check_pinned(comparison: Comparison) -> tuple[int, int, list[Drift]]:
    """How many texts were rendered again, how many have no call any more, and the drifts; stores the counts."""
    texts = missing = 0
    drifted: list[Drift] = []
    for row, drifts in _pinned_rows(comparison):
        count = sum(cell is not None for cell in row.cells)
        if drifts is None:
            missing += count
        else:
            texts += count
            drifted += drifts
    reasons = Counter(drift.reason for drift in drifted)
    details = Counter(drift.detail for drift in drifted).most_common(MOST_DETAILS)
    comparison.store_check(
        PinnedCheck(
            texts=texts,
            unchecked=missing,
            reasons=dict(sorted(reasons.items())),
            details=tuple(detail for detail, _ in details),
        )
    )
    return texts, missing, drifted


def _pinned_rows(comparison: Comparison) -> Iterator[tuple[MeasuredCall, list[Drift] | None]]:
    """Each call of a pinned comparison with its drifts, a batch in memory at a time.

    The drifts are None for a call that was deleted since, or never answered: older comparisons hold texts of those.
    """
    stored = [(column, _today(column)) for column in load_column_rows(comparison)]
    columns = load_columns(column for column, _ in stored)
    with_recorded = any(column.is_recorded for column in columns)
    recount = f"token encoding {load_summary(comparison).encoding} → {current_encoding()}"
    batches = comparison.batches.order_by("number").values_list("calls", flat=True)
    for calls, rows_before in zip(batches.iterator(chunk_size=8), load_results(comparison), strict=True):
        ids = list(unpack_ids(bytes(calls)))
        rows_now = {row.call: row for row in measure_calls(load_call_inputs(ids, with_recorded=with_recorded), columns)}
        missing = [row.key for row in rows_before if row.call not in rows_now]
        answered = Call.objects.filter(pk__in=missing).exclude(status=Call.Status.UNKNOWN)
        unread = set(answered.values_list("pk", flat=True)) if missing else set()
        for row in rows_before:
            is_there = row.call in rows_now or row.key in unread
            yield row, _row_drifts(comparison, stored, row, rows_now.get(row.call), recount) if is_there else None


def _today(column: ComparisonColumn) -> Variant | None:
    project_id = column.comparison.project_id
    if is_template(column.variant) and column.name.endswith(f"@{column.version}"):  # pinned to that version by name
        variant = load_version(project_id, column.variant, column.version)
    else:
        variant = load_current_variant(project_id, column.family, column.variant)
    return None if variant is None else within_budget(variant, column.comparison.budget)


def _row_drifts(
    comparison: Comparison, stored: Sequence[ColumnToday], before: MeasuredCall, now: MeasuredCall | None, recount: str
) -> list[Drift]:
    drifts = []
    for column, today in stored:
        changed = _find_change(column, today, before, now, recount) if column.family in ("", before.family) else None
        if changed is not None:
            drifts.append(
                Drift(
                    call=before.key,
                    tool=before.tool,
                    variant=column.variant,
                    reason=changed[0],
                    detail=changed[1],
                    baseline=comparison,
                )
            )
    return drifts


def _find_change(
    column: ComparisonColumn, today: Variant | None, before: MeasuredCall, now: MeasuredCall | None, recount: str
) -> ReasonDetail | None:
    """`recount` is the detail of a text that is the same and has another number of tokens."""
    cell_before = before.cells[column.ordinal]
    if cell_before is None:
        return None
    if now is None:
        return "variant", NOT_INSTALLED
    changed = changed_version(column.version, column.policy, today) if column.family else None
    if changed is not None:
        return changed
    if before.canonical != now.canonical:
        return "canonical", name_changed_version(before.versions, now.versions)
    cell_now = now.cells[column.ordinal]
    if cell_now is None or cell_now.digest != cell_before.digest:
        return "text", OTHER_TEXT if column.family else "the recorded receipt is another"
    if cell_now.tokens != cell_before.tokens:
        return "tokens", recount
    return None


@dataclass(frozen=True, kw_only=True)
class ReasonCount:
    reason: str
    meaning: str
    count: int
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class DriftList:
    """`fingerprints` counts all receipts that have one; `checked_at` is the last check of any of them."""

    reasons: tuple[ReasonCount, ...]
    rows: tuple[ReceiptFingerprint, ...]
    total: int
    fingerprints: int
    checked_at: datetime | None
    next_href: str
    pinned: tuple[Comparison, ...]

    @property
    def is_narrowed(self) -> bool:
        return any(reason.is_current for reason in self.reasons)


def load_drift_list(project: Project, query: Mapping[str, str], *, page_size: int = PAGE_SIZE) -> DriftList:
    """The receipts that drifted at the last check: `?reason=` narrows the list, `?from=` is the first row."""
    params = Params(query)
    reason = params.choice("reason", ("", *REASONS), default="")
    first = params.integer("from", default=0)
    every = ReceiptFingerprint.objects.filter(receipt__call__project=project)
    drifted = every.exclude(drift="")
    counts = dict(drifted.values_list("drift").annotate(Count("id")).order_by("drift"))
    chosen = drifted.filter(drift=reason) if reason else drifted
    total = chosen.count()
    ordered = chosen.select_related("receipt__call__run").order_by(F("receipt__at").desc(nulls_last=True), "pk")
    rows = ordered[first : first + page_size]
    return DriftList(
        reasons=tuple(
            ReasonCount(
                reason=name,
                meaning=REASONS[name],
                count=counts[name],
                href=f"?reason={name}",
                is_current=name == reason,
            )
            for name in REASONS
            if name in counts
        ),
        rows=tuple(rows),
        total=total,
        fingerprints=every.count(),
        checked_at=every.aggregate(last=Max("checked_at"))["last"],
        next_href=params.url(**{"from": first + page_size}) if first + page_size < total else "",
        pinned=tuple(project.comparisons.pinned().defer("summary").order_by("-pinned_at", "pk")),
    )
