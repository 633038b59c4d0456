"""Removes content from the artifact store, and checks what is stored.

An import stores a file before a row refers to it. Every import holds `shared_store_lock` from that moment until
its rows are committed; `exclusive_store_lock` waits for them and lets none begin, so a file without a row is
never removed under an import.

Retention is planned first, by age, by quota, and by what no row refers to, then applied. Rows are updated before
content is removed: a process that is killed in between leaves content without a row, never a row without content.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from dashboard.artifacts.stores import LockTimeout, configured_store, hold_lock, uses_bucket
from dashboard.artifacts.upload_folders import find_abandoned_uploads
from dashboard.models import Artifact, Observation, SentContent, load_slices
from dashboard.models.sources import DamagedEvidence
from envelopes.storage.file_store import LOCK, MissingArtifact, StoreUnreachable

SHA256 = re.compile("[0-9a-f]{64}")
PAGE_LOCK_SECONDS = 5.0  # that a page waits for imports
BATCH = 500  # contents that are removed under one lock
DAY_SECONDS = 24 * 3600.0
STALE_SECONDS = 24 * 3600  # an unfinished file of that age belongs to no living process
ROWS_AT_ONCE = 200  # a row may hold megabytes


@contextmanager
def shared_store_lock() -> Iterator[None]:
    """Held by an import while a stored file has no row yet; many imports may hold it."""
    with hold_lock(_lock_file(), exclusive=False):
        yield


@contextmanager
def exclusive_store_lock(*, timeout: float = math.inf) -> Iterator[None]:
    """Waits for imports, `timeout` seconds at most. Raises LockTimeout."""
    with hold_lock(_lock_file(), exclusive=True, timeout=timeout):
        yield


def _lock_file() -> Path:
    return Path(settings.ARTIFACT_CACHE if uses_bucket() else settings.ARTIFACTS) / LOCK


def remove_unreferenced(hashes: set[str]) -> None:
    """Removes the contents `hashes` (SHA-256) that no row refers to.

    A page waits for this: where an import holds the lock for longer, the content stays for `prune_artifacts`.
    """
    if hashes:
        with suppress(LockTimeout), exclusive_store_lock(timeout=PAGE_LOCK_SECONDS):
            remove_content(hashes - Artifact.objects.referenced(hashes))


def remove_content(hashes: set[str]) -> None:
    """Call it under `exclusive_store_lock`, for contents that no row refers to any more."""
    store = configured_store()
    for sha256 in sorted(hashes):
        if SHA256.fullmatch(sha256):
            store.remove(sha256)


@dataclass(frozen=True, kw_only=True)
class RetentionPlan:
    """Contents (SHA-256) to remove, or that were removed, with their bytes on the disk.

    `expired` are referenced by artifacts, whose rows stay; `unreferenced` by none; `unfinished` are paths that
    a killed write left. `last_named` is the start of the newest run that refers to a content. Content that a program
    has just sent is in neither, because the record that refers to it may come later.
    """

    expired: dict[str, int]
    unreferenced: dict[str, int]
    unfinished: tuple[Path, ...]
    kept_bytes: int
    last_named: dict[str, datetime]

    @property
    def freed_bytes(self) -> int:
        return sum(self.expired.values()) + sum(self.unreferenced.values())


def plan_retention(*, before: datetime | None = None, quota: int | None = None) -> RetentionPlan:
    """Expires what only runs from before `before` refer to, then the oldest until the rest fits `quota` bytes."""
    store = configured_store()
    sizes = store.sizes()
    last_named, sent = _last_named(), _recently_sent()
    by_age = sorted((last_named[sha256], sha256) for sha256 in sizes if sha256 in last_named)
    expired = {
        sha256: sizes[sha256] for at, sha256 in by_age if before is not None and at < before and sha256 not in sent
    }
    kept_bytes = sum(sizes[sha256] for _, sha256 in by_age) - sum(expired.values())
    for _, sha256 in by_age:
        if quota is None or kept_bytes <= quota:
            break
        if sha256 not in expired and sha256 not in sent:
            expired[sha256] = sizes[sha256]
            kept_bytes -= sizes[sha256]
    unreferenced = {sha256: size for sha256, size in sizes.items() if sha256 not in last_named and sha256 not in sent}
    return RetentionPlan(
        expired=expired,
        unreferenced=unreferenced,
        unfinished=store.unfinished(STALE_SECONDS),
        kept_bytes=sum(sizes.values()) - sum(expired.values()) - sum(unreferenced.values()),
        last_named=last_named,
    )


def apply_retention(plan: RetentionPlan) -> RetentionPlan:
    """Removes what is planned, but for what an import has referred to or sent since the plan was made.

    Returns what was removed. The rows of artifacts that lost their content stay, with the time of the removal.
    """
    expired, unreferenced = sorted(plan.expired), sorted(plan.unreferenced)
    removed: set[str] = set()
    for start in range(0, len(expired), BATCH):
        with exclusive_store_lock():
            last_named = _last_named(expired[start : start + BATCH])
            hashes = {sha256 for sha256, at in last_named.items() if at == plan.last_named[sha256]}
            hashes -= _recently_sent()
            artifacts = Artifact.objects.stored_files().filter(sha256__in=hashes)
            artifacts.update(state=Artifact.State.REMOVED, removed_at=timezone.now())
            hashes -= Artifact.objects.referenced(hashes)
            remove_content(hashes)
            removed |= hashes
    for start in range(0, len(unreferenced), BATCH):
        with exclusive_store_lock():
            hashes = set(unreferenced[start : start + BATCH])
            hashes -= Artifact.objects.referenced(hashes)
            remove_content(hashes)
            removed |= hashes
    for path in plan.unfinished:
        path.unlink(missing_ok=True)
    done = replace(
        plan,
        expired={sha256: size for sha256, size in plan.expired.items() if sha256 in removed},
        unreferenced={sha256: size for sha256, size in plan.unreferenced.items() if sha256 in removed},
    )
    return replace(done, kept_bytes=plan.kept_bytes + plan.freed_bytes - done.freed_bytes)


def plan_by_settings() -> RetentionPlan | None:
    """The plan for COUNTERFOIL_RETAIN_DAYS and COUNTERFOIL_RETAIN_BYTES; None where neither is set."""
    days, quota = settings.RETAIN_DAYS, settings.RETAIN_BYTES
    if days is None and quota is None:
        return None
    return plan_retention(before=None if days is None else timezone.now() - timedelta(days=days), quota=quota)


def apply_by_settings() -> None:
    if plan := plan_by_settings():
        apply_retention(plan)


def _recently_sent() -> set[str]:
    """Contents that programs have just sent, as `Artifact.objects.referenced` spares them."""
    return set(SentContent.objects.recent().values_list("sha256", flat=True))


def _last_named(hashes: Iterable[str] | None = None) -> dict[str, datetime]:
    """The start of the newest run that refers to each stored content, to each of `hashes` where they are given."""
    stored = Artifact.objects.stored_files()
    stored = stored.exclude(sha256="") if hashes is None else stored.filter(sha256__in=hashes)
    return dict(stored.values_list("sha256").annotate(at=Max("call__run__sort_at")).values_list("sha256", "at"))


@dataclass(frozen=True)
class StoreFinding:
    """`kind` is file, artifact, upload or observation; `name` its place in the store or its id."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True)
