"""From the bytes that a source recorded of one call to both of its halves.

Beside `envelopes/__init__` this is the only module outside `families/` that knows the registry: it
finds the family of a foreign tool, lets it read the recorded result, projects that, and aligns the
recorded receipt. Nothing here raises on odd evidence: a mapping that fails on one call falls back
to `external`, and `Halves.note` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias

import msgspec

from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.spans import Span, find_cut, to_segments, whole_cut
from envelopes.families import FALLBACK
from envelopes.families.base import Family
from envelopes.families.registry import family, find_mapping
from envelopes.lint.model import Finding, LintInput, Shortened
from envelopes.lint.rules import lint
from envelopes.pipeline.project import Projection, project
from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, text_part
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.storage.file_store import ArtifactSink, MemorySink
from envelopes.text.pointer import text_at
from envelopes.text.preview import Cut
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_beginning, parse_checked

RecordedPart: TypeAlias = str | ImagePart | OtherPart  # a part of a receipt before it is aligned
LIST_ROOM = 3  # bytes of a recorded list that are read for each character of the receipt that is shown
LEAST_MEMBER = 64  # characters that lint takes an element of a list for, at the least: it looks at no more of them
StoredEnvelopes: TypeAlias = Callable[[str], CanonicalResult | None]  # the envelope that is kept under a mapping


class OutputCut(msgspec.Struct, frozen=True):
    """Which lines of one recorded output field the receipt shows. `cut.shown` counts from 0."""

    field: OutputField
    cut: Cut


class Halves(msgspec.Struct, frozen=True, kw_only=True):
    """`receipt` is aligned: sources point into the recorded result (`complete`) or the args."""

    family: str
    mapping: str
    evidence: Evidence
    reading: Reading
    projection: Projection
    receipt: Receipt | None
    outputs: tuple[OutputCut, ...] = ()
    note: str = ""
    aligned: int | None = None  # so many characters of the receipt at its beginning; None: all
    goes_on: bool = False  # there are more links in each part of the receipt, behind those characters


def read_halves(
    *,
    agent: str,
    tool: str,
    args: bytes,
    result: bytes | None,
    content: bytes | None,
    is_error: bool | None,
    sink: ArtifactSink | None = None,
    stored: StoredEnvelopes | None = None,
    is_linked: bool = True,
    first: int | None = None,
) -> Halves:
    """`content` is the receipt's recorded JSON. Undecodable surfaces are treated as absent and noted. All three
    lie within lines that `untrusted.admit` let in.

    An envelope that is `stored` under the mapping is taken as it is and not made again. Not `is_linked`:
    the receipt's characters come without their sources, for who only counts them.

    `first` is for who has it from the import that the receipt holds all lines of every output: with an
    envelope stored, sources are sought for what begins in that many characters, and behind them for nothing.
    """
    notes: list[str] = []
    parts = parse_parts(_tamed(content, "receipt", notes)) if content is not None else None
    evidence = Evidence(
        agent=agent,
        tool=tool,
        args=_tamed(args, "args", notes),
        has_result=result is not None,
        receipt_text=None if parts is None else "".join(part for part in parts if isinstance(part, str)),
        is_error=is_error,
    )
    kept = cache(stored or _nothing_stored)

    def read(value: JsonValue) -> Halves:
        seen = msgspec.structs.replace(evidence, result=value)
        return _halves(seen, parts, sink or MemorySink(), [*notes], kept, is_linked=is_linked, first=first)

    begun = _begun(result, first, _lists(agent, tool, kept)) if result and first else None
    if begun is not None:
        found = read(begun)
        if found.goes_on:
            return found
    return read(_tamed(result, "result", notes) if result is not None else None)


def _lists(agent: str, tool: str, stored: StoredEnvelopes) -> tuple[str, ...]:
    """The tool's lists where their beginning may be enough: its envelope need not be made."""
    owner, row = find_mapping(agent, tool)
    return row.lists if row.lists and stored(_mapping(owner, row)) is not None else ()


