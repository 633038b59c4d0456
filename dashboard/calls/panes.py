"""The two halves and the arguments as panes: a bounded first window, what it measures, what is left.

One function makes each pane whole for the Call page, another a later window of it for `call-half`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Literal

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity, result_fidelity
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, NEXT_CHARS, TextChunk, text_chunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from envelopes.schema.receipt import Receipt
from envelopes.text.pointer import text_at
from envelopes.text.tokens import TokenCount

ARGS_FIRST = 8 * 1024
FIELDS_SHOWN = 60
NAMED = {"canonical": "data-pointer", "recorded": "data-recorded", "args": "data-args"}
TITLES = {
    "args": "Arguments",
    "canonical": "Canonical result",
    "recorded": "Result as recorded",
    "receipt": "Receipt",
}
SPOKEN_ARGS = {"command": "/command"}  # by family: the argument that is text for a person

Half = Literal["canonical", "recorded", "receipt", "args"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """`bytes` are UTF-8 as stored, `lines` as shown."""

    bytes: int
    lines: int
    tokens: TokenCount | None


@dataclass(frozen=True, kw_only=True)
class JsonPane:
    half: Half
    window: TextChunk
    size: Size
    fidelity: Fidelity | None = None
    spoken: TextChunk | None = None
    spoken_pointer: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class HalfWindow:
    """A later window of one half; `shown` is whichever of the two there is."""

    half: Half
    title: str
    shown: TextChunk | ReceiptWindow
    json: TextChunk | None
    receipt: ReceiptWindow | None


@dataclass(frozen=True, kw_only=True)
class Share:
    """Of how many characters of the receipt one knows where they come from; `total` are those looked at.

    Not `is_whole`: they are the first of more.
    """

    result: int
    args: int
    total: int
    is_whole: bool = True

    @property
    def own(self) -> int:
        return self.total - self.result - self.args


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field that became characters of the receipt; `pointer` is the canonical one where there is one."""

    document: str
    pointer: str
    characters: int

    @property
    def named(self) -> str:
        return NAMED[self.document]

    @property
    def title(self) -> str:
        return self.pointer or "(the whole)"


@dataclass(frozen=True, kw_only=True)
class ReceiptPane:
    window: ReceiptWindow
    size: Size
    fidelity: Fidelity
    share: Share
    fields: tuple[Field, ...]
    fields_left: int
    is_mixed: bool  # more than one part, or a part that is no text
    spaces: bool


def half_text(surfaces: CallEvidence, half: Half) -> str:
    """The whole text of a half, as its windows in a row show it."""
    match half:
        case "canonical":
            return json_markup.pretty(surfaces.canonical)
        case "recorded":
            return json_markup.pretty(surfaces.result) if surfaces.result is not None else ""
        case "args":
            return json_markup.pretty(surfaces.args)
        case "receipt":
            return surfaces.receipt_text


def half_window(surfaces: CallEvidence, half: Half, start: int, *, spaces: bool) -> HalfWindow:
    """The window of a half that begins at character `start`."""
    if half == "receipt":
        receipt = surfaces.halves.receipt or Receipt(())
        links = Links(surfaces.halves.reading.links, surfaces.halves.reading.slices)
        shown = receipt_window(receipt, links, min(start, len(receipt.text)), NEXT_CHARS, spaces=spaces)
        return HalfWindow(half=half, title=TITLES[half], shown=shown, json=None, receipt=shown)
    text = half_text(surfaces, half)
    window = json_markup.rest(text, min(start, len(text)), NEXT_CHARS)
    return HalfWindow(half=half, title=TITLES[half], shown=window, json=window, receipt=None)


