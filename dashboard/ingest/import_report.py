"""The report of an import: what its files contain, what of that is new, and the progress meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from dashboard.ingest.sources import NOT_MAPPED
from dashboard.ingest.write import COUNTED_ROWS
from dashboard.models import Observation, Problem, Source
from dashboard.models.identity import call_id
from envelopes.recordings import find_format
from envelopes.recordings.base import CallRecord, EventRecord, ReceiptRecord, Record, ResultRecord

RECORD_COUNTS = {CallRecord: "calls", ResultRecord: "results", ReceiptRecord: "receipts", EventRecord: "events"}
SURFACES = {"calls": "args", "results": "result", "receipts": "receipt"}
CountedRecord: TypeAlias = CallRecord | ResultRecord | ReceiptRecord | EventRecord
PROBLEM_COLUMNS = ("source", "line", "path", "reason")


@dataclass(frozen=True)
class ImportProgress:
    """The state after a batch: `bytes_done` of `bytes_total` over all files, and the calls read."""

    path: str
    bytes_done: int
    bytes_total: int
    calls: int


@dataclass
class ImportReport:
    """The document that `import_runs --json` prints."""

    files: int = 0
    seen: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED_ROWS, 0)))
    added: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(COUNTED_ROWS, 0)))
    lines: Counter[str] = field(default_factory=lambda: Counter(accepted=0, rejected=0, blank=0))
    problems: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)  # files of folders that no reader takes, as problems
    formats: list[dict[str, str]] = field(default_factory=list)  # of each file, and how it was recognised
    names: dict[int, str] = field(default_factory=dict)  # of the files, by source
    run_ids: list[str] = field(default_factory=list)
    stored_later: int = 0  # files that were missing, over the quota or shorter when their lines were imported
    unstored: int = 0  # recordings that the artifact store interrupted; importing them again continues them

    def add_files(self, files: Sequence[tuple[str, Source]]) -> None:
        """Adds files that were read to their end: each has the name that is reported, and its source."""
        self.files += len(files)
        sources = {source.pk: name for name, source in files if not source._state.adding}
        for name, source in files:
            format_ = find_format(source.format)
            self.formats.append({"file": name, "format": format_.title, "recognised_by": format_.mark})
            if not source._state.adding:
                self.seen.update(msgspec.json.decode(source.seen))
                rejected = source.rejected + (1 if source.left_bytes else 0)
                self.lines.update(accepted=source.accepted, rejected=rejected, blank=source.blank)
        self.names |= sources
        refused = Problem.objects.filter(source__in=list(sources)).exclude(reason__startswith=NOT_MAPPED)
        problems: dict[int, list[dict[str, Any]]] = {key: [] for key in sources}
        for key, line, path, reason in refused.order_by("line", "id").values_list(*PROBLEM_COLUMNS):
            problems[key].append({"file": sources[key], "line": line, "path": path, "reason": reason})
        self.problems += [problem for in_file in problems.values() for problem in in_file]
        runs = Source.runs.through._default_manager.filter(source__in=list(sources)).order_by("id")
        known = dict.fromkeys(self.run_ids)
        self.run_ids = list(known | dict.fromkeys(map(str, runs.values_list("run_id", flat=True))))

    def add_notes(self) -> None:
        """Adds what no mapping could read, which is known once the calls are derived."""
        notes = Problem.objects.filter(source__in=list(self.names), reason__startswith=NOT_MAPPED)
        for source, line, path, reason in notes.order_by("source", "line", "id").values_list(*PROBLEM_COLUMNS):
            self.problems.append({"file": self.names[source], "line": line, "path": path, "reason": reason})

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "seen": dict(self.seen),
            "added": dict(self.added),
            "lines": dict(self.lines),
            "formats": self.formats,
            "problems": [*self.problems, *self.skipped],
            "run_ids": self.run_ids,
            "taken_later": self.stored_later,
            "unstored": self.unstored,
        }


class ProgressMeter:
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
            if isinstance(entry, EventRecord) or not stored or (self._call_id(entry), SURFACES[kind]) not in stored:
                counts[kind] += 1
        return {kind: counts[kind] for kind in COUNTED_ROWS}

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
