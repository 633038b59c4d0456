"""The pages of imports: files from a browser, and every refused line, newest first, with its beginning.

An upload is stored in a temporary folder, imported and removed. A folder keeps its structure, because a subagent's
file shows by its place whose it is. Django strips paths from file names, so the browser sends them once more in the
list `paths`. They are foreign data and are taken apart here, never joined as they are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count, F, Max, QuerySet
from django.db.models.functions import Substr
from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.ingest.importer import import_paths
from dashboard.ingest.sources import RAW_BYTES
from dashboard.models import Problem, Project, Run, Source
from dashboard.text.params import Params
from dashboard.text.text_markup import escape, printable

MAX_DEPTH = 12  # folders
COMPONENT_CHARACTERS = 200  # below the file system's 255 bytes
UNSAFE = re.compile(r"[^\w.@+=,()\[\]{} -]")
PROBLEMS_SHOWN = 100
RUNS_SHOWN = 200
PAGE_SIZE = 30
BYTES_SHOWN = 400
FILES_SHOWN = 20
FILES_COUNTED = 200


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


def _store(file: UploadedFile[bytes], target: Path) -> None:
    """Mode `x`: an existing name, or a file in the place of a folder, is an error and not a write elsewhere."""
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stored:
            for chunk in file.chunks():
                stored.write(chunk)
    except (FileExistsError, NotADirectoryError):
        raise UploadRefused(f"{target.name!r} is both a file and a folder in this upload.") from None


class FileRun(NamedTuple):
    url: str
    title: str


@dataclass(frozen=True)
class ProblemRow:
    file: str
    location: str
    reason: str
    is_incomplete: bool
    preview: SafeString
    shown: int  # bytes of the line in the preview
    stored: int  # bytes that are stored
    size: int  # bytes of the line
    raw_url: str
    created_at: datetime
    run: FileRun | None  # a run that the rest of the file belongs to
    is_resolved: bool  # the file had other content when it was imported again


@dataclass(frozen=True)
class FileChoice:
    label: str  # the end of the path, which differs most between files
    path: str
    count: int
    href: str
    is_current: bool


@dataclass(frozen=True)
class ProblemPage:
    rows: Sequence[ProblemRow]
    files: Sequence[FileChoice]
    files_left_out: int
    total: int  # in the files that were counted
    file: str
    next_href: str
    first_href: str
    refusal: str


def problem_page(project: Project, query: Mapping[str, str]) -> ProblemPage:
    """`file` is the whole path as it was imported, `after` the id of the last problem on the page before."""
    params = Params(query)
    file = params.text("file").replace("\0", "")
    after = params.integer("after", default=None)
    problems = _load_problems(project, file, after)
    page = problems[:PAGE_SIZE]
    counts = project.problems.values_list("file").annotate(number=Count("pk")).order_by("-number", "file")
    files = list(counts[:FILES_COUNTED])
    runs = _load_runs({problem.source_id for problem in page if problem.source_id})
    # A file with other content is another source; the problems of the one before it are resolved.
    sources = Source.objects.filter(project=project, path__in={problem.file for problem in page}).order_by("path")
    newest = dict(sources.values_list("path").annotate(newest=Max("pk")))
    return ProblemPage(
        rows=[_row(problem, runs.get(problem.source_id or 0), newest.get(problem.file, 0)) for problem in page],
        files=[_file_choice(params, path, number, file) for path, number in files[:FILES_SHOWN]],
        files_left_out=max(0, len(files) - FILES_SHOWN),
        total=sum(number for _, number in files),
        file=printable(file),
        next_href=params.url(after=page[-1].pk) if len(problems) > PAGE_SIZE else "",
        first_href=params.url(after=None) if after else "",
        refusal=f"{params.problems[0]}; these are the newest problems." if params.problems else "",
    )


def _load_problems(project: Project, file: str, after: int | None) -> list[Problem]:
    """A row more than a page, each with the beginning of its raw bytes as `head`."""
    problems: QuerySet[Problem] = project.problems.defer("raw").annotate(head=Substr("raw", 1, BYTES_SHOWN))
    if file:
        problems = problems.filter(file=file)
    if after is not None:
        problems = problems.filter(pk__lt=after)
    return list(problems.order_by("-pk")[: PAGE_SIZE + 1])


def _load_runs(sources: set[int]) -> dict[int, FileRun]:
    """By source: its oldest run without a parent, else its oldest run."""
    ordered = Run.objects.order_by(F("parent").asc(nulls_first=True), "sort_at", "pk")
    rows = ordered.filter(sources__in=sources).values_list("sources__pk", "pk", "title", "external_id")
    runs: dict[int, FileRun] = {}
    for source, pk, title, external_id in rows:
        runs.setdefault(source, FileRun(reverse("run-detail", args=[pk]), printable(title or external_id)))
    return runs


def _file_choice(params: Params, path: str, number: int, current: str) -> FileChoice:
    label = "/".join(path.rsplit("/", 2)[-2:])
    is_current = path == current
    href = reverse("problem-list") if is_current else params.url(file=path, after=None)
    return FileChoice(printable(label), printable(path), number, href, is_current)


def _row(problem: Problem, run: FileRun | None, newest_source: int) -> ProblemRow:
    head = bytes(problem.head or b"")  # type: ignore[attr-defined]  # annotated by _load_problems; NULL without bytes
    location = f"line {problem.line}" if problem.line else "the whole file"
    if problem.line and problem.path not in ("", "$"):
        location += f", {printable(problem.path)}"
    return ProblemRow(
        file=printable(problem.file),
        location=location,
        reason=printable(problem.reason),
        is_incomplete=problem.is_incomplete,
        preview=escape(head.decode("utf-8", "backslashreplace")),
        shown=len(head),
        stored=min(problem.raw_size, RAW_BYTES),
        size=problem.raw_size,
        raw_url=reverse("problem-raw", args=[problem.pk]),
        created_at=problem.created_at,
        run=run,
        is_resolved=problem.source_id is not None and newest_source > problem.source_id,
    )
