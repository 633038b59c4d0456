"""Follows recordings that grow, and the files that they name.

A recording is continued where it was read to. A document, and one in a container, is read again as a whole, so it
rests BACKOFF_FACTOR times as long as its last import took. A named file, for instance the output of a background task,
is stored by its content, so a longer file is another content that replaces the artifact's. Storing costs as much as the
file is long, so it rests in the same way. When its run is over it is stored once more, because what was written since
the last time belongs to it.

    follow(project, paths)   until it is interrupted, for a command
    Followers                for the background work: what is stored as a FollowedPath, also after a restart
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from uuid import UUID

from django.db import Error, connection
from django.db.models import F, QuerySet
from django.utils import timezone
from watchfiles import watch

from dashboard.artifacts.ingest import QuotaExceeded, StoreFailed, open_named_file, replace_content
from dashboard.faults import drop_connection, find_outage
from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import Retry, import_paths
from dashboard.ingest.source_files import find_changed_container, is_recording
from dashboard.models import Artifact, FollowedPath, Project
from dashboard.models.runs import IDLE_BEFORE_ASSUMED_ENDED
from dashboard.models.sources import LIVE
from envelopes.recordings import find_container

logger = logging.getLogger(__name__)
STARTUP_MS = 500  # after this, what was written between the import and the watch's start is imported
MAX_GROWING_FILES = 200
POLL_SECONDS = 1.0
BACKOFF_FACTOR = 20
DOCUMENT = ".json"
ROWS_SECONDS = 2.0  # after which the background work looks whether other paths are to be followed
RETRY_SECONDS = 30.0  # after a path could not be followed
STOP_SECONDS = 10.0
NOT_STORED = (0, 0, 0)  # no file has this version, so the next poll tries again


def follow(
    project: Project,
    paths: Sequence[Path],
    *,
    on_report: Callable[[ImportReport], None],
    format_name: str | None = None,
    stop: Event | None = None,
    backoff: float = BACKOFF_FACTOR,
) -> None:
    """Runs until interrupted or until `stop` is set; calls `on_report` after each round of changes.

    A changed file keeps the path that the import gave it, whatever the watcher calls it: under another path its
    refused lines would be reported a second time.
    """
    files = {path.resolve(): path for path in paths if not path.is_dir()}
    rests: dict[Path, float] = {}  # until when, by container and document
    folders = {path.resolve(): path for path in paths if path.is_dir()}
    rounds = watch(
        *{path.parent for path in files},
        *folders,
        stop_event=stop,
        debounce=200,
        step=50,
        rust_timeout=STARTUP_MS,
        yield_on_timeout=True,
        recursive=bool(folders),
    )
    growing = GrowingFiles(project)
    changed = dict.fromkeys(paths)  # the first round imports everything once more
    for number, changes in enumerate(rounds):
        if number:
            given = (_path_as_given(Path(name), files, folders) for name in sorted({name for _, name in changes}))
            changed |= dict.fromkeys(path for path in given if path is not None)
        try:
            due = [path for path in changed if rests.get(path, 0.0) <= time.monotonic()]
            for batch in _part_containers(due):
                start = time.monotonic()
                on_report(import_paths(project, batch, format_name=format_name, retry=Retry.NOTHING))
                end = time.monotonic()
                whole = [path for path in batch if path.suffix == DOCUMENT or find_container(path)]
                rests |= dict.fromkeys(whole, end + backoff * (end - start))
            changed = dict.fromkeys(path for path in changed if path not in due)
            growing.poll()
        except (Error, OSError) as error:
            outage = find_outage(error)
            if outage is None:
                raise
            logger.warning("%s; the next round retries: %s", outage.title, error)
            drop_connection()


def store_followed(project: Project, paths: Sequence[Path], format_name: str) -> None:
    """Has the background work follow these paths; an empty `format_name` is detected from the content."""
    for path in paths:
        FollowedPath.objects.update_or_create(
            project=project, path=os.path.abspath(path), defaults={"format": format_name, "problem": ""}
        )


def remove_followed(project: str, paths: Sequence[str]) -> int:
    """Ends that for the paths of the project with this slug; returns how many were followed."""
    names = [os.path.abspath(path) for path in paths]
    ended, _ = FollowedPath.objects.filter(project__slug=project, path__in=names).delete()
    return ended


class Followers:
    """Threads of the background work, one for each FollowedPath as long as its row exists.

    A thread that ends in the middle of an import leaves what a killed import leaves: the next one goes on from there.
    """

    def __init__(self) -> None:
        self._threads: dict[int, tuple[Thread, Event]] = {}
        self._next_look = 0.0

    def update(self) -> None:
        """Starts and ends threads, once in ROWS_SECONDS."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + ROWS_SECONDS
        rows = {row.pk: row for row in FollowedPath.objects.select_related("project").order_by("pk")}
        for key in self._threads.keys() - rows.keys():
            self._threads.pop(key)[1].set()
        for key in rows.keys() - self._threads.keys():
            stop = Event()
            thread = Thread(target=_follow_row, args=(rows[key], stop), name=f"follows path {key}", daemon=True)
            self._threads[key] = thread, stop
            thread.start()

    def stop(self) -> None:
        """Ends all threads; those that import are given STOP_SECONDS."""
        for _, stop in self._threads.values():
            stop.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread, _ in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads.clear()


