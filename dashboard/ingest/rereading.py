"""Reads stored sources again that an older version of their reader read, from the bytes in the store.

Agents delete their logs after weeks, so a better reader has to run over what is stored. The rows of sources that share
runs or calls were merged, so such sources are read again together: what they yielded is deleted and written again in
one transaction, by the code that imports files. A killed process leaves such a group as it was, or done.

Ids are derived from what a row describes. So notes, tags, reviews, fingerprints and children point at the same rows
as before: foreign keys are checked at the end of the transaction. What points at a row that today's reader no longer
yields is deleted with it.

    read_outdated(project, run)         reads them again, group by group; yields what each changed
    read_under_own_name(project, key)   reads one again that was taken for a copy of another run's file
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import reduce
from operator import or_
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple, TypeVar
from uuid import UUID

import pyzstd
from django.conf import settings
from django.db import models, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.deletion import Collector

from dashboard.ingest import write
from dashboard.ingest.bulk import bulk_update
from dashboard.ingest.import_report import ImportCounts
from dashboard.ingest.reading import build_batch, choose_reader, read_pieces
from dashboard.ingest.source_files import BATCH_BYTES, BATCH_LINES, HEAD_BYTES
from dashboard.ingest.sources import SourceBatch, StoredFolder, mark_version, read_version
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    Problem,
    Project,
    ReceiptSupersession,
    RecordedReceipt,
    Remark,
    RequestUsage,
    Run,
    RunCall,
    RunFacet,
    Source,
)
from dashboard.models.notes import ANNOTATIONS
from dashboard.models.sources import LIVE, DamagedEvidence
from envelopes.recordings import UnknownFormat, find_format
from envelopes.recordings.base import SourcePath

IDS_AT_ONCE = 500  # in one IN (…)
LONGEST_LINE_END = 2  # bytes
LINKS = Source.runs.through._default_manager
# Rows that name the source that yielded them.
YIELDED: tuple[type[models.Model], ...] = (
    *(Observation, RecordedReceipt, ReceiptSupersession, RunCall, Message, Event, RequestUsage, Remark),
)
PROGRESS = ("offset", "accepted", "rejected", "blank", "seen", "left_bytes", "reader")  # of a Source
FILE_STATE = ("state", "sha256", "size", "lines", "removed_at")  # of an Artifact: content that was stored, or removed
RUN_STATE = ("revision", "lease_until", "asks_until")  # follow from no record
# What a change of is counted as a change of the call, by the model: the call first.
COMPARED: tuple[tuple[type[models.Model], tuple[str, ...]], ...] = (
    (Observation, ("call", "pk", "source", "start", "size", "fidelity", "observed_at", "selected")),
    (RecordedReceipt, ("call", "pk", "seq", "source", "at", "superseded_at", "superseded_reason")),
    (RunCall, ("call", "run", "claim", "inherited")),
)
COMPARED_OF_CALL = (
    *("pk", "run", "external_id", "tool", "step", "attempt", "origin", "child_run", "source"),
    *("started_at", "ended_at", "tool_ms", "source_error", "is_disagreeing"),
)
Key = TypeVar("Key", int, UUID)


class Reread(NamedTuple):
    """The changes by reading sources again; `damaged` names those that were left as they were, and why."""

    sources: int = 0
    runs: int = 0
    calls_added: int = 0
    calls_changed: int = 0
    calls_gone: int = 0
    annotations_gone: int = 0  # notes, tags, assignments and review marks of calls and runs that are gone
    damaged: tuple[str, ...] = ()


def find_outdated(project: Project, run: Run | None = None) -> QuerySet[Source]:
    """The sources, of one run or all, whose reader is older than today's. A source whose format is gone is none."""
    sources = Source.objects.filter(project=project)
    if run is not None:
        sources = sources.filter(runs=run)
    kinds = sources.order_by().values_list("format", "reader").distinct()
    older = [Q(format=name, reader=version) for name, version in kinds if version < _current_version(name)]
    return sources.filter(reduce(or_, older)) if older else sources.none()


