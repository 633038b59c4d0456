"""A file on disk, and which source it is: found again by its bytes, read from where it stood.

`Source.prefix_sha256` covers the first 4 KiB and the last 4 KiB before the offset. A followed file
is therefore known again without reading it; a fork that copies another's beginning is not mistaken
for it, because its name differs and it goes on where the other ends.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dashboard.models import Project, Source
from envelopes.recordings.base import SourceLine

WINDOW = 4_096
HEAD_BYTES = 65_536
LONGEST_LINE = 64 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 4_000


class LineTooLong(ValueError):
    """A line passes 64 MiB. It is refused and the next one is read."""


@dataclass(frozen=True)
class Stretch:
    """Whole lines, and behind them the start of one that has no newline yet."""

    lines: list[SourceLine]
    rest: SourceLine | None
    too_long: frozenset[int]


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
    """The file from `offset` on, in stretches of about 4 MiB; `number` is that of the next line."""
    file.seek(offset)
    lines: list[SourceLine] = []
    too_long: set[int] = set()
    size = 0
    while raw := file.readline(LONGEST_LINE):
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            raw = _skip_line(file, raw)
            too_long.add(number)
        line = SourceLine(number, offset, raw)
        offset = file.tell()
        if not raw.endswith(b"\n"):
            yield Stretch(lines, line, frozenset(too_long))
            return
        lines.append(line)
        number, size = number + 1, size + len(raw)
        if size >= BATCH_BYTES or len(lines) >= BATCH_LINES:
            yield Stretch(lines, None, frozenset(too_long))
            lines, too_long, size = [], set(), 0
    if lines:
        yield Stretch(lines, None, frozenset(too_long))


def _skip_line(file: BinaryIO, start: bytes) -> bytes:
    """Reads on to the newline and keeps only the first 64 KiB, marked as the beginning of the line."""
    while (raw := file.readline(LONGEST_LINE)) and not raw.endswith(b"\n"):
        continue
    return start[:HEAD_BYTES] + (b"\n" if raw else b"")


def recordings_under(paths: list[Path]) -> Iterator[tuple[Path, bool]]:
    """Files to try, parents before their subfolders; the flag says that the file was named itself."""
    for path in paths:
        if not path.is_dir():
            yield path, True
            continue
        found = [
            Path(folder) / name
            for folder, _, names in os.walk(path, followlinks=False)
            for name in names
            if name.endswith(".jsonl") or name == "run.json"
        ]
        for one in sorted(found, key=lambda each: (len(each.parts), each.name != "run.json", str(each))):
            yield one, False
