"""Files that live runs name and that grow after they were taken in: what a task writes in the background.

A file is kept by its content, so a longer one is another content: it is taken in, the artifact's row
turns to it, and what no row names any more goes. Taking in costs as much as the file is long, so a file
is looked at again only after REST times as long.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from dashboard.artifacts.store import NoRoom, NotStored, opened
from dashboard.intake.taking_again import take
from dashboard.models import Artifact, Project
from dashboard.models.runs import IDLE_BEFORE_ASSUMED_ENDED

logger = logging.getLogger(__name__)
MOST = 200  # files that are looked after
EVERY = 1.0  # seconds
REST = 20


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
        return sum(self._look_at(artifact) for artifact in _of_live_runs(self._project, timezone.now()))

    def _look_at(self, artifact: Artifact) -> bool:
        before = self._looks.get(artifact.pk)
        if artifact.call.source is None or (before and self._clock() < before.again_at):
            return False
        descriptor = opened(Path(artifact.call.source.path), artifact.path)
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
        self._looks[artifact.pk] = _Look(what, self._clock() + REST * (self._clock() - begun))
        return is_other


def _is_held(artifact: Artifact, size: int) -> bool:
    """Taken in as long as it is now, by the import a moment ago."""
    return artifact.state == Artifact.State.PRESENT and artifact.size == size


def _of_live_runs(project: Project, now: datetime) -> QuerySet[Artifact]:
    return (
        Artifact.objects.filter(
            project=project,
            observation=None,
            call__run__ended_at=None,
            call__run__last_at__gte=now - IDLE_BEFORE_ASSUMED_ENDED,
        )
        .exclude(state=Artifact.State.REMOVED)
        .select_related("call__source")
        .order_by("-call__started_at", "pk")[:MOST]
    )


def _take(artifact: Artifact, descriptor: int) -> bool:
    """What the store refuses stays as it was, and is tried again when the file has changed."""
    try:
        return take(artifact, descriptor)
    except (NoRoom, NotStored) as refused:
        logger.warning("%s grew and was not taken in: %s", artifact.path, refused)
        return False
