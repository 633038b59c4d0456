"""Uploads: files from a browser that arrive in a folder of the store, are imported from there and removed.

A folder keeps its structure, because a subagent's file shows by its place whose it is. Django strips paths from file
names, so the browser sends them once more in the list `paths`. They are foreign data and are taken apart here, never
joined as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest

from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run

MAX_DEPTH = 12  # folders
COMPONENT_CHARACTERS = 200  # below the file system's 255 bytes
UNSAFE = re.compile(r"[^\w.@+=,()\[\]{} -]")
PROBLEMS_SHOWN = 100
FORMATS_SHOWN = 100
RUNS_SHOWN = 200


class UploadRefused(ValueError):
    """An upload that is not imported; the message gives the reason."""


class FolderUpload(FileUploadHandler):
    """Writes each file of a form to `folder` while it arrives, under a number."""

    def __init__(self, request: HttpRequest, folder: Path) -> None:
        super().__init__(request)
        self._folder = folder
        self._files = ExitStack()
        self._count = 0

    def new_file(self, *arguments: Any, **options: Any) -> None:
        super().new_file(*arguments, **options)
        self._count += 1
        self._file = self._files.enter_context((self._folder / f"{self._count}.part").open("xb"))

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self._file.write(raw_data)

    def file_complete(self, file_size: int) -> UploadedFile[bytes]:
        """The uploaded file is closed; the name of its `file` is its path."""
        self._files.close()
        return UploadedFile(self._file, self.file_name, size=file_size)

    def upload_interrupted(self) -> None:
        self._files.close()


@dataclass(frozen=True)
class UploadResult:
    """The counts, problems and runs of an upload, for the page. Counts of zero are included."""

    files: int
    seen: tuple[tuple[str, int], ...]
    added: tuple[tuple[str, int], ...]
    lines: tuple[tuple[str, int], ...]
    formats: tuple[dict[str, str], ...]
    problems: tuple[dict[str, Any], ...]
    problem_count: int
    runs: tuple[Run, ...]
    run_count: int

    @property
    def is_new(self) -> bool:
        return any(count for _, count in self.added)


def import_uploads(project: Project, files: Sequence[UploadedFile[bytes]], paths: Sequence[str]) -> UploadResult:
    """Raises UploadRefused before anything is imported; faults inside a file are among the problems."""
    if not files:
        raise UploadRefused("No file was chosen.")
    if paths and len(paths) != len(files):
        raise UploadRefused(f"{len(files)} files came with {len(paths)} paths.")
    names = [safe_path(path) for path in paths or [file.name or "" for file in files]]
    if repeated := {str(name) for name in names if names.count(name) > 1}:
        raise UploadRefused(f"{', '.join(sorted(repeated)[:3])} was sent twice; send each file once.")
    received = [Path(file.file.name) for file in files if file.file]
    root = received[0].parent.resolve() / "files"
    for path, name in zip(received, names, strict=True):
        _move(path, root / name)
    # A file at the top was chosen itself and must be a recording; a folder may contain other files too.
    entries = sorted(root.iterdir(), key=lambda entry: (entry.is_dir(), entry.name != "run.json", entry.name))
    report = import_paths(project, entries, shown_as=lambda path: path.resolve().relative_to(root).as_posix())
    runs = project.runs.filter(pk__in=[UUID(key) for key in report.run_ids[:RUNS_SHOWN]]).order_by("-sort_at", "-id")
    return UploadResult(
        files=report.files,
        seen=tuple(report.seen.items()),
        added=tuple(report.added.items()),
        lines=tuple(report.lines.items()),
        formats=tuple(report.formats[:FORMATS_SHOWN]),
        problems=tuple([*report.problems, *report.skipped][:PROBLEMS_SHOWN]),
        problem_count=len(report.problems) + len(report.skipped),
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


def _move(file: Path, target: Path) -> None:
    """Refuses an existing name (of a file system that ignores case too) and a file in the place of a folder."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists():
            raise FileExistsError
        file.rename(target)
    except (FileExistsError, NotADirectoryError):
        raise UploadRefused(f"{target.name!r} is both a file and a folder in this upload.") from None
