"""A Claude Code session as its import leaves it in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from tests.dashboard.sessions import SESSION, write


def import_session(project: Project, folder: Path, *lines: dict[str, Any] | bytes) -> Run:
    """The session's run. The lines come in two parts, so that what is stored does not depend on one import."""
    path = folder / f"{SESSION}.jsonl"
    for end in (len(lines) // 2, len(lines)):
        import_paths(project, [write(path, list(lines[:end]))])
    return Run.objects.get(project=project, external_id=SESSION)
