"""The one write path. Everything that writes a record goes through here.

A batch is one transaction: raw bytes, rows and refused lines together, acknowledged when the commit
is durable (design.md section 5). Ids derive from identity, so a batch that runs twice changes
nothing, and one that is killed half-way left nothing.

    record(source, batch)    what a reader yielded for a stretch of a source
    begin_source(...)        a source that was not known
    forget_run(run)          a run, with what only it refers to
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
from django.db import connection, models, transaction

from dashboard.artifacts.ingest import StoredContent
from dashboard.artifacts.retention import remove_unreferenced
from dashboard.ingest import deletion, memberships, run_counts, source_rows
from dashboard.ingest.bulk import fresh, insert, insert_values
from dashboard.ingest.derive import Derived, derive
from dashboard.ingest.grouping import CallDraft, Drafts, Gatherer
from dashboard.ingest.merge import CallMerge, CallRows, new_call
from dashboard.ingest.run_aliases import StandIns
from dashboard.ingest.run_rows import is_own_ancestor, merge_run, new_run
from dashboard.ingest.run_stats import columns_of
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    Problem,
    Project,
    Receipt,
    ReceiptFingerprint,
    Run,
    RunCall,
    Source,
    identity,
)
from dashboard.text.column_values import column_text, column_time
from envelopes import recordings
from envelopes.recordings.base import ArtifactRecord, EventRecord, LineProblem, MessageRecord, Record, SourceLine
from envelopes.text.tokens import PendingCounts, TokenCount, TokenCounter, count_now

ADDED = ("runs", "calls", "results", "receipts", "events")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A stretch of whole lines and what a reader made of them. `incomplete` is a last line without its end."""

    start: int
    lines: Sequence[SourceLine]
    records: Sequence[Record]
    refusals: Sequence[LineProblem]
    end: int
    accepted: int = 0
    rejected: int = 0
    blank: int = 0
    ends_open: bool = False
    incomplete: SourceLine | None = None
    state: bytes = b"{}"
    prefix_sha256: str = ""
    seen: dict[str, int] = field(default_factory=dict)


@dataclass
class Written:
    """Rows that were not there before, and the runs that changed."""

    added: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ADDED, 0))
    runs: set[UUID] = field(default_factory=set)


@contextmanager
def alone_in(project: Project) -> Iterator[None]:
    """A transaction that no other writer of the project runs beside: ids are derived, so two of them
    may come upon the same new run or call at once. SQLite's write lock does the same for all projects.
    """
    with transaction.atomic():
        if connection.features.has_select_for_update:
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        yield


def begin_source(project: Project, *, path: str, format_name: str, inode: int, head_sha256: str) -> Source:
    """Not saved yet: its first batch saves it, so that a source and what it holds are one commit."""
    return Source(
        project=project,
        path=column_text(path, 1024),
        format=format_name,
        namespace=recordings.find_format(format_name).namespace,
        inode=inode,
        head_sha256=head_sha256,
    )


def record(
    source: Source,
    batch: Batch,
    *,
    is_known: Callable[[], bool],
    files: Mapping[str, StoredContent] = MappingProxyType({}),
    count: TokenCounter = count_now,
) -> Written:
    """`files` are on disk already, by the path that the recording names. `is_known` looks once more,
    behind the lock, whether a source that is not saved yet was begun by another process meanwhile.

    Raises source_rows.SourceMoved when it was, or when the source is not where the batch starts.
    """
    with alone_in(source.project):
        if source._state.adding:
            source_rows.save_new(source, is_known=is_known)
        else:
            source_rows.claim(source, start=batch.start)
        writing = _BatchWrite(source, files)
        wait = writing.gather(batch, count)
        source_rows.keep_raw(source, batch.lines)
        written = writing.write(wait())
        source_rows.keep_refusals(source, batch.refusals, batch.lines, batch.incomplete)
        _advance(source, batch)
        source.runs.add(*(run for run in writing.runs.values() if run.pk in written.runs))
    return written


