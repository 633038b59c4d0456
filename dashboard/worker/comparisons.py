"""The background work of comparisons: claim a batch, measure it, keep it; add up what is complete.

Any number of processes may work at once. A batch belongs to whoever wrote its name into it while it was
free; the name is good for LEASE and renewed while the work goes on. Who dies leaves a name that runs out.
Results are kept by the owner alone and together with the end of the batch, so that nothing is lost and
nothing counts twice. A ready-made task queue was rejected: those that fit Django keep no lease, and a task
of a killed worker stays "running" for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from django.db import OperationalError
from django.db.models import F, Q
from django.utils import timezone

from dashboard.comparisons.cells import Row, packed, unpacked_ids
from dashboard.comparisons.frozen_columns import ChangedVariant, load_column_rows, load_unchanged_columns
from dashboard.comparisons.measure import rows_of
from dashboard.comparisons.results import baseline_first, load_results
from dashboard.comparisons.summary import Summary, packed_summary, summarise
from dashboard.evidence.call_inputs import load_call_inputs
from dashboard.models import Call, Comparison, ComparisonBaseline, ComparisonBatch
from dashboard.variants.variant_list import VariantColumn

LEASE = timedelta(seconds=60)
RENEWED_AFTER = 10.0  # seconds
MOST_ATTEMPTS = 3
AT_ONCE = 8  # batches


def work_once(owner: str, comparison: Comparison | None = None) -> bool:
    """One batch or one summary, of that comparison or of the oldest; False when there is nothing to do now."""
    if _add_up_anew(owner, comparison):  # first: somebody looks at that page, and it takes seconds
        return True
    for candidate in _open(comparison):
        batch = _claimed(candidate, owner)
        if batch is not None:
            _do(candidate, batch, owner)
            return True
        if _add_up(candidate, owner):
            return True
    return False


def work_until_idle(owner: str, comparison: Comparison | None = None) -> None:
    """Until no comparison, or not this one, needs anything; waits for batches that others hold."""
    while list(_open(comparison)):
        if not work_once(owner, comparison):
            time.sleep(0.2)


def work_for_ever(owner: str, *, is_over: Callable[[], bool], idle: float = 1.0) -> None:
    """A busy database is met again later: an import holds the lock for as long as a batch of lines takes."""
    while not is_over():
        try:
            found = work_once(owner)
        except OperationalError:
            found = False
        if not found:
            time.sleep(idle)


def _open(comparison: Comparison | None) -> Iterator[Comparison]:
    found = Comparison.objects.filter(state__in=Comparison.OPEN_STATES).defer("summary")
    if comparison is not None:
        found = found.filter(pk=comparison.pk)
    yield from found.order_by("created_at", "pk")


def _is_free() -> Q:
    return Q(leased_until=None) | Q(leased_until__lt=timezone.now())


def _claimed(comparison: Comparison, owner: str) -> ComparisonBatch | None:
    while True:
        free = comparison.batches.filter(_is_free(), finished_at=None).order_by("number")
        found = free.values_list("pk", "attempts").first()
        if found is None:
            return None
        key, attempts = found
        if attempts >= MOST_ATTEMPTS:
            _fail(comparison, f"Calls of one batch ended their worker {attempts} times.")
            return None
        mine = ComparisonBatch.objects.filter(_is_free(), pk=key, finished_at=None)
        if mine.update(owner=owner, leased_until=timezone.now() + LEASE, attempts=F("attempts") + 1):
            return ComparisonBatch.objects.get(pk=key)


@dataclass
class _Lease:
    """Renews itself when `beat` is called late enough."""

    batch: ComparisonBatch
    owner: str
    renewed: float

    def beat(self) -> None:
        if time.monotonic() - self.renewed > RENEWED_AFTER:
            self.renewed = time.monotonic()
            mine = ComparisonBatch.objects.filter(pk=self.batch.pk, owner=self.owner, finished_at=None)
            mine.update(leased_until=timezone.now() + LEASE)


def _do(comparison: Comparison, batch: ComparisonBatch, owner: str) -> None:
    columns = _columns(comparison)
    if columns is None:
        return
    queued = Comparison.objects.filter(pk=comparison.pk, state=Comparison.State.QUEUED)
    queued.update(state=Comparison.State.RUNNING, started_at=timezone.now())
    lease = _Lease(batch, owner, time.monotonic())
    with_recorded = any(column.is_recorded for column in columns)
    ids = list(unpacked_ids(bytes(batch.calls)))
    rows = rows_of(load_call_inputs(ids, with_recorded=with_recorded), columns, beat=lease.beat)
    mine = ComparisonBatch.objects.filter(pk=batch.pk, owner=owner, finished_at=None)
    mine.update(results=packed(rows), finished_at=timezone.now(), leased_until=None)


def _columns(comparison: Comparison) -> list[VariantColumn] | None:
    try:
        return load_unchanged_columns(load_column_rows(comparison))
    except ChangedVariant as changed:
        _fail(comparison, f"{changed} Numbers of two versions would not be one comparison: start a new one.")
        return None


def _fail(comparison: Comparison, problem: str) -> None:
    mine = Comparison.objects.filter(pk=comparison.pk, state__in=Comparison.OPEN_STATES)
    mine.update(state=Comparison.State.FAILED, problem=problem[:500])


def _add_up(comparison: Comparison, owner: str) -> bool:
    """The summary, by one worker, when every batch is there."""
    if comparison.batches.filter(finished_at=None).exists():
        return False
    mine = Comparison.objects.filter(_is_free(), pk=comparison.pk, state__in=Comparison.OPEN_STATES)
    if not mine.update(owner=owner, leased_until=timezone.now() + LEASE):
        return False
    summary = packed_summary(_summarised(comparison, 0))
    done = Comparison.objects.filter(pk=comparison.pk, owner=owner, state__in=Comparison.OPEN_STATES)
    done.update(
        state=Comparison.State.FINISHED,
        summary=summary,
        finished_at=timezone.now(),
        leased_until=None,
    )
    return True


def _add_up_anew(owner: str, comparison: Comparison | None) -> bool:
    """A finished comparison once more, against the next other baseline that somebody asked for."""
    wanted = ComparisonBaseline.objects.filter(_is_free(), summary=None, comparison__state=Comparison.State.FINISHED)
    if comparison is not None:
        wanted = wanted.filter(comparison=comparison)
    found = wanted.select_related("comparison").order_by("pk").first()
    if found is None:
        return False
    mine = ComparisonBaseline.objects.filter(_is_free(), pk=found.pk, summary=None)
    if mine.update(owner=owner, leased_until=timezone.now() + LEASE):
        summary = packed_summary(_summarised(found.comparison, found.ordinal))
        ComparisonBaseline.objects.filter(pk=found.pk, owner=owner).update(summary=summary, leased_until=None)
    return True


def _summarised(comparison: Comparison, baseline: int) -> Summary:
    """Its columns with that one first."""
    columns = comparison.columns.values("ordinal").distinct().count()
    batches = _Batches(comparison, baseline_first(baseline, columns))
    summary = summarise(batches, columns=columns, calls=comparison.call_count, seed=comparison.seed)
    return msgspec.structs.replace(summary, **batches.left_out(summary.gone))


class _Batches:
    """The rows of each batch in order. Calls that are there and have no row are counted as they go by."""

    def __init__(self, comparison: Comparison, order: Sequence[int]) -> None:
        self._comparison, self._order = comparison, order
        self._is_frozen_order = order[0] == 0
        self._unanswered = self._unread = 0

    def left_out(self, missing: int) -> dict[str, int]:
        """Why that many calls are `missing`: what a summary says of them."""
        gone = missing - self._unanswered - self._unread
        return {"gone": gone, "unanswered": self._unanswered, "unread": self._unread}

    def __iter__(self) -> Iterator[list[Row]]:
        frozen = self._comparison.batches.order_by("number").values_list("calls", flat=True)
        for calls, rows in zip(frozen.iterator(chunk_size=8), load_results(self._comparison), strict=True):
            without = set(unpacked_ids(bytes(calls))) - {row.key for row in rows}
            for status in Call.objects.filter(pk__in=without).values_list("status", flat=True) if without else ():
                self._unanswered += status == Call.Status.UNKNOWN
                self._unread += status != Call.Status.UNKNOWN
            yield rows if self._is_frozen_order else [row.arranged(self._order) for row in rows]
