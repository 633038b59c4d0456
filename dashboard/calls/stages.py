"""One call on its way: complete output, canonical result, receipt, wire, and what stays when it ages out.

Every stop has its size and opens its form: the first two in the left half, the others in the right one
(`?right=wire-gemini`, `?right=compacted`), and by themselves as text (`?as=wire-gemini`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from django.http import QueryDict

from dashboard.calls.call_variants import requested_variant
from dashboard.evidence.call_evidence import CallEvidence, utf8_length
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from envelopes.pipeline.compaction import Compacted, compact, recap
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult
from envelopes.text.tokens import CHARACTERS_PER_TOKEN, TokenCount
from envelopes.text.untrusted_json import dump_json
from envelopes.transports import TRANSPORTS, CallIds, Transport, UnsupportedPart

COUNTED = 64 * 1024  # bytes of a recorded result; of a larger one the tokens are estimated by its length
LOSSES_SHOWN = 40
WIRE = "wire-"
COMPACTED = "compacted"


@dataclass(frozen=True, kw_only=True)
class Stop:
    """`bytes` is None where nothing stands at this stop; `note` says why."""

    name: str
    title: str
    href: str = ""
    bytes: int | None = None
    tokens: TokenCount | None = None
    note: str = ""
    is_current: bool = False
    number: int = 0  # from 1 along the way: its key

    @property
    def is_nowhere(self) -> bool:
        return not self.href

    @property
    def is_sized(self) -> bool:
        return self.bytes is not None

    @property
    def counted(self) -> str:
        """How, for the title of the tokens; which the import says no encoding of."""
        encoding = self.tokens.encoding if self.tokens else ""
        return f"with {encoding}" if encoding else "when it was taken in"


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One provider's body. `refusal`: this receipt has a part that the provider cannot carry."""

    name: str
    title: str
    href: str
    body: bytes | None
    refusal: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class WirePane:
    shown: Wire
    choices: tuple[Wire, ...]
    window: TextChunk | None


@dataclass(frozen=True, kw_only=True)
class Loss:
    pointer: str
    size: int
    unit: str  # characters | members


@dataclass(frozen=True, kw_only=True)
class CompactedPane:
    """`is_smaller`: compaction leaves a receipt alone where its recap would save nothing."""

    window: ReceiptWindow
    bytes: int
    tokens: TokenCount
    is_smaller: bool
    losses: tuple[Loss, ...]
    losses_left: int


@dataclass(frozen=True, kw_only=True)
class Rail:
    stops: tuple[Stop, ...]
    wire: WirePane | None
    compacted: CompactedPane | None

    @property
    def shows_receipt(self) -> bool:
        return self.wire is None and self.compacted is None


@dataclass(frozen=True)
class _Way:
    """One call, and which of its forms the address asks for. `asked` is the wire of the right half, if any."""

    surfaces: CallEvidence
    query: QueryDict
    envelope: CanonicalResult

    @property
    def receipt(self) -> Receipt | None:
        return self.surfaces.halves.receipt

    @property
    def right(self) -> str:
        return self.query.get("right", "")

    @property
    def asked(self) -> Transport | None:
        return next((one for one in TRANSPORTS if self.right == WIRE + one.name), None)

    def address(self, **changes: str | None) -> str:
        """This page with one half changed, everything else of the address kept."""
        changed = self.query.copy()
        for name, value in changes.items():
            changed.pop(name, None)
            if value is not None:
                changed[name] = value
        return f"?{changed.urlencode()}"


def rail(surfaces: CallEvidence, query: QueryDict) -> Rail:
    """The right half shows a wire or the compacted form where `?right=` names one that there is."""
    way = _Way(surfaces, query, surfaces.envelope)
    compacted = compact(way.envelope, 0)
    stops = (_complete(way), _canonical(way), _receipt(way), _wire(way), _compacted(way, compacted))
    return Rail(
        stops=tuple(replace(stop, number=number) for number, stop in enumerate(stops, 1)),
        wire=_wire_pane(way),
        compacted=_compacted_pane(surfaces, compacted) if way.right == COMPACTED else None,
    )


