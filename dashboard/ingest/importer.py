"""Imports files: finds which source a file is, reads what is new, and passes batches to `write`.

accepted + rejected + blank = lines, always. An incomplete last line counts as rejected in the report until its end is
written, and its bytes stay unread.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from dashboard.artifacts.ingest import (
    ProjectQuota,
    QuotaExceeded,
    StoreFailed,
    hold_quota,
    retry_missing,
    store_named_file,
)
from dashboard.artifacts.retention import shared_store_lock
from dashboard.faults import FULL, READ_ONLY, find_outage
from dashboard.ingest import write
from dashboard.ingest.import_report import ImportCounts, ImportProgress, ImportReport, ProgressMeter
from dashboard.ingest.reading import Opening, Piece, ReadAhead, build_batch, choose_reader, has_own_name, read_pieces
from dashboard.ingest.rereading import read_under_own_name
from dashboard.ingest.source_files import (
    BATCH_BYTES,
    BATCH_LINES,
    HEAD_BYTES,
    NO_RECORDING,
    explain_unknown_format,
    file_size,
    find_files,
    head_sha256,
    open_regular,
    place_file,
    read_refused_file,
)
from dashboard.ingest.sources import (
    PATH_CHARACTERS,
    SourceBatch,
    SourceMoved,
    find_source,
    find_unchanged,
    load_source_names,
    load_state,
    mark_version,
    new_source,
    refuse_file,
)
from dashboard.ingest.store_derived import Deriver, open_deriver, open_import_pool
from dashboard.models import Problem, Project, Source
from dashboard.project_rules import load_rules
from dashboard.text.formatting import column_text
from envelopes.recordings import UnknownFormat
from envelopes.recordings.base import ArtifactRecord, LineProblem, Record, SourcePath
from envelopes.storage.file_store import StoredContent

MAX_STORE_FAILURES = 3  # recordings in a row
FEW_FILES = 8  # for fewer, the names of all stored sources are not worth a query


class Retry(Enum):
    """Which files named by lines that were imported before are looked for again (see `artifacts.ingest`)."""

    NOTHING = 0
    MISSING = 1
    LOST = 2  # those, and files that the store has lost


def import_paths(
    project: Project,
    paths: Sequence[Path],
    *,
    format_name: str | None = None,
    progress: Callable[[ImportProgress], None] | None = None,
    shown_as: Callable[[Path], str] = str,
    retry: Retry = Retry.MISSING,
) -> ImportReport:
    """Imports files and folders. `shown_as` gives the path that is stored: an upload has none of its own.

    After MAX_STORE_FAILURES recordings in a row without an answer from the artifact store the rest is not tried,
    because each attempt may take minutes.
    """
    found = find_files(map(Path, paths))
    report = ImportReport()
    load_rules(project)  # by which the log of this process is masked
    unchanged = find_unchanged(project, {shown_as(path): version for path, version in found.versions.items()})
    files = [entry for entry in found.recordings if shown_as(entry[0]) not in unchanged]
    folder_sizes: Counter[Path] = Counter()
    for path, _ in files:
        folder_sizes[path.parent] += file_size(path)
    size = folder_sizes.total() + sum(map(file_size, {path.parent for path, _ in files if path in found.versions}))
    failures = 0
    with open_import_pool(size) as pool, open_deriver(project, pool) as deriver, ExitStack() as locks:
        known_names = load_source_names(project) if pool or len(files) > FEW_FILES else None
        alone = [entry for entry in files if entry[0] not in found.versions]  # the pool composes no documents
        ahead = ReadAhead(pool, _new_paths(alone, shown_as, known_names) if pool else (), format_name)
        meter = ProgressMeter(progress, size)
        writer = BatchWriter(project, report, meter, deriver, locks, known_names, folder_sizes)
        for number, (path, is_named) in enumerate(files, start=1):
            before = report.unstored
            version = found.versions.get(path, "")
            file_import = FileImport(project, path, shown_as(path), report, writer, ahead, retry, version)
            file_import.run(format_name, is_named=is_named)
            failures = failures + 1 if report.unstored > before else 0
            if failures == MAX_STORE_FAILURES and number < len(files):
                writer.write()
                _report_unread(report, [shown_as(path) for path, _ in files[number:]])
                break
        writer.write()
        for file_import in writer.take_failed():
            file_import.run(format_name)
    _refuse_containers(project, report, {shown_as(path): reason for path, reason in found.containers.items()})
    if retry is not Retry.NOTHING:
        report.stored_later += sum(retry_missing(source, Path(source.path)) for source in unchanged.values())
        report.add_files(list(unchanged.items()))
    report.add_notes()
    report.skipped += [
        {"file": shown_as(path), "line": 0, "path": "$", "reason": NO_RECORDING} for path in found.others
    ]
    return report


def _new_paths(
    files: Sequence[tuple[Path, bool]], shown_as: Callable[[Path], str], known_names: Container[str] | None
) -> list[Path]:
    """The files without a source of their name."""
    known = known_names or ()
    return [path for path, _ in files if column_text(shown_as(path), PATH_CHARACTERS) not in known]


def _refuse_containers(project: Project, report: ImportReport, containers: Mapping[str, str]) -> None:
    """Reports those that could not be listed: each has a reason. Earlier problems of the others are over."""
    listed = [column_text(name, PATH_CHARACTERS) for name, reason in containers.items() if not reason]
    Problem.objects.filter(project=project, source=None, file__in=listed).delete()
    for name, reason in containers.items():
        if reason:
            refuse_file(project, path=name, reason=reason, raw=b"")  # its first bytes may be anything
            report.files += 1
            report.lines.update(rejected=1)
            report.problems.append({"file": name, "line": 0, "path": "$", "reason": reason})


def _report_unread(report: ImportReport, names: Sequence[str]) -> None:
    reason = (
        f"not read: the artifact store failed for {MAX_STORE_FAILURES} recordings in a row. Import this one and "
        f"{len(names) - 1} more again when the store answers"
    )
    report.unstored += len(names)
    report.problems.append({"file": names[0], "line": 0, "path": "$", "reason": reason})


class BatchWriter:
    """Collects the batches of several files and writes them in one transaction, at BATCH_BYTES or at the end.

    The files of a folder, whose bytes are in `folder_sizes`, are not parted where they fit: the calls of an audit
    folder are in several of its files, and a call of which one is written earlier is read, and derived, again. Where a
    transaction fails, each of its files is imported again by itself, so that a bad one costs no other.
    """

    def __init__(
        self,
        project: Project,
        report: ImportReport,
        meter: ProgressMeter,
        deriver: Deriver,
        locks: ExitStack,
        known_names: set[str] | None,
        folder_sizes: Mapping[Path, int],
    ) -> None:
        self._project = project
        self._report = report
        self._meter = meter
        self._deriver = deriver
        self._locks = locks  # held until the rows that refer to stored files are committed
        self._quota: ProjectQuota | None = None
        self._pending: list[tuple[FileImport, SourceBatch]] = []
        self._names: set[str] = set()  # of the pending sources: paths, and hashes of first lines
        self._known_names = known_names  # the same of the stored sources; None while any name may be known
        self._folder_sizes = folder_sizes
        self._folder: Path | None = None  # of the last pending file
        self._size = self._lines = 0
        self._finished: list[tuple[FileImport, Source]] = []
        self._failed: list[FileImport] = []
        self._is_alone = False  # a transaction for each file

    def add(self, reader: FileImport, batch: SourceBatch) -> None:
        """Raises SourceMoved when `reader` has to start again, and StoreFailed."""
        folder = reader.path.parent
        if self._pending and folder != self._folder and self._size + self._folder_sizes[folder] > BATCH_BYTES:
            self.write(reader)
        self._folder = folder
        if any(isinstance(entry, ArtifactRecord) for entry in batch.records):
            batch = self._store_files(reader, batch)
        self._pending.append((reader, batch))
        self._names |= {batch.source.path, batch.source.head_sha256}
        self._size += batch.end - batch.start
        self._lines += len(batch.lines)
        if self._is_alone or self._size >= BATCH_BYTES or self._lines >= BATCH_LINES:
            self.write(reader)

    def finish(self, reader: FileImport, source: Source) -> None:
        """Adds the file to the report once its last batch is written."""
        self._finished.append((reader, source))

    def expects(self, names: tuple[str, str]) -> bool:
        """True while a file of that path, or with that hash of the first line, is not written yet."""
        return not self._names.isdisjoint(names)

    def may_know(self, names: tuple[str, str]) -> bool:
        """False where no stored source has that path, or that hash of the first line."""
        return self._known_names is None or not self._known_names.isdisjoint(names)

    def write(self, reader: FileImport | None = None) -> None:
        """Writes what was collected. Raises SourceMoved when `reader`, whose file is open, has to start again."""
        if self._known_names is not None:
            self._known_names |= self._names
        pending, self._pending, self._names, self._size, self._lines = self._pending, [], set(), 0, 0
        try:
            written = write.record(self._project, [batch for _, batch in pending]) if pending else None
        except Exception as error:
            self._known_names = None  # another process may import the same files
            failed = [file for file, _ in pending]
            if len(failed) == 1 and (reader in failed or not isinstance(error, SourceMoved)):
                raise
            self._failed += [file for file in failed if file is not reader]
            self._finished = [(file, source) for file, source in self._finished if file not in failed]
            if reader in failed:
                raise SourceMoved(str(error)) from error
            written = None
        finally:
            self._locks.close()
            self._quota = None
        self._report.add_files([(file.name, source) for file, source in self._finished])
        self._finished = []
        if written is not None:
            self._report.added.update(written.added)
            self._deriver.submit(written.calls)
            for file, batch in pending:
                self._meter.advance(file.name, sum(len(line.raw) for line in batch.lines), batch.records)

    def derive(self, calls: Iterable[UUID]) -> None:
        """Derives calls that are stored already."""
        self._deriver.submit(dict.fromkeys(calls))

    def take_failed(self) -> Iterator[FileImport]:
        """The files of failed transactions; from now on each file is written by itself."""
        self._is_alone = True
        while self._failed:
            yield self._failed.pop(0)
            self.write()

    def _store_files(self, reader: FileImport, batch: SourceBatch) -> SourceBatch:
        """Stores the files that the batch names, before any row refers to them."""
        if self._quota is None:
            self._locks.enter_context(shared_store_lock())
            self._quota = self._locks.enter_context(hold_quota(self._project.pk))
        files, refused = reader.store_named_files(batch.records, self._quota)
        return replace(batch, files=files, problems=[*batch.problems, *refused])


class FileImport:
    """Imports one file from where its source was read to. Adds to the report; raises nothing for bad content."""

    def __init__(
        self,
        project: Project,
        path: Path,
        name: str,
        report: ImportReport,
        writer: BatchWriter,
        ahead: ReadAhead,
        retry: Retry = Retry.MISSING,
        version: str = "",
    ) -> None:
        self.project = project
        self.path = path
        self.name = name
        self.report = report
        self.writer = writer
        self.ahead = ahead
        self.retry = retry
        self.version = version  # of a recording in a container

    def run(self, format_name: str | None = None, *, is_named: bool = True) -> None:
        """A file that has disappeared since its folder was listed is no problem."""
        try:
            with open_regular(self.path) as file:
                self._import_until_done(file, format_name)
        except UnknownFormat as error:
            self._refuse(explain_unknown_format(self.path) or str(error))
        except StoreFailed as error:
            self.report.unstored += 1
            self._refuse(f"a file that it names could not be stored: {error}; import it again to continue")
        except FileNotFoundError as error:
            if is_named:
                self._refuse(f"cannot be read: {error.strerror}")
        except OSError as error:
            if find_outage(error) in (FULL, READ_ONLY):  # of the store: reading the file needs neither
                raise
            self._refuse(f"cannot be read: {error.strerror or error}")

    def _import_until_done(self, file: BinaryIO, format_name: str | None) -> None:
        """Starts again, behind the other's batch, when another process imports the same file meanwhile."""
        while True:
            try:
                self._import(file, format_name)
            except SourceMoved:
                file.seek(0)
            else:
                return

    def _import(self, file: BinaryIO, format_name: str | None) -> None:
        head = file.read(HEAD_BYTES)
        path = place_file(self.path)
        head_hash = head_sha256(head)
        names = (column_text(self.name, PATH_CHARACTERS), head_hash)
        if self.writer.expects(names):
            self.writer.write(self)
        source = find_source(self.project, self.name, file, head, path.path) if self.writer.may_know(names) else None
        inode = os.fstat(file.fileno()).st_ino
        opening = self.ahead.take(self.path)
        if source is not None or (opening and (opening.inode, opening.head_sha256) != (inode, head_hash)):
            opening = None
        if source is None:
            name, state = choose_reader(file, head, path, format_name) if opening is None else (opening.format, b"{}")
            source = new_source(
                self.project,
                path=self.name,
                format_name=name,
                inode=inode,
                head_sha256=head_hash,
                read_as=path.path,
            )
            source.state = load_state(self.project, self.name) or state if self.version else state
        else:
            self._prepare_known(source, file, head, path)
        if self.version:
            self._note_version(source)
        offset = source.offset
        if source.ends_open:  # the last line was read without its newline
            file.seek(offset)
            newline = file.read(2)
            offset += 1 if newline.startswith(b"\n") else 2 if newline == b"\r\n" else 0
        counts = ImportCounts(source)
        for number, piece in enumerate(self._pieces(file, source, path, offset, opening)):
            if number:
                self.writer.write(self)
            batch = build_batch(source, piece, counts.add(piece.records), self._is_known)
            if opening is not None and number < len(opening.pieces):
                frames = () if number else opening.frames
                batch = replace(batch, frames=frames, digests=opening.digests(number))
            self.writer.add(self, batch)
        self.writer.finish(self, source)

    def _prepare_known(self, source: Source, file: BinaryIO, head: bytes, path: SourcePath) -> None:
        if has_own_name(file, head, path, source):
            self.writer.write(self)
            self.writer.derive(read_under_own_name(self.project, source.pk))
            source.refresh_from_db()
        if self.retry is not Retry.NOTHING:
            self.writer.write(self)  # releases its locks
            include_lost = self.retry is Retry.LOST
            self.report.stored_later += retry_missing(source, self.path, include_lost=include_lost)

    def _note_version(self, source: Source) -> None:
        """A recording whose container has this version of it is not composed again."""
        source.state = mark_version(source.state, self.version)
        if not source._state.adding:
            source.save(update_fields=["state"])

    def _pieces(
        self, file: BinaryIO, source: Source, path: SourcePath, offset: int, opening: Opening | None
    ) -> Iterator[Piece]:
        state, number = source.state, source.lines + 1
        if opening is not None:
            yield from opening.pieces
            if opening.is_whole:
                return
            last = opening.pieces[-1]
            state, offset, number = last.state, last.batch.end, last.batch.lines[-1].number + 1
        yield from read_pieces(file, source.format, path, state, offset=offset, number=number)

    def _is_known(self) -> bool:
        with suppress(OSError), open_regular(self.path) as file:
            head, path = file.read(HEAD_BYTES), place_file(self.path).path
            return find_source(self.project, self.name, file, head, path) is not None
        return False

    def store_named_files(
        self, records: Sequence[Record], quota: ProjectQuota
    ) -> tuple[dict[str, StoredContent], list[LineProblem]]:
        """Stores the files that the records name, before any row refers to them. Raises StoreFailed.

        A file over the quota is a problem of its line, and its reference stays.
        """
        named = {entry.path: entry for entry in records if isinstance(entry, ArtifactRecord)}
        files: dict[str, StoredContent] = {}
        problems = []
        for path, entry in sorted(named.items()):
            try:
                if stored := store_named_file(self.path, path, quota, entry.sha256):
                    files[path] = stored
            except QuotaExceeded as refusal:
                reason = f"the file that it names was not stored: {refusal}; the line itself was imported"
                named_file = f"file {path}"
                problems.append(
                    LineProblem(line=entry.line, path=named_file, reason=reason, raw=b"", part=True, is_lossless=True)
                )
        return files, problems

    def _refuse(self, reason: str) -> None:
        """Reports a file of which nothing was imported: all its lines count as rejected."""
        self.writer.write()
        raw, lines = read_refused_file(self.path)
        refuse_file(self.project, path=self.name, reason=reason, raw=raw)
        self.report.files += 1
        self.report.lines.update(lines)
        self.report.problems.append({"file": self.name, "line": 0, "path": "$", "reason": reason})
