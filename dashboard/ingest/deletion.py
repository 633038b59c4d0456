"""What goes with a run that is deleted, and what stays because another run refers to it.

Called by `recording` within its transaction, and by nothing else.
"""

from __future__ import annotations

from uuid import UUID

from dashboard.models import Artifact, Call, Run, RunCall, RunFacet, Source

ROWS_A_STATEMENT = 500  # ids in one IN (…)


def forget(run: Run) -> set[str]:
    """The names (sha256) of stored files that its artifacts referred to; others may refer to them too."""
    _move_shared_calls(run)
    files = set(Artifact.objects.stored_files().filter(call__run=run).values_list("sha256", flat=True))
    sources = list(Source.objects.filter(runs=run))
    RunFacet.objects.filter(run__parent=run, kind="state", value="child").update(value="top")
    run.delete()
    for source in sources:
        _forget_source(source)
    return files


def _move_shared_calls(run: Run) -> None:
    """To a run of its own before one that inherited it, to the older of equals."""
    shared = RunCall.objects.filter(call__run=run).exclude(run=run).order_by("inherited", "id")
    homes: dict[UUID, UUID] = {}
    for call, home in shared.values_list("call_id", "run_id"):
        homes.setdefault(call, home)
    for home in set(homes.values()):
        moving = [call for call, found in homes.items() if found == home]
        for at in range(0, len(moving), ROWS_A_STATEMENT):
            Call.objects.filter(pk__in=moving[at : at + ROWS_A_STATEMENT]).update(run_id=home)


def _forget_source(source: Source) -> None:
    if not source.runs.exists():
        source.delete()
        return
    source.chunks.all().delete()
    source.problems.all().delete()
    fresh = Source(pk=source.pk, project_id=source.project_id, created_at=source.created_at)
    for name in ("path", "format", "namespace", "inode", "head_sha256"):
        setattr(fresh, name, getattr(source, name))
    fresh.save(force_update=True)
