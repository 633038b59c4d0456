"""A folder of record lines that no server has acknowledged yet, and that outlives the process that wrote them.

    <time>-<process>-<random>.jsonl    a segment: lines as they were added, whole or not at all
    <same>.sent                        how many of its bytes a server has acknowledged
    artifacts/<sha256>                 files that a line names, until a server has them
    rejected.jsonl                     lines that a server refused, each with its reason: nothing is thrown away

Each writer has a segment of its own and holds a lock on it, so that what a killed process left behind is known to
be complete. One process at a time ships the lines of a folder, whoever wrote them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from envelopes.storage.durable_files import incoming, make_folder, publish, read_status, sync_folder
from envelopes.text.untrusted_json import dump_json

SEGMENT_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 1024 * 1024
BATCH_LINES = 500
REJECTED = "rejected.jsonl"
CUT_OFF = "cut off: the process that wrote it was killed before the line was whole, so the line was not acknowledged"


class Batch(NamedTuple):
    """Whole lines of one segment, [start, end) of its bytes."""

    segment: Path
    start: int
    end: int
    lines: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.lines)


class Spool:
    """Appends lines, and gives them out in batches until they are acknowledged.

    `is_synced` flushes each addition to the disk, so that it survives a power cut; without it a line survives the
    end of the process only, a kill included.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     spool = Spool(Path(folder))
    ...     spool.append([b'{"v":1}\\n'])
    ...     with spool.shipping() as is_mine:
    ...         batch = next(spool.batches())
    ...         spool.acknowledge(batch)
    ...     spool.close()
    >>> batch.lines
    [b'{"v":1}\\n']
    """

    def __init__(self, folder: Path, *, is_synced: bool = True) -> None:
        make_folder(folder / "artifacts")
        self.folder = folder
        self._is_synced = is_synced
        self._lock = threading.Lock()
        self._segment: int | None = None  # descriptor
        self._size = 0

    def append(self, lines: list[bytes]) -> None:
        """Adds lines, each with its newline, in one write. On the disk when it returns, if the spool is synced."""
        data = memoryview(b"".join(lines))
        with self._lock:
            if self._segment is None or self._size >= SEGMENT_BYTES:
                self._begin_segment()
            assert self._segment is not None
            self._size += len(data)
            try:
                while data:  # a write may take a part only
                    data = data[os.write(self._segment, data) :]
                if self._is_synced:
                    os.fdatasync(self._segment)
            except OSError:  # the disk is full, say: the next line must not follow a part of this one
                self._end_segment()
                raise

    def add_artifact(self, content: bytes) -> str:
        """Keeps a file until a server has it; returns its sha256."""
        sha256 = hashlib.sha256(content).hexdigest()
        folder = self.folder / "artifacts"
        with incoming(folder) as file:
            file.write(content)
            publish(file, folder / sha256)
        sync_folder(folder)
        return sha256

    def artifact(self, sha256: str) -> Path:
        return self.folder / "artifacts" / sha256

    @contextmanager
    def shipping(self) -> Iterator[bool]:
        """Yields True to the one process that ships the lines of this folder."""
        descriptor = os.open(self.folder / "shipping.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _lock_file(descriptor)
        finally:
            os.close(descriptor)

    def batches(self) -> Iterator[Batch]:
        """The lines that are not acknowledged, segment by segment. A finished segment without any is deleted.

        Only for the process that ships.
        """
        for segment in sorted(self.folder.glob("*-*-*.jsonl")):
            is_finished = self._is_finished(segment)  # before its lines are read, so that none is missed
            start = _read_sent(segment)
            with segment.open("rb") as file:
                file.seek(start)
                while (batch := _read_batch(segment, start, file.readlines(BATCH_BYTES))).lines:
                    yield batch
                    if _read_sent(segment) != batch.end:
                        return  # not acknowledged: later lines would pass it
                    start = batch.end
                    file.seek(start)
                file.seek(start)
                rest = file.read()
            if is_finished:
                if rest:
                    self.reject(rest, CUT_OFF)
                segment.unlink()
                _sent_file(segment).unlink(missing_ok=True)

    def acknowledge(self, batch: Batch) -> None:
        """A lost note of this only has the lines sent again, so it is not synced."""
        target = _sent_file(batch.segment)
        partial = target.with_suffix(".incoming")
        partial.write_text(str(batch.end))
        os.replace(partial, target)

    def reject(self, line: bytes, reason: str) -> None:
        """Keeps a line that no server takes."""
        entry = {"reason": reason, "line": line.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()}
        with (self.folder / REJECTED).open("ab") as file:
            file.write(dump_json(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def is_empty(self) -> bool:
        """True when every line of every writer is acknowledged."""
        for segment in self.folder.glob("*-*-*.jsonl"):
            status = read_status(segment)  # None once the shipping process deleted it
            if status is not None and _read_sent(segment) < status.st_size:
                return False
        return True

    def close(self) -> None:
        with self._lock:
            self._end_segment()

    def _begin_segment(self) -> None:
        self._end_segment()
        segment = self.folder / f"{time.time_ns():020}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        begun = segment.with_suffix(".begun")  # renamed when it is locked: unlocked ones are those of ended writers
        self._segment = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        _lock_file(self._segment)
        os.replace(begun, segment)
        self._size = 0
        if self._is_synced:
            sync_folder(self.folder)

    def _end_segment(self) -> None:
        if self._segment is not None:
            os.close(self._segment)
            self._segment = None

    def _is_finished(self, segment: Path) -> bool:
        """True when no writer holds it any more."""
        descriptor = os.open(segment, os.O_RDONLY)
        try:
            return _lock_file(descriptor)
        finally:
            os.close(descriptor)


def _lock_file(descriptor: int) -> bool:
    """Locks an open file until it is closed; False when another one holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_batch(segment: Path, start: int, lines: list[bytes]) -> Batch:
    lines = [line for line in lines[:BATCH_LINES] if line.endswith(b"\n")]
    return Batch(segment, start, start + sum(map(len, lines)), lines)


def _sent_file(segment: Path) -> Path:
    return segment.with_suffix(".sent")


def _read_sent(segment: Path) -> int:
    """The bytes that were acknowledged; 0 where the note is lost or damaged, so that they are sent again."""
    try:
        return max(0, int(_sent_file(segment).read_text()))
    except (FileNotFoundError, ValueError):
        return 0
