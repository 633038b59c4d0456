"""Follows recordings that grow, and files that they name. A recording is read from where it stood, never anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event

from watchfiles import watch

from dashboard.ingest.growing_files import Growing
from dashboard.ingest.importer import Report, Retry, import_paths
from dashboard.ingest.source_files import is_recording
from dashboard.models import Project

SETTLE_MS = 500  # what was written between the import and the watch's beginning is looked for after this


def follow(
    project: Project,
    paths: Sequence[Path],
    *,
    tell: Callable[[Report], None],
    format_name: str | None = None,
    stop: Event | None = None,
) -> None:
    """Runs until interrupted or until `stop` is set; `tell` gets one report a round of changes.

    A changed file is called as the import called it, whatever the watcher calls it: under another name
    its refused lines would be told a second time.
    """
    named = {path.resolve(): path for path in paths if not path.is_dir()}
    folders = {path.resolve(): path for path in paths if path.is_dir()}
    watched = {path.parent for path in named} | set(folders)
    settled = False
    rounds = watch(
        *watched,
        stop_event=stop,
        debounce=200,
        step=50,
        rust_timeout=SETTLE_MS,
        yield_on_timeout=True,
        recursive=bool(folders),
    )
    growing = Growing(project)
    for changes in rounds:
        changed = sorted({Path(name) for _, name in changes})
        found = [_as_given(path, named, folders) for path in changed] if settled else list(paths)
        wanted = [path for path in found if path is not None]
        settled = True
        if wanted:
            tell(import_paths(project, wanted, format_name=format_name, retry=Retry.NOTHING))
        growing.look()


def _as_given(path: Path, named: Mapping[Path, Path], folders: Mapping[Path, Path]) -> Path | None:
    """None for what is no recording, or gone by now."""
    if not path.is_file():
        return None
    if path in named:
        return named[path]
    above = next((folder for folder in folders if folder in path.parents), None)
    if above is None or not is_recording(path.name, path.parent.name):
        return None
    return folders[above] / path.relative_to(above)
