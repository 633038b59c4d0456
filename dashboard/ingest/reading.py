"""Reads recordings in pieces: in this process, or in the pool, which reads ahead while this process writes.

What a reader makes of a file follows from the file alone, so it is the same whichever process reads it and when.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec
from django.conf import settings
from msgspec.structs import fields, force_setattr

from dashboard.ingest.source_files import (
    BATCH_BYTES,
    HEAD_BYTES,
    LineBatch,
    detect_file_format,
    file_size,
    head_sha256,
    open_regular,
    place_file,
    prefix_sha256,
    read_document_batch,
    read_line_batches,
)
from dashboard.ingest.source_frames import PackedFrame, pack_frames
from dashboard.ingest.sources import SourceBatch, find_slice
from dashboard.models import Source
from envelopes.recordings import UnknownFormat, find_format
from envelopes.recordings.base import LineProblem, Record, SourcePath
from envelopes.recordings.json_lines import is_blank

WORTH_CUTTING = 256  # bytes of a payload
PIECES_AHEAD = 2  # of one file
BYTES_AT_ONCE = BATCH_BYTES // 4  # small files are read together
RENAMED = b'"is_renamed":true'  # in the state of a reader
BYTES_AHEAD = BATCH_BYTES  # they wait in the memory of the process that writes, as lines and as records


class Piece(msgspec.Struct, frozen=True):
    """Consecutive lines of a file, what its reader made of them, and the state that it goes on from."""

    batch: LineBatch
    records: list[Record]
    problems: list[LineProblem]
    state: bytes
    prefix_sha256: str


class PayloadSlice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place in a line whose bytes a record repeats: the indexes of the record in its piece, and of its field."""

    record: int
    field: int
    start: int
    size: int
    sha256: bytes


class Opening(msgspec.Struct, frozen=True):
    """The first pieces of a file that was read from its beginning; `is_whole`: there was no more of it.

    `frames` are the lines of the first piece as the store has them. Between processes the records are without the
    payloads that their lines contain, which are two thirds of all bytes; `slices` are these, for each piece.
    """

    format: str
    inode: int
    head_sha256: str
    pieces: list[Piece]
    is_whole: bool
    frames: list[PackedFrame]
    slices: list[list[PayloadSlice]]

    def digests(self, number: int) -> dict[tuple[int, int], str]:
        """The SHA-256 of the payloads of a piece, by their first byte in the file and their size."""
        records = self.pieces[number].records
        offsets = {line.number: line.offset for line in self.pieces[number].batch.lines}
        return {
            (offsets[records[entry.record].line] + entry.start, entry.size): entry.sha256.hex()
            for entry in self.slices[number]
        }


_openings = msgspec.msgpack.Decoder(Opening)


def choose_reader(file: BinaryIO, head: bytes, path: SourcePath, format_name: str | None) -> tuple[str, bytes]:
    """The format of a file, and the state that its reader begins with. Raises UnknownFormat."""
    format_ = find_format(format_name) if format_name else detect_file_format(file, head, path)
    mark = format_.name_mark(head, path)
    return format_.name, b"{%b}" % RENAMED if mark and not _contains(file, mark) else b"{}"


def has_own_name(file: BinaryIO, head: bytes, path: SourcePath, source: Source) -> bool:
    """True where a file that was read as a copy of another run's has grown and names its own run by now."""
    if RENAMED not in source.state or os.fstat(file.fileno()).st_size <= source.offset:
        return False
    mark = find_format(source.format).name_mark(head, path)
    return not mark or _contains(file, mark)


def read_pieces(
    file: BinaryIO, format_name: str, path: SourcePath, state: bytes, *, offset: int, number: int
) -> Iterator[Piece]:
    """The pieces from the byte `offset` on; `number` is that of the first line."""
    format_ = find_format(format_name)
    read_batches = read_document_batch if format_.is_document else read_line_batches
    for batch in read_batches(file, offset=offset, number=number):
        reader_state: dict[str, object] = msgspec.json.decode(state)
        if batch.is_too_long:
            line = batch.lines[0]
            reason = f"longer than {settings.MAX_LINE_BYTES // 2**20} MiB"
            entries: list[Record | LineProblem] = [LineProblem(line=line.number, path="$", reason=reason, raw=line.raw)]
        else:
            entries = list(format_.read(iter(batch.lines), path, reader_state))
        state = msgspec.json.encode(reader_state)
        yield Piece(
            batch=batch,
            records=[entry for entry in entries if not isinstance(entry, LineProblem)],
            problems=_settle_shared_lines([entry for entry in entries if isinstance(entry, LineProblem)]),
            state=state,
            prefix_sha256=prefix_sha256(file, batch.end),
        )


def build_batch(
    source: Source, piece: Piece, counts: dict[str, int], is_known: Callable[[], bool] | None
) -> SourceBatch:
    """The piece as what is written next of its source; `counts` are the source's with this piece."""
    lines, problems = piece.batch.lines, piece.problems
    blank = sum(is_blank(line.raw) for line in lines)
    rejected = sum({problem.line: problem.lines for problem in problems if not problem.part}.values())
    return SourceBatch(
        source=source,
        is_known=is_known,
        start=source.offset,
        lines=lines,
        records=piece.records,
        problems=problems,
        end=piece.batch.end,
        accepted=len(lines) - blank - rejected,
        rejected=rejected,
        blank=blank,
        ends_open=bool(lines) and not lines[-1].raw.endswith(b"\n"),
        incomplete=piece.batch.incomplete,
        state=piece.state,
        prefix_sha256=piece.prefix_sha256,
        counts=counts,
    )


