"""Helpers for the tests of built-in tools: envelopes, receipts, refusals and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from envelopes.families.command.results import OUTPUTS
from envelopes.families.registry import builtin
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult, CompleteOutput, ToolError
from envelopes.schema.tool import InvalidToolInput
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve

LIMITS = (0, 1, 80, 400, 2_000, 12_000)
PROMISED = {f"{name}_preview" for name in OUTPUTS} | {"content", "text"}
_NAMED = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def output(tool: str, result: msgspec.Struct, summary: str = "done") -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=summary, result=result)


def failure(tool: str, error: ToolError, summary: str = "failed") -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="error", summary_text=summary, error=error)


def projected(
    complete: CompleteOutput, sink: MemorySink | None = None, policy: ProjectionPolicy | None = None
) -> Projection:
    family, _ = builtin(complete.tool_name)
    return project(complete, family, policy or family.projection, sink or MemorySink())


def result_of(complete: CompleteOutput, policy: ProjectionPolicy | None = None) -> dict[str, Any]:
    result = projected(complete, policy=policy).canonical.result
    assert isinstance(result, dict)
    return result


def receipt_of(canonical: CanonicalResult, variant: str = "receipt", characters: int = 12_000) -> Receipt:
    family, _ = builtin(canonical.tool_name)
    return render(canonical, family, RenderPolicy(characters=characters), variant=variant)


def receipt_text(complete: CompleteOutput, variant: str = "receipt", characters: int = 12_000) -> str:
    return receipt_of(projected(complete).canonical, variant, characters).text


def ceiling(canonical: CanonicalResult, characters: int) -> int:
    """The most characters of a receipt under a policy of so many: a promised budget tops the family's own policy."""
    family, _ = builtin(canonical.tool_name)
    is_default = characters == family.rendering.characters and canonical.error is None
    return characters + (family.granted(canonical.result) if is_default else 0)


def without_promised_texts(document: Any) -> Any:
    """An envelope as JSON whose output with a promised budget is left out: the rest has the ceiling of every tool."""
    family, _ = builtin(document["tool_name"])
    return _emptied(document) if document["error"] is None and family.granted(document["result"]) else document


def _emptied(value: Any) -> Any:
    match value:
        case dict():
            return {name: "" if name in PROMISED else _emptied(child) for name, child in value.items()}
        case list():
            return [_emptied(child) for child in value]
    return value


def refusal(tool: str, arguments: Any) -> ToolError:
    with pytest.raises(InvalidToolInput) as raised:
        builtin(tool)[1].parse(arguments)
    return raised.value.error


def hold_to_its_limits(complete: CompleteOutput, variant: str = "receipt") -> None:
    """Asserts that the halves are deterministic, within every policy, and that each slice is what its pointer gives."""
    first, second = MemorySink(), MemorySink()
    projection = projected(complete, first)
    assert (projection, first.texts) == (projected(complete, second), second.texts)
    document = projection.canonical.to_json()
    assert {artifact.path for artifact in projection.canonical.artifacts} == set(first.texts)
    assert {cut.pointer for cut in projection.cuts if not _is_there(document, cut.pointer)} == set()
    for characters in LIMITS:
        receipt = receipt_of(projection.canonical, variant, characters)
        assert len(receipt.text) <= ceiling(projection.canonical, characters)
        for segment in receipt.segments:
            if segment.source is not None and segment.source.start is not None:
                value = resolve(document, segment.source.pointer)
                assert isinstance(value, str)
                assert value[segment.source.start : segment.source.end] == segment.text


def described_names(tool: str) -> set[str]:
    """The names_like_this in the guidance that are neither input, nor result, nor a value of an enumeration."""
    definition = builtin(tool)[1]
    known = set(definition.result_only) | set(_words(definition.input_schema()))
    return set(_NAMED.findall(definition.description.partition("\nInvalid: ")[0])) - known


def _words(schema: Any) -> Iterator[str]:
    match schema:
        case dict():
            for name, child in schema.items():
                yield name
                yield from _words(child)
        case list():
            for child in schema:
                yield from _words(child)
        case str():
            yield schema


def _is_there(document: Any, pointer: str) -> bool:
    try:
        resolve(document, pointer)
    except KeyError:
        return False
    return True
