"""The files on disk that are recordings: which they are, their format, and their lines in batches.

A recording in a container has the path of a file below it, `opencode.db/ses_….json`, and is composed when it is opened.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import msgspec
from django.conf import settings

from dashboard.artifacts.ingest import ARTIFACTS_FOLDER, RESULTS_FOLDER
from envelopes.recordings import UnknownFormat, detect_format, find_container
from envelopes.recordings.base import Container, Format, SourceLine, SourcePath
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank
from envelopes.text.untrusted_json import Untrusted, parse_json, split_objects

WINDOW_BYTES = 4_096
HEAD_BYTES = 65_536
LATER_HEADS = 16
FOLDERS_ABOVE = 3  # of a file of a container
BRACKETS = (b"{", b"[")
BATCH_BYTES = 4 * 1024 * 1024
BATCH_LINES = 4_000
# Of an audit folder: the run comes first, the usage of requests after the receipts that it is compared with.
IMPORT_ORDER = {"run.json": 0, "messages.jsonl": 2}
DOCUMENTS = (".json", ".traj", ".eval", ".pb", ".binpb", ".jsonl.zst")  # may be recordings: their content decides
NO_RECORDING = "not imported: neither a .jsonl file, nor a run.json, nor a document of a known format"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xfd7zX")


class NotARegularFile(OSError):
    """A folder, pipe, socket or device: it cannot be read again from an offset."""


@dataclass(frozen=True)
class LineBatch:
    """Consecutive whole lines up to the byte `end`; `incomplete` is a last line without its end, behind them.

    `is_too_long`: the only line is longer than settings.MAX_LINE_BYTES, and only its beginning is here.
    """

    lines: list[SourceLine]
    end: int
    incomplete: SourceLine | None = None
    is_too_long: bool = False


def open_regular(path: Path) -> BinaryIO:
    """Never waits: a pipe without a writer is refused, not read. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if container := find_container(path.parent):
            return _compose(container, path)
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotARegularFile(errno.EINVAL, "not a regular file; save what it gives as a file and import that")


def _compose(container: Container, path: Path) -> BinaryIO:
    """A document of a container as a file, because its size is not limited."""
    file = TemporaryFile(dir=settings.DATA)  # noqa: SIM115 - the caller closes it
    try:
        file.writelines(container.compose(path.parent, path.name))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


class FolderOnDisk:
    """The files beside one that is imported. Their names are listed again when the folder has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> Sequence[str]:
        try:
            return _list_names(self._folder, self._folder.stat().st_mtime_ns)
        except OSError:
            return ()

    def read(self, name: str) -> bytes:
        try:
            with open_regular(self._folder / name) as file:
                return file.read(BATCH_BYTES)
        except OSError:
            return b""


@lru_cache(maxsize=4)
def _list_names(folder: Path, _changed: int) -> tuple[str, ...]:
    return tuple(sorted(os.listdir(folder)))


def place_file(path: Path) -> SourcePath:
    """The path of a file on disk, as its reader gets it."""
    whole = path.resolve()
    return SourcePath(whole.as_posix(), folder=FolderOnDisk(whole.parent))


def find_changed_container(path: Path) -> Path | None:
    """The container that a changed file belongs to: the journal of a database, or a file of a folder."""
    name = path.name.removesuffix("-wal").removesuffix("-journal")
    candidates = (path.with_name(name), *path.parents[:FOLDERS_ABOVE])
    return next((candidate for candidate in candidates if find_container(candidate)), None)


def file_size(path: Path) -> int:
    """Zero for a file that is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def is_recording(path: Path) -> bool:
    """By the file's name, and for a document by its content.

    Outputs that a session stores beside itself are not, though they may be lines of JSON.
    """
    name, folder = path.name, path.parent.name
    if folder == RESULTS_FOLDER:
        return False
    if name.endswith(".jsonl") or name == "run.json":
        return True
    if not name.endswith(DOCUMENTS) or folder == ARTIFACTS_FOLDER:
        return False
    with suppress(OSError, UnknownFormat), open_regular(path) as file:
        detect_file_format(file, file.read(HEAD_BYTES), place_file(path))
        return True
    return False


