"""Windows of a full output, however large: by line, from the end, by percent, by byte.

A window is at most 400 lines and 64 KiB. A line longer than that is shown in stretches, each a
window by bytes within the line. Bytes are read as UTF-8; what is not UTF-8 is shown as marks.

The content is found by the artifact's row and never by a path from a request: a field of a recorded
result, or a regular file named by its own hash in the artifact store, opened without following links.
"""

from __future__ import annotations

import io
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from dashboard.call_surfaces import surfaces_of
from dashboard.inert import Html, inert
from dashboard.models import Artifact
from envelopes.pointer import text_at
from envelopes.preview import Cut
from envelopes.untrusted import tame

LINES = 400
BYTES = 64 * 1024
CHUNK = 1024 * 1024
SNIFFED = 8 * 1024
HEX_SHOWN = 512
SHA256 = re.compile("[0-9a-f]{64}")


class Missing(Exception):
    """The content is not in the store: its recording named it but did not hold it, or it was taken away."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line, or a stretch of one. `seen` is None where nothing says whether the model got it."""

    number: int
    html: Html
    seen: bool | None
    is_continued: bool = False  # begins inside the line


@dataclass(frozen=True, kw_only=True)
class ArtifactWindow:
    """Bytes [start, end) of `size`; `first` and `last` are line numbers. Empty content has no rows."""

    rows: tuple[Row, ...]
    start: int
    end: int
    size: int
    first: int
    last: int
    ends_in_line: bool
    dump: str = ""

    @property
    def is_binary(self) -> bool:
        return bool(self.dump)

    @property
    def percent(self) -> int:
        return self.start * 100 // self.size if self.size else 0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a window is asked for: one of them counts, in this order."""

    offset: int | None = None
    line: int | None = None
    percent: int | None = None
    is_tail: bool = False


def content_of(artifact: Artifact) -> BinaryIO:
    """The content as a stream that can seek. Raises Missing."""
    return _field_stream(artifact) if artifact.observation_id is not None else _file_stream(artifact)


def _field_stream(artifact: Artifact) -> BinaryIO:
    document = tame(bytes(artifact.observation.data)) if artifact.observation else None
    text = text_at(document, artifact.pointer)
    if text is None:
        raise Missing(artifact.pointer)
    return io.BytesIO(text.encode("utf-8", "surrogatepass"))


