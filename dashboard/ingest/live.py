"""Records that programs send: one batch is one source, stored and acknowledged in one durable transaction.

A batch consists of lines, as a file does, and one of the formats reads it. Each line is known by its digest, so that
a batch may come again, in other company and in any order: what is stored already is not read again. With an
`Idempotency-Key` the second answer is the first one.

    receive(project, batch)    reads and writes the lines that are new; returns the answer for each

Requests that come at once to a process are written together, because a durable commit costs as much for many
batches as for one. What follows from the evidence is derived by `work`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import NamedTuple
from uuid import UUID

import msgspec
from django.db import connection

from dashboard.artifacts.retention import shared_store_lock
from dashboard.faults import BUSY, find_outage
from dashboard.ingest import write
from dashboard.ingest.bulk import bulk_insert_values, count_stored
from dashboard.ingest.sent_content import find_sent_contents
from dashboard.ingest.source_frames import pack_frames
from dashboard.ingest.sources import SourceBatch, SourceMoved, new_source
from dashboard.models import Project, ReceivedRecord, Source
from dashboard.models.identity import frame_parts, hash_parts, run_id
from dashboard.models.sources import LIVE
from envelopes.recordings import find_format
from envelopes.recordings.base import ArtifactRecord, LineProblem, Record, SourceLine, SourcePath

MOST_LINES = 20_000  # of one batch
KEY_CHARACTERS = 200
ATTEMPTS = 3
RUN_NAME = re.compile(rb'"run"\s*:\s*"([^"\\]+)"')
NAME_WITHIN = 400  # bytes of a line


class Rejected(msgspec.Struct, frozen=True):
    """A line that was refused: its number from 1, its first byte in the body, and where in it what was wrong."""

    line: int
    offset: int
    path: str
    reason: str


class BatchAnswer(msgspec.Struct, frozen=True):
    """The outcome of each line of a batch; blank lines are none."""

    accepted: int = 0
    already_known: int = 0
    rejected: list[Rejected] = []


class KeyReused(ValueError):
    """The Idempotency-Key belongs to another body."""


class LiveLine(NamedTuple):
    """One record. `number` and `offset` are its place in the body, `at` is its time in microseconds, see the model."""

    raw: bytes
    digest: UUID
    number: int
    offset: int = 0
    at: int = 0


@dataclass(frozen=True, kw_only=True)
class LiveBatch:
    """The lines of one request, in the order of its body, of which `sha256` is the hash."""

    format: str
    sha256: str
    lines: Sequence[LiveLine]
    key: str = ""

    @property
    def path(self) -> str:
        return f"{LIVE}{self.format}/{f'key {self.key}' if self.key else self.sha256[:32]}"


def split_lines(project: Project, format_name: str, body: bytes) -> list[LiveLine]:
    """The lines of a body that are not blank."""
    lines, offset, name_of = [], 0, RecordNames(project, format_name)
    for number, raw in enumerate(body.split(b"\n"), start=1):
        if content := raw.strip():
            lines.append(LiveLine(raw + b"\n", name_of(content, content), number, offset))
        offset += len(raw) + 1
    return lines


class RecordNames:
    """Derives the digests by which lines of one project and format are known."""

    def __init__(self, project: Project, format_name: str) -> None:
        self._project = project.pk
        self._format = format_name
        self._framed = frame_parts("received", self._project, format_name)

    def __call__(self, key: bytes, line: bytes) -> UUID:
        """The digest of `key`, by which `line` is known; beside those of other lines that name the same run."""
        name = RUN_NAME.search(line, 0, NAME_WITHIN)
        beside = run_id(self._project, self._format, name[1].decode("utf-8", "replace")) if name else None
        return hash_parts(b"%b%d:%b" % (self._framed, len(key), key), beside)


def receive(project: Project, batch: LiveBatch) -> BatchAnswer:
    """Returns when everything that it calls accepted is on disk.

    Raises KeyReused, SourceMoved where others write the same batch all the time, and database errors.
    """
    for attempt in range(ATTEMPTS):
        if batch.key and (answer := _earlier_answer(project, batch)) is not None:
            return answer
        job = _read_batch(project, batch)
        if job.source_batch is None:
            return job.read
        try:
            WRITER.write(job)
        except SourceMoved:  # another process has just written a batch with this key
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return job.written
    raise AssertionError("the last attempt returns or raises")


def _earlier_answer(project: Project, batch: LiveBatch) -> BatchAnswer | None:
    source = Source.objects.filter(project=project, path=batch.path).first()
    if source is None or source.is_partial:  # partial: a run of it was deleted, and may be sent again
        return None
    if source.head_sha256 != batch.sha256:
        raise KeyReused("Another body was sent with this Idempotency-Key: a key belongs to one body.")
    return msgspec.json.decode(bytes(source.state), type=BatchAnswer)


@dataclass
class _Job:
    """A batch that waits to be written; `source_batch` is None where nothing is to be written.

    `read` is the answer by what was stored when the batch was read, `written` that by what was when it was written.
    """

    project: Project
    read: BatchAnswer
    written: BatchAnswer = field(default_factory=BatchAnswer)
    source_batch: SourceBatch | None = None
    received: list[tuple[LiveLine, UUID]] = field(default_factory=list)  # with the run of each
    artifacts: list[ArtifactRecord] = field(default_factory=list)
    error: BaseException | None = None
    is_done: bool = False


def _read_batch(project: Project, batch: LiveBatch) -> _Job:
    known, repeated = _known_lines(batch.lines)
    new = [line for line in batch.lines if line.number not in known and line.number not in repeated]
    entries, lines = _read_lines(batch, new)
    problems = [entry for entry in entries if isinstance(entry, LineProblem)]
    records = [entry for entry in entries if not isinstance(entry, LineProblem)]
    refused = {problem.line: problem for problem in reversed(problems) if not (problem.part or problem.is_lossless)}
    if any(problem.lines > 1 for problem in refused.values()):  # a document over many lines is one problem
        answer = BatchAnswer(rejected=_rejected(batch.lines, refused))
    else:
        refused |= {number: refused[first] for number, first in repeated.items() if first in refused}
        stored = known | {number for number, first in repeated.items() if first not in refused}
        rejected = _rejected(batch.lines, refused)
        answer = BatchAnswer(len(batch.lines) - len(rejected) - len(stored), len(stored), rejected)
    job = _Job(project, answer)
    if not records and not batch.key and (not problems or _was_refused(project, batch)):
        return job
    job.source_batch = _source_batch(project, batch, lines, records, problems, answer)
    job.artifacts = [record for record in records if isinstance(record, ArtifactRecord)]
    namespace = find_format(batch.format).namespace
    runs = {record.line: record.run for record in reversed(records)}  # of the first record of each line
    run_ids = {run: run_id(project.pk, namespace, run) for run in {*runs.values()}}
    stated = [line for line in new if line.number in runs and line.number not in refused]
    job.received = [(line, run_ids[runs[line.number]]) for line in stated]
    return job


def _rejected(lines: Sequence[LiveLine], refused: Mapping[int, LineProblem]) -> list[Rejected]:
    return [
        Rejected(line.number, line.offset, refused[line.number].path, refused[line.number].reason)
        for line in lines
        if line.number in refused
    ]


def _known_lines(lines: Sequence[LiveLine]) -> tuple[set[int], dict[int, int]]:
    """The numbers of lines that are stored already, and of those that repeat a line of this batch, with that one's."""
    digests = {line.digest for line in lines}
    found = count_stored(ReceivedRecord, "id", digests)
    if not found and len(digests) == len(lines):
        return set(), {}
    stored = dict(ReceivedRecord.objects.filter(pk__in=found).values_list("pk", "at"))
    known = {line.number for line in lines if line.digest in stored and line.at >= stored[line.digest]}
    earliest: dict[UUID, LiveLine] = {}
    for line in lines:
        if line.number not in known and (line.digest not in earliest or line.at < earliest[line.digest].at):
            earliest[line.digest] = line
    repeated = {
        line.number: earliest[line.digest].number
        for line in lines
        if line.number not in known and earliest[line.digest].number != line.number
    }
    return known, repeated


