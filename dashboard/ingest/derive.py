"""Derives a call's columns, projection and artifacts from its evidence: a pure function, for any time and process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from dashboard.evidence.argument_labels import find_printed, store_first_line, store_label
from dashboard.evidence.call_evidence import find_joined
from dashboard.evidence.execution import recorded_members, recorded_skip, recorded_word
from dashboard.evidence.hook_outputs import HookOutput, find_rewrite
from dashboard.ingest.bulk import unsaved_row
from dashboard.ingest.remarks import EvidenceRemark, evidence_remarks
from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Observation,
    RecordedReceipt,
    Remark,
    find_replaced,
    receipts_in,
    select_receipt,
)
from dashboard.models.fields import compress_beside
from dashboard.models.identity import derive_id
from dashboard.models.outcomes import decide_outcome, find_exit_status, waited_for_a_person
from dashboard.models.runs import ReceiptAuthor
from dashboard.search.documents import collect_texts
from dashboard.text.formatting import column_int, column_text
from envelopes.alignment.receipt_parts import join_contents
from envelopes.families.registry import family, projection_fingerprint
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import ArtifactRef, JsonValue, ToolError
from envelopes.schema.settlement import SITUATIONS
from envelopes.storage.sinks import Content
from envelopes.text.pointer import join, text_at
from envelopes.text.untrusted_json import dump_json, object_slices, parse_json

REASONS = {row.kind: row.reason for row in SITUATIONS if row.kind and row.reason and row.name != "policy_denied"}
ARTIFACT_CHARACTERS = 8_000  # a longer output gets a page of its own


class VirtualSink:
    """Gives what a projector cut a virtual path by role. The observation already contains the text itself."""

    def __init__(self, call: UUID) -> None:
        self._call = call
        self.texts: list[tuple[str, str, str]] = []  # role, path, text

    def write(self, role: str, content: Content) -> ArtifactRef:
        assert isinstance(content, str)  # a recording has text alone
        path = f"calls/{self._call}/{role}.txt"
        self.texts.append((role, path, content))
        return ArtifactRef(path)


class RecordedCall(NamedTuple):
    """A call with all its evidence: the observations, with their bytes, in the order of surface, line and id.

    `hooks` are outputs that hooks returned for it. The `model` of its run decides how tokens are counted.
    """

    call: Call
    observations: Sequence[Observation]
    receipts: Sequence[RecordedReceipt]
    hooks: Sequence[HookOutput] = ()
    model: str = ""


class DerivedReceipt(NamedTuple):
    """A receipt's text, where it was recorded, and the columns that follow from it and the call's other evidence."""

    text: str
    columns: dict[str, Any]
    place: tuple[int | None, int] | None  # source and line


@dataclass
class Derived:
    """Everything that follows from one call's evidence. The tokens of the receipts are counted for a whole batch."""

    columns: dict[str, Any]
    projection: CanonicalProjection
    artifacts: list[Artifact] = field(default_factory=list)
    receipts: dict[UUID, DerivedReceipt] = field(default_factory=dict)  # by observation; the call's own one is first
    remarks: list[dict[str, Any]] = field(default_factory=list)
    searched: tuple[tuple[str, ...], ...] = ()  # the texts of each column of the index of payloads
    note: str = ""  # the part of the evidence that no mapping could read, and that is shown only as recorded
    subject: Observation | None = None  # the observation that the projection is of

    @property
    def texts(self) -> list[str]:
        """The texts whose tokens are counted; an empty one for a call without a receipt."""
        return [receipt.text for receipt in self.receipts.values()] or [""]


class SelectedEvidence(NamedTuple):
    """The observation of each surface that a call's columns follow from, and its receipts beside that one.

    `joined` are the receipts that the model has together. `first` is the first one, where another took its place;
    `is_first_sent` where the model had it before.
    """

    observations: dict[str, Observation]
    other_receipts: list[Observation]
    joined: tuple[Observation, ...] = ()
    first: Observation | None = None
    is_first_sent: bool = False


def _select_evidence(recorded: RecordedCall) -> SelectedEvidence:
    """One observation per surface; of the receipts of the call's own run the current one.

    The others are replaced receipts, their replacements, and those of other runs.
    """
    observations = recorded.observations
    selected = {row.surface: row for row in observations if row.selected and row.surface != "receipt"}
    shown, replaced, first = None, None, None
    joined: tuple[Observation, ...] = ()
    if own := receipts_in(recorded.receipts, recorded.call.run_id):
        shown, joined = select_receipt(own).observation_id, find_joined(observations, own)
        selected.update(("receipt", row) for row in observations if row.pk == shown)
        replaced = None if joined else find_replaced(own)
        first = next((row for row in observations if replaced and row.pk == replaced.observation_id), None)
    others = {receipt.observation_id for receipt in recorded.receipts} - ({shown} if not joined else set())
    is_sent = replaced is not None and replaced.was_replaced_later
    return SelectedEvidence(selected, [row for row in observations if row.pk in others], joined, first, is_sent)


