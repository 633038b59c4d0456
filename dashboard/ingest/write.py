"""The one write path: everything that a recording contains becomes rows here.

The batches of several sources are one transaction: raw bytes, rows and refused lines together, acknowledged when the
commit is durable. Ids derive from identity, so a batch that is written twice changes nothing, and a killed one too.

    record(project, batches)    writes what readers yielded for some lines of some sources
    delete_run(run)             deletes a run with what only it refers to
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.evidence.hook_outputs import ATTACHMENT, HOOK_SUCCESS, hook_events
from dashboard.ingest import sources
from dashboard.ingest.bulk import bulk_insert, bulk_insert_values, bulk_update, count_stored, move_earlier
from dashboard.ingest.call_rows import CallRows
from dashboard.ingest.compute_derived import current_derivation
from dashboard.ingest.derive import RecordedCall
from dashboard.ingest.group_records import RecordGrouper
from dashboard.ingest.merge_calls import CallMerge, new_call, new_supersession
from dashboard.ingest.merge_runs import (
    RunAliases,
    find_disputed,
    list_calls,
    merge_run,
    new_run,
    settle_owners,
    settle_parent,
    write_members,
    write_usage,
)
from dashboard.ingest.remarks import length_remarks, remark_row
from dashboard.ingest.run_stats import refresh_stats
from dashboard.ingest.sent_content import find_wrong_sizes
from dashboard.ingest.sources import SourceBatch
from dashboard.ingest.span_pairs import pair_spans, undo_pairs
from dashboard.models import (
    Artifact,
    Call,
    Event,
    Message,
    Observation,
    Project,
    ReceiptSupersession,
    RecordedReceipt,
    Remark,
    Run,
    RunCall,
    Source,
)
from dashboard.models.identity import derive_id, run_id
from dashboard.text.formatting import column_text, column_time
from envelopes.recordings import find_format
from envelopes.recordings.base import Format

OBSERVATION_COLUMNS = (
    "selected",
    "source",
    "line",
    "start",
    "own_data",
    "observed_at",
    "fidelity",
)  # those that a merge changes
COUNTED_ROWS = ("runs", "calls", "results", "receipts", "events")


class WrittenRows(NamedTuple):
    """How many rows of each of COUNTED_ROWS are new, and the calls with new evidence, where all of that is at hand."""

    added: dict[str, int]
    calls: dict[UUID, RecordedCall | None]


def record(project: Project, batches: Sequence[SourceBatch], *, collects_calls: bool = True) -> WrittenRows:
    """Writes the evidence of batches, each of another source. What follows from it is left to `store_derived`.

    Without `collects_calls` it returns no calls. Raises sources.SourceMoved when a source is no longer where its batch
    starts; then nothing is written.
    """
    with project.write_lock():
        return record_locked(project, batches, collects_calls=collects_calls)


def record_locked(project: Project, batches: Sequence[SourceBatch], *, collects_calls: bool) -> WrittenRows:
    """The same within a write lock of the caller: a second one is a savepoint, for which SQLite copies each page."""
    added: Counter[str] = Counter()
    calls: dict[UUID, RecordedCall | None] = {}
    sources.save_sources(project, batches)
    sources.store_lines(batches)
    for name, of_format in groupby(batches, key=lambda batch: batch.source.format):
        writing = _BatchWrite(project, find_format(name), list(of_format))
        writing.write_runs()
        writing.write_calls()
        added.update(writing.added)
        calls |= writing.recorded_calls() if collects_calls else {}
    return WrittenRows(added, calls)


class _SourcePart:
    """One source's part of the batches: its records by run and call, and where their bytes are."""

    def __init__(self, batch: SourceBatch, grouper: RecordGrouper) -> None:
        self.source = batch.source
        self.find_file = batch.find_file
        self.locator = sources.SliceLocator(batch)
        self.grouper = grouper
        self.drafts = grouper.drafts

    @cached_property
    def run_names(self) -> set[str]:
        """The runs that its records are of, and the parents that they name."""
        records = chain.from_iterable(self.drafts.runs.values())
        return {*self.drafts.runs, *(entry.parent_run for entry in records if entry.parent_run)}

    def hooked_calls(self) -> Iterator[UUID]:
        """Calls for which a hook may have returned an output: their receipts follow from that too."""
        for event in self.drafts.events:
            if event.call and (event.kind, event.message) == (ATTACHMENT, HOOK_SUCCESS):
                yield self.grouper.call_id(event.run, event.call)


