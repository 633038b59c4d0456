"""The two halves and the arguments of a call as panes: a bounded first chunk, its measures, and what is not shown.

A pane is built whole for the Call page; a later chunk of a half comes by itself for `call-half`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity, result_fidelity
from dashboard.text import json_markup
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, NEXT_CHARS, TextChunk, text_chunk
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import text_at
from envelopes.text.tokens import TokenCount

ARGS_FIRST_CHARS = 8 * 1024
MAX_FIELDS = 60
LEAST_LINE = 16  # characters of a line that is looked for in the result
MAX_SEARCHED = 20_000_000  # characters, of all lines together
_LINE_NUMBER = re.compile(r"^[0-9]{1,12}(?:→|\t|:)")
# The attribute that carries the pointer of a value, by document.
POINTER_ATTRIBUTES = {"canonical": "data-pointer", "recorded": "data-recorded", "args": "data-args"}
TITLES = {
    "args": "Arguments",
    "canonical": "Canonical result",
    "recorded": "Result as recorded",
    "receipt": "Receipt",
}
TEXT_ARGUMENTS = {"command": "/command"}  # by family: the argument that is shown as text, above the JSON

Half = Literal["canonical", "recorded", "receipt", "args"]


@dataclass(frozen=True, kw_only=True)
class TextSize:
    """`bytes` are UTF-8 as stored, `lines` as shown."""

    bytes: int
    lines: int
    tokens: TokenCount | None = None


@dataclass(frozen=True, kw_only=True)
class JsonPane:
    half: Half
    window: TextChunk
    size: TextSize
    fidelity: Fidelity | None = None
    text: TextChunk | None = None
    text_pointer: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class HalfChunk:
    """A later chunk of one half: `json` or `receipt`; `shown` is whichever there is."""

    half: Half
    title: str
    json: TextChunk | None = None
    receipt: ReceiptChunk | None = None

    @property
    def shown(self) -> TextChunk | ReceiptChunk | None:
        return self.json or self.receipt


@dataclass(frozen=True, kw_only=True)
class LinkedShare:
    """Characters of the receipt that are linked to a source.

    `total` counts those examined; `is_whole` is false when only the beginning was. `is_in_result`: lines that are not
    linked occur in the result all the same, or there are too many to look for, so that nobody may say who wrote them.
    """

    result: int
    args: int
    total: int
    is_whole: bool = True
    is_in_result: bool = False

    @property
    def unlinked(self) -> int:
        return self.total - self.result - self.args


@dataclass(frozen=True, kw_only=True)
class LinkedField:
    """A field of which characters are in the receipt; `pointer` is the canonical one where there is one."""

    document: str
    pointer: str
    characters: int

    @property
    def attribute(self) -> str:
        return POINTER_ATTRIBUTES[self.document]


@dataclass(frozen=True, kw_only=True)
class ReceiptPane:
    """`is_mixed`: more than one part, or a part that is no text."""

    window: ReceiptChunk
    size: TextSize
    fidelity: Fidelity
    share: LinkedShare
    fields: tuple[LinkedField, ...]
    unlisted_fields: int
    is_mixed: bool
    spaces: bool


def half_text(evidence: CallEvidence, half: Half) -> str:
    """The whole text of a half, as its chunks in a row show it."""
    match half:
        case "canonical":
            return json_markup.indent_json(evidence.canonical)
        case "recorded":
            return json_markup.indent_json(evidence.result) if evidence.result is not None else ""
        case "args":
            return json_markup.indent_json(evidence.args)
        case "receipt":
            return evidence.receipt_text


def build_half_chunk(evidence: CallEvidence, half: Half, start: int, *, spaces: bool) -> HalfChunk:
    """The chunk of a half that begins at character `start`."""
    if half == "receipt":
        receipt = evidence.halves.receipt or Receipt(())
        start = min(start, len(receipt.text))
        chunk = receipt_chunk(receipt, _field_links(evidence), start, NEXT_CHARS, spaces=spaces)
        return HalfChunk(half=half, title=TITLES[half], receipt=chunk)
    text = half_text(evidence, half)
    json_chunk = json_markup.later_chunk(text, min(start, len(text)), NEXT_CHARS)
    return HalfChunk(half=half, title=TITLES[half], json=json_chunk)


def build_canonical_pane(evidence: CallEvidence) -> JsonPane:
    raw = evidence.canonical
    text = half_text(evidence, "canonical")
    notes = [evidence.halves.note]
    if evidence.projection is not None and evidence.projection.mapping != evidence.halves.mapping:
        older = f"Read with {evidence.projection.mapping}; today it would be {evidence.halves.mapping}."
        notes.insert(0, older)
    return JsonPane(
        half="canonical",
        window=json_markup.first_chunk(text, FIRST_CHARS, POINTER_ATTRIBUTES["canonical"]),
        size=TextSize(bytes=len(raw), lines=count_lines(text), tokens=evidence.tokens(raw.decode())),
        fidelity=result_fidelity(evidence.call.result_fidelity),
        note=" ".join(filter(None, notes)),
    )


def build_recorded_pane(evidence: CallEvidence) -> JsonPane:
    text = half_text(evidence, "recorded")
    return JsonPane(
        half="recorded",
        window=json_markup.first_chunk(text, FIRST_CHARS, POINTER_ATTRIBUTES["recorded"]),
        size=TextSize(bytes=len(evidence.result or b""), lines=count_lines(text)),
        fidelity=result_fidelity(evidence.call.result_fidelity),
    )


def build_args_pane(evidence: CallEvidence) -> JsonPane:
    text = half_text(evidence, "args")
    pointer = TEXT_ARGUMENTS.get(evidence.halves.family, "")
    argument = text_at(evidence.halves.evidence.args, pointer) if pointer else None
    return JsonPane(
        half="args",
        window=json_markup.first_chunk(text, ARGS_FIRST_CHARS, POINTER_ATTRIBUTES["args"]),
        size=TextSize(bytes=len(evidence.args), lines=count_lines(text)),
        text=text_chunk(argument, 0, ARGS_FIRST_CHARS) if argument else None,
        text_pointer=pointer,
    )


def build_receipt_pane(evidence: CallEvidence, *, spaces: bool) -> ReceiptPane | None:
    """None when no receipt was recorded."""
    receipt = evidence.halves.receipt
    if receipt is None:
        return None
    text = evidence.receipt_text
    links = _field_links(evidence)
    examined = len(text) if evidence.halves.aligned is None else min(len(text), evidence.halves.aligned)
    characters = _count_characters(receipt, examined, links)
    from_args = sum(count for (document, _), count in characters.items() if document == "args")
    fields = [_build_field(document, pointer, count, links) for (document, pointer), count in characters.items()]
    chosen = evidence.chosen.get("receipt")
    return ReceiptPane(
        window=receipt_chunk(receipt, links, 0, FIRST_CHARS, spaces=spaces),
        size=TextSize(bytes=evidence.receipt_bytes, lines=count_lines(text), tokens=evidence.receipt_tokens),
        fidelity=receipt_fidelity(chosen.fidelity if chosen else "absent"),
        share=LinkedShare(
            result=sum(characters.values()) - from_args,
            args=from_args,
            total=examined,
            is_whole=examined == len(text),
            is_in_result=_occurs_in_result(receipt, examined, evidence),
        ),
        fields=tuple(fields[:MAX_FIELDS]),
        unlisted_fields=max(0, len(fields) - MAX_FIELDS),
        is_mixed=len(receipt.parts) > 1 or (text == "" and bool(receipt.parts)),
        spaces=spaces,
    )


def count_lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _field_links(evidence: CallEvidence) -> FieldLinks:
    return FieldLinks(evidence.halves.reading.links, evidence.halves.reading.slices)


def _count_characters(receipt: Receipt, examined: int, links: FieldLinks) -> dict[tuple[str, str], int]:
    """Characters of the receipt by document and pointer of their source, in the order of their first appearance."""
    counts: dict[tuple[str, str], int] = {}
    has_slices = bool(links.slices)
    for segment in receipt.beginning(examined):
        source = segment.source
        if source is not None:
            field = links.sliced(source) if has_slices else None
            key = (source.document, source.pointer) if field is None else ("canonical", field)
            counts[key] = counts.get(key, 0) + len(segment.text)
    return counts


def _occurs_in_result(receipt: Receipt, examined: int, evidence: CallEvidence) -> bool:
    """True where a line without a link is in the recorded result, or where looking for all of them takes too long.

    A line of a few characters occurs by chance. Before the line there may be its number.
    """
    unlinked = [segment.text for segment in receipt.beginning(examined) if segment.source is None]
    lines = {line.strip() for text in unlinked if len(text) >= LEAST_LINE for line in text.splitlines()}
    lines |= {_LINE_NUMBER.sub("", line) for line in lines}
    long_lines = [line for line in lines if len(line) >= LEAST_LINE]
    if not long_lines:
        return False
    result = "\n".join(_strings(evidence.halves.evidence.result))
    return len(long_lines) * len(result) > MAX_SEARCHED or any(line in result for line in long_lines)


def _strings(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict() | list():
            for child in value.values() if isinstance(value, dict) else value:
                yield from _strings(child)


def _build_field(document: str, pointer: str, characters: int, links: FieldLinks) -> LinkedField:
    if document == "complete":
        canonical = links.canonical(pointer)
        if canonical is None:
            return LinkedField(document="recorded", pointer=pointer, characters=characters)
        document, pointer = "canonical", canonical
    return LinkedField(document=document, pointer=pointer, characters=characters)
