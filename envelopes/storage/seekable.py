"""Compressed files in zstd's seekable format, of which any window is read a frame at a time.

pyzstd writes them. They are read here, because pyzstd walks the table of frames in Python whenever a file is
opened: 20 ms for 4 GB of content, while a window itself takes less than 1 ms.
"""

from __future__ import annotations

import io
import os
import struct
from bisect import bisect_right
from itertools import accumulate
from types import ModuleType
from typing import IO, Any, BinaryIO

FRAME = 256 * 1024  # bytes of content in a frame, which a jump into the middle has to decompress
CHUNK = 1024 * 1024
FOOTER = struct.Struct("<IBI")
HEADER = struct.Struct("<II")
FOOTER_MAGIC, TABLE_MAGIC = 0x8F92EAB1, 0x184D2A5E
CHECKSUMS, RESERVED = 0x80, 0x7C


class Damaged(OSError):
    """The file is not what was written: it is cut short, or has other bytes."""


def load_zstd() -> ModuleType:
    """The pyzstd module, imported only when it is used. Raises ModuleNotFoundError with the remedy."""
    try:
        import pyzstd
    except ImportError:
        message = (
            "pyzstd, for large artifacts and for archives, is not installed: install it, or pass compress_from=None"
        )
        raise ModuleNotFoundError(message, name="pyzstd") from None
    return pyzstd


def compress(content: IO[bytes], target: Any) -> None:
    pyzstd = load_zstd()
    # Without the checksum a damaged frame would be read as other text.
    options = {pyzstd.CParameter.checksumFlag: 1}
    with pyzstd.SeekableZstdFile(target, "wb", level_or_option=options, max_frame_content_size=FRAME) as compressed:
        while chunk := content.read(CHUNK):
            compressed.write(chunk)


def open_frames(file: BinaryIO) -> BinaryIO:
    """The content of a compressed file, as a stream that can seek; closing it closes `file`. Raises Damaged."""
    return io.BufferedReader(_Frames(file), FRAME)


class Seekable(io.RawIOBase):
    """Base of a stream of `size` bytes: a subclass reads in `readinto` at `_at`, and advances it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at


class _Frames(Seekable):
    """The content of a compressed file. One decompressed frame is in memory at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompress = load_zstd().decompress
        self._error = load_zstd().ZstdError
        self._starts, self._contents = _read_table(file)
        super().__init__(self._contents[-1])
        self._number = -1
        self._frame = b""

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        number = bisect_right(self._contents, self._at) - 1
        if number != self._number:
            self._frame, self._number = self._read_frame(number), number
        inside = self._at - self._contents[number]
        count = min(len(buffer), len(self._frame) - inside)
        buffer[:count] = memoryview(self._frame)[inside : inside + count]
        self._at += count
        return count

    def close(self) -> None:
        self._frame = b""
        self._file.close()
        super().close()

    def _read_frame(self, number: int) -> bytes:
        start, end = self._starts[number : number + 2]
        self._file.seek(start)
        try:
            frame: bytes = self._decompress(self._file.read(end - start))
        except self._error as error:
            raise Damaged(f"frame {number}: {error}") from None
        if len(frame) != self._contents[number + 1] - self._contents[number]:
            raise Damaged(f"frame {number} holds {len(frame)} bytes")
        return frame


def _read_table(file: BinaryIO) -> tuple[list[int], list[int]]:
    """The byte at which each frame begins in the file, and in the content; both with the end as well."""
    size = file.seek(0, os.SEEK_END)
    count, descriptor, magic = _unpack(file, FOOTER, size - FOOTER.size)
    entry = 12 if descriptor & CHECKSUMS else 8
    begins = size - FOOTER.size - count * entry - HEADER.size
    if magic != FOOTER_MAGIC or descriptor & RESERVED or begins < 0:
        raise Damaged("it does not end in a table of frames")
    table_magic, length = _unpack(file, HEADER, begins)
    step = entry // 4
    numbers = struct.unpack(f"<{count * step}I", file.read(count * entry))
    starts = list(accumulate(numbers[0::step], initial=0))
    if table_magic != TABLE_MAGIC or length != size - begins - HEADER.size or starts[-1] != begins:
        raise Damaged("its table of frames does not fit the file")
    return starts, list(accumulate(numbers[1::step], initial=0))


def _unpack(file: BinaryIO, form: struct.Struct, at: int) -> tuple[Any, ...]:
    if at < 0:
        raise Damaged("it is too short for a table of frames")
    file.seek(at)
    return form.unpack(file.read(form.size))
