"""The Problems page: every line that was refused, newest first, with the beginning of what it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, F, Max, QuerySet
from django.db.models.functions import Substr
from django.urls import reverse
from django.utils.safestring import SafeString

from dashboard.models import Problem, Project, Run, Source
from dashboard.text.escaping import printable
from dashboard.text.text_markup import escape

PAGE = 30
BYTES_SHOWN = 400
FILES_SHOWN = 20
BIGGEST_ID = 2**63 - 1


class FileRun(NamedTuple):
    url: str
    title: str


@dataclass(frozen=True)
class ProblemRow:
    file: str
    place: str
    reason: str
    is_incomplete: bool
    preview: SafeString
    shown: int  # bytes of the line in the preview
    kept: int  # bytes that are stored
    size: int  # bytes that the line has
    raw_url: str
    found_at: datetime
    run: FileRun | None  # the first of those that the rest of the file belongs to
    is_past: bool  # the file was another when it was read again


@dataclass(frozen=True)
class FileChoice:
    label: str  # the end of the path, which tells files apart
    path: str
    count: int
    href: str
    is_current: bool


@dataclass(frozen=True)
class ProblemPage:
    rows: Sequence[ProblemRow]
    files: Sequence[FileChoice]
    files_left_out: int
    total: int  # of the project, in the files that are listed
    file: str
    next_href: str
    first_href: str
    refusal: str


def problem_page(project: Project, parameters: Mapping[str, str]) -> ProblemPage:
    """`file` is the whole path as it was taken in, `after` the id of the last problem of the page before."""
    file = parameters.get("file", "").replace("\0", "")
    after, refusal = _position(parameters.get("after", ""))
    found = _selected(project, file, after)
    files = _files(project)
    runs = _runs({problem.source_id for problem in found[:PAGE] if problem.source_id})
    newest = _newest_sources(project, {problem.file for problem in found[:PAGE]})
    return ProblemPage(
        rows=[_row(problem, runs.get(problem.source_id or 0), newest) for problem in found[:PAGE]],
        files=[_choice(path, number, file) for path, number in files[:FILES_SHOWN]],
        files_left_out=max(0, len(files) - FILES_SHOWN),
        total=sum(number for _, number in files),
        file=printable(file),
        next_href=_address(file, after=found[PAGE - 1].pk) if len(found) > PAGE else "",
        first_href=_address(file) if after else "",
        refusal=refusal,
    )


def _selected(project: Project, file: str, after: int | None) -> list[Problem]:
    """A row more than a page. Of the raw bytes only the beginning is read."""
    problems: QuerySet[Problem] = project.problems.defer("raw").annotate(head=Substr("raw", 1, BYTES_SHOWN))
    if file:
        problems = problems.filter(file=file)
    if after is not None:
        problems = problems.filter(pk__lt=after)
    return list(problems.order_by("-pk")[: PAGE + 1])


def _files(project: Project) -> list[tuple[str, int]]:
    counted = project.problems.values_list("file").annotate(number=Count("pk")).order_by("-number", "file")
    return [(file, number) for file, number in counted[: FILES_SHOWN * 10]]


def _runs(sources: set[int]) -> dict[int, FileRun]:
    """By source: its oldest run that is no child, else its oldest."""
    ordered = Run.objects.order_by(F("parent").asc(nulls_first=True), "sort_at", "pk")
    held = ordered.filter(sources__in=sources).values_list("sources__pk", "pk", "title", "external_id")
    found: dict[int, FileRun] = {}
    for source, pk, title, external_id in held:
        found.setdefault(source, FileRun(reverse("run-detail", args=[pk]), printable(title or external_id)))
    return found


def _newest_sources(project: Project, files: set[str]) -> dict[str, int]:
    """By path: a file that was replaced or mended is a source of its own, and the one before it is past."""
    found = Source.objects.filter(project=project, path__in=files).values_list("path").annotate(newest=Max("pk"))
    return dict(found.order_by("path"))


def _position(text: str) -> tuple[int | None, str]:
    if not text:
        return None, ""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= BIGGEST_ID:
        return int(text), ""
    return None, "This address names a place in the list that does not exist; these are the newest problems."


def _address(file: str, *, after: int | None = None) -> str:
    kept = {name: value for name, value in (("file", file), ("after", after)) if value}
    return "?" + urlencode(kept)


def _choice(path: str, number: int, current: str) -> FileChoice:
    is_current = path == current
    label = "/".join(path.rsplit("/", 2)[-2:])
    return FileChoice(
        printable(label), printable(path), number, reverse("problem-list") if is_current else _address(path), is_current
    )


def _place(problem: Problem) -> str:
    """Line 0 is no line: nothing of that file was taken in."""
    if problem.line == 0:
        return "the whole file"
    return f"line {problem.line}" + (f", {printable(problem.path)}" if problem.path not in ("", "$") else "")


def _row(problem: Problem, run: FileRun | None, newest: Mapping[str, int]) -> ProblemRow:
    head = bytes(problem.head or b"")  # type: ignore[attr-defined]  # the annotation of _selected; of nothing, NULL
    return ProblemRow(
        file=printable(problem.file),
        place=_place(problem),
        reason=printable(problem.reason),
        is_incomplete=problem.is_incomplete,
        preview=escape(head.decode("utf-8", "backslashreplace")),
        shown=len(head),
        kept=min(problem.raw_size, 65_536),
        size=problem.raw_size,
        raw_url=reverse("problem-raw", args=[problem.pk]),
        found_at=problem.created_at,
        run=run,
        is_past=problem.source_id is not None and newest.get(problem.file, 0) > problem.source_id,
    )