def _current_version(name: str) -> int:
    try:
        return find_format(name).version
    except UnknownFormat:
        return 0


def read_outdated(project: Project, run: Run | None = None, *, dry_run: bool = False) -> Iterator[Reread]:
    """Each group is a transaction, which a dry run rolls back. Sources are left out of which a run was deleted."""
    outdated, done = find_outdated(project, run).filter(is_partial=False), set[int]()
    for key in list(outdated.order_by("pk").values_list("pk", flat=True)):
        if key in done:
            continue
        try:
            with project.write_lock():
                if not outdated.filter(pk=key).exists():  # deleted meanwhile, or read again by another process
                    continue
                group = _Group(key)
                done |= group.sources
                changes = group.read_again(project)
                transaction.set_rollback(dry_run)
        except (DamagedEvidence, pyzstd.ZstdError) as damaged:
            changes = Reread(damaged=(f"{Source.objects.get(pk=key).path}: {damaged}",))
        yield changes


def read_under_own_name(project: Project, key: int) -> set[UUID]:
    """Reads a source again, with those that share rows with it, whose file was taken for a copy of another run's.

    A fork begins with another session's lines, and may be imported before its own follow. A source of which a run was
    deleted, or whose evidence is damaged, stays as it is. Returns the calls that wait to be derived since.
    """
    with suppress(DamagedEvidence, pyzstd.ZstdError), project.write_lock():
        if Source.objects.filter(pk=key, is_partial=False).exists():
            group = _Group(key)
            group.read_again(project, named=key)
            waiting = project.calls.waiting().values_list("pk", flat=True)
            return _collect_keys(group.sources, lambda keys: [waiting.filter(source__in=keys)])
    return set()


class _Group:
    """The sources whose rows were merged with rows of one of them, and the runs that these are about."""

    def __init__(self, source: int) -> None:
        self.sources = {source}
        self.runs = set[UUID]()
        sources, runs = {source}, set[UUID]()
        while sources or runs:
            near_sources = _collect_keys(runs, _sources_of_runs)
            near_runs = _collect_keys(sources, _runs_of_sources) | _collect_keys(runs, _runs_beside)
            sources, runs = near_sources - self.sources, near_runs - self.runs
            self.sources |= sources
            self.runs |= runs

    def read_again(self, project: Project, named: int | None = None) -> Reread:
        """`named` is a source that is no copy, whatever its stored lines name.

        Within a transaction of the project's only writer. Raises DamagedEvidence and pyzstd.ZstdError.
        """
        before = _digest_calls(self.runs)
        sources = [row for keys in _portions(self.sources) for row in Source.objects.filter(pk__in=keys)]
        whole = sorted((row for row in sources if not row.is_partial), key=lambda row: row.pk)
        earlier = _EarlierRows(whole, self.runs)
        _write_again(project, whole, named)
        runs = self.runs | earlier.restore()
        after = _digest_calls(runs)
        return Reread(
            sources=len(whole),
            runs=len(self.runs),
            calls_added=len(after.keys() - before.keys()),
            calls_changed=sum(before[key] != after[key] for key in before.keys() & after.keys()),
            calls_gone=len(before.keys() - after.keys()),
            annotations_gone=earlier.annotations_gone,
        )