def _file_stream(artifact: Artifact) -> BinaryIO:
    if artifact.state != Artifact.State.PRESENT or not SHA256.fullmatch(artifact.sha256):
        raise Missing(artifact.path)
    try:
        folder = os.open(Path(settings.ARTIFACTS) / artifact.sha256[:2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise Missing(artifact.sha256) from None
    try:
        descriptor = os.open(artifact.sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        raise Missing(artifact.sha256) from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Missing(artifact.sha256)
    return os.fdopen(descriptor, "rb")


def seen_of(artifact: Artifact) -> Cut | None:
    """Which lines of the field the standing receipt shows; None when nothing says so."""
    if artifact.observation_id is None:
        return None
    surfaces = surfaces_of(artifact.call, {"result": str(artifact.observation_id)})
    if surfaces.halves.receipt is None:
        return None
    return next((one.cut for one in surfaces.halves.outputs if one.field.pointer == artifact.pointer), None)


def read_window(stream: BinaryIO, place: Place, seen: Cut | None) -> ArtifactWindow:
    size = stream.seek(0, os.SEEK_END)
    head = _read(stream, 0, SNIFFED)
    if b"\0" in head and _looks_binary(head):
        return _window([], 0, 0, size, 1, dump=_hex_dump(head[:HEX_SHOWN]))
    start, number = _found(stream, size, place)
    data = _whole_characters(_read(stream, start, BYTES), is_end=start + BYTES >= size)
    data = _whole_lines(data, is_end=start + len(data) >= size)
    return _rows(stream, data, start, size, number, seen)


def _looks_binary(head: bytes) -> bool:
    """Text with a stray NUL is still text: one byte in a hundred may be a control character."""
    control = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head)
    return control * 100 > len(head)


def _found(stream: BinaryIO, size: int, place: Place) -> tuple[int, int]:
    """The byte where the window starts and the number of its line."""
    if place.offset is not None:
        start = _character_start(stream, min(place.offset, size))
        return start, _line_of(stream, start)
    if place.line is not None:
        return _start_of_line(stream, size, place.line)
    if place.percent is not None:
        start = _line_start_near(stream, size * min(place.percent, 100) // 100)
        return start, _line_of(stream, start)
    if place.is_tail:
        return _tail(stream, size)
    return 0, 1


def _start_of_line(stream: BinaryIO, size: int, line: int) -> tuple[int, int]:
    """The last line when there are fewer."""
    number, start = 1, 0
    for at, chunk in _chunks(stream):
        newlines = chunk.count(b"\n")
        if number + newlines < line:
            number += newlines
            start = at + chunk.rfind(b"\n") + 1 if newlines else start
            continue
        within = -1
        while number < line:
            within = chunk.index(b"\n", within + 1)
            number += 1
            start = at + within + 1
        break
    return (start, number) if start < size or size == 0 else _tail(stream, size, lines=1)


def _tail(stream: BinaryIO, size: int, *, lines: int = LINES) -> tuple[int, int]:
    begin = max(0, size - BYTES)
    data = _read(stream, begin, BYTES)
    at = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            break
    start = _character_start(stream, begin) if at < 0 and begin else begin + at + 1
    return start, _line_of(stream, start)


def _line_start_near(stream: BinaryIO, offset: int) -> int:
    """The start of the line at `offset`, when that is near; else the character there."""
    begin = max(0, offset - BYTES)
    newline = _read(stream, begin, offset - begin).rfind(b"\n")
    if newline >= 0 or begin == 0:
        return begin + newline + 1
    return _character_start(stream, offset)


def _line_of(stream: BinaryIO, offset: int) -> int:
    return 1 + sum(chunk[: max(0, offset - at)].count(b"\n") for at, chunk in _chunks(stream, offset))


def _chunks(stream: BinaryIO, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    stream.seek(0)
    at = 0
    while (end is None or at < end) and (chunk := stream.read(CHUNK)):
        yield at, chunk
        at += len(chunk)


def _read(stream: BinaryIO, start: int, count: int) -> bytes:
    stream.seek(start)
    return stream.read(count)


def _character_start(stream: BinaryIO, offset: int) -> int:
    """Back to the first byte of the character that `offset` falls into."""
    before = _read(stream, max(0, offset - 3), min(3, offset))
    here = _read(stream, offset, 1)
    if not here or here[0] & 0xC0 != 0x80:
        return offset
    for back in range(1, len(before) + 1):
        if before[-back] & 0xC0 != 0x80:
            return offset - back
    return offset


def _whole_characters(data: bytes, *, is_end: bool) -> bytes:
    if is_end:
        return data
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] & 0xC0 == 0x80:
            continue
        return data[:-back] if data[-back] >= 0xC0 else data
    return data


def _whole_lines(data: bytes, *, is_end: bool) -> bytes:
    """At most so many lines; the last one whole where that leaves any."""
    at = -1
    for _ in range(LINES):
        at = data.find(b"\n", at + 1)
        if at < 0:
            break
    if at >= 0:
        return data[: at + 1]
    newline = data.rfind(b"\n")
    return data if is_end or newline < 0 else data[: newline + 1]


def _rows(stream: BinaryIO, data: bytes, start: int, size: int, number: int, seen: Cut | None) -> ArtifactWindow:
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    is_continued = start > 0 and _read(stream, start - 1, 1) != b"\n"
    rows = [
        Row(
            number=number + index,
            html=Html(inert(line)),
            seen=None if seen is None else _is_seen(seen, number + index - 1),
            is_continued=is_continued and index == 0,
        )
        for index, line in enumerate(lines)
    ]
    end = start + len(data)
    return _window(rows, start, end, size, number, ends_in_line=end < size and not data.endswith(b"\n"))


def _window(
    rows: list[Row], start: int, end: int, size: int, number: int, *, dump: str = "", ends_in_line: bool = False
) -> ArtifactWindow:
    return ArtifactWindow(
        rows=tuple(rows),
        start=start,
        end=end,
        size=size,
        first=number,
        last=number + max(0, len(rows) - 1),
        ends_in_line=ends_in_line,
        dump=dump,
    )


def _is_seen(cut: Cut, index: int) -> bool:
    at = bisect_right(cut.shown, index, key=lambda span: span[0]) - 1
    return at >= 0 and index < cut.shown[at][1]


def _hex_dump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines)
