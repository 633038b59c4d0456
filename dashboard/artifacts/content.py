"""Opens the content of an artifact: a field of a recorded result, or a file in the artifact store.

Content is looked up by the artifact's row, never by a path from a request. Where there is none to show, an Absence
gives the cause: content that is lost, a store that does not answer now, and content that was changed need
different remedies.

A download never opens as one of our pages, and answers one range at a time: a request for several gets the whole
content, so that no request causes more than one reading (D-7).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase

from dashboard.artifacts.stores import configured_store, load_line_index, open_stored, peek_stored
from dashboard.models import Artifact
from dashboard.text.masks import mask_stream
from dashboard.text.responses import sandboxed
from envelopes.storage.encoding import ENCODINGS, SNIFFED, Encoding, detect_encoding
from envelopes.storage.file_store import MissingArtifact, wrong_size
from envelopes.storage.line_index import LineIndex
from envelopes.storage.seekable import Damaged
from envelopes.text.pointer import text_at
from envelopes.text.untrusted_json import parse_json

# Bytes of content that is hashed for every page, which takes 2 ms. Content of up to settings.ARTIFACT_HASHED_BYTES is
# hashed where its file's dates do not show that it is untouched. Larger content is left to `check_store`.
ALWAYS_HASHED = 1024 * 1024


class AbsenceCause(StrEnum):
    NOT_IMPORTED = "not imported"  # the file was missing or refused when the recording was imported
    REMOVED = "removed"  # by retention
    MISSING = "missing"  # the store answers that it has none: it is lost
    UNREACHABLE = "unreachable"  # the store does not answer now
    CHANGED = "changed"  # the stored bytes are not what was stored


_IMPORT_AGAIN = "Import the recording again with the file beside it"
_RESTORE = f"{_IMPORT_AGAIN}, with import_runs --retry-artifacts, or restore the store from a backup"
# Heading, sentence without its full stop, and advice.
ABSENCE_TEXTS = {
    AbsenceCause.NOT_IMPORTED: (
        "The content was not imported",
        "The recording names this output, but its file was missing or exceeded the quota when the recording was "
        "imported (see Problems)",
        f"{_IMPORT_AGAIN}.",
    ),
    AbsenceCause.REMOVED: ("The content was removed", "It was removed by retention", ""),
    AbsenceCause.MISSING: (
        "The content is lost",
        "The artifact store has nothing under this hash",
        f"{_RESTORE}.",
    ),
    AbsenceCause.UNREACHABLE: (
        "The artifact store cannot be reached",
        "The artifact store cannot be reached, so the state of the content is unknown",
        "Nothing that was stored is lost by this. Try again later.",
    ),
    AbsenceCause.CHANGED: (
        "The content is not what was stored",
        "It was changed or damaged in the artifact store, and is not shown",
        f"{_RESTORE}; check_store lists all that is damaged.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Absence:
    """`detail` is the store's own error in one line, if it gave one."""

    cause: AbsenceCause
    detail: str = ""

    @property
    def heading(self) -> str:
        return ABSENCE_TEXTS[self.cause][0]

    @property
    def sentence(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{ABSENCE_TEXTS[self.cause][1]}{detail}."

    @property
    def advice(self) -> str:
        return ABSENCE_TEXTS[self.cause][2]


class NoContent(Exception):
    def __init__(self, absence: Absence) -> None:
        super().__init__(absence.sentence)
        self.absence = absence


@dataclass(frozen=True, kw_only=True)
class Content:
    """Open content of `size` bytes, with its first SNIFFED bytes in `head`.

    `stream` is for pages, with secrets masked; `stored` has the bytes themselves, for comparisons.

    `index` covers only a beginning while it is being built. `encoding` has no name where the content is not text.
    `is_unverified`: the content is too large to hash for a page, and its file may have been written to.
    """

    stream: BinaryIO
    size: int
    head: bytes
    encoding: Encoding
    index: LineIndex
    stored: BinaryIO
    is_unverified: bool = False

    @property
    def is_indexed(self) -> bool:
        return self.index.size == self.size

    @property
    def indexed_percent(self) -> int:
        return self.index.size * 100 // self.size if self.size else 100


def open_stream(artifact: Artifact) -> BinaryIO:
    """The content from its beginning, as a stream that can seek.

    Raises NoContent; errors while it is read later are the store's own.
    """
    if artifact.observation_id is not None:
        return _open_field(artifact)
    _check_state(artifact)
    with _errors_as_absence():
        stream = open_stored(artifact.sha256)
        try:
            _verify(stream, artifact)
        except BaseException:
            stream.close()
            raise
    return stream


@contextmanager
def open_content(artifact: Artifact, encoding: str = "") -> Iterator[Content]:
    """The content with its encoding and line index, closed at the end. `encoding` is the operator's choice.

    Raises NoContent, also for content that cannot be read to its end: a frame may be damaged, a bucket may go down.
    """
    with open_stream(artifact) as stream, _errors_as_absence():
        is_field = artifact.observation_id is not None
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        head = stream.read(SNIFFED)
        if encoding in ENCODINGS:
            detected = Encoding(encoding, "stated")
        else:  # a string of a JSON document is text, whatever characters it has
            detected = Encoding("utf-8", "stated") if is_field else detect_encoding(head)
        index = load_line_index(stream, size, "" if is_field else artifact.sha256, detected.name or "utf-8")
        is_hashed = is_field or size <= settings.ARTIFACT_HASHED_BYTES
        yield Content(
            stream=mask_stream(stream),
            stored=stream,
            size=size,
            head=head,
            encoding=detected,
            index=index,
            is_unverified=not is_hashed and not configured_store().is_untouched(artifact.sha256),
        )


def find_absence(artifact: Artifact) -> Absence | None:
    """Why there is no content, as far as the row and the store's folder show it; a bucket is not asked."""
    if artifact.observation_id is not None:
        return None
    try:
        _check_state(artifact)
        with _errors_as_absence():
            peek_stored(artifact.sha256, artifact.size)
    except NoContent as error:
        return error.absence
    return None


def _check_state(artifact: Artifact) -> None:
    """Raises NoContent for a file that retention removed or that was never imported."""
    if artifact.state == Artifact.State.REMOVED:
        raise NoContent(Absence(cause=AbsenceCause.REMOVED))
    if artifact.state != Artifact.State.PRESENT:
        raise NoContent(Absence(cause=AbsenceCause.NOT_IMPORTED))


@contextmanager
def _errors_as_absence() -> Iterator[None]:
    try:
        yield
    except (MissingArtifact, FileNotFoundError):
        raise NoContent(Absence(cause=AbsenceCause.MISSING)) from None
    except Damaged as damage:
        raise NoContent(Absence(cause=AbsenceCause.CHANGED, detail=str(damage))) from None
    except OSError as error:
        raise NoContent(Absence(cause=AbsenceCause.UNREACHABLE, detail=error.strerror or str(error))) from None


def _verify(stream: BinaryIO, artifact: Artifact) -> None:
    """Compares size and hash, as far as a page can afford; the stream is at its beginning afterwards.

    Raises Damaged, or what reading the beginning raises.
    """
    size = stream.seek(0, os.SEEK_END)
    if size != artifact.size:
        raise Damaged(wrong_size(size, artifact.size))
    stream.seek(0)
    beginning = stream.read(ALWAYS_HASHED if size <= ALWAYS_HASHED else SNIFFED)
    stream.seek(0)
    if size <= ALWAYS_HASHED:
        is_same = hashlib.sha256(beginning).hexdigest() == artifact.sha256
    else:
        store = configured_store()
        is_same = (
            size > settings.ARTIFACT_HASHED_BYTES
            or store.is_untouched(artifact.sha256)
            or store.verify(artifact.sha256)
        )
    if not is_same:
        raise Damaged("as many bytes, with another hash")


def _open_field(artifact: Artifact) -> BinaryIO:
    document = parse_json(bytes(artifact.observation.data)) if artifact.observation else None
    text = text_at(document, artifact.pointer)
    if text is None:
        raise NoContent(Absence(cause=AbsenceCause.CHANGED, detail="the recorded result has no text at its pointer"))
    return io.BytesIO(text.encode("utf-8", "surrogatepass"))


PIECE = 256 * 1024  # bytes
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def download(
    request: HttpRequest, stream: BinaryIO, *, size: int, name: str, content_type: str, etag: str
) -> HttpResponseBase:
    """Closes the stream, which the caller has masked where it has to be.

    `name` holds letters, digits, dashes and one dot: it goes into a header as it is.
    """
    quoted_etag = f'"{etag}"' if etag else ""
    span = _parse_range(request, size, quoted_etag)
    if etag and quoted_etag in request.headers.get("If-None-Match", ""):
        stream.close()
        response: HttpResponseBase = HttpResponseNotModified()
    elif span is not None and span[0] >= span[1]:
        stream.close()
        response = HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    else:
        start, end = span or (0, size)
        pieces = _Pieces(stream, start, end)
        response = StreamingHttpResponse(pieces, status=206 if span else 200, content_type=content_type)
        response["Content-Length"] = str(end - start)
        response.is_masked = True  # type: ignore[attr-defined]
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Accept-Ranges"] = "bytes"
        if span:
            response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response["Vary"] = "Cookie"
    if etag:
        response["ETag"] = quoted_etag
    return sandboxed(response)


def _parse_range(request: HttpRequest, size: int, etag: str) -> tuple[int, int] | None:
    """The requested bytes, half-open; empty when they lie behind the end.

    None for the whole content: without a range, with several, or when the content changed since.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    if match is None or match[1] == match[2] == "" or request.headers.get("If-Range", etag) != etag:
        return None
    if match[1] == "":
        return max(0, size - int(match[2])), size if int(match[2]) else 0
    last = int(match[2]) if match[2] else size - 1
    return None if last < int(match[1]) and match[2] else (int(match[1]), min(last + 1, size))


class _Pieces:
    """Closed by the response, also when nobody read it."""

    def __init__(self, stream: BinaryIO, start: int, end: int) -> None:
        self._stream, self._remaining = stream, end - start
        stream.seek(start)

    def __iter__(self) -> Iterator[bytes]:
        while self._remaining > 0 and (piece := self._stream.read(min(PIECE, self._remaining))):
            self._remaining -= len(piece)
            yield piece

    def close(self) -> None:
        self._stream.close()
