"""The artifact store in an S3 bucket: what envelopes.storage.file_store.FileStore is in a folder.

`<prefix>/<first two digits>/<sha256>`, with `.zst` where it is compressed, and `<sha256>.lines` beside
it. A write goes to a file of this machine first, for its name is its hash, and is an object whole or not
at all. Line indexes are read from copies on this machine; they are fetched when they are not there.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from dashboard.artifacts.bucket import Bucket
from envelopes.schema.result import ArtifactRef
from envelopes.storage.durable_files import IncomingFile, incoming, make_folder, publish, unfinished_since
from envelopes.storage.file_store import (
    COMPRESS_FROM,
    COMPRESSED,
    INDEX_FROM,
    STORED_NAME,
    Copied,
    Fault,
    MissingArtifact,
    Stored,
    copy,
    digits_of,
    encoded,
    fault_of,
    hash_in,
    names_of,
    reference_to,
    sha256_of,
)
from envelopes.storage.line_index import WIDE, IndexFolder, LineIndex, NotIndexed, load_index
from envelopes.storage.seekable import Damaged, compress, open_frames


class BucketIndexes:
    """`local` holds copies; whatever is wrong with one is put right from the bucket or from the content."""

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
        return _has(self.bucket, self._name(sha256, "utf-8"))

    def beside(self, sha256: str, size: int) -> LineIndex | None:
        """The one in the bucket, whatever the local copy says; raises what is wrong with it."""
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
    """Text from `compress_from` bytes on is kept compressed, as in a folder. `local` is a folder of this machine."""

    def __init__(self, bucket: Bucket, local: Path, *, compress_from: int | None = COMPRESS_FROM) -> None:
        self.bucket = bucket
        self.local = local
        self.indexes = BucketIndexes(bucket, IndexFolder(local))
        self._compress_from = compress_from

    def glance(self, _sha256: str, _size: int) -> None:
        """A look is a request here, and a page has many artifacts to list: nothing is known, and nothing raised."""

    def write(self, role: str, text: str) -> ArtifactRef:
        return reference_to(role, self.put(io.BytesIO(encoded(text))).sha256)

    def put(self, content: BinaryIO) -> Stored:
        """Returns when the service has said that it has it. Raises OSError, and then nothing is stored."""
        make_folder(self.local)
        with incoming(self.local) as file:
            copied = copy(content, file)
            stored = copied.stored
            if not self._holds(stored):
                self._upload(file, copied)
        if stored.size >= INDEX_FROM and not self.indexes.is_kept(stored.sha256):
            self.indexes.keep(stored.sha256, copied.index)
        return stored

    def open(self, path: str) -> BinaryIO:
        """The content, as a stream that can seek and asks the bucket for ranges. Raises MissingArtifact, OSError."""
        digits = digits_of(path)
        for name in names_of(digits) if len(digits) == 64 else self._names_of(digits):
            try:
                return self._opened(name)
            except FileNotFoundError:
                continue
        raise MissingArtifact(path)

    def read_window(self, path: str, offset: int, size: int) -> bytes:
        with self.open(path) as stream:
            stream.seek(offset)
            return stream.read(size)

    def check(self) -> tuple[Fault, ...]:
        """Reads everything, as FileStore does; what an upload that was killed left is no object, and costs no check."""
        names = {name for name, _ in self.bucket.sizes()}
        return tuple(fault for name in sorted(names) if (fault := self._checked(name, names)) is not None)

    def is_untouched(self, sha256: str) -> bool:
        """An object is put whole and has no dates of its own to go by: `check` reads it."""
        return True

    def verify(self, sha256: str) -> bool:
        with self.open(sha256) as stream:
            return sha256_of(stream) == sha256

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, size in self.bucket.sizes():
            if sha256 := hash_in(name):
                sizes[sha256] = sizes.get(sha256, 0) + size
        return sizes

    def remove(self, sha256: str) -> None:
        self.bucket.remove(names_of(sha256))
        self.indexes.remove(sha256)

    def unfinished(self, seconds: float) -> tuple[Path, ...]:
        """Of this machine. Parts of an upload that was killed are the bucket's: it needs a rule that ends them."""
        return unfinished_since(self.local, seconds)

    def _names_of(self, digits: str) -> Iterator[str]:
        """Digits that fit two contents name neither."""
        found = []
        for name, _ in self.bucket.sizes(digits[:2], behind=f"{digits[:2]}/{digits}"):
            if not name.startswith(f"{digits[:2]}/{digits}"):
                break
            if STORED_NAME.fullmatch(name[3:]):
                found.append(name)
        return iter(found if len({hash_in(name) for name in found}) == 1 else [])

    def _opened(self, name: str) -> BinaryIO:
        found = cast("BinaryIO", self.bucket.open(name))
        return open_frames(found) if name.endswith(COMPRESSED) else found

    def _holds(self, stored: Stored) -> bool:
        """One of another size was damaged and is written anew. Raises OSError when the bucket cannot be asked."""
        try:
            with self.open(stored.sha256) as stream:
                return stream.seek(0, io.SEEK_END) == stored.size
        except (MissingArtifact, Damaged):
            return False

    def _upload(self, file: IncomingFile, copied: Copied) -> None:
        plain, compressed = names_of(copied.stored.sha256)
        file.flush()
        if not copied.is_worth(self._compress_from):
            self.bucket.put(plain, Path(file.name))
            return
        file.seek(0)
        with incoming(self.local) as smaller:
            compress(file.file, smaller)
            smaller.flush()
            self.bucket.put(compressed, Path(smaller.name))

    def _checked(self, name: str, names: set[str]) -> Fault | None:
        sha256 = hash_in(name)
        if sha256 is None:
            return Fault(name, "is not named as an artifact is")
        if not STORED_NAME.fullmatch(name[3:]):
            return None if names.intersection(names_of(sha256)) else Fault(name, "is the index of nothing")
        return fault_of(name, sha256, lambda: self._opened(name), lambda size: self.indexes.beside(sha256, size))


def _has(bucket: Bucket, name: str) -> bool:
    try:
        bucket.size_of(name)
    except FileNotFoundError:
        return False
    return True
