"""Segments that the shared variants have in common: fields of the envelope with their pointers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.schema.receipt import Role, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.outline import scalar_text

INLINE_CHARACTERS = 200  # a longer string gets a block of its own, which can be shortened


def field_segment(value: JsonValue, pointer: str, role: Role = "value") -> Segment:
    """The string at `pointer` of the envelope, verbatim; any other scalar as JSON writes it."""
    if isinstance(value, str):
        return Segment(value, role, SegmentSource("canonical", pointer, 0, len(value)))
    return Segment(scalar_text(value), role, SegmentSource("canonical", pointer))


def is_block(value: JsonValue) -> bool:
    return isinstance(value, str) and ("\n" in value or len(value) > INLINE_CHARACTERS)


def result_or_error(canonical: CanonicalResult) -> tuple[str, JsonValue]:
    """The name and the value of the result or of the error; an error without its empty fields."""
    if canonical.error is None:
        return "result", canonical.result
    fields = msgspec.structs.asdict(canonical.error)
    return "error", {name: value for name, value in fields.items() if value is not None}


def artifact_paths(canonical: CanonicalResult) -> Iterator[Segment]:
    for index, artifact in enumerate(canonical.artifacts):
        yield field_segment(artifact.path, f"/artifacts/{index}/path")