def derive(recorded: RecordedCall) -> Derived:
    """Derives what follows from the evidence. Never raises on odd evidence."""
    call, hooks = recorded.call, recorded.hooks
    observations, others, joined, first, is_sent = _select_evidence(recorded)
    sink = VirtualSink(call.pk)
    result, receipt = observations.get("result"), observations.get("receipt")
    subject = result or first or receipt or observations.get("args")
    if receipt and joined:  # no row has their content, which the columns of the call follow from
        content = join_contents([bytes(row.data) for row in joined])
        members = {name: getattr(receipt, name) for name in ("surface", "line", "source_id", "fidelity")}
        receipt = unsaved_row(Observation, id=call.pk, data=content, size=len(content), **members)
        observations = observations | {"receipt": receipt}
    settlement = recorded_members(observations.get("timing"))
    skip = recorded_skip(observations.get("timing"), settlement)
    own_keys = {row.observation_id for row in receipts_in(recorded.receipts, call.run_id)} if first else set()
    halves = _read_halves(call, observations, skip, sink, answer=first, is_sent=is_sent)
    receipts = {receipt.pk: _derive_receipt(call, halves, observations, skip, hooks)} if receipt else {}
    for other in others:
        replaced = observations | {"receipt": other}
        is_further = other in joined[1:]
        earlier = first if other.pk in own_keys else None
        other_halves = _read_halves(
            call, replaced, skip, VirtualSink(call.pk), answer=earlier, is_sent=is_sent, is_further=is_further
        )
        receipts[other.pk] = _derive_receipt(call, other_halves, replaced, skip, hooks)
    own = receipts[receipt.pk] if receipt else _derive_receipt(call, halves, observations, skip, ())
    document = recorded_members(observations.get("call"))
    came_back = receipts[first.pk] if first else own
    columns = _columns(call, halves, observations, own, came_back.text, document, settlement)
    is_answered = columns["status"] != Call.Status.UNKNOWN
    odd = _unfit_values(columns, halves, document, settlement)
    return Derived(
        columns=columns,
        projection=_projection(call, halves, subject),
        artifacts=[] if result is None else _artifacts(call, halves, result, sink),
        receipts=receipts,
        remarks=evidence_remarks(call, recorded.observations, observations, recorded_word(settlement, "status"), odd),
        searched=collect_texts(
            halves.evidence.args,
            halves.evidence.result,
            _own_texts(recorded, receipts),
            envelope=halves.projection.canonical.to_json() if result is None and is_answered else None,
        ),
        note=halves.note,
        subject=subject,
    )


def _own_texts(recorded: RecordedCall, receipts: dict[UUID, DerivedReceipt]) -> Iterator[str]:
    """The texts of the receipts that the call had in its own run, in their order."""
    own = receipts_in(recorded.receipts, recorded.call.run_id)
    for key in dict.fromkeys(receipt.observation_id for receipt in own):
        if key in receipts:
            yield receipts[key].text


def _read_halves(
    call: Call,
    observations: dict[str, Observation],
    skip: ToolError | None,
    sink: VirtualSink | None = None,
    *,
    answer: Observation | None = None,
    is_sent: bool = False,
    hooked: bytes | None = None,
    is_linked: bool = False,
    is_further: bool = False,
) -> Halves:
    """Reads the call; with `hooked`, as if that output of a hook had been the tool's."""
    args, result, receipt = (observations.get(surface) for surface in ("args", "result", "receipt"))
    return read_halves(
        agent=call.namespace,
        tool=call.tool,
        args=bytes(args.data) if args else b"null",
        result=hooked or (bytes(result.data) if result else None),
        content=bytes(receipt.data) if receipt else None,
        answer=bytes(answer.data) if answer and answer is not receipt else None,
        is_answer_sent=is_sent,
        is_error=call.source_error,
        skip=skip,
        is_further=is_further,
        sink=sink,
        is_linked=is_linked,
    )


