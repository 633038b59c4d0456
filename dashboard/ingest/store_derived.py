"""Keeps what is derived of calls in step with their evidence: computes it, here or in a pool, and stores it.

Evidence is written by `write` and acknowledged first; a call whose evidence changed has an empty `derivation` until
what follows from it is stored. Whatever is derived can be computed again, so a killed process loses none of it: the
next import, the worker or `rederive` continues (D-2).

    derive_waiting(project)           computes and stores for all calls that wait for it
    open_deriver(project, pool)       for an import, with other processes when it is large
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, models
from django.utils import timezone

from dashboard.artifacts.stores import LockTimeout, hold_lock
from dashboard.ingest import sources
from dashboard.ingest.bulk import bulk_insert_values, bulk_update, bulk_update_values, unsaved_row
from dashboard.ingest.compute_derived import (
    DerivedCall,
    compute_calls,
    compute_portion,
    current_derivation,
    derive_calls,
    load_recorded_calls,
    pack_calls,
)
from dashboard.ingest.derive import RecordedCall
from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Observation,
    Project,
    ReceiptFingerprint,
    RecordedReceipt,
    Remark,
    Run,
    RunCall,
    Source,
    load_slices,
)
from dashboard.models.search import insert_entries
from dashboard.models.sources import DamagedEvidence
from dashboard.pool import Computing, is_lost, open_pool
from dashboard.search.index import index_waiting

logger = logging.getLogger(__name__)
_REPORTED: set[UUID] = set()  # calls with damaged evidence: the background work tries them again and again
CALLS_AT_ONCE = 256
BYTES_AT_ONCE = 4_000_000  # of their evidence
CALLS_STORED_AT_ONCE = 1_024  # by an import; otherwise CALLS_AT_ONCE, since what programs send waits meanwhile
WORTH_A_POOL = 8_000_000  # bytes of recordings; a process of the pool takes a second to start
STATED_COLUMNS = ("variant", "version", "policy", "canonical_sha256", "text_sha256")  # of a fingerprint
CALLS_A_STEP = 20_000  # of the background work
CALLS_BESIDE_SENDERS = 64  # at once, while programs send: so short a transaction hardly holds up theirs
REST = 3.0  # times as long as a portion took, before the next one
LONGEST_REST = 1.0  # seconds
LONGEST_WAIT = timedelta(minutes=1)  # of a call, while programs send
MOST_PENDING = 4  # portions that the pool works on, so that their results do not fill the memory


def store_derived(project: Project, derived: Sequence[DerivedCall]) -> int:
    """Stores what was computed of evidence that has not changed since; returns of how many calls."""
    version = current_derivation()
    with project.write_lock():
        stored = Call.objects.filter(pk__in=[product.key for product in derived])
        rows = stored.values_list("pk", "evidence_version", "derivation", "run_id", "search_id")
        states: dict[UUID, tuple[int, str, UUID, int | None]] = {row[0]: row[1:] for row in rows}
        derived = [product for product in derived if states.get(product.key, (None,))[0] == product.evidence_version]
        if not derived:
            return 0
        runs = _raise_revisions({states[product.key][2] for product in derived})
        waiting = [product for product in derived if states[product.key][3] is None]
        ids = insert_entries([product.entry for product in waiting])
        entries = {product.key: entry for product, entry in zip(waiting, ids, strict=True)}
        columns = [
            {
                "id": product.key,
                "derivation": version,
                "revision": runs[states[product.key][2]].revision,
                "search_id": entries.get(product.key, states[product.key][3]),
                **product.columns,
            }
            for product in derived
        ]
        bulk_update_values(Call, columns)
        known = [product.key for product in derived if product.evidence_version > 1 or states[product.key][1]]
        artifacts = [artifact for product in derived for artifact in product.artifacts]
        if known:
            CanonicalProjection.objects.filter(call__in=known).delete()
            stale = Artifact.objects.filter(call__in=known, observation__isnull=False)  # of another result
            stale.exclude(pk__in=[artifact["id"] for artifact in artifacts]).delete()
            Remark.objects.filter(call__in=known, kind__in=Remark.Kind.of_evidence()).delete()
        bulk_insert_values(Remark, [row for product in derived for row in product.remarks], ignore_known=True)
        bulk_insert_values(CanonicalProjection, [product.projection for product in derived], ignore_known=True)
        bulk_insert_values(Artifact, artifacts, ignore_known=True)
        bulk_update_values(RecordedReceipt, [receipt for product in derived for receipt in product.receipts])
        _store_fingerprints(derived, known)
        _store_notes(derived, set(known))
        _refresh_runs(runs)
    return len(derived)


def _raise_revisions(keys: set[UUID]) -> dict[UUID, Run]:
    runs = Run.objects.select_for_update().in_bulk(list(keys))
    for run in runs.values():
        run.revision += 1
    return runs


def _refresh_runs(runs: dict[UUID, Run]) -> None:
    """Counts each run once none of its calls waits, and then the others that list one of them where that changes.

    Each portion of a long run would repeat it. A killed process leaves waiting calls, so the counts follow later.
    """
    incomplete = set(Call.objects.waiting().filter(run__in=runs).values_list("run_id", flat=True).distinct())
    complete = [run for key, run in runs.items() if key not in incomplete]
    bulk_update([runs[key] for key in incomplete], ["revision"])
    refresh_stats(complete)
    others = RunCall.objects.filter(call__run__in=complete, inherited=True).exclude(run__in=complete).values("run")
    refresh_stats(list(Run.objects.select_for_update().filter(pk__in=others)), only_changed=True)


def _store_fingerprints(derived: Sequence[DerivedCall], known: Sequence[UUID]) -> None:
    """Stores the fingerprints; one that states the same as before keeps its last check, and what made its envelope."""
    computed = {row["receipt_id"]: row for product in derived for row in product.fingerprints}
    stale = []
    for stored in ReceiptFingerprint.objects.filter(receipt__call__in=known) if known else ():
        row = computed.get(stored.receipt_id)
        if row is None or any(getattr(stored, name) != row[name] for name in STATED_COLUMNS):
            stale.append(stored.pk)
            continue
        del computed[stored.receipt_id]
        if row["projected_by"] not in ("", stored.projected_by):
            stored.projected_by = row["projected_by"]
            stored.save(update_fields=["projected_by"])
    if stale:
        ReceiptFingerprint.objects.filter(pk__in=stale).delete()
    bulk_insert_values(ReceiptFingerprint, list(computed.values()), ignore_known=True)


def _store_notes(derived: Sequence[DerivedCall], known: set[UUID]) -> None:
    """Stores what a mapping could not read; an earlier note of a known call may no longer hold."""
    noted = {product.subject: product for product in derived if product.note or product.key in known}
    subjects = list(Observation.objects.filter(pk__in=[key for key in noted if key]).select_related("call"))
    load_slices(subject for subject in subjects if noted[subject.pk].note)
    notes = [(subject.call.external_id, subject, noted[subject.pk].note) for subject in subjects]
    if notes:
        sources.store_notes(notes)


def count_changed(derived: Sequence[DerivedCall]) -> int:
    """The calls whose stored columns or envelope are not those that were computed."""
    calls = Call.objects.select_related("projection__observation").in_bulk([product.key for product in derived])
    stored = {key: call.projection for key, call in calls.items() if hasattr(call, "projection")}
    load_slices(row.observation for row in stored.values() if row.observation)
    return sum(
        product.key not in stored
        or not _is_same(stored[product.key], unsaved_row(CanonicalProjection, **product.projection))
        or any(getattr(calls[product.key], name) != value for name, value in product.columns.items())
        for product in derived
        if product.key in calls
    )


def _is_same(stored: CanonicalProjection, computed: CanonicalProjection) -> bool:
    """Compares what they unpack to: another release of zstd may pack it otherwise."""
    if stored.observation_id != computed.observation_id:
        return False
    computed.observation = stored.observation
    return all(getattr(stored, name) == getattr(computed, name) for name in ("mapping", "policy", "cuts", "data"))


def derive_waiting(
    project: Project,
    computing: Computing | None = None,
    most: int | None = None,
    *,
    calls_at_once: int = CALLS_AT_ONCE,
    pace: Pace | None = None,
) -> int:
    """Derives all calls that wait for it, or the first `most`, here or where `computing` says; returns how many.

    Calls with damaged evidence stay in the queue, and the log names them. With a pace it slows down for programs that
    send.
    """
    # By source: the evidence of a portion is then in a few frames, where ids spread over all of them.
    waiting = project.calls.waiting().order_by("source_id", "pk")
    keys = list(waiting.values_list("pk", flat=True)[:most])
    pool = computing.choose(calls=len(keys)) if computing else None
    deriver = Deriver(project, pool, calls_at_once=calls_at_once, stored_at_once=calls_at_once)
    start = 0
    while start < len(keys):
        end = start + (CALLS_BESIDE_SENDERS if pace and pace.is_slow else calls_at_once)
        deriver.submit({call.call.pk: call for call in _load_undamaged(keys[start:end])})
        if pace and pace.is_slow:
            deriver.finish()
        if pace and end < len(keys):
            pace.rest(oldest=keys[end])
        start = end
    deriver.finish()
    if computing and deriver.is_broken:
        computing.close(is_broken=True)
    return deriver.stored


def _load_undamaged(keys: Sequence[UUID]) -> list[RecordedCall]:
    """The evidence of these calls. Damaged ones are found by halving, left out, and named in the log once."""
    try:
        return load_recorded_calls(keys)
    except DamagedEvidence as damaged:
        if len(keys) > 1:
            middle = len(keys) // 2
            return [*_load_undamaged(keys[:middle]), *_load_undamaged(keys[middle:])]
        if keys[0] not in _REPORTED:
            logger.error("call %s cannot be derived: %s", keys[0], damaged)
            _REPORTED.add(keys[0])
        return []


def derive_next_waiting(computing: Computing | None = None) -> bool:
    """Derives waiting calls of one project, unless another process does; False when there was nothing to do."""
    waiting = Call.objects.waiting().filter(project=models.OuterRef("pk"))
    projects = list(Project.objects.filter(models.Exists(waiting)).order_by("pk"))
    if not projects:
        return False
    with derivation_lock() as is_leader:
        if not is_leader:
            return False
        pace = Pace()
        return any(derive_waiting(project, computing, CALLS_A_STEP, pace=pace) for project in projects)


class Pace:
    """How fast the background work derives while programs send: they wait for the processor, and for its transactions.

    While batches come, portions are small and each is followed by a rest of REST times as long as it took. Calls that
    have waited LONGEST_WAIT end that. `sleep` gets the seconds of a rest.
    """

    def __init__(self, sleep: Callable[[float], object] = time.sleep) -> None:
        self.is_slow = False
        self._sleep = sleep
        self._newest = _newest_source()
        self._began = time.monotonic()

    def rest(self, oldest: UUID) -> None:
        """Rests where a batch has come since the last portion; `oldest` is the call that waits the longest."""
        newest = _newest_source()
        self.is_slow = newest != self._newest and not _has_waited(oldest)
        self._newest = newest
        if self.is_slow:
            self._sleep(min(REST * (time.monotonic() - self._began), LONGEST_REST))
        self._began = time.monotonic()


def _newest_source() -> int | None:
    """Each batch that a program sends is a source."""
    return Source.objects.order_by("-pk").values_list("pk", flat=True).first()


def _has_waited(call: UUID) -> bool:
    before = timezone.now() - LONGEST_WAIT
    return Call.objects.filter(pk=call, source__created_at__lt=before).exists()


@contextmanager
def derivation_lock() -> Iterator[bool]:
    """Yields True to the one process that derives what others left; a killed one loses the lock."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(settings.DATA / "derivation.lock", exclusive=True, timeout=0))
            is_leader = True
        except LockTimeout:
            is_leader = False
        yield is_leader


