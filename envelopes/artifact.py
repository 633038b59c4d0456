"""Where a large field goes when only a preview of it fits (RFC-059, RFC-079).

    ArtifactSink   what a projector writes to
    MemorySink     keeps the texts; for tests and for projections that are computed to be looked at
    FileStore      a folder of files named by their content, on disk before anything refers to them

The sinks agree on the path of a text: it follows from the role and the content (RFC-085).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, Protocol, TypeAlias

import msgspec

from envelopes.result import ArtifactRef

COMPRESS_FROM = 1024 * 1024  # bytes
FRAME = 256 * 1024  # bytes of content in a zstd frame: what a jump into the middle has to decompress
CHUNK = 1024 * 1024
INCOMING = "incoming-"
COMPRESSED = ".zst"
VIRTUAL = re.compile(r"artifacts/([0-9a-f]{16,64})/[^/]+")
IncomingFile: TypeAlias = "tempfile._TemporaryFileWrapper[bytes]"
STORED_NAME = re.compile(r"([0-9a-f]{64})(?:\.zst)?")


class ArtifactSink(Protocol):
    def write(self, role: str, text: str) -> ArtifactRef:
        """Keep `text` whole and say under which virtual path (never an OS path, spec/model.md E-5)."""


class MemorySink:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, role: str, text: str) -> ArtifactRef:
        reference = _reference(role, hashlib.sha256(_encoded(text)).hexdigest())
        self.texts[reference.path] = text
        return reference


class MissingArtifact(LookupError):
    """Nothing is stored under this path, or more than one thing begins with its digits."""


class Stored(msgspec.Struct, frozen=True):
    """Content that is on disk. `lines` counts newlines, and a last line without one."""

    sha256: str
    size: int
    lines: int


class Fault(msgspec.Struct, frozen=True):
    """What `FileStore.check` found. `name` is relative to the store's folder."""

    name: str
    reason: str


