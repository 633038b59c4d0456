"""Retention of stored artifacts: by age, by quota, and what nothing refers to. Planned first, then done.

Rows are told before files go: a process that is killed in between leaves a file that nothing names,
never a row whose file is gone. Files go under the lock of `artifacts.removal`, which imports hold while
a file of theirs has no row yet, so one that was taken in meanwhile stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from dashboard.artifacts.removal import remove_unnamed
from dashboard.intake import forgetting
from dashboard.models import Artifact
from envelopes.artifact import STORED_NAME
from envelopes.durable_files import INCOMING, listed

BATCH = 500
STALE_SECONDS = 24 * 3600  # an unfinished file of that age belongs to nobody who lives


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Names (sha256) with their bytes on the disk. `unfinished` are paths that a killed write left."""

    retired: dict[str, int]
    unnamed: dict[str, int]
    unfinished: tuple[Path, ...]
    kept_bytes: int

    @property
    def freed_bytes(self) -> int:
        return sum(self.retired.values()) + sum(self.unnamed.values())


def plan(*, before: datetime | None = None, quota: int | None = None) -> Plan:
    """Retires what only runs from before `before` name, then the oldest until the rest fits `quota` bytes."""
    stored = _stored()
    last_named = _last_named()
    named = sorted((last_named[name], name) for name in stored if name in last_named)
    retired = {name: stored[name] for at, name in named if before is not None and at < before}
    left = sum(stored[name] for _, name in named) - sum(retired.values())
    for _, name in named:
        if quota is None or left <= quota:
            break
        if name not in retired:
            retired[name] = stored[name]
            left -= stored[name]
    unnamed = {name: size for name, size in stored.items() if name not in last_named}
    return Plan(retired=retired, unnamed=unnamed, unfinished=tuple(_unfinished()), kept_bytes=left)


def carry_out(found: Plan) -> int:
    """How many artifacts lost their content; their rows stay and say when."""
    retired, count = sorted(found.retired), 0
    for at in range(0, len(retired), BATCH):
        names = retired[at : at + BATCH]
        kept = Artifact.objects.filter(sha256__in=names, observation=None, state=Artifact.State.PRESENT)
        count += kept.update(state=Artifact.State.REMOVED, removed_at=timezone.now())
    going = [*retired, *sorted(found.unnamed)]
    for at in range(0, len(going), BATCH):
        remove_unnamed(set(going[at : at + BATCH]), forgetting.still_named)
    for path in found.unfinished:
        path.unlink(missing_ok=True)
    return count


def _stored() -> dict[str, int]:
    """Every content in the store, with what it takes on the disk."""
    root, sizes = Path(settings.ARTIFACTS), dict[str, int]()
    for folder in listed(root):
        for name in listed(root / folder) if len(folder) == 2 else ():
            if found := STORED_NAME.fullmatch(name):
                sizes[found[1]] = sizes.get(found[1], 0) + _size(root / folder / name)
    return sizes


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _last_named() -> dict[str, datetime]:
    """When the newest run began that names a content."""
    kept = Artifact.objects.filter(observation=None, state=Artifact.State.PRESENT).exclude(sha256="")
    return dict(kept.values_list("sha256").annotate(at=Max("call__run__sort_at")).values_list("sha256", "at"))


def _unfinished() -> Iterator[Path]:
    root = Path(settings.ARTIFACTS)
    for name in listed(root):
        path = root / name
        try:
            is_old = name.startswith(INCOMING) and path.lstat().st_mtime < time.time() - STALE_SECONDS
        except FileNotFoundError:
            continue
        if is_old:
            yield path
