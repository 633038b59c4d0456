"""The artifact store in an S3 bucket: what envelopes.storage.file_store.FileStore is in a folder.

Objects are named `<prefix>/<first two digits>/<sha256>`, with `.zst` where they are compressed, and
`<sha256>.lines` for their line index. Content is written to a local file first, because its name is its hash, and
uploaded whole or not at all. Line indexes are read from local copies, which are fetched when they are missing.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO, cast

from dashboard.artifacts.bucket import Bucket
from envelopes.schema.result import ArtifactRef
from envelopes.storage.durable_files import IncomingFile, find_unfinished, incoming, make_folder, publish
from envelopes.storage.file_store import (
    COMPRESS_FROM,
    COMPRESSED,
    INDEX_FROM,
    STORED_NAME,
    ContentCopy,
    MissingArtifact,
    StoredContent,
    StoreFault,
    check_content,
    copy_content,
    hash_stream,
    parse_digits,
    parse_stored_name,
    stored_names,
)
from envelopes.storage.line_index import WIDE, IndexFolder, LineIndex, NotIndexed, load_index
from envelopes.storage.seekable import Damaged, compress, open_frames
from envelopes.storage.sinks import Content, artifact_reference, open_content


class BucketIndexes:
    """`local` holds copies; a missing or damaged copy is replaced from the bucket or built from the content."""

    def __init__(self, bucket: Bucket, local: IndexFolder) -> None:
        self.bucket = bucket
        self.local = local

    def load(self, sha256: str, size: int, encoding: str = "utf-8") -> LineIndex:
        """Raises NotIndexed."""
        try:
            return self.local.load(sha256, size, encoding)
        except NotIndexed:
            self._fetch(sha256, encoding)
        return self.local.load(sha256, size, encoding)

    def keep(self, sha256: str, index: LineIndex) -> None:
        self.local.keep(sha256, index)
        self._send(sha256, index.encoding)

    def build(self, sha256: str, stream: BinaryIO, encoding: str = "utf-8") -> bool:
        if not self.local.build(sha256, stream, encoding):
            return False
        self._send(sha256, encoding)
        return True

    def head(self, sha256: str, encoding: str = "utf-8") -> LineIndex:
        return self.local.head(sha256, encoding)

    def remove(self, sha256: str) -> None:
        self.bucket.remove([self._name(sha256, encoding) for encoding in ("utf-8", *WIDE)])
        self.local.remove(sha256)

    def is_kept(self, sha256: str) -> bool:
        try:
            self.bucket.size_of(self._name(sha256, "utf-8"))
        except FileNotFoundError:
            return False
        return True

    def beside(self, sha256: str, size: int) -> LineIndex | None:
        """The index in the bucket, without the local copy; None where there is none. Raises BadIndex and OSError."""
        make_folder(self.local.root)
        with incoming(self.local.root) as file:
            try:
                self.bucket.fetch(self._name(sha256, "utf-8"), cast("BinaryIO", file))
            except FileNotFoundError:
                return None
            file.flush()
            return load_index(Path(file.name), size)

    def _name(self, sha256: str, encoding: str) -> str:
        return f"{sha256[:2]}/{self.local.path(sha256, encoding).name}"

    def _send(self, sha256: str, encoding: str) -> None:
        self.bucket.put(self._name(sha256, encoding), self.local.path(sha256, encoding))

    def _fetch(self, sha256: str, encoding: str) -> None:
        target = self.local.path(sha256, encoding)
        make_folder(target.parent)
        with incoming(self.local.root) as file:
            try:
                self.bucket.fetch(self._name(sha256, encoding), cast("BinaryIO", file))
            except OSError:
                raise NotIndexed(sha256) from None
            publish(file, target)


class BucketStore:
    """Text of `compress_from` bytes and more is stored compressed. `local` is a folder of this machine."""

    def __init__(self, bucket: Bucket, local: Path, *, compress_from: int | None = COMPRESS_FROM) -> None:
        self.bucket = bucket
        self.local = local
        self.indexes = BucketIndexes(bucket, IndexFolder(local))
        self._compress_from = compress_from

    def glance(self, _sha256: str, _size: int) -> None:
        """Does nothing: here it would cost a request, and a page lists many artifacts."""

    def write(self, role: str, content: Content) -> ArtifactRef:
        with open_content(content) as stream:
            return artifact_reference(role, self.put(stream).sha256)

    def put(self, content: BinaryIO) -> StoredContent:
        """Returns when the service has confirmed the object. Raises OSError, and then nothing is stored."""
        make_folder(self.local)
        with incoming(self.local) as file:
            copied = copy_content(content, file)
            stored = copied.stored
            if not self._has(stored):
                self._upload(file, copied)
        if stored.size >= INDEX_FROM and not self.indexes.is_kept(stored.sha256):
            self.indexes.keep(stored.sha256, copied.index)
        return stored

    def open(self, path: str) -> BinaryIO:
        """The content as a stream that can seek and requests ranges. Raises MissingArtifact and OSError."""
        digits = parse_digits(path)
        for name in stored_names(digits) if len(digits) == 64 else self._find_names(digits):
            try:
                return self._open_object(name)
            except FileNotFoundError:
                continue
        raise MissingArtifact(path)

    def read_window(self, path: str, offset: int, size: int) -> bytes:
        with self.open(path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def check(self) -> tuple[StoreFault, ...]:
        """Reads everything, as FileStore does. A killed upload leaves no object, so none is reported."""
        names = {name for name, _ in self.bucket.sizes()}
        return tuple(fault for name in sorted(names) if (fault := self._check_object(name, names)) is not None)

    def is_untouched(self, sha256: str) -> bool:
        """An object is put whole and its dates prove nothing, so it is trusted here; `check` reads it."""
        return True

    def verify(self, sha256: str) -> bool:
        with self.open(sha256) as stream:
            return hash_stream(stream) == sha256

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, size in self.bucket.sizes():
            if sha256 := parse_stored_name(name):
                sizes[sha256] = sizes.get(sha256, 0) + size
        return sizes

    def remove(self, sha256: str) -> None:
        self.bucket.remove(stored_names(sha256))
        self.indexes.remove(sha256)

    def unfinished(self, seconds: float) -> tuple[Path, ...]:
        """Local files of killed writes. Parts of a killed upload need a lifecycle rule of the bucket."""
        return find_unfinished(self.local, seconds)

    def _find_names(self, digits: str) -> list[str]:
        """Names of the content whose hash begins with `digits`; none where two contents do."""
        names = []
        for name, _ in self.bucket.sizes(digits[:2], behind=f"{digits[:2]}/{digits}"):
            if not name.startswith(f"{digits[:2]}/{digits}"):
                break
            if STORED_NAME.fullmatch(name[3:]):
                names.append(name)
        return names if len({parse_stored_name(name) for name in names}) == 1 else []

    def _open_object(self, name: str) -> BinaryIO:
        stream = cast("BinaryIO", self.bucket.open(name))
        return open_frames(stream) if name.endswith(COMPRESSED) else stream

    def _has(self, stored: StoredContent) -> bool:
        """False also for an object of another size: it was damaged and is written again. Raises OSError."""
        try:
            with self.open(stored.sha256) as stream:
                return stream.seek(0, io.SEEK_END) == stored.size
        except (MissingArtifact, Damaged):
            return False

    def _upload(self, file: IncomingFile, copied: ContentCopy) -> None:
        plain, compressed = stored_names(copied.stored.sha256)
        file.flush()
        if not copied.is_compressed(self._compress_from):
            self.bucket.put(plain, Path(file.name))
            return
        file.seek(0)
        with incoming(self.local) as smaller:
            compress(file.file, smaller)
            smaller.flush()
            self.bucket.put(compressed, Path(smaller.name))

    def _check_object(self, name: str, names: set[str]) -> StoreFault | None:
        sha256 = parse_stored_name(name)
        if sha256 is None:
            return StoreFault(name, "is not named as an artifact is")
        if not STORED_NAME.fullmatch(name[3:]):
            return None if names.intersection(stored_names(sha256)) else StoreFault(name, "is the index of nothing")
        return check_content(
            name, sha256, lambda: self._open_object(name), lambda size: self.indexes.beside(sha256, size)
        )