class Deriver:
    """Derives the calls of an import: at once, or in a pool while the import reads on.

    Many calls are stored together, because the counts of a run are read again each time.
    """

    def __init__(
        self,
        project: Project,
        pool: Executor | None,
        *,
        calls_at_once: int = CALLS_AT_ONCE,
        stored_at_once: int = CALLS_STORED_AT_ONCE,
    ) -> None:
        self._project = project
        self._pool = pool
        self._calls_at_once = calls_at_once
        self._stored_at_once = stored_at_once
        self._collected: dict[UUID, RecordedCall | None] = {}
        self._size = 0  # bytes of evidence in it
        self._pending: deque[tuple[list[UUID], Future[list[DerivedCall]]]] = deque()
        self._computed: list[DerivedCall] = []  # not stored yet
        self.stored = 0  # calls
        self.is_broken = False  # a process was killed, for its memory perhaps: the rest is computed here

    def submit(self, calls: Mapping[UUID, RecordedCall | None]) -> None:
        """Collects calls: the files of an audit folder report the same ones in turn, and each is derived once."""
        for key, call in calls.items():
            self._collected[key] = call
            self._size += sum(row.size for row in call.observations) if call else 0
            if len(self._collected) >= self._calls_at_once or self._size >= BYTES_AT_ONCE:
                self._start()
        self._store(most_pending=MOST_PENDING)

    def finish(self) -> None:
        if self._collected:
            self._start()
        self._store(most_pending=0)

    def _start(self) -> None:
        portion, self._collected, self._size = self._collected, {}, 0
        recorded = [call for call in portion.values() if call is not None]
        others = [key for key, call in portion.items() if call is None]
        future: Future[list[DerivedCall]] | None = None
        if self._pool is not None and not self.is_broken:
            try:
                future = self._pool.submit(compute_portion, pack_calls(recorded), others)
            except Exception as error:
                self._note_lost(error)
        if future is None:
            future = Future()
            future.set_result(derive_calls(recorded) + (compute_calls(others) if others else []))
        self._pending.append((list(portion), future))

    def _store(self, *, most_pending: int) -> None:
        """Stores what is computed, and waits for more while too much is pending."""
        while self._pending and (len(self._pending) > most_pending or self._pending[0][1].done()):
            keys, future = self._pending.popleft()
            try:
                # Nothing is waited for once a process was lost: Python 3.11 may have forgotten what was submitted then.
                self._computed += future.result(timeout=0 if self.is_broken else None)
            except TimeoutError:
                self._computed += compute_calls(keys)
            except Exception as error:
                self._note_lost(error)
                self._computed += compute_calls(keys)
            if len(self._computed) >= self._stored_at_once:
                self._store_computed()
        if not most_pending:
            self._store_computed()

    def _store_computed(self) -> None:
        if self._computed:
            derived, self._computed = self._computed, []
            self.stored += store_derived(self._project, derived)

    def _note_lost(self, error: Exception) -> None:
        """Raises the error again, unless it states that a process was lost."""
        if not is_lost(error):
            raise error
        self.is_broken = True


@contextmanager
def open_import_pool(size: int) -> Iterator[Executor | None]:
    """Processes for an import of recordings of `size` bytes; None where they are not worth their start.

    Other processes do not see rows of an open transaction, so within one there is no pool.
    """
    if size >= WORTH_A_POOL and not connection.in_atomic_block:
        with open_pool(str(connection.settings_dict["NAME"])) as pool:
            yield pool
    else:
        yield None


@contextmanager
def open_deriver(project: Project, pool: Executor | None) -> Iterator[Deriver]:
    """A deriver for an import; at the end everything that waited is derived."""
    with derivation_lock() as is_leader:
        deriver = Deriver(project, pool)
        yield deriver
        deriver.finish()
        if is_leader:
            derive_waiting(project)
            index_waiting(project)
