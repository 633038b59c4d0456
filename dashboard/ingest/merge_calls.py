"""Merges what a batch reports of a call with its stored rows: observations, receipts, and which one is selected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from dashboard.ingest.bulk import unsaved_row
from dashboard.ingest.call_rows import CallRows
from dashboard.ingest.group_records import CallDraft
from dashboard.ingest.sources import SliceLocator
from dashboard.models import Call, Observation, ReceiptSupersession, RecordedReceipt
from dashboard.models.evidence import FIDELITY_RANK, differ
from dashboard.models.identity import derive_id, observation_id
from dashboard.text.formatting import column_int, column_text, column_time, earlier_time, milliseconds_between
from envelopes.recordings.base import (
    CallRecord,
    ReceiptRecord,
    RemarkKind,
    RemarkRecord,
    ResultRecord,
    SupersedeRecord,
)
from envelopes.recordings.json_lines import remark
from envelopes.text.untrusted_json import join_object

RECORDED_NAMES = {"source_error": "is_error", "tool_ms": "duration_ms"}
FIRST = datetime.min.replace(tzinfo=UTC)


def new_call(draft: CallDraft, *, project: int, namespace: str, run: UUID) -> Call:
    """A call with its ids only: its tool stays empty until a record of the call itself is merged."""
    return unsaved_row(
        Call,
        id=draft.id,
        project_id=project,
        namespace=namespace,
        external_id=column_text(draft.external_id, 300),
        run_id=run,
        tool="",
        family="external",
        origin="answer",
    )


class ResultFlags(NamedTuple):
    """The columns that came with a result; `result` is its observation, None where the record had only these."""

    result: UUID | None
    is_own: bool
    columns: dict[str, Any]
    record: ResultRecord


class CallMerge:
    """Merges one draft into the rows of its call; `remarks` are on values of its records that the columns lack."""

    def __init__(self, rows: CallRows, locator: SliceLocator) -> None:
        self.rows = rows
        self.call = rows.call
        self.locator = locator
        self.remarks: list[RemarkRecord] = []
        self._unordered: set[UUID] = set()  # runs with receipts of which no one is known to be the later

    def apply(self, draft: CallDraft, run_ids: dict[str, UUID]) -> None:
        for call in draft.calls:
            if call.args is not None:
                self._observe("args", call.args, "structured", call.line, call.at, run_ids[call.run])
            if call.document is not None:
                self._observe("call", call.document, "structured", call.line, call.at, run_ids[call.run])
        if draft.call is not None:
            known = self.call.tool
            self._merge_call(draft.call, run_ids[draft.call.run])
            self._merge_placed([record for record in draft.calls if record.position is not None])
            self._note_other_tools(draft.call, draft.calls, known)
        stored_result = self._selected("result")
        flags = [self._merge_result(result, run_ids) for result in draft.results]
        for receipt in draft.receipts:
            self._merge_receipt(receipt, run_ids[receipt.run])
        for superseded in draft.superseded:
            self._supersede(superseded, run_ids[superseded.run])
        if draft.receipts or draft.superseded:
            self._settle_receipts()
        if self._select_observations() or flags:
            self._settle_flags(flags, is_other=stored_result not in (None, self._selected("result")))
        self.call.duration_ms = milliseconds_between(self.call.started_at, self.call.ended_at)

    def _merge_call(self, record: CallRecord, run: UUID) -> None:
        self.call.started_at = earlier_time(self.call.started_at, record.at)
        # A record is nearer than the stored one when it is the call's own message, or in the call's own session.
        is_nearer = (self.call.origin == "progress" and record.origin == "message") or (
            self.rows.has_new_owner and run == self.call.run_id
        )
        if self.call.tool and not is_nearer:
            self.call.step = self.call.step or column_text(record.step, 200)
            return
        self.call.tool = column_text(record.tool, 200)
        self.call.step = column_text(record.step, 200)
        self.call.attempt = record.attempt
        self.call.origin = record.origin

    def _merge_placed(self, records: Sequence[CallRecord]) -> None:
        """Takes beginning, step and attempt of records that were sent in any order: the same ones in each of them."""
        for record in records:
            self.call.started_at = earlier_time(self.call.started_at, record.at)
        steps = [column_text(record.step, 200) for record in records]
        self.call.step = min(filter(None, (self.call.step, *steps)), default="")
        self.call.attempt = max((self.call.attempt, *(record.attempt for record in records)))

    def _note_other_tools(self, best: CallRecord, records: Sequence[CallRecord], known: str) -> None:
        """A call has one tool: that of its own message, else of the first record. `known` is the one before these."""
        tool = self.call.tool
        for record in records:
            if column_text(record.tool, 200) != tool:
                self._remark("tool", record, "tool", record.tool, f"left out: another record of the call has {tool}")
        if known not in ("", tool):
            self._remark("tool", best, "tool", best.tool, f"read in place of {known}, which another record has")

    def _remark(self, kind: RemarkKind, record: CallRecord | ResultRecord, path: str, was: str, became: str) -> None:
        raw, ids = was.encode("utf-8", "surrogatepass"), {"run": record.run, "call": record.call}
        self.remarks.append(remark(kind, path, raw, became, line=record.place, owner=record.owner, **ids))

    def _merge_result(self, record: ResultRecord, run_ids: dict[str, UUID]) -> ResultFlags:
        run, result = run_ids[record.run], None
        if record.result is not None:
            result = self._observe("result", record.result, record.fidelity, record.line, record.at, run)
        elif record.error is not None:
            result = self._observe("result", record.error, "structured", record.line, record.at, run)
        if record.document is not None:
            self._observe("timing", record.document, "structured", record.line, record.at, run)
        elif record.effects or record.extra or record.stated_kind:  # the rest, with fields that are unknown to us
            words = {"status": record.status, "statedKind": record.stated_kind}
            members = {name: msgspec.json.encode(word) if word else None for name, word in words.items()}
            members |= {"effects": record.effects, "extra": record.extra}
            rest = join_object({name: raw for name, raw in members.items() if raw})
            self._observe("timing", rest, "structured", record.line, record.at, run)
        if record.position is None:
            self.call.started_at = column_time(record.started_at) or self.call.started_at
            self.call.ended_at = column_time(record.ended_at) or earlier_time(self.call.ended_at, record.at)
        else:  # sent in any order: the earliest times are the same in each of them
            self.call.started_at = earlier_time(self.call.started_at, record.started_at)
            self.call.ended_at = earlier_time(self.call.ended_at, record.ended_at or record.at)
        child = run_ids.get(record.child_run) if record.child_run else None
        if child is not None and (run == self.call.run_id or self.call.child_run is None):
            self.call.child_run = child
        duration = record.duration_ms if record.duration_ms is not None and record.duration_ms >= 0 else None
        columns = {"source_error": record.is_error, "tool_ms": column_int(duration)}
        return ResultFlags(result.id if result else None, run == self.call.run_id, columns, record)

    def _settle_flags(self, flags: Sequence[ResultFlags], *, is_other: bool) -> None:
        """Takes the flag and the duration of the selected result alone, or of a record without a result.

        `is_other` says that the selected result is not the one that was selected before: its columns went with it.
        What another run recorded says nothing against the call's own.
        """
        if is_other:
            self.call.source_error = self.call.tool_ms = None
        flags = [flag for flag in flags if flag.result in (None, self._selected("result"))]
        for flag in reversed(flags):  # the first record of equal ones decides
            for name, value in flag.columns.items():
                if value is not None and (flag.is_own or getattr(self.call, name) is None):
                    setattr(self.call, name, value)
        for flag in flags:
            for name, value in flag.columns.items():
                if value not in (None, decided := getattr(self.call, name)):
                    became = f"left out: another record of this result has {json.dumps(decided)}"
                    self._remark("value", flag.record, RECORDED_NAMES[name], json.dumps(value), became)

    def _selected(self, surface: str) -> UUID | None:
        return next((row.id for row in self.rows.observations if row.surface == surface and row.selected), None)

    def _merge_receipt(self, record: ReceiptRecord, run: UUID) -> None:
        """The first text that a run's recording has for the call is the receipt; another one is evidence beside it."""
        if not record.is_running:
            self.call.ended_at = earlier_time(self.call.ended_at, record.at)
        if record.fidelity == "absent":
            return
        observation = self._observe("receipt", record.content, record.fidelity, record.line, record.at, run)
        if record.fidelity == "exact":
            self._prove(observation)
        receipts = [receipt for receipt in self.rows.receipts if receipt.run_id == run]
        same = [receipt for receipt in receipts if receipt.observation_id == observation.id]
        if record.is_further:  # two polls may have brought the same text
            if all(receipt.line != record.place for receipt in same):
                self._add_receipt(observation, run, record.place, record.at, record.place)
        elif same:
            self._move_home(same, record)
        elif not (firsts := self._find_firsts(receipts, run)) or record.may_replace:
            receipt = self._add_receipt(observation, run, record.place, record.at)
            if record.document is not None:
                self._observe("delivery", record.document, record.fidelity, record.line, record.at, run)
            for first in firsts:
                self._replace_earlier(receipt, first, record)

    def _find_firsts(self, receipts: Sequence[RecordedReceipt], run: UUID) -> list[RecordedReceipt]:
        """Those that replaced no other. A replacement may be known before its text: they may be in two files."""
        if not receipts:
            return []
        replacements = {row.replacement for row in self.rows.supersessions if row.run_id == run}
        texts = self._receipt_texts()
        return [receipt for receipt in receipts if texts[receipt.observation_id] not in replacements]

    def _receipt_texts(self) -> dict[UUID | None, str]:
        """The SHA-256 of the texts of receipts, by observation."""
        return {row.id: row.sha256 for row in self.rows.observations if row.surface == "receipt"}

    def _replace_earlier(self, receipt: RecordedReceipt, other: RecordedReceipt, record: ReceiptRecord) -> None:
        """Notes that the later of two receipts replaced the other one; where the order is not known, a remark."""
        later = _find_later(receipt, other, is_placed=record.position is not None)
        if later is None:
            self._unordered.add(receipt.run_id)
            ids, line = {"run": record.run, "call": record.call}, min(receipt.line, other.line)
            became = "the order of two receipts is not known: both are shown"
            self.remarks.append(remark("value", "$.at", b"no later time", became, line=line, owner=record.owner, **ids))
            return
        self._add_supersession(_supersession_by(later, self._receipt_texts()[later.observation_id]))

    def _add_supersession(self, supersession: ReceiptSupersession) -> None:
        if all(row.id != supersession.id for row in self.rows.supersessions):
            self.rows.supersessions.append(supersession)
            self.rows.new_supersessions.append(supersession)

    def _prove(self, observation: Observation) -> None:
        """Marks a text as exact that was known from a log alone, now that a request has it too."""
        self.rows.set_observation(observation, fidelity="exact")
        for receipt in self.rows.receipts:
            if receipt.observation_id == observation.id:
                self.rows.set_columns(receipt, {"fidelity": "exact"})

    def _move_home(self, receipts: Iterable[RecordedReceipt], record: ReceiptRecord) -> None:
        """Puts receipts that another file reported first at their line in the run's own file, or at their position."""
        source = self.locator.source.id
        for receipt in receipts:
            if record.is_before(receipt.line) or (
                receipt.source_id != source and self.rows.is_home(receipt.run_id, source)
            ):
                columns = {"line": record.place, "source_id": source, "at": column_time(record.at)}
                self.rows.set_columns(receipt, columns)

    def _supersede(self, record: SupersedeRecord, run: UUID) -> None:
        replacement = ""
        if record.content is not None:
            observation = self._observe("receipt", record.content, "recorded", record.line, record.at, run)
            replacement = observation.sha256
            receipts = [receipt for receipt in self.rows.receipts if receipt.run_id == run]
            if not any(receipt.observation_id == observation.id for receipt in receipts):
                self._add_receipt(observation, run, record.place, record.at)
        self._add_supersession(new_supersession(record, run, self.call.id, self.locator.source.id, replacement))

    def _settle_receipts(self) -> None:
        """Numbers the receipts of each run, and marks those that a supersession of the same run came after.

        What happened in a fork says nothing of its original.
        """
        if not self.rows.supersessions and len(self.rows.receipts) < 2:
            return
        texts = self._receipt_texts()
        for run in {row.run_id for row in self.rows.supersessions} | self._unordered:
            ordered = sorted(
                (row for row in self.rows.supersessions if row.run_id == run),
                key=lambda row: (row.at or FIRST, row.line, row.reason == "", row.pk),
            )
            replacements = {row.replacement for row in ordered}
            receipts = sorted(
                (receipt for receipt in self.rows.receipts if receipt.run_id == run),
                key=lambda row: (
                    texts[row.observation_id] in replacements,
                    row.at or FIRST,
                    row.line,
                    texts[row.observation_id],
                ),
            )
            for seq, receipt in enumerate(receipts, 1):
                text = texts[receipt.observation_id]
                end = next((row for row in ordered if row.replacement != text and _is_before(receipt, row)), None)
                columns = {
                    "seq": seq,
                    "superseded_at": end.at if end else None,
                    "superseded_line": end.line if end else None,
                    "superseded_reason": end.reason if end else "",
                }
                self.rows.set_columns(receipt, columns)
        self.rows.receipts.sort(key=lambda row: (row.run_id, row.seq))

    def _observe(self, surface: str, data: bytes, fidelity: str, line: int, at: str | None, run: UUID) -> Observation:
        """The observation with these bytes. One that a copy reported first moves to the call's own recording."""
        source = self.locator.source.id
        columns = self.locator.columns(data, line)
        sha256 = self.locator.sha256(data, columns["start"])
        same = (row for row in self.rows.observations if row.sha256 == sha256 and row.surface == surface)
        known = next(same, None)
        if known is not None:
            if known.source_id != source and run == self.call.run_id and self.rows.is_home(run, source):
                columns |= {"data": data, "line": line, "observed_at": column_time(at)}
                self.rows.set_observation(known, **columns)
            return known
        observation = unsaved_row(
            Observation,
            id=observation_id(self.call.id, surface, sha256),
            call_id=self.call.id,
            surface=surface,
            line=line,
            sha256=sha256,
            data=data,
            **columns,
            fidelity=fidelity,
            observed_at=column_time(at),
            selected=True,
        )
        self.rows.observations.append(observation)
        self.rows.new_observations.append(observation)
        return observation

    def _add_receipt(
        self, observation: Observation, run: UUID, line: int, at: str | None, *ids: int
    ) -> RecordedReceipt:
        receipt = unsaved_row(
            RecordedReceipt,
            id=derive_id("receipt", run.bytes, self.call.id.bytes, observation.sha256, *ids, beside=self.call.id),
            run_id=run,
            call_id=self.call.id,
            source_id=self.locator.source.id,
            seq=1 + sum(receipt.run_id == run for receipt in self.rows.receipts),
            observation_id=observation.id,
            fidelity=observation.fidelity,
            at=column_time(at),
            line=line,
        )
        self.rows.receipts.append(receipt)
        self.rows.new_receipts.append(receipt)
        return receipt

    def _select_observations(self) -> bool:
        """Selects one observation of each surface, and marks a call whose sources differ; False without a choice."""
        if len({row.surface for row in self.rows.observations if row.selected}) == len(self.rows.observations):
            self.call.is_disagreeing = False
            return False
        for surface, rest in (("args", "call"), ("result", "timing")):
            best = min(self.rows.surface(surface), key=self._rank, default=None)
            self._select(self.rows.surface(surface), [best])
            others = self.rows.surface(rest)  # what else the line of the selected one has is selected with it
            pairs = [row for row in others if best and (row.source_id, row.line) == (best.source_id, best.line)]
            self._select(others, pairs or others)
        # A receipt that replaced an earlier one contradicts nothing, in whichever run.
        replaced = {receipt.observation_id for receipt in self.rows.receipts if receipt.seq > 1}
        receipts = [row for row in self.rows.surface("receipt") if row.pk not in replaced]
        surfaces = (self.rows.surface("args"), self.rows.surface("result"), receipts)
        self.call.is_disagreeing = any(map(differ, surfaces))
        return True

    def _select(self, observations: Sequence[Observation], chosen: Sequence[Observation | None]) -> None:
        for observation in observations:
            self.rows.set_observation(observation, selected=observation in chosen)

    def _rank(self, row: Observation) -> tuple[int, bool, int, str]:
        """The best fidelity first; of equals what the call's own recording has, then the first."""
        is_foreign = not self.rows.is_home(self.call.run_id, row.source_id or 0)
        return FIDELITY_RANK.get(row.fidelity, 99), is_foreign, row.line, row.sha256


