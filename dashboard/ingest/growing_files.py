"""Files that live runs name and that grow after they were taken in: what a task writes in the background.

A file is kept by its content, so a longer one is another content: it is taken in, the artifact's row
turns to it, and what no row names any more goes. Taking in costs as much as the file is long, so a file
is looked at again only after REST times as long. When its run is over it is looked at once more: what was
written between the last look and the end belongs to it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dashboard.artifacts.ingest import QuotaExceeded, StoreFailed, open_named_file
from dashboard.ingest.missing_artifacts import take
from dashboard.models import Artifact, Project
from dashboard.models.runs import IDLE_BEFORE_ASSUMED_ENDED

logger = logging.getLogger(__name__)
MOST = 200  # files that are looked after
EVERY = 1.0  # seconds
REST = 20
NOT_TAKEN = (0, 0, 0)  # what no file is, so that it is tried again


@dataclass(frozen=True)
class _Look:
    """What the file was when it was looked at last: inode, size, time of change (ns); when it may be again."""

    what: tuple[int, int, int]
    again_at: float = 0.0


class Growing:
    """`look` is cheap while nothing grows: a query and a stat a file, once a second."""

    def __init__(self, project: Project, clock: Callable[[], float] = time.monotonic) -> None:
        self._project = project
        self._clock = clock
        self._looks: dict[UUID, _Look] = {}
        self._next = 0.0

    def look(self) -> int:
        """How many artifacts have other content now."""
        now = self._clock()
        if now < self._next:
            return 0
        self._next = now + EVERY
        live = {artifact.pk: artifact for artifact in _of_live_runs(self._project, timezone.now())}
        over = _kept().filter(pk__in=self._looks.keys() - live.keys()).order_by("pk")
        return sum(map(self._look_at, live.values())) + sum(map(self._look_last, over))

    def _look_last(self, artifact: Artifact) -> bool:
        """Whatever rest it has left. Once, but where the store cannot be asked."""
        self._looks[artifact.pk] = replace(self._looks[artifact.pk], again_at=0.0)
        is_other = self._look_at(artifact)
        if self._looks[artifact.pk].what != NOT_TAKEN:
            del self._looks[artifact.pk]
        return is_other

    def _look_at(self, artifact: Artifact) -> bool:
        before = self._looks.get(artifact.pk)
        if artifact.call.source is None or (before and self._clock() < before.again_at):
            return False
        descriptor = open_named_file(Path(artifact.call.source.path), artifact.path)
        if descriptor is None:
            return False
        status = os.fstat(descriptor)
        what = (status.st_ino, status.st_size, status.st_mtime_ns)
        if before is not None and before.what == what or before is None and _is_held(artifact, status.st_size):
            os.close(descriptor)
            self._looks[artifact.pk] = _Look(what)
            return False
        begun = self._clock()
        is_other = _take(artifact, descriptor)
        again_at = self._clock() + REST * (self._clock() - begun)
        self._looks[artifact.pk] = _Look(NOT_TAKEN if is_other is None else what, again_at)
        return bool(is_other)


def _is_held(artifact: Artifact, size: int) -> bool:
    """Taken in as long as it is now, by the import a moment ago."""
    return artifact.state == Artifact.State.PRESENT and artifact.size == size


def _of_live_runs(project: Project, now: datetime) -> QuerySet[Artifact]:
    return (
        _kept()
        .filter(
            project=project,
            call__run__ended_at=None,
            call__run__last_at__gte=now - IDLE_BEFORE_ASSUMED_ENDED,
        )
        .order_by("-call__started_at", "pk")[:MOST]
    )


def _kept() -> QuerySet[Artifact]:
    """Files that retention has not taken out."""
    rows = Artifact.objects.filter(observation=None).exclude(state=Artifact.State.REMOVED)
    return rows.select_related("call__source")


def _take(artifact: Artifact, descriptor: int) -> bool | None:
    """None where the store did not take it. What there is no room for is tried again when the file has changed."""
    try:
        return take(artifact, descriptor)
    except QuotaExceeded as refused:
        logger.warning("%s grew and was not taken in: %s", artifact.path, refused)
        return False
    except (StoreFailed, OSError) as refused:
        logger.warning("%s grew and could not be stored, which is tried again: %s", artifact.path, refused)
        return None
