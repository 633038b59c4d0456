"""Derives a call's columns, projection and artifacts from its evidence. Can be computed again at any time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from dashboard.ingest.bulk import unsaved_row
from dashboard.models import Artifact, Call, CanonicalProjection, Observation
from dashboard.models.runs import derive_id
from dashboard.text.formatting import column_int, column_text
from envelopes.families.registry import family
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import ArtifactRef, JsonValue
from envelopes.text.pointer import join, text_at
from envelopes.text.untrusted_json import dump_json

ASKING_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "exit_plan_mode"})
REFUSED_KINDS = frozenset({"write_denied"})
ARTIFACT_CHARACTERS = 8_000  # a longer output gets a page of its own


class VirtualSink:
    """Gives what a projector cut a virtual path by role. The observation already contains the text itself."""

    def __init__(self, call: UUID) -> None:
        self._call = call
        self.texts: list[tuple[str, str, str]] = []  # role, path, text

    def write(self, role: str, text: str) -> ArtifactRef:
        path = f"calls/{self._call}/{role}.txt"
        self.texts.append((role, path, text))
        return ArtifactRef(path)


@dataclass
class Derived:
    """Everything that follows from one call's evidence. The tokens of `receipt_text` are counted for a whole batch."""

    columns: dict[str, Any]
    projection: CanonicalProjection
    artifacts: list[Artifact] = field(default_factory=list)
    receipt_text: str = ""
    note: str = ""  # the part of the evidence that no mapping could read, and that is shown only as recorded
    subject: Observation | None = None  # the observation that the projection is of


def derive(call: Call, observations: dict[str, Observation]) -> Derived:
    """`observations` has the selected one of each surface. Never raises on odd evidence."""
    sink = VirtualSink(call.pk)
    result, receipt = observations.get("result"), observations.get("receipt")
    args = observations.get("args")
    halves = read_halves(
        agent=call.namespace,
        tool=call.tool,
        args=bytes(args.data) if args else b"null",
        result=bytes(result.data) if result else None,
        content=bytes(receipt.data) if receipt else None,
        is_error=call.source_error,
        sink=sink,
        is_linked=False,
    )
    subject = result or receipt or args
    text = halves.receipt.text if halves.receipt else ""
    return Derived(
        columns=_columns(call, halves, observations, text),
        projection=_projection(call, halves, subject),
        artifacts=[] if result is None else _artifacts(call, halves, result, sink),
        receipt_text=text,
        note=halves.note,
        subject=subject,
    )


def _columns(call: Call, halves: Halves, observations: dict[str, Observation], text: str) -> dict[str, Any]:
    canonical = halves.projection.canonical
    is_answered = "result" in observations or "receipt" in observations or call.source_error is not None
    error = canonical.error
    fidelity = _result_fidelity(halves, observations)
    exit_status = column_int(canonical.result.get("exit_status")) if isinstance(canonical.result, dict) else None
    total = sum(output.cut.total for output in halves.outputs)
    # Without a receipt nothing was seen and nothing was cut: the call is unanswered, or its receipt was not recorded.
    seen = sum(output.cut.shown_count for output in halves.outputs) if halves.receipt else 0
    return {
        "family": halves.family,
        "status": canonical.status if is_answered else Call.Status.UNKNOWN,
        "summary": column_text(canonical.summary_text, 200),
        "error_kind": column_text(error.kind, 100) if error and is_answered else "",
        "retryable": error.retryable if error and is_answered else None,
        "exit_status": exit_status if exit_status is not None and abs(exit_status) < 2**31 else None,
        "is_waiting": call.tool in ASKING_TOOLS or bool(error and error.kind in REFUSED_KINDS),
        "args_bytes": observations["args"].size if "args" in observations else 0,
        "result_bytes": observations["result"].size if "result" in observations else 0,
        "result_fidelity": fidelity,
        "receipt_fidelity": observations["receipt"].fidelity if "receipt" in observations else "absent",
        "receipt_characters": len(text),
        "receipt_lines": text.count("\n") + 1 if text else 0,
        "output_lines": total,
        "seen_lines": seen,
        # An output of which the source recorded only the beginning was cut, even when the receipt has all of that.
        "is_cut": halves.receipt is not None and (total > seen or fidelity == "bounded"),
    }


def _result_fidelity(halves: Halves, observations: dict[str, Observation]) -> str:
    if "result" in observations:
        own = observations["result"].fidelity
        return halves.reading.fidelity if own == "structured" else own
    return "parsed_from_receipt" if halves.reading.fidelity == "parsed_from_receipt" else "absent"


def _projection(call: Call, halves: Halves, observation: Observation | None) -> CanonicalProjection:
    policy = family(halves.family).projection.fingerprint
    data = dump_json(halves.projection.canonical.to_json())
    subject = observation.pk.bytes if observation else b""
    return unsaved_row(
        CanonicalProjection,
        id=derive_id("projection", call.pk.bytes, subject, halves.mapping, policy, hashlib.sha256(data).digest()),
        call_id=call.pk,
        observation_id=observation.pk if observation else None,
        mapping=halves.mapping,
        policy=policy,
        data=data,
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
        id=derive_id("artifact", call.pk.bytes, "field", result.sha256, pointer),
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