def _read_lines(batch: LiveBatch, new: Sequence[LiveLine]) -> tuple[list[Record | LineProblem], list[SourceLine]]:
    """Offsets of the lines are those in the source, which has the new lines alone."""
    lines, offset = [], 0
    for line in new:
        lines.append(SourceLine(line.number, offset, line.raw))
        offset += len(line.raw)
    path = SourcePath(batch.path, is_live=True)
    return list(find_format(batch.format).read(iter(lines), path, {})), lines


def _was_refused(project: Project, batch: LiveBatch) -> bool:
    """True for a body of which every new line was refused before: its problems are stored once."""
    return Source.objects.filter(project=project, head_sha256=batch.sha256, path=batch.path).exists()


def _source_batch(
    project: Project,
    batch: LiveBatch,
    lines: Sequence[SourceLine],
    records: Sequence[Record],
    problems: Sequence[LineProblem],
    answer: BatchAnswer,
) -> SourceBatch:
    source = new_source(project, path=batch.path, format_name=batch.format, inode=0, head_sha256=batch.sha256)
    # Without a key the same body comes again where a run of it was deleted, or where new times were sent.
    return SourceBatch(
        source=source,
        is_known=(lambda: _earlier_answer(project, batch) is not None) if batch.key else None,
        start=0,
        lines=lines,
        records=records,
        problems=problems,
        end=sum(len(line.raw) for line in lines),
        frames=pack_frames(lines),  # here, because no other batch waits for it
        accepted=answer.accepted,
        rejected=len(answer.rejected),
        state=msgspec.json.encode(answer),
    )


