"""Measures comparisons in the background: batch by batch to their summary, in the process that leads.

The leader loads what the store has of a batch, an executor computes the rows from these bytes alone, and the leader
stores them in the statement that ends the batch. So a process may die at any moment: a batch that is not ended is
computed again, and none is counted twice. A batch counts its starts; those that did not end are repeated one at a time
and never in the leader's own process, so that a call which ends every process is found and ends its comparison.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from uuid import UUID

import msgspec
from django.db.models import F
from django.utils import timezone

from dashboard.evidence.call_evidence import EVIDENCE_BYTES_AT_ONCE
from dashboard.evidence.call_inputs import StoredCall, load_stored_calls
from dashboard.experiments.measure_calls import (
    MeasuredCall,
    join_rows,
    measure_packed,
    pack_calls,
    unpack_ids,
    unpack_rows,
)
from dashboard.experiments.stored_columns import ChangedVariant, bind_unchanged, load_specification
from dashboard.experiments.stored_comparison import BATCHES_AT_ONCE, baseline_first, count_done
from dashboard.experiments.summary import Summary, pack_summary, summarise
from dashboard.models import Call, Comparison, ComparisonBaseline, ComparisonBatch
from dashboard.models.sources import DamagedEvidence
from dashboard.pool import Computing, is_lost
from dashboard.variants.render_call import describe_failure

logger = logging.getLogger(__name__)
MOST_ATTEMPTS = 3
WAIT_SECONDS = 0.5  # for a result, before the leader looks at what else there is to do
PROBLEM_CHARACTERS = 500


@dataclass(frozen=True)
class _PendingBatch:
    """A batch that is being computed, in portions of bounded size; `is_apart`: no other batch may be, meanwhile."""

    row: ComparisonBatch
    portions: list[Future[bytes]]
    is_apart: bool

    @property
    def is_done(self) -> bool:
        return all(portion.done() for portion in self.portions)


class Measuring:
    """Comparisons on their way to their summaries, the oldest first; `step` does a little of it.

    `on_pause` is called within the longest steps, for work that cannot wait for their end.
    """

    def __init__(
        self,
        computing: Computing,
        on_pause: Callable[[], object],
        *,
        evidence_bytes: int = EVIDENCE_BYTES_AT_ONCE,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._computing, self._on_pause = computing, on_pause
        self._evidence_bytes, self._wait_seconds = evidence_bytes, wait_seconds
        self._current: UUID | None = None  # the comparison whose batches are started
        self._specification = b""
        self._with_recorded = False
        self._calls = 0  # that were not measured when it became the current one
        self._suspects: list[int] = []  # batches that were started and did not end
        self._pending: list[_PendingBatch] = []

    def step(self, first: Comparison | None = None) -> bool:
        """Takes a step of the comparison `first`, or else of the oldest; False when there is nothing to do."""
        if _summarise_next_baseline(self._on_pause):  # a page waits for it, and it takes seconds
            return True
        candidates = Comparison.objects.open().defer("summary").order_by("created_at", "pk")
        comparison = (candidates.filter(pk=first.pk).first() if first else None) or candidates.first()
        if self._pending and (comparison is None or comparison.pk != self._current):
            self._wait()  # for batches of a comparison that was cancelled: they are stored too
            return self._store_done() or True
        if comparison is None or (comparison.pk != self._current and not self._begin(comparison)):
            return comparison is not None
        if self._store_done() or self._start_batch(comparison):
            return True
        if self._pending:
            self._wait()
        else:
            _finish(comparison, self._on_pause)
            self._current = None
        return True

    def give_back(self) -> None:
        """Forgets the batches that are being computed, because this process ends: that counts as no attempt."""
        started = ComparisonBatch.objects.filter(pk__in=[batch.row.pk for batch in self._pending], finished_at=None)
        started.update(attempts=F("attempts") - 1)
        self._pending.clear()

    def _begin(self, comparison: Comparison) -> bool:
        """False where a variant has changed: the comparison has then failed."""
        self._specification = load_specification(comparison)
        try:
            columns = bind_unchanged(self._specification)
        except ChangedVariant as changed:
            _fail_changed(comparison.pk, changed)
            return False
        self._current, self._with_recorded = comparison.pk, any(column.is_recorded for column in columns)
        self._calls = comparison.call_count - count_done(comparison)
        suspects = comparison.batches.filter(finished_at=None, attempts__gt=0).order_by("number")
        self._suspects = list(suspects.values_list("pk", flat=True))
        queued = Comparison.objects.filter(pk=comparison.pk, state=Comparison.State.QUEUED)
        queued.update(state=Comparison.State.RUNNING, started_at=timezone.now())
        return True

    def _start_batch(self, comparison: Comparison) -> bool:
        """False where no batch can be started now: all are, or too many are being computed."""
        is_apart = bool(self._suspects)
        executor = self._computing.choose(calls=self._calls, is_apart=is_apart)
        is_full = len(self._running()) >= self._computing.most_pending
        if is_full or (self._pending and (is_apart or self._pending[0].is_apart)):
            return False
        waiting = comparison.batches.filter(finished_at=None).order_by("number")
        if is_apart:
            waiting = waiting.filter(pk=self._suspects.pop(0))
        row = waiting.exclude(pk__in=[batch.row.pk for batch in self._pending]).first()
        if row is None:
            return is_apart
        if row.attempts >= MOST_ATTEMPTS:
            _fail(comparison.pk, f"Calls of one batch ended their process {row.attempts} times.")
            return True
        comparison.batches.filter(pk=row.pk).update(attempts=F("attempts") + 1)
        batch = _PendingBatch(row, [], is_apart)
        self._pending.append(batch)
        try:
            for packed in self._pack_portions(row):
                while len(self._running()) >= self._computing.most_pending:
                    self._wait()
                batch.portions.append(executor.submit(measure_packed, packed, self._specification))
        except DamagedEvidence as damaged:
            self._pending.remove(batch)
            _fail(comparison.pk, f"Stopped: {damaged}. The command check_store lists all damaged calls.")
        except Exception as error:
            if not is_lost(error):
                raise
            self._start_anew()
        return True

    def _pack_portions(self, row: ComparisonBatch) -> Iterator[bytes]:
        """The calls of a batch as `measure_packed` takes them, a few megabytes at a time."""
        portion: list[StoredCall] = []
        size = 0
        for call in load_stored_calls(list(unpack_ids(bytes(row.calls))), with_recorded=self._with_recorded):
            if portion and size + call.size > self._evidence_bytes:
                yield pack_calls(portion)
                portion, size = [], 0
            portion.append(call)
            size += call.size
        yield pack_calls(portion)

    def _running(self) -> list[Future[bytes]]:
        return [portion for batch in self._pending for portion in batch.portions if not portion.done()]

    def _wait(self) -> None:
        wait(self._running(), timeout=self._wait_seconds, return_when=FIRST_COMPLETED)

    def _store_done(self) -> bool:
        """Stores the batches that are computed; False when none is."""
        done = [batch for batch in self._pending if batch.is_done]
        for batch in done:
            try:
                results = join_rows(portion.result() for portion in batch.portions)
            except Exception as error:  # of the executor, or of a program that came with a package
                if is_lost(error):
                    self._start_anew()
                    return True
                self._fail_batch(batch, error)
            else:
                stored = ComparisonBatch.objects.filter(pk=batch.row.pk, finished_at=None)
                stored.update(results=results, finished_at=timezone.now())
            self._pending.remove(batch)
        return bool(done)

    def _start_anew(self) -> None:
        """Goes on after processes have died: all that was being computed is a suspect."""
        self._computing.close(is_broken=True)
        self._pending.clear()
        self._current = None

    def _fail_batch(self, batch: _PendingBatch, error: Exception) -> None:
        if isinstance(error, ChangedVariant):
            _fail_changed(batch.row.comparison_id, error)
        else:
            logger.error("a batch could not be measured", exc_info=error)
            _fail(batch.row.comparison_id, f"Stopped: a call could not be measured: {describe_failure(error)}")


def _fail(comparison: UUID, problem: str) -> None:
    running = Comparison.objects.open().filter(pk=comparison)
    running.update(state=Comparison.State.FAILED, problem=problem[:PROBLEM_CHARACTERS])


def _fail_changed(comparison: UUID, changed: ChangedVariant) -> None:
    _fail(comparison, f"{changed} Numbers of two versions would not be one comparison: start a new one.")


def _finish(comparison: Comparison, on_pause: Callable[[], object]) -> None:
    summary = pack_summary(_build_summary(comparison, 0, on_pause))
    running = Comparison.objects.open().filter(pk=comparison.pk)
    running.update(state=Comparison.State.FINISHED, summary=summary, finished_at=timezone.now())


def _summarise_next_baseline(on_pause: Callable[[], object]) -> bool:
    """Summarises a finished comparison against the next other baseline that was requested; False without one."""
    requests = ComparisonBaseline.objects.filter(summary=None, comparison__state=Comparison.State.FINISHED)
    request = requests.select_related("comparison").order_by("pk").first()
    if request is None:
        return False
    summary = pack_summary(_build_summary(request.comparison, request.ordinal, on_pause))
    ComparisonBaseline.objects.filter(pk=request.pk).update(summary=summary)
    return True


def _build_summary(comparison: Comparison, baseline: int, on_pause: Callable[[], object]) -> Summary:
    """The summary with the columns in the order of `baseline_first`."""
    columns = comparison.columns.values("ordinal").distinct().count()
    batches = _Batches(comparison, baseline_first(baseline, columns), on_pause)
    summary = summarise(batches, columns=columns, calls=comparison.call_count, seed=comparison.seed)
    gone = summary.gone - batches.unanswered - batches.unread
    return msgspec.structs.replace(summary, gone=gone, unanswered=batches.unanswered, unread=batches.unread)


class _Batches:
    """The rows of each batch in order. Counts, on the way, the calls that exist and have no row."""

    def __init__(self, comparison: Comparison, order: Sequence[int], on_pause: Callable[[], object]) -> None:
        self._comparison, self._order, self._on_pause = comparison, order, on_pause
        self._is_stored_order = order[0] == 0
        self.unanswered = self.unread = 0

    def __iter__(self) -> Iterator[list[MeasuredCall]]:
        batches = self._comparison.batches.order_by("number").values_list("calls", "results")
        number = 0
        # A statement that is still being read would keep SQLite from writing in a pause.
        while portion := list(batches.filter(number__gte=number)[:BATCHES_AT_ONCE]):
            number += len(portion)
            for calls, results in portion:
                rows = unpack_rows(bytes(results or b""))
                self._count_missing(set(unpack_ids(bytes(calls))) - {row.key for row in rows})
                yield rows if self._is_stored_order else [row.reorder(self._order) for row in rows]
            self._on_pause()

    def _count_missing(self, calls: set[UUID]) -> None:
        for status in Call.objects.filter(pk__in=calls).values_list("status", flat=True) if calls else ():
            self.unanswered += status == Call.Status.UNKNOWN
            self.unread += status != Call.Status.UNKNOWN
