"""The folders in which plans that run here write their records, and their removal once the store has every byte.

    plan_folder             the folder of a run
    hold_folder             marks it as used by this process, as long as that lives
    remove_stored_folders   removes those that nobody uses any more and that are wholly imported

A folder is imported once more before it is removed, so that a run whose command was killed loses nothing that it
acknowledged. It is renamed before it is removed: what a killed removal leaves is removed the next time.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from django.conf import settings

from dashboard.artifacts.retention import DAY_SECONDS
from dashboard.artifacts.stores import LockTimeout, configured_store, hold_lock
from dashboard.ingest.importer import Retry, import_paths
from dashboard.ingest.source_files import HEAD_BYTES
from dashboard.ingest.sources import find_source
from dashboard.models import Artifact, Project, Run
from envelopes.plan.recorders import ARTIFACTS_FOLDER, RUN_FILE
from envelopes.storage.file_store import MissingArtifact

logger = logging.getLogger(__name__)
NAMESPACE = "audit"  # of the runs that are imported from an executor's records
LOCK = "lock"
REMOVED, RUNNING = "removed", "running"  # beside the folders of the runs


def plans_root() -> Path:
    return Path(settings.DATA) / "plans"


def plan_folder(name: str) -> Path:
    """`name` is the id that the executor gave the run."""
    return plans_root() / name


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Raises FileExistsError for the folder of a run that goes on."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(folder / LOCK, exclusive=True, timeout=0, in_database=False))
        except LockTimeout:
            raise FileExistsError(f"{folder} belongs to a run that goes on") from None
        yield


def remove_stored_folders(*, idle_s: float = DAY_SECONDS) -> int:
    """Removes folders that nobody has written to for `idle_s` seconds; returns how many.

    A folder stays while its run goes on, when a byte of it is not in the store, when it has a file that no executor
    writes, and when its run was deleted from the store.
    """
    shutil.rmtree(plans_root() / REMOVED, ignore_errors=True)
    count = 0
    for marker in sorted(plans_root().glob(f"*/{RUN_FILE}")):
        folder = marker.parent
        newest = max(path.stat().st_mtime for path in folder.iterdir())
        if time.time() - newest < idle_s:
            continue
        with suppress(FileExistsError), hold_folder(folder):
            runs = Run.objects.filter(namespace=NAMESPACE, external_id=folder.name).select_related("project")
            if any(_is_stored(run.project, folder) for run in runs):
                _remove(folder)
                count += 1
    return count


def _is_stored(project: Project, folder: Path) -> bool:
    """Imports what is missing, then compares each file with the store."""
    import_paths(project, [folder], retry=Retry.MISSING)
    for path in folder.rglob("*"):
        if path.is_dir() and path.name == ARTIFACTS_FOLDER:
            continue
        if path.parent.name == ARTIFACTS_FOLDER:
            is_stored = _is_stored_content(project, path)
        else:
            is_stored = path == folder / LOCK or _is_stored_source(project, path)
        if not is_stored:
            logger.info("%s stays: %s is not in the store", folder, path.name)
            return False
    return True


def _is_stored_source(project: Project, path: Path) -> bool:
    """A file is stored when it was read to its end and every line was accepted. An empty one has nothing to lose."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        size = path.stat().st_size
        source = find_source(project, str(path), file, file.read(HEAD_BYTES)) if size else None
    return not size or (source is not None and (source.offset, source.rejected) == (size, 0))


def _is_stored_content(project: Project, path: Path) -> bool:
    """True also for content that retention removed. Files are named by their SHA-256."""
    rows = Artifact.objects.filter(sha256=path.name, call__run__project=project)
    if not rows.exists():
        return False
    if rows.filter(state=Artifact.State.REMOVED).exists():
        return True
    try:
        configured_store().open(path.name).close()
    except MissingArtifact:
        return False
    return True


def _remove(folder: Path) -> None:
    """The lock is held until the folder has its other name, under which no run looks for it."""
    target = plans_root() / REMOVED / folder.name
    target.parent.mkdir(exist_ok=True)
    folder.rename(target)
    shutil.rmtree(target, ignore_errors=True)
    shutil.rmtree(plans_root() / RUNNING / folder.name, ignore_errors=True)  # left by a command that was killed
