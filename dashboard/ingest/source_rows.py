"""What a batch leaves of its source: the raw bytes, and the lines that were refused.

Called by `recording` within its transaction, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyzstd

from dashboard.models import Observation, Problem, Source, SourceChunk
from dashboard.text.column_values import column_text
from envelopes.recordings.base import LineProblem, SourceLine

RAW_SHOWN = 65_536  # of a refused line; the whole stays in the source's chunks
LEVEL = 3
NOT_READ = "kept and shown as recorded, but not understood: "


class SourceMoved(RuntimeError):
    """Another process read this source meanwhile; nothing of the batch was written."""


def save_new(source: Source, *, is_known: Callable[[], bool]) -> None:
    """The file may have been refused before, while it was a stump that no reader knew."""
    if is_known():
        raise SourceMoved(f"{source.path} was begun by another process")
    Problem.objects.filter(project=source.project_id, source=None, file=source.path).delete()
    source.save(force_insert=True)


def claim(source: Source, *, start: int) -> None:
    """Locks the source's row, so that two imports of one file cannot both go on from `start`."""
    stored = Source.objects.select_for_update().filter(pk=source.pk).first()
    if stored is None:
        raise SourceMoved(f"{source.path} was forgotten meanwhile")
    if stored.offset != start:
        raise SourceMoved(f"{source.path} is at byte {stored.offset}, the batch starts at {start}")
    source.left_bytes = stored.left_bytes  # the other may have met the beginning of a line


def keep_raw(source: Source, lines: Sequence[SourceLine]) -> None:
    if not lines:
        return
    raw = b"".join(line.raw for line in lines)
    first = lines[0]
    SourceChunk.objects.create(
        source=source, offset=first.offset, size=len(raw), first_line=first.number, data=pyzstd.compress(raw, LEVEL)
    )


def keep_refusals(
    source: Source, refusals: Sequence[LineProblem], lines: Sequence[SourceLine], incomplete: SourceLine | None
) -> None:
    """An incomplete last line is a problem only until its end arrives."""
    if source.left_bytes:
        source.problems.filter(is_incomplete=True).delete()
    raws = {line.number: line.raw for line in lines}
    rows = [_problem(source, one.line, one.path, one.reason, raws.get(one.line, one.raw)) for one in refusals]
    if incomplete is not None:
        size = len(incomplete.raw)
        reason = f"incomplete last line: {size} bytes without their end; it is read when the rest is there"
        rows.append(_problem(source, incomplete.number, "$", reason, incomplete.raw))
        rows[-1].is_incomplete = True
    Problem.objects.bulk_create(rows)


def keep_notes(calls: Sequence[tuple[str, Observation, str]], source: Source) -> None:
    """What a mapping could not read of each call: its own id, what was read, and the note, empty for nothing.

    Told once however often a call is read again. The line was accepted and its bytes are kept: such a
    problem refuses nothing.
    """
    noted = {(one.source_id or source.pk, one.line, _place(call)): (one, note) for call, one, note in calls}
    sources = {of for of, _, _ in noted}
    found = Problem.objects.filter(source__in=sources, path__in={place for _, _, place in noted})
    stale = [pk for pk, *key in found.values_list("pk", "source_id", "line", "path") if tuple(key) in noted]
    Problem.objects.filter(pk__in=stale).delete()
    named = Source.objects.in_bulk(sources)
    Problem.objects.bulk_create(
        _problem(named[key[0]], key[1], key[2], f"{NOT_READ}{note}", bytes(one.data))
        for key, (one, note) in noted.items()
        if note
    )


def _place(call: str) -> str:
    return column_text(f"call {call}", 500)


def _problem(source: Source, line: int, path: str, reason: str, raw: bytes) -> Problem:
    return Problem(
        project_id=source.project_id,
        source=source,
        file=source.path,
        line=line,
        path=column_text(path, 500),
        reason=column_text(reason, 1000),
        raw=raw[:RAW_SHOWN],
        raw_size=len(raw),
    )
