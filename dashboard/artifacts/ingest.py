"""Stores files that a recording names: content-addressed, and fsynced before any row refers to them.

A path in a recording is foreign data. Its last component is looked for where the agent that wrote the recording
keeps such files: beside the recording, below `<session>/tool-results/` or `tool-output/`. The whole path is only used
below a folder that the operator named (`artifact_roots`). Nothing is opened through a symbolic link, folder or file,
and only regular files are read.

A project has a quota: the bytes of each content once, however many calls refer to it and however well it is
compressed. It is checked before a byte is written; content that the project already has needs no room.

Files that were missing or over the quota are looked for again whenever their recording is imported, and so are files
that have grown since. Files that the store has lost are looked for only on request, because that reads every stored
file. Content that retention removed is not stored again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Sum

from dashboard.artifacts.retention import (
    exclusive_store_lock,
    remove_content,
    remove_unreferenced,
    shared_store_lock,
)
from dashboard.artifacts.stores import SHA256, configured_store, hold_lock
from dashboard.models import Artifact, Project, Run, Source
from dashboard.text.formatting import column_text
from envelopes.storage.file_store import CHUNK, MissingArtifact, StoredContent, StoreUnreachable, hash_stream
from envelopes.storage.seekable import Damaged

RESULTS_FOLDER = "tool-results"
OUTPUTS_FOLDER = "tool-output"  # beside the database of OpenCode
ARTIFACTS_FOLDER = "artifacts"  # of an audit folder: contents by their SHA-256


@dataclass(frozen=True)
class ArtifactRoots:
    """Folders that the operator named; of their hidden files and folders only with `has_hidden`."""

    folders: tuple[Path, ...] = ()
    has_hidden: bool = False


NO_ROOTS = ArtifactRoots()
_ROOTS: ContextVar[ArtifactRoots] = ContextVar("artifact roots", default=NO_ROOTS)


class QuotaExceeded(Exception):
    """The message gives the size of the file, what the project holds, and the remedies."""


class StoreFailed(Exception):
    """The store refused a file that exists: its disk is full, or its bucket does not answer."""


@contextmanager
def artifact_roots(roots: Sequence[Path], *, has_hidden: bool = False) -> Iterator[None]:
    """Within this context, files that recordings name below these folders are stored as well.

    A file or folder whose name begins with a dot often holds keys (`.env`, `.git/config`): `has_hidden` allows them.
    """
    paths = dict.fromkeys(path for root in roots for path in (root.absolute(), root.resolve()))
    token = _ROOTS.set(ArtifactRoots(tuple(paths), has_hidden))
    try:
        yield
    finally:
        _ROOTS.reset(token)


def store_named_file(
    recording: Path, recorded_path: str, quota: ProjectQuota, sha256: str | None = None
) -> StoredContent | None:
    """Stores the file that `recorded_path` means; None where there is none.

    With `sha256`, the file that an export has under this name beside it. Raises QuotaExceeded and StoreFailed.
    """
    if sha256 is None:
        descriptor = open_named_file(recording, recorded_path)
    else:
        descriptor = _open_below(recording.parent, [ARTIFACTS_FOLDER, sha256]) if SHA256.fullmatch(sha256) else None
    return None if descriptor is None else store_file(descriptor, quota)


def open_named_file(recording: Path, recorded_path: str) -> int | None:
    """A descriptor of the file that `recorded_path` means; the caller closes it or passes it to `store_file`."""
    name = recorded_path.replace("\\", "/").rsplit("/", 1)[-1]
    if not name or name in (".", "..") or "\x00" in name:
        return None
    # The folder of the session, for a session's file and for a subagent's in <session>/subagents.
    for folder in (recording.parent / recording.stem, recording.parent, recording.parent.parent):
        for results in (RESULTS_FOLDER, OUTPUTS_FOLDER):
            descriptor = _open_below(folder, [results, name])
            if descriptor is not None:
                return descriptor
    roots = _ROOTS.get()
    for root in roots.folders:
        parts, root_parts = recorded_path.split("/"), root.as_posix().split("/")
        below = parts[len(root_parts) :]
        # `..` and an empty part are refused, not resolved.
        if parts[: len(root_parts)] != root_parts or any(part in ("", ".", "..") or "\0" in part for part in below):
            continue
        if not roots.has_hidden and any(part.startswith(".") for part in below):
            continue
        descriptor = _open_below(root, below, follow_root=True) if below else None
        if descriptor is not None:
            return descriptor
    return None


def _open_below(folder: Path, parts: Sequence[str], *, follow_root: bool = False) -> int | None:
    """A regular file, each part opened from the one before it. The operator's own folder may be a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY
    folders: list[int] = []
    try:
        folders.append(os.open(folder, flags if follow_root else flags | os.O_NOFOLLOW))
        for part in parts[:-1]:
            folders.append(os.open(part, flags | os.O_NOFOLLOW, dir_fd=folders[-1]))
        descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folders[-1])
    except (OSError, ValueError):
        return None
    finally:
        for opened in folders:
            os.close(opened)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def store_file(descriptor: int, quota: ProjectQuota) -> StoredContent:
    """Stores an open file and closes it. Raises QuotaExceeded and StoreFailed."""
    with os.fdopen(descriptor, "rb") as file:
        size = quota.check(file)
        try:
            try:
                stored = configured_store().put(cast("BinaryIO", _FileBeginning(file, size)))
            except StoreUnreachable:  # once more: on a machine that slept, the first request of every connection fails
                file.seek(0)
                stored = configured_store().put(cast("BinaryIO", _FileBeginning(file, size)))
        except OSError as error:
            raise StoreFailed(error.strerror or str(error)) from None
    quota.add(stored)
    return stored