class _BatchWrite:
    """Writes the rows of batches of one format. Each step first reads what is stored, to tell what is new.

    All runs are merged before the first call, so that which run owns a call does not depend on the order of the
    sources; the calls of each source are merged after those of the source before it.
    """

    def __init__(self, project: Project, format_: Format, batches: Sequence[SourceBatch]) -> None:
        self.project: int = project.pk
        self.format = format_
        self.batches = batches
        self.parts: list[_SourcePart] = []
        self.added = dict.fromkeys(COUNTED_ROWS, 0)
        self.runs: dict[str, Run] = {}
        self.new_runs: set[UUID] = set()
        self.remodelled: set[UUID] = set()  # runs with another model than before, which decides how tokens are counted
        self.run_ids: dict[str, UUID] = {}
        self.call_ids: dict[tuple[str, str], UUID] = {}
        self.rows: dict[UUID, CallRows] = {}
        self.members: list[RunCall] = []  # new ones, in the order of the sources
        self.supersessions: dict[UUID, list[ReceiptSupersession]] = defaultdict(list)  # known ones, by call
        self.orphans: list[ReceiptSupersession] = []  # new ones of calls that are not stored yet
        self.pairs: dict[UUID, UUID] = {}  # by the call of a span, which is gone, the call that has its result now

    def write_runs(self) -> None:
        """Writes runs, messages and events, and merges the calls."""
        aliases = RunAliases(self.format, self.project, [entry for batch in self.batches for entry in batch.records])
        for batch in self.batches:
            self._add_part(batch, aliases)
        for batch in undo_pairs(self.format, [part.drafts for part in self.parts], self._run_id):
            self._add_part(batch, aliases)
        self._save_runs()
        self.new_runs -= aliases.merge(self.runs)
        self._merge_calls()
        self._save_messages()
        self._save_events()
        write_usage([(part.drafts.usages, part.locator) for part in self.parts], self.runs)
        self._save_remarks()
        self._link_sources()

    def _add_part(self, batch: SourceBatch, aliases: RunAliases) -> None:
        grouper = RecordGrouper(self.project, self.format, self.call_ids)
        entries = list(aliases.resolve(batch.records))
        for entry in chain(entries, length_remarks(entries)):
            grouper.add(entry)
        self.parts.append(_SourcePart(batch, grouper))

    def write_calls(self) -> None:
        """Writes the calls with their evidence and lists them in their runs."""
        artifacts = self._list_named_artifacts()
        self._save_calls(artifacts)
        bulk_insert(Artifact, artifacts, ignore_known=True)
        detached = write_members(self.rows, self.members)
        self.pairs = pair_spans(self.format, [run.pk for run in self.runs.values()])
        self.added["calls"] -= sum(self.rows[span].is_new for span in self.pairs if span in self.rows)
        self._save_run_counts(detached)

    def recorded_calls(self) -> dict[UUID, RecordedCall | None]:
        """The calls by id, with the evidence of the new ones, unless an event of a hook is evidence too."""
        new = {key: rows for key, rows in self.rows.items() if rows.is_new}
        hooked = set(hook_events(new).values_list("call", flat=True))
        models_by_run = {run.pk: run.model for run in self.runs.values()}
        paired = set(self.pairs.values())
        waiting = {key for key, rows in self.rows.items() if not rows.call.derivation}
        calls: dict[UUID, RecordedCall | None] = dict.fromkeys((waiting | paired) - self.pairs.keys())
        for key, rows in new.items():
            if (
                key in calls
                and key not in hooked | paired
                and (model := models_by_run.get(rows.call.run_id)) is not None
            ):
                observations = sorted(rows.observations, key=attrgetter("surface", "line", "id"))
                calls[key] = RecordedCall(rows.call, observations, rows.receipts, model=model)
        return calls

    def _link_sources(self) -> None:
        """Links each source with the runs that its records are of; parents that they only name are not among them."""
        links = [
            {"source_id": part.source.pk, "run_id": self._run_id(name)}
            for part in self.parts
            for name in part.drafts.runs
        ]
        bulk_insert_values(Source.runs.through, links, ignore_known=True)

    def _run_id(self, run: str) -> UUID:
        if run not in self.run_ids:
            self.run_ids[run] = run_id(self.project, self.format.namespace, run)
        return self.run_ids[run]

    def _save_runs(self) -> None:
        names = {name for part in self.parts for name in part.run_names}
        known = count_stored(Run, "id", [self._run_id(name) for name in names])
        stored = Run.objects.select_for_update().in_bulk(list(known)) if known else {}
        for part in self.parts:
            self._merge_runs(part, stored)
        new_runs = [run for run in self.runs.values() if run.pk not in stored]
        self.new_runs = {run.pk for run in new_runs}
        self.added["runs"] += len(new_runs)
        # New runs may point at each other, so they are inserted without their parents, which their counts' save adds.
        bulk_insert_values(Run, [vars(run) | {"parent_id": None} for run in new_runs])

    def _merge_runs(self, part: _SourcePart, stored: Mapping[UUID, Run]) -> None:
        drafts = part.drafts
        for name in sorted(part.run_names):
            key = self._run_id(name)
            run = self.runs.get(name) or stored.get(key) or new_run(key, part.source, self.format, name)
            parent, model = run.parent_id, run.model
            records, stamps = drafts.runs.get(name, []), drafts.stamps.get(name, [])
            merge_run(run, name, records, stamps, self._run_id, part.grouper.call_id)
            others = chain(stored.values(), self.runs.values())
            drafts.remarks += settle_parent(run, name, parent, records, others)
            run.revision += 1
            self.runs[name] = run
            if run.model != model:
                self.remodelled.add(key)

    def _merge_calls(self) -> None:
        keys = {key: None for part in self.parts for key in chain(part.drafts.calls, part.hooked_calls())}
        stored = [run for run in self.runs.values() if run.pk not in self.new_runs]
        disputed = find_disputed(stored, keys)
        self._load_calls([*keys, *disputed])
        superseded = count_stored(ReceiptSupersession, "call", {*keys, *disputed})
        for supersession in ReceiptSupersession.objects.filter(call__in=superseded) if superseded else ():
            self.supersessions[supersession.call].append(supersession)
        for key, rows in self.rows.items():
            rows.supersessions = self.supersessions[key]
        settle_owners([self.rows[key] for key in disputed], self.runs.values())
        run_ids = {name: self._run_id(name) for name in self.runs}
        drafts = (draft for part in self.parts for draft in part.drafts.calls.values())
        children = {result.child_run for draft in drafts for result in draft.results if result.child_run}
        run_ids |= {child: self._run_id(child) for child in children}
        for part in self.parts:
            self._merge_part(part, run_ids)

    def _merge_part(self, part: _SourcePart, run_ids: dict[str, UUID]) -> None:
        drafts, source = part.drafts, part.source.pk
        for key, draft in drafts.calls.items():
            if key not in self.rows and draft.is_orphan:
                for record in draft.superseded:
                    self.orphans.append(new_supersession(record, run_ids[record.run], key, source))
                    self.supersessions[key].append(self.orphans[-1])
            elif key not in self.rows:
                run = run_ids[draft.owner]
                call = new_call(draft, project=self.project, namespace=self.format.agent, run=run)
                supersessions = self.supersessions[key]
                self.rows[key] = CallRows(call, is_new=True, observations=[], receipts=[], supersessions=supersessions)
        rows = {key: self.rows[key] for key in drafts.calls if key in self.rows}
        self.members += list_calls(drafts, rows, self._run_id, source)
        settle_owners(rows.values(), self.runs.values())
        for key, call_rows in rows.items():
            merge = CallMerge(call_rows, part.locator)
            merge.apply(drafts.calls[key], run_ids)
            drafts.remarks += merge.remarks
            drafts.remarks += find_wrong_sizes(drafts.calls[key].artifacts, part.find_file)

    def _load_calls(self, keys: Sequence[UUID]) -> None:
        stored = count_stored(Call, "id", keys)  # ids derive from the project
        if not stored:
            return
        calls = Call.objects.select_for_update().in_bulk(list(stored))
        for key, call in calls.items():
            self.rows[key] = CallRows(call, is_new=False, observations=[], receipts=[], stored=dict(vars(call)))
        for member in RunCall.objects.filter(call__in=list(calls)):
            self.rows[member.call_id].members[member.run_id] = member
        for observation in Observation.objects.filter(call__in=list(calls)).order_by("line"):
            self.rows[observation.call_id].observations.append(observation)
        for receipt in RecordedReceipt.objects.filter(call__in=list(calls)).order_by("seq"):
            self.rows[receipt.call_id].receipts.append(receipt)

    def _save_calls(self, artifacts: Sequence[Artifact]) -> None:
        """Writes and derives nothing of stored calls that the batches only repeat."""
        for rows in self.rows.values():
            rows.call.receipt_count = sum(receipt.run_id == rows.call.run_id for receipt in rows.receipts)
        beside, derivation = self._find_evidence_beside(artifacts), current_derivation()
        all_rows = [
            rows
            for key, rows in self.rows.items()
            if rows.is_changed
            or key in beside
            or rows.call.run_id in self.remodelled
            or rows.call.derivation != derivation
        ]
        for rows in all_rows:
            rows.call.evidence_version += 1
            rows.call.derivation, rows.call.search_id = "", None
        new_calls = [rows.call for rows in all_rows if rows.is_new]
        observations = [row for rows in all_rows for row in rows.new_observations]
        receipts = [row for rows in all_rows for row in rows.new_receipts]
        bulk_insert(Call, new_calls)
        bulk_update([rows.call for rows in all_rows if not rows.is_new])
        bulk_insert(Observation, observations)
        new = {row.id for row in observations}
        changed = [row for rows in all_rows for row in rows.changed_observations if row.id not in new]
        bulk_update(changed, OBSERVATION_COLUMNS)
        bulk_insert(RecordedReceipt, receipts)
        bulk_update([row for rows in all_rows for row in rows.changed_receipts])
        supersessions = [row for rows in all_rows for row in rows.new_supersessions] + self.orphans
        bulk_insert(ReceiptSupersession, supersessions, ignore_known=True)
        self.added["calls"] += len(new_calls)
        self.added["results"] += sum(row.surface == "result" for row in observations)
        self.added["receipts"] += len({row.observation_id for row in receipts} & new)  # others are copies

    def _find_evidence_beside(self, artifacts: Sequence[Artifact]) -> set[UUID]:
        """The calls of which the batches have evidence in other rows than their own: outputs of hooks, new files."""
        of_stored = [artifact for artifact in artifacts if not self.rows[artifact.call_id].is_new]
        known = count_stored(Artifact, "id", [artifact.pk for artifact in of_stored])
        hooked = {key for part in self.parts for key in part.hooked_calls()}
        return hooked | {artifact.call_id for artifact in of_stored if artifact.pk not in known}

    def _list_named_artifacts(self) -> list[Artifact]:
        return [
            sources.named_artifact(part.source, key, ordinal, entry, part.find_file(entry))
            for part in self.parts
            for key, draft in part.drafts.calls.items()
            for ordinal, entry in enumerate(draft.artifacts)
        ]

    def _save_messages(self) -> None:
        rows = [
            {
                "run_id": (run := self.runs[message.run].pk),
                "id": derive_id("message", run.bytes, message.key, beside=run),
                "role": column_text(message.role, 32),
                "kind": column_text(message.kind, 64),
                "step": column_text(message.step, 200),
                "at": column_time(message.at),
                "line": message.place,
                "tokens": 0,
                "delivery": message.delivery,
                "search_id": None,
                **part.locator.columns(message.content, message.line),
            }
            for part in self.parts
            for message in part.drafts.messages
        ]
        bulk_insert_values(Message, rows, ignore_known=True)
        placed = [message.position is not None for part in self.parts for message in part.drafts.messages]
        move_earlier(Message, [row for row, is_placed in zip(rows, placed, strict=True) if is_placed])

    def _save_events(self) -> None:
        rows: dict[UUID, dict[str, Any]] = {}
        for part in self.parts:
            for key, row in dict(self._event_rows(part)).items():
                rows.setdefault(key, row)  # of equal ones the first source's
        keys = [key for key, row in rows.items() if row["run_id"] not in self.new_runs]  # others are not stored yet
        stored = set(Event.objects.filter(pk__in=keys).values_list("pk", flat=True)) if keys else set()
        self.added["events"] += len(rows) - len(stored)
        bulk_insert_values(Event, [row for key, row in rows.items() if key not in stored])

    def _event_rows(self, part: _SourcePart) -> Iterator[tuple[UUID, dict[str, Any]]]:
        for event in part.drafts.events:
            run = self.runs[event.run]
            payload = event.payload.strip()  # a payload that is a whole line has a newline
            key = derive_id("event", run.pk.bytes, event.kind, event.place, event.message, payload, beside=run.pk)
            yield (
                key,
                {
                    "id": key,
                    "run_id": run.pk,
                    "call": part.grouper.call_id(event.run, event.call) if event.call else None,
                    "kind": column_text(event.kind, 100),
                    "level": event.level,
                    "message": column_text(event.message, 500),
                    "at": column_time(event.at),
                    "line": event.place,
                    **part.locator.columns(event.document or payload, event.line),
                },
            )

    def _save_remarks(self) -> None:
        rows = [
            remark_row(
                remark,
                run=self.runs[remark.run].pk,
                call=part.grouper.call_id(remark.owner or remark.run, remark.call) if remark.call else None,
                source=part.source.pk,
                line=remark.place,
            )
            for part in self.parts
            for remark in part.drafts.remarks
        ]
        bulk_insert_values(Remark, rows, ignore_known=True)

    def _save_run_counts(self, detached: set[UUID]) -> None:
        """A run with calls that wait to be derived gets its number of calls now, and all else when they are."""
        waiting = [rows for rows in self.rows.values() if not rows.call.derivation]
        changed = {run for rows in waiting for run in (rows.call.run_id, *rows.members)}
        totals = count_stored(RunCall, "run_id", changed)
        with_calls = [run for run in self.runs.values() if run.pk in changed]
        for run in with_calls:
            run.call_count = totals.get(run.pk, 0)
        bulk_update(with_calls)
        refresh_stats([run for run in self.runs.values() if run.pk not in changed])
        if others := detached.difference(run.pk for run in self.runs.values()):
            refresh_stats(list(Run.objects.filter(pk__in=others)), only_changed=True)
