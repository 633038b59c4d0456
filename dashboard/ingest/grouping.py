"""The records of one batch, gathered by call: what becomes rows, before anything is written.

Order is free: a result may come before its call, and either may already be stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from dashboard.models import identity
from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    EventRecord,
    Format,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
)

OfCall: TypeAlias = CallRecord | ResultRecord | ReceiptRecord | SupersedeRecord | ArtifactRecord


@dataclass
class CallDraft:
    """What a batch says about one call. `owner` is the run that it was met in first."""

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
    def answered_line(self) -> int:
        """Where it stands while nothing else tells."""
        told: list[ResultRecord | ReceiptRecord | SupersedeRecord]
        told = [*self.results, *self.receipts, *self.superseded]
        return min((one.line for one in told), default=0)

    @property
    def is_of_nobody(self) -> bool:
        """It was only said that its receipt went: a recording that does not hold the call says nothing of it."""
        told = self.calls or self.results or self.receipts or self.artifacts
        return not told and all(one.content is None for one in self.superseded)


@dataclass
class Drafts:
    runs: dict[str, list[RunRecord]] = field(default_factory=dict)
    calls: dict[UUID, CallDraft] = field(default_factory=dict)
    members: dict[tuple[str, UUID], CallRecord] = field(default_factory=dict)
    messages: list[MessageRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    stamps: dict[str, list[str]] = field(default_factory=dict)


class Gatherer:
    """Sorts records into drafts; one instance a batch."""

    def __init__(self, project: int, format_: Format) -> None:
        self._project = project
        self._format = format_
        self._ids: dict[tuple[str, str], UUID] = {}
        self.drafts = Drafts()

    def add(self, record: Record) -> None:
        self.drafts.runs.setdefault(record.run, [])
        match record:
            case RunRecord():
                self.drafts.runs[record.run].append(record)
                self._stamp(record.run, record.started_at)
                self._stamp(record.run, record.ended_at)
            case MessageRecord():
                self.drafts.messages.append(record)
                self._stamp(record.run, record.at)
            case EventRecord():
                self.drafts.events.append(record)
                self._stamp(record.run, record.at)
            case _:
                self._add_to_call(record)

    def _add_to_call(self, record: OfCall) -> None:
        draft = self._draft(record)
        match record:
            case CallRecord():
                draft.calls.append(record)
                draft.call = _better(draft.call, record)
                self.drafts.members.setdefault((record.run, draft.id), record)
            case ResultRecord():
                draft.results.append(record)
            case ReceiptRecord():
                draft.receipts.append(record)
            case SupersedeRecord():
                draft.superseded.append(record)
            case ArtifactRecord():
                draft.artifacts.append(record)
        if not isinstance(record, ArtifactRecord):
            self._stamp(record.run, record.at)

    def _draft(self, record: OfCall) -> CallDraft:
        key = self.call_id(record.owner or record.run, record.call)
        return self.drafts.calls.setdefault(key, CallDraft(key, record.call, record.run))

    def _stamp(self, run: str, at: str | None) -> None:
        if at is not None:
            self.drafts.stamps.setdefault(run, []).append(at)

    def call_id(self, run: str, call: str) -> UUID:
        key = (run, call)
        if key not in self._ids:
            joins = self._format.is_global_call_id(call)
            self._ids[key] = identity.call_id(self._project, self._format.namespace, run, call, joins=joins)
        return self._ids[key]


def _better(known: CallRecord | None, new: CallRecord) -> CallRecord:
    """The call's own message line beats a parent's progress line, and the first of equals stays."""
    if known is None or (known.origin == "progress" and new.origin == "message"):
        return new
    return known