def _derive_receipt(
    call: Call,
    halves: Halves,
    observations: dict[str, Observation],
    skip: ToolError | None,
    hooks: Sequence[HookOutput],
) -> DerivedReceipt:
    """A receipt that a hook wrote has its lines and cuts of the hook's output, and is no cut of the tool's."""
    text = halves.receipt.text if halves.receipt else ""
    recorded = bytes(observations["result"].data) if hooks and "result" in observations else None
    rewrite = find_rewrite(
        hooks, recorded, lambda output: _read_halves(call, observations, skip, hooked=output, is_linked=True)
    )
    if rewrite is not None and rewrite.author == ReceiptAuthor.HOOK and rewrite.other is not None:
        halves = rewrite.other
    author = rewrite.author if rewrite else ""
    columns = _receipt_columns(halves, observations, text) | {"author": author}
    receipt = observations.get("receipt")
    return DerivedReceipt(text, columns, (receipt.source_id, receipt.line) if receipt else None)


def _receipt_columns(halves: Halves, observations: dict[str, Observation], text: str) -> dict[str, Any]:
    total = sum(output.complete.total for output in halves.known_outputs)
    # Without a receipt nothing was seen and nothing was cut: the call is unanswered, or its receipt was not recorded.
    seen = sum(output.complete.shown_count for output in halves.known_outputs) if halves.receipt else 0
    is_bounded = _result_fidelity(halves, observations) == "bounded" and not halves.reading.is_cut_unknown
    is_inflated = "receipt" in observations and observations["receipt"].fidelity == "inflated"
    return {
        "characters": len(text),
        "lines": text.count("\n") + 1 if text else 0,
        "output_lines": total,
        "seen_lines": seen,
        # An output of which the source recorded only a part was cut, even when the receipt has all of that.
        # The log of an inflated receipt holds more than the model got.
        "is_cut": halves.is_cut or (halves.receipt is not None and (is_bounded or is_inflated)),
    }


def _columns(
    call: Call,
    halves: Halves,
    observations: dict[str, Observation],
    receipt: DerivedReceipt,
    came_back: str,
    document: dict[str, bytes],
    settlement: dict[str, bytes],
) -> dict[str, Any]:
    """The columns of the call. `came_back` is the text that the model got first; it may have been replaced.

    `document` and `settlement` are the members of an executor's whole call, and of the rest of a recorded settlement.
    """
    canonical = halves.projection.canonical
    members = canonical.result if isinstance(canonical.result, dict) else {}
    has_value = "result" in observations and not call.source_error  # an error is stored in place of a result
    is_denied = bool(recorded_word(settlement, "deniedReason")) and not has_value
    end = recorded_word(settlement, "status") or ("refused" if is_denied else "")
    has_half = "result" in observations or "receipt" in observations
    is_answered = has_half or call.source_error is not None or is_denied
    error = canonical.error
    own = receipt.columns
    exit_status = column_int(find_exit_status(members))
    status = canonical.status if is_answered else Call.Status.UNKNOWN
    error_kind = column_text(error.kind, 100) if error and is_answered else ""
    return {
        "family": halves.family,
        **_execution_columns(document, settlement, error_kind),
        "status": status,
        "outcome": decide_outcome(
            status=status,
            error_kind=error_kind,
            exit_status=exit_status,
            source_error=call.source_error,
            recorded_end=end,
            is_exit_an_answer=bool(exit_status and members.get("interpretation")),
            is_interrupted=members.get("interrupted") is True,
        ),
        "summary": column_text(canonical.summary_text, 200),
        "asked": store_label(observations["args"].data) if "args" in observations else "",
        "first_line": store_first_line(came_back if "receipt" in observations else find_printed(canonical.result)),
        "error_kind": error_kind,
        "retryable": error.retryable if error and is_answered else None,
        "exit_status": exit_status if exit_status is not None and abs(exit_status) < 2**31 else None,
        "is_waiting": waited_for_a_person(call.tool, error.kind if error else "", error.message if error else ""),
        "args_bytes": observations["args"].size if "args" in observations else 0,
        "result_bytes": observations["result"].size if "result" in observations else 0,
        "result_fidelity": _result_fidelity(halves, observations),
        "receipt_fidelity": observations["receipt"].fidelity if "receipt" in observations else "absent",
        "receipt_characters": own["characters"],
        "receipt_lines": own["lines"],
        **{name: own[name] for name in ("output_lines", "seen_lines", "is_cut", "author")},
        "unseen_lines": max(0, own["output_lines"] - own["seen_lines"]) if own["is_cut"] else 0,
    }


