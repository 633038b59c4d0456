"""Stores files that a recording names but that could not be stored when its lines were imported.

Files that were missing or over the quota are looked for again whenever their recording is imported, and so are files
that have grown since. Files that the store has lost are looked for only on request, because that reads every stored
file. Content that retention removed is not stored again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from django.db import transaction
from django.db.models import F

from dashboard.artifacts.ingest import QuotaExceeded, StoreFailed, hold_quota, open_named_file, store_file
from dashboard.artifacts.retention import (
    exclusive_store_lock,
    remove_content,
    remove_unreferenced,
    shared_store_lock,
)
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Run, Source
from dashboard.text.formatting import column_text
from envelopes.storage.file_store import CHUNK, MissingArtifact, hash_stream
from envelopes.storage.seekable import Damaged


def retry_missing(source: Source, recording: Path, *, include_lost: bool = False) -> int:
    """Returns how many files were stored. One that is still over the quota stays a problem. Raises StoreFailed."""
    missing = list(_named_files(source, Artifact.State.MISSING))
    stored = sum(_retry(source, recording, artifact) for artifact in missing)
    # The cursor is closed even on an error: PostgreSQL would close it within a later transaction and fail that.
    with closing(_named_files(source, Artifact.State.PRESENT)) as present:
        for artifact in present:
            is_lost = include_lost and _is_lost(artifact)
            stored += _retry(source, recording, artifact) if is_lost else _store_grown(recording, artifact)
    return stored


def replace_content(artifact: Artifact, descriptor: int) -> bool:
    """Stores the file as the artifact's content and closes it; returns False when that is its content already.

    Raises QuotaExceeded and StoreFailed, and OSError when even the store's lock fails.
    """
    with os.fdopen(descriptor, "rb") as file, shared_store_lock(), hold_quota(artifact.project_id) as quota:
        stored = store_file(os.dup(file.fileno()), quota)
        if stored.sha256 == artifact.sha256 and artifact.state == Artifact.State.PRESENT:
            return False
        with transaction.atomic():
            Run.objects.filter(pk=artifact.call.run_id).update(revision=F("revision") + 1)
            Artifact.objects.filter(pk=artifact.pk).update(
                sha256=stored.sha256, size=stored.size, lines=stored.lines, state=Artifact.State.PRESENT
            )
    remove_unreferenced({artifact.sha256} - {""})
    return True


def _named_files(source: Source, state: Artifact.State) -> Generator[Artifact]:
    """Sorted by path: which files fit the quota must not depend on the rows' ids."""
    artifacts = Artifact.objects.filter(call__source=source, observation=None, state=state)
    yield from artifacts.select_related("call").order_by("path", "pk").iterator(chunk_size=2_000)


def _is_lost(artifact: Artifact) -> bool:
    """Reads the whole stored file. Raises StoreFailed when the store does not answer."""
    try:
        with configured_store().open(artifact.sha256) as stream:
            return hash_stream(stream) != artifact.sha256
    except (MissingArtifact, FileNotFoundError, Damaged):
        return True
    except OSError as error:
        raise StoreFailed(error.strerror or str(error)) from None


def _retry(source: Source, recording: Path, artifact: Artifact) -> bool:
    descriptor = open_named_file(recording, artifact.path)
    if descriptor is None:
        return False
    if artifact.sha256:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            is_same = hash_stream(file) == artifact.sha256
        if not is_same:  # another file under that name: the content stays lost
            os.close(descriptor)
            return False
        with exclusive_store_lock():  # the stored file is damaged, and `put` would keep it if its size is right
            remove_content({artifact.sha256})
    try:
        replace_content(artifact, descriptor)
    except QuotaExceeded:
        return False
    source.problems.filter(path=column_text(f"file {artifact.path}", 500)).delete()
    return True


def _store_grown(recording: Path, artifact: Artifact) -> bool:
    """Stores a file that begins with the stored content and is longer: nothing followed it to its end.

    A file that begins otherwise is another one under the same name, and the artifact keeps its content.
    """
    descriptor = open_named_file(recording, artifact.path)
    if descriptor is None:
        return False
    digest, offset = hashlib.sha256(), 0
    has_grown = os.fstat(descriptor).st_size > artifact.size
    while has_grown and (piece := os.pread(descriptor, min(CHUNK, artifact.size - offset), offset)):
        digest.update(piece)
        offset += len(piece)
    if not has_grown or digest.hexdigest() != artifact.sha256:
        os.close(descriptor)
        return False
    try:
        return replace_content(artifact, descriptor)
    except QuotaExceeded:
        return False
