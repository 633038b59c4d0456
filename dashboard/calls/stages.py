"""The stages of one call: complete output, canonical result, receipt, provider body, and its recap after compaction.

Each stage has its size and a link that opens its form: the first two in the left half, the others in the right one
(`?right=wire-gemini`, `?right=compacted`), and by themselves as text (`?as=wire-gemini`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.http import QueryDict

from dashboard.calls.call_variants import requested_variant
from dashboard.evidence.call_evidence import CallEvidence, utf8_length
from dashboard.text import json_markup
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from envelopes.pipeline.compaction import Compacted, compact, recap
from envelopes.text.tokens import CHARACTERS_PER_TOKEN, TokenCount
from envelopes.text.untrusted_json import dump_json
from envelopes.transports import TRANSPORTS, CallIds, Transport, UnsupportedPart

MAX_COUNTED_BYTES = 64 * 1024  # the tokens of a larger recorded result are estimated by its length
MAX_DROPPED = 40
WIRE = "wire-"
COMPACTED = "compacted"


@dataclass(frozen=True, kw_only=True)
class CallStage:
    """`bytes` is None where the call has no such form, and `note` gives the reason. `number`, from 1, is its key."""

    name: str
    title: str
    href: str = ""
    bytes: int | None = None
    tokens: TokenCount | None = None
    note: str = ""
    is_current: bool = False
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class ProviderBody:
    """`body` is None where `refusal` names the part of the receipt that the provider does not support."""

    name: str
    title: str
    href: str
    body: bytes | None
    refusal: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class WirePane:
    shown: ProviderBody
    choices: tuple[ProviderBody, ...]
    window: TextChunk | None


@dataclass(frozen=True, kw_only=True)
class DroppedField:
    pointer: str
    size: int
    unit: str  # characters | members


@dataclass(frozen=True, kw_only=True)
class CompactedPane:
    """`is_smaller` is false where compaction would save nothing, and leaves the receipt as it is."""

    window: ReceiptChunk
    bytes: int
    tokens: TokenCount
    is_smaller: bool
    dropped: tuple[DroppedField, ...]
    unlisted: int


@dataclass(frozen=True, kw_only=True)
class CallStages:
    """The stages, and the pane of the right half where the address asks for a provider's body or the recap."""

    stages: tuple[CallStage, ...]
    wire: WirePane | None
    compacted: CompactedPane | None

    @property
    def shows_receipt(self) -> bool:
        return self.wire is None and self.compacted is None


def build_stages(evidence: CallEvidence, query: QueryDict) -> CallStages:
    compacted = compact(evidence.envelope, 0)
    right = query.get("right", "")
    provider = next((transport for transport in TRANSPORTS if right == WIRE + transport.name), None)
    stages = [
        _output_stage(evidence, query),
        CallStage(
            name="canonical",
            title="Canonical",
            href=_changed(query, left=None),
            bytes=len(evidence.canonical),
            tokens=evidence.tokens(evidence.canonical.decode()),
            is_current=query.get("left") != "recorded" or evidence.result is None,
        ),
        _receipt_stage(evidence, query, is_current=provider is None and right != COMPACTED),
        _wire_stage(evidence, query, provider),
        _compacted_stage(evidence, query, compacted),
    ]
    return CallStages(
        stages=tuple(replace(stage, number=number) for number, stage in enumerate(stages, 1)),
        wire=_build_wire_pane(evidence, query, provider) if provider else None,
        compacted=_build_compacted_pane(evidence, compacted) if right == COMPACTED else None,
    )


def _changed(query: QueryDict, **changes: str | None) -> str:
    """This page with some parameters changed, everything else of the address kept."""
    changed = query.copy()
    for name, value in changes.items():
        changed.pop(name, None)
        if value is not None:
            changed[name] = value
    return f"?{changed.urlencode()}"


