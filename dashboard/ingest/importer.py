"""Imports files: finds which source a file is, reads what is new, and passes batches to `write`.

accepted + rejected + blank = lines, always. An incomplete last line counts as rejected in the report until its end is
written, and its bytes stay unread.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias
from uuid import UUID

import msgspec

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
from dashboard.ingest.derivation import Deriver, open_deriver
from dashboard.ingest.sources import (
    HEAD_BYTES,
    MAX_LINE_BYTES,
    NOT_MAPPED,
    LineBatch,
    SourceMoved,
    detect_file_format,
    explain_unknown_format,
    find_other_files,
    find_recordings,
    find_source,
    head_sha256,
    new_source,
    open_regular,
    prefix_sha256,
    read_line_batches,
    read_refused_file,
    refuse_file,
)
from dashboard.models import Observation, Problem, Project, Source
from dashboard.models.runs import call_id
from envelopes.recordings import UnknownFormat, find_format
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    SourcePath,
)
from envelopes.recordings.json_lines import is_blank
from envelopes.storage.file_store import StoredContent

MAX_STORE_FAILURES = 3  # recordings in a row
RECORD_COUNTS = {CallRecord: "calls", ResultRecord: "results", ReceiptRecord: "receipts", EventRecord: "events"}
SURFACES = {"calls": "args", "results": "result", "receipts": "receipt"}
CountedRecord: TypeAlias = CallRecord | ResultRecord | ReceiptRecord | EventRecord


class Retry(Enum):
    """Which files named by lines that were imported before are looked for again (see `artifacts.ingest`)."""

    NOTHING = 0
    MISSING = 1
    LOST = 2  # those, and files that the store has lost


@dataclass(frozen=True)
class ImportProgress:
    """The state after a batch: `bytes_done` of `bytes_total` over all files, and the calls read."""

    path: str
    bytes_done: int
    bytes_total: int
    calls: int


@dataclass
class ImportReport:
    """The document that `import_runs --json` prints (design.md section 4)."""

    files: int = 0
    seen: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(write.COUNTED_ROWS, 0)))
    added: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(write.COUNTED_ROWS, 0)))
    lines: Counter[str] = field(default_factory=lambda: Counter(accepted=0, rejected=0, blank=0))
    problems: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)  # files of folders that no reader takes, as problems
    names: dict[int, str] = field(default_factory=dict)  # of the files, by source
    run_ids: list[str] = field(default_factory=list)
    stored_later: int = 0  # files that were missing, over the quota or shorter when their lines were imported
    unstored: int = 0  # recordings that the artifact store interrupted; importing them again continues them

    def add_notes(self) -> None:
        """Adds what no mapping could read, which is known once the calls are derived."""
        notes = Problem.objects.filter(source__in=list(self.names), reason__startswith=NOT_MAPPED)
        for source, line, path, reason in notes.order_by("source", "line", "id").values_list(
            "source", "line", "path", "reason"
        ):
            self.problems.append({"file": self.names[source], "line": line, "path": path, "reason": reason})

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "seen": dict(self.seen),
            "added": dict(self.added),
            "lines": dict(self.lines),
            "problems": [*self.problems, *self.skipped],
            "run_ids": self.run_ids,
            "taken_later": self.stored_later,
            "unstored": self.unstored,
        }


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
    files = list(find_recordings([Path(path) for path in paths]))
    report = ImportReport()
    size = sum(_file_size(path) for path, _ in files)
    meter = _ProgressMeter(progress, size)
    failures = 0
    with open_deriver(project, size) as deriver:
        for number, (path, is_named) in enumerate(files, start=1):
            before = report.unstored
            file_import = FileImport(project, path, shown_as(path), report, meter, deriver, retry)
            file_import.run(format_name, is_named=is_named)
            failures = failures + 1 if report.unstored > before else 0
            if failures == MAX_STORE_FAILURES and number < len(files):
                _report_unread(report, [shown_as(path) for path, _ in files[number:]])
                break
    report.add_notes()
    for path, reason in find_other_files([Path(path) for path in paths]):
        report.skipped.append({"file": shown_as(path), "line": 0, "path": "$", "reason": reason})
    return report


def _report_unread(report: ImportReport, names: Sequence[str]) -> None:
    reason = (
        f"not read: the artifact store failed for {MAX_STORE_FAILURES} recordings in a row. Import this one and "
        f"{len(names) - 1} more again when the store answers"
    )
    report.unstored += len(names)
    report.problems.append({"file": names[0], "line": 0, "path": "$", "reason": reason})


class _ProgressMeter:
    """Bytes and calls over all files, reported after each batch."""

    def __init__(self, report: Callable[[ImportProgress], None] | None, total: int) -> None:
        self._report = report
        self._total = total
        self._done = 0
        self._calls = 0

    def advance(self, path: str, size: int, records: Sequence[Record]) -> None:
        self._done += size
        self._calls += sum(isinstance(entry, CallRecord) for entry in records)
        if self._report:
            self._report(ImportProgress(path, self._done, self._total, self._calls))


class ImportCounts:
    """Counts what a source contains, each thing once: the `seen` of a report.

    For a source that an earlier import read, its records of then are not counted again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._format = find_format(source.format)
        self._record_hashes: set[int] = set()  # hashes: a file may contain millions of records
        self._is_continued = not source._state.adding
        self._runs = set(source.runs.values_list("external_id", flat=True)) if self._is_continued else set()

    def add(self, records: Sequence[Record]) -> dict[str, int]:
        """The source's counts with these records."""
        counts = Counter(msgspec.json.decode(self._source.seen))
        stored = self._stored_surfaces(records) if self._is_continued else set()
        for entry in records:
            if entry.run not in self._runs:
                self._runs.add(entry.run)
                counts["runs"] += 1
            if not isinstance(entry, CountedRecord) or not self._is_first(entry):
                continue
            kind = RECORD_COUNTS[type(entry)]
            if isinstance(entry, EventRecord) or (self._call_id(entry), SURFACES[kind]) not in stored:
                counts[kind] += 1
        return {kind: counts[kind] for kind in write.COUNTED_ROWS}

    def _is_first(self, entry: CountedRecord) -> bool:
        subject = (entry.line, entry.kind, entry.call) if isinstance(entry, EventRecord) else entry.call
        key = hash((type(entry), entry.run, subject))
        if key in self._record_hashes:
            return False
        self._record_hashes.add(key)
        return True

    def _stored_surfaces(self, records: Sequence[Record]) -> set[tuple[UUID, str]]:
        """Which surfaces of these records' calls an earlier import has read from this source."""
        calls = {
            self._call_id(entry)
            for entry in records
            if isinstance(entry, CountedRecord) and not isinstance(entry, EventRecord)
        }
        if not calls:
            return set()
        return set(Observation.objects.filter(call__in=calls, source=self._source).values_list("call", "surface"))

    def _call_id(self, entry: CallRecord | ResultRecord | ReceiptRecord) -> UUID:
        joins, run = self._format.is_global_call_id(entry.call), entry.owner or entry.run
        return call_id(self._source.project_id, self._format.namespace, run, entry.call, joins=joins)


