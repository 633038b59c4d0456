"""Sinks: what a projection writes large fields to, of which only a preview fits (RFC-059, RFC-079).

    ArtifactSink   the protocol that a projector writes to
    MemorySink     keeps the texts in memory: for tests, and for projections that are only looked at
    capture        takes what a tool wrote, of any size and of any bytes, as the text of a complete output
    shorten_captured, restore_captured   such outputs in a record: it repeats no more of the stored text than a preview
                                         needs, and whoever has the file reads the rest of both ends again

All sinks give a text the same path, which follows from its role and content (RFC-085). `FileStore` is the sink that
keeps files.
"""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

from envelopes.schema.result import ArtifactRef
from envelopes.text.pointer import join, resolve
from envelopes.text.preview import FileText, FileTextReader

INLINE_BYTES = 64 * 1024  # a longer output is stored before it is projected
END_CHARACTERS = 256_000  # of each end: 64,000 tokens, the most that a tool promises, have about as many
RECORDED_CHARACTERS = 32_000  # of each end in a record: 8,000 tokens, the budget that a tool has by default
MOST_BYTES = 4  # of a character in UTF-8
PER_TOKEN = 4  # characters of each end for a token of the budget
Content: TypeAlias = str | bytes | BinaryIO


class ArtifactSink(Protocol):
    def write(self, role: str, content: Content) -> ArtifactRef:
        """Stores the content whole, a file in pieces, and returns its virtual path, never an OS path (E-5)."""


class MemorySink:
    """A sink that keeps its texts in memory, by virtual path.

    >>> sink = MemorySink()
    >>> sink.texts[sink.write("stdout", "3 passed").path]
    '3 passed'
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, role: str, content: Content) -> ArtifactRef:
        with open_content(content) as stream:
            data = stream.read()
        reference = artifact_reference(role, hashlib.sha256(data).hexdigest())
        self.texts[reference.path] = content if isinstance(content, str) else data.decode("utf-8", "replace")
        return reference


def capture(role: str, content: bytes | BinaryIO, sink: ArtifactSink) -> str | FileText:
    r"""`content` as text when it is short and UTF-8; else a reference to it in `sink`, with its beginning and its end.

    A file is read once, in pieces, from where it stands, so that output larger than memory goes through.

    >>> from envelopes import MemorySink
    >>> capture("stdout", b"3 passed\n", MemorySink())
    '3 passed\n'
    >>> image = capture("stdout", b"\x89PNG\r\n", MemorySink())
    >>> image.is_text, image.size
    (False, 6)
    """
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    beginning = _read_fully(stream, INLINE_BYTES + 1)
    if len(beginning) <= INLINE_BYTES and (text := _decode(beginning)) is not None:
        return text
    observed = _Observed(beginning, stream)
    artifact = sink.write(role, cast("BinaryIO", observed))
    return observed.reader.finish(artifact.path)


def shorten_captured(data: Any, paths: Collection[str]) -> tuple[Any, list[dict[str, Any]]]:
    """The data with shorter ends of the outputs that are stored under `paths`, and where and how long the ends were.

    JSON on one line stays whole, since a projection lays it out only then.
    """
    shortened: list[dict[str, Any]] = []
    return _shorten(data, paths, "", RECORDED_CHARACTERS, shortened), shortened


def _shorten(value: Any, paths: Collection[str], pointer: str, keep: int, shortened: list[dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_shorten(item, paths, join(pointer, at), keep, shortened) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if not _is_captured(value, paths):
        tokens = value.get("max_output_tokens")
        keep = min(max(keep, PER_TOKEN * tokens), END_CHARACTERS) if isinstance(tokens, int) else keep
        return {name: _shorten(item, paths, join(pointer, name), keep, shortened) for name, item in value.items()}
    start, end = value["start"], value["end"]
    known = start + end
    is_json = "\n" not in known.rstrip() and known.lstrip().removeprefix("\ufeff").lstrip()[:1] in ("{", "[")
    if len(known) <= 2 * keep or is_json:
        return value
    shortened.append({"pointer": pointer, "start": len(start), "end": len(end)})
    return {**value, "start": start[:keep], "end": known[-keep:]}


def _is_captured(value: dict[str, Any], paths: Collection[str]) -> bool:
    is_text = all(isinstance(value.get(name), str) for name in ("path", "start", "end"))
    return is_text and "characters" in value and value["path"] in paths


def restore_captured(data: Any, shortened: Iterable[Mapping[str, Any]], open_output: Callable[[str], BinaryIO]) -> Any:
    """The data that `shorten_captured` got. Raises what `open_output` raises for a path that it does not know."""
    restored = copy.deepcopy(data)
    for entry in shortened:
        output: Any = resolve(restored, entry["pointer"])
        with open_output(output["path"]) as stream:
            beginning = _read_fully(stream, entry["start"] * MOST_BYTES)
            output["start"] = beginning.decode("utf-8", "replace")[: entry["start"]]
            stream.seek(max(0, stream.seek(0, io.SEEK_END) - entry["end"] * MOST_BYTES))
            output["end"] = stream.read().decode("utf-8", "replace")[-entry["end"] :] if entry["end"] else ""
    return restored


def _decode(data: bytes) -> str | None:
    """The text of bytes that are UTF-8; None for others."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _read_fully(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes, or fewer at the end: a pipe gives fewer at a time."""
    pieces = b""
    while len(pieces) < size and (piece := stream.read(size - len(pieces))):
        pieces += piece
    return pieces


class _Observed:
    """Reads `beginning`, then `stream`; `reader` sees all bytes that pass."""

    def __init__(self, beginning: bytes, stream: BinaryIO) -> None:
        self._beginning, self._stream = beginning, stream
        self.reader = FileTextReader(END_CHARACTERS)

    def read(self, size: int = -1) -> bytes:
        if self._beginning:
            stop = size if size >= 0 else len(self._beginning)
            chunk, self._beginning = self._beginning[:stop], self._beginning[stop:]
            if size < 0:
                chunk += self._stream.read()
        else:
            chunk = self._stream.read(size)
        self.reader.add(chunk)
        return chunk


def open_content(content: Content) -> AbstractContextManager[BinaryIO]:
    """The content as a stream of bytes; a file that the caller opened stays open."""
    if isinstance(content, str | bytes):
        return io.BytesIO(content if isinstance(content, bytes) else encode_text(content))
    return nullcontext(content)


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def artifact_reference(role: str, sha256: str) -> ArtifactRef:
    return ArtifactRef(f"artifacts/{sha256[:16]}/{role}.txt")
