"""A comparison as it is stored: its columns, the rows of its batches, its summary, and how far it is.

Columns name the versions of variants at the start of the comparison, and can be loaded as they are rendered today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from django.db.models import Q, Sum
from django.utils import timezone

from dashboard.comparisons.cells import MeasuredCall, unpack_rows
from dashboard.comparisons.summary import Summary, unpack_summary
from dashboard.models import Comparison, ComparisonBaseline, ComparisonBatch, ComparisonColumn
from dashboard.variants.templates import is_template, load_version
from dashboard.variants.variant_list import RECORDED, VariantColumn, load_current_variant
from envelopes.schema.receipt import Variant

BATCHES_AT_ONCE = 8  # in memory: a batch of 200 calls under 3 variants takes about 6 KB packed


class ChangedVariant(ValueError):
    """A variant is no longer what it was when the comparison was made."""


def column_rows(comparison: Comparison, columns: Iterable[VariantColumn]) -> list[ComparisonColumn]:
    """Unsaved rows that name the compared versions: one for each column and family that it serves."""
    rows = []
    for column in columns:
        shared = {"comparison": comparison, "ordinal": column.ordinal, "name": column.name}
        if column.is_recorded:
            rows.append(ComparisonColumn(**shared, variant=RECORDED, version=1, hash="", policy=""))
        for owner, variant in column.variants.items():
            version = {"variant": variant.id, "version": variant.version, "hash": variant.hash}
            rows.append(ComparisonColumn(**shared, family=owner, policy=variant.policy.fingerprint, **version))
    return rows


def load_column_rows(comparison: Comparison) -> list[ComparisonColumn]:
    return list(comparison.columns.order_by("ordinal", "family"))


def load_columns(rows: Iterable[ComparisonColumn]) -> list[VariantColumn]:
    """The columns as they can be rendered today, changed or not; variants that are gone are left out.

    Template versions are kept for good, so a column of a template writes the same text whatever is saved later.
    """
    names: dict[int, str] = {}
    variants: dict[int, dict[str, Variant]] = {}
    for row in rows:
        names[row.ordinal] = row.name
        bound = variants.setdefault(row.ordinal, {})
        project_id = row.comparison.project_id
        if is_template(row.variant):
            variant = load_version(project_id, row.variant, row.version)
        else:
            variant = load_current_variant(project_id, row.family, row.variant)
        if variant is not None:
            bound[row.family] = variant
    return [VariantColumn(ordinal, names[ordinal], variants[ordinal]) for ordinal in sorted(names)]


def load_unchanged_columns(rows: Sequence[ComparisonColumn]) -> list[VariantColumn]:
    """Raises ChangedVariant when a variant is gone or has another hash today."""
    columns = load_columns(rows)
    for row in rows:
        today = columns[row.ordinal].variants.get(row.family)
        if row.family and (today is None or today.hash != row.hash):
            now = "is gone" if today is None else f"is version {today.version} ({today.hash}) now"
            raise ChangedVariant(f"{row.variant} was version {row.version} ({row.hash}) and {now}.")
    return columns


def load_summary(comparison: Comparison) -> Summary:
    """The summary of a finished comparison."""
    return unpack_summary(bytes(comparison.summary or b""))


def load_results(comparison: Comparison) -> Iterator[list[MeasuredCall]]:
    """The rows of each finished batch in order, one batch in memory."""
    batches = comparison.batches.filter(finished_at__isnull=False).order_by("number")
    for results in batches.values_list("results", flat=True).iterator(chunk_size=BATCHES_AT_ONCE):
        yield unpack_rows(bytes(results or b""))


def load_batches(comparison: Comparison, numbers: Sequence[int]) -> Iterator[tuple[int, list[MeasuredCall]]]:
    """The finished ones of the numbered batches with their rows, in the order of `numbers`."""
    done = comparison.batches.filter(finished_at__isnull=False)
    for start in range(0, len(numbers), BATCHES_AT_ONCE):
        portion = numbers[start : start + BATCHES_AT_ONCE]
        results = dict(done.filter(number__in=portion).order_by().values_list("number", "results"))
        yield from ((number, unpack_rows(bytes(results[number] or b""))) for number in portion if number in results)


def find_row(comparison: Comparison, call: UUID) -> MeasuredCall | None:
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
