"""The output of a command, on disk as it comes: both streams in one file, in the order of their arrival.

A second file notes where the streams alternate, so that each can be read by itself. Nothing of it is kept in memory.
"""

from __future__ import annotations

import io
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Stream: TypeAlias = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
TURN = struct.Struct(">BQ")  # a stream, and where its stretch ends


class OutputLog:
    """Written by the threads that read a command's streams, read by anybody at any time.

    >>> from tempfile import mkdtemp
    >>> log = OutputLog(Path(mkdtemp()))
    >>> for stream, chunk in (("stdout", b"a"), ("stderr", b"no"), ("stdout", b"b")):
    ...     log.add(stream, chunk)
    >>> log.open().read(), log.open("stdout").read(), log.open("stderr").read()
    (b'anob', b'ab', b'no')
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._turns_path = folder / "output", folder / "turns"
        self._file = self._path.open("wb", buffering=0)
        self._turns = self._turns_path.open("wb", buffering=0)
        self._lock = threading.Lock()
        self._last: Stream | None = None
        self.size = 0

    def add(self, stream: Stream, chunk: bytes) -> None:
        """Raises OSError, as on a full disk; the log then ends before the chunk."""
        with self._lock:
            if self._file.closed:
                return
            if self._last not in (None, stream):
                self._end_turn()
            self._last = stream
            written = 0
            while written < len(chunk):
                written += self._file.write(chunk[written:]) or 0
            self.size += len(chunk)

    def _end_turn(self) -> None:
        if self._last is not None:
            self._turns.write(TURN.pack(STREAMS.index(self._last), self.size))

    def close(self) -> None:
        """Nothing is added any more; what is there can still be read."""
        with self._lock:
            if not self._file.closed:
                self._end_turn()
                self._last = None
                self._file.close()
                self._turns.close()

    def open(self, stream: Stream | None = None) -> BinaryIO:
        """The bytes so far, of one stream or of both."""
        with self._lock:
            size, last = self.size, self._last
        output = self._path.open("rb")
        if stream is None:
            return io.BufferedReader(_Stretches(output, iter([(0, size)])))
        return io.BufferedReader(_Stretches(output, self._stretches(stream, size, last)))

    def _stretches(self, stream: Stream, size: int, last: Stream | None) -> Iterator[tuple[int, int]]:
        """Yields start and end of each of the stream's stretches within the first `size` bytes."""
        start = 0
        with self._turns_path.open("rb") as turns:
            while start < size and len(turn := turns.read(TURN.size)) == TURN.size:
                of, end = TURN.unpack(turn)
                end = min(end, size)
                if STREAMS[of] == stream:
                    yield start, end
                start = end
        if start < size and last == stream:
            yield start, size


class _Stretches(io.RawIOBase):
    """The bytes of some stretches of a file, one after the other. Closes the file."""

    def __init__(self, file: BinaryIO, stretches: Iterator[tuple[int, int]]) -> None:
        self._file, self._stretches = file, stretches
        self._left = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._left:
            stretch = next(self._stretches, None)
            if stretch is None:
                return 0
            self._file.seek(stretch[0])
            self._left = stretch[1] - stretch[0]
        chunk = self._file.read(min(len(view), self._left))
        self._left = self._left - len(chunk) if chunk else 0
        view[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._file.close()
        super().close()
