"""The one write path: everything that a recording contains becomes rows here.

A batch is one transaction: raw bytes, rows and refused lines together, acknowledged when the commit is durable
(design.md section 5). Ids derive from identity, so a batch that is written twice changes nothing, and one that is
killed half-way leaves nothing.

    record(source, batch)    writes what a reader yielded for some lines of a source
    delete_run(run)          deletes a run with what only it refers to
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db import connection, models, transaction

from dashboard.artifacts.retention import remove_unreferenced
from dashboard.ingest import sources
from dashboard.ingest.bulk import bulk_insert, bulk_insert_values, bulk_update_values, unsaved_row
from dashboard.ingest.grouping import RecordGrouper
from dashboard.ingest.merge_calls import CallMerge, CallRows, new_call, new_supersession
from dashboard.ingest.merge_runs import (
    RunAliases,
    find_disputed,
    is_own_ancestor,
    list_calls,
    merge_run,
    move_shared_calls,
    new_run,
    settle_owners,
    write_members,
    write_usage,
)
from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    Project,
    ReceiptFingerprint,
    ReceiptSupersession,
    RecordedReceipt,
    Run,
    RunCall,
    RunFacet,
    Source,
)
from dashboard.models.runs import derive_id, run_id
from dashboard.text.formatting import column_text, column_time
from envelopes.recordings import find_format
from envelopes.recordings.base import ArtifactRecord, LineProblem, Record, SourceLine
from envelopes.storage.file_store import StoredContent

OBSERVATION_COLUMNS = ("selected", "source", "line", "start", "own_data", "observed_at")  # those that a merge changes
COUNTED_ROWS = ("runs", "calls", "results", "receipts", "events")


@dataclass(frozen=True, kw_only=True)
class SourceBatch:
    """Consecutive whole lines of a source and the records read from them. Offsets are bytes of the file.

    `incomplete` is a last line without its end; `counts` are the source's `seen` counts with this batch.
    """

    start: int
    lines: Sequence[SourceLine]
    records: Sequence[Record]
    problems: Sequence[LineProblem]
    end: int
    accepted: int = 0
    rejected: int = 0
    blank: int = 0
    ends_open: bool = False
    incomplete: SourceLine | None = None
    state: bytes = b"{}"
    prefix_sha256: str = ""
    counts: dict[str, int] = field(default_factory=dict)


class WrittenBatch(NamedTuple):
    """How many rows of each of COUNTED_ROWS are new, and the calls whose evidence changed."""

    added: dict[str, int]
    calls: list[UUID]


@contextmanager
def project_write_lock(project: Project) -> Iterator[None]:
    """A transaction beside which no other writer of the project runs.

    Ids are derived, so two writers may create the same run or call at once. SQLite's write lock covers all projects.
    """
    with transaction.atomic():
        if connection.features.has_select_for_update:
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        yield


def record(
    source: Source,
    batch: SourceBatch,
    *,
    is_known: Callable[[], bool],
    files: Mapping[str, StoredContent] = MappingProxyType({}),
) -> WrittenBatch:
    """Writes the evidence of a batch. What follows from it is derived afterwards, see `derivation`.

    `files` are stored already, by the path that the recording names. `is_known` checks again, now that writers are
    locked out, whether another process began a source that is not saved yet.

    Raises sources.SourceMoved when it did, or when the source is no longer where the batch starts.
    """
    with project_write_lock(source.project):
        if source._state.adding:
            sources.save_new(source, is_known=is_known)
        else:
            sources.claim(source, start=batch.start)
        writing = _BatchWrite(source, batch.lines, files)
        writing.write_runs(batch.records)
        sources.store_frames(source, batch.lines)
        writing.write_calls()
        sources.store_problems(source, batch.problems, batch.lines, batch.incomplete)
        _advance(source, batch)
        source.runs.add(*writing.recorded_runs())
    return WrittenBatch(writing.added, list(writing.rows))


class _BatchWrite:
    """Writes the rows of one batch. Each step first reads what is stored, to tell what is new."""

    def __init__(self, source: Source, lines: Sequence[SourceLine], files: Mapping[str, StoredContent]) -> None:
        self.source = source
        self.locator = sources.SliceLocator(source, lines)
        self.files = files
        self.project: int = source.project_id
        self.format = find_format(source.format)
        self.grouper = RecordGrouper(self.project, self.format)
        self.drafts = self.grouper.drafts
        self.added = dict.fromkeys(COUNTED_ROWS, 0)
        self.runs: dict[str, Run] = {}
        self.new_runs: set[UUID] = set()
        self.run_ids: dict[str, UUID] = {}
        self.rows: dict[UUID, CallRows] = {}
        self.supersessions: list[ReceiptSupersession] = []  # of calls that are not stored yet

    def write_runs(self, records: Sequence[Record]) -> None:
        """Writes runs, messages and events, and merges the calls."""
        aliases = RunAliases(self.format, self.project, records)
        for entry in aliases.resolve(records):
            self.grouper.add(entry)
        self._save_runs()
        self.new_runs -= aliases.merge(self.runs)
        self._merge_calls()
        self._save_messages()
        self._save_events()
        write_usage(self.drafts.usages, self.runs, self.locator)

    def write_calls(self) -> None:
        """Writes the calls with their evidence and lists them in their runs."""
        self._save_calls()
        self._save_named_artifacts()
        self._save_run_counts(write_members(self.rows))

    def recorded_runs(self) -> list[Run]:
        """The runs that records are of; parents that records only name are not among them."""
        return [self.runs[name] for name in self.drafts.runs]

    def _run_id(self, run: str) -> UUID:
        if run not in self.run_ids:
            self.run_ids[run] = run_id(self.project, self.format.namespace, run)
        return self.run_ids[run]

    def _save_runs(self) -> None:
        drafts = self.drafts
        names = set(drafts.runs)
        names.update(entry.parent_run for records in drafts.runs.values() for entry in records if entry.parent_run)
        stored = Run.objects.select_for_update().in_bulk([self._run_id(name) for name in names])
        for name in sorted(names):
            key = self._run_id(name)
            run = stored.get(key) or new_run(key, self.source, self.format, name)
            parent = run.parent_id
            records, stamps = drafts.runs.get(name, []), drafts.stamps.get(name, [])
            merge_run(run, name, records, stamps, self._run_id, self.grouper.call_id)
            if run.parent_id != parent:
                unwritten = {other.pk: other.parent_id for other in self.runs.values()}
                run.parent_id = parent if is_own_ancestor(run, unwritten) else run.parent_id
            run.revision += 1
            self.runs[name] = run
        new_runs = [run for run in self.runs.values() if run.pk not in stored]
        self.new_runs = {run.pk for run in new_runs}
        self.added["runs"] += len(new_runs)
        # New runs may point at each other, so they are inserted without their parents, which their counts' save adds.
        parents = [run.parent_id for run in new_runs]
        for run in new_runs:
            run.parent_id = None
        bulk_insert(Run, new_runs)
        for run, parent in zip(new_runs, parents, strict=True):
            run.parent_id = parent

    def _merge_calls(self) -> None:
        drafts = self.drafts.calls
        stored = [run for run in self.runs.values() if run.pk not in self.new_runs]
        self._load_calls([*drafts, *find_disputed(stored, drafts)])
        run_ids = {name: self._run_id(name) for name in self.runs}
        children = (result.child_run for draft in drafts.values() for result in draft.results)
        run_ids |= {child: self._run_id(child) for child in children if child}
        for key, draft in drafts.items():
            if key not in self.rows and draft.is_orphan:
                self.supersessions += [
                    new_supersession(record, run_ids[record.run], key, self.source.pk) for record in draft.superseded
                ]
                continue
            if key not in self.rows:
                run = run_ids[draft.owner]
                call = new_call(draft, project=self.project, namespace=self.format.agent, run=run)
                self.rows[key] = CallRows(call, is_new=True, observations=[], receipts=[])
        for supersession in ReceiptSupersession.objects.filter(call__in=list(self.rows)):
            self.rows[supersession.call].supersessions.append(supersession)
        list_calls(self.drafts, self.rows, self._run_id, self.source.pk)
        settle_owners(self.rows.values(), self.runs.values())
        for key, draft in drafts.items():
            if key in self.rows:
                CallMerge(self.rows[key], self.locator).apply(draft, run_ids)

    def _load_calls(self, keys: Sequence[UUID]) -> None:
        calls = Call.objects.select_for_update().filter(project_id=self.project).in_bulk(list(keys))
        if not calls:
            return
        for key, call in calls.items():
            self.rows[key] = CallRows(call, is_new=False, observations=[], receipts=[])
        for member in RunCall.objects.filter(call__in=list(calls)):
            self.rows[member.call_id].members[member.run_id] = member
        for observation in Observation.objects.filter(call__in=list(calls)).order_by("line"):
            self.rows[observation.call_id].observations.append(observation)
        for receipt in RecordedReceipt.objects.filter(call__in=list(calls)).order_by("seq"):
            self.rows[receipt.call_id].receipts.append(receipt)

    def _save_calls(self) -> None:
        all_rows = self.rows.values()
        for rows in all_rows:
            rows.call.receipt_count = sum(receipt.run_id == rows.call.run_id for receipt in rows.receipts)
            rows.call.evidence_version += 1
            rows.call.derivation = ""
        new_calls = [rows.call for rows in all_rows if rows.is_new]
        observations = [row for rows in all_rows for row in rows.new_observations]
        receipts = [row for rows in all_rows for row in rows.new_receipts]
        bulk_insert(Call, new_calls)
        _update([rows.call for rows in all_rows if not rows.is_new])
        bulk_insert(Observation, observations)
        _update([row for rows in all_rows for row in rows.changed_observations], OBSERVATION_COLUMNS)
        bulk_insert(RecordedReceipt, receipts)
        _update([row for rows in all_rows for row in rows.changed_receipts])
        supersessions = [row for rows in all_rows for row in rows.new_supersessions] + self.supersessions
        bulk_insert(ReceiptSupersession, supersessions, ignore_known=True)
        bulk_insert(ReceiptFingerprint, [row for rows in all_rows for row in rows.fingerprints])
        self.added["calls"] += len(new_calls)
        self.added["results"] += sum(row.surface == "result" for row in observations)
        copied = {row.observation_id for row in receipts} - {row.pk for row in observations}
        self.added["receipts"] += sum(row.observation_id not in copied for row in receipts)

    def _save_named_artifacts(self) -> None:
        artifacts = [
            self._named_artifact(key, ordinal, entry)
            for key, draft in self.drafts.calls.items()
            for ordinal, entry in enumerate(draft.artifacts, 100)
        ]
        bulk_insert(Artifact, artifacts, ignore_known=True)

    def _named_artifact(self, call: UUID, ordinal: int, entry: ArtifactRecord) -> Artifact:
        """An artifact for a file that the recording names; missing unless the file was stored."""
        file = self.files.get(entry.path)
        return unsaved_row(
            Artifact,
            id=derive_id("artifact", call.bytes, "file", entry.path),
            project_id=self.project,
            call_id=call,
            ordinal=ordinal,
            role=column_text(entry.role, 64),
            path=column_text(entry.path, 1024),
            state=Artifact.State.PRESENT if file else Artifact.State.MISSING,
            sha256=file.sha256 if file else "",
            size=file.size if file else entry.size or 0,
            lines=file.lines if file else 0,
        )

    def _save_messages(self) -> None:
        rows = [
            {
                "id": derive_id("message", self.runs[message.run].pk.bytes, message.key),
                "run_id": self.runs[message.run].pk,
                "role": column_text(message.role, 32),
                "step": column_text(message.step, 200),
                "at": column_time(message.at),
                "line": message.place,
                "tokens": 0,
                "delivery": message.delivery,
                **self.locator.columns(message.content, message.line),
            }
            for message in self.drafts.messages
        ]
        bulk_insert_values(Message, rows, ignore_known=True)

    def _save_events(self) -> None:
        rows: dict[UUID, dict[str, Any]] = {}
        for event in self.drafts.events:
            run = self.runs[event.run]
            payload = event.payload.strip()  # a payload that is a whole line has a newline
            key = derive_id("event", run.pk.bytes, event.kind, event.place, event.message, payload)
            rows[key] = {
                "id": key,
                "run_id": run.pk,
                "call": self.grouper.call_id(event.run, event.call) if event.call else None,
                "kind": column_text(event.kind, 100),
                "level": event.level,
                "message": column_text(event.message, 500),
                "at": column_time(event.at),
                "line": event.place,
                **self.locator.columns(event.document or payload, event.line),
            }
        stored = set(Event.objects.filter(pk__in=list(rows)).values_list("pk", flat=True)) if rows else set()
        self.added["events"] += len(rows) - len(stored)
        bulk_insert_values(Event, [row for key, row in rows.items() if key not in stored])

    def _save_run_counts(self, detached: set[UUID]) -> None:
        """A run with calls of this batch gets its number of calls now and all else when these are derived."""
        changed = {rows.call.run_id for rows in self.rows.values()}
        changed |= {self._run_id(run) for run, _ in self.drafts.members}
        totals = RunCall.objects.filter(run__in=changed).values_list("run").annotate(total=models.Count("pk"))
        totals_by_run = dict(totals.order_by())
        for run in self.runs.values():
            if run.pk in changed:
                run.call_count = totals_by_run.get(run.pk, 0)
                run.save(force_update=True)
            else:
                refresh_stats(run)
        saved = [run.pk for run in self.runs.values()]
        for run in Run.objects.filter(pk__in=detached).exclude(pk__in=saved):
            refresh_stats(run, only_changed=True)


def _update(rows: Sequence[models.Model], fields: Sequence[str] | None = None) -> None:
    if rows:
        columns = [column for column in rows[0]._meta.concrete_fields if fields is None or column.name in fields]
        names = dict.fromkeys(["id", *(column.attname for column in columns)])
        bulk_update_values(type(rows[0]), [{name: vars(row)[name] for name in names} for row in rows])


def _advance(source: Source, batch: SourceBatch) -> None:
    source.offset = batch.end
    source.accepted += batch.accepted
    source.rejected += batch.rejected
    source.blank += batch.blank
    source.ends_open = batch.ends_open
    source.left_bytes = len(batch.incomplete.raw) if batch.incomplete else 0
    source.state = batch.state
    source.prefix_sha256 = batch.prefix_sha256
    source.seen = msgspec.json.encode(batch.counts)
    source.save()


def delete_run(run: Run) -> None:
    """Deletes the run; a call that another run has too moves there.

    Of its recordings only the bytes stay that rows of other runs refer to. Importing one of them again restores this
    run.
    """
    with project_write_lock(run.project):
        move_shared_calls(run)
        files = set(Artifact.objects.stored_files().filter(call__run=run).values_list("sha256", flat=True))
        evidence = Observation.objects.filter(call__run=run).values("source")
        partial = models.Q(is_partial=True, pk__in=evidence)  # of an earlier deletion; this run's calls were copies
        recordings = list(Source.objects.filter(models.Q(runs=run) | partial).distinct())
        RunFacet.objects.filter(run__parent=run, kind="state", value="child").update(value="top")
        texts = Observation.objects.filter(receipts__run=run).exclude(call__run=run)
        calls_by_text = dict(texts.values_list("pk", "call_id"))
        run.delete()
        unsent = Observation.objects.filter(pk__in=calls_by_text, receipts=None)
        CanonicalProjection.objects.filter(call__in=set(calls_by_text.values()), observation__in=unsent).delete()
        unsent.delete()
        for source in recordings:
            sources.trim_source(source)
        transaction.on_commit(lambda: remove_unreferenced(files))