class FileStore:
    """`<root>/<first two digits>/<sha256>`, the same content once.

    Text from `compress_from` bytes on is kept as `<sha256>.zst` in the seekable format of zstd, so a
    window anywhere in it costs one frame; None keeps everything as it is. A write returns when file
    and folders are fsynced. One that is killed leaves a file `incoming-…` at most, and `check` names it.
    """

    def __init__(self, root: Path, *, compress_from: int | None = COMPRESS_FROM) -> None:
        if compress_from is not None:
            _zstd()
        self.root = root
        self._compress_from = compress_from

    def write(self, role: str, text: str) -> ArtifactRef:
        return _reference(role, self.put(io.BytesIO(_encoded(text))).sha256)

    def put(self, content: BinaryIO) -> Stored:
        """Copies the content in, a chunk at a time. Raises OSError, and then nothing is stored."""
        _make_folder(self.root)
        with _incoming(self.root) as file:
            stored, is_text = _copy(content, file)
            folder = self.root / stored.sha256[:2]
            _make_folder(folder)
            if not self._holds(stored):
                if is_text and self._compress_from is not None and stored.size >= self._compress_from:
                    self._publish_compressed(file, folder / f"{stored.sha256}{COMPRESSED}")
                else:
                    _publish(file, folder / stored.sha256)
        _sync(folder)
        _sync(self.root)
        return stored

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """The content under a virtual path or a sha256, as a stream that can seek. Raises MissingArtifact."""
        with self._opened(self._name(path)) as stream:
            yield stream

    def read_window(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer at the end. Raises MissingArtifact."""
        with self.open(path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def check(self) -> tuple[Fault, ...]:
        """Reads everything and names what is not the content that its name says, and what is no artifact."""
        return tuple(fault for name in sorted(self._names()) if (fault := self._checked(name)) is not None)

    def _name(self, path: str) -> str:
        virtual = VIRTUAL.fullmatch(path)
        digits = virtual[1] if virtual else path
        if not re.fullmatch("[0-9a-f]{16,64}", digits):
            raise MissingArtifact(path)
        folder = self.root / digits[:2]
        names = [name for name in _listed(folder) if name.startswith(digits) and STORED_NAME.fullmatch(name)]
        if len({name.removesuffix(COMPRESSED) for name in names}) != 1:
            raise MissingArtifact(path)
        return f"{digits[:2]}/{min(names)}"

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        with ExitStack() as stack:
            try:
                descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                raise MissingArtifact(f"{name}: {error.strerror}") from None
            stream: BinaryIO = stack.enter_context(os.fdopen(descriptor, "rb"))
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MissingArtifact(f"{name}: not a regular file")
            if name.endswith(COMPRESSED):
                stream = stack.enter_context(_zstd().SeekableZstdFile(stream, "rb"))
            yield stream

    def _holds(self, stored: Stored) -> bool:
        """Whether a file of that content is there. One of another size was damaged and is written anew."""
        try:
            with self.open(stored.sha256) as stream:
                return stream.seek(0, os.SEEK_END) == stored.size
        except (MissingArtifact, OSError, ValueError):
            return False

    def _publish_compressed(self, file: IncomingFile, target: Path) -> None:
        zstd = _zstd()
        file.seek(0)
        with _incoming(self.root) as smaller:
            # Without the checksum a damaged frame would be read as other text.
            options = {zstd.CParameter.checksumFlag: 1}
            with zstd.SeekableZstdFile(
                smaller, "wb", level_or_option=options, max_frame_content_size=FRAME
            ) as compressed:
                while chunk := file.read(CHUNK):
                    compressed.write(chunk)
            _publish(smaller, target)

    def _names(self) -> Iterator[str]:
        for entry in _listed(self.root):
            if re.fullmatch("[0-9a-f]{2}", entry):
                yield from (f"{entry}/{name}" for name in _listed(self.root / entry))
            else:
                yield entry

    def _checked(self, name: str) -> Fault | None:
        folder, _, own = name.rpartition("/")
        if own.startswith(INCOMING):
            return Fault(name, "left by a write that did not end")
        expected = STORED_NAME.fullmatch(own)
        if expected is None or not own.startswith(folder) or not folder:
            return Fault(name, "is not named as an artifact is")
        if not stat.S_ISREG(os.lstat(self.root / name).st_mode):
            return Fault(name, "is not a regular file")
        try:
            with self._opened(name) as stream:
                digest = hashlib.sha256()
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
        except Exception as error:
            return Fault(name, f"cannot be read ({type(error).__name__}: {error})")
        found = digest.hexdigest()
        return None if found == expected[1] else Fault(name, f"holds content with sha256 {found}")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _reference(role: str, sha256: str) -> ArtifactRef:
    return ArtifactRef(f"artifacts/{sha256[:16]}/{role}.txt")


def _zstd() -> ModuleType:
    try:
        import pyzstd
    except ImportError:
        said = "pyzstd, which compresses large artifacts, is not installed: install it, or pass compress_from=None"
        raise ModuleNotFoundError(said, name="pyzstd") from None
    return pyzstd


@contextmanager
def _incoming(root: Path) -> Iterator[IncomingFile]:
    """A temporary file in the store, gone at the end unless it was published."""
    with tempfile.NamedTemporaryFile(dir=root, prefix=INCOMING, delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


def _copy(content: BinaryIO, target: IncomingFile) -> tuple[Stored, bool]:
    """Also whether the content is text: it holds no NUL."""
    digest = hashlib.sha256()
    size = newlines = 0
    last, is_text = b"\n", True
    while chunk := content.read(CHUNK):
        digest.update(chunk)
        target.write(chunk)
        size, newlines, last = size + len(chunk), newlines + chunk.count(b"\n"), chunk[-1:]
        is_text = is_text and b"\0" not in chunk
    return Stored(digest.hexdigest(), size, newlines + (last != b"\n")), is_text


def _publish(file: IncomingFile, target: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, target)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
