"""Merges the runs of a batch with the stored ones: their columns, aliases, listed calls, and the usage of requests.

Decides which run a call belongs to that several list. Called by `write` within its transaction, and by nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.utils import timezone

from dashboard.ingest.bulk import bulk_insert, bulk_update, unsaved_row
from dashboard.ingest.call_rows import CallRows
from dashboard.ingest.group_records import Drafts
from dashboard.ingest.sources import SliceLocator
from dashboard.models import (
    Call,
    Event,
    Message,
    ReceiptSupersession,
    RecordedReceipt,
    RequestUsage,
    Run,
    RunCall,
    Source,
)
from dashboard.models.evidence import INPUT_COLUMNS
from dashboard.models.identity import call_id, derive_id, run_id
from dashboard.models.notes import move_annotations
from dashboard.text.formatting import column_text, column_time
from envelopes.recordings.base import CallRecord, Format, Record, RemarkRecord, ResultRecord, RunRecord, UsageRecord
from envelopes.recordings.json_lines import remark

LAST = datetime.max.replace(tzinfo=UTC)
MAX_DEPTH = 50  # subagents of subagents
LIMITS = {"title": 300, "agent": 100, "model": 100, "version": 50, "cwd": 500, "branch": 300}
USAGE_COUNTS = ("output_tokens", *INPUT_COLUMNS)
INHERITED_COLUMNS = (
    *("title", "model", "version", "cwd", "branch", "ended_at", "plan", "document", "parent_id", "parent_call"),
)


def new_run(pk: UUID, source: Source, format_: Format, name: str) -> Run:
    return Run(
        id=pk,
        project_id=source.project_id,
        namespace=format_.namespace,
        external_id=column_text(name, 300),
        agent=format_.agent,
        source_format=format_.recorded_as or format_.name,
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
    """Later records know more and win. A record that names the run as its own parent is ignored, see settle_parent."""
    origins = {record.origin for record in records}
    is_new = bool(origins) and run.started_at is None
    run.is_reported = "message" not in origins and (run.is_reported or is_new)
    for record in records:
        for column, limit in LIMITS.items():
            if text := getattr(record, column):
                setattr(run, column, column_text(text, limit))
        run.plan = record.plan if record.plan is not None else run.plan
        run.document = record.document if record.document is not None else run.document
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


def settle_parent(
    run: Run, name: str, known: UUID | None, records: Sequence[RunRecord], others: Iterable[Run]
) -> list[RemarkRecord]:
    """Goes back to the `known` parent where the new one descends from the run; remarks on parents that are left out.

    `others` are runs that are not written yet.
    """
    reasons = {name: "left out: a run is not its own parent"}
    if run.parent_id != known and _is_own_ancestor(run, {other.pk: other.parent_id for other in others}):
        run.parent_id = known
        descends = "left out: that run descends from this one"
        reasons |= {record.parent_run: descends for record in records if record.parent_run not in (None, name)}
    return [
        remark("value", "parent_run", parent.encode("utf-8", "surrogatepass"), reasons[parent], line=place, run=name)
        for place, parent in ((record.line, record.parent_run) for record in records)
        if parent in reasons
    ]


def _is_own_ancestor(run: Run, parents: Mapping[UUID, UUID | None]) -> bool:
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

    Only call ids that are global tell that two runs are the same (D-4); without them two
    runs stay. `names` maps each alias to the run's own name; `stored` has the runs that were stored under an alias.
    """

    def __init__(self, format_: Format, project: int, records: Sequence[Record]) -> None:
        self._format = format_
        self._project = project
        self.names = self._names_in(records)
        self.names |= self._stored_names({record.run for record in records} - self.names.keys())
        aliases = {run_id(project, format_.namespace, alias): alias for alias in self.names}
        runs = Run.objects.select_for_update().in_bulk(list(aliases)) if aliases else {}
        self.stored = {aliases[key]: run for key, run in runs.items()}

    def _names_in(self, records: Sequence[Record]) -> dict[str, str]:
        names: dict[str, str] = {}
        for record in records:
            match record:
                case ResultRecord(call=call, child_run=str(run)) | RunRecord(run=run, parent_call=str(call)):
                    alias = self._format.run_alias(run, call)
                    if alias and alias != run:
                        names[alias] = run
        return names

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
        """One source's records with every run under its own name, after one for each that takes over stored rows."""
        if not self.names:
            return records
        own = {*self._names_in(records), *(record.run for record in records)} if self.stored else set()
        taking_over: list[Record] = [RunRecord(line=0, run=self.names[alias]) for alias in self.stored if alias in own]
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
    ReceiptSupersession.objects.filter(run=stored).update(run=run)
    Call.objects.filter(run=stored).update(run=run)
    Call.objects.filter(child_run=stored.pk).update(child_run=run.pk)
    Run.objects.filter(parent=stored).update(parent=run)
    Message.objects.filter(run=stored).update(run=run)
    Event.objects.filter(run=stored).update(run=run)
    RequestUsage.objects.filter(run=stored, request__in=run.requests.values("request")).delete()
    RequestUsage.objects.filter(run=stored).update(run=run)
    move_annotations(stored, run)
    for source in Source.objects.filter(runs=stored):
        Source.runs.through._default_manager.get_or_create(source_id=source.pk, run_id=run.pk)