class _EarlierRows:
    """Deletes the rows that whole sources yielded; `restore` gives the rows that came again what no record has.

    A source of which a run was deleted is not read again. Calls and runs of which it has evidence stay, and get what
    the other sources yield. `keys` are those of deleted rows that other tables may point at.
    """

    def __init__(self, sources: Sequence[Source], runs: Collection[UUID]) -> None:
        self._sources = [source.pk for source in sources]
        self._waiting = {source.pk: source.left_bytes for source in sources if source.left_bytes}
        self._runs = runs
        self._keys: dict[type[models.Model], set[UUID]] = {}
        self.annotations_gone = 0
        pairs = Run.objects.values_list("pk", "parent_id")
        parents = dict(_collect_keys(runs, lambda keys: [pairs.filter(pk__in=keys)]))
        linked = _with_ancestors(self._linked_runs(), parents)
        self._delete_yielded()
        left = _collect_keys(runs, lambda keys: [LINKS.filter(run__in=keys).values_list("run_id", flat=True)])
        dropped = (linked & parents.keys()) - _with_ancestors(left, parents)
        self._runs_before = {run.pk: run for keys in _portions(dropped) for run in Run.objects.filter(pk__in=keys)}
        self._versions = self._delete_calls()
        self._keys[Run] = dropped
        _delete_rows(Run, dropped)

    def _linked_runs(self) -> set[UUID]:
        links = LINKS.values_list("run_id", flat=True)
        return _collect_keys(self._sources, lambda keys: [links.filter(source__in=keys)])

    def _delete_yielded(self) -> None:
        for keys in _portions(self._sources):
            for model in YIELDED:
                rows = model._default_manager.filter(source__in=keys)
                if model in (Observation, RecordedReceipt):
                    self._keys.setdefault(model, set()).update(rows.values_list("pk", flat=True))
                rows._raw_delete(rows.db)
            Problem.objects.filter(source__in=keys, is_incomplete=False).delete()
            links = LINKS.filter(source__in=keys)
            links._raw_delete(links.db)

    def _delete_calls(self) -> int:
        """Deletes the calls without evidence; returns the highest number of changes that one of all had."""
        own = {"call": OuterRef("pk")}
        evidence = [Exists(model._default_manager.filter(**own)) for model in (Observation, RecordedReceipt, RunCall)]
        highest, calls = 0, self._keys.setdefault(Call, set())
        self._files: dict[UUID, Artifact] = {}
        for keys in _portions(self._runs):
            rows = Call.objects.filter(run__in=keys)
            projections = CanonicalProjection.objects.filter(call__in=rows.values("pk"))
            projections._raw_delete(projections.db)
            highest = max(highest, rows.aggregate(highest=Max("evidence_version"))["highest"] or 0)
            calls.update(rows.exclude(evidence[0] | evidence[1] | evidence[2]).values_list("pk", flat=True))
        for keys in _portions(calls):
            files = Artifact.objects.filter(call__in=keys, observation=None)
            self._files |= {row.pk: row for row in files}
            files._raw_delete(files.db)
        _delete_rows(Call, calls)
        return highest

    def restore(self) -> set[UUID]:
        """Deletes what points at rows that did not come again; returns the runs that the sources are about now."""
        runs = self._linked_runs()
        self._delete_named_only(runs)
        for model in (RecordedReceipt, Observation, Call, Run):
            self._delete_gone(model)
        for keys in _portions(runs | set(self._runs)):
            version = F("evidence_version") + self._versions  # so that nothing derived of the earlier rows is stored
            Call.objects.filter(run__in=keys).update(evidence_version=version, derivation="", search_id=None)
        self._restore_runs()
        for keys in _portions(self._files):
            artifacts = list(Artifact.objects.filter(pk__in=keys))
            for row in artifacts:
                _copy_columns(self._files[row.pk], row, FILE_STATE)
            bulk_update(artifacts, FILE_STATE)
        for key, size in self._waiting.items():
            Source.objects.filter(pk=key).update(left_bytes=size)
        return runs

    def _delete_named_only(self, runs: Collection[UUID]) -> None:
        """Deletes parents that are only named and were not stored before: they may have been deleted by a person."""
        for keys in _portions(runs):
            named = Run.objects.filter(children__in=keys).exclude(Exists(LINKS.filter(run=OuterRef("pk"))))
            new = set(named.values_list("pk", flat=True)) - set(self._runs)
            RunFacet.objects.filter(run__parent__in=new, kind="state", value="child").update(value="top")
            Run.objects.filter(pk__in=new).delete()

    def _delete_gone(self, model: type[models.Model]) -> None:
        for keys in _portions(self._keys.get(model, ())):
            stored = model._default_manager.filter(pk__in=keys).values_list("pk", flat=True)
            gone = set(keys).difference(stored)
            if model in (Call, Run):
                about = {f"{model._meta.model_name}__in": gone}
                self.annotations_gone += sum(kind._default_manager.filter(**about).count() for kind in ANNOTATIONS)
            if gone:
                collector = Collector(using=stored.db)
                collector.collect([model(pk=key) for key in gone])
                collector.delete()

    def _restore_runs(self) -> None:
        for keys in _portions(self._runs_before):
            rows = list(Run.objects.filter(pk__in=keys))
            for run in rows:
                earlier = self._runs_before[run.pk]
                earlier.revision += run.revision
                _copy_columns(earlier, run, RUN_STATE)
                if run.started_at is None:  # it is sorted by the time of its import
                    run.sort_at = earlier.sort_at
                    RunFacet.objects.filter(run=run).update(sort_at=run.sort_at)
            bulk_update(rows, (*RUN_STATE, "sort_at"))


