"""Sources: which files on disk are recordings, their lines in batches, and the rows that a source has.

`Source.prefix_sha256` covers the first 4 KiB and the last 4 KiB before the offset, so a followed file is recognised
without reading it. A fork that copies the beginning of another file is not mistaken for it: its name differs, and it
continues where the other ends. `write` stores the rows within its transaction; `new_source` and `refuse_file` do not
need it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from dashboard.artifacts.ingest import ARTIFACTS_FOLDER, RESULTS_FOLDER
from dashboard.ingest.bulk import bulk_insert, unsaved_row
from dashboard.models import Event, Message, Observation, Problem, Project, RequestUsage, Source, SourceFrame
from dashboard.models.sources import FRAME_BYTES
from dashboard.text.formatting import column_text
from envelopes.recordings import UnknownFormat, detect_format, find_format
from envelopes.recordings.base import Format, LineProblem, SourceLine, SourcePath
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank
from envelopes.text.untrusted_json import Untrusted, parse_json, split_objects

PATH_CHARACTERS = 1_024
WINDOW_BYTES = 4_096
HEAD_BYTES = 65_536
LATER_HEADS = 16
MAX_LINE_BYTES = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 4_000
# Of an audit folder: the run comes first, the usage of requests after the receipts that it is compared with.
IMPORT_ORDER = {"run.json": 0, "messages.jsonl": 2}
NO_RECORDING = "no reader takes it: a recording is a .jsonl file, or the run.json of an audit folder"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zX")
RAW_BYTES = 65_536  # stored with a refused line; the whole line is in the source's frames
NOT_MAPPED = "stored and shown as recorded, but not understood: "


class NotARegularFile(OSError):
    """A folder, pipe, socket or device: it cannot be read again from an offset."""


@dataclass(frozen=True)
class LineBatch:
    """Consecutive whole lines up to the byte `end`; `incomplete` is a last line without its end, behind them.

    `is_too_long`: the only line is longer than MAX_LINE_BYTES, and only its beginning is here.
    """

    lines: list[SourceLine]
    end: int
    incomplete: SourceLine | None = None
    is_too_long: bool = False


def open_regular(path: Path) -> BinaryIO:
    """Never waits: a pipe without a writer is refused, not read. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotARegularFile(errno.EINVAL, "not a regular file; save what it gives as a file and import that")


def is_recording(name: str, folder: str) -> bool:
    """By the file's name. Outputs that a session stores beside itself are not, though they may be lines of JSON."""
    return (name.endswith(".jsonl") or name == "run.json") and folder != RESULTS_FOLDER


def find_recordings(paths: list[Path]) -> Iterator[tuple[Path, bool]]:
    """The files to import, those of a folder before those of its subfolders. The flag: the path was given itself.

    A folder that cannot be listed is yielded like a file, so that opening it fails with the reason.
    """
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        errors: list[OSError] = []
        files = [
            Path(folder) / name
            for folder, _, names in os.walk(path, onerror=errors.append, followlinks=False)
            for name in names
            if is_recording(name, Path(folder).name)
        ]
        files += [Path(os.fsdecode(error.filename)) for error in errors]
        for file in sorted(files, key=lambda file: (len(file.parts), IMPORT_ORDER.get(file.name, 1), str(file))):
            yield file, False


