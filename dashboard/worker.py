"""The background work: derives calls that wait, measures and summarises comparisons, measures used-line recall.

The server's master process starts workers and restarts those that die. Each is `manage.py work`, a program of its
own, so that a batch that exhausts the memory or crashes the interpreter harms nothing else. It ends by itself when
the process that started it is gone.

Any number of processes may work at once. A process owns a batch once it has written its name into it while the batch
was free; the lease lasts LEASE and is renewed while the work goes on, so that the batches of a dead process become
free. Results are stored by the owner alone, in the statement that ends the batch: nothing is lost or counted twice.
Existing task queues for Django keep no lease: a task of a killed worker stays "running" for ever.
"""

from __future__ import annotations

import gc
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from django.db import Error, connection
from django.db.models import F, Q
from django.utils import timezone

from dashboard.evidence.call_evidence import load_call_inputs
from dashboard.experiments.measurements import MeasuredCall, measure_calls, pack_rows, unpack_ids
from dashboard.experiments.recall_report import measure_next_recall
from dashboard.experiments.stored_comparison import (
    BATCHES_AT_ONCE,
    ChangedVariant,
    baseline_first,
    load_column_rows,
    load_results,
    load_unchanged_columns,
)
from dashboard.experiments.summary import Summary, pack_summary, summarise
from dashboard.faults import drop_connection, find_outage
from dashboard.ingest.derivation import derive_next_waiting
from dashboard.models import Call, Comparison, ComparisonBaseline, ComparisonBatch
from dashboard.models.comparisons import ComparisonQuerySet
from dashboard.models.sources import DamagedEvidence
from dashboard.project_rules import load_all_rules
from dashboard.search.index import index_next_waiting

POLL_SECONDS = 2.0
NICENESS = 10  # pages come first
GC_THRESHOLD = 20_000  # new objects
LEASE = timedelta(seconds=60)
RENEW_AFTER = 10.0  # seconds
MOST_ATTEMPTS = 3
PROBLEM_CHARACTERS = 500


class WorkerSupervisor(threading.Thread):
    """A thread of the server's master process that keeps `count` workers running while it lives."""

    def __init__(self, count: int) -> None:
        super().__init__(name="workers", daemon=True)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count

    def run(self) -> None:
        command = [sys.executable, "-m", "dashboard", "work", "--parent", str(os.getpid())]
        while True:
            for index, process in enumerate(self._processes):
                if process is None or process.poll() is not None:
                    self._processes[index] = subprocess.Popen(command)  # noqa: S603 - this program
            time.sleep(POLL_SECONDS)


def build_worker_name() -> str:
    """A name that no other worker has, even when the system reuses the number of a dead process."""
    return f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"


def lower_priority() -> None:
    """Gives pages the processor first, and makes garbage collection and the database use less memory and time."""
    os.nice(NICENESS)
    gc.freeze()  # the program itself is never garbage, and a batch creates objects by the hundred thousand
    gc.set_threshold(GC_THRESHOLD)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA mmap_size=0")  # mapped pages would count as this process's memory


def parent_exited(parent: int | None) -> bool:
    """True when the process that started this one is gone; never for a worker that a person started."""
    return parent is not None and os.getppid() != parent