def _write_again(project: Project, sources: Sequence[Source], named: int | None) -> None:
    """Writes what today's readers yield for the sources, as an import of their files does."""
    earlier = [(source.offset, source.state, source.prefix_sha256) for source in sources]
    for source in sources:
        source.offset = source.accepted = source.rejected = source.blank = source.left_bytes = 0
        source.seen, source.reader = b"{}", find_format(source.format).version
    bulk_update(sources, PROGRESS)
    pending: list[SourceBatch] = []
    states: dict[str, bytes] = {}  # what the versions of a document in a container left
    folders: dict[str, StoredFolder] = {}
    for source, (size, state, prefix) in zip(sources, earlier, strict=True):
        is_live = source.path.startswith(LIVE)
        name = source.read_as or source.path
        folder = folders.setdefault(name.rpartition("/")[0], StoredFolder(project.pk, name))
        path = SourcePath(name, is_live=is_live, folder=folder)
        with _restore_file(source, size) as file:
            is_known = is_live or source.pk == named
            first = b"{}" if is_known else choose_reader(file, file.read(HEAD_BYTES), path, source.format)[1]
            if version := read_version(state):
                first = mark_version(states.get(source.path, first), version)
            counts = ImportCounts(source)
            for number, piece in enumerate(read_pieces(file, source.format, path, first, offset=0, number=1)):
                if number or _is_full(pending):
                    write.record(project, pending, collects_calls=False)
                    pending = []
                batch = build_batch(source, piece, {} if is_live else counts.add(piece.records), None)
                batch = replace(batch, is_stored=True, prefix_sha256=prefix)
                pending.append(replace(batch, state=state) if is_live else batch)  # it is the answer to the program
                states[source.path] = piece.state
    if pending:
        write.record(project, pending, collects_calls=False)


def _is_full(batches: Sequence[SourceBatch]) -> bool:
    size = sum(batch.end - batch.start for batch in batches)
    return size >= BATCH_BYTES or sum(len(batch.lines) for batch in batches) >= BATCH_LINES


@contextmanager
def _restore_file(source: Source, size: int) -> Iterator[BinaryIO]:
    """The source's bytes as a file, at their places, so that they are read by the code that reads files.

    Of a line that was too long only the beginning is stored: there the file has a hole up to the line's end. A line end
    that was written after its line had been read is in no frame yet; it is added to that of its line.
    """
    with TemporaryFile(dir=settings.DATA) as file:
        places = list(source.frames.order_by("offset").values_list("pk", "offset"))
        ends = [*(offset for _, offset in places[1:]), size]
        for (key, offset), end in zip(places, ends, strict=True):
            frame = source.frames.get(pk=key)  # one at a time: a source may be larger than the memory
            data, gap = frame.data, end - offset - frame.size
            if 0 < gap <= LONGEST_LINE_END:
                data += b"\n".rjust(gap, b"\r")
                frame.own_data, frame.size, frame.block, frame.block_start = data, len(data), None, None
                frame.save(update_fields=["own_data", "size", "block", "block_start"])
            file.seek(offset)
            file.write(data)
            if gap > LONGEST_LINE_END and not find_format(source.format).is_document:
                file.seek(-1, os.SEEK_CUR)
                file.write(b"\0")
                file.seek(end - 1)
                file.write(b"\n")
        file.truncate(size)  # which flushes it
        file.seek(0)
        yield file