def read_openings(paths: Sequence[Path], format_name: str | None) -> list[bytes]:
    """The encoded Opening of each file; nothing for one that the importing process has to explain."""
    return [_read_opening(path, format_name) for path in paths]


def _read_opening(path: Path, format_name: str | None) -> bytes:
    try:
        with open_regular(path) as file:
            head, source_path = file.read(HEAD_BYTES), place_file(path)
            name, state = choose_reader(file, head, source_path, format_name)
            pieces = list(islice(read_pieces(file, name, source_path, state, offset=0, number=1), PIECES_AHEAD))
            inode, is_whole = os.fstat(file.fileno()).st_ino, len(pieces) < PIECES_AHEAD
        frames = pack_frames(pieces[0].batch.lines) if pieces else []
        slices = [_cut_payloads(piece) for piece in pieces]
        return msgspec.msgpack.encode(Opening(name, inode, head_sha256(head), pieces, is_whole, frames, slices))
    except (OSError, UnknownFormat, ValueError, OverflowError):
        return b""


@cache
def _payload_fields(record: type[Record]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record) if field.type in (bytes, bytes | None))


def _cut_payloads(piece: Piece) -> list[PayloadSlice]:
    """Empties the fields of the records that repeat bytes of their lines; returns where they are."""
    lines = {line.number: line.raw for line in piece.batch.lines}
    slices = []
    for index, record in enumerate(piece.records):
        raw = lines.get(record.line, b"")
        for number, name in enumerate(_payload_fields(type(record))):
            payload = getattr(record, name)
            start = find_slice(raw, payload) if payload is not None and len(payload) >= WORTH_CUTTING else -1
            if start >= 0:
                slices.append(PayloadSlice(index, number, start, len(payload), hashlib.sha256(payload).digest()))
                force_setattr(record, name, b"")
    return slices


def _restore_payloads(piece: Piece, slices: Sequence[PayloadSlice]) -> None:
    lines = {line.number: line.raw for line in piece.batch.lines}
    for entry in slices:
        record = piece.records[entry.record]
        payload = lines[record.line][entry.start : entry.start + entry.size]
        force_setattr(record, _payload_fields(type(record))[entry.field], payload)


class ReadAhead:
    """Has the pool read the files that come next, as soon as its processes are there.

    Without a pool, or where it has not begun in time, the importing process reads a file itself.
    """

    def __init__(self, pool: Executor | None, paths: Sequence[Path], format_name: str | None) -> None:
        self._pool = pool
        self._format = format_name
        self._waiting = deque(dict.fromkeys(paths) if pool else ())  # those that come next, not asked for yet
        self._asked: dict[Path, tuple[Future[list[bytes]], int]] = {}
        self._sizes: dict[Path, int] = {}  # of those
        self._start: Future[int] | None = None
        with suppress(BrokenProcessPool):
            self._start = pool.submit(os.getpid) if pool else None

    def take(self, path: Path) -> Opening | None:
        """Returns what the pool read of this file, and asks it for the next ones."""
        if self._waiting and self._waiting[0] == path:
            self._waiting.popleft()
        future, index = self._asked.pop(path, (None, 0))
        self._sizes.pop(path, None)
        try:
            if self._start is not None and self._start.done():
                self._ask()
            packed = future.result()[index] if future is not None else b""
        except BrokenProcessPool:  # a process was killed, for its memory perhaps
            self._waiting.clear()
            self._asked.clear()
            return None
        if not packed:
            return None
        opening = _openings.decode(packed)
        for piece, slices in zip(opening.pieces, opening.slices, strict=True):
            _restore_payloads(piece, slices)
        return opening

    def _ask(self) -> None:
        while self._pool is not None and self._waiting and sum(self._sizes.values()) < BYTES_AHEAD:
            paths: list[Path] = []
            size = 0
            while self._waiting and size < BYTES_AT_ONCE:
                path = self._waiting.popleft()
                paths.append(path)
                self._sizes[path] = min(file_size(path), PIECES_AHEAD * BATCH_BYTES)
                size += self._sizes[path]
            future = self._pool.submit(read_openings, paths, self._format)
            self._asked |= {path: (future, index) for index, path in enumerate(paths)}


def _settle_shared_lines(problems: list[LineProblem]) -> list[LineProblem]:
    """A line that several objects share is refused as a whole only if each of them was, and then only once."""
    shared = {problem.line: problem for problem in problems if problem.objects > 1}
    refused = Counter(problem.line for problem in problems if problem.line in shared and not problem.part)
    settled = []
    for problem in problems:
        if problem.line not in shared or (problem.part and problem is not shared[problem.line]):
            settled.append(problem)
        elif refused[problem.line] < shared[problem.line].objects:
            settled.append(msgspec.structs.replace(problem, part=True))
        elif problem is not shared[problem.line] and problem.line not in {known.line for known in settled}:
            settled.append(problem)
    return settled


def _contains(file: BinaryIO, mark: bytes) -> bool:
    """Searches the whole file, and leaves its position."""
    offset, tail = 0, b""
    while chunk := os.pread(file.fileno(), HEAD_BYTES, offset):
        if mark in tail + chunk:
            return True
        offset, tail = offset + len(chunk), chunk[-len(mark) :]
    return False