class BatchQueue:
    """Writes the batches of all threads of this process: one thread at a time, all that wait in one transaction.

    Those that come while it waits for the lock of the database are written with it. Where that fails each is written
    by itself, so that no batch fails for another. Where the lock cannot be had all fail that need it: each alone would
    wait as long again, one after the other.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: list[_Job] = []
        self._taken: list[_Job] = []  # that are being written
        self._is_writing = False

    def write(self, job: _Job) -> None:
        """Returns when the job is committed. Raises what its transaction raised."""
        with self._changed:
            self._waiting.append(job)
            while self._is_writing and not job.is_done:
                self._changed.wait()
            is_writer = not job.is_done
            if is_writer:
                self._is_writing = True
                self._taken, self._waiting = self._waiting, []
        if is_writer:
            try:
                _write_all(list(self._taken), self._take_late)
            finally:
                with self._changed:
                    for taken in self._taken:  # not done: this thread is being ended
                        taken.error = taken.error if taken.is_done else RuntimeError("the writer was stopped")
                        taken.is_done = True
                    self._taken = []
                    self._is_writing = False
                    self._changed.notify_all()
        if job.error is not None:
            raise job.error

    def _take_late(self, project: Project, *, is_failing: bool = False) -> list[_Job]:
        """The batches that came since and need the same lock.

        Those with artifacts are among them only if these batches fail: they need another lock before this one.
        """
        has_all = is_failing and not connection.features.has_select_for_update  # SQLite's lock covers all projects

        def is_late(job: _Job) -> bool:
            return has_all or (job.project.pk == project.pk and (is_failing or not job.artifacts))

        with self._changed:
            late = [job for job in self._waiting if is_late(job)]
            self._waiting = [job for job in self._waiting if not is_late(job)]
            self._taken += late
        return late


WRITER = BatchQueue()


def _write_all(jobs: Sequence[_Job], take_late: Callable[..., list[_Job]]) -> None:
    by_project: dict[int, list[_Job]] = defaultdict(list)
    for job in jobs:
        by_project[job.project.pk].append(job)
    failure: Exception | None = None  # where another process had the lock all the time
    for of_project in by_project.values():
        if failure is None or connection.features.has_select_for_update:  # SQLite's lock covers all projects
            failure = _write_or_note(of_project, take_late)
        if failure is not None:
            of_project += take_late(of_project[0].project, is_failing=True)
            for job in of_project:
                job.error = failure
        elif len(of_project) > 1 and of_project[0].error is not None:
            for job in of_project:
                failure = failure or _write_or_note([job])
                job.error = failure or job.error
        for job in of_project:
            job.is_done = True


def _write_or_note(jobs: list[_Job], take_late: Callable[..., list[_Job]] | None = None) -> Exception | None:
    """Writes the jobs, and adds those that came late, in one transaction; each gets the error that ended it.

    Returns the error where another process had the lock all the time.
    """
    project, error, has_lock = jobs[0].project, None, False
    artifacts = [entry for job in jobs for entry in job.artifacts]
    try:
        with shared_store_lock() if artifacts else nullcontext(), project.write_lock():
            has_lock = True
            jobs += take_late(project) if take_late else ()
            _write_jobs(project, jobs, artifacts)
    except Exception as caught:
        error = caught
    for job in jobs:
        job.error = error
    return error if not has_lock and find_outage(error) is BUSY else None


def _write_jobs(project: Project, jobs: Sequence[_Job], artifacts: Sequence[ArtifactRecord]) -> None:
    rows = {line.digest: (line, run) for job in jobs for line, run in job.received}
    stored = count_stored(ReceivedRecord, "id", rows)
    jobs = _settle_answers(jobs, stored)
    contents = find_sent_contents(project, artifacts)
    # Each attempt saves a source of its own: one of a transaction that failed would count as stored.
    batches = [
        replace(
            batch,
            source=copy(batch.source),
            contents=contents,
            accepted=job.written.accepted,
            state=msgspec.json.encode(job.written),
        )
        for job in jobs
        if (batch := job.source_batch) is not None
    ]
    write.record_locked(project, batches, collects_calls=False)
    again = stored if any(line.at for line, _ in rows.values()) else ()
    for row in ReceivedRecord.objects.filter(pk__in=again) if again else ():
        row.at = min(row.at, rows[row.pk][0].at)
        row.save(update_fields=["at"])
    values = [{"id": key, "run_id": run, "at": line.at} for key, (line, run) in rows.items()]
    bulk_insert_values(ReceivedRecord, values, ignore_known=True)


def _settle_answers(jobs: Sequence[_Job], stored: Collection[UUID]) -> list[_Job]:
    """Counts the lines as known that others stored since a batch was read. Returns the jobs without equal bodies."""
    firsts: dict[tuple[str, str], _Job] = {}  # the same body may come twice at once
    known = {*stored}
    for job in jobs:
        if (batch := job.source_batch) is None:
            continue
        first = firsts.setdefault((batch.source.path, batch.source.head_sha256), job)
        if first is not job and batch.is_known is not None:  # a key gives the first answer again
            job.written = first.written
            continue
        digests = [line.digest for line, _ in job.received if not line.at]  # with a time it may be an earlier record
        late = sum(digest in known for digest in digests)
        counts = {"accepted": job.read.accepted - late, "already_known": job.read.already_known + late}
        job.written = msgspec.structs.replace(job.read, **counts)
        known.update(digests)
    return list(firsts.values())
