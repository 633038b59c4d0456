"""A run's counts, strip and facets as they are stored. Called by `recording` within its transaction.

begin(run, rows)            a run whose calls are all at hand
renew(run)                  a run that was there before: its calls' metadata is read again
renew_others(calls, ...)    other runs that hold these calls: a fork, whose copy was answered later
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.db.models import Q

from dashboard.ingest.bulk import fresh, insert
from dashboard.ingest.run_stats import COLUMNS, Tally, tally
from dashboard.models import Run, RunCall, RunFacet
from dashboard.text.column_values import milliseconds_between


def begin(run: Run, rows: Iterable[tuple[Any, ...]]) -> None:
    _save(run, tally(run, rows), is_fresh=True)


def renew(run: Run) -> None:
    _save(run, _counted(run), is_fresh=False)


def renew_others(calls: Collection[UUID], left: Collection[UUID], *, but: Collection[UUID]) -> None:
    """`left` are runs that held one. A run whose counts stay as they are is left alone, its revision too."""
    if not calls:
        return
    held = RunCall.objects.filter(call__in=calls).values("run")
    of_these = Q(pk__in=held) | Q(pk__in=left) if left else Q(pk__in=held)
    for run in Run.objects.select_for_update().filter(of_these).exclude(pk__in=but):
        counted = _counted(run)
        if any(getattr(run, column) != content for column, content in counted.columns.items()):
            run.revision += 1
            _save(run, counted, is_fresh=False)


def _counted(run: Run) -> Tally:
    """Plain values and no instances: this is done again with each batch of a run that goes on and on."""
    stored = RunCall.objects.filter(run=run).order_by("ordinal", "id")
    rows: Any = stored.values_list("inherited", *(f"call__{column}" for column in COLUMNS))
    return tally(run, rows.iterator(chunk_size=2_000))


def _save(run: Run, counted: Tally, *, is_fresh: bool) -> None:
    for column, content in counted.columns.items():
        setattr(run, column, content)
    run.duration_ms = milliseconds_between(run.started_at, run.ended_at or run.last_at) or 0
    run.save(force_update=True)
    _write_facets(run, counted, is_fresh=is_fresh)


def _write_facets(run: Run, counted: Tally, *, is_fresh: bool) -> None:
    """Facets that are stored as they should be are left alone; those that no longer hold go."""
    stored = {} if is_fresh else {(one.kind, one.value): one for one in run.facets.all()}
    wanted = {
        key: fresh(
            RunFacet,
            run_id=run.pk,
            project_id=run.project_id,
            kind=key[0],
            value=key[1],
            sort_at=run.sort_at,
            count=count,
        )
        for key, count in counted.facets.items()
    }
    changed = {
        key
        for key, one in stored.items()
        if key not in wanted or (one.count, one.sort_at) != (wanted[key].count, wanted[key].sort_at)
    }
    if changed:
        RunFacet.objects.filter(pk__in=[stored[key].pk for key in changed]).delete()
    insert(RunFacet, [one for key, one in wanted.items() if key not in stored or key in changed])