def list_calls(
    drafts: Drafts, rows: Mapping[UUID, CallRows], run_id: Callable[[str], UUID], source: int
) -> list[RunCall]:
    """Lists each call in the runs that have its record; returns the entries that are new.

    A call known only from its result is listed in that result's run, at its line, until its own record is imported.
    """
    listed = [
        rows[key].list_in(run_id(run), _claim(record), record, source) for (run, key), record in drafts.members.items()
    ]
    listed += [
        row.list_in(row.call.run_id, RunCall.Claim.ANSWER, answer, source)
        for key, row in rows.items()
        if _may_stand_for_its_call(row) and (answer := drafts.calls[key].first_answer)
    ]
    return [member for member in listed if member is not None]


def _may_stand_for_its_call(row: CallRows) -> bool:
    """True where an answer to the call may be its entry in its run: it has none there, or one that is an answer too."""
    member = row.members.get(row.call.run_id)
    return not row.members if member is None else member.claim == RunCall.Claim.ANSWER


def _claim(record: CallRecord) -> int:
    if record.inherited:
        return RunCall.Claim.COPIED
    if record.names_other:
        return RunCall.Claim.OTHER
    return RunCall.Claim.PROGRESS if record.origin == "progress" else RunCall.Claim.OWN


def settle_owners(rows: Iterable[CallRows], runs: Iterable[Run]) -> None:
    """Decides whose each call is, the same in whichever order the recordings are imported."""
    by_id = {run.id: run for run in runs}
    shared = []
    for row in rows:
        if len(row.members) > 1:
            shared.append(row)
        else:
            row.set_owner(*row.members)
    unknown = {run for row in shared for run in row.members} - by_id.keys()
    by_id |= Run.objects.defer("plan", "document").in_bulk(list(unknown)) if unknown else {}
    rivals: set[UUID] = set()
    for row in shared:
        row.set_owner(choose_owner(row.members.values(), by_id))
        own = [run for run, member in row.members.items() if member.claim == RunCall.Claim.OWN]
        rivals.update(run for run in own if len(own) > 1)
    for run in rivals:
        by_id[run].has_rivals = True
    if rivals & unknown:
        Run.objects.filter(pk__in=rivals & unknown).update(has_rivals=True)


def choose_owner(members: Iterable[RunCall], runs: Mapping[UUID, Run]) -> UUID:
    """The run with the best claim; of equals the one that ended first.

    Older releases copied history under the new session's id. The session that was resumed had ended by then.
    """

    def rank(member: RunCall) -> tuple[int, datetime, str]:
        run = runs[member.run_id]
        return member.claim, run.last_at or LAST, run.external_id

    owner: UUID = min(members, key=rank).run_id
    return owner