def find_other_files(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """The files in these folders that no reader takes, with the reason, but for stored outputs."""
    for path in paths:
        for folder, _, names in os.walk(path, followlinks=False):
            is_output = Path(folder).name in (RESULTS_FOLDER, ARTIFACTS_FOLDER)
            for name in () if is_output else sorted(names):
                if not is_recording(name, Path(folder).name):
                    yield Path(folder) / name, NO_RECORDING


def prefix_sha256(file: BinaryIO, offset: int) -> str:
    digest = hashlib.sha256()
    descriptor = file.fileno()
    digest.update(os.pread(descriptor, min(WINDOW_BYTES, offset), 0))
    start = max(0, offset - WINDOW_BYTES)
    digest.update(os.pread(descriptor, offset - start, start))
    return digest.hexdigest()


def head_sha256(head: bytes) -> str:
    return hashlib.sha256(head.split(b"\n", 1)[0][:WINDOW_BYTES]).hexdigest()


def find_source(project: Project, path: str, file: BinaryIO, head: bytes) -> Source | None:
    """The source that this file continues, or is a copy of; None for a new one."""
    size = os.fstat(file.fileno()).st_size
    path = column_text(path, PATH_CHARACTERS)
    sources = Source.objects.filter(project=project, is_partial=False)
    for candidate in sources.filter(path=path).order_by("-id"):
        if candidate.offset == 0 or _is_prefix(candidate, file, size):
            return candidate
    for candidate in sources.filter(head_sha256=head_sha256(head)).order_by("-id")[:50]:
        is_same_name = candidate.name == path.rsplit("/", 1)[-1]
        if (is_same_name or candidate.offset == size) and _is_prefix(candidate, file, size):
            return candidate
    return None


def _is_prefix(source: Source, file: BinaryIO, size: int) -> bool:
    return 0 < source.offset <= size and prefix_sha256(file, source.offset) == source.prefix_sha256


def read_line_batches(file: BinaryIO, *, offset: int, number: int) -> Iterator[LineBatch]:
    """The lines from `offset` on, in batches of about 4 MiB; `number` is that of the first line.

    A line that is too long is a batch of its own, because its length differs from that of its stored beginning.
    """
    file.seek(offset)
    lines: list[SourceLine] = []
    size = 0
    while raw := file.readline(MAX_LINE_BYTES):
        is_too_long = len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n")
        if lines and (is_too_long or size + len(raw) > BATCH_BYTES or len(lines) >= BATCH_LINES):
            yield LineBatch(lines, offset)
            lines, size = [], 0
        line = SourceLine(number, offset, _skip_line(file, raw) if is_too_long else raw)
        if not line.raw.endswith(b"\n"):
            if _is_whole_json(line.raw):
                yield LineBatch([*lines, line], offset + len(line.raw))
            else:
                yield LineBatch(lines, offset, incomplete=line)
            return
        offset = file.tell()
        number += 1
        if is_too_long:
            yield LineBatch([line], offset, is_too_long=True)
        else:
            lines.append(line)
            size += len(raw)
    if lines:
        yield LineBatch(lines, offset)


def _skip_line(file: BinaryIO, start: bytes) -> bytes:
    """Reads on to the newline; returns only the first 64 KiB, with the newline of the line."""
    while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n"):
        continue
    return start[:HEAD_BYTES] + (b"\n" if raw else b"")


def _is_whole_json(raw: bytes) -> bool:
    """A last line without a newline is whole when it is one JSON object or array, with NaN in it or not, or several."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    if not raw.rstrip().endswith((b"}", b"]")):
        return False
    with suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=msgspec.Raw)
        return True
    if len(split_objects(raw)) > 1:
        return True
    try:
        parse_json(raw)
    except Untrusted:
        return False
    return True


def detect_file_format(file: BinaryIO, head: bytes, path: SourcePath) -> Format:
    """Detects it by the first lines or, when those are too long or damaged, by later ones. Raises UnknownFormat."""
    try:
        return detect_format(head, path)
    except UnknownFormat:
        for later in _later_heads(file):
            with suppress(UnknownFormat):
                return detect_format(later, path)
        raise


def _later_heads(file: BinaryIO) -> Iterator[bytes]:
    """64 KiB from the first line behind the first 64 KiB, and so on: a few more looks at the file."""
    file.seek(HEAD_BYTES - 1)
    for _ in range(LATER_HEADS):
        while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n") and file.tell() < MAX_LINE_BYTES:
            continue
        if not (head := file.read(HEAD_BYTES)):
            return
        yield head
        file.seek(-1, os.SEEK_CUR)


def explain_unknown_format(path: Path) -> str:
    """Advice for a file of unknown format, from its first bytes; empty when they are not recognised."""
    with open_regular(path) as file:
        head = file.read(HEAD_BYTES)
    if is_blank(head):
        return "the file begins with blank lines only" if head else "the file is empty"
    if head.startswith(COMPRESSED):
        return "not a recording, it is compressed: unpack it and import what it holds"
    return "the text is UTF-16: save it as UTF-8 and import that" if head.startswith(UTF_16) else ""


def read_refused_file(path: Path) -> tuple[bytes, dict[str, int]]:
    """The beginning of a refused file and its lines by kind; nothing for a file that cannot be opened."""
    rejected = blank = 0
    try:
        with open_regular(path) as file:
            raw = file.read(HEAD_BYTES)
            for batch in read_line_batches(file, offset=0, number=1):
                lines = [*batch.lines, *([batch.incomplete] if batch.incomplete else [])]
                blank_lines = sum(is_blank(line.raw) for line in lines)
                rejected, blank = rejected + len(lines) - blank_lines, blank + blank_lines
    except OSError:
        return b"", {}
    return raw, {"rejected": rejected, "blank": blank}


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


class SliceLocator:
    """Finds recorded bytes in the line that they were read from."""

    def __init__(self, source: Source, lines: Sequence[SourceLine]) -> None:
        self.source = source
        self._lines = {line.number: line for line in lines}

    def columns(self, data: bytes, line: int) -> dict[str, Any]:
        """The columns of a SourceSlice with these bytes. Without a source when they are no slice of the line."""
        source_line = self._lines.get(line)
        begin = source_line.raw.find(data) if source_line else -1
        start = source_line.offset + begin if source_line and begin >= 0 else None
        own_data = data if start is None else None
        return {"source_id": self.source.pk, "start": start, "size": len(data), "own_data": own_data}


def store_frames(source: Source, lines: Sequence[SourceLine]) -> None:
    """Stores whole lines behind those that are stored. A short last frame is joined with what follows it."""
    if not lines:
        return
    offset = lines[0].offset
    pieces, first_line, start = [], lines[0].number, offset
    last = source.frames.filter(offset__gte=offset - FRAME_BYTES, offset__lt=offset).order_by("-offset").first()
    if last is not None and last.offset + last.size == offset and last.size < FRAME_BYTES:
        pieces, first_line, start = [last.data], last.first_line, last.offset
        last.delete()
    frames = []
    size = offset - start
    for line in lines:
        if pieces and size + len(line.raw) > FRAME_BYTES:
            frames.append(_frame(source, start, first_line, pieces))
            pieces, first_line, start, size = [], line.number, line.offset, 0
        pieces.append(line.raw)
        size += len(line.raw)
    frames.append(_frame(source, start, first_line, pieces))
    bulk_insert(SourceFrame, frames)


def _frame(source: Source, start: int, first_line: int, pieces: Sequence[bytes]) -> SourceFrame:
    data = b"".join(pieces)
    return unsaved_row(SourceFrame, source_id=source.pk, offset=start, size=len(data), first_line=first_line, data=data)


def trim_source(source: Source) -> None:
    """Deletes the bytes that no row refers to; the source as well when nothing of it is left.

    A frame that rows of other runs refer to stays at its offset, with zeros for the deleted bytes. Its source is
    partial from then on: its file, imported again, is a new source.
    """
    source.problems.all().delete()
    slices: list[tuple[int, int]] = []
    for model in (Observation, Message, Event, RequestUsage):
        rows = model._base_manager.filter(source=source, start__gte=0)
        slices += [(start or 0, size) for start, size in rows.values_list("start", "size")]
    slices.sort()
    position = 0
    frames = []
    for frame in source.frames.order_by("offset").defer("data"):
        end = frame.offset + frame.size
        data = bytearray(frame.size)
        is_needed = False
        while position < len(slices) and slices[position][0] < end:
            start, size = slices[position]
            part = slice(start - frame.offset, start - frame.offset + size)
            data[part] = frame.data[part]
            is_needed, position = True, position + 1
        if is_needed:
            frame.data = bytes(data)
            frame.save(update_fields=["data"])
            frames.append(frame.pk)
    source.frames.exclude(pk__in=frames).delete()
    if not frames and not source.runs.exists():
        source.delete()
        return
    source.is_partial, source.state, source.left_bytes = True, b"{}", 0
    source.save(update_fields=["is_partial", "state", "left_bytes"])


def store_problems(
    source: Source, problems: Sequence[LineProblem], lines: Sequence[SourceLine], incomplete: SourceLine | None
) -> None:
    """An incomplete last line is a problem only until its end is written."""
    if source.left_bytes:
        source.problems.filter(is_incomplete=True).delete()
    raw_by_line = {line.number: line.raw for line in lines}
    rows = []
    for problem in problems:
        raw = raw_by_line.get(problem.line, problem.raw)
        loss = Problem.Loss.PART if problem.part else Problem.Loss.LINE
        loss = Problem.Loss.NOTHING if problem.is_lossless else loss
        rows.append(_problem(source, problem.line, problem.path, problem.reason, raw, loss))
    if incomplete is not None:
        size = len(incomplete.raw)
        reason = f"incomplete last line: {size} bytes without their end; it is read when the rest is there"
        rows.append(_problem(source, incomplete.number, "$", reason, incomplete.raw))
        rows[-1].is_incomplete = True
    Problem.objects.bulk_create(rows)


def store_notes(calls: Sequence[tuple[str, Observation, str]]) -> None:
    """Stores what a mapping could not read: (the call's own id, the observation, a note that may be empty).

    Replaces earlier notes of the same calls. The line was accepted and its bytes are stored: such a problem refuses
    nothing.
    """
    notes = {
        (observation.source_id, observation.line, column_text(f"call {call}", 500)): (observation, note)
        for call, observation, note in calls
        if observation.source_id is not None
    }
    sources = Source.objects.in_bulk({source_id for source_id, _, _ in notes})
    stored = Problem.objects.filter(source__in=sources, path__in={path for _, _, path in notes})
    stale = [pk for pk, *key in stored.values_list("pk", "source_id", "line", "path") if tuple(key) in notes]
    Problem.objects.filter(pk__in=stale).delete()
    Problem.objects.bulk_create(
        _problem(sources[source_id], line, path, f"{NOT_MAPPED}{note}", bytes(observation.data), Problem.Loss.NOTHING)
        for (source_id, line, path), (observation, note) in notes.items()
        if note
    )


def _problem(
    source: Source, line: int, path: str, reason: str, raw: bytes, loss: Problem.Loss = Problem.Loss.LINE
) -> Problem:
    return Problem(
        project_id=source.project_id,
        source=source,
        file=source.path,
        line=line,
        path=column_text(path, 500),
        reason=column_text(reason, 1000),
        raw=raw[:RAW_BYTES],
        raw_size=len(raw),
        loss=loss,
    )


def refuse_file(project: Project, *, path: str, reason: str, raw: bytes) -> None:
    """Stores a problem for a whole file that no reader knows, once however often the file is imported."""
    key = {"project": project, "file": column_text(path, 1024), "reason": column_text(reason, 1000), "line": 0}
    if not Problem.objects.filter(**key).exists():
        Problem.objects.create(**key, path="$", raw=raw[:RAW_BYTES], raw_size=len(raw))
