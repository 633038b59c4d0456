"""Takes in recorded results whose shape changed from version to version of an agent.

RecordedObject       reads a recorded object member by member; what has another type reads as missing
RecordedText  the shape for what no mapping knows: the recorded text, or the JSON as an outline
tool_mapping    a ToolMapping that tries failure, then the family's own reading, then RecordedText
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ResultFidelity, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.schema.result import CompleteOutput, JsonValue, summary
from envelopes.text.outline import outline_text, scalar_text


class RecordedText(msgspec.Struct, frozen=True):
    text: str


class RecordedObject(msgspec.Struct, frozen=True):
    """`recorded` may be anything; only an object has members."""

    recorded: JsonValue

    def get(self, name: str) -> JsonValue:
        return self.recorded.get(name) if isinstance(self.recorded, dict) else None

    def text(self, name: str) -> str | None:
        found = self.recorded.get(name) if isinstance(self.recorded, dict) else None
        return found if isinstance(found, str) else None

    def integer(self, name: str) -> int | None:
        found = self.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def number(self, name: str) -> int | float | None:
        found = self.get(name)
        return found if isinstance(found, int | float) and not isinstance(found, bool) else None

    def flag(self, name: str) -> bool | None:
        found = self.get(name)
        return found if isinstance(found, bool) else None

    def member(self, name: str) -> RecordedObject:
        return RecordedObject(self.get(name))

    def listed(self, name: str) -> list[JsonValue]:
        """The elements of a list as they were recorded."""
        found = self.get(name)
        return found if isinstance(found, list) else []

    def items(self, name: str) -> list[RecordedObject]:
        """The elements of a list, each at its own index whatever its type."""
        return [RecordedObject(item) for item in self.listed(name)]

    def strings(self, name: str) -> list[str]:
        """The elements of a list; one that is no string is outlined, so that indexes stay."""
        return [item if isinstance(item, str) else outline_text(item) for item in self.listed(name)]

    def has_any(self, names: tuple[str, ...]) -> bool:
        return isinstance(self.recorded, dict) and any(name in self.recorded for name in names)


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
    """`expects`: an object with none of these members is not this tool's result."""

    def read_any(evidence: Evidence) -> Reading:
        recorded = RecordedObject(evidence.result)
        if failure := read_failure(evidence):
            return failure
        return read(evidence, recorded) if recorded.has_any(expects) else read_untyped(evidence)

    def align_any(evidence: Evidence, text: str) -> Iterable[Span]:
        recorded = RecordedObject(evidence.result)
        if read_failure(evidence):
            return align_failure(evidence, text)
        return align(recorded, text) if recorded.has_any(expects) else align_untyped(evidence, text)

    return ToolMapping(agent=agent, tools=tools, version=version, read=read_any, align=align_any, lists=lists)


def reading(
    evidence: Evidence,
    result: msgspec.Struct,
    said: str,
    *,
    links: Mapping[str, str],
    outputs: tuple[OutputField, ...] = (),
    fidelity: ResultFidelity = "structured",
) -> Reading:
    """A success. `said` is the outcome in one sentence and becomes the summary."""
    complete = _success(evidence, result, said)
    return Reading(build=lambda: complete, fidelity=fidelity, links=links, outputs=outputs)


def lazy_reading(
    evidence: Evidence, build: Callable[[], tuple[msgspec.Struct, str]], *, links: Mapping[str, str]
) -> Reading:
    """A success whose result is a list that may be long: `build` types it and gives the summary when they are used."""
    return Reading(build=lambda: _success(evidence, *build()), fidelity="structured", links=links)


def _success(evidence: Evidence, result: msgspec.Struct, said: str) -> CompleteOutput:
    return CompleteOutput(
        tool_name=evidence.tool,
        status="success",
        summary_text=summary(said[:1_000]) or f"{evidence.tool} returned an empty result",
        result=result,
    )


def group_spans(found: re.Match[str] | None, recorded: RecordedObject, pointer: str = "") -> list[Span]:
    """Links each named group of a match to the recorded member of that name, where they are equal."""
    if found is None:
        return []
    spans = []
    for name in found.groupdict():
        start, end = found.span(name)
        said, member = found[name], recorded.get(name)
        if said and isinstance(member, str) and member == said:
            spans.append(Span(start, end, f"{pointer}/{name}", 0, len(said)))
        elif said and isinstance(member, int | float) and scalar_text(member) == said:
            spans.append(Span(start, end, f"{pointer}/{name}"))
    return spans


def read_untyped(evidence: Evidence) -> Reading:
    """A string result, JSON of an unknown shape, the receipt where no result was kept, or nothing."""
    if isinstance(evidence.result, str):
        text, links, outputs = evidence.result, {"": "/result/text"}, (OutputField(""),)
        return reading(
            evidence, RecordedText(text), _first_line(text), links=links, outputs=outputs, fidelity="stringified"
        )
    if evidence.result is not None:
        text = outline_text(evidence.result)
        said = f"{evidence.tool} returned a result of an unknown shape"
        return reading(evidence, RecordedText(text), said, links={"": "/result/text"})
    text = evidence.receipt_text or ""
    said = _first_line(text) or f"{evidence.tool}: no result was recorded"
    return reading(evidence, RecordedText(text), said, links={}, fidelity="parsed_from_receipt" if text else "absent")


def align_untyped(evidence: Evidence, text: str) -> list[Span]:
    """The receipt is the recorded string, or JSON of the recorded value."""
    if isinstance(evidence.result, str):
        return match_excerpt(text, evidence.result, "")
    return match_json(text, evidence.result, "") if isinstance(evidence.result, dict | list) else []


def _first_line(text: str) -> str:
    return text[:1_000].strip().partition("\n")[0]
