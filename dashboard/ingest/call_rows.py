"""The rows of a call while batches are merged with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dashboard.ingest.bulk import unsaved_row
from dashboard.models import Call, Observation, ReceiptSupersession, RecordedReceipt, RunCall
from envelopes.recordings.base import PlacedRecord


@dataclass(slots=True)
class CallRows:
    """All rows of a call. `new_*` are those that the batches add, `changed_*` the stored ones that they alter.

    `stored` are the columns of a stored call, to find out whether it has others now.
    """

    call: Call
    is_new: bool
    observations: list[Observation]
    receipts: list[RecordedReceipt]
    supersessions: list[ReceiptSupersession] = field(default_factory=list)
    members: dict[UUID, RunCall] = field(default_factory=dict)  # its entries in runs, by run
    has_new_owner: bool = False
    new_observations: list[Observation] = field(default_factory=list)
    new_receipts: list[RecordedReceipt] = field(default_factory=list)
    changed_observations: list[Observation] = field(default_factory=list)
    changed_receipts: list[RecordedReceipt] = field(default_factory=list)
    new_supersessions: list[ReceiptSupersession] = field(default_factory=list)
    changed_members: list[RunCall] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)
    has_new_member: bool = False

    @property
    def is_changed(self) -> bool:
        """False where the batches repeat what is stored, as each version of a document repeats the one before it."""
        return bool(
            self.has_new_member
            or self.new_observations
            or self.new_receipts
            or self.changed_observations
            or self.changed_receipts
            or self.new_supersessions
            or self.changed_members
            or vars(self.call) != self.stored
        )

    def set_columns(self, receipt: RecordedReceipt, columns: dict[str, Any]) -> None:
        if any(getattr(receipt, name) != value for name, value in columns.items()):
            vars(receipt).update(columns)
            if receipt not in self.new_receipts and receipt not in self.changed_receipts:
                self.changed_receipts.append(receipt)

    def set_observation(self, observation: Observation, **columns: Any) -> None:
        if any(vars(observation).get(name) != value for name, value in columns.items()):
            vars(observation).update(columns)
            if observation not in self.new_observations + self.changed_observations:
                self.changed_observations.append(observation)

    def list_in(self, run: UUID, claim: int, record: PlacedRecord, source: int) -> RunCall | None:
        """Lists the call in a run, returns a new entry; an entry with a better claim replaces the stored one.

        `record` is the call's own, an answer to it, or its file. Of records that have a position the earliest counts.
        """
        member = known = self.members.get(run)
        is_earlier = member is not None and record.is_before(member.ordinal)
        if member is None:
            member = self.members[run] = unsaved_row(RunCall, run_id=run, call_id=self.call.id)
            self.has_new_member = True
        elif claim > member.claim or (claim == member.claim and member.source_id and not is_earlier):
            return None
        else:
            self._note_change(member)
        member.claim, member.ordinal, member.source_id = claim, record.place, source
        return member if known is None else None

    def set_owner(self, owner: UUID) -> None:
        """The call is at its line in the owner's recording, and inherited wherever else it is listed."""
        self.has_new_owner = self.call.run_id != owner
        self.call.run_id = owner
        self.call.line, self.call.source_id = self.members[owner].ordinal, self.members[owner].source_id
        for run, member in self.members.items():
            inherited = run != owner or member.claim == RunCall.Claim.COPIED
            if member.inherited != inherited:
                member.inherited = inherited
                self._note_change(member)

    def is_home(self, run: UUID, source: int) -> bool:
        """True for the recording in which the run has the call at its own line."""
        return run in self.members and self.members[run].source_id == source

    def _note_change(self, member: RunCall) -> None:
        if not member._state.adding and member not in self.changed_members:
            self.changed_members.append(member)

    def surface(self, name: str) -> list[Observation]:
        return [row for row in self.observations if row.surface == name]