class _FileBeginning:
    """The first `size` bytes of a file that may grow while it is read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._remaining = size

    def read(self, count: int) -> bytes:
        piece = self._file.read(min(count, self._remaining))
        self._remaining -= len(piece)
        return piece


class ProjectQuota:
    """The room that a project has for files, held against other imports by `hold_quota`."""

    def __init__(self, project: int) -> None:
        self.limit = quota_bytes(project)
        self._stored = Artifact.objects.stored_files().filter(project=project)
        self._added: dict[str, int] = {}
        self._used_before: int | None = None

    def check(self, file: BinaryIO) -> int:
        """The bytes of the file that may be stored: as many as it has now. Raises QuotaExceeded."""
        size = os.fstat(file.fileno()).st_size
        if size > settings.ARTIFACT_LIMIT_BYTES:
            raise QuotaExceeded(f"{size:,} bytes, over the limit of {settings.ARTIFACT_LIMIT_BYTES:,} for one file")
        if self.limit and self.used + size > self.limit and not self._has_file(file, size):
            raise QuotaExceeded(
                f"{size:,} bytes, and the project holds {self.used:,} of {self.limit:,}: free space with "
                "prune_artifacts, or raise COUNTERFOIL_ARTIFACT_QUOTA, and import the recording again"
            )
        return size

    def add(self, stored: StoredContent) -> None:
        if self.limit and not self._has(stored.sha256):
            self._added[stored.sha256] = stored.size

    @property
    def used(self) -> int:
        """Bytes of all contents of the project, each counted once."""
        if self._used_before is None:
            sizes = self._stored.values("sha256").annotate(bytes=Max("size"))
            self._used_before = sizes.aggregate(total=Sum("bytes"))["total"] or 0
        return self._used_before + sum(self._added.values())

    def _has_file(self, file: BinaryIO, size: int) -> bool:
        """Reads the file to its end only where content of its size is stored."""
        has_size = size in self._added.values() or self._stored.filter(size=size).exists()
        return has_size and self._has(hash_stream(file))

    def _has(self, sha256: str) -> bool:
        return sha256 in self._added or self._stored.filter(sha256=sha256).exists()


@contextmanager
def hold_quota(project: int) -> Iterator[ProjectQuota]:
    """Held until the rows that use it are committed, so that two imports cannot both take the same room."""
    if not quota_bytes(project):
        yield ProjectQuota(project)
        return
    with hold_lock(Path(settings.ARTIFACT_CACHE) / f"quota-{project}", exclusive=True):
        yield ProjectQuota(project)


def quota_bytes(project: int) -> int:
    """The project's own quota where the settings have one, else that of every project; 0 for no limit."""
    by_slug: dict[str, int] = settings.ARTIFACT_QUOTAS_BYTES
    slug = Project.objects.values_list("slug", flat=True).get(pk=project) if by_slug else ""
    default: int = settings.ARTIFACT_QUOTA_BYTES
    return by_slug.get(slug, default)


def retry_missing(source: Source, recording: Path, *, include_lost: bool = False) -> int:
    """Returns how many files were stored. One that is still over the quota stays a problem. Raises StoreFailed."""
    if not Artifact.objects.filter(call__source=source, observation=None).exists():
        return 0  # the other queries take seven times as long to compose
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
