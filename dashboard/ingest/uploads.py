"""Files from a browser on their way to the importer: names made safe, sizes held, nothing left behind.

A folder upload keeps what lies below what (a subagent's file says by its place whose it is). Django
strips paths from file names, so the browser sends them once more as the list `paths`; they come
from outside and are taken apart here, never joined as they are.
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

from dashboard.ingest.importer import ImportReport, import_paths
from dashboard.models import Project, Run

DEEPEST = 12  # folders
LONGEST_NAME = 200  # characters of one component, and of the file system's 255 bytes
UNSAFE = re.compile(r"[^\w.@+=,()\[\]{} -]")
PROBLEMS_SHOWN = 100
RUNS_SHOWN = 200


class Refused(ValueError):
    """An upload that is not taken in; the message says why and what to do."""


@dataclass(frozen=True)
class Imported:
    """What an upload brought, for the page. Counts of zero are left in: nothing new is an answer too."""

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


def limit_bytes() -> int:
    return int(settings.UPLOAD_LIMIT_BYTES)


def import_uploads(project: Project, files: Sequence[UploadedFile[bytes]], paths: Sequence[str]) -> Imported:
    """Raises Refused before anything is written; what is wrong inside a file is among the problems."""
    if not files:
        raise Refused("No file was chosen.")
    names = _names(files, paths)
    with tempfile.TemporaryDirectory(prefix="upload-", dir=settings.DATA) as folder:
        root = Path(folder).resolve()
        for file, name in zip(files, names, strict=True):
            _store(file, root / name)
        report = import_paths(project, _entries(root), shown_as=lambda path: _shown(path, root))
    return _imported(project, report)


def safe_path(path: str) -> PurePosixPath:
    """`path` as a relative path of plain components. Raises Refused for anything that leads elsewhere."""
    if not path or "\x00" in path or path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        raise Refused(f"{path!r} is not a relative path.")
    parts = path.replace("\\", "/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise Refused(f"{path!r} has a part that is empty or leads upwards.")
    if len(parts) > DEEPEST:
        raise Refused(f"{path!r} is more than {DEEPEST} folders deep.")
    return PurePosixPath(*(_component(part) for part in parts))


def _component(part: str) -> str:
    cleaned = UNSAFE.sub("_", part).strip(" ")
    if not cleaned.strip("."):
        raise Refused(f"{part!r} is not a file name.")
    stem, dot, ending = cleaned.rpartition(".")
    return cleaned if len(cleaned) <= LONGEST_NAME else f"{(stem or cleaned)[:150]}{dot}{ending[:20]}"


def _names(files: Sequence[UploadedFile[bytes]], paths: Sequence[str]) -> list[PurePosixPath]:
    if paths and len(paths) != len(files):
        raise Refused(f"{len(files)} files came with {len(paths)} paths.")
    given = paths or [file.name or "" for file in files]
    names = [safe_path(path) for path in given]
    twice = {str(name) for name in names if names.count(name) > 1}
    if twice:
        raise Refused(f"{', '.join(sorted(twice)[:3])} was sent twice; send each file once.")
    return names


def _store(file: UploadedFile[bytes], target: Path) -> None:
    """`x` mode: an existing name, a file where a folder should be, is an error and not a write elsewhere."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stored:
            for chunk in file.chunks():
                stored.write(chunk)
    except (FileExistsError, NotADirectoryError):
        raise Refused(f"{target.name!r} is both a file and a folder in what was sent.") from None


def _entries(root: Path) -> list[Path]:
    """What was sent by itself is named and must be a recording; in a folder, other files may lie beside them."""
    return sorted(root.iterdir(), key=lambda entry: (entry.is_dir(), entry.name != "run.json", entry.name))


def _shown(path: Path, root: Path) -> str:
    return path.resolve().relative_to(root).as_posix()


def _imported(project: Project, report: ImportReport) -> Imported:
    runs = project.runs.filter(pk__in=[UUID(key) for key in report.run_ids[:RUNS_SHOWN]]).order_by("-sort_at", "-id")
    return Imported(
        files=report.files,
        seen=tuple(report.seen.items()),
        added=tuple(report.added.items()),
        lines=tuple(report.lines.items()),
        problems=tuple(report.problems[:PROBLEMS_SHOWN]),
        problem_count=len(report.problems),
        runs=tuple(runs),
        run_count=len(report.run_ids),
    )