def find_disputed(runs: Iterable[Run], but: Collection[UUID]) -> list[UUID]:
    """The calls that now belong to another run, because one of those that claim them has grown."""
    grown = {run.pk: run for run in runs if run.has_rivals}
    if not grown:
        return []
    claims = RunCall.objects.filter(run__in=grown, claim=RunCall.Claim.OWN).exclude(call__in=but)
    members: dict[UUID, list[RunCall]] = defaultdict(list)
    owners: dict[UUID, UUID] = {}
    for member in RunCall.objects.filter(call__in=claims.values("call")).select_related("call"):
        members[member.call_id].append(member)
        owners[member.call_id] = member.call.run_id
    rivals = {member.run_id for listed in members.values() for member in listed}
    by_id = Run.objects.defer("plan", "document").in_bulk(list(rivals)) | grown
    return [call for call, listed in members.items() if choose_owner(listed, by_id) != owners[call]]


def write_members(rows: Mapping[UUID, CallRows], new: Sequence[RunCall]) -> set[UUID]:
    """Stores the lists of calls, and removes what stood for a call whose own record is known by now.

    Returns the runs that lost a call, whose counts have to follow.
    """
    is_answer = [member.claim == RunCall.Claim.ANSWER and bool(rows[member.call_id].call.tool) for member in new]
    bulk_insert(RunCall, [member for member, drops in zip(new, is_answer, strict=True) if not drops], ignore_known=True)
    bulk_update([member for row in rows.values() for member in row.changed_members])
    known = [key for key, row in rows.items() if row.call.tool and not row.is_new]
    placeholders = RunCall.objects.filter(call__in=known, claim=RunCall.Claim.ANSWER) if known else None
    if placeholders is None:
        return set()
    runs = set(placeholders.values_list("run_id", flat=True))
    if runs:
        placeholders.delete()
    return runs


def write_usage(usages: Iterable[tuple[Sequence[UsageRecord], SliceLocator]], runs: Mapping[str, Run]) -> None:
    """Stores each request of a run once, however many lines and files report it; `usages` are those of each file.

    What an agent's own file reports replaces what its parent's file did: lines can be compared within one file only.
    """
    drafts: list[tuple[UUID, list[UsageRecord], SliceLocator]] = []
    for records, locator in usages:
        by_key: dict[UUID, list[UsageRecord]] = defaultdict(list)
        for usage in records:
            run = runs[usage.run].pk
            by_key[derive_id("request", run.bytes, usage.request, beside=run)].append(usage)
        drafts += [(key, of_request, locator) for key, of_request in by_key.items()]
    if not drafts:
        return
    rows = RequestUsage.objects.in_bulk([key for key, _, _ in drafts])
    stored, changed = set(rows), set()
    for key, of_request, locator in drafts:
        origin = "message" if any(record.origin == "message" for record in of_request) else "progress"
        of_request = [record for record in of_request if record.origin == origin]
        columns = _usage_columns(of_request, origin, locator)
        known = rows.get(key)
        if known is None:
            rows[key] = unsaved_row(RequestUsage, id=key, run_id=runs[of_request[0].run].pk, **columns)
            continue
        changes = _usage_changes(known, columns)
        vars(known).update(changes)
        if changes:
            changed.add(key)
    bulk_insert(RequestUsage, [row for key, row in rows.items() if key not in stored])
    bulk_update([rows[key] for key in changed & stored])


def _usage_changes(known: RequestUsage, columns: dict[str, Any]) -> dict[str, Any]:
    """The agent's own report replaces a parent's; a later line has the whole output, and the provider's edits."""
    if known.origin != columns["origin"]:
        return columns if columns["origin"] == "message" else {}
    changes: dict[str, Any] = {}
    if columns["output_tokens"] > known.output_tokens:
        changes |= {name: columns[name] for name in USAGE_COUNTS}
    if known.edits is None and columns["edits"] is not None:
        changes |= {"edits": columns["edits"], "cleared_tokens": columns["cleared_tokens"]}
    return changes


def _usage_columns(records: Sequence[UsageRecord], origin: str, locator: SliceLocator) -> dict[str, Any]:
    """The columns of a request: of its first line, with the counts of that with the most output and any edits."""
    first = records[0]
    whole = max(records, key=lambda record: record.output_tokens)
    edited = next((record for record in records if record.edits is not None), first)
    return {
        "request": column_text(first.request, 200),
        "line": first.place,
        "at": column_time(first.at),
        "origin": origin,
        **{name: getattr(whole, name) for name in USAGE_COUNTS},
        "edits": edited.edits,
        "cleared_tokens": edited.cleared_tokens,
        **locator.columns(first.usage, first.line),
    }
