"""The objects of a run's calls as an export has them: calls, results and receipts, each a line.

Members that the store has are written over those of the object that an earlier export wrote, so that what only that one
knew (the name of a child run that was never imported) is written again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import F

from dashboard.evidence.call_evidence import CallEvidence, build_evidence
from dashboard.models import (
    Artifact,
    Call,
    Observation,
    RecordedReceipt,
    Run,
    RunCall,
    load_slices,
)
from dashboard.models.identity import derive_id
from envelopes.plan.recorders import PROJECTION_POLICY
from envelopes.recordings import EXPORTS, find_format
from envelopes.schema.result import CanonicalResult
from envelopes.schema.settlement import call_code, envelope_situation
from envelopes.text.untrusted_json import dump_json, join_object, object_slices, parse_json

CALLS_AT_ONCE = 200
EXPORTED = b'{"source":'  # how an object begins that an earlier export wrote
AFTER_ALL = 2**63  # the place of what is no slice of its line
Members = dict[str, bytes | None]


@dataclass(kw_only=True)
class ExportedCall:
    """A call with its evidence; `documents` are its own objects in an audit layout, by source and line."""

    call: Call
    ordinal: int
    claim: int  # of the run to the call
    evidence: CallEvidence
    receipts: Sequence[RecordedReceipt]  # of all runs that have the call
    files: Sequence[Artifact]

    def surface(self, name: str) -> list[Observation]:
        """The observations of a surface, the selected ones first."""
        rows = [row for row in self.evidence.observations if row.surface == name]
        return sorted(rows, key=lambda row: not row.selected)

    def document(self, surface: str, beside: Observation | None, beginning: bytes = EXPORTED) -> bytes | None:
        """The object of which `beside` is a part, or the first one where nothing else was recorded."""
        rows = [row for row in self.surface(surface) if row.data.startswith(beginning)]
        if beside is not None:
            rows = [row for row in rows if (row.source_id, row.line) == (beside.source_id, beside.line)]
        return rows[0].data if rows else None

    @cached_property
    def own_id(self) -> str:
        """An id for a call that has only its provider's (E-20). Our key of the row depends on the project."""
        call, owner = self.call, self.call.run
        joins = find_format(owner.source_format).is_global_call_id(call.external_id)
        scope = "" if joins else owner.external_id
        return str(derive_id("exported call", owner.namespace, scope, call.external_id))

    @cached_property
    def canonical(self) -> bytes:
        """The envelope, with the call's exported id in the virtual paths of what was cut."""
        return self.evidence.canonical.replace(f"calls/{self.call.pk}/".encode(), f"calls/{self.own_id}/".encode())


