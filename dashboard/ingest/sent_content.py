"""Contents that programs send for the artifacts of their records, before or after these.

store_sent_content(project, sha256, body)    stores one, for the artifacts that name it
find_sent_contents(project, artifacts)       those that came before their records
find_wrong_sizes(artifacts, find_file)       remarks on records that state another size than the content has
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from django.db import transaction
from django.db.models import F, QuerySet

from dashboard.artifacts.ingest import hold_quota, store_file
from dashboard.artifacts.retention import remove_unreferenced, shared_store_lock
from dashboard.ingest.bulk import bulk_insert_values
from dashboard.ingest.remarks import remark_row
from dashboard.models import Artifact, Project, Remark, Run, SentContent
from envelopes.recordings.base import ArtifactRecord, RemarkRecord
from envelopes.recordings.json_lines import remark
from envelopes.storage.file_store import StoredContent


class WrongContent(ValueError):
    """The content that was sent is not the one that its address names."""


def find_sent_contents(project: Project, artifacts: Sequence[ArtifactRecord]) -> dict[str, StoredContent]:
    """The contents that were sent for these artifacts before their records, by SHA-256."""
    hashes = {entry.sha256 for entry in artifacts if entry.sha256}
    sent = SentContent.objects.filter(project=project, sha256__in=hashes) if hashes else ()
    return {row.sha256: StoredContent(sha256=row.sha256, size=row.size, lines=row.lines) for row in sent}


def store_sent_content(project: Project, sha256: str, body: BinaryIO) -> int:
    """Stores content for the artifacts that name it, those that are there and those that come; returns its bytes.

    It is read and hashed whole, also where the store has it. Raises WrongContent, QuotaExceeded and StoreFailed.
    """
    with shared_store_lock(), hold_quota(project.pk) as quota:
        stored = store_file(os.dup(body.fileno()), quota)
        is_right = stored.sha256 == sha256
        if is_right:
            _note_content(project, stored)
    if not is_right:
        remove_unreferenced({stored.sha256})
        raise WrongContent(f"The content has the SHA-256 {stored.sha256}, its address has another.")
    return stored.size


@transaction.atomic
def _note_content(project: Project, stored: StoredContent) -> None:
    columns = {"size": stored.size, "lines": stored.lines}
    SentContent.objects.update_or_create(project=project, sha256=stored.sha256, defaults=columns)
    missing = Artifact.objects.filter(project=project, sha256=stored.sha256, state=Artifact.State.MISSING)
    runs = list(missing.values_list("call__run", flat=True))
    bulk_insert_values(Remark, list(_size_remarks(missing, stored.size)), ignore_known=True)
    missing.update(state=Artifact.State.PRESENT, **columns)
    Run.objects.filter(pk__in=runs).update(revision=F("revision") + 1)


def _size_remarks(missing: QuerySet[Artifact], size: int) -> Iterator[dict[str, Any]]:
    """The remarks of `find_wrong_sizes` for records that came before this content; at the place of their calls."""
    wrong = missing.exclude(size__in=(0, size)).select_related("call").only("size", "call", "call__run", "call__line")
    for artifact in wrong:
        call = artifact.call
        finding = _wrong_size(artifact.size, size, line=call.line, run="", call=None)
        yield remark_row(finding, run=call.run_id, call=call.pk, source=None, line=call.line)


def find_wrong_sizes(
    artifacts: Sequence[ArtifactRecord], find_file: Callable[[ArtifactRecord], StoredContent | None]
) -> Iterator[RemarkRecord]:
    """Remarks on sizes that programs stated of artifacts whose content has another one."""
    for entry in artifacts:
        file = find_file(entry) if entry.size is not None and entry.sent_sha256 else None
        if file is not None and entry.size not in (None, file.size):
            ids = {"run": entry.run, "call": entry.call, "owner": entry.owner}
            yield _wrong_size(entry.size, file.size, line=entry.place, **ids)


def _wrong_size(stated: int | None, size: int, **place: Any) -> RemarkRecord:
    return remark("value", "$.size", str(stated).encode(), f"left out: the content has {size:,} bytes", **place)