def refuse_file(project: Project, *, path: str, reason: str, raw: bytes) -> None:
    """A whole file that no reader knows; told once, however often it is offered."""
    shown = {"project": project, "file": column_text(path, 1024), "reason": column_text(reason, 1000), "line": 0}
    if not Problem.objects.filter(**shown).exists():
        Problem.objects.create(**shown, path="$", raw=raw[: source_rows.RAW_SHOWN], raw_size=len(raw))


def forget_run(run: Run) -> None:
    """Deletes the run and what only it refers to; a call that another run holds moves there.

    A recording that other runs came from too stays as a row, rewound: its raw bytes go, for they hold
    this run as well, and importing it again meets the others and brings this one back.
    """
    with alone_in(run.project):
        files = deletion.forget(run)
        transaction.on_commit(lambda: remove_unreferenced(files))


class _BatchWrite:
    """The rows of one batch. Every step reads what is stored first, so that it can tell what is new."""

    def __init__(self, source: Source, files: Mapping[str, StoredContent]) -> None:
        self.source = source
        self.files = files
        self.project: int = source.project_id
        self.format = recordings.find_format(source.format)
        self.written = Written()
        self.runs: dict[str, Run] = {}
        self.fresh: set[UUID] = set()
        self.run_ids: dict[str, UUID] = {}
        self.drafts = Drafts()
        self.rows: dict[UUID, CallRows] = {}
        self.derived: dict[UUID, Derived] = {}

    def gather(self, batch: Batch, count: TokenCounter) -> PendingCounts:
        """All that needs no token counts. They are asked for on the way; `write` takes them."""
        gatherer = Gatherer(self.project, self.format)
        stand_ins = StandIns(self.format, self.project, batch.records)
        for one in stand_ins.settled(batch.records):
            gatherer.add(one)
        self.drafts = gatherer.drafts
        self._write_runs(self.drafts, gatherer.call_id)
        self.fresh -= stand_ins.fold(self.runs)
        self.rows = self._merged_calls(self.drafts)
        self.derived = {key: derive(one.call, one.selected) for key, one in self.rows.items()}
        model = next((run.model for run in self.runs.values() if run.model), "")
        wait = count([one.receipt_text for one in self.derived.values()], model)
        self._write_messages(self.drafts.messages)
        self._write_events(self.drafts.events, gatherer)
        return wait

    def write(self, counts: Sequence[TokenCount]) -> Written:
        self._take_counts(self.rows, self.derived, counts)
        self._save_calls(self.rows, self.derived, self.drafts.calls)
        left = memberships.leave_answers_runs(self.rows)
        members = memberships.write(self.drafts, self.rows, self._run_id)
        self._count(members, self.rows, left)
        return self.written

    # runs

    def _run_id(self, run: str) -> UUID:
        if run not in self.run_ids:
            self.run_ids[run] = identity.run_id(self.project, self.format.namespace, run)
        return self.run_ids[run]

    def _write_runs(self, drafts: Drafts, call_id: Callable[[str, str], UUID]) -> None:
        names = set(drafts.runs)
        names.update(one.parent_run for records in drafts.runs.values() for one in records if one.parent_run)
        known = Run.objects.select_for_update().in_bulk([self._run_id(name) for name in names])
        for name in sorted(names):
            pk = self._run_id(name)
            run = known.get(pk) or new_run(pk, self.source, self.format, name)
            before = run.parent_id
            merge_run(run, name, drafts.runs.get(name, []), drafts.stamps.get(name, []), self._run_id, call_id)
            if run.parent_id != before and is_own_ancestor(run, {one.pk: one.parent_id for one in self.runs.values()}):
                run.parent_id = before
            run.revision += 1
            self.runs[name] = run
        new = [run for run in self.runs.values() if run.pk not in known]
        self.fresh = {run.pk for run in new}
        self.written.added["runs"] += len(new)
        _create_runs(new)
        self.written.runs.update(self._run_id(name) for name in drafts.runs)

    # calls

    def _merged_calls(self, drafts: Drafts) -> dict[UUID, CallRows]:
        rows = self._stored_rows(drafts.calls)
        ids = {name: self._run_id(name) for name in self.runs}
        ids.update(
            (one.child_run, self._run_id(one.child_run))
            for draft in drafts.calls.values()
            for one in draft.results
            if one.child_run
        )
        for key, draft in drafts.calls.items():
            if key not in rows and draft.is_of_nobody:
                continue
            if key not in rows:
                call = new_call(draft, project=self.project, namespace=self.format.agent, run=ids[draft.owner])
                rows[key] = CallRows(call, is_new=True, observations=[], receipts=[])
            CallMerge(rows[key], self.source).apply(draft, ids)
        return rows

    def _stored_rows(self, drafts: Iterable[UUID]) -> dict[UUID, CallRows]:
        calls = Call.objects.select_for_update().filter(project_id=self.project).in_bulk(list(drafts))
        if not calls:
            return {}
        rows = {
            key: CallRows(call, is_new=False, observations=[], receipts=[], was_answer_alone=not call.tool)
            for key, call in calls.items()
        }
        copies = RunCall.objects.filter(call__in=list(calls), run=models.F("call__run"), inherited=True)
        for key in copies.values_list("call_id", flat=True):
            rows[key].is_copy = True
        for observation in Observation.objects.filter(call__in=list(calls)).order_by("line"):
            rows[observation.call_id].observations.append(observation)
        for receipt in Receipt.objects.filter(call__in=list(calls)).order_by("seq"):
            rows[receipt.call_id].receipts.append(receipt)
        return rows

    def _take_counts(
        self, rows: dict[UUID, CallRows], derived: dict[UUID, Derived], counts: Sequence[TokenCount]
    ) -> None:
        for key, count in zip(derived, counts, strict=True):
            derived[key].columns |= {"tokens": count.count, "token_certainty": count.certainty}
            for receipt in rows[key].new_receipts[-1:]:
                receipt.characters, receipt.tokens = len(derived[key].receipt_text), count.count

    def _save_calls(
        self, rows: dict[UUID, CallRows], derived: dict[UUID, Derived], drafts: dict[UUID, CallDraft]
    ) -> None:
        for key, one in rows.items():
            vars(one.call).update(derived[key].columns)
            one.call.receipt_count = len(one.receipts)
            one.call.revision = max(
                (run.revision for run in self.runs.values() if run.pk == one.call.run_id), default=0
            )
        calls = [one.call for one in rows.values() if one.is_new]
        insert(Call, calls)
        _update(Call, [one.call for one in rows.values() if not one.is_new])
        insert(Observation, [new for one in rows.values() for new in one.new_observations])
        _update(Observation, [new for one in rows.values() for new in one.changed_observations], ["selected"])
        insert(Receipt, [new for one in rows.values() for new in one.new_receipts])
        _update(Receipt, [new for one in rows.values() for new in one.changed_receipts])
        insert(ReceiptFingerprint, [new for one in rows.values() for new in one.fingerprints])
        self._save_derived(rows, derived, drafts)
        self._keep_notes(rows, derived)
        self.written.added["calls"] += len(calls)
        new = [one.surface for row in rows.values() for one in row.new_observations]
        self.written.added["results"] += new.count("result")
        self.written.added["receipts"] += sum(len(one.new_receipts) for one in rows.values())

    def _save_derived(
        self, rows: dict[UUID, CallRows], derived: dict[UUID, Derived], drafts: dict[UUID, CallDraft]
    ) -> None:
        projections = [one.projection for one in derived.values()]
        known = [key for key, one in rows.items() if not one.is_new]
        if known:
            CanonicalProjection.objects.filter(call__in=known).delete()
        insert(CanonicalProjection, projections, ignore_known=True)
        artifacts = [artifact for one in derived.values() for artifact in one.artifacts]
        artifacts += [
            _named_artifact(self.project, key, ordinal, one, self.files.get(one.path))
            for key, draft in drafts.items()
            for ordinal, one in enumerate(draft.artifacts, 100)
        ]
        insert(Artifact, artifacts, ignore_known=True)

    def _keep_notes(self, rows: dict[UUID, CallRows], derived: dict[UUID, Derived]) -> None:
        """A call that was met before may have a note that no longer holds."""
        looked = [(rows[key].call.external_id, one) for key, one in derived.items() if one.note or not rows[key].is_new]
        told = [(call, one.subject, one.note) for call, one in looked if one.subject is not None]
        if told:
            source_rows.keep_notes(told, self.source)

    # what stands around the calls

    def _write_messages(self, records: Sequence[MessageRecord]) -> None:
        rows = [
            {
                "id": identity.derived("message", self.runs[one.run].pk.bytes, one.key),
                "run_id": self.runs[one.run].pk,
                "role": column_text(one.role, 32),
                "step": column_text(one.step, 200),
                "at": column_time(one.at),
                "line": one.line,
                "data": one.content,
                "size": len(one.content),
                "tokens": 0,
            }
            for one in records
        ]
        insert_values(Message, rows, ignore_known=True)

    def _write_events(self, records: Sequence[EventRecord], gatherer: Gatherer) -> None:
        rows = {row["id"]: row for row in (self._event(one, gatherer) for one in records)}
        known = set(Event.objects.filter(pk__in=list(rows)).values_list("pk", flat=True)) if rows else set()
        self.written.added["events"] += len(rows) - len(known)
        insert_values(Event, [row for key, row in rows.items() if key not in known])

    def _event(self, one: EventRecord, gatherer: Gatherer) -> dict[str, Any]:
        run = self.runs[one.run]
        return {
            "id": identity.derived("event", run.pk.bytes, one.kind, one.line, one.message, one.payload),
            "run_id": run.pk,
            "call": gatherer.call_id(one.run, one.call) if one.call else None,
            "kind": column_text(one.kind, 100),
            "level": one.level,
            "message": column_text(one.message, 500),
            "at": column_time(one.at),
            "line": one.line,
            "payload": one.payload,
        }

    # counts

    def _count(self, members: Sequence[RunCall], rows: dict[UUID, CallRows], left: set[UUID]) -> None:
        """A run that this batch began has no other calls than the batch's: nothing need be read back.

        `left` are runs that calls went from.
        """
        for run in self.runs.values():
            if run.pk in self.fresh:
                own = sorted((one for one in members if one.run_id == run.pk), key=lambda one: one.ordinal)
                run_counts.begin(run, ((one.inherited, *columns_of(rows[one.call_id].call)) for one in own))
            else:
                run_counts.renew(run)
        known = [key for key, one in rows.items() if not one.is_new]
        run_counts.renew_others(known, left, but=[run.pk for run in self.runs.values()])