def new_supersession(
    record: SupersedeRecord, run: UUID, call: UUID, source: int, replacement: str = ""
) -> ReceiptSupersession:
    row = _supersession_row(run, call, record.place, record.reason, replacement)
    row.source_id, row.at = source, column_time(record.at)
    return row


def _supersession_by(receipt: RecordedReceipt, text: str) -> ReceiptSupersession:
    """The same for a receipt that states no reason for replacing another one; `text` is its SHA-256."""
    row = _supersession_row(receipt.run_id, receipt.call_id, receipt.line, "", text)
    row.source_id, row.at = receipt.source_id, receipt.at
    return row


def _supersession_row(run: UUID, call: UUID, place: int, reason: str, replacement: str) -> ReceiptSupersession:
    return unsaved_row(
        ReceiptSupersession,
        id=derive_id("supersession", run.bytes, call.bytes, place, reason, replacement),
        run_id=run,
        call=call,
        line=place,
        reason=column_text(reason, 200),
        replacement=replacement,
    )


def _find_later(receipt: RecordedReceipt, other: RecordedReceipt, *, is_placed: bool) -> RecordedReceipt | None:
    """The later of two receipts, None where that is not known. `is_placed`: their lines are places in the run."""
    is_one_file = not is_placed and receipt.source_id == other.source_id
    if receipt.at != other.at and not is_one_file:
        times = [row.at for row in (receipt, other) if row.at is not None]
        return next((row for row in (receipt, other) if row.at == max(times)), None) if len(times) == 2 else None
    if receipt.line != other.line and (is_placed or is_one_file):
        return max(receipt, other, key=attrgetter("line"))
    return None


def _is_before(receipt: RecordedReceipt, supersession: ReceiptSupersession) -> bool:
    """Compares lines within one file only, and times between two files of the run."""
    if receipt.source_id is not None and receipt.source_id == supersession.source_id:
        return receipt.line < supersession.line
    return receipt.at is None or supersession.at is None or receipt.at <= supersession.at
