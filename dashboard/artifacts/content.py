"""The content of an artifact: a field of a recorded result, or a file in the artifact store.

It is found by the artifact's row and never by a path from a request.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import BinaryIO

from dashboard.artifacts.files import index_of, open_stored
from dashboard.models import Artifact
from envelopes.artifact import MissingArtifact
from envelopes.line_index import LineIndex
from envelopes.pointer import text_at
from envelopes.text_encoding import ENCODINGS, SNIFFED, Encoding, detect
from envelopes.untrusted import tame


class Missing(Exception):
    """The content is not in the store: its recording named it but did not hold it, or it was taken away."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """Open content. `index` covers a head only while it is being built; `encoding` has no name for no text."""

    stream: BinaryIO
    size: int
    head: bytes
    encoding: Encoding
    index: LineIndex

    @property
    def is_indexed(self) -> bool:
        return self.index.size == self.size

    @property
    def indexed_percent(self) -> int:
        return self.index.size * 100 // self.size if self.size else 100


def stream_of(artifact: Artifact) -> BinaryIO:
    """The content as a stream that can seek. Raises Missing."""
    if artifact.observation_id is not None:
        return _field_stream(artifact)
    if artifact.state != Artifact.State.PRESENT:
        raise Missing(artifact.path)
    try:
        return open_stored(artifact.sha256)
    except (MissingArtifact, OSError):
        raise Missing(artifact.sha256) from None


def content_of(artifact: Artifact, encoding: str = "") -> Content:
    """`encoding` is what the operator chose. Raises Missing."""
    stream = stream_of(artifact)
    try:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        head = stream.read(SNIFFED)
        found = Encoding(encoding, "stated") if encoding in ENCODINGS else _detected(artifact, head)
        stored = "" if artifact.observation_id is not None else artifact.sha256
        index = index_of(stream, size, stored, found.name or "utf-8")
    except OSError:
        stream.close()
        raise Missing(artifact.sha256) from None
    return Content(stream=stream, size=size, head=head, encoding=found, index=index)


def _detected(artifact: Artifact, head: bytes) -> Encoding:
    """A field of a JSON document is text, whatever its characters are."""
    return Encoding("utf-8", "stated") if artifact.observation_id is not None else detect(head)


def _field_stream(artifact: Artifact) -> BinaryIO:
    document = tame(bytes(artifact.observation.data)) if artifact.observation else None
    text = text_at(document, artifact.pointer)
    if text is None:
        raise Missing(artifact.pointer)
    return io.BytesIO(text.encode("utf-8", "surrogatepass"))