@dataclass(frozen=True)
class FoundFiles:
    """The files to import, with the flag that the path was given itself, and those of folders that no reader takes.

    `containers` are files and folders with several recordings, each with the reason why it cannot be listed, or none;
    `versions` are those of the recordings in them.
    """

    recordings: list[tuple[Path, bool]] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    containers: dict[Path, str] = field(default_factory=dict)
    versions: dict[Path, str] = field(default_factory=dict)

    def add_container(self, container: Container, path: Path) -> None:
        try:
            documents = {path / document.name: document.version for document in container.list_documents(path)}
        except OSError as error:
            self.containers[path] = f"cannot be read: {error.strerror or error}"
            return
        self.containers[path] = ""
        self.versions.update(documents)
        self.recordings.extend((document, False) for document in documents)


def find_files(paths: Iterable[Path]) -> FoundFiles:
    """Looks for recordings. The files of a folder come before those of its subfolders, and one after the other.

    A folder that cannot be listed is returned like a file, so that opening it fails with the reason. Stored outputs are
    left out.
    """
    found = FoundFiles()
    for path in paths:
        if container := find_container(path):
            found.add_container(container, path)
        elif not path.is_dir():
            found.recordings.append((path, True))
        else:
            _search_folder(path, found)
    return found


def _search_folder(path: Path, found: FoundFiles) -> None:
    """The files beside a container belong to it: those that are no recordings are not named."""
    errors: list[OSError] = []
    files: list[Path] = []
    owned: list[Path] = []  # folders with a container
    for name, folders, names in os.walk(path, onerror=errors.append, followlinks=False):
        folder = Path(name)
        entries = sorted([*(entry for entry in folders if not (folder / entry).is_symlink()), *names])
        containers = {entry: kind for entry in entries if (kind := find_container(folder / entry))}
        folders[:] = [entry for entry in folders if entry not in containers]
        owned += [folder] if containers else []
        for entry, container in containers.items():
            found.add_container(container, folder / entry)
        is_owned = any(folder.is_relative_to(owner) for owner in owned)
        for file in [folder / name for name in sorted(set(names) - containers.keys())]:
            if is_recording(file):
                files.append(file)
            elif folder.name not in (RESULTS_FOLDER, ARTIFACTS_FOLDER) and not is_owned:
                found.others.append(file)
    files += [Path(os.fsdecode(error.filename)) for error in errors]
    found.recordings.extend((file, False) for file in sorted(files, key=_import_order))


def _import_order(file: Path) -> tuple[int, str, int, str]:
    """The calls of an audit folder are in several of its files: read one after the other, each is merged once."""
    return len(file.parts), str(file.parent), IMPORT_ORDER.get(file.name, 1), file.name


def prefix_sha256(file: BinaryIO, offset: int) -> str:
    """The hash of the first and the last 4 KiB before `offset`, by which a file that was replaced is noticed."""
    digest = hashlib.sha256()
    descriptor = file.fileno()
    digest.update(os.pread(descriptor, min(WINDOW_BYTES, offset), 0))
    start = max(0, offset - WINDOW_BYTES)
    digest.update(os.pread(descriptor, offset - start, start))
    return digest.hexdigest()


def head_sha256(head: bytes) -> str:
    """The hash of the first line, of which at most 4 KiB count: a file that grows keeps it.

    A document may have a bracket alone on its first line, as many others do: then what follows counts too.
    """
    first = head.split(b"\n", 1)[0]
    return hashlib.sha256((head if first.strip() in BRACKETS else first)[:WINDOW_BYTES]).hexdigest()


def read_line_batches(file: BinaryIO, *, offset: int, number: int) -> Iterator[LineBatch]:
    """The lines from `offset` on, in batches of about 4 MiB; `number` is that of the first line.

    A line that is too long is a batch of its own, because its length differs from that of its stored beginning.
    """
    file.seek(offset)
    lines: list[SourceLine] = []
    size = 0
    while raw := file.readline(settings.MAX_LINE_BYTES):
        is_too_long = len(raw) == settings.MAX_LINE_BYTES and not raw.endswith(b"\n")
        if lines and (is_too_long or size + len(raw) > BATCH_BYTES or len(lines) >= BATCH_LINES):
            yield LineBatch(lines, offset)
            lines, size = [], 0
        line = SourceLine(number, offset, _skip_line(file, raw) if is_too_long else raw)
        if not line.raw.endswith(b"\n"):
            if _is_whole_json(line.raw):
                yield LineBatch([*lines, line], offset + len(line.raw))
            else:
                yield LineBatch(lines, offset, incomplete=line)
            return
        offset = file.tell()
        number += 1
        if is_too_long:
            yield LineBatch([line], offset, is_too_long=True)
        else:
            lines.append(line)
            size += len(raw)
    if lines:
        yield LineBatch(lines, offset)