def _follow_row(row: FollowedPath, stop: Event) -> None:
    """Follows a path until `stop`, and retries one that is not there or fails; its row has the reason."""
    stored = FollowedPath.objects.filter(pk=row.pk)

    def note(report: ImportReport) -> None:
        if any(report.added.values()):
            stored.update(imported_at=timezone.now())

    while not stop.is_set():
        try:
            if not Path(row.path).exists():
                raise FileNotFoundError("there is no such file or folder")
            stored.exclude(problem="").update(problem="")
            follow(row.project, [Path(row.path)], on_report=note, format_name=row.format or None, stop=stop)
        except Exception as error:  # it must not end the work of others; the import page shows the reason
            logger.warning("%s cannot be followed: %s", row.path, error)
            with suppress(Error):
                stored.update(problem=f"{error}"[:500])
        finally:
            connection.close()
        stop.wait(RETRY_SECONDS)


def _part_containers(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The files together, and each container by itself: they rest as long as each of them takes."""
    containers = [path for path in paths if find_container(path)]
    if others := [path for path in paths if path not in containers]:
        yield others
    yield from ([path] for path in containers)


def _path_as_given(path: Path, files: Mapping[Path, Path], folders: Mapping[Path, Path]) -> Path | None:
    """None for a file that is not a recording, or no longer there. A file of a container stands for that."""
    path = find_changed_container(path) or path
    if path in folders:
        return folders[path]
    if not path.exists():
        return None
    if path in files:
        return files[path]
    above = next((folder for folder in folders if folder in path.parents), None)
    if above is None or not (is_recording(path) or find_container(path)):
        return None
    return folders[above] / path.relative_to(above)


@dataclass(frozen=True)
class _FileState:
    """A file at its last poll. `version` is its inode, size and time of change (ns)."""

    version: tuple[int, int, int]
    next_poll: float = 0.0


class GrowingFiles:
    """Stores files named by live runs again when they grow.

    While nothing grows, `poll` costs a query and a stat per file, once a second.
    """

    def __init__(self, project: Project, clock: Callable[[], float] = time.monotonic) -> None:
        self._project = project
        self._clock = clock
        self._states: dict[UUID, _FileState] = {}
        self._next_poll = 0.0

    def poll(self) -> int:
        """Returns how many artifacts got other content."""
        now = self._clock()
        if now < self._next_poll:
            return 0
        self._next_poll = now + POLL_SECONDS
        of_live_runs = _named_files().filter(
            project=self._project,
            call__run__ended_at=None,
            call__run__last_at__gte=timezone.now() - IDLE_BEFORE_ASSUMED_ENDED,
        )
        newest = of_live_runs.order_by(F("call__started_at").desc(nulls_last=True), "pk")
        live = {row.pk: row for row in newest[:MAX_GROWING_FILES]}
        ended = _named_files().filter(pk__in=self._states.keys() - live.keys()).order_by("pk")
        return sum(map(self._poll_file, live.values())) + sum(map(self._poll_last, ended))

    def _poll_last(self, artifact: Artifact) -> bool:
        """Polls a file of an ended run at once, and forgets it unless the store failed."""
        self._states[artifact.pk] = replace(self._states[artifact.pk], next_poll=0.0)
        is_replaced = self._poll_file(artifact)
        if self._states[artifact.pk].version != NOT_STORED:
            del self._states[artifact.pk]
        return is_replaced

    def _poll_file(self, artifact: Artifact) -> bool:
        before = self._states.get(artifact.pk)
        if artifact.call.source is None or (before and self._clock() < before.next_poll):
            return False
        descriptor = open_named_file(Path(artifact.call.source.path), artifact.path)
        if descriptor is None:
            return False
        status = os.fstat(descriptor)
        version = (status.st_ino, status.st_size, status.st_mtime_ns)
        if before is None:  # the import may have stored it a moment ago
            is_unchanged = artifact.state == Artifact.State.PRESENT and artifact.size == status.st_size
        else:
            is_unchanged = before.version == version
        if is_unchanged:
            os.close(descriptor)
            self._states[artifact.pk] = _FileState(version)
            return False
        start = self._clock()
        try:
            is_replaced = replace_content(artifact, descriptor)
        except QuotaExceeded as refusal:  # tried again when the file changes
            logger.warning("%s grew and was not stored: %s", artifact.path, refusal)
            is_replaced = False
        except (StoreFailed, OSError) as error:
            logger.warning("%s grew and could not be stored; the next poll retries: %s", artifact.path, error)
            is_replaced, version = False, NOT_STORED
        end = self._clock()
        self._states[artifact.pk] = _FileState(version, end + BACKOFF_FACTOR * (end - start))
        return is_replaced


def _named_files() -> QuerySet[Artifact]:
    """Artifacts that are files, but for those whose content retention removed.

    What a program sends names no file of this machine.
    """
    files = Artifact.objects.filter(observation=None).exclude(state=Artifact.State.REMOVED)
    files = files.exclude(call__source__path__startswith=LIVE)
    return files.select_related("call__source")
