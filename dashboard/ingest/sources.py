"""Sources: the rows of the files that were read, with their bytes and their refused lines.

`Source.prefix_sha256` covers the first 4 KiB and the last 4 KiB before the offset, so a followed file is recognised
without reading it. A fork that copies the beginning of another file is not mistaken for it: its name differs, and it
continues where the other ends. `write` stores the rows within its transaction; `new_source` and `refuse_file` do not
need it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO
from uuid import UUID

import msgspec
from django.db.models import Max, Q

from dashboard.ingest.bulk import bulk_insert_values, bulk_update, unsaved_row
from dashboard.ingest.source_files import head_sha256, prefix_sha256
from dashboard.ingest.source_frames import PackedFrame, cut_frames, share_frames
from dashboard.models import Artifact, Observation, Problem, Project, Source, SourceFrame
from dashboard.models.fields import Compressed
from dashboard.models.identity import derive_id
from dashboard.models.sources import FRAME_BYTES, LIVE
from dashboard.text.formatting import column_text
from envelopes.recordings import find_format
from envelopes.recordings.base import ArtifactRecord, LineProblem, Record, SourceLine, SourcePath
from envelopes.storage.file_store import StoredContent

PATH_CHARACTERS = 1_024
READ_AS_CHARACTERS = 5_000  # more than any system's path has
RAW_BYTES = 65_536  # stored with a refused line; the whole line is in the source's frames
FOUND_BY = 64  # bytes at the beginning of a slice
MOST_BEGINNINGS = 8  # of a slice that are looked at in its line: more are alike
NAMES_AT_ONCE = 500
VERSION = "container_version"
NOT_MAPPED = "stored and shown as recorded, but not understood: "


def find_source(project: Project, path: str, file: BinaryIO, head: bytes, read_as: str = "") -> Source | None:
    """The source that this file continues, or is a copy of; None for a new one. `read_as` is its path on disk."""
    size = os.fstat(file.fileno()).st_size
    path = column_text(path, PATH_CHARACTERS)
    sources = Source.objects.filter(project=project, is_partial=False)
    for candidate in sources.filter(path=path).order_by("-id"):
        if candidate.offset == 0 or _is_prefix(candidate, file, size):
            return candidate
    for candidate in sources.filter(head_sha256=head_sha256(head)).order_by("-id")[:50]:
        is_same_name = candidate.name == path.rsplit("/", 1)[-1]
        run_of = find_format(candidate.format).run_of
        if run_of(SourcePath(candidate.read_as or candidate.path)) != run_of(SourcePath(read_as or path)):
            continue
        if (is_same_name or candidate.offset == size) and _is_prefix(candidate, file, size):
            return candidate
    return None


def find_unchanged(project: Project, versions: Mapping[str, str]) -> dict[str, Source]:
    """The newest source of each of these recordings in containers, where that version of it was read."""
    names = {column_text(name, PATH_CHARACTERS): name for name in versions}
    newest: dict[str, Source] = {}
    for start in range(0, len(names), NAMES_AT_ONCE):
        paths = list(names)[start : start + NAMES_AT_ONCE]
        for source in Source.objects.filter(project=project, path__in=paths, is_partial=False).order_by("pk"):
            newest[names[source.path]] = source
    return {name: source for name, source in newest.items() if read_version(source.state) == versions[name]}


def load_state(project: Project, path: str) -> bytes:
    """The state that the reader left for the last version of a document in a container; empty for the first one."""
    sources = Source.objects.filter(project=project, path=column_text(path, PATH_CHARACTERS))
    return bytes(sources.order_by("-pk").values_list("state", flat=True).first() or b"")


def mark_version(state: bytes, version: str) -> bytes:
    """The state of a reader with the version of its document in the container, which the reader passes on."""
    return msgspec.json.encode({**msgspec.json.decode(state), VERSION: version})


def read_version(state: bytes) -> str | None:
    version: str | None = msgspec.json.decode(state).get(VERSION)
    return version


def load_source_names(project: Project) -> set[str]:
    """The paths of all sources that a file may continue, and the hashes of their first lines."""
    sources = Source.objects.filter(project=project, is_partial=False)
    return {value for row in sources.values_list("path", "head_sha256").iterator() for value in row}


def _is_prefix(source: Source, file: BinaryIO, size: int) -> bool:
    return 0 < source.offset <= size and prefix_sha256(file, source.offset) == source.prefix_sha256


class StoredFolder:
    """The files beside a stored one, as far as they are stored."""

    def __init__(self, project: int, path: str) -> None:
        self._project = project
        self._folder = path.rpartition("/")[0] + "/"

    @cached_property
    def _sources(self) -> dict[str, Source]:
        below = Q(read_as__startswith=self._folder) | Q(read_as="", path__startswith=self._folder)
        rows = Source.objects.filter(below, project=self._project).order_by("pk")
        return {(source.read_as or source.path).removeprefix(self._folder): source for source in rows}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._sources if "/" not in name))

    def names(self) -> Sequence[str]:
        return self._names

    def read(self, name: str) -> bytes:
        return b"".join(frame.data for frame in self._sources[name].frames.order_by("offset"))


class SourceMoved(RuntimeError):
    """Another process read this source meanwhile; nothing of the batch was written."""


def new_source(
    project: Project, *, path: str, format_name: str, inode: int, head_sha256: str, read_as: str = ""
) -> Source:
    """Not saved yet: its first batch saves it, so that a source and its rows are one commit."""
    format_ = find_format(format_name)
    path = column_text(path, PATH_CHARACTERS)
    return Source(
        project=project,
        path=path,
        format=format_name,
        reader=format_.version,
        read_as="" if read_as == path else column_text(read_as, READ_AS_CHARACTERS),
        namespace=format_.namespace,
        inode=inode,
        head_sha256=head_sha256,
    )


@dataclass(frozen=True, kw_only=True)
class SourceBatch:
    """Consecutive whole lines of a source and the records read from them. Offsets are bytes of the file.

    `incomplete` is a last line without its end; `counts` are the source's `seen` counts with this batch. `frames` are
    the lines of a source's first batch, where the pool has read and packed them, and `digests` the SHA-256 of slices of
    the source by first byte and size. `files` are stored already, by the path that the recording names; `contents` are
    those that programs sent, by SHA-256. `is_stored`: so are the bytes, which are read once more. `is_known` checks
    again, now that writers are locked out, whether another process began a source that is not saved yet; None for a
    source that is new whatever others did, and is no file, and for one that is saved.
    """

    source: Source
    is_known: Callable[[], bool] | None
    start: int
    lines: Sequence[SourceLine]
    records: Sequence[Record]
    problems: Sequence[LineProblem]
    end: int
    accepted: int = 0
    rejected: int = 0
    blank: int = 0
    ends_open: bool = False
    incomplete: SourceLine | None = None
    state: bytes = b"{}"
    prefix_sha256: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    frames: Sequence[PackedFrame] = ()
    digests: Mapping[tuple[int, int], str] = field(default_factory=dict)
    files: Mapping[str, StoredContent] = field(default_factory=dict)
    contents: Mapping[str, StoredContent] = field(default_factory=dict)
    is_stored: bool = False

    def find_file(self, entry: ArtifactRecord) -> StoredContent | None:
        """The stored content of an artifact. Two that programs sent may have one path."""
        return self.files.get(entry.path) or self.contents.get(entry.sent_sha256)


def save_sources(project: Project, batches: Sequence[SourceBatch]) -> None:
    """Moves the source of each batch to the batch's end, and locks its row.

    Raises SourceMoved where another process has begun or continued the file meanwhile.
    """
    new = [batch for batch in batches if batch.source._state.adding]
    continued = [batch for batch in batches if not batch.source._state.adding]
    _claim(continued)
    _begin(project, new)
    was_incomplete = [batch.source.pk for batch in continued if batch.source.left_bytes]
    if was_incomplete:
        Problem.objects.filter(source__in=was_incomplete, is_incomplete=True).delete()
    for batch in batches:
        _advance(batch.source, batch)
    Source.objects.bulk_create([batch.source for batch in new])
    bulk_update([batch.source for batch in continued])


def _claim(batches: Sequence[SourceBatch]) -> None:
    """Locks the rows, so that two imports of one file cannot both continue from the same byte."""
    rows = Source.objects.select_for_update().only("offset", "left_bytes")
    stored = rows.in_bulk([batch.source.pk for batch in batches])
    for batch in batches:
        source, row = batch.source, stored.get(batch.source.pk)
        if row is None:
            raise SourceMoved(f"{source.path} was deleted meanwhile")
        if row.offset != batch.start:
            raise SourceMoved(f"{source.path} is at byte {row.offset}, the batch starts at {batch.start}")
        source.left_bytes = row.left_bytes  # another process may have read the beginning of a line


def _begin(project: Project, batches: Sequence[SourceBatch]) -> None:
    """Deletes the problems of these files from when no reader knew them yet."""
    checks = [(batch.source, batch.is_known) for batch in batches if batch.is_known is not None]
    if not checks:
        return
    paths = [source.path for source, _ in checks]
    heads = [source.head_sha256 for source, _ in checks]
    alike = Source.objects.filter(Q(path__in=paths) | Q(head_sha256__in=heads), project=project, is_partial=False)
    known = {value for row in alike.values_list("path", "head_sha256") for value in row}
    for source, is_known in checks:
        if not known.isdisjoint((source.path, source.head_sha256)) and is_known():
            raise SourceMoved(f"{source.path} was begun by another process")
    Problem.objects.filter(project=project, source=None, file__in=paths).delete()


def _advance(source: Source, batch: SourceBatch) -> None:
    source.offset = batch.end
    source.accepted += batch.accepted
    source.rejected += batch.rejected
    source.blank += batch.blank
    source.ends_open = batch.ends_open
    source.left_bytes = len(batch.incomplete.raw) if batch.incomplete else 0
    source.state = batch.state
    source.prefix_sha256 = batch.prefix_sha256
    source.seen = msgspec.json.encode(batch.counts)


def find_slice(line: bytes, data: bytes) -> int:
    """`line.find(data)` by the beginning of `data`: `find` prepares for all of its bytes, 9 µs of 6 KB instead of 1."""
    beginning = data[:FOUND_BY]
    start = 0 if line.startswith(data) else line.find(beginning)
    for _ in range(MOST_BEGINNINGS):
        if start < 0 or line.startswith(data, start):
            return start
        start = line.find(beginning, start + 1)
    return line.find(data, start) if start >= 0 else -1


class SliceLocator:
    """Finds recorded bytes in the line that they were read from."""

    def __init__(self, batch: SourceBatch) -> None:
        self.source = batch.source
        self._lines = {line.number: line for line in batch.lines}
        self._digests = batch.digests

    def sha256(self, data: bytes, start: int | None) -> str:
        """The hash of bytes, which the pool has computed for most; `start` is where in the file they are."""
        known = None if start is None else self._digests.get((start, len(data)))
        return known or hashlib.sha256(data).hexdigest()

    def columns(self, data: bytes, line: int) -> dict[str, Any]:
        """The columns of a SourceSlice with these bytes. Without a source when they are no slice of the line."""
        source_line = self._lines.get(line)
        begin = find_slice(source_line.raw, data) if source_line is not None else -1
        start = source_line.offset + begin if source_line is not None and begin >= 0 else None
        own_data = data if start is None else None
        return {"source_id": self.source.id, "start": start, "size": len(data), "own_data": own_data}


def store_lines(batches: Sequence[SourceBatch]) -> None:
    """Stores the bytes of the batches, and the problems of their refused lines."""
    earlier = _find_earlier_versions(batches)
    rows = [
        {
            "source_id": batch.source.pk,
            "offset": frame.offset,
            "size": frame.size,
            "first_line": frame.first_line,
            "own_data": None if frame.packed is None else Compressed(frame.packed),
            "block_id": frame.block,
            "block_start": frame.block_start,
            "is_joinable": batch.source.path.startswith(LIVE) and frame.size < FRAME_BYTES // 2,
        }
        for batch in batches
        if not batch.is_stored
        for frame in _frames(batch, earlier.get(batch.source.pk))
    ]
    bulk_insert_values(SourceFrame, rows)
    Problem.objects.bulk_create([problem for batch in batches for problem in _problems(batch)])


def _find_earlier_versions(batches: Sequence[SourceBatch]) -> dict[int, int]:
    """The key of the version before, by that of each document that was written anew under the same path."""
    new = [batch.source for batch in batches if batch.start == 0 and not batch.is_stored]
    new = [source for source in new if find_format(source.format).is_document and not source.path.startswith(LIVE)]
    if not new:
        return {}
    keys = [source.pk for source in new]
    stored = Source.objects.filter(project=new[0].project_id, path__in=[source.path for source in new])
    newest = stored.exclude(pk__in=keys).order_by().values_list("path").annotate(newest=Max("pk"))
    by_path: dict[str, int] = dict(newest)
    return {source.pk: by_path[source.path] for source in new if source.path in by_path}


def _frames(batch: SourceBatch, earlier: int | None) -> Sequence[PackedFrame]:
    return share_frames(earlier, batch.lines) if earlier else batch.frames or cut_frames(batch.source, batch.lines)


def named_artifact(
    source: Source, call: UUID, ordinal: int, entry: ArtifactRecord, file: StoredContent | None
) -> Artifact:
    """An artifact for a file that the recording names; missing unless the file was stored."""
    return unsaved_row(
        Artifact,
        id=derive_id("artifact", call.bytes, "file", entry.path),
        project_id=source.project_id,
        call_id=call,
        ordinal=100 + (ordinal if entry.ordinal is None else entry.ordinal),
        role=column_text(entry.role, 64),
        path=column_text(entry.path, 1024),
        state=Artifact.State.PRESENT if file else Artifact.State.MISSING,
        sha256=file.sha256 if file else entry.sent_sha256,
        size=file.size if file else entry.size or 0,
        lines=file.lines if file else 0,
    )


def _problems(batch: SourceBatch) -> list[Problem]:
    """An incomplete last line is a problem only until its end is written."""
    raw_by_line = {line.number: line.raw for line in batch.lines} if batch.problems else {}
    rows = []
    for problem in batch.problems:
        raw = raw_by_line.get(problem.line, problem.raw)
        loss = Problem.Loss.PART if problem.part else Problem.Loss.LINE
        loss = Problem.Loss.NOTHING if problem.is_lossless else loss
        rows.append(_problem(batch.source, problem.line, problem.path, problem.reason, raw, loss))
    if batch.incomplete is not None:
        size = len(batch.incomplete.raw)
        reason = f"incomplete last line: {size} bytes without their end; it is read when the rest is there"
        rows.append(_problem(batch.source, batch.incomplete.number, "$", reason, batch.incomplete.raw))
        rows[-1].is_incomplete = True
    return rows


def store_notes(calls: Sequence[tuple[str, Observation, str]]) -> None:
    """Stores what a mapping could not read: (the call's own id, the observation, a note that may be empty).

    Replaces earlier notes of the same calls. The line was accepted and its bytes are stored: such a problem refuses
    nothing.
    """
    notes = {
        (observation.source_id, observation.line, column_text(f"call {call}", 500)): (observation, note)
        for call, observation, note in calls
        if observation.source_id is not None
    }
    sources = Source.objects.in_bulk({source_id for source_id, _, _ in notes})
    stored = Problem.objects.filter(source__in=sources, path__in={path for _, _, path in notes})
    stale = [pk for pk, *key in stored.values_list("pk", "source_id", "line", "path") if tuple(key) in notes]
    Problem.objects.filter(pk__in=stale).delete()
    Problem.objects.bulk_create(
        _problem(sources[source_id], line, path, f"{NOT_MAPPED}{note}", bytes(observation.data), Problem.Loss.NOTHING)
        for (source_id, line, path), (observation, note) in notes.items()
        if note
    )


def _problem(
    source: Source, line: int, path: str, reason: str, raw: bytes, loss: Problem.Loss = Problem.Loss.LINE
) -> Problem:
    return Problem(
        project_id=source.project_id,
        source=source,
        file=source.path,
        line=line,
        path=column_text(path, 500),
        reason=column_text(reason, 1000),
        raw=raw[:RAW_BYTES],
        raw_size=len(raw),
        loss=loss,
    )


def refuse_file(project: Project, *, path: str, reason: str, raw: bytes) -> None:
    """Stores a problem for a whole file that no reader knows, once however often the file is imported."""
    key = {"project": project, "file": column_text(path, 1024), "reason": column_text(reason, 1000), "line": 0}
    if not Problem.objects.filter(**key).exists():
        Problem.objects.create(**key, path="$", raw=raw[:RAW_BYTES], raw_size=len(raw))