def work_once(owner: str, comparison: Comparison | None = None, *, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Derives waiting calls, or does one batch or one summary, of that comparison or of the oldest, or a report.

    False when there is nothing to do now.
    """
    load_all_rules()
    if comparison is None and (derive_next_waiting() or index_next_waiting()):
        return True
    if _summarise_baseline(owner, comparison):  # first: a page waits for it, and it takes seconds
        return True
    for candidate in _open_comparisons(comparison):
        batch = _claim_batch(candidate, owner)
        if batch is not None:
            _measure_batch(candidate, batch, owner)
            return True
        if _summarise(candidate, owner):
            return True
    return comparison is None and measure_next_recall(owner, is_over=is_over)


def work_until_idle(owner: str, comparison: Comparison | None = None) -> None:
    """Works until no comparison, or not this one, needs anything; waits for batches of other processes."""
    load_all_rules()
    while comparison is None and (derive_next_waiting() or index_next_waiting()):
        pass
    while _open_comparisons(comparison).exists():
        if not work_once(owner, comparison):
            time.sleep(0.2)
    while comparison is None and measure_next_recall(owner):
        pass


def run_forever(owner: str, *, is_over: Callable[[], bool], idle_seconds: float = 1.0) -> None:
    """Works until `is_over`. Waits while the store cannot be used: a worker needs no restart afterwards."""
    while not is_over():
        try:
            has_worked = work_once(owner, is_over=is_over)
        except (Error, OSError) as error:
            if find_outage(error) is None:
                raise
            drop_connection()
            has_worked = False
        if not has_worked:
            time.sleep(idle_seconds)


def _open_comparisons(comparison: Comparison | None) -> ComparisonQuerySet:
    comparisons = Comparison.objects.open().defer("summary").order_by("created_at", "pk")
    return comparisons if comparison is None else comparisons.filter(pk=comparison.pk)


def _is_free() -> Q:
    return Q(leased_until=None) | Q(leased_until__lt=timezone.now())


def _claim_batch(comparison: Comparison, owner: str) -> ComparisonBatch | None:
    while True:
        free = comparison.batches.filter(_is_free(), finished_at=None).order_by("number")
        first = free.values_list("pk", "attempts").first()
        if first is None:
            return None
        key, attempts = first
        if attempts >= MOST_ATTEMPTS:
            _fail(comparison, f"Calls of one batch ended their worker {attempts} times.")
            return None
        claimed = ComparisonBatch.objects.filter(_is_free(), pk=key, finished_at=None)
        if claimed.update(owner=owner, leased_until=timezone.now() + LEASE, attempts=F("attempts") + 1):
            return ComparisonBatch.objects.get(pk=key)


@dataclass
class _Lease:
    batch: ComparisonBatch
    owner: str
    renewed: float

    def renew(self) -> None:
        """Extends the lease, once RENEW_AFTER has passed."""
        if time.monotonic() - self.renewed > RENEW_AFTER:
            self.renewed = time.monotonic()
            owned = ComparisonBatch.objects.filter(pk=self.batch.pk, owner=self.owner, finished_at=None)
            owned.update(leased_until=timezone.now() + LEASE)


def _measure_batch(comparison: Comparison, batch: ComparisonBatch, owner: str) -> None:
    try:
        columns = load_unchanged_columns(load_column_rows(comparison))
    except ChangedVariant as changed:
        _fail(comparison, f"{changed} Numbers of two versions would not be one comparison: start a new one.")
        return
    queued = Comparison.objects.filter(pk=comparison.pk, state=Comparison.State.QUEUED)
    queued.update(state=Comparison.State.RUNNING, started_at=timezone.now())
    lease = _Lease(batch, owner, time.monotonic())
    with_recorded = any(column.is_recorded for column in columns)
    calls = load_call_inputs(list(unpack_ids(bytes(batch.calls))), with_recorded=with_recorded)
    try:
        rows = measure_calls(calls, columns, on_call=lease.renew)
    except DamagedEvidence as damaged:
        _fail(comparison, f"Stopped: {damaged}. The command check_store lists all damaged calls.")
        return
    owned = ComparisonBatch.objects.filter(pk=batch.pk, owner=owner, finished_at=None)
    owned.update(results=pack_rows(rows), finished_at=timezone.now(), leased_until=None)


def _fail(comparison: Comparison, problem: str) -> None:
    running = Comparison.objects.open().filter(pk=comparison.pk)
    running.update(state=Comparison.State.FAILED, problem=problem[:PROBLEM_CHARACTERS])


def _summarise(comparison: Comparison, owner: str) -> bool:
    """Finishes the comparison when every batch is done; False when it is not, or another process does."""
    if comparison.batches.filter(finished_at=None).exists():
        return False
    free = Comparison.objects.open().filter(_is_free(), pk=comparison.pk)
    if not free.update(owner=owner, leased_until=timezone.now() + LEASE):
        return False
    summary = pack_summary(_build_summary(comparison, 0))
    owned = Comparison.objects.open().filter(pk=comparison.pk, owner=owner)
    owned.update(state=Comparison.State.FINISHED, summary=summary, finished_at=timezone.now(), leased_until=None)
    return True


def _summarise_baseline(owner: str, comparison: Comparison | None) -> bool:
    """Summarises a finished comparison against the next other baseline that was requested; False without one."""
    requests = ComparisonBaseline.objects.filter(_is_free(), summary=None, comparison__state=Comparison.State.FINISHED)
    if comparison is not None:
        requests = requests.filter(comparison=comparison)
    request = requests.select_related("comparison").order_by("pk").first()
    if request is None:
        return False
    free = ComparisonBaseline.objects.filter(_is_free(), pk=request.pk, summary=None)
    if free.update(owner=owner, leased_until=timezone.now() + LEASE):
        summary = pack_summary(_build_summary(request.comparison, request.ordinal))
        ComparisonBaseline.objects.filter(pk=request.pk, owner=owner).update(summary=summary, leased_until=None)
    return True


def _build_summary(comparison: Comparison, baseline: int) -> Summary:
    """The summary with the columns in the order of `baseline_first`."""
    columns = comparison.columns.values("ordinal").distinct().count()
    batches = _Batches(comparison, baseline_first(baseline, columns))
    summary = summarise(batches, columns=columns, calls=comparison.call_count, seed=comparison.seed)
    gone = summary.gone - batches.unanswered - batches.unread
    return msgspec.structs.replace(summary, gone=gone, unanswered=batches.unanswered, unread=batches.unread)


class _Batches:
    """The rows of each batch in order. Counts, on the way, the calls that exist and have no row."""

    def __init__(self, comparison: Comparison, order: Sequence[int]) -> None:
        self._comparison, self._order = comparison, order
        self._is_stored_order = order[0] == 0
        self.unanswered = self.unread = 0

    def __iter__(self) -> Iterator[list[MeasuredCall]]:
        batches = self._comparison.batches.order_by("number").values_list("calls", flat=True)
        calls_and_rows = zip(batches.iterator(chunk_size=BATCHES_AT_ONCE), load_results(self._comparison), strict=True)
        for calls, rows in calls_and_rows:
            missing = set(unpack_ids(bytes(calls))) - {row.key for row in rows}
            for status in Call.objects.filter(pk__in=missing).values_list("status", flat=True) if missing else ():
                self.unanswered += status == Call.Status.UNKNOWN
                self.unread += status != Call.Status.UNKNOWN
            yield rows if self._is_stored_order else [row.reorder(self._order) for row in rows]
