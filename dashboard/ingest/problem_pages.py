"""The Problems page: every refused line, newest first, with its beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, F, Max, QuerySet
from django.db.models.functions import Substr
from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.ingest.sources import RAW_BYTES
from dashboard.models import Problem, Project, Run, Source
from dashboard.text.params import Params
from dashboard.text.text_markup import escape, printable

PAGE_SIZE = 30
BYTES_SHOWN = 400
FILES_SHOWN = 20
FILES_COUNTED = 200


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
