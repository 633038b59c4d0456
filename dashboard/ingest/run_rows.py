"""One run's records meet its stored row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from django.utils import timezone

from dashboard.models import Run, Source
from dashboard.text.column_values import column_text, column_time
from envelopes.recordings.base import Format, RunRecord

DEEPEST = 50  # subagents of subagents
LIMITS = {"title": 300, "agent": 100, "model": 100, "version": 50, "cwd": 500, "branch": 300}


def new_run(pk: UUID, source: Source, format_: Format, name: str) -> Run:
    return Run(
        id=pk,
        project_id=source.project_id,
        namespace=format_.namespace,
        external_id=column_text(name, 300),
        agent=format_.agent,
        source_format=format_.name,
        sort_at=timezone.now(),
    )


def merge_run(
    run: Run,
    name: str,
    records: Sequence[RunRecord],
    stamps: Sequence[str],
    run_id: Callable[[str], UUID],
    call_id: Callable[[str, str], UUID],
) -> None:
    """Later records know more and win; a run is never its own parent (a log may say so)."""
    for record in records:
        for column, limit in LIMITS.items():
            said = getattr(record, column)
            if said:
                setattr(run, column, column_text(said, limit))
        run.plan = record.plan if record.plan is not None else run.plan
        run.ended_at = column_time(record.ended_at) or run.ended_at
        if record.parent_run and record.parent_run != name:
            run.parent_id = run_id(record.parent_run)
            if record.parent_call:
                run.parent_call = call_id(record.parent_run, record.parent_call)
    _stretch(run, stamps)


def is_own_ancestor(run: Run, parents: Mapping[UUID, UUID | None]) -> bool:
    """Whether its new parent comes from the run itself: logs may say so, one file of each.

    `parents` are those not written yet. Looks up as far as any real chain of subagents goes.
    """
    at = run.parent_id
    for _ in range(DEEPEST):
        if at is None:
            return False
        if at == run.pk:
            return True
        at = parents[at] if at in parents else Run.objects.filter(pk=at).values_list("parent_id", flat=True).first()
    return False


def _stretch(run: Run, stamps: Sequence[str]) -> None:
    found = [stamp for stamp in map(column_time, stamps) if stamp is not None]
    if run.started_at is not None:
        found.append(run.started_at)
    if found:
        run.started_at = run.sort_at = min(found)
    if run.last_at is not None:
        found.append(run.last_at)
    run.last_at = max(found, default=None)
