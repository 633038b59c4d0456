"""One call's draft meets what is stored of it: new observations, receipts, and which one is selected."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from dashboard.ingest.bulk import fresh
from dashboard.ingest.fingerprints import stated_fingerprint
from dashboard.ingest.grouping import CallDraft
from dashboard.models import Call, Observation, Receipt, ReceiptFingerprint, Source, identity
from dashboard.text.column_values import column_int, column_text, column_time, milliseconds_between
from envelopes.recordings.base import CallRecord, ReceiptRecord, ResultRecord, SupersedeRecord
from envelopes.text.untrusted_json import Untrusted, join_object, parse_checked

# The documented rank of a surface's observations: the better fidelity is selected, then the first.
RANK = {
    name: rank
    for rank, name in enumerate(
        (
            "exact",
            "structured",
            "recorded",
            "bounded",
            "reconstructed",
            "stringified",
            "parsed_from_receipt",
            "inflated",
        )
    )
}


@dataclass
class CallRows:
    """A call with everything known of it; `new_*` is what this batch adds, `changed` what it alters."""

    call: Call
    is_new: bool
    observations: list[Observation]
    receipts: list[Receipt]
    was_answer_alone: bool = False  # stored without a line of its own
    is_copy: bool = False  # its run only copied it: a fork was met before the session that it came from
    new_observations: list[Observation] = field(default_factory=list)
    new_receipts: list[Receipt] = field(default_factory=list)
    changed_observations: list[Observation] = field(default_factory=list)
    changed_receipts: list[Receipt] = field(default_factory=list)
    fingerprints: list[ReceiptFingerprint] = field(default_factory=list)

    @property
    def selected(self) -> dict[str, Observation]:
        """One observation per surface; of receipts the one that stands now."""
        found = {one.surface: one for one in self.observations if one.selected and one.surface != "receipt"}
        standing = [one for one in self.receipts if one.superseded_at is None and one.superseded_line is None]
        shown = (standing or self.receipts)[-1:]
        for receipt in shown:
            held = next((one for one in self.observations if one.pk == receipt.observation_id), None)
            if held is not None:
                found["receipt"] = held
        return found

    def surface(self, name: str) -> list[Observation]:
        return [one for one in self.observations if one.surface == name]


def new_call(draft: CallDraft, *, project: int, namespace: str, run: UUID) -> Call:
    """A call as its first record says; the tool is empty while only its answer has been met."""
    return fresh(
        Call,
        id=draft.id,
        project_id=project,
        namespace=namespace,
        external_id=column_text(draft.external_id, 300),
        run_id=run,
        tool="",
        family="external",
        origin="answer",
        line=draft.answered_line,
    )


class CallMerge:
    """Puts one draft on top of the stored rows of its call."""

    def __init__(self, rows: CallRows, source: Source) -> None:
        self.rows = rows
        self.call = rows.call
        self.source = source

    def apply(self, draft: CallDraft, run_ids: dict[str, UUID]) -> None:
        for asked in draft.calls:
            self._observe("args", asked.args, "structured", asked.line, asked.at)
        if draft.call is not None:
            self._take_call(draft.call, run_ids[draft.call.run])
        for result in draft.results:
            self._take_result(result, run_ids)
        for receipt in draft.receipts:
            self._take_receipt(receipt)
        for superseded in draft.superseded:
            self._supersede(superseded)
        self._settle_selection()

    def _take_call(self, record: CallRecord, run: UUID) -> None:
        self.call.started_at = self.call.started_at or column_time(record.at)
        self._measure()
        if self.call.tool and not self._is_nearer(record):
            return
        self.call.tool = column_text(record.tool, 200)
        self.call.step = column_text(record.step, 200)
        self.call.attempt = max(1, min(record.attempt, 2**31 - 1))
        self.call.origin = record.origin
        self.call.line = record.line
        self.call.source_id = self.source.pk
        self.call.run_id = run

    def _is_nearer(self, record: CallRecord) -> bool:
        """Whether the record is closer to the call than what is stored: its own message, its own session."""
        if self.call.origin == "progress" and record.origin == "message":
            return True
        return self.rows.is_copy and not record.inherited

    def _take_result(self, record: ResultRecord, run_ids: dict[str, UUID]) -> None:
        if record.result is not None:
            self._observe("result", record.result, record.fidelity, record.line, record.at)
        elif record.error is not None:
            self._observe("result", record.error, "structured", record.line, record.at)
        self._keep_rest(record)
        if record.is_error is not None:
            self.call.source_error = record.is_error
        self.call.started_at = column_time(record.started_at) or self.call.started_at
        self.call.ended_at = self.call.ended_at or column_time(record.at)
        if record.duration_ms is not None and record.duration_ms >= 0:
            self.call.tool_ms = column_int(record.duration_ms)
        if record.child_run is not None:
            self.call.child_run = run_ids.get(record.child_run) or self.call.child_run
        self._measure()

    def _keep_rest(self, record: ResultRecord) -> None:
        """What a source says of a settlement beside result and error: effects, and fields unknown to us."""
        rest = {"status": record.status and msgspec.json.encode(record.status), "effects": record.effects}
        said = {name: raw for name, raw in {**rest, "extra": record.extra}.items() if raw}
        if record.effects or record.extra:
            self._observe("timing", join_object(said), "structured", record.line, record.at)

    def _take_receipt(self, record: ReceiptRecord) -> None:
        self.call.ended_at = self.call.ended_at or column_time(record.at)
        self._measure()
        if record.fidelity == "absent":
            return
        observation, is_new = self._observe("receipt", record.content, record.fidelity, record.line, record.at)
        if is_new and not self.rows.receipts:
            self._add_receipt(observation, record.line, record.at)
            sent = stated_fingerprint(self.call.project_id, self.rows.receipts[-1], record) if record.extra else None
            self.rows.fingerprints += [sent] if sent else []

    def _supersede(self, record: SupersedeRecord) -> None:
        for receipt in self.rows.receipts:
            if receipt.superseded_line is None and receipt.line < record.line:
                receipt.superseded_at = column_time(record.at)
                receipt.superseded_line = record.line
                receipt.superseded_reason = column_text(record.reason, 200)
                if receipt not in self.rows.new_receipts:
                    self.rows.changed_receipts.append(receipt)
                self.call.is_superseded = True
        if record.content is not None:
            observation, is_new = self._observe("receipt", record.content, "recorded", record.line, record.at)
            if is_new:
                self._add_receipt(observation, record.line, record.at)

    def _observe(self, surface: str, data: bytes, fidelity: str, line: int, at: str | None) -> tuple[Observation, bool]:
        sha256 = hashlib.sha256(data).hexdigest()
        key = identity.observation_id(self.call.pk, surface, sha256)
        known = next((one for one in self.rows.observations if one.pk == key), None)
        if known is not None:
            return known, False
        observation = fresh(
            Observation,
            id=key,
            call_id=self.call.pk,
            surface=surface,
            source_id=self.source.pk,
            line=line,
            data=data,
            sha256=sha256,
            size=len(data),
            fidelity=fidelity,
            observed_at=column_time(at),
            selected=True,
        )
        self.rows.observations.append(observation)
        self.rows.new_observations.append(observation)
        return observation, True

    def _add_receipt(self, observation: Observation, line: int, at: str | None) -> None:
        seq = len(self.rows.receipts) + 1
        receipt = fresh(
            Receipt,
            id=identity.derived("receipt", self.call.pk.bytes, observation.sha256, seq),
            call_id=self.call.pk,
            seq=seq,
            observation_id=observation.pk,
            fidelity=observation.fidelity,
            at=column_time(at),
            line=line,
        )
        self.rows.receipts.append(receipt)
        self.rows.new_receipts.append(receipt)

    def _settle_selection(self) -> None:
        """Surfaces that several observations speak of: one is selected, and the call says they differ."""
        for surface in ("args", "result"):
            found = self.rows.surface(surface)
            best = min(found, key=lambda one: RANK.get(one.fidelity, 99), default=None)
            for one in found:
                self._select(one, is_selected=one is best)
        spoken = [self.rows.surface("args"), self.rows.surface("result"), self._first_receipts()]
        self.call.is_disagreeing = any(_differ(found) for found in spoken)

    def _first_receipts(self) -> list[Observation]:
        """Receipt observations that no later replacement explains."""
        replaced = {one.observation_id for one in self.rows.receipts if one.seq > 1}
        return [one for one in self.rows.surface("receipt") if one.pk not in replaced]

    def _select(self, observation: Observation, *, is_selected: bool) -> None:
        if observation.selected == is_selected:
            return
        observation.selected = is_selected
        if observation not in self.rows.new_observations:
            self.rows.changed_observations.append(observation)

    def _measure(self) -> None:
        self.call.duration_ms = milliseconds_between(self.call.started_at, self.call.ended_at)


def _differ(found: list[Observation]) -> bool:
    """Whether they say different things; the same JSON in other spacing is another observation and no dispute."""
    return len(found) > 1 and len({_said(bytes(one.data)) for one in found}) > 1


def _said(data: bytes) -> str | bytes:
    try:
        return json.dumps(parse_checked(data), sort_keys=True)
    except Untrusted:
        return data
