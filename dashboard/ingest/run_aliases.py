"""One run under two names: a source that knows only the call that started it, and one that names it.

Called by `recording` within its transaction, and by nothing else. Only call ids that join across files
can tell (design.md section 1, Identity); where they cannot, two runs stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from dashboard.models import Call, Event, Message, Run, RunCall, Source, identity
from envelopes.recordings.base import Format, Record, ResultRecord, RunRecord

_TAKEN_OVER = ("title", "model", "version", "cwd", "branch", "ended_at", "plan", "parent_id", "parent_call")


class StandIns:
    """`names` has the own name of each run that some source knew by its call; `stored` those with rows."""

    def __init__(self, format_: Format, project: int, records: Sequence[Record]) -> None:
        self._format = format_
        self._project = project
        self.names = dict(self._told(records))
        self.names |= self._known({one.run for one in records} - self.names.keys())
        wanted = {identity.run_id(project, format_.namespace, name): name for name in self.names}
        found = Run.objects.select_for_update().in_bulk(list(wanted)) if wanted else {}
        self.stored = {wanted[key]: run for key, run in found.items()}

    def settled(self, records: Sequence[Record]) -> Sequence[Record]:
        """`records` with every run under its own name, and each run that takes over rows among them."""
        if not self.names:
            return records
        taking = [RunRecord(line=0, run=self.names[name]) for name in self.stored]
        return [*taking, *map(self._renamed, records)]

    def fold(self, runs: Mapping[str, Run]) -> set[UUID]:
        """Moves what is stored under a stand-in to the run that it is; the ids of those, whose counts have to follow.

        Messages keep ids of the stand-in: where the run's own file says them too, they are there twice.
        """
        for name, old in self.stored.items():
            run = runs[self.names[name]]
            _take_over(run, old)
            for one in runs.values():
                one.parent_id = run.pk if one.parent_id == old.pk else one.parent_id
            _move_rows(old, run)
            old.delete()
        return {runs[self.names[name]].pk for name in self.stored}

    def _told(self, records: Sequence[Record]) -> Iterator[tuple[str, str]]:
        for one in records:
            match one:
                case ResultRecord(call=call, child_run=str(run)) | RunRecord(run=run, parent_call=str(call)):
                    name = self._format.run_alias(run, call)
                    if name and name != run:
                        yield name, run

    def _known(self, names: set[str]) -> dict[str, str]:
        """Of `names`, those whose call is stored with the run that it started."""
        space = self._format.namespace
        calls = {
            identity.call_id(self._project, space, name, call, joins=True): name
            for name in names
            if (call := self._format.spawning_call(name))
        }
        if not calls:
            return {}
        started = dict(Call.objects.filter(pk__in=list(calls)).values_list("pk", "child_run"))
        own = dict(Run.objects.filter(pk__in=set(started.values())).values_list("pk", "external_id"))
        found = {calls[call]: own[run] for call, run in started.items() if run in own}
        return {name: run for name, run in found.items() if name != run}

    def _renamed(self, record: Record) -> Record:
        said = {name: getattr(record, name, None) for name in ("run", "parent_run", "child_run")}
        changed = {name: self.names[run] for name, run in said.items() if run in self.names}
        return msgspec.structs.replace(record, **changed) if changed else record


def _take_over(run: Run, old: Run) -> None:
    for column in _TAKEN_OVER:
        if not getattr(run, column) and getattr(old, column) != run.pk:
            setattr(run, column, getattr(old, column))
    stamps = [at for one in (run, old) for at in (one.started_at, one.last_at) if at is not None]
    if stamps:
        run.started_at = run.sort_at = min(stamps)
        run.last_at = max(stamps)


def _move_rows(old: Run, run: Run) -> None:
    held = RunCall.objects.filter(run=run).values("call")
    own = list(RunCall.objects.filter(run=old, inherited=False).values_list("call_id", flat=True))
    RunCall.objects.filter(run=old, call__in=held).delete()
    RunCall.objects.filter(run=old).update(run=run)
    RunCall.objects.filter(run=run, call__in=own).update(inherited=False)
    Call.objects.filter(run=old).update(run=run)
    Call.objects.filter(child_run=old.pk).update(child_run=run.pk)
    Run.objects.filter(parent=old).update(parent=run)
    Message.objects.filter(run=old).update(run=run)
    Event.objects.filter(run=old).update(run=run)
    for source in Source.objects.filter(runs=old):
        Source.runs.through._default_manager.get_or_create(source_id=source.pk, run_id=run.pk)
