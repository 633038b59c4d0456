"""Retention of stored artifacts: by age, by quota, and what nothing refers to. Planned first, then done.

Rows are told before content goes: a process that is killed in between leaves content that nothing names,
never a row whose content is gone. Both happen under the lock of `artifacts.removal`, which imports hold
while a file of theirs has no row yet, so what was taken in since the plan stays, and so does its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db.models import Max, QuerySet
from django.utils import timezone

from dashboard.artifacts.removal import remove, removing
from dashboard.artifacts.stores import artifact_files
from dashboard.models import Artifact

BATCH = 500
STALE_SECONDS = 24 * 3600  # an unfinished file of that age belongs to nobody who lives


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Names (sha256) with their bytes on the disk. `unfinished` are paths that a killed write left.

    `last_named` says of each name when the newest run began that refers to it.
    """

    retired: dict[str, int]
    unnamed: dict[str, int]
    unfinished: tuple[Path, ...]
    kept_bytes: int
    last_named: dict[str, datetime]

    @property
    def freed_bytes(self) -> int:
        return sum(self.retired.values()) + sum(self.unnamed.values())


def plan(*, before: datetime | None = None, quota: int | None = None) -> Plan:
    """Retires what only runs from before `before` name, then the oldest until the rest fits `quota` bytes."""
    files = artifact_files()
    stored = files.sizes()
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
    return Plan(
        retired=retired,
        unnamed=unnamed,
        unfinished=files.unfinished(STALE_SECONDS),
        kept_bytes=left,
        last_named=last_named,
    )


def carry_out(found: Plan) -> int:
    """How many artifacts lost their content; their rows stay and say when."""
    retired, unnamed = sorted(found.retired), sorted(found.unnamed)
    count = 0
    for at in range(0, len(retired), BATCH):
        with removing():
            count += _retire(found, set(retired[at : at + BATCH]))
    for at in range(0, len(unnamed), BATCH):
        with removing():
            names = set(unnamed[at : at + BATCH])
            remove(names - Artifact.objects.referenced(names))
    for path in found.unfinished:
        path.unlink(missing_ok=True)
    return count


def _retire(found: Plan, names: set[str]) -> int:
    """But for what a run refers to that came in since the plan."""
    last_named = _last_named(names)
    names = {name for name in names if last_named.get(name) == found.last_named[name]}
    going = _kept().filter(sha256__in=names)
    count = going.update(state=Artifact.State.REMOVED, removed_at=timezone.now())
    remove(names - Artifact.objects.referenced(names))
    return count


def _last_named(names: Iterable[str] | None = None) -> dict[str, datetime]:
    """When the newest run began that names a content."""
    kept = _kept().exclude(sha256="") if names is None else _kept().filter(sha256__in=names)
    return dict(kept.values_list("sha256").annotate(at=Max("call__run__sort_at")).values_list("sha256", "at"))


def _kept() -> QuerySet[Artifact]:
    return Artifact.objects.filter(observation=None, state=Artifact.State.PRESENT)