class StoreReport:
    """`unreachable` is the error of a store that did not answer: nothing is known of its files then."""

    findings: tuple[StoreFinding, ...]
    unreachable: str = ""


def check_store() -> StoreReport:
    """Compares files with their hashes, rows with their files, and recorded bytes with their rows.

    The rows are checked also where the store does not answer.
    """
    findings, unreachable = list[StoreFinding](), ""
    try:
        findings += [StoreFinding("file", fault.name, fault.reason) for fault in configured_store().check()]
        findings += _check_references()
    except StoreUnreachable as error:
        unreachable = error.strerror or str(error)
    reason = "left by an upload that did not end; the next upload or start of the server removes it"
    findings += [StoreFinding("upload", folder.name, reason) for folder in find_abandoned_uploads()]
    return StoreReport((*findings, *_check_observations()), unreachable)


def _check_references() -> Iterator[StoreFinding]:
    """Opens the content of every row; what is changed, truncated or a link is reported with its file already."""
    store = configured_store()
    stored = Artifact.objects.stored_files().order_by("pk").values_list("pk", "sha256")
    for pk, sha256 in stored.iterator(chunk_size=2_000):
        try:
            store.open(sha256).close()
        except MissingArtifact as missing:
            yield StoreFinding("artifact", str(pk), f"its content is missing: {missing}")
        except StoreUnreachable:
            raise
        except OSError as damage:
            yield StoreFinding("artifact", str(pk), f"its content is damaged: {damage}")


def _check_observations() -> Iterator[StoreFinding]:
    rows = Observation.objects.order_by("source", "start", "pk").iterator(chunk_size=ROWS_AT_ONCE)
    while portion := list(islice(rows, ROWS_AT_ONCE)):
        with suppress(DamagedEvidence):  # which row it is, is found out below
            load_slices(portion)
        for row in portion:
            try:
                is_same = len(row.data) == row.size and hashlib.sha256(row.data).hexdigest() == row.sha256
            except DamagedEvidence:
                is_same = False
            if not is_same:
                yield StoreFinding("observation", str(row.pk), "its bytes are not those that were recorded")
