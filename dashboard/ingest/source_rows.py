"""A source's own rows: the source, its raw bytes, and the lines that were refused.

Called by `write` within its transaction, but for `new_source` and `refuse_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyzstd

from dashboard.models import Observation, Problem, Project, Source, SourceChunk
from dashboard.text.column_values import column_text
from envelopes.recordings import find_format
from envelopes.recordings.base import LineProblem, SourceLine

RAW_BYTES = 65_536  # stored with a refused line; the whole line is in the source's chunks
ZSTD_LEVEL = 3
NOT_MAPPED = "stored and shown as recorded, but not understood: "


class SourceMoved(RuntimeError):
    """Another process read this source meanwhile; nothing of the batch was written."""


def new_source(project: Project, *, path: str, format_name: str, inode: int, head_sha256: str) -> Source:
    """Not saved yet: its first batch saves it, so that a source and its rows are one commit."""
    return Source(
        project=project,
        path=column_text(path, 1024),
        format=format_name,
        namespace=find_format(format_name).namespace,
        inode=inode,
        head_sha256=head_sha256,
    )


def save_new(source: Source, *, is_known: Callable[[], bool]) -> None:
    """Saves it, and deletes the problems of the same file from when no reader knew it yet.

    Raises SourceMoved when `is_known`: another process has begun the same source.
    """
    if is_known():
        raise SourceMoved(f"{source.path} was begun by another process")
    Problem.objects.filter(project=source.project_id, source=None, file=source.path).delete()
    source.save(force_insert=True)


def claim(source: Source, *, start: int) -> None:
    """Locks the source's row, so that two imports of one file cannot both continue from `start`."""
    stored = Source.objects.select_for_update().filter(pk=source.pk).first()
    if stored is None:
        raise SourceMoved(f"{source.path} was deleted meanwhile")
    if stored.offset != start:
        raise SourceMoved(f"{source.path} is at byte {stored.offset}, the batch starts at {start}")
    source.left_bytes = stored.left_bytes  # another process may have read the beginning of a line


def store_raw(source: Source, lines: Sequence[SourceLine]) -> None:
    if not lines:
        return
    raw = b"".join(line.raw for line in lines)
    data = pyzstd.compress(raw, ZSTD_LEVEL)
    SourceChunk.objects.create(
        source=source, offset=lines[0].offset, size=len(raw), first_line=lines[0].number, data=data
    )


def store_problems(
    source: Source, problems: Sequence[LineProblem], lines: Sequence[SourceLine], incomplete: SourceLine | None
) -> None:
    """An incomplete last line is a problem only until its end is written."""
    if source.left_bytes:
        source.problems.filter(is_incomplete=True).delete()
    raw_by_line = {line.number: line.raw for line in lines}
    rows = [
        _problem(source, problem.line, problem.path, problem.reason, raw_by_line.get(problem.line, problem.raw))
        for problem in problems
    ]
    if incomplete is not None:
        size = len(incomplete.raw)
        reason = f"incomplete last line: {size} bytes without their end; it is read when the rest is there"
        rows.append(_problem(source, incomplete.number, "$", reason, incomplete.raw))
        rows[-1].is_incomplete = True
    Problem.objects.bulk_create(rows)


def store_notes(calls: Sequence[tuple[str, Observation, str]], source: Source) -> None:
    """Stores what a mapping could not read: (the call's own id, the observation, a note that may be empty).

    Replaces earlier notes of the same calls. The line was accepted and its bytes are stored: such a problem refuses
    nothing.
    """
    notes = {
        (observation.source_id or source.pk, observation.line, column_text(f"call {call}", 500)): (observation, note)
        for call, observation, note in calls
    }
    sources = Source.objects.in_bulk({source_id for source_id, _, _ in notes})
    stored = Problem.objects.filter(source__in=sources, path__in={path for _, _, path in notes})
    stale = [pk for pk, *key in stored.values_list("pk", "source_id", "line", "path") if tuple(key) in notes]
    Problem.objects.filter(pk__in=stale).delete()
    Problem.objects.bulk_create(
        _problem(sources[source_id], line, path, f"{NOT_MAPPED}{note}", bytes(observation.data))
        for (source_id, line, path), (observation, note) in notes.items()
        if note
    )


def _problem(source: Source, line: int, path: str, reason: str, raw: bytes) -> Problem:
    return Problem(
        project_id=source.project_id,
        source=source,
        file=source.path,
        line=line,
        path=column_text(path, 500),
        reason=column_text(reason, 1000),
        raw=raw[:RAW_BYTES],
        raw_size=len(raw),
    )


def refuse_file(project: Project, *, path: str, reason: str, raw: bytes) -> None:
    """Stores a problem for a whole file that no reader knows, once however often the file is imported."""
    key = {"project": project, "file": column_text(path, 1024), "reason": column_text(reason, 1000), "line": 0}
    if not Problem.objects.filter(**key).exists():
        Problem.objects.create(**key, path="$", raw=raw[:RAW_BYTES], raw_size=len(raw))