def _begun(result: bytes, first: int, lists: tuple[str, ...]) -> JsonValue:
    if not lists or len(result) <= LIST_ROOM * first:
        return None
    try:
        return parse_beginning(result, lists, LIST_ROOM * first, first // LEAST_MEMBER + 1)
    except Untrusted:
        return None


def lint_recorded(
    halves: Halves, *, has_artifact: Callable[[str], bool] | None = None, is_whole: bool = True
) -> tuple[Finding, ...]:
    """What is wrong with the receipt as it was recorded; nothing when none was. Not `is_whole`: it goes on."""
    if halves.receipt is None:
        return ()
    pair = LintInput(
        canonical=halves.projection.canonical,
        receipt=halves.receipt,
        is_recorded=True,
        is_whole=is_whole,
        complete=halves.evidence.result,
        cuts=tuple(Shortened(one.field.pointer, one.cut, "complete") for one in halves.outputs),
        has_artifact=has_artifact,
    )
    return lint(pair, family(halves.family).lint)


def parse_parts(content: JsonValue) -> tuple[RecordedPart, ...]:
    """A recorded receipt's parts in order: text as it stands, images and the rest by themselves."""
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return (_other(content),)
    return tuple(_part(block) for block in content)


def _part(block: JsonValue) -> RecordedPart:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return _other(block)
    text, source = block.get("text"), block.get("source")
    if block.get("type") == "text" and isinstance(text, str):
        return text
    if block.get("type") == "image" and isinstance(source, dict) and isinstance(source.get("data"), str):
        data: str = source["data"]
        return ImagePart(str(source.get("media_type", "")), data, len(data) * 3 // 4)
    return _other(block)


def _other(value: JsonValue) -> OtherPart:
    kind = str(value.get("type", "object")) if isinstance(value, dict) else type(value).__name__
    return OtherPart(kind, dump_json(value).decode())


def _tamed(raw: bytes, surface: str, notes: list[str]) -> JsonValue:
    try:
        return parse_checked(raw)
    except Untrusted as error:
        notes.append(f"{surface}: {error.reason}")
        return None


def _halves(
    evidence: Evidence,
    parts: tuple[RecordedPart, ...] | None,
    sink: ArtifactSink,
    notes: list[str],
    stored: StoredEnvelopes,
    *,
    is_linked: bool,
    first: int | None,
) -> Halves:
    """The family's own reading, else external's, else external's of nothing: a call is never lost to a mapping."""
    for owner, row in (find_mapping(evidence.agent, evidence.tool), FALLBACK):
        try:
            applied = _applied(owner, row, evidence, parts or (), sink, stored, first)
            break
        except Exception as error:
            notes.append(f"{owner.name} could not read this call ({type(error).__name__}: {error})")
    else:
        nothing = msgspec.structs.replace(evidence, args=None, result=None, has_result=False, receipt_text=None)
        applied = _applied(owner, row, nothing, (), sink, stored, first)
    reading, projection, spans, cuts, until, goes_on = applied
    return Halves(
        family=owner.name,
        mapping=_mapping(owner, row),
        evidence=evidence,
        reading=reading,
        projection=projection,
        receipt=None if parts is None else _receipt(parts, (is_linked and spans) or [[] for _ in parts]),
        outputs=cuts,
        note="; ".join(notes),
        aligned=until,
        goes_on=goes_on,
    )


def _applied(
    family: Family,
    row: ToolMapping,
    evidence: Evidence,
    parts: tuple[RecordedPart, ...],
    sink: ArtifactSink,
    stored: StoredEnvelopes,
    first: int | None,
) -> tuple[Reading, Projection, list[list[Span]], tuple[OutputCut, ...], int | None, bool]:
    kept = stored(_mapping(family, row))
    until = None if kept is None else first
    reading = row.read(evidence)
    projection = Projection(kept) if kept else project(reading.complete, family, family.projection, sink)
    spans, goes_on = _aligned(row, evidence, parts, until)
    cuts = _output_cuts(evidence, reading, [one for part in spans for one in part], is_whole=until is not None)
    return reading, projection, spans, cuts, until, goes_on


def _aligned(
    row: ToolMapping, evidence: Evidence, parts: tuple[RecordedPart, ...], until: int | None
) -> tuple[list[list[Span]], bool]:
    """The spans of each part that begin before character `until` of all text, and whether each was seen to go on."""
    found: list[list[Span]] = []
    goes_on = True
    at = 0
    for part in parts:
        left = None if until is None else until - at
        if not isinstance(part, str):
            found.append([])
            continue
        if left is None or left > 0:
            taken, is_more = _taken(row.align(evidence, part), left)
            goes_on = goes_on and is_more
        else:
            taken = []
        found.append(taken)
        at += len(part)
    return found, goes_on


def _taken(spans: Iterable[Span], until: int | None) -> tuple[list[Span], bool]:
    """And whether one behind them was seen. A list stands in any order, what is yielded in the order of the text."""
    if until is None:
        return list(spans), False
    if isinstance(spans, list):
        return [one for one in spans if one.start < until], False
    found: list[Span] = []
    for one in spans:
        if one.start >= until:
            return found, True
        found.append(one)
    return found, False


def _mapping(family: Family, row: ToolMapping) -> str:
    return f"{family.name}:{row.agent}:{row.version}"


def _nothing_stored(_mapping: str) -> CanonicalResult | None:
    return None


def _receipt(parts: tuple[RecordedPart, ...], spans: list[list[Span]]) -> Receipt:
    found: list[Part] = [
        text_part(part, to_segments(part, part_spans)) if isinstance(part, str) else part
        for part, part_spans in zip(parts, spans, strict=True)
    ]
    return Receipt(tuple(found))


def _output_cuts(evidence: Evidence, reading: Reading, spans: list[Span], *, is_whole: bool) -> tuple[OutputCut, ...]:
    cuts: list[OutputCut] = []
    for field in reading.outputs:
        text = text_at(evidence.result, field.pointer)
        if text:
            own = [span for span in spans if span.document == "complete" and span.pointer == field.pointer]
            cut = whole_cut(text) if is_whole else find_cut(text, own, start=field.start)
            cuts.append(OutputCut(field, cut))
    return tuple(cuts)