def read_document_batch(file: BinaryIO, *, offset: int, number: int) -> Iterator[LineBatch]:
    """All lines from `offset` on as one batch, for a format whose files are one document.

    Some of these formats also have files of lines, to which a program may be writing the last one.
    """
    file.seek(offset)
    raw = file.read(settings.MAX_LINE_BYTES + 1)
    if len(raw) > settings.MAX_LINE_BYTES:
        end = os.fstat(file.fileno()).st_size
        yield LineBatch([SourceLine(number, offset, raw[:HEAD_BYTES])], end, is_too_long=True)
        return
    lines: list[SourceLine] = []
    start = offset
    for content in io.BytesIO(raw):
        lines.append(SourceLine(number + len(lines), start, content))
        start += len(content)
    if not lines:
        return
    *whole, last = lines
    if _ends_open(last) and all(_is_whole_json(line.raw) for line in whole if not is_blank(line.raw)):
        yield LineBatch(whole, last.offset, incomplete=last)
    else:
        yield LineBatch(lines, start)


def _ends_open(line: SourceLine) -> bool:
    """True for an object behind others that has neither its end nor that of its line."""
    is_begun = line.offset > 0 and line.raw.lstrip().startswith(b'{"')
    return is_begun and not line.raw.endswith(b"\n") and not _is_whole_json(line.raw)


def _skip_line(file: BinaryIO, start: bytes) -> bytes:
    """Reads on to the newline; returns only the first 64 KiB, with the newline of the line."""
    while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n"):
        continue
    return start[:HEAD_BYTES] + (b"\n" if raw else b"")


def _is_whole_json(raw: bytes) -> bool:
    """A last line without a newline is whole when it is one JSON object or array, with NaN in it or not, or several."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    if not raw.rstrip().endswith((b"}", b"]")):
        return False
    with suppress(msgspec.DecodeError, RecursionError):
        msgspec.json.decode(raw, type=msgspec.Raw)
        return True
    if len(split_objects(raw)) > 1:
        return True
    try:
        parse_json(raw)
    except Untrusted:
        return False
    return True


def detect_file_format(file: BinaryIO, head: bytes, path: SourcePath) -> Format:
    """Detects it by the first lines or, when those are too long or damaged, by later ones. Raises UnknownFormat."""
    if head.startswith(COMPRESSED):  # a member that was stored as it is would be read from the middle
        with suppress(UnknownFormat):
            if (archive := detect_format(head, path)).is_archive:
                return archive
        raise UnknownFormat("not a recording, it is compressed: unpack it and import what it holds")
    try:
        return detect_format(head, path)
    except UnknownFormat:
        for later in _later_heads(file):
            with suppress(UnknownFormat):
                return detect_format(later, path)
        raise


def _later_heads(file: BinaryIO) -> Iterator[bytes]:
    """Up to LATER_HEADS more pieces of 64 KiB behind the first, each from the beginning of a line."""
    file.seek(HEAD_BYTES - 1)
    for _ in range(LATER_HEADS):
        while (raw := file.readline(BATCH_BYTES)) and not raw.endswith(b"\n") and file.tell() < settings.MAX_LINE_BYTES:
            continue
        if not (head := file.read(HEAD_BYTES)):
            return
        yield head
        file.seek(-1, os.SEEK_CUR)


def explain_unknown_format(path: Path) -> str:
    """Advice for a file of unknown format, from its first bytes; empty when they are not recognised."""
    with open_regular(path) as file:
        head = file.read(HEAD_BYTES)
    if is_blank(head):
        return "the file begins with blank lines only" if head else "the file is empty"
    has_wide_letters = b"\0" in head[:4] and bool(head[:4].strip(b"\0")) and not head.startswith(COMPRESSED)
    is_wide = head.startswith(UTF_16) or has_wide_letters
    return "the text is UTF-16 or UTF-32: save it as UTF-8 and import that" if is_wide else ""


def read_refused_file(path: Path) -> tuple[bytes, dict[str, int]]:
    """The beginning of a refused file and its lines by kind; nothing for a file that cannot be opened."""
    rejected = blank = 0
    try:
        with open_regular(path) as file:
            raw = file.read(HEAD_BYTES)
            for batch in read_line_batches(file, offset=0, number=1):
                lines = [*batch.lines, *([batch.incomplete] if batch.incomplete else [])]
                blank_lines = sum(is_blank(line.raw) for line in lines)
                rejected, blank = rejected + len(lines) - blank_lines, blank + blank_lines
    except OSError:
        return b"", {}
    return raw, {"rejected": rejected, "blank": blank}
