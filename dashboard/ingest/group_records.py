"""Groups the records of a batch by call and run, before any row is written.

Records may come in any order: a result may precede its call, and either may already be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias
from uuid import UUID

from dashboard.models.identity import call_id
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    Format,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
    UsageRecord,
)

CallScoped: TypeAlias = CallRecord | ResultRecord | ReceiptRecord | SupersedeRecord | ArtifactRecord


@dataclass(slots=True)
class CallDraft:
    """A batch's records of one call. `owner` is the run of the first of them, `call` the best call record."""

    id: UUID
    external_id: str
    owner: str
    call: CallRecord | None = None
    calls: list[CallRecord] = field(default_factory=list)
    results: list[ResultRecord] = field(default_factory=list)
    receipts: list[ReceiptRecord] = field(default_factory=list)
    superseded: list[SupersedeRecord] = field(default_factory=list)
    artifacts: list[ArtifactRecord] = field(default_factory=list)

    @property
    def first_answer(self) -> ResultRecord | ReceiptRecord | SupersedeRecord | ArtifactRecord | None:
        """The answer, or else the file, at whose place the call is listed until its own record is imported.

        A file that was sent counts as an answer does, so that the order of arrival makes no difference.
        """
        answers: list[ResultRecord | ReceiptRecord | SupersedeRecord | ArtifactRecord]
        answers = [*self.results, *self.receipts, *self.superseded]
        answers += [artifact for artifact in self.artifacts if artifact.position is not None]
        return min(answers or self.artifacts, key=attrgetter("place"), default=None)

    @property
    def is_orphan(self) -> bool:
        """True when the batch reports only that a receipt was removed; the call may be in a file imported later."""
        has_records = self.calls or self.results or self.receipts or self.artifacts
        return not has_records and all(record.content is None for record in self.superseded)


@dataclass(slots=True)
class Drafts:
    """All records of a batch: of runs by run, of calls by call id; `stamps` are the times of each run's records."""

    runs: dict[str, list[RunRecord]] = field(default_factory=dict)
    calls: dict[UUID, CallDraft] = field(default_factory=dict)
    members: dict[tuple[str, UUID], CallRecord] = field(default_factory=dict)
    messages: list[MessageRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    usages: list[UsageRecord] = field(default_factory=list)
    remarks: list[RemarkRecord] = field(default_factory=list)
    stamps: dict[str, list[str]] = field(default_factory=dict)


class RecordGrouper:
    """Sorts the records of one batch into `drafts`. `ids` are those of calls that batches of the format share."""

    def __init__(self, project: int, format_: Format, ids: dict[tuple[str, str], UUID]) -> None:
        self._project = project
        self._format = format_
        self._ids = ids
        self.drafts = Drafts()

    def add(self, record: Record) -> None:
        self.drafts.runs.setdefault(record.run, [])
        match record:
            case RunRecord():
                self.drafts.runs[record.run].append(record)
                self._add_stamp(record.run, record.started_at)
                self._add_stamp(record.run, record.ended_at)
                self._add_stamp(record.run, record.last_at)
            case MessageRecord():
                self.drafts.messages.append(record)
                self._add_stamp(record.run, record.at)
            case EventRecord():
                self.drafts.events.append(record)
                self._add_stamp(record.run, record.at)
            case UsageRecord():
                self.drafts.usages.append(record)
            case RemarkRecord():
                self.drafts.remarks.append(record)
            case _:
                self._add_to_call(record)

    def _add_to_call(self, record: CallScoped) -> None:
        key = self.call_id(record.owner or record.run, record.call)
        draft = self.drafts.calls.get(key)
        if draft is None:
            draft = self.drafts.calls[key] = CallDraft(key, record.call, record.run)
        match record:
            case CallRecord():
                draft.calls.append(record)
                # The call's own message beats a parent's progress line; of equals the first stays.
                if draft.call is None or (draft.call.origin == "progress" and record.origin == "message"):
                    draft.call = record
                member = self.drafts.members.setdefault((record.run, draft.id), record)
                if record.is_before(member.place):
                    self.drafts.members[record.run, draft.id] = record
            case ResultRecord():
                draft.results.append(record)
            case ReceiptRecord():
                draft.receipts.append(record)
            case SupersedeRecord():
                draft.superseded.append(record)
            case ArtifactRecord():
                draft.artifacts.append(record)
        if not isinstance(record, ArtifactRecord):
            self._add_stamp(record.run, record.at)

    def _add_stamp(self, run: str, at: str | None) -> None:
        if at is not None:
            self.drafts.stamps.setdefault(run, []).append(at)

    def call_id(self, run: str, call: str) -> UUID:
        key = (run, call)
        if key not in self._ids:
            joins = self._format.is_global_call_id(call)
            self._ids[key] = call_id(self._project, self._format.namespace, run, call, joins=joins)
        return self._ids[key]