def canonical_pane(surfaces: CallEvidence) -> JsonPane:
    raw = surfaces.canonical
    text = json_markup.pretty(raw)
    stale = surfaces.projection is not None and surfaces.projection.mapping != surfaces.halves.mapping
    note = surfaces.halves.note
    if stale and surfaces.projection is not None:
        older = f"Read with {surfaces.projection.mapping}; today it would be {surfaces.halves.mapping}."
        note = f"{older} {note}".strip()
    return JsonPane(
        half="canonical",
        window=json_markup.head(text, FIRST_CHARS, NAMED["canonical"]),
        size=_size(raw, text, surfaces.tokens(raw.decode())),
        fidelity=result_fidelity(surfaces.call.result_fidelity),
        note=note,
    )


def recorded_pane(surfaces: CallEvidence) -> JsonPane:
    raw = surfaces.result or b""
    text = half_text(surfaces, "recorded")
    return JsonPane(
        half="recorded",
        window=json_markup.head(text, FIRST_CHARS, NAMED["recorded"]),
        size=_size(raw, text, None),
        fidelity=result_fidelity(surfaces.call.result_fidelity),
    )


def args_pane(surfaces: CallEvidence) -> JsonPane:
    raw = surfaces.args
    text = json_markup.pretty(raw)
    pointer = SPOKEN_ARGS.get(surfaces.halves.family, "")
    spoken = text_at(surfaces.halves.evidence.args, pointer) if pointer else None
    return JsonPane(
        half="args",
        window=json_markup.head(text, ARGS_FIRST, NAMED["args"]),
        size=_size(raw, text, None),
        spoken=text_chunk(spoken, 0, ARGS_FIRST) if spoken else None,
        spoken_pointer=pointer,
    )


def receipt_pane(surfaces: CallEvidence, *, spaces: bool) -> ReceiptPane | None:
    """None when no receipt was recorded."""
    receipt = surfaces.halves.receipt
    if receipt is None:
        return None
    text = surfaces.receipt_text
    links = Links(surfaces.halves.reading.links, surfaces.halves.reading.slices)
    looked_at = min(len(text), len(text) if surfaces.halves.aligned is None else surfaces.halves.aligned)
    characters = _characters(receipt, looked_at, links)
    first = islice(characters.items(), FIELDS_SHOWN)
    shown = surfaces.chosen.get("receipt")
    return ReceiptPane(
        window=receipt_window(receipt, links, 0, FIRST_CHARS, spaces=spaces),
        size=Size(bytes=surfaces.receipt_bytes, lines=_lines(text), tokens=surfaces.receipt_tokens),
        fidelity=receipt_fidelity(shown.fidelity if shown else "absent"),
        share=_share(characters, looked_at, is_whole=looked_at == len(text)),
        fields=tuple(_field(*source, count, links) for source, count in first),
        fields_left=max(0, len(characters) - FIELDS_SHOWN),
        is_mixed=len(receipt.parts) > 1 or (text == "" and bool(receipt.parts)),
        spaces=spaces,
    )


def _size(raw: bytes, text: str, tokens: TokenCount | None) -> Size:
    return Size(bytes=len(raw), lines=_lines(text), tokens=tokens)


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _characters(receipt: Receipt, looked_at: int, links: Links) -> dict[tuple[str, str], int]:
    """Of the first `looked_at`, by document and pointer, in the order in which they first appear."""
    counts: dict[tuple[str, str], int] = {}
    has_slices = bool(links.slices)
    for segment in receipt.beginning(looked_at):
        source = segment.source
        if source is not None:
            field = links.sliced(source) if has_slices else None
            key = (source.document, source.pointer) if field is None else ("canonical", field)
            counts[key] = counts.get(key, 0) + len(segment.text)
    return counts


def _share(characters: dict[tuple[str, str], int], total: int, *, is_whole: bool) -> Share:
    args = sum(count for (document, _), count in characters.items() if document == "args")
    return Share(result=sum(characters.values()) - args, args=args, total=total, is_whole=is_whole)


def _field(document: str, pointer: str, characters: int, links: Links) -> Field:
    canonical = links.canonical(pointer) if document == "complete" else None
    if canonical is not None:
        return Field(document="canonical", pointer=canonical, characters=characters)
    return Field(document="recorded" if document == "complete" else document, pointer=pointer, characters=characters)
