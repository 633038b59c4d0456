"""A folder of files named by their content, on disk before anything refers to them (RFC-059, RFC-079).

What every store must do alike (names, hashes, checks) are functions of this module.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

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
    read_status,
    sync_folder,
)
from envelopes.storage.line_index import INDEX_NAME, IndexBuilder, IndexFolder, LineIndex, load_index
from envelopes.storage.seekable import Damaged, compress, load_zstd, open_frames
from envelopes.storage.sinks import Content, artifact_reference, open_content

COMPRESS_FROM = 1024 * 1024  # bytes
INDEX_FROM = 1024 * 1024  # bytes; the lines of smaller content are counted when they are needed
CHUNK = 1024 * 1024
COMPRESSED = ".zst"
NO_FILE = "it is not a regular file"
# Content leaves its folder behind: where a row names content and there is no folder, this is another disk.
NEVER_USED = "nothing was ever stored in the store's folder; is its disk mounted?"
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)  # a link, a file instead of a folder, a socket
LOCK = "lock"  # the file that processes lock; not an artifact
VIRTUAL = re.compile(r"artifacts/([0-9a-f]{16,64})/[^/]+")
STORED_NAME = re.compile(r"([0-9a-f]{64})(?:\.zst)?")


class MissingArtifact(LookupError):
    """The store has nothing under this path, or more than one content with its digits."""


class StoreUnreachable(OSError):
    """The store cannot be reached now, from which nothing follows about its content."""


class StoredContent(msgspec.Struct, frozen=True):
    """Content that is on disk. `lines` counts newlines, and a last line without one."""

    sha256: str
    size: int
    lines: int


class StoreFault(msgspec.Struct, frozen=True):
    """A problem that a check of a store found. `name` is relative to the store's folder."""

    name: str
    reason: str


class FileStore:
    """A folder of files `<root>/<first two digits>/<sha256>`, which stores equal content once.

    Text of `compress_from` bytes and more is stored as `<sha256>.zst` in the seekable format of zstd, so that a
    window anywhere in it costs one frame; None stores everything as it is. Content of `INDEX_FROM` bytes and more
    has an index of its lines beside it, `<sha256>.lines`. A write returns when file and folders are fsynced. One
    that is killed leaves at most a file `incoming-…`, which `check` reports.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = FileStore(Path(folder), compress_from=None)
    ...     reference = store.write("stdout", "line 1, line 2")
    ...     store.read_window(reference.path, 8, 6)
    b'line 2'
    """

    def __init__(self, root: Path, *, compress_from: int | None = COMPRESS_FROM) -> None:
        if compress_from is not None:
            load_zstd()
        self.root = root
        self.indexes = IndexFolder(root)
        self._compress_from = compress_from

    def write(self, role: str, content: Content) -> ArtifactRef:
        with open_content(content) as stream:
            return artifact_reference(role, self.put(stream).sha256)

    def put(self, content: BinaryIO) -> StoredContent:
        """Stores the content, a chunk at a time. Raises OSError, and then nothing is stored."""
        make_folder(self.root)
        with incoming(self.root) as file:
            copied = copy_content(content, file)
            stored = copied.stored
            folder = self.root / stored.sha256[:2]
            make_folder(folder)
            is_fresh = not self._holds(stored)
            if is_fresh:
                if copied.is_compressed(self._compress_from):
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
        """True when the file's times show no change since it was verified. False does not mean that there was one.

        Always true for compressed content: a frame that was changed cannot be read.
        """
        changed_at = _changed_at(self.root / sha256[:2] / sha256)
        return changed_at is None or self.indexes.is_sealed(sha256, changed_at)

    def verify(self, sha256: str) -> bool:
        """Compares all of the content with its hash, and records a success. Raises as `open` does."""
        changed_at = _changed_at(self.root / sha256[:2] / sha256)
        with self.open(sha256) as stream:
            is_same = hash_stream(stream) == sha256
        if is_same and changed_at is not None:
            self.indexes.seal(sha256, changed_at)
        return is_same

    def open(self, path: str) -> BinaryIO:
        """The content under a virtual path or a sha256, as a stream that can seek.

        Links are not followed, neither to a file nor to a folder. Raises MissingArtifact; Damaged for what is not a
        regular file or not the one that was written; StoreUnreachable; any other OSError is about this one file.
        """
        return self._open_stored(self._name(path))

    def shell_path(self, path: str) -> Path:
        """A file with the content under a virtual path or a sha256, which any program can open.

        Content that is stored compressed is written once more, uncompressed, under the name that it has without
        compression. The file belongs to the store: programs may read it and not write it. Raises as `open` does.
        """
        name = self._name(path)
        if name.endswith(COMPRESSED):
            with self._open_stored(name) as content, incoming(self.root) as file:
                copy_content(content, file)
                publish(file, self.root / name.removesuffix(COMPRESSED))
        return self.root / name.removesuffix(COMPRESSED)

    def glance(self, sha256: str, size: int) -> None:
        """Checks that content of that size is there, without reading it.

        Raises what `open` raises, and Damaged for an uncompressed file of another size.
        """
        for name in stored_names(sha256):
            status = read_status(self.root / name)
            if status is None:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise Damaged(NO_FILE)
            if status.st_size != size and not name.endswith(COMPRESSED):
                raise Damaged(wrong_size(status.st_size, size))
            return
        self._name(sha256)

    def read_window(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer at the end. Raises MissingArtifact."""
        with self.open(path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def check(self) -> tuple[StoreFault, ...]:
        """Reads everything; reports content that does not have the hash of its name, and files that are no artifacts.

        Raises StoreUnreachable: about a store that cannot be read nothing is known.
        """
        return tuple(fault for name in sorted(self._names()) if (fault := self._check_file(name)) is not None)

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by content (sha256), indexes included, also those of content that is gone."""
        sizes: dict[str, int] = {}
        for name in self._names():
            if sha256 := parse_stored_name(name):
                status = read_status(self.root / name)
                sizes[sha256] = sizes.get(sha256, 0) + (status.st_size if status else 0)
        return sizes

    def remove(self, sha256: str) -> None:
        """Removes content and indexes. The caller has made sure that nothing refers to them."""
        for name in self._names_in(sha256[:2]):
            if parse_stored_name(name) == sha256:
                (self.root / name).unlink(missing_ok=True)

    def unfinished(self, seconds: float) -> tuple[Path, ...]:
        """Files of writes that were killed at least `seconds` ago."""
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

    def _open_stored(self, name: str) -> BinaryIO:
        descriptor = _open_below(self.root, name)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Damaged(NO_FILE)
        # Unbuffered: a window asks for all that it needs, and a buffer would read as much again.
        stream: BinaryIO = cast("BinaryIO", os.fdopen(descriptor, "rb", buffering=0))
        if not name.endswith(COMPRESSED):
            return stream
        try:
            return open_frames(stream)
        except BaseException:
            stream.close()
            raise

    def _holds(self, stored: StoredContent) -> bool:
        """True for content that is there. A file of another size is damaged and is written anew."""
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

    def _check_file(self, name: str) -> StoreFault | None:
        if name.startswith(INCOMING):
            return StoreFault(name, "left by a write that did not end")
        sha256 = parse_stored_name(name)
        if sha256 is None:
            return StoreFault(name, "is not named as an artifact is")
        if not stat.S_ISREG(os.lstat(self.root / name).st_mode):
            return StoreFault(name, "is not a regular file")
        if INDEX_NAME.fullmatch(name[3:]):
            has_content = any((self.root / stored).exists() for stored in stored_names(sha256))
            return None if has_content else StoreFault(name, "is the index of nothing")
        changed_at = _changed_at(self.root / name)
        fault = check_content(name, sha256, partial(self._open_stored, name), partial(self._load_index, sha256))
        if fault is None and changed_at is not None and not name.endswith(COMPRESSED):
            self.indexes.seal(sha256, changed_at)
        return fault

    def _load_index(self, sha256: str, size: int) -> LineIndex | None:
        path = self.indexes.path(sha256)
        return load_index(path, size) if path.exists() else None


def hash_stream(stream: BinaryIO) -> str:
    """The sha256 of all that the stream has; afterwards the stream is at its beginning."""
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
    """Content that was copied, and what was learned of it on the way."""

    stored: StoredContent
    is_text: bool  # it has no NUL
    index: LineIndex

    def is_compressed(self, compress_from: int | None) -> bool:
        """True for content that a store with this limit compresses."""
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
    name: str, sha256: str, open_content: Callable[[], BinaryIO], load: Callable[[int], LineIndex | None]
) -> StoreFault | None:
    """Reads one content and its index whole and compares them.

    `load` gives the index beside content of that size, None where there is none. Raises StoreUnreachable, which
    tells nothing about the content; any other failure to read is the fault.
    """
    digest, builder = hashlib.sha256(), IndexBuilder()
    try:
        with open_content() as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                builder.add(chunk)
    except StoreUnreachable:
        raise
    except Exception as error:
        return StoreFault(name, f"cannot be read ({type(error).__name__}: {error})")
    if digest.hexdigest() != sha256:
        return StoreFault(name, f"holds content with sha256 {digest.hexdigest()}")
    return _check_index(f"{sha256[:2]}/{sha256}.lines", builder.finished(), load)


