"""Making a comparison, and what one may do with it afterwards. Its numbers come from `comparisons.work`."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from dashboard.comparisons.cells import packed_ids
from dashboard.comparisons.frozen_columns import column_rows
from dashboard.filters.language import Query, parse
from dashboard.ingest.bulk import bulk_insert
from dashboard.models import Call, Comparison, ComparisonBatch, ComparisonColumn, Project
from dashboard.text.column_values import column_text
from dashboard.variants.variant_list import bind_columns
from envelopes.families.registry import all_families

BATCH = 200
MOST_CALLS = 1_000_000


class Unusable(ValueError):
    """What was asked for cannot be compared; the sentence is for the operator."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which calls: a filter in the language of the lists, one family or all, all of them or a sample.

    A sample is drawn of answered calls. Of all, those that nothing answered are left out when they are measured,
    and counted, so that the numbers of a comparison add up to what the filter finds.
    """

    query: str = ""
    family: str = ""
    sample: int | None = None
    seed: int = 0

    @property
    def parsed(self) -> Query:
        return parse(self.query, over="calls")

    def problems(self) -> tuple[str, ...]:
        known = {one.name for one in all_families()}
        unknown = () if self.family in ("", *known) else (f"There is no family “{self.family}”.",)
        sample = () if self.sample is None or self.sample > 0 else ("A sample needs at least one call.",)
        return (*self.parsed.problems, *unknown, *sample)

    def calls(self, project: Project) -> QuerySet[Call]:
        found = self.parsed.calls_in(project)
        return found.filter(family=self.family) if self.family else found

    def ids(self, project: Project) -> list[UUID]:
        """Ascending, whatever the database's order. A sample is the calls whose ids hash lowest with the seed:
        the same calls and the same seed give the same sample, and an added call takes the place of one at most."""
        calls = self.calls(project).order_by("id").values_list("id", flat=True)
        if self.sample is None:
            return list(islice(calls.iterator(chunk_size=2_000), MOST_CALLS + 1))
        ids = calls.exclude(status=Call.Status.UNKNOWN).iterator(chunk_size=2_000)
        key = self.seed.to_bytes(16, "big", signed=True)
        return sorted(heapq.nsmallest(self.sample, ids, key=lambda one: _lot(one, key)))


def drawn(ids: Iterable[UUID], count: int, seed: int) -> list[UUID]:
    """At most `count` of them, in an order that only the seed decides."""
    key = seed.to_bytes(16, "big", signed=True)
    return heapq.nsmallest(count, ids, key=lambda one: _lot(one, key))


def _lot(one: UUID, key: bytes) -> bytes:
    return hashlib.blake2b(one.bytes, digest_size=8, key=key).digest()


def start_comparison(
    project: Project, selection: Selection, variants: Sequence[str], *, name: str = "", user: User | None = None
) -> Comparison:
    """Freezes calls and variants and queues the work. Raises Unusable or UnusableColumns."""
    problems = selection.problems()
    if problems:
        raise Unusable(" ".join(problems))
    ids = selection.ids(project)
    if not selection.calls(project).exists():
        raise Unusable("No call matches.")
    if not selection.calls(project).exclude(status=Call.Status.UNKNOWN).exists():
        raise Unusable("Nothing answered the calls that match: there is nothing to write.")
    if len(ids) > MOST_CALLS:
        raise Unusable(f"More than {MOST_CALLS:,} calls match; narrow the filter or take a sample.")
    families = selection.calls(project).order_by().values_list("family", flat=True).distinct()
    columns = bind_columns(project, variants, families)
    with transaction.atomic():
        comparison = Comparison.objects.create(
            project=project,
            name=column_text(name.strip(), 200) or _default_name(selection, variants),
            query=selection.query,
            family=selection.family,
            sample=selection.sample,
            seed=selection.seed,
            created_by=user,
            call_count=len(ids),
        )
        ComparisonColumn.objects.bulk_create(column_rows(comparison, columns))
        bulk_insert(ComparisonBatch, list(_batches(comparison, ids)))
    return comparison


def _default_name(selection: Selection, variants: Sequence[str]) -> str:
    return column_text(f"{selection.family or 'all families'}: {' · '.join(variants)}", 200)


def _batches(comparison: Comparison, ids: Sequence[UUID]) -> Iterator[ComparisonBatch]:
    for number, start in enumerate(range(0, len(ids), BATCH)):
        some = ids[start : start + BATCH]
        yield ComparisonBatch(comparison=comparison, number=number, calls=packed_ids(some), size=len(some))


def cancel(comparison: Comparison) -> bool:
    """The batch that is being worked on is still kept; nothing else is begun. False when it had ended."""
    open_states = (Comparison.State.QUEUED, Comparison.State.RUNNING)
    mine = Comparison.objects.filter(pk=comparison.pk, state__in=open_states)
    return bool(mine.update(state=Comparison.State.CANCELLED))


def resume(comparison: Comparison) -> bool:
    """Goes on where it was cancelled, or where it failed, with what has been done kept."""
    ended = (Comparison.State.CANCELLED, Comparison.State.FAILED)
    with transaction.atomic():
        mine = Comparison.objects.filter(pk=comparison.pk, state__in=ended)
        if not mine.update(state=Comparison.State.QUEUED, problem=""):
            return False
        ComparisonBatch.objects.filter(comparison=comparison, finished_at=None).update(attempts=0, leased_until=None)
    return True


def forget(comparison: Comparison) -> None:
    """With its numbers and its verdicts."""
    comparison.delete()


def pin(comparison: Comparison, *, is_pinned: bool) -> None:
    """A pinned comparison is a baseline: `check_receipts` renders its calls again and names what changed."""
    comparison.pinned_at = timezone.now() if is_pinned else None
    comparison.checked_at, comparison.last_check = None, {}
    comparison.save(update_fields=["pinned_at", "checked_at", "last_check"])
