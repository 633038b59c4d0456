"""Follows recordings that grow. Each change is read from where the source stood, never from the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from watchfiles import watch

from dashboard.importing import Report, import_paths
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
    """Runs until interrupted or until `stop` is set; `tell` gets one report a round of changes."""
    named = {path.resolve() for path in paths if path.is_file()}
    folders = [path.resolve() for path in paths if path.is_dir()]
    watched = {path.parent for path in named} | set(folders)
    settled = False
    rounds = watch(*watched, stop_event=stop, debounce=200, step=50, rust_timeout=SETTLE_MS, yield_on_timeout=True)
    for changes in rounds:
        changed = sorted({Path(name) for _, name in changes})
        wanted = [path for path in changed if _is_wanted(path, named, folders)] if settled else list(paths)
        settled = True
        if wanted:
            tell(import_paths(project, wanted, format_name=format_name))


def _is_wanted(path: Path, named: set[Path], folders: Sequence[Path]) -> bool:
    if path in named:
        return path.is_file()
    is_under = any(folder in path.parents for folder in folders)
    return is_under and path.is_file() and (path.suffix == ".jsonl" or path.name == "run.json")
