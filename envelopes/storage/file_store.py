"""Where a large field goes when only a preview of it fits (RFC-059, RFC-079).

    ArtifactSink   what a projector writes to
    MemorySink     keeps the texts; for tests and for projections that are computed to be looked at
    FileStore      a folder of files named by their content, on disk before anything refers to them

The sinks agree on the path of a text: it follows from the role and the content (RFC-085). What a store
of another kind needs to be the same (names, hashes, checks) are functions here.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import msgspec

from envelopes.schema.result import ArtifactRef
from envelopes.storage.durable_files import (
    INCOMING,
    IncomingFile,
    find_unfinished,
    incoming,
    list_names,
    make_folder,
    publish,
    sync_folder,
)
from envelopes.storage.line_index import INDEX_NAME, IndexBuilder, IndexFolder, LineIndex, load_index
from envelopes.storage.seekable import Damaged, compress, load_zstd, open_frames

COMPRESS_FROM = 1024 * 1024  # bytes
INDEX_FROM = 1024 * 1024  # bytes; the lines of what is smaller are counted when they are asked for
CHUNK = 1024 * 1024
COMPRESSED = ".zst"
NO_FILE = "it is no regular file"
# What was once put leaves its folder: a row that names content says that this is not where it was put.
NEVER_USED = "nothing was ever stored in the store's folder; is its disk mounted?"
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)  # a link, a folder's place taken, a socket
LOCK = "lock"  # of those who use the store; no artifact
VIRTUAL = re.compile(r"artifacts/([0-9a-f]{16,64})/[^/]+")
STORED_NAME = re.compile(r"([0-9a-f]{64})(?:\.zst)?")


class ArtifactSink(Protocol):
    def write(self, role: str, text: str) -> ArtifactRef:
        """Keep `text` whole and say under which virtual path (never an OS path, spec/model.md E-5)."""


class MemorySink:
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, role: str, text: str) -> ArtifactRef:
        reference = artifact_reference(role, hashlib.sha256(encode_text(text)).hexdigest())
        self.texts[reference.path] = text
        return reference


class MissingArtifact(LookupError):
    """Nothing is stored under this path, or more than one thing begins with its digits. The store said so."""


class StoreUnreachable(OSError):
    """The store cannot be asked now, and nothing follows from that about what it holds."""


class StoredContent(msgspec.Struct, frozen=True):
    """Content that is on disk. `lines` counts newlines, and a last line without one."""

    sha256: str
    size: int
    lines: int


class StoreFault(msgspec.Struct, frozen=True):
    """What `FileStore.check` found. `name` is relative to the store's folder."""

    name: str
    reason: str