def _complete(way: _Way) -> Stop:
    raw = way.surfaces.result
    if raw is None:
        return Stop(name="complete", title="Complete output", note="not recorded")
    is_long = len(raw) > COUNTED
    estimate = TokenCount(-(-len(raw) // CHARACTERS_PER_TOKEN), "bytes/4", "estimate")
    return Stop(
        name="complete",
        title="Complete output",
        href=way.address(left="recorded"),
        bytes=len(raw),
        tokens=estimate if is_long else way.surfaces.tokens(raw.decode("utf-8", "replace")),
        note="" if way.surfaces.call.result_fidelity == "structured" else "as far as recorded",
        is_current=way.query.get("left") == "recorded",
    )


def _canonical(way: _Way) -> Stop:
    raw = way.surfaces.canonical
    return Stop(
        name="canonical",
        title="Canonical",
        href=way.address(left=None),
        bytes=len(raw),
        tokens=way.surfaces.tokens(raw.decode()),
        is_current=way.query.get("left") != "recorded" or way.surfaces.result is None,
    )


def _receipt(way: _Way) -> Stop:
    if way.receipt is None:
        return Stop(name="receipt", title="Receipt", note="not recorded")
    return Stop(
        name="receipt",
        title="Receipt",
        href=way.address(right=None),
        bytes=way.surfaces.receipt_bytes,
        tokens=way.surfaces.receipt_tokens,
        is_current=way.asked is None and way.right != COMPACTED and not requested_variant(way.query),
    )


def _wire(way: _Way) -> Stop:
    """In numbers the provider that is looked at, else the first. Its tokens are those of the text in it."""
    if way.receipt is None:
        return Stop(name="wire", title="Wire", note="no receipt to send")
    wire = _wire_of(way.asked or TRANSPORTS[0], way, way.receipt)
    return Stop(
        name="wire",
        title="Wire",
        href=wire.href,
        bytes=None if wire.body is None else len(wire.body),
        tokens=way.surfaces.receipt_tokens,
        note="not carried" if wire.refusal else wire.title,
        is_current=way.asked is not None,
    )


def _compacted(way: _Way, compacted: Compacted) -> Stop:
    text = recap(compacted.canonical).text
    return Stop(
        name=COMPACTED,
        title="Compacted",
        href=way.address(right=COMPACTED),
        bytes=utf8_length(text),
        tokens=way.surfaces.tokens(text),
        is_current=way.right == COMPACTED,
    )


def _wire_pane(way: _Way) -> WirePane | None:
    if way.receipt is None or way.asked is None:
        return None
    wires = {one.name: _wire_of(one, way, way.receipt) for one in TRANSPORTS}
    shown = wires[way.asked.name]
    return WirePane(
        shown=shown,
        choices=tuple(wires.values()),
        window=None if shown.body is None else json_markup.rest(json_markup.pretty(shown.body), 0, FIRST_CHARS),
    )


def _wire_of(transport: Transport, way: _Way, receipt: Receipt) -> Wire:
    body, refusal = None, ""
    try:
        body = _encoded(transport, way.surfaces, receipt, way.envelope)
    except UnsupportedPart as error:
        refusal = str(error)
    return Wire(
        name=transport.name,
        title=transport.title,
        href=way.address(right=WIRE + transport.name),
        body=body,
        refusal=refusal,
        is_current=way.asked is transport,
    )


def _encoded(transport: Transport, surfaces: CallEvidence, receipt: Receipt, envelope: CanonicalResult) -> bytes:
    return dump_json(transport.encode(receipt, envelope, CallIds(provider=surfaces.call.external_id)))


def _compacted_pane(surfaces: CallEvidence, compacted: Compacted) -> CompactedPane:
    spoken = recap(compacted.canonical)
    tokens = surfaces.tokens(spoken.text)
    sent = surfaces.halves.receipt
    return CompactedPane(
        window=receipt_window(spoken, Links({}), 0, FIRST_CHARS),
        bytes=utf8_length(spoken.text),
        tokens=tokens,
        is_smaller=sent is None or tokens.count < surfaces.receipt_tokens.count,
        losses=tuple(
            Loss(pointer=one.pointer, size=one.size, unit="members" if one.kind == "members" else "characters")
            for one in compacted.dropped[:LOSSES_SHOWN]
        ),
        losses_left=max(0, len(compacted.dropped) - LOSSES_SHOWN),
    )


def wire_text(transport: Transport, surfaces: CallEvidence) -> str | None:
    """The body as JSON; None where there is nothing to send, or the provider cannot carry it."""
    receipt = surfaces.halves.receipt
    if receipt is None:
        return None
    try:
        return _encoded(transport, surfaces, receipt, surfaces.envelope).decode()
    except UnsupportedPart:
        return None


def compacted_text(surfaces: CallEvidence) -> str:
    return recap(compact(surfaces.envelope, 0).canonical).text


FORMS: dict[str, tuple[str, Callable[[CallEvidence], str | None]]] = {
    COMPACTED: ("text/plain", compacted_text),
    **{WIRE + one.name: ("application/json", partial(wire_text, one)) for one in TRANSPORTS},
}