def _output_stage(evidence: CallEvidence, query: QueryDict) -> CallStage:
    raw = evidence.result
    if raw is None:
        return CallStage(name="complete", title="Complete output", note="not recorded")
    if len(raw) > MAX_COUNTED_BYTES:
        tokens = TokenCount(-(-len(raw) // CHARACTERS_PER_TOKEN), "bytes/4", "estimate")
    else:
        tokens = evidence.tokens(raw.decode("utf-8", "replace"))
    return CallStage(
        name="complete",
        title="Complete output",
        href=_changed(query, left="recorded"),
        bytes=len(raw),
        tokens=tokens,
        note="" if evidence.call.result_fidelity == "structured" else "as far as recorded",
        is_current=query.get("left") == "recorded",
    )


def _receipt_stage(evidence: CallEvidence, query: QueryDict, *, is_current: bool) -> CallStage:
    if evidence.halves.receipt is None:
        return CallStage(name="receipt", title="Receipt", note="not recorded")
    return CallStage(
        name="receipt",
        title="Receipt",
        href=_changed(query, right=None),
        bytes=evidence.receipt_bytes,
        tokens=evidence.receipt_tokens,
        is_current=is_current and not requested_variant(query),
    )


def _wire_stage(evidence: CallEvidence, query: QueryDict, provider: Transport | None) -> CallStage:
    """The numbers of the provider in view, else of the first. Its tokens are those of the text in the body."""
    if evidence.halves.receipt is None:
        return CallStage(name="wire", title="Wire", note="no receipt to send")
    body = _build_body(provider or TRANSPORTS[0], evidence, query, is_current=provider is not None)
    return CallStage(
        name="wire",
        title="Wire",
        href=body.href,
        bytes=None if body.body is None else len(body.body),
        tokens=evidence.receipt_tokens,
        note="not supported" if body.refusal else body.title,
        is_current=body.is_current,
    )


def _compacted_stage(evidence: CallEvidence, query: QueryDict, compacted: Compacted) -> CallStage:
    text = recap(compacted.canonical).text
    return CallStage(
        name=COMPACTED,
        title="Compacted",
        href=_changed(query, right=COMPACTED),
        bytes=utf8_length(text),
        tokens=evidence.tokens(text),
        is_current=query.get("right") == COMPACTED,
    )


def _build_wire_pane(evidence: CallEvidence, query: QueryDict, provider: Transport) -> WirePane | None:
    if evidence.halves.receipt is None:
        return None
    bodies = {
        transport.name: _build_body(transport, evidence, query, is_current=transport is provider)
        for transport in TRANSPORTS
    }
    shown = bodies[provider.name]
    window = None
    if shown.body is not None:
        window = json_markup.later_chunk(json_markup.indent_json(shown.body), 0, FIRST_CHARS)
    return WirePane(shown=shown, choices=tuple(bodies.values()), window=window)


def _build_body(transport: Transport, evidence: CallEvidence, query: QueryDict, *, is_current: bool) -> ProviderBody:
    body, refusal = None, ""
    try:
        body = encode_receipt(transport, evidence)
    except UnsupportedPart as error:
        refusal = str(error)
    return ProviderBody(
        name=transport.name,
        title=transport.title,
        href=_changed(query, right=WIRE + transport.name),
        body=body,
        refusal=refusal,
        is_current=is_current,
    )


def encode_receipt(transport: Transport, evidence: CallEvidence) -> bytes | None:
    """The provider's body of the receipt in view, None without a receipt. Raises UnsupportedPart."""
    receipt = evidence.halves.receipt
    if receipt is None:
        return None
    ids = CallIds(provider=evidence.call.external_id)
    return dump_json(transport.encode(receipt, evidence.envelope, ids))


def _build_compacted_pane(evidence: CallEvidence, compacted: Compacted) -> CompactedPane:
    receipt = recap(compacted.canonical)
    tokens = evidence.tokens(receipt.text)
    return CompactedPane(
        window=receipt_chunk(receipt, FieldLinks({}), 0, FIRST_CHARS),
        bytes=utf8_length(receipt.text),
        tokens=tokens,
        is_smaller=evidence.halves.receipt is None or tokens.count < evidence.receipt_tokens.count,
        dropped=tuple(
            DroppedField(
                pointer=part.pointer, size=part.size, unit="members" if part.kind == "members" else "characters"
            )
            for part in compacted.dropped[:MAX_DROPPED]
        ),
        unlisted=max(0, len(compacted.dropped) - MAX_DROPPED),
    )
