"""Reads recorded results whose fields changed from version to version of an agent.

RecordedObject  gives the fields of a recorded object by type; a field of another type reads as missing
RecordedText    the result of what no mapping knows: the recorded text, or the JSON as an outline
read_struct     reads a result struct from the fields of a recorded object; link_names gives the links of the same
tool_mapping    builds a ToolMapping that tries a failure first, then the family's reading, then RecordedText
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from envelopes.alignment.failures import align_failure, error_prefix_length, read_failure
from envelopes.alignment.gemini_receipts import untrusted_text
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.mapping import (
    Evidence,
    OutputField,
    Reading,
    ResultFidelity,
    ToolMapping,
    bounded_fidelity,
)
from envelopes.alignment.source_cuts import SourceCut, find_receipt_cuts, find_source_cuts, is_saved_result
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.schema.result import CompleteOutput, JsonValue, summarize
from envelopes.text.outline import outline_text, scalar_text


class RecordedText(msgspec.Struct, frozen=True):
    text: str


class RecordedObject(msgspec.Struct, frozen=True):
    """Reads the fields of a recorded value. `recorded` may be any JSON; only an object has fields."""

    recorded: JsonValue

    def get(self, name: str) -> JsonValue:
        return self.recorded.get(name) if isinstance(self.recorded, dict) else None

    def text(self, name: str) -> str | None:
        value = self.recorded.get(name) if isinstance(self.recorded, dict) else None
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, name: str) -> int | float | None:
        value = self.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool | None:
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def member(self, name: str) -> RecordedObject:
        return RecordedObject(self.get(name))

    def elements(self, name: str) -> list[JsonValue]:
        """The elements of a list as they were recorded."""
        value = self.get(name)
        return value if isinstance(value, list) else []

    def items(self, name: str) -> list[RecordedObject]:
        """The elements of a list as objects, each at its own index whatever its type."""
        return [RecordedObject(element) for element in self.elements(name)]

    def strings(self, name: str) -> list[str]:
        """The elements of a list as texts; an element of another type is outlined, so that indexes stay."""
        return [element if isinstance(element, str) else outline_text(element) for element in self.elements(name)]

    def has_any(self, names: tuple[str, ...]) -> bool:
        return isinstance(self.recorded, dict) and any(name in self.recorded for name in names)


Result = TypeVar("Result", bound=msgspec.Struct)


def read_struct(kind: type[Result], recorded: RecordedObject, names: Mapping[str, str], **members: Any) -> Result:
    """Reads a struct whose fields are texts, numbers, flags and lists of texts.

    `names` maps recorded names to fields; a field of another type than the struct's keeps its default. `members`
    are given as they are.
    """
    readers = _readers(kind)
    for name, field in names.items():
        if field not in members and (value := readers[field](recorded, name)) is not None:
            members[field] = value
    return kind(**members)


# A number may be an integer, so float comes before int.
_READERS: dict[type, Callable[[RecordedObject, str], Any]] = {
    str: RecordedObject.text,
    bool: RecordedObject.flag,
    float: RecordedObject.number,
    int: RecordedObject.integer,
}


@cache
def _readers(kind: type[msgspec.Struct]) -> dict[str, Callable[[RecordedObject, str], Any]]:
    return {field.name: _find_reader(field.type) for field in msgspec.structs.fields(kind)}


def _find_reader(declared: Any) -> Callable[[RecordedObject, str], Any]:
    if get_origin(declared) is list:
        return RecordedObject.strings
    kinds = get_args(declared) or (declared,)
    return next((reader for kind, reader in _READERS.items() if kind in kinds), RecordedObject.get)


def link_names(names: Mapping[str, str], recorded: str = "", canonical: str = "/result") -> dict[str, str]:
    """Links from the fields of the object at `recorded` to those of the object at `canonical`."""
    return {f"{recorded}/{name}": f"{canonical}/{field}" for name, field in names.items()}


Read = Callable[[Evidence, RecordedObject], Reading]
Align = Callable[[RecordedObject, str], Iterable[Span]]


def tool_mapping(
    *,
    agent: str,
    tools: tuple[str, ...],
    version: int,
    expects: tuple[str, ...],
    read: Read,
    align: Align,
    lists: tuple[str, ...] = (),
) -> ToolMapping:
    """Builds a mapping that also reads failures, and results that are not these tools'.

    A result that is not an object, or an object with none of the fields that `expects` names, is read as text.
    """

    def read_any(evidence: Evidence) -> Reading:
        recorded = RecordedObject(evidence.result)
        if failure := read_failure(evidence):
            return failure
        return read(evidence, recorded) if recorded.has_any(expects) else read_untyped(evidence)

    def align_any(evidence: Evidence, text: str) -> Iterable[Span]:
        recorded = RecordedObject(evidence.result)
        if read_failure(evidence):
            return align_failure(evidence, text)
        if not evidence.has_result:
            # Results repeat arguments under the same names, and so do the sentences about them.
            return link_arguments(align(RecordedObject(evidence.args), text))
        return align(recorded, text) if recorded.has_any(expects) else align_untyped(evidence, text)

    return ToolMapping(agent=agent, tools=tools, version=version, read=read_any, align=align_any, lists=lists)


def reading(
    evidence: Evidence,
    result: msgspec.Struct,
    outcome: str,
    *,
    links: Mapping[str, str],
    outputs: tuple[OutputField, ...] = (),
    fidelity: ResultFidelity = "structured",
    source_cuts: tuple[SourceCut, ...] = (),
) -> Reading:
    """The reading of a success. `outcome` describes it in one sentence and becomes the summary."""
    complete = _success(evidence, result, outcome)
    return Reading(
        build=lambda: complete,
        fidelity=bounded_fidelity(fidelity, source_cuts),
        links=links,
        outputs=outputs,
        source_cuts=source_cuts,
    )


def lazy_reading(
    evidence: Evidence, build: Callable[[], tuple[msgspec.Struct, str]], *, links: Mapping[str, str]
) -> Reading:
    """The reading of a success with a long list: `build` types it, and describes the outcome, on first use."""
    return Reading(build=lambda: _success(evidence, *build()), fidelity="structured", links=links)


def _success(evidence: Evidence, result: msgspec.Struct, outcome: str) -> CompleteOutput:
    return CompleteOutput(
        tool_name=evidence.tool,
        status="success",
        summary_text=summarize(outcome[:1_000]) or f"{evidence.tool} returned an empty result",
        result=result,
    )


def link_groups(match: re.Match[str] | None, recorded: RecordedObject, pointer: str = "") -> list[Span]:
    """Links each named group of a match to the recorded field of that name, where they are equal."""
    if match is None:
        return []
    spans = []
    for name, text in match.groupdict().items():
        start, end = match.span(name)
        value = recorded.get(name)
        if text and isinstance(value, str) and value == text:
            spans.append(Span(start, end, f"{pointer}/{name}", 0, len(text)))
        elif text and isinstance(value, int | float) and scalar_text(value) == text:
            spans.append(Span(start, end, f"{pointer}/{name}"))
    return spans


def link_arguments(spans: Iterable[Span], names: Mapping[str, str] | None = None) -> list[Span]:
    """Turns spans that were found with arguments in place of a result into spans of the arguments.

    `names` has pointers of the result whose argument has another name.
    """
    renamed = names or {}
    return [
        msgspec.structs.replace(span, pointer=renamed.get(span.pointer, span.pointer), document="args")
        for span in spans
    ]


def read_untyped(evidence: Evidence) -> Reading:
    """Reads a result of no known type: a string, other JSON, the receipt where no result was recorded, or nothing."""
    if isinstance(evidence.result, str):
        text = evidence.result
        return reading(
            evidence,
            RecordedText(text),
            _first_line(text[error_prefix_length(text) :] if is_saved_result(text) else text),
            links={"": "/result/text"},
            outputs=(OutputField("", claim="proven"),),
            fidelity="stringified",
            source_cuts=find_source_cuts(text, "", "stream") or find_source_cuts(text, "", "server"),
        )
    if evidence.result is not None:
        text = outline_text(evidence.result)
        outcome = f"{evidence.tool} returned a result of an unknown shape"
        return reading(evidence, RecordedText(text), outcome, links={"": "/result/text"})
    text = untrusted_text(evidence.receipt_text or "")
    is_recorded = evidence.receipt_text is not None
    nothing = f"{evidence.tool} returned no text" if is_recorded else f"{evidence.tool}: no result was recorded"
    outcome = _first_line(text) or nothing
    fidelity: ResultFidelity = "parsed_from_receipt" if text else "absent"
    cuts = find_receipt_cuts(text)
    return reading(evidence, RecordedText(text), outcome, links={}, fidelity=fidelity, source_cuts=cuts)


def align_untyped(evidence: Evidence, text: str) -> list[Span]:
    """Links a receipt that is the recorded string, or JSON of the recorded value."""
    if isinstance(evidence.result, str):
        return match_excerpt(text, evidence.result, "")
    return match_json(text, evidence.result, "") if isinstance(evidence.result, dict | list) else []


def _first_line(text: str) -> str:
    return text[:1_000].strip().partition("\n")[0]
