"""Merges the runs of a batch with the stored ones: their columns, aliases, listed calls, and the usage of requests.

Called by `write` within its transaction, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from dashboard.ingest.bulk import bulk_insert, bulk_insert_values, unsaved_row
from dashboard.ingest.grouping import Drafts
from dashboard.ingest.merge_calls import CallRows
from dashboard.ingest.sources import SliceLocator
from dashboard.models import Call, Event, Message, RecordedReceipt, RequestUsage, Run, RunCall, Source
from dashboard.models.runs import call_id, derive_id, run_id
from dashboard.text.formatting import column_text, column_time
from envelopes.recordings.base import Format, Record, ResultRecord, RunRecord, UsageRecord

MAX_DEPTH = 50  # subagents of subagents
NO_DROP = {"dropped_tokens": 0, "dropped_after": 0, "dropped_before": 0, "removed_tokens": 0}
LIMITS = {"title": 300, "agent": 100, "model": 100, "version": 50, "cwd": 500, "branch": 300}
INHERITED_COLUMNS = ("title", "model", "version", "cwd", "branch", "ended_at", "plan", "parent_id", "parent_call")


def new_run(pk: UUID, source: Source, format_: Format, name: str) -> Run:
    return Run(
        id=pk,
        project_id=source.project_id,
        namespace=format_.namespace,
        external_id=column_text(name, 300),
        agent=format_.agent,
        source_format=format_.name,
        sort_at=timezone.now(),
    )


def merge_run(
    run: Run,
    name: str,
    records: Sequence[RunRecord],
    stamps: Sequence[str],
    run_id: Callable[[str], UUID],
    call_id: Callable[[str, str], UUID],
) -> None:
    """Later records know more and win. A record that names the run as its own parent is ignored."""
    origins = {record.origin for record in records}
    is_new = bool(origins) and run.started_at is None
    run.is_reported = "message" not in origins and (run.is_reported or is_new)
    for record in records:
        for column, limit in LIMITS.items():
            if text := getattr(record, column):
                setattr(run, column, column_text(text, limit))
        run.plan = record.plan if record.plan is not None else run.plan
        run.ended_at = column_time(record.ended_at) or run.ended_at
        if record.parent_run and record.parent_run != name:
            run.parent_id = run_id(record.parent_run)
            if record.parent_call:
                run.parent_call = call_id(record.parent_run, record.parent_call)
    times = [time for time in map(column_time, stamps) if time is not None]
    if run.started_at is not None:
        times.append(run.started_at)
    if times:
        run.started_at = run.sort_at = min(times)
    if run.last_at is not None:
        times.append(run.last_at)
    run.last_at = max(times, default=None)


def is_own_ancestor(run: Run, parents: Mapping[UUID, UUID | None]) -> bool:
    """True when the run's new parent descends from the run: two files may each name the other's run as the parent.

    `parents` are those that are not written yet. Follows parents as far as any real chain of subagents goes.
    """
    ancestor = run.parent_id
    for _ in range(MAX_DEPTH):
        if ancestor is None:
            return False
        if ancestor == run.pk:
            return True
        if ancestor in parents:
            ancestor = parents[ancestor]
        else:
            ancestor = Run.objects.filter(pk=ancestor).values_list("parent_id", flat=True).first()
    return False


class RunAliases:
    """Merges a run known only by its spawning call with the same run once its own name is known.

    Only call ids that are global tell that two runs are the same (design.md section 1, Identity); without them two
    runs stay. `names` maps each alias to the run's own name; `stored` has the runs that were stored under an alias.
    """

    def __init__(self, format_: Format, project: int, records: Sequence[Record]) -> None:
        self._format = format_
        self._project = project
        self.names: dict[str, str] = {}
        for record in records:
            match record:
                case ResultRecord(call=call, child_run=str(run)) | RunRecord(run=run, parent_call=str(call)):
                    alias = format_.run_alias(run, call)
                    if alias and alias != run:
                        self.names[alias] = run
        self.names |= self._stored_names({record.run for record in records} - self.names.keys())
        aliases = {run_id(project, format_.namespace, alias): alias for alias in self.names}
        runs = Run.objects.select_for_update().in_bulk(list(aliases)) if aliases else {}
        self.stored = {aliases[key]: run for key, run in runs.items()}

    def _stored_names(self, names: set[str]) -> dict[str, str]:
        """The own names of those runs in `names` whose spawning call is stored with the run that it started."""
        calls = {
            call_id(self._project, self._format.namespace, name, call, joins=True): name
            for name in names
            if (call := self._format.spawning_call(name))
        }
        if not calls:
            return {}
        children = dict(Call.objects.filter(pk__in=list(calls)).values_list("pk", "child_run"))
        own_names = dict(Run.objects.filter(pk__in=set(children.values())).values_list("pk", "external_id"))
        names_by_alias = {calls[call]: own_names[run] for call, run in children.items() if run in own_names}
        return {alias: name for alias, name in names_by_alias.items() if alias != name}

    def resolve(self, records: Sequence[Record]) -> Sequence[Record]:
        """The records with every run under its own name, after one for each run that takes over stored rows."""
        if not self.names:
            return records
        taking_over: list[Record] = [RunRecord(line=0, run=self.names[alias]) for alias in self.stored]
        return [*taking_over, *map(self._resolve_record, records)]

    def _resolve_record(self, record: Record) -> Record:
        runs = {name: getattr(record, name, None) for name in ("run", "parent_run", "child_run")}
        changed = {name: self.names[run] for name, run in runs.items() if run in self.names}
        return msgspec.structs.replace(record, **changed) if changed else record

    def merge(self, runs: Mapping[str, Run]) -> set[UUID]:
        """Moves the rows stored under an alias to the run itself; returns the runs whose counts have to follow.

        Messages keep the ids that they got under the alias, so those that the run's own file repeats are stored twice.
        """
        for alias, stored in self.stored.items():
            run = runs[self.names[alias]]
            for column in INHERITED_COLUMNS:
                if not getattr(run, column) and getattr(stored, column) != run.pk:
                    setattr(run, column, getattr(stored, column))
            times = [time for row in (run, stored) for time in (row.started_at, row.last_at) if time is not None]
            if times:
                run.started_at = run.sort_at = min(times)
                run.last_at = max(times)
            for child in runs.values():
                child.parent_id = run.pk if child.parent_id == stored.pk else child.parent_id
            _move_rows(stored, run)
            stored.delete()
        return {runs[self.names[alias]].pk for alias in self.stored}


def _move_rows(stored: Run, run: Run) -> None:
    listed = RunCall.objects.filter(run=run).values("call")
    own = list(RunCall.objects.filter(run=stored, inherited=False).values_list("call_id", flat=True))
    RunCall.objects.filter(run=stored, call__in=listed).delete()
    RunCall.objects.filter(run=stored).update(run=run)
    RunCall.objects.filter(run=run, call__in=own).update(inherited=False)
    answered = RecordedReceipt.objects.filter(run=run).values("call")
    RecordedReceipt.objects.filter(run=stored, call__in=answered).delete()
    RecordedReceipt.objects.filter(run=stored).update(run=run)
    Call.objects.filter(run=stored).update(run=run)
    Call.objects.filter(child_run=stored.pk).update(child_run=run.pk)
    Run.objects.filter(parent=stored).update(parent=run)
    Message.objects.filter(run=stored).update(run=run)
    Event.objects.filter(run=stored).update(run=run)
    RequestUsage.objects.filter(run=stored, request__in=run.requests.values("request")).delete()
    RequestUsage.objects.filter(run=stored).update(run=run)
    for source in Source.objects.filter(runs=stored):
        Source.runs.through._default_manager.get_or_create(source_id=source.pk, run_id=run.pk)


def write_memberships(drafts: Drafts, rows: Mapping[UUID, CallRows], run_id: Callable[[str], UUID]) -> list[RunCall]:
    """Lists each call in the runs that have its record.

    A call known only from its result is listed in that result's run, at its line, until its own record is imported;
    then `detach_placeholder_memberships` removes it from there.
    """
    members = [
        unsaved_row(
            RunCall,
            run_id=run_id(run),
            call_id=key,
            ordinal=record.line,
            inherited=record.inherited or rows[key].call.run_id != run_id(run),
        )
        for (run, key), record in drafts.members.items()
    ]
    recorded = {key for _, key in drafts.members}
    members += [
        unsaved_row(RunCall, run_id=row.call.run_id, call_id=key, ordinal=row.call.line)
        for key, row in rows.items()
        if row.is_new and key not in recorded
    ]
    bulk_insert(RunCall, members, ignore_known=True)
    return members


def detach_placeholder_memberships(rows: Mapping[UUID, CallRows]) -> set[UUID]:
    """Removes calls from the runs of their results; returns the runs, whose counts have to follow."""
    calls = [key for key, row in rows.items() if row.was_answer_alone and row.call.tool]
    if not calls:
        return set()
    placeholders = RunCall.objects.filter(call__in=calls)
    runs = set(placeholders.values_list("run_id", flat=True))
    placeholders.delete()
    return runs


def write_usage(usages: Sequence[UsageRecord], runs: Mapping[str, Run], locator: SliceLocator) -> set[UUID]:
    """Stores each request of a run once, however many lines and files report it; returns the runs with usage.

    What an agent's own file reports replaces what its parent's file did: lines can be compared within one file only.
    """
    drafts: dict[UUID, list[UsageRecord]] = {}
    for usage in usages:
        key = derive_id("request", runs[usage.run].pk.bytes, usage.request)
        drafts.setdefault(key, []).append(usage)
    if not drafts:
        return set()
    stored = RequestUsage.objects.in_bulk(list(drafts))
    rows = []
    for key, records in drafts.items():
        known = stored.get(key)
        origin = "message" if any(record.origin == "message" for record in records) else "progress"
        records = [record for record in records if record.origin == origin]
        columns = _usage_columns(records, origin, locator)
        if known is None:
            rows.append({"id": key, "run_id": runs[records[0].run].pk, **columns, **NO_DROP})
        elif (known.origin, origin) == ("progress", "message"):
            RequestUsage.objects.filter(pk=key).update(**columns)
        elif (known.origin, known.line) != (origin, columns["line"]) and columns["output_tokens"] > known.output_tokens:
            RequestUsage.objects.filter(pk=key).update(output_tokens=columns["output_tokens"])
    bulk_insert_values(RequestUsage, rows)
    return {runs[usage.run].pk for usage in usages}


def _usage_columns(records: Sequence[UsageRecord], origin: str, locator: SliceLocator) -> dict[str, Any]:
    """The columns of a request, from the first line that reports it, with the largest output of all of them."""
    first = records[0]
    return {
        "request": column_text(first.request, 200),
        "line": first.line,
        "at": column_time(first.at),
        "origin": origin,
        "input_tokens": first.input_tokens,
        "cache_read_tokens": first.cache_read_tokens,
        "cache_creation_tokens": first.cache_creation_tokens,
        "output_tokens": max(record.output_tokens for record in records),
        "edits": first.edits,
        "cleared_tokens": first.cleared_tokens,
        **locator.columns(first.usage, first.line),
    }
