"""A file on disk, and which source it is: found again by its bytes, read from where it stood.

`Source.prefix_sha256` covers the first 4 KiB and the last 4 KiB before the offset. A followed file
is therefore known again without reading it; a fork that copies another's beginning is not mistaken
for it, because its name differs and it goes on where the other ends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dashboard.artifacts.ingest import RESULTS_FOLDER
from dashboard.models import Project, Source
from dashboard.text.column_values import column_text
from envelopes.recordings.base import SourceLine

LONGEST_PATH = 1_024
WINDOW = 4_096
HEAD_BYTES = 65_536
LATER_HEADS = 16
LONGEST_LINE = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 4_000


class NoRegularFile(OSError):
    """A folder, pipe, socket or device: it cannot be read again from where it stood."""


@dataclass(frozen=True)
class Stretch:
    """Whole lines, and behind them the start of one that has no newline yet."""

    lines: list[SourceLine]
    rest: SourceLine | None
    is_too_long: bool = False  # its only line passes 64 MiB, and only the beginning of it is here


def open_regular(path: Path) -> BinaryIO:
    """Never waits: a pipe without a writer is refused, not read. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NoRegularFile(errno.EINVAL, "not a regular file; save what it gives as a file and import that")


def prefix_sha256(file: BinaryIO, offset: int) -> str:
    digest = hashlib.sha256()
    descriptor = file.fileno()
    digest.update(os.pread(descriptor, min(WINDOW, offset), 0))
    start = max(0, offset - WINDOW)
    digest.update(os.pread(descriptor, offset - start, start))
    return digest.hexdigest()


def head_sha256(head: bytes) -> str:
    return hashlib.sha256(head.split(b"\n", 1)[0][:WINDOW]).hexdigest()


def find_source(project: Project, path: str, file: BinaryIO, head: bytes) -> Source | None:
    """The source that this file continues, or is a copy of; None for a file not met before."""
    size = os.fstat(file.fileno()).st_size
    path = column_text(path, LONGEST_PATH)
    for candidate in Source.objects.filter(project=project, path=path).order_by("-id"):
        if candidate.offset == 0 or _is_prefix(candidate, file, size):
            return candidate
    for candidate in Source.objects.filter(project=project, head_sha256=head_sha256(head)).order_by("-id")[:50]:
        is_same_name = candidate.name == path.rsplit("/", 1)[-1]
        if (is_same_name or candidate.offset == size) and _is_prefix(candidate, file, size):
            return candidate
    return None


def _is_prefix(source: Source, file: BinaryIO, size: int) -> bool:
    return 0 < source.offset <= size and prefix_sha256(file, source.offset) == source.prefix_sha256


def stretches(file: BinaryIO, *, offset: int, number: int) -> Iterator[Stretch]:
    """The file from `offset` on, in stretches of about 4 MiB; `number` is that of the next line.

    A line that is too long is a stretch of its own: what is kept of it is not as long as it was.
    """
    file.seek(offset)
    lines: list[SourceLine] = []
    size = 0
    while raw := file.readline(LONGEST_LINE):
        is_too_long = len(raw) == LONGEST_LINE and not raw.endswith(b"\n")
        if lines and (is_too_long or size + len(raw) > BATCH_BYTES or len(lines) >= BATCH_LINES):
            yield Stretch(lines, None)
            lines, size = [], 0
        line = SourceLine(number, offset, _skip_line(file, raw) if is_too_long else raw)
        offset = file.tell()
        if not line.raw.endswith(b"\n"):
            yield Stretch(lines, line)
            return
        if is_too_long:
            yield Stretch([line], None, is_too_long=True)
        else:
            lines.append(line)
            size += len(raw)
        number += 1
    if lines:
        yield Stretch(lines, None)


def _skip_line(file: BinaryIO, start: bytes) -> bytes:
    """Reads on to the newline and keeps only the first 64 KiB, marked as the beginning of the line."""
    while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n"):
        continue
    return start[:HEAD_BYTES] + (b"\n" if raw else b"")


def later_heads(file: BinaryIO) -> Iterator[bytes]:
    """What begins at the first line behind the first 64 KiB, and so on: a few more looks at a file, 64 KiB each."""
    file.seek(HEAD_BYTES - 1)
    for _ in range(LATER_HEADS):
        while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n") and file.tell() < LONGEST_LINE:
            continue
        if not (head := file.read(HEAD_BYTES)):
            return
        yield head
        file.seek(-1, os.SEEK_CUR)


def is_recording(name: str, folder: str) -> bool:
    """By its name. The outputs that a session keeps beside itself are none, though they may be lines of JSON."""
    return (name.endswith(".jsonl") or name == "run.json") and folder != RESULTS_FOLDER


def recordings_under(paths: list[Path]) -> Iterator[tuple[Path, bool]]:
    """Files to try, parents before their subfolders; the flag says that the file was named itself.

    A folder that cannot be listed is yielded like a file: opening it fails with the reason.
    """
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        closed: list[OSError] = []
        found = [
            Path(folder) / name
            for folder, _, names in os.walk(path, onerror=closed.append, followlinks=False)
            for name in names
            if is_recording(name, Path(folder).name)
        ]
        found += [Path(os.fsdecode(error.filename)) for error in closed]
        for one in sorted(found, key=lambda each: (len(each.parts), each.name != "run.json", str(each))):
            yield one, False