def _check_index(name: str, counted: LineIndex, load: Callable[[int], LineIndex | None]) -> StoreFault | None:
    try:
        index = load(counted.size)
    except StoreUnreachable:
        raise
    except Exception as error:
        return StoreFault(name, f"cannot be read ({type(error).__name__})")
    if index is None or (index.lines == counted.lines and list(index.before) == list(counted.before)):
        return None
    return StoreFault(name, "is not the index of this content")


def wrong_size(actual: int, stored: int) -> str:
    return f"{actual:,} bytes, where {stored:,} were stored"


def parse_digits(path: str) -> str:
    """The digits of a virtual path or a sha256 that name content. Raises MissingArtifact."""
    virtual = VIRTUAL.fullmatch(path)
    digits = virtual[1] if virtual else path
    if not re.fullmatch("[0-9a-f]{16,64}", digits):
        raise MissingArtifact(path)
    return digits


def stored_names(sha256: str) -> tuple[str, str]:
    """The two names that content may have in a store: as it is, and compressed."""
    return f"{sha256[:2]}/{sha256}", f"{sha256[:2]}/{sha256}{COMPRESSED}"


def parse_stored_name(name: str) -> str | None:
    """The sha256 in the name of content or of its index; None for any other name."""
    folder, _, own = name.rpartition("/")
    match = STORED_NAME.fullmatch(own) or INDEX_NAME.fullmatch(own)
    return match[1] if match and own[:2] == folder else None


def _open_below(root: Path, name: str) -> int:
    """A descriptor of `<folder>/<file>` in the root, without following a link at either. Raises as `open` does."""
    folder, _, own = name.rpartition("/")
    try:
        descriptor = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise MissingArtifact(name) from None
    except OSError as error:
        if error.errno in LINKED:
            raise Damaged(NO_FILE) from None
        raise
