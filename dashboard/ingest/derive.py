"""A call's columns, projection and artifacts, from its evidence. Recomputable at any time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from dashboard.ingest.bulk import unsaved_row
from dashboard.models import Artifact, Call, CanonicalProjection, Observation, identity
from dashboard.text.column_values import column_int, column_text
from envelopes.families.registry import family
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import ArtifactRef, JsonValue
from envelopes.text.pointer import join, text_at
from envelopes.text.untrusted_json import dump_json

ASKING_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "exit_plan_mode"})
REFUSED_KINDS = frozenset({"write_denied"})
ARTIFACT_FROM_CHARACTERS = 8_000  # an output of this length gets a page of its own


class VirtualSink:
    """Names what a projector cut: a virtual path by role. The text itself already lies in the observation."""

    def __init__(self, call: UUID) -> None:
        self._call = call
        self.texts: list[tuple[str, str, str]] = []  # role, path, text

    def write(self, role: str, text: str) -> ArtifactRef:
        path = f"calls/{self._call}/{role}.txt"
        self.texts.append((role, path, text))
        return ArtifactRef(path)


@dataclass
class Derived:
    """What follows from one call's evidence. `receipt_text` is for the token count, done a batch at a time."""

    columns: dict[str, Any]
    projection: CanonicalProjection
    artifacts: list[Artifact] = field(default_factory=list)
    loose: list[tuple[str, str, str]] = field(default_factory=list)  # role, path, text without a recorded field
    receipt_text: str = ""
    note: str = ""  # what of the evidence could not be read, and so is shown only as recorded
    subject: Observation | None = None  # what the projection is of


def derive(call: Call, observations: dict[str, Observation]) -> Derived:
    """`observations` holds the selected one of each surface. Never raises on odd evidence."""
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
    text = _receipt_text(halves)
    derived = Derived(
        columns=_columns(call, halves, observations, text),
        projection=_projection(call, halves, result or receipt or args),
        receipt_text=text,
        note=halves.note,
        subject=result or receipt or args,
    )
    if result is not None:
        _add_artifacts(derived, call, halves, result, sink)
    return derived


def _receipt_text(halves: Halves) -> str:
    return halves.receipt.text if halves.receipt else ""


def _columns(call: Call, halves: Halves, observations: dict[str, Observation], text: str) -> dict[str, Any]:
    canonical = halves.projection.canonical
    answered = "result" in observations or "receipt" in observations or call.source_error is not None
    error = canonical.error
    fidelity = _result_fidelity(halves, observations)
    return {
        "family": halves.family,
        "status": canonical.status if answered else Call.Status.UNKNOWN,
        "summary": column_text(canonical.summary_text, 200),
        "error_kind": column_text(error.kind, 100) if error and answered else "",
        "retryable": error.retryable if error and answered else None,
        "exit_status": _exit_status(canonical.result),
        "is_waiting": call.tool in ASKING_TOOLS or bool(error and error.kind in REFUSED_KINDS),
        "args_bytes": _size(observations, "args"),
        "result_bytes": _size(observations, "result"),
        "result_fidelity": fidelity,
        "receipt_fidelity": observations["receipt"].fidelity if "receipt" in observations else "absent",
        "receipt_characters": len(text),
        "receipt_lines": text.count("\n") + 1 if text else 0,
        **_cut_columns(halves, is_bounded=fidelity == "bounded"),
    }


def _cut_columns(halves: Halves, *, is_bounded: bool) -> dict[str, Any]:
    """Lines of the complete output, and how many of those the receipt holds.

    What a source recorded only the beginning of was cut, whatever of that beginning the receipt holds.
    Without a receipt nothing was seen and nothing was cut: the call is unanswered, or its receipt
    was not recorded.
    """
    total = sum(one.cut.total for one in halves.outputs)
    seen = sum(one.cut.shown_count for one in halves.outputs)
    if halves.receipt is None:
        return {"output_lines": total, "seen_lines": 0, "is_cut": False}
    return {"output_lines": total, "seen_lines": seen, "is_cut": total > seen or is_bounded}


def _exit_status(result: JsonValue) -> int | None:
    found = column_int(result.get("exit_status")) if isinstance(result, dict) else None
    return found if found is not None and abs(found) < 2**31 else None


def _size(observations: dict[str, Observation], surface: str) -> int:
    found = observations.get(surface)
    return found.size if found else 0


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
        id=identity.derived(
            "projection", call.pk.bytes, subject, halves.mapping, policy, hashlib.sha256(data).digest()
        ),
        call_id=call.pk,
        observation_id=observation.pk if observation else None,
        mapping=halves.mapping,
        policy=policy,
        data=data,
        cuts=msgspec.json.encode(halves.projection.cuts),
        size=len(data),
    )


def _add_artifacts(derived: Derived, call: Call, halves: Halves, result: Observation, sink: VirtualSink) -> None:
    """Every large output field, and every field that the projection cut, gets a page of its own."""
    evidence = halves.evidence.result
    written = {text: (role, path) for role, path, text in sink.texts}
    pointers = [one.field.pointer for one in halves.outputs]
    for text in written:
        pointer = _pointer_of(evidence, text)
        if pointer is None:
            derived.loose.append((*written[text], text))
        elif pointer not in pointers:
            pointers.append(pointer)
    for pointer in pointers:
        text = text_at(evidence, pointer) or ""
        if text in written or len(text) > ARTIFACT_FROM_CHARACTERS:
            role, path = written.get(text) or (_role(pointer), f"calls/{call.pk}/{_role(pointer)}.txt")
            derived.artifacts.append(_field_artifact(call, result, pointer, role, path, text))
    for ordinal, artifact in enumerate(derived.artifacts):
        artifact.ordinal = ordinal


def _role(pointer: str) -> str:
    return next((token for token in reversed(pointer.split("/")) if token and not token.isdigit()), "output")


def _field_artifact(call: Call, result: Observation, pointer: str, role: str, path: str, text: str) -> Artifact:
    raw = text.encode("utf-8", "surrogatepass")
    return unsaved_row(
        Artifact,
        id=identity.derived("artifact", call.pk.bytes, "field", result.sha256, pointer),
        project_id=call.project_id,
        call_id=call.pk,
        role=column_text(role, 64),
        path=path,
        observation_id=result.pk,
        pointer=column_text(pointer, 500),
        sha256=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        lines=text.count("\n") + (0 if text.endswith("\n") or not text else 1),
    )


def _pointer_of(document: JsonValue, text: str, pointer: str = "") -> str | None:
    """Where exactly this string stands in the recorded result; the first place of several."""
    if isinstance(document, str):
        return pointer if document == text else None
    items: Any = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, child in items:
        found = _pointer_of(child, text, join(pointer, key))
        if found is not None:
            return found
    return None
