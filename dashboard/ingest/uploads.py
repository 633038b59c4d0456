"""Imports files from a browser: makes their names safe, stores them in a temporary folder, and removes it.

A folder upload keeps its structure, because a subagent's file shows by its place whose it is. Django strips paths from
file names, so the browser sends them once more in the list `paths`. They are foreign data and are taken apart here,
never joined as they are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run

MAX_DEPTH = 12  # folders
COMPONENT_CHARACTERS = 200  # below the file system's 255 bytes
UNSAFE = re.compile(r"[^\w.@+=,()\[\]{} -]")
PROBLEMS_SHOWN = 100
RUNS_SHOWN = 200


class UploadRefused(ValueError):
    """An upload that is not imported; the message gives the reason."""


@dataclass(frozen=True)
class UploadResult:
    """The counts, problems and runs of an upload, for the page. Counts of zero are included."""

    files: int
    seen: tuple[tuple[str, int], ...]
    added: tuple[tuple[str, int], ...]
    lines: tuple[tuple[str, int], ...]
    problems: tuple[dict[str, Any], ...]
    problem_count: int
    runs: tuple[Run, ...]
    run_count: int

    @property
    def is_new(self) -> bool:
        return any(count for _, count in self.added)


def import_uploads(project: Project, files: Sequence[UploadedFile[bytes]], paths: Sequence[str]) -> UploadResult:
    """Raises UploadRefused before anything is written; faults inside a file are among the problems."""
    if not files:
        raise UploadRefused("No file was chosen.")
    if paths and len(paths) != len(files):
        raise UploadRefused(f"{len(files)} files came with {len(paths)} paths.")
    names = [safe_path(path) for path in paths or [file.name or "" for file in files]]
    if repeated := {str(name) for name in names if names.count(name) > 1}:
        raise UploadRefused(f"{', '.join(sorted(repeated)[:3])} was sent twice; send each file once.")
    with tempfile.TemporaryDirectory(prefix="upload-", dir=settings.DATA) as folder:
        root = Path(folder).resolve()
        for file, name in zip(files, names, strict=True):
            _store(file, root / name)
        # A file at the top was chosen itself and must be a recording; a folder may contain other files too.
        entries = sorted(root.iterdir(), key=lambda entry: (entry.is_dir(), entry.name != "run.json", entry.name))
        report = import_paths(project, entries, shown_as=lambda path: path.resolve().relative_to(root).as_posix())
    runs = project.runs.filter(pk__in=[UUID(key) for key in report.run_ids[:RUNS_SHOWN]]).order_by("-sort_at", "-id")
    return UploadResult(
        files=report.files,
        seen=tuple(report.seen.items()),
        added=tuple(report.added.items()),
        lines=tuple(report.lines.items()),
        problems=tuple(report.problems[:PROBLEMS_SHOWN]),
        problem_count=len(report.problems),
        runs=tuple(runs),
        run_count=len(report.run_ids),
    )


def safe_path(path: str) -> PurePosixPath:
    """`path` as a relative path of plain components. Raises UploadRefused for one that leads elsewhere."""
    if not path or "\x00" in path or path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        raise UploadRefused(f"{path!r} is not a relative path.")
    parts = path.replace("\\", "/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise UploadRefused(f"{path!r} has a part that is empty or leads upwards.")
    if len(parts) > MAX_DEPTH:
        raise UploadRefused(f"{path!r} is more than {MAX_DEPTH} folders deep.")
    return PurePosixPath(*(_safe_component(part) for part in parts))


def _safe_component(part: str) -> str:
    cleaned = UNSAFE.sub("_", part).strip(" ")
    if not cleaned.strip("."):
        raise UploadRefused(f"{part!r} is not a file name.")
    stem, dot, ending = cleaned.rpartition(".")
    return cleaned if len(cleaned) <= COMPONENT_CHARACTERS else f"{(stem or cleaned)[:150]}{dot}{ending[:20]}"


def _store(file: UploadedFile[bytes], target: Path) -> None:
    """Mode `x`: an existing name, or a file in the place of a folder, is an error and not a write elsewhere."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stored:
            for chunk in file.chunks():
                stored.write(chunk)
    except (FileExistsError, NotADirectoryError):
        raise UploadRefused(f"{target.name!r} is both a file and a folder in this upload.") from None