class FileStore:
    """`<root>/<first two digits>/<sha256>`, the same content once.

    Text from `compress_from` bytes on is kept as `<sha256>.zst` in the seekable format of zstd, so a
    window anywhere in it costs one frame; None keeps everything as it is. Beside content of
    `INDEX_FROM` bytes and more lies `<sha256>.lines`, where its lines begin. A write returns when file
    and folders are fsynced. One that is killed leaves a file `incoming-…` at most, and `check` names it.
    """

    def __init__(self, root: Path, *, compress_from: int | None = COMPRESS_FROM) -> None:
        if compress_from is not None:
            load_zstd()
        self.root = root
        self.indexes = IndexFolder(root)
        self._compress_from = compress_from

    def write(self, role: str, text: str) -> ArtifactRef:
        return artifact_reference(role, self.put(io.BytesIO(encode_text(text))).sha256)

    def put(self, content: BinaryIO) -> StoredContent:
        """Copies the content in, a chunk at a time. Raises OSError, and then nothing is stored."""
        make_folder(self.root)
        with incoming(self.root) as file:
            copied = copy_content(content, file)
            stored = copied.stored
            folder = self.root / stored.sha256[:2]
            make_folder(folder)
            is_fresh = not self._holds(stored)
            if is_fresh:
                if copied.is_worth(self._compress_from):
                    self._publish_compressed(file, folder / f"{stored.sha256}{COMPRESSED}")
                else:
                    publish(file, folder / stored.sha256)
        sync_folder(folder)
        if stored.size >= INDEX_FROM and not self.indexes.path(stored.sha256).exists():
            self.indexes.keep(stored.sha256, copied.index)
        if is_fresh and (changed_at := _changed_at(folder / stored.sha256)) is not None:
            self.indexes.seal(stored.sha256, changed_at)
        sync_folder(self.root)
        return stored

    def is_untouched(self, sha256: str) -> bool:
        """By its dates: not written to since it was held against its hash, which False does not deny.

        Of compressed content always true: a frame that was changed cannot be read.
        """
        changed_at = _changed_at(self.root / sha256[:2] / sha256)
        return changed_at is None or self.indexes.is_sealed(sha256, changed_at)

    def verify(self, sha256: str) -> bool:
        """Reads all of it, and remembers where it is what its name says. Raises as `open` does."""
        changed_at = _changed_at(self.root / sha256[:2] / sha256)
        with self.open(sha256) as stream:
            is_same = hash_stream(stream) == sha256
        if is_same and changed_at is not None:
            self.indexes.seal(sha256, changed_at)
        return is_same

    def open(self, path: str) -> BinaryIO:
        """The content under a virtual path or a sha256, as a stream that can seek.

        Links are not followed, neither a file nor a folder. Raises MissingArtifact; Damaged for what is no
        file or not the one that was written; Unreachable; any other OSError is of this one file.
        """
        return self._opened(self._name(path))

    def glance(self, sha256: str, size: int) -> None:
        """Whether content of that size seems to lie there: nothing of it is read.

        Raises what `open` raises, and Damaged for a file of another size that is kept as it is.
        """
        for name in stored_names(sha256):
            try:
                found = os.lstat(self.root / name)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(found.st_mode):
                raise Damaged(NO_FILE)
            if found.st_size != size and not name.endswith(COMPRESSED):
                raise Damaged(wrong_size(found.st_size, size))
            return
        self._name(sha256)

    def read_window(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer at the end. Raises MissingArtifact."""
        with self.open(path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def check(self) -> tuple[StoreFault, ...]:
        """Reads everything and names what is not the content that its name says, and what is no artifact.

        Raises Unreachable: a store that cannot be asked has no faults to be told of.
        """
        return tuple(fault for name in sorted(self._names()) if (fault := self._checked(name)) is not None)

    def sizes(self) -> dict[str, int]:
        """What each content (sha256) takes on the disk, with its indexes; one of which only an index is left, too."""
        sizes: dict[str, int] = {}
        for name in self._names():
            if sha256 := parse_stored_name(name):
                sizes[sha256] = sizes.get(sha256, 0) + _size(self.root / name)
        return sizes

    def remove(self, sha256: str) -> None:
        """Content and indexes. Whoever calls it knows that nothing refers to them."""
        for name in self._names_in(sha256[:2]):
            if parse_stored_name(name) == sha256:
                (self.root / name).unlink(missing_ok=True)

    def unfinished(self, seconds: float) -> tuple[Path, ...]:
        """What writes that were killed so long ago left."""
        return find_unfinished(self.root, seconds)

    def _name(self, path: str) -> str:
        digits = parse_digits(path)
        names = [name for name in self._listed(digits[:2]) if name.startswith(digits)]
        if not names and not self._listed(""):
            raise StoreUnreachable(errno.ENOENT, NEVER_USED)
        names = [name for name in names if STORED_NAME.fullmatch(name)]
        if len({name.removesuffix(COMPRESSED) for name in names}) != 1:
            raise MissingArtifact(path)
        return f"{digits[:2]}/{min(names)}"

    def _opened(self, name: str) -> BinaryIO:
        descriptor = _open_below(self.root, name)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Damaged(NO_FILE)
        # Unbuffered: a window says how much it wants, and a buffer would read that much beside it.
        stream: BinaryIO = cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
        if not name.endswith(COMPRESSED):
            return stream
        try:
            return open_frames(stream)
        except BaseException:
            stream.close()
            raise

    def _holds(self, stored: StoredContent) -> bool:
        """Whether a file of that content is there. One of another size was damaged and is written anew."""
        try:
            with self.open(stored.sha256) as stream:
                return stream.seek(0, os.SEEK_END) == stored.size
        except (MissingArtifact, OSError, ValueError):
            return False

    def _listed(self, folder: str) -> list[str]:
        try:
            return list_names(self.root / folder)
        except OSError as error:
            raise StoreUnreachable(error.errno, error.strerror) from None

    def _publish_compressed(self, file: IncomingFile, target: Path) -> None:
        file.seek(0)
        with incoming(self.root) as smaller:
            compress(file.file, smaller)
            publish(smaller, target)

    def _names(self) -> Iterator[str]:
        for entry in self._listed(""):
            if re.fullmatch("[0-9a-f]{2}", entry):
                yield from self._names_in(entry)
            elif entry != LOCK:
                yield entry

    def _names_in(self, folder: str) -> Iterator[str]:
        return (f"{folder}/{name}" for name in self._listed(folder))

    def _checked(self, name: str) -> StoreFault | None:
        if name.startswith(INCOMING):
            return StoreFault(name, "left by a write that did not end")
        sha256 = parse_stored_name(name)
        if sha256 is None:
            return StoreFault(name, "is not named as an artifact is")
        if not stat.S_ISREG(os.lstat(self.root / name).st_mode):
            return StoreFault(name, "is not a regular file")
        if INDEX_NAME.fullmatch(name[3:]):
            kept = any((self.root / one).exists() for one in stored_names(sha256))
            return None if kept else StoreFault(name, "is the index of nothing")
        changed_at = _changed_at(self.root / name)
        fault = check_content(name, sha256, lambda: self._opened(name), lambda size: self._index(sha256, size))
        if fault is None and changed_at is not None and not name.endswith(COMPRESSED):
            self.indexes.seal(sha256, changed_at)
        return fault

    def _index(self, sha256: str, size: int) -> LineIndex | None:
        path = self.indexes.path(sha256)
        return load_index(path, size) if path.exists() else None


def hash_stream(stream: BinaryIO) -> str:
    """Of all that comes; afterwards the stream is at its beginning."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    stream.seek(0)
    return digest.hexdigest()


def _changed_at(file: Path) -> int | None:
    try:
        return file.lstat().st_ctime_ns
    except OSError:
        return None


class ContentCopy(msgspec.Struct, frozen=True):
    stored: StoredContent
    is_text: bool  # it holds no NUL
    index: LineIndex

    def is_worth(self, compress_from: int | None) -> bool:
        """Whether it is kept compressed."""
        return self.is_text and compress_from is not None and self.stored.size >= compress_from


def copy_content(content: BinaryIO, target: IncomingFile) -> ContentCopy:
    digest, builder = hashlib.sha256(), IndexBuilder()
    is_text = True
    while chunk := content.read(CHUNK):
        digest.update(chunk)
        target.write(chunk)
        builder.add(chunk)
        is_text = is_text and b"\0" not in chunk
    index = builder.finished()
    return ContentCopy(StoredContent(digest.hexdigest(), index.size, index.lines), is_text, index)


def check_content(
    name: str, sha256: str, opened: Callable[[], BinaryIO], kept_index: Callable[[int], LineIndex | None]
) -> StoreFault | None:
    """Reads one content whole. `kept_index` gives the index beside content of that size, None where there is none.

    Raises Unreachable, for of what cannot be asked nothing is known; any other failure to read is the fault.
    """
    digest, builder = hashlib.sha256(), IndexBuilder()
    try:
        with opened() as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                builder.add(chunk)
    except StoreUnreachable:
        raise
    except Exception as error:
        return StoreFault(name, f"cannot be read ({type(error).__name__}: {error})")
    if digest.hexdigest() != sha256:
        return StoreFault(name, f"holds content with sha256 {digest.hexdigest()}")
    return _index_fault(f"{sha256[:2]}/{sha256}.lines", builder.finished(), kept_index)


def _index_fault(name: str, counted: LineIndex, kept_index: Callable[[int], LineIndex | None]) -> StoreFault | None:
    try:
        kept = kept_index(counted.size)
    except StoreUnreachable:
        raise
    except Exception as error:
        return StoreFault(name, f"cannot be read ({type(error).__name__})")
    if kept is None or (kept.lines == counted.lines and list(kept.before) == list(counted.before)):
        return None
    return StoreFault(name, "is not the index of this content")


def wrong_size(found: int, stored: int) -> str:
    return f"{found:,} bytes, where {stored:,} were stored"


def parse_digits(path: str) -> str:
    """The digits of a virtual path or a sha256 that name content. Raises MissingArtifact."""
    virtual = VIRTUAL.fullmatch(path)
    digits = virtual[1] if virtual else path
    if not re.fullmatch("[0-9a-f]{16,64}", digits):
        raise MissingArtifact(path)
    return digits


def stored_names(sha256: str) -> tuple[str, str]:
    """Where content may lie in a store: as it is, and compressed."""
    return f"{sha256[:2]}/{sha256}", f"{sha256[:2]}/{sha256}{COMPRESSED}"


def parse_stored_name(name: str) -> str | None:
    """The content that a name in a store is of, as content or as its index; None when it is no such name."""
    folder, _, own = name.rpartition("/")
    found = STORED_NAME.fullmatch(own) or INDEX_NAME.fullmatch(own)
    return found[1] if found and own[:2] == folder else None


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _open_below(root: Path, name: str) -> int:
    """A descriptor of `<folder>/<file>` in the root, without following a link at either. Raises as `open` does."""
    folder, _, own = name.rpartition("/")
    try:
        held = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
        finally:
            os.close(held)
    except FileNotFoundError:
        raise MissingArtifact(name) from None
    except OSError as error:
        if error.errno in LINKED:
            raise Damaged(NO_FILE) from None
        raise


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def artifact_reference(role: str, sha256: str) -> ArtifactRef:
    return ArtifactRef(f"artifacts/{sha256[:16]}/{role}.txt")