def _create_runs(runs: Sequence[Run]) -> None:
    """Runs that may point at each other: without the pointer, which is written with their counts."""
    parents = [run.parent_id for run in runs]
    for run in runs:
        run.parent_id = None
    insert(Run, runs)
    for run, parent in zip(runs, parents, strict=True):
        run.parent_id = parent


def _update(model: type[models.Model], rows: list[Any], fields: list[str] | None = None) -> None:
    names = fields or [one.attname for one in model._meta.concrete_fields if not one.primary_key]
    for row in rows:
        row.save(update_fields=names, force_update=True)


def _named_artifact(
    project: int, call: UUID, ordinal: int, one: ArtifactRecord, file: StoredContent | None
) -> Artifact:
    """A file that the recording names. It is missing unless its content was taken in."""
    return fresh(
        Artifact,
        id=identity.derived("artifact", call.bytes, "file", one.path),
        project_id=project,
        call_id=call,
        ordinal=ordinal,
        role=column_text(one.role, 64),
        path=column_text(one.path, 1024),
        state=Artifact.State.PRESENT if file else Artifact.State.MISSING,
        sha256=file.sha256 if file else "",
        size=file.size if file else one.size or 0,
        lines=file.lines if file else 0,
    )


def _advance(source: Source, batch: Batch) -> None:
    source.offset = batch.end
    source.accepted += batch.accepted
    source.rejected += batch.rejected
    source.blank += batch.blank
    source.ends_open = batch.ends_open
    source.left_bytes = len(batch.incomplete.raw) if batch.incomplete else 0
    source.state = batch.state
    source.prefix_sha256 = batch.prefix_sha256
    source.seen = msgspec.json.encode(batch.seen)
    source.save()