def _portions(keys: Iterable[Key]) -> Iterator[list[Key]]:
    ordered = sorted(keys)
    return (ordered[start : start + IDS_AT_ONCE] for start in range(0, len(ordered), IDS_AT_ONCE))


def _collect_keys(keys: Iterable[Key], find: Callable[[list[Key]], Iterable[QuerySet[Any]]]) -> set[Any]:
    return {key for portion in _portions(keys) for rows in find(portion) for key in rows.iterator() if key is not None}


def _runs_of_sources(keys: list[int]) -> Iterator[QuerySet[Any]]:
    """The runs that the sources are about, and those that list a call of which the sources have evidence."""
    yield LINKS.filter(source__in=keys).values_list("run_id", flat=True)
    yield RunCall.objects.filter(call__observations__source__in=keys).values_list("run_id", flat=True).distinct()


def _sources_of_runs(keys: list[UUID]) -> Iterator[QuerySet[Any]]:
    yield LINKS.filter(run__in=keys).values_list("source_id", flat=True)
    listed = Observation.objects.filter(call__memberships__run__in=keys)
    yield listed.order_by().values_list("source_id", flat=True).distinct()


def _runs_beside(keys: list[UUID]) -> Iterator[QuerySet[Any]]:
    """Parents, children, and runs that have calls or receipts in common with these."""
    yield Run.objects.filter(pk__in=keys).values_list("parent_id", flat=True)
    yield Run.objects.filter(parent__in=keys).values_list("pk", flat=True)
    children = Call.objects.filter(run__in=keys).exclude(child_run=None).values("child_run")
    yield Run.objects.filter(pk__in=children).values_list("pk", flat=True)
    for model in (RunCall, RecordedReceipt):
        yield model._default_manager.filter(call__memberships__run__in=keys).values_list("run_id", flat=True).distinct()
    yield RunCall.objects.filter(call__receipts__run__in=keys).values_list("run_id", flat=True).distinct()


def _with_ancestors(runs: Iterable[UUID], parents: Mapping[UUID, UUID | None]) -> set[UUID]:
    known, waiting = set[UUID](), list(runs)
    while waiting:
        run = waiting.pop()
        if run not in known:
            known.add(run)
            waiting += [parent] if (parent := parents.get(run)) is not None else []
    return known


def _digest_calls(runs: Iterable[UUID]) -> dict[UUID, int]:
    """A number for each call of these runs that differs where its evidence does; for this process alone."""
    digests: dict[UUID, int] = defaultdict(int)
    for keys in _portions(runs):
        for row in Call.objects.filter(run__in=keys).values_list(*COMPARED_OF_CALL).iterator():
            digests[row[0]] += hash(row)
        for model, columns in COMPARED:
            for row in model._default_manager.filter(call__run__in=keys).order_by().values_list(*columns).iterator():
                digests[row[0]] += hash((model, row))
        remarks = Remark.objects.filter(run__in=keys, call__in=Call.objects.filter(run__in=keys).values("pk"))
        remarks = remarks.exclude(kind__in=Remark.Kind.of_evidence())
        for call, *values in remarks.values_list("call", "kind", "path", "was", "became").iterator():
            if call is not None:
                digests[call] += hash(tuple(values))
    return digests


def _delete_rows(model: type[models.Model], keys: Iterable[UUID]) -> None:
    """Deletes these rows alone: what points at them stays."""
    for portion in _portions(keys):
        rows = model._default_manager.filter(pk__in=portion)
        rows._raw_delete(rows.db)


def _copy_columns(source: models.Model, target: models.Model, names: Iterable[str]) -> None:
    for name in names:
        setattr(target, name, getattr(source, name))
