"""Deletes a run with what only it refers to. What another run refers to stays."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from dashboard.artifacts.retention import remove_unreferenced
from dashboard.ingest.write import project_write_lock
from dashboard.models import Artifact, Call, Run, RunCall, RunFacet, Source

IDS_PER_STATEMENT = 500  # in one IN (…)


def delete_run(run: Run) -> None:
    """Deletes the run; a call that another run has too moves there.

    A recording that also contains other runs stays as a row that starts at the file's beginning: its raw bytes are
    deleted, for they contain this run as well. Importing it again skips the others and restores this run.
    """
    with project_write_lock(run.project):
        _move_shared_calls(run)
        files = set(Artifact.objects.stored_files().filter(call__run=run).values_list("sha256", flat=True))
        sources = list(Source.objects.filter(runs=run))
        RunFacet.objects.filter(run__parent=run, kind="state", value="child").update(value="top")
        run.delete()
        for source in sources:
            _delete_or_rewind(source)
        transaction.on_commit(lambda: remove_unreferenced(files))


def _move_shared_calls(run: Run) -> None:
    """Moves each to a run that has it as its own before one that inherited it, and to the oldest of equals."""
    shared = RunCall.objects.filter(call__run=run).exclude(run=run).order_by("inherited", "id")
    targets: dict[UUID, UUID] = {}
    for call, target in shared.values_list("call_id", "run_id"):
        targets.setdefault(call, target)
    for target in set(targets.values()):
        calls = [call for call, call_target in targets.items() if call_target == target]
        for start in range(0, len(calls), IDS_PER_STATEMENT):
            Call.objects.filter(pk__in=calls[start : start + IDS_PER_STATEMENT]).update(run_id=target)


def _delete_or_rewind(source: Source) -> None:
    if not source.runs.exists():
        source.delete()
        return
    source.chunks.all().delete()
    source.problems.all().delete()
    rewound = Source(pk=source.pk, project_id=source.project_id, created_at=source.created_at)
    for name in ("path", "format", "namespace", "inode", "head_sha256"):
        setattr(rewound, name, getattr(source, name))
    rewound.save(force_update=True)