class FileImport:
    """Imports one file from where its source was read to. Adds to the report; raises nothing for bad content."""

    def __init__(
        self,
        project: Project,
        path: Path,
        name: str,
        report: ImportReport,
        meter: _ProgressMeter,
        deriver: Deriver,
        retry: Retry = Retry.MISSING,
    ) -> None:
        self.project = project
        self.path = path
        self.name = name
        self.report = report
        self.meter = meter
        self.deriver = deriver
        self.retry = retry

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
        path = SourcePath(self.path.resolve().as_posix())
        source = find_source(self.project, self.name, file, head)
        if source is None:
            format_ = find_format(format_name) if format_name else detect_file_format(file, head, path)
            inode = os.fstat(file.fileno()).st_ino
            source = new_source(
                self.project, path=self.name, format_name=format_.name, inode=inode, head_sha256=head_sha256(head)
            )
            if (mark := format_.name_mark(head, path)) and not _contains(file, mark):
                source.state = msgspec.json.encode({"is_renamed": True})
        elif self.retry is not Retry.NOTHING:
            include_lost = self.retry is Retry.LOST
            self.report.stored_later += retry_missing(source, self.path, include_lost=include_lost)
        offset = source.offset
        if source.ends_open:  # the last line was read without its newline
            file.seek(offset)
            newline = file.read(2)
            offset += 1 if newline.startswith(b"\n") else 2 if newline == b"\r\n" else 0
        counts = ImportCounts(source)
        for lines in read_line_batches(file, offset=offset, number=source.lines + 1):
            self._import_batch(file, source, path, lines, counts)
        self._add_to_report(source)

    def _import_batch(
        self, file: BinaryIO, source: Source, path: SourcePath, batch: LineBatch, counts: ImportCounts
    ) -> None:
        state: dict[str, object] = msgspec.json.decode(source.state)
        if batch.is_too_long:
            line = batch.lines[0]
            reason = f"longer than {MAX_LINE_BYTES // 2**20} MiB"
            entries: list[Record | LineProblem] = [LineProblem(line=line.number, path="$", reason=reason, raw=line.raw)]
        else:
            entries = list(find_format(source.format).read(iter(batch.lines), path, state))
        problems = _settle_shared_lines([entry for entry in entries if isinstance(entry, LineProblem)])
        records = [entry for entry in entries if not isinstance(entry, LineProblem)]
        blank = sum(is_blank(line.raw) for line in batch.lines)
        rejected = sum({problem.line: problem.lines for problem in problems if not problem.part}.values())
        source_batch = write.SourceBatch(
            start=source.offset,
            lines=batch.lines,
            records=records,
            problems=problems,
            end=batch.end,
            accepted=len(batch.lines) - blank - rejected,
            rejected=rejected,
            blank=blank,
            ends_open=bool(batch.lines) and not batch.lines[-1].raw.endswith(b"\n"),
            incomplete=batch.incomplete,
            state=msgspec.json.encode(state),
            prefix_sha256=prefix_sha256(file, batch.end),
            counts=counts.add(records),
        )
        with shared_store_lock(), hold_quota(self.project.pk) as quota:
            files, refused = self._store_named_files(records, quota)
            source_batch = replace(source_batch, problems=[*problems, *refused])
            written = write.record(source, source_batch, is_known=lambda: self._is_known(file), files=files)
        self.report.added.update(written.added)
        self.deriver.submit(written.calls)
        self.meter.advance(self.name, sum(len(line.raw) for line in batch.lines), records)

    def _is_known(self, file: BinaryIO) -> bool:
        head = os.pread(file.fileno(), HEAD_BYTES, 0)
        return find_source(self.project, self.name, file, head) is not None

    def _store_named_files(
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

    def _add_to_report(self, source: Source) -> None:
        self.report.files += 1
        if source._state.adding:
            return
        self.report.seen.update(msgspec.json.decode(source.seen))
        self.report.lines.update(accepted=source.accepted, rejected=source.rejected, blank=source.blank)
        self.report.lines["rejected"] += 1 if source.left_bytes else 0
        self.report.names[source.pk] = self.name
        refused = source.problems.exclude(reason__startswith=NOT_MAPPED).order_by("line", "id")
        problems = refused.values("line", "path", "reason")
        self.report.problems += [{"file": self.name, **problem} for problem in problems]
        known = set(self.report.run_ids)
        run_ids = map(str, source.runs.values_list("pk", flat=True))
        self.report.run_ids += [run_id for run_id in run_ids if run_id not in known]

    def _refuse(self, reason: str) -> None:
        """Reports a file of which nothing was imported: all its lines count as rejected."""
        raw, lines = read_refused_file(self.path)
        refuse_file(self.project, path=self.name, reason=reason, raw=raw)
        self.report.files += 1
        self.report.lines.update(lines)
        self.report.problems.append({"file": self.name, "line": 0, "path": "$", "reason": reason})


def _settle_shared_lines(problems: list[LineProblem]) -> list[LineProblem]:
    """Refuses a line that several objects share as a whole only where each of them was refused, and then once."""
    shared = {problem.line: problem for problem in problems if problem.objects > 1}
    refused = Counter(problem.line for problem in problems if problem.line in shared and not problem.part)
    settled = []
    for problem in problems:
        if problem.line not in shared or (problem.part and problem is not shared[problem.line]):
            settled.append(problem)
        elif refused[problem.line] < shared[problem.line].objects:
            settled.append(msgspec.structs.replace(problem, part=True))
        elif problem is not shared[problem.line] and problem.line not in {known.line for known in settled}:
            settled.append(problem)
    return settled


def _contains(file: BinaryIO, mark: bytes) -> bool:
    """Searches the whole file, and leaves its position."""
    offset, tail = 0, b""
    while chunk := os.pread(file.fileno(), HEAD_BYTES, offset):
        if mark in tail + chunk:
            return True
        offset, tail = offset + len(chunk), chunk[-len(mark) :]
    return False


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
