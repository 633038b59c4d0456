"""The two halves and the arguments of a call as panes: a bounded first chunk, its measures, and what is not shown.

A pane is built whole for the Call page; a later chunk of a half comes by itself for `call-half`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypedDict

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity, result_fidelity
from dashboard.text import json_markup
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, NEXT_CHARS, TextChunk, text_chunk
from envelopes.families import FALLBACK
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import iterate_scalars, iterate_strings, resolve, text_at
from envelopes.text.tokens import TokenCount

ARGS_FIRST_CHARS = 8 * 1024
MAX_FIELDS = 60
MAX_OWN_CUTS = 3  # fields that are named
LEAST_LINE = 16  # characters of a line that is looked for in the result
MOST_VALUES = 5_000  # of a result, which are looked for in the receipt
MAX_SEARCHED = 20_000_000  # characters, of all lines together
_LINE_NUMBER = re.compile(r"^[0-9]{1,12}(?:→|\t|:)")
# The attribute that carries the pointer of a value, by document.
POINTER_ATTRIBUTES = {
    "canonical": "data-pointer",
    "envelope": "data-pointer",
    "recorded": "data-recorded",
    "args": "data-args",
}
TITLES = {
    "args": "Arguments",
    "canonical": "Canonical result",
    "envelope": "Envelope as stored",
    "recorded": "Result as recorded",
    "receipt": "Receipt",
}
TEXT_ARGUMENTS = {"command": "/command"}  # by family: the argument that is shown as text, above the JSON

Half = Literal["canonical", "envelope", "recorded", "receipt", "args"]


@dataclass(frozen=True, kw_only=True)
class TextSize:
    """`bytes` are UTF-8 as stored, `lines` as shown."""

    bytes: int
    lines: int
    tokens: TokenCount | None = None


@dataclass(frozen=True, kw_only=True)
class JsonPane:
    """`cuts` are sentences about what our own projection shortened in the stored envelope."""

    half: Half
    window: TextChunk
    size: TextSize
    fidelity: Fidelity | None = None
    text: TextChunk | None = None
    text_pointer: str = ""
    note: str = ""
    cuts: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        if self.half == "envelope":
            return "The envelope as stored"
        if self.fidelity and self.fidelity.name in ("parsed_from_receipt", "absent"):
            return self.fidelity.heading
        return "What the tool returned"


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


class LinkedField(TypedDict):
    """A field of which characters are in the receipt; `pointer` is the canonical one where there is one.

    A dict, because templates look up keys first: a page has 60 of them.
    """

    document: str
    attribute: str
    pointer: str
    characters: int


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
            return json_markup.indent_json(evidence.complete_json)
        case "envelope":
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


def choose_left(evidence: CallEvidence, form: str) -> Literal["canonical", "envelope", "recorded"]:
    """The form that the address asks for; without one the canonical result, or the recorded one where that is slow."""
    if form == "envelope":
        return "envelope"
    wants_recorded = form == "recorded" or (form != "canonical" and evidence.is_slow_to_complete)
    return "recorded" if wants_recorded and evidence.result is not None else "canonical"


def build_left_pane(evidence: CallEvidence, form: str) -> JsonPane:
    half = choose_left(evidence, form)
    return build_recorded_pane(evidence) if half == "recorded" else build_canonical_pane(evidence, half)


def build_canonical_pane(evidence: CallEvidence, half: Literal["canonical", "envelope"] = "canonical") -> JsonPane:
    """The canonical result as far as it was recorded, or the envelope that is stored, with our cuts."""
    is_complete = half == "canonical" and evidence.is_bounded
    raw = evidence.complete_json if is_complete else evidence.canonical
    text = half_text(evidence, half)
    return JsonPane(
        half=half,
        window=json_markup.first_chunk(text, FIRST_CHARS, POINTER_ATTRIBUTES[half]),
        size=TextSize(
            bytes=len(raw),
            lines=count_lines(text),
            tokens=None if is_complete else evidence.tokens(raw.decode()),  # the model never gets the complete one
        ),
        fidelity=result_fidelity(evidence.call.result_fidelity, has_recorded=evidence.result is not None),
        note=" ".join(_describe_reading(evidence, is_complete=is_complete)),
        cuts=tuple(_describe_own_cuts(evidence)) if evidence.is_bounded else (),
    )


def _describe_reading(evidence: CallEvidence, *, is_complete: bool) -> Iterator[str]:
    today, stored = evidence.halves.mapping, evidence.projection
    if stored is not None and stored.mapping != today:
        if is_complete:
            yield f"Read with {today}; the stored envelope was read with {stored.mapping}."
        else:
            yield f"Read with {stored.mapping}; today it would be {today}."
    if evidence.answer is not None and evidence.result is None:
        yield "Read out of the first receipt: the one in view took its place."
    if evidence.halves.note:
        yield evidence.halves.note


def _describe_own_cuts(evidence: CallEvidence) -> Iterator[str]:
    """Describes what the envelope lacks, a sentence for each of the first fields."""
    document = evidence.envelope.to_json()
    for field_cut in evidence.own_cuts[:MAX_OWN_CUTS]:
        cut, name = field_cut.cut, field_cut.pointer.removeprefix("/result/")
        unit = "items" if _is_list(document, field_cut.pointer) else cut.unit
        yield f"Counterfoil keeps {cut.shown_count:,} of {cut.total:,} {unit} of {name} in the envelope."
    if len(evidence.own_cuts) > MAX_OWN_CUTS:
        yield f"It keeps a part of {len(evidence.own_cuts) - MAX_OWN_CUTS:,} more fields."
    if not evidence.own_cuts:
        yield "Counterfoil keeps a part of the result in the envelope."


def _is_list(document: JsonValue, pointer: str) -> bool:
    try:
        return isinstance(resolve(document, pointer), list)
    except KeyError:
        return False


def build_recorded_pane(evidence: CallEvidence) -> JsonPane:
    text = half_text(evidence, "recorded")
    return JsonPane(
        half="recorded",
        window=json_markup.first_chunk(text, FIRST_CHARS, POINTER_ATTRIBUTES["recorded"]),
        size=TextSize(bytes=len(evidence.result or b""), lines=count_lines(text)),
        fidelity=result_fidelity(evidence.call.result_fidelity, has_recorded=evidence.result is not None),
        cuts=tuple(_describe_own_cuts(evidence)) if evidence.is_bounded else (),
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
    listed = islice(characters.items(), MAX_FIELDS)
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
        fields=tuple(_build_field(document, pointer, count, links) for (document, pointer), count in listed),
        unlisted_fields=max(0, len(characters) - MAX_FIELDS),
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
    is_unknown = evidence.halves.family == FALLBACK[0].name and not any(segment.source for segment in receipt.segments)
    if is_unknown and _has_value("\n".join(unlinked), evidence.halves.evidence.result):
        return True
    lines = {line.strip() for text in unlinked if len(text) >= LEAST_LINE for line in text.splitlines()}
    lines |= {_LINE_NUMBER.sub("", line) for line in lines}
    long_lines = [line for line in lines if len(line) >= LEAST_LINE]
    if not long_lines:
        return False
    raw = evidence.result or b""
    if len(long_lines) * len(raw) > MAX_SEARCHED:
        return True
    if any(escape in raw for escape in (b"\\u", b"\\/")):  # a text may be written in several ways
        text = "\n".join(iterate_strings(evidence.halves.evidence.result))
        return any(line in text for line in long_lines)
    text = raw.decode("utf-8", "replace")
    return any(json.dumps(line, ensure_ascii=False)[1:-1] in text for line in long_lines)


def _has_value(text: str, result: JsonValue) -> bool:
    """True where a line of a string of the result, or a number, is in the text, or where there are too many of them.

    How the runtime of a tool that no family knows writes its results is not known: “12 km/h” may come from a 12.
    """
    scalars = list(islice(iterate_scalars(result), MOST_VALUES + 1))
    values = [str(value) for _, value in scalars if value is not None and not isinstance(value, bool)]
    lines = {line.strip() for value in values for line in value.split("\n")} - {""}
    if len(scalars) > MOST_VALUES or len(lines) * len(text) > MAX_SEARCHED:
        return bool(text.strip())
    return any(line in text and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", text) for line in lines)


def _build_field(document: str, pointer: str, characters: int, links: FieldLinks) -> LinkedField:
    if document == "complete":
        canonical = links.canonical(pointer)
        document, pointer = ("recorded", pointer) if canonical is None else ("canonical", canonical)
    attribute = POINTER_ATTRIBUTES[document]
    return LinkedField(document=document, attribute=attribute, pointer=pointer, characters=characters)
