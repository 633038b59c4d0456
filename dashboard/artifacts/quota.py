"""How much a project may hold of files that its recordings name, and how large one of them may be.

Asked before a byte is written. What counts are the bytes of each content once, however many calls name
it and however well it is compressed; a content that the project holds already needs no room.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db.models import Max, Sum

from dashboard.artifacts.locks import held
from dashboard.models import Artifact, Project
from envelopes.storage.file_store import Stored, sha256_of


class NoRoom(Exception):
    """The message says what was asked for, what is left, and what can be done."""


class Room:
    """What is left for a project; nobody else takes from it meanwhile. Made by `room_of`."""

    def __init__(self, project: int) -> None:
        self.quota = quota_of(project)
        self._kept = Artifact.objects.filter(project=project, observation=None, state=Artifact.State.PRESENT)
        self._fresh: dict[str, int] = {}
        self._used: int | None = None

    def admit(self, file: BinaryIO) -> int:
        """How many bytes of the file there is room for: all that it has now. Raises NoRoom."""
        size = os.fstat(file.fileno()).st_size
        if size > settings.ARTIFACT_LIMIT_BYTES:
            raise NoRoom(f"{size:,} bytes, over the limit of {settings.ARTIFACT_LIMIT_BYTES:,} for one file")
        if self.quota and self.used + size > self.quota and not self._holds_file(file, size):
            raise NoRoom(
                f"{size:,} bytes, and the project holds {self.used:,} of {self.quota:,}: prune_artifacts makes room, "
                "COUNTERFOIL_ARTIFACT_QUOTA gives more, and importing again takes it in then"
            )
        return size

    def took(self, stored: Stored) -> None:
        if self.quota and not self._holds(stored.sha256):
            self._fresh[stored.sha256] = stored.size

    @property
    def used(self) -> int:
        if self._used is None:
            sizes = self._kept.values("sha256").annotate(bytes=Max("size"))
            self._used = sizes.aggregate(total=Sum("bytes"))["total"] or 0
        return self._used + sum(self._fresh.values())

    def _holds_file(self, file: BinaryIO, size: int) -> bool:
        """Read to its end only where something that is held has its size."""
        has_size = size in self._fresh.values() or self._kept.filter(size=size).exists()
        return has_size and self._holds(sha256_of(file))

    def _holds(self, sha256: str) -> bool:
        return sha256 in self._fresh or self._kept.filter(sha256=sha256).exists()


@contextmanager
def room_of(project: int) -> Iterator[Room]:
    """Held until the rows are committed that use it, so that two imports cannot both take what is left."""
    if not quota_of(project):
        yield Room(project)
        return
    with held(Path(settings.ARTIFACT_CACHE) / f"quota-{project}", is_alone=True):
        yield Room(project)


def quota_of(project: int) -> int:
    """Bytes, 0 for no limit: the project's own where the settings name it, else that of all."""
    own: dict[str, int] = settings.ARTIFACT_QUOTAS_BYTES
    slug = Project.objects.values_list("slug", flat=True).get(pk=project) if own else ""
    of_all: int = settings.ARTIFACT_QUOTA_BYTES
    return own.get(slug, of_all)
