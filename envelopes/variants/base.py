"""What the shared variants have in common: words of their own, and fields with their pointers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.schema.receipt import Role, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.outline import scalar_text

INLINE_CHARACTERS = 200  # a longer string stands in a block of its own, which can be shortened


def words(text: str) -> Segment:
    return Segment(text, "label")


def field(value: JsonValue, pointer: str, role: Role = "value") -> Segment:
    """The string at `pointer` of the envelope, verbatim; any other scalar as JSON writes it."""
    if isinstance(value, str):
        return Segment(value, role, SegmentSource("canonical", pointer, 0, len(value)))
    return Segment(scalar_text(value), role, SegmentSource("canonical", pointer))


def is_block(value: JsonValue) -> bool:
    return isinstance(value, str) and ("\n" in value or len(value) > INLINE_CHARACTERS)


def half(canonical: CanonicalResult) -> tuple[str, JsonValue]:
    """The half that is there under its name; of an error, the members that say something."""
    if canonical.error is None:
        return "result", canonical.result
    members = msgspec.structs.asdict(canonical.error)
    return "error", {name: value for name, value in members.items() if value is not None}


def paths(canonical: CanonicalResult) -> Iterator[Segment]:
    for index, artifact in enumerate(canonical.artifacts):
        yield field(artifact.path, f"/artifacts/{index}/path")