def _unfit_values(
    columns: dict[str, Any], halves: Halves, call: dict[str, bytes], settlement: dict[str, bytes]
) -> Iterator[EvidenceRemark]:
    """Words and numbers of the evidence that are longer or larger than their columns."""
    canonical = halves.projection.canonical
    words = {
        "riskLevel": (recorded_word(call, "riskLevel"), columns["risk"]),
        "deniedReason": (recorded_word(settlement, "deniedReason"), columns["reason"]),
        "error.kind": (canonical.error.kind if canonical.error else "", columns["error_kind"]),
    }
    for path, (word, column) in words.items():
        if len(word) > len(column) > 0:
            became = f"shown and filtered by its first {len(column) - 1} characters"
            yield EvidenceRemark(Remark.Kind.STATUS, path, word, became)
    result = canonical.result if isinstance(canonical.result, dict) else {}
    numbers = {
        "exit_status": (dump_json(find_exit_status(result)), columns["exit_status"]),
        "iteration.index": (_round_index(call), columns["iteration"]),
    }
    for path, (number, column) in numbers.items():
        if number != b"null" and column is None:
            yield EvidenceRemark(Remark.Kind.NUMBER, path, number[:200].decode(), "left out: not a possible number")


def _round_index(call: dict[str, bytes]) -> bytes:
    round_ = call.get("iteration", b"")
    return object_slices(round_).get("index", b"null") if round_.startswith(b"{") else b"null"


def _execution_columns(call: dict[str, bytes], settlement: dict[str, bytes], error_kind: str) -> dict[str, Any]:
    """Round, risk and reason of a refusal, as an executor recorded them; a kind that names one gate is a reason too."""
    index = column_int(parse_json(_round_index(call)))
    return {
        "iteration": index if index is not None and 0 <= index < 2**31 else None,
        "risk": column_text(recorded_word(call, "riskLevel"), 12),
        "reason": column_text(recorded_word(settlement, "deniedReason") or REASONS.get(error_kind, ""), 40),
    }


def _result_fidelity(halves: Halves, observations: dict[str, Observation]) -> str:
    if "result" in observations:
        own = observations["result"].fidelity
        return halves.reading.fidelity if own == "structured" or halves.reading.fidelity == "bounded" else own
    return "parsed_from_receipt" if halves.reading.fidelity == "parsed_from_receipt" else "absent"


def _projection(call: Call, halves: Halves, observation: Observation | None) -> CanonicalProjection:
    policy = projection_fingerprint(family(halves.family))
    data = dump_json(halves.projection.canonical.to_json())
    return unsaved_row(
        CanonicalProjection,
        call_id=call.pk,
        observation_id=observation.pk if observation else None,
        mapping=halves.mapping,
        policy=policy,
        packed=compress_beside(data, observation.data if observation else b""),
        cuts=msgspec.json.encode(halves.projection.cuts),
        size=len(data),
    )


def _artifacts(call: Call, halves: Halves, result: Observation, sink: VirtualSink) -> list[Artifact]:
    """An artifact for every large output field, and for every field that the projection cut."""
    evidence = halves.evidence.result
    cut_texts = {text: (role, path) for role, path, text in sink.texts}
    pointers = [output.field.pointer for output in halves.outputs]
    for text in cut_texts:
        pointer = _find_text(evidence, text)
        if pointer is not None and pointer not in pointers:
            pointers.append(pointer)
    artifacts: list[Artifact] = []
    for pointer in pointers:
        text = text_at(evidence, pointer) or ""
        if text not in cut_texts and len(text) <= ARTIFACT_CHARACTERS:
            continue
        name = next((token for token in reversed(pointer.split("/")) if token and not token.isdigit()), "output")
        role, path = cut_texts.get(text) or (name, f"calls/{call.pk}/{name}.txt")
        artifacts.append(_field_artifact(call, result, pointer, role, path, text, ordinal=len(artifacts)))
    return artifacts


def _field_artifact(
    call: Call, result: Observation, pointer: str, role: str, path: str, text: str, *, ordinal: int
) -> Artifact:
    raw = text.encode("utf-8", "surrogatepass")
    return unsaved_row(
        Artifact,
        id=derive_id("artifact", call.pk.bytes, "field", result.sha256, pointer, beside=call.pk),
        project_id=call.project_id,
        call_id=call.pk,
        ordinal=ordinal,
        role=column_text(role, 64),
        path=path,
        observation_id=result.pk,
        pointer=column_text(pointer, 500),
        sha256=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        lines=text.count("\n") + (0 if text.endswith("\n") or not text else 1),
    )


def _find_text(document: JsonValue, text: str, pointer: str = "") -> str | None:
    """The pointer of exactly this string in the recorded result, of the first of several."""
    if isinstance(document, str):
        return pointer if document == text else None
    items: Any = ()
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
    matches = (_find_text(child, text, join(pointer, key)) for key, child in items)
    return next((match for match in matches if match is not None), None)