class CallExport:
    """The lines of one run's calls."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.format = find_format(run.source_format)
        self.is_native = run.source_format not in {export.recorded_as for export in EXPORTS}
        self.source: Members = {} if self.is_native else {"source": dump_json(run.source_format)}

    def load_calls(self) -> Iterator[ExportedCall]:
        """The calls in the run's order; the evidence of a portion is loaded at a time."""
        args = Observation.objects.filter(call__memberships__run=self.run, surface="args", selected=True)
        starts = dict(args.values_list("call_id", "start"))
        # Calls that were made at once may have come in any order: then their ids decide.
        members = list(self.run.members.values_list("ordinal", "call_id", "claim", "call__external_id"))
        members.sort(key=lambda member: (member[0], order_of(starts.get(member[1])), member[3]))
        for start in range(0, len(members), CALLS_AT_ONCE):
            portion = members[start : start + CALLS_AT_ONCE]
            yield from _load_portion([(ordinal, key, claim) for ordinal, key, claim, _ in portion])

    def call_lines(self, exported: ExportedCall) -> Iterator[tuple[str, bytes]]:
        if self.is_native and exported.surface("call") + exported.surface("timing"):
            yield from _native_lines(exported)
        else:
            yield from (("calls.jsonl", line) for line in self._calls(exported))
            yield from (("results.jsonl", line) for line in self._results(exported))
        yield from (("receipts.jsonl", line) for line in self._receipts(exported))

    def _owner(self, exported: ExportedCall) -> str | None:
        """The run that owns a call whose id is unique within its run only, where that is another run."""
        call = exported.call
        if call.run_id == self.run.pk or self.format.is_global_call_id(call.external_id):
            return None
        return call.run.external_id

    def _identity(self, exported: ExportedCall) -> Members:
        call = exported.call
        return {
            **self.source,
            "runId": json_text(self.run.external_id),
            "callId": None if self.is_native else json_text(exported.own_id),
            "callId" if self.is_native else "providerCallId": json_text(call.external_id),
            "ownerRunId": json_text(self._owner(exported)),
            "stepId": json_text(call.step),
            "tool": json_text(call.tool),
            "attempt": dump_json(call.attempt),
        }

    def _calls(self, exported: ExportedCall) -> Iterator[bytes]:
        """One line, and one more for each further observation of the arguments. None where only answers are known."""
        for args in exported.surface("args"):
            members = {
                **self._identity(exported),
                "args": args.data,
                "createdAt": json_time(args.observed_at),
                "position": dump_json(exported.ordinal),
                "origin": json_text("progress") if exported.claim == RunCall.Claim.PROGRESS else None,
                "inherited": b"true" if exported.claim == RunCall.Claim.COPIED else None,
                "namesOther": b"true" if exported.claim == RunCall.Claim.OTHER else None,
            }
            yield join_members(exported.document("call", args), members)

    def _results(self, exported: ExportedCall) -> Iterator[bytes]:
        call, results = exported.call, exported.surface("result")
        timings = [row for row in exported.surface("timing") if not row.data.startswith(EXPORTED)]
        others = (timings, exported.files, call.ended_at, call.tool_ms, call.child_run)
        if call.status == Call.Status.UNKNOWN and not (results or any(others)):
            return
        settled = _settlement(exported)
        child = Run.objects.filter(pk=call.child_run).first() if call.child_run else None
        members = {
            **self._identity(exported),
            **settled,
            "isError": dump_json(call.source_error),
            "startedAt": json_time(call.started_at),
            "endedAt": json_time(call.ended_at),
            "durationMs": None if call.tool_ms is None else dump_json(call.tool_ms),
            "childRunId": json_text(child.external_id) if child else None,
            "position": dump_json(exported.ordinal) if exported.claim == RunCall.Claim.ANSWER else None,
            **(_observed(results[0]) if results else {}),
            "timing": timings[0].data if timings else None,
            "files": _files(exported.files),
            "canonical": exported.canonical,
        }
        yield join_members(exported.document("timing", results[0] if results else None), members)
        for further in results[1:]:
            members = {**self._identity(exported), "isError": b"null", **_observed(further)}
            yield join_members(exported.document("timing", further), members)

    def _receipts(self, exported: ExportedCall) -> Iterator[bytes]:
        """The receipts in their order; behind the first, what other sources recorded in its place."""
        by_key = {row.pk: row for row in exported.surface("receipt")}
        sent = {receipt.observation_id for receipt in exported.receipts}
        for receipt in exported.receipts:
            if receipt.run_id != self.run.pk:
                continue
            observation = by_key.get(receipt.observation_id) if receipt.observation_id else None
            if observation is None:
                continue
            own = exported.document("delivery", observation, b"") if self.is_native else None
            yield own or self._receipt(exported, receipt, observation)
            if receipt.seq == 1:
                for key, other in by_key.items():
                    if key not in sent:
                        yield self._receipt(exported, None, other)

    def _reason(self, exported: ExportedCall, receipt: RecordedReceipt) -> str:
        """Why the receipt replaced the one before it in the run."""
        replaced = self._replaced(exported, receipt)
        return replaced[-1].superseded_reason if replaced else ""

    def _replaced(self, exported: ExportedCall, receipt: RecordedReceipt) -> list[RecordedReceipt]:
        """The receipts that this one replaced in the run; none where the model has it beside them."""
        place = (receipt.run_id, receipt.line)
        return [
            row for row in exported.receipts if (row.run_id, row.superseded_line) == place and row.seq < receipt.seq
        ]

    def _receipt(self, exported: ExportedCall, receipt: RecordedReceipt | None, observation: Observation) -> bytes:
        content = observation.data
        name = {b'"': "text", b"[": "parts"}.get(content[:1], "content") if content != b"[]" else "content"
        members: Members = {
            "v": b"1",
            "type": b'"receipt"',
            **self.source,
            "run": json_text(self.run.external_id),
            "call": json_text(exported.call.external_id),
            "owner_run": json_text(self._owner(exported)),
            "seq": dump_json(receipt.seq) if receipt else None,
            name: content,
            "fidelity": json_text(observation.fidelity),
            "at": json_time(receipt.at if receipt else observation.observed_at),
            "position": dump_json(receipt.line) if receipt else None,
            "reason": json_text(self._reason(exported, receipt)) if receipt else None,
            "is_further": b"true" if receipt and receipt.seq > 1 and not self._replaced(exported, receipt) else None,
            "is_running": b"true" if receipt and _is_before_end(receipt, exported.call) else None,
        }
        if receipt is not None and receipt.superseded_line is not None:
            end: Members = {"position": dump_json(receipt.superseded_line), "at": json_time(receipt.superseded_at)}
            members["superseded"] = join_members(None, {**end, "reason": json_text(receipt.superseded_reason)})
        return join_members(None, members)


