"""Reads the stored numbers of a comparison: rows of its batches, its summary, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db.models import Q, Sum
from django.utils import timezone

from dashboard.comparisons.cells import CallRow, unpack_rows
from dashboard.comparisons.summary import Summary, unpack_summary
from dashboard.models import Comparison, ComparisonBaseline, ComparisonBatch

BATCHES_AT_ONCE = 8  # in memory: a batch of 200 calls under 3 variants takes about 6 KB packed


def load_summary(comparison: Comparison) -> Summary:
    """The summary of a finished comparison."""
    return unpack_summary(bytes(comparison.summary or b""))


def load_results(comparison: Comparison) -> Iterator[list[CallRow]]:
    """The rows of each finished batch in order, one batch in memory."""
    batches = comparison.batches.filter(finished_at__isnull=False).order_by("number")
    for results in batches.values_list("results", flat=True).iterator(chunk_size=BATCHES_AT_ONCE):
        yield unpack_rows(bytes(results or b""))


def load_batches(comparison: Comparison, numbers: Sequence[int]) -> Iterator[tuple[int, list[CallRow]]]:
    """The finished ones of the numbered batches with their rows, in the order of `numbers`."""
    done = comparison.batches.filter(finished_at__isnull=False)
    for start in range(0, len(numbers), BATCHES_AT_ONCE):
        portion = numbers[start : start + BATCHES_AT_ONCE]
        results = dict(done.filter(number__in=portion).order_by().values_list("number", "results"))
        yield from ((number, unpack_rows(bytes(results[number] or b""))) for number in portion if number in results)


def find_row(comparison: Comparison, call: UUID) -> CallRow | None:
    """The numbers of one call; None when the comparison has none of it."""
    batches = comparison.batches.order_by("number").values_list("number", "calls")
    for number, calls in batches.iterator(chunk_size=64):
        if call.bytes in bytes(calls):
            rows = [row for _, batch in load_batches(comparison, [number]) for row in batch]
            return next((row for row in rows if row.call == call.bytes), None)
    return None


def count_done(comparison: Comparison) -> int:
    """Calls of the finished batches."""
    done = comparison.batches.filter(finished_at__isnull=False).aggregate(done=Sum("size"))["done"]
    return int(done or 0)


def is_work_leased() -> bool:
    """True while a process holds a batch or a summary of any comparison; between two of them none does."""
    leased = Q(leased_until__gt=timezone.now())
    batches = ComparisonBatch.objects.filter(leased, comparison__state__in=Comparison.OPEN_STATES, finished_at=None)
    summaries = (model.objects.filter(leased).exists() for model in (Comparison, ComparisonBaseline))
    return batches.exists() or any(summaries)


def baseline_first(baseline: int, columns: int) -> tuple[int, ...]:
    """The order of ordinals in which a baseline's summary has the columns."""
    return (baseline, *(ordinal for ordinal in range(columns) if ordinal != baseline))
