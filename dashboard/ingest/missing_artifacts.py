"""Files that a recording names, taken in later than the lines that name them.

What was not there, or had no room under the quota, is looked for again whenever its recording is
imported, and so is what has grown since; what the store has lost only when somebody asks for that, for
it means to read every file. What retention took out stays out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from django.db import transaction
from django.db.models import F

from dashboard.artifacts.ingest import (
    QuotaExceeded,
    StoredContent,
    StoreFailed,
    hold_quota,
    open_named_file,
    store_file,
)
from dashboard.artifacts.retention import (
    exclusive_store_lock,
    remove_content,
    remove_unreferenced,
    shared_store_lock,
)
from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Run, Source
from dashboard.text.column_values import column_text
from envelopes.storage.file_store import CHUNK, MissingArtifact, hash_stream
from envelopes.storage.seekable import Damaged


def take_again(source: Source, recording: Path, *, is_lost_too: bool = False) -> int:
    """How many files were taken in. One that there is still no room for stays a problem. Raises StoreFailed."""
    taken = sum(_look(source, recording, row) for row in list(_of(source, Artifact.State.MISSING)))
    # Closed whatever happens: PostgreSQL would be told so within a later transaction, and that fails it.
    with closing(_of(source, Artifact.State.PRESENT)) as kept_rows:
        for row in kept_rows:
            is_lost = is_lost_too and _is_lost(row)
            taken += _look(source, recording, row) if is_lost else _take_grown(recording, row)
    return taken


def take(artifact: Artifact, descriptor: int) -> bool:
    """Whether the row has other content now than it had. Closes the descriptor.

    Raises QuotaExceeded and StoreFailed, and OSError where not even the store's lock can be had.
    """
    with os.fdopen(descriptor, "rb") as opened_file, shared_store_lock(), hold_quota(artifact.project_id) as room:
        file = store_file(os.dup(opened_file.fileno()), room)
        if file.sha256 == artifact.sha256 and artifact.state == Artifact.State.PRESENT:
            return False
        _turn(artifact, file)
    remove_unreferenced({artifact.sha256} - {""})
    return True


def _of(source: Source, state: Artifact.State) -> Generator[Artifact]:
    """By name: what there is room for does not hang on the rows' ids."""
    rows = Artifact.objects.filter(call__source=source, observation=None, state=state)
    yield from rows.select_related("call").order_by("path", "pk").iterator(chunk_size=2_000)


def _is_lost(row: Artifact) -> bool:
    """Reads all of it. Raises StoreFailed where the store cannot be asked."""
    try:
        with configured_store().open(row.sha256) as stream:
            return hash_stream(stream) != row.sha256
    except (MissingArtifact, FileNotFoundError, Damaged):
        return True
    except OSError as error:
        raise StoreFailed(error.strerror or str(error)) from None


def _look(source: Source, recording: Path, row: Artifact) -> bool:
    descriptor = open_named_file(recording, row.path)
    if descriptor is None:
        return False
    if row.sha256:
        if _hash_of(descriptor) != row.sha256:  # the row's content is another one: it stays lost
            os.close(descriptor)
            return False
        with exclusive_store_lock():  # the stored file is damaged, and `put` would keep it if its size is right
            remove_content({row.sha256})
    try:
        take(row, descriptor)
    except QuotaExceeded:
        return False
    source.problems.filter(path=column_text(f"file {row.path}", 500)).delete()
    return True


def _take_grown(recording: Path, row: Artifact) -> bool:
    """A file that begins with what the row holds and goes on: nobody followed it to its end.

    Another content under the same name is another file, and the row keeps what it has.
    """
    descriptor = open_named_file(recording, row.path)
    if descriptor is None:
        return False
    if not _goes_on(descriptor, row):
        os.close(descriptor)
        return False
    try:
        return take(row, descriptor)
    except QuotaExceeded:
        return False


def _goes_on(descriptor: int, row: Artifact) -> bool:
    if os.fstat(descriptor).st_size <= row.size:
        return False
    digest, at = hashlib.sha256(), 0
    while piece := os.pread(descriptor, min(CHUNK, row.size - at), at):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest() == row.sha256


def _hash_of(descriptor: int) -> str:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return hash_stream(file)


def _turn(artifact: Artifact, file: StoredContent) -> None:
    with transaction.atomic():
        Run.objects.filter(pk=artifact.call.run_id).update(revision=F("revision") + 1)
        Artifact.objects.filter(pk=artifact.pk).update(
            sha256=file.sha256, size=file.size, lines=file.lines, state=Artifact.State.PRESENT
        )
