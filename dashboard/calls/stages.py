"""The stages of one call: complete output, canonical result, receipt, provider body, and its recap after compaction.

A stage follows the one before, and the page draws an arrow, only where it was made from it: a recorded receipt was
written by the agent, not rendered from our canonical result.

Each stage has its size and a link that opens its form: the first two in the left half, the others in the right one
(`?right=wire-gemini`, `?right=compacted`), and by themselves as text (`?as=wire-gemini`). The call and its receipt
alone can be pasted elsewhere as well: as text, JSON or Markdown. The receipt's text is exact: nothing is added,
trimmed or re-wrapped. Only a lone surrogate, which no encoding of text can carry, is written as \\udxxx. The JSON
forms contain the recorded bytes themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from django.http import QueryDict

from dashboard.calls.call_variants import requested_variant
from dashboard.calls.half_panes import choose_left, half_text
from dashboard.evidence.call_evidence import CallEvidence, utf8_length
from dashboard.text import json_markup
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from envelopes.pipeline.compaction import Compacted, compact, recap
from envelopes.text.tokens import CHARACTERS_PER_TOKEN, TokenCount
from envelopes.text.untrusted_json import dump_json, strict_json, visible
from envelopes.transports import TRANSPORTS, CallIds, Transport, UnsupportedPart

MAX_COUNTED_BYTES = 8 * 1024  # the tokens of a larger recorded result are estimated by its length
MAX_DROPPED = 40
WIRE = "wire-"
COMPACTED = "compacted"
CONTENT_TYPES = {"text": "text/plain", "json": "application/json", "markdown": "text/markdown"}
_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CallStage:
    """`bytes` is None where the call has no such form, and `note` gives the reason. `number`, from 1, is its key.

    `follows`: it was made from the stage before.
    """

    name: str
    title: str
    href: str = ""
    bytes: int | None = None
    tokens: TokenCount | None = None
    note: str = ""
    is_current: bool = False
    number: int = 0
    follows: bool = False


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


def build_stages(evidence: CallEvidence, query: QueryDict, *, is_rendered: bool) -> CallStages:
    """`is_rendered`: the receipt in view was rendered from the canonical result in view."""
    compacted = compact(evidence.envelope, 0)
    right = query.get("right", "")
    provider = next((transport for transport in TRANSPORTS if right == WIRE + transport.name), None)
    stages = [
        _output_stage(evidence, query),
        CallStage(
            name="canonical",
            title="Canonical",
            href=_changed(query, left="canonical" if evidence.is_slow_to_complete else None),
            bytes=len(evidence.canonical),
            tokens=evidence.tokens(evidence.canonical.decode()),
            note="" if evidence.result is not None else "made from what else was recorded",
            is_current=choose_left(evidence, query.get("left", "")) != "recorded",
            follows=evidence.result is not None,
        ),
        replace(
            _receipt_stage(evidence, query, is_current=provider is None and right != COMPACTED), follows=is_rendered
        ),
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
        is_current=choose_left(evidence, query.get("left", "")) == "recorded",
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
        follows=not body.refusal,
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


def export_receipt(evidence: CallEvidence, form: str) -> tuple[str, str] | None:
    """Content type and text; None for an unknown form."""
    match form:
        case "text":
            text = half_text(evidence, "receipt")
        case "json":
            text = strict_json(evidence.content or b"null").decode()
        case "markdown":
            text = _fenced(half_text(evidence, "receipt"), "text")
        case _:
            return None
    return CONTENT_TYPES[form], visible(text)


def export_call(evidence: CallEvidence, form: str) -> tuple[str, str] | None:
    """Content type and text; None for an unknown form, and for one that this call does not have."""
    match form:
        case "text":
            blocks = [_title(evidence), *(f"--- {title} ---\n{body}" for title, body, _ in _blocks(evidence))]
            text: str | None = "\n\n".join(blocks) + "\n"
        case "json":
            text = _call_json(evidence)
        case "markdown":
            blocks = [f"## {title}\n\n{_fenced(body, language)}" for title, body, language in _blocks(evidence)]
            text = "\n\n".join([f"# {_title(evidence)}", *blocks]) + "\n"
        case "compacted":
            text = recap(compact(evidence.envelope, 0).canonical).text
        case _:
            text = _body_text(evidence, form)
    if text is None:
        return None
    content_type = CONTENT_TYPES.get(form, CONTENT_TYPES["text" if form == COMPACTED else "json"])
    return content_type, visible(text)


def _body_text(evidence: CallEvidence, form: str) -> str | None:
    transport = next((transport for transport in TRANSPORTS if form == WIRE + transport.name), None)
    try:
        body = encode_receipt(transport, evidence) if transport else None
    except UnsupportedPart:
        return None
    return None if body is None else body.decode()


def _call_json(evidence: CallEvidence) -> str:
    """Recorded values are spliced in as their own bytes, so that 1.00 stays 1.00."""
    call = evidence.call
    recorded = {
        "args": evidence.args,
        "canonical": evidence.canonical if evidence.is_answered else b"null",
        "recorded": evidence.result or b"null",
        "receipt": evidence.content or b"null",
    }
    words = {"call": call.external_id, "tool": call.tool, "outcome": call.outcome_words}
    members = [f'"{name}":{_quoted(text)}' for name, text in words.items()]
    members += [f'"{name}":{strict_json(raw).decode()}' for name, raw in recorded.items()]
    return "{" + ",".join(members) + "}\n"


def _title(evidence: CallEvidence) -> str:
    call = evidence.call
    return " · ".join(part for part in (call.tool, call.outcome_words, call.summary, call.external_id) if part)


def _blocks(evidence: CallEvidence) -> list[tuple[str, str, str]]:
    """Title, text and Markdown language of each part of the call."""
    result = half_text(evidence, "canonical") if evidence.is_answered else "(no result was recorded)"
    receipt = half_text(evidence, "receipt") if evidence.halves.receipt else "(no receipt was recorded)"
    return [
        ("arguments", half_text(evidence, "args"), "json"),
        ("canonical result", result, "json"),
        ("receipt", receipt, "text"),
    ]


def _fenced(text: str, language: str) -> str:
    """A fence longer than any in the text, so that nothing in it can close the block."""
    longest = max((len(fence) for fence in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    newline = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{newline}{fence}"


def _quoted(text: str) -> str:
    """A JSON string; `json.dumps` would escape what is not ASCII."""
    escaped = "".join(f"\\u{ord(char):04x}" if char < " " or char in '"\\' else char for char in text)
    return f'"{escaped}"'
