"""The content of an artifact: a field of a recorded result, or a file in the artifact store.

It is found by the artifact's row and never by a path from a request. Where there is none to show, an
Absence says why: what is lost, what cannot be asked for at the moment and what is another content now
are three things for whoever has to do something about it.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from dashboard.artifacts.stores import artifact_files, glance_at, index_of, open_stored
from dashboard.models import Artifact
from envelopes.storage.encoding import ENCODINGS, SNIFFED, Encoding, detect
from envelopes.storage.file_store import MissingArtifact, other_size
from envelopes.storage.line_index import LineIndex
from envelopes.storage.seekable import Damaged
from envelopes.text.pointer import text_at
from envelopes.text.untrusted_json import tame

HASHED = 1024 * 1024  # bytes: 2 ms. What is larger is held against its size and its dates
HASHED_ONCE = 64 * 1024 * 1024  # bytes: 0.1 s, where the dates do not say that it is untouched; beyond, check_store


class Why(StrEnum):
    UNTAKEN = "untaken"  # the recording names it, and it was not there or refused when that was imported
    REMOVED = "removed"  # by retention
    MISSING = "missing"  # the store says that it has none: it is lost
    UNREACHABLE = "unreachable"  # the store does not say anything now
    CHANGED = "changed"  # what lies there is not what was stored


@dataclass(frozen=True, kw_only=True)
class Absence:
    """`reason` is of the store, in one line; empty where `why` says it all."""

    why: Why
    reason: str = ""

    @property
    def heading(self) -> str:
        return SAID[self.why][0]

    @property
    def sentence(self) -> str:
        return f"{SAID[self.why][1]}{f': {self.reason}' if self.reason else ''}."

    @property
    def advice(self) -> str:
        return SAID[self.why][2]


IMPORT_AGAIN = "Import the recording again where the file lies beside it"
RESTORE = f"{IMPORT_AGAIN}, with import_runs --retry-artifacts, or restore the store from a copy"
# What it is called, what is the case, and what can be done.
SAID = {
    Why.UNTAKEN: (
        "The content is not here",
        "The recording names this output, and it was not taken in with it: the file was not there, or there was "
        "no room for it, as the Problems page says then",
        f"{IMPORT_AGAIN}.",
    ),
    Why.REMOVED: ("The content is not here", "It was taken out by retention", ""),
    Why.MISSING: (
        "The content is lost",
        "The artifact store says that it has nothing under this hash",
        f"{RESTORE}.",
    ),
    Why.UNREACHABLE: (
        "The artifact store cannot be reached",
        "The artifact store cannot be reached now, so that nothing is known of the content",
        "Nothing that was stored is lost by that. Look again later.",
    ),
    Why.CHANGED: (
        "The content is not what was stored",
        "It was changed or damaged in the artifact store, and is not shown",
        f"{RESTORE}; check_store lists all that is damaged.",
    ),
}


class NoContent(Exception):
    def __init__(self, absence: Absence) -> None:
        super().__init__(absence.sentence)
        self.absence = absence


@dataclass(frozen=True, kw_only=True)
class Content:
    """Open content. `index` covers a head only while it is being built; `encoding` has no name for no text."""

    stream: BinaryIO
    size: int
    head: bytes
    encoding: Encoding
    index: LineIndex
    is_unsure: bool = False  # nothing says that it is what was stored, and nothing that it is not

    @property
    def is_indexed(self) -> bool:
        return self.index.size == self.size

    @property
    def indexed_percent(self) -> int:
        return self.index.size * 100 // self.size if self.size else 100


def stream_of(artifact: Artifact) -> BinaryIO:
    """The content from its beginning, as a stream that can seek. Raises NoContent, but not while it is read."""
    if artifact.observation_id is not None:
        return _field_stream(artifact)
    _expect_stored(artifact)
    with _errors_told():
        stream = open_stored(artifact.sha256)
        try:
            _check(stream, artifact)
        except BaseException:
            stream.close()
            raise
    return stream


def absence_of(artifact: Artifact) -> Absence | None:
    """Why there is nothing to open, as far as a look at the store's folder tells. A bucket is not asked for that."""
    if artifact.observation_id is not None:
        return None
    try:
        _expect_stored(artifact)
        with _errors_told():
            glance_at(artifact.sha256, artifact.size)
    except NoContent as no:
        return no.absence
    return None


def _expect_stored(artifact: Artifact) -> None:
    if artifact.state != Artifact.State.PRESENT:
        raise NoContent(Absence(why=Why.REMOVED if artifact.state == Artifact.State.REMOVED else Why.UNTAKEN))


@contextmanager
def content_of(artifact: Artifact, encoding: str = "") -> Iterator[Content]:
    """Open content, closed at the end. `encoding` is what the operator chose.

    Raises NoContent, also for what fails to be read within: a frame may be damaged, a bucket may go.
    """
    with stream_of(artifact) as stream, _errors_told():
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        head = stream.read(SNIFFED)
        found = Encoding(encoding, "stated") if encoding in ENCODINGS else _detected(artifact, head)
        stored = "" if artifact.observation_id is not None else artifact.sha256
        index = index_of(stream, size, stored, found.name or "utf-8")
        is_unsure = size > HASHED_ONCE and stored != "" and not artifact_files().is_untouched(stored)
        yield Content(stream=stream, size=size, head=head, encoding=found, index=index, is_unsure=is_unsure)


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except (MissingArtifact, FileNotFoundError):
        raise NoContent(Absence(why=Why.MISSING)) from None
    except Damaged as damage:
        raise NoContent(Absence(why=Why.CHANGED, reason=str(damage))) from None
    except OSError as error:
        raise NoContent(Absence(why=Why.UNREACHABLE, reason=error.strerror or str(error))) from None


def _check(stream: BinaryIO, artifact: Artifact) -> None:
    """Raises Damaged, or what reading its beginning raises. Afterwards the stream is there again."""
    size = stream.seek(0, os.SEEK_END)
    if size != artifact.size:
        raise Damaged(other_size(size, artifact.size))
    stream.seek(0)
    begin = stream.read(HASHED if size <= HASHED else SNIFFED)
    stream.seek(0)
    if not _has_hash(begin, size, artifact.sha256):
        raise Damaged("as many bytes, with another hash")


def _has_hash(begin: bytes, size: int, sha256: str) -> bool:
    """As far as a page can tell."""
    if size <= HASHED:
        return hashlib.sha256(begin).hexdigest() == sha256
    store = artifact_files()
    return size > HASHED_ONCE or store.is_untouched(sha256) or store.verify(sha256)


def _detected(artifact: Artifact, head: bytes) -> Encoding:
    """A field of a JSON document is text, whatever its characters are."""
    return Encoding("utf-8", "stated") if artifact.observation_id is not None else detect(head)


def _field_stream(artifact: Artifact) -> BinaryIO:
    document = tame(bytes(artifact.observation.data)) if artifact.observation else None
    text = text_at(document, artifact.pointer)
    if text is None:
        raise NoContent(Absence(why=Why.CHANGED, reason="the recorded result has no text at its place"))
    return io.BytesIO(text.encode("utf-8", "surrogatepass"))