def _is_before_end(receipt: RecordedReceipt, call: Call) -> bool:
    """A receipt ends its call, unless it states that the call still ran."""
    return receipt.at is not None and (call.ended_at is None or receipt.at < call.ended_at)


def _native_lines(exported: ExportedCall) -> Iterator[tuple[str, bytes]]:
    """The call's own objects, with today's envelope in the first of its results, unless its runtime recorded its own.

    That one has its policy beside it, which tells it from the envelope that an earlier export wrote.
    """
    for document in exported.surface("call"):
        yield "calls.jsonl", document.data
    for index, document in enumerate(exported.surface("timing")):
        is_kept = index > 0 or PROJECTION_POLICY in object_slices(document.data)
        members: Members = {} if is_kept else {"canonical": exported.canonical}
        yield "results.jsonl", join_members(document.data, members) if members else document.data


def _load_portion(members: Sequence[tuple[int, UUID, int]]) -> Iterator[ExportedCall]:
    keys = [key for _, key, _ in members]
    calls = Call.objects.select_related("run", "projection").in_bulk(keys)
    observations = list(
        Observation.objects.filter(call__in=keys).order_by("surface", "line", F("start").asc(nulls_last=True), "pk")
    )
    load_slices(observations)
    receipts = RecordedReceipt.objects.filter(call__in=keys).order_by("seq")
    files = _by_call(Artifact.objects.filter(call__in=keys, observation=None).order_by("ordinal", "path"))
    observations_by_call, receipts_by_call = _by_call(observations), _by_call(receipts)
    for ordinal, key, claim in members:
        rows, sent = tuple(observations_by_call[key]), tuple(receipts_by_call[key])
        yield ExportedCall(
            call=calls[key],
            ordinal=ordinal,
            claim=claim,
            evidence=build_evidence(calls[key], rows, sent, {}),
            receipts=sent,
            files=files[key],
        )


def _by_call(rows: Iterable[Any]) -> dict[UUID, list[Any]]:
    grouped: dict[UUID, list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.call_id].append(row)
    return grouped


def _settlement(exported: ExportedCall) -> Members:
    """`status`, `ok` and `error` of CALL, which follow from the envelope; without an answer, none of them."""
    if exported.call.status == Call.Status.UNKNOWN:
        return {}
    canonical = CanonicalResult.from_json(parse_json(exported.canonical))
    error = canonical.error
    end = envelope_situation(canonical.status, error.kind if error else None).end
    members: Members = {"status": json_text(end), "ok": dump_json(end == "ok")}
    if error is not None:
        code = call_code(error.kind)
        fields = {"code": code, "message": error.message, "retryable": error.retryable, "kind": error.kind}
        members["error"] = dump_json({name: value for name, value in fields.items() if value is not None})
    return members


def _observed(result: Observation) -> Members:
    at = json_time(result.observed_at)
    return {"recorded": result.data, "fidelity": json_text(result.fidelity), "observedAt": at}


def _files(files: Sequence[Artifact]) -> bytes | None:
    """The files that the recording names; `sha256` where the export has the content."""
    members = []
    for file in files:
        sha256 = file.sha256 if file.state == Artifact.State.PRESENT else None
        named: Members = {"role": json_text(file.role), "path": json_text(file.path)}
        members.append(join_members(None, {**named, "size": dump_json(file.size), "sha256": json_text(sha256)}))
    return b"[" + b",".join(members) + b"]" if members else None


def join_members(base: bytes | None, members: Members) -> bytes:
    """The object `base` with these members, those that it has in their places; without None."""
    merged = object_slices(bytes(base)) if base else {}
    merged.update((name, raw) for name, raw in members.items() if raw is not None)
    return join_object(merged)


def order_of(start: int | None) -> int:
    return AFTER_ALL if start is None else start


def json_text(text: str | None) -> bytes | None:
    return dump_json(text) if text else None


def json_time(at: datetime | None) -> bytes | None:
    """ISO 8601 in UTC, in milliseconds unless there are finer ones."""
    if at is None:
        return None
    unit = "microseconds" if at.microsecond % 1_000 else "milliseconds"
    return dump_json(at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=unit) + "Z")
