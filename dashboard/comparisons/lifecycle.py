"""Starts, cancels, resumes, pins and deletes comparisons. `dashboard.worker.comparisons` computes their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dashboard.comparisons.cells import pack_ids
from dashboard.comparisons.frozen_columns import column_rows
from dashboard.comparisons.new_comparison import MOST_CALLS, CannotCompare, Selection
from dashboard.models import Call, Comparison, ComparisonBatch, ComparisonColumn, Project
from dashboard.text.column_values import column_text
from dashboard.variants.variant_list import bind_columns

BATCH_SIZE = 200  # calls
NAME_CHARACTERS = 200


def start_comparison(
    project: Project,
    selection: Selection,
    variants: Sequence[str],
    *,
    name: str = "",
    user: User | None = None,
    batch_size: int = BATCH_SIZE,
) -> Comparison:
    """Freezes the calls and the variants and queues the work. Raises CannotCompare and UnusableColumns."""
    problems = selection.problems()
    if problems:
        raise CannotCompare(" ".join(problems))
    calls = selection.calls(project)
    if not calls.exists():
        raise CannotCompare("No call matches.")
    if not calls.exclude(status=Call.Status.UNKNOWN).exists():
        raise CannotCompare("Nothing answered the calls that match: there is nothing to render.")
    ids = selection.load_ids(project)
    if len(ids) > MOST_CALLS:
        raise CannotCompare(f"More than {MOST_CALLS:,} calls match; narrow the filter or take a sample.")
    families = calls.order_by().values_list("family", flat=True).distinct()
    columns = bind_columns(project, variants, families)
    default_name = f"{selection.family or 'all families'}: {' · '.join(variants)}"
    with transaction.atomic():
        comparison = Comparison.objects.create(
            project=project,
            name=column_text(name.strip() or default_name, NAME_CHARACTERS),
            query=selection.query,
            family=selection.family,
            sample=selection.sample,
            seed=selection.seed,
            created_by=user,
            call_count=len(ids),
        )
        ComparisonColumn.objects.bulk_create(column_rows(comparison, columns))
        portions = [ids[start : start + batch_size] for start in range(0, len(ids), batch_size)]
        ComparisonBatch.objects.bulk_create(
            ComparisonBatch(comparison=comparison, number=number, calls=pack_ids(portion), size=len(portion))
            for number, portion in enumerate(portions)
        )
    return comparison


def cancel(comparison: Comparison) -> bool:
    """Stops after the batches at hand, which are still stored. False when the comparison had ended."""
    running = Comparison.objects.open().filter(pk=comparison.pk)
    return bool(running.update(state=Comparison.State.CANCELLED))


def resume(comparison: Comparison) -> bool:
    """Continues a cancelled or failed comparison with the batches that are not done."""
    ended = (Comparison.State.CANCELLED, Comparison.State.FAILED)
    with transaction.atomic():
        stopped = Comparison.objects.filter(pk=comparison.pk, state__in=ended)
        if not stopped.update(state=Comparison.State.QUEUED, problem=""):
            return False
        comparison.batches.filter(finished_at=None).update(attempts=0, leased_until=None)
    return True


def pin(comparison: Comparison, *, is_pinned: bool) -> None:
    """Makes a comparison a baseline: `check_receipts` renders its calls again and lists what changed."""
    comparison.pinned_at = timezone.now() if is_pinned else None
    comparison.checked_at, comparison.last_check = None, {}
    comparison.save(update_fields=["pinned_at", "checked_at", "last_check"])
