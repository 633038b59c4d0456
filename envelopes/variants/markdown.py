"""Markdown: the outcome in bold, the fields as a list, long texts in fences.

A fence is longer than any run of backticks in its text, so no output can close it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.variant import Variant
from envelopes.text.fit_receipt import fit
from envelopes.text.pointer import join
from envelopes.variants.base import field, half, is_block, paths, words

INDENT = "  "
SHORTEST = "```"
TICKS = re.compile(r"`+")
NEW_LINE = Segment("\n", "break")
ENDED = {"success": "succeeded", "error": "failed"}


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    return fit(_written(canonical), policy, tail=_artifacts(canonical))


def _written(canonical: CanonicalResult) -> Iterator[Segment]:
    yield words("**")
    yield field(canonical.tool_name, "/tool_name")
    yield words(" ")
    yield Segment(ENDED[canonical.status], "headline", SegmentSource("canonical", "/status"))
    yield words("**")
    # An error's message is a member below; where it is the summary too, it is said once (RFC-107).
    if canonical.error is None or canonical.error.message != canonical.summary_text:
        yield Segment("\n\n", "break")
        yield field(canonical.summary_text, "/summary_text", "preview" if is_block(canonical.summary_text) else "value")
    name, found = half(canonical)
    members = found if isinstance(found, dict) else {name: found}
    if members:
        yield NEW_LINE
    for key, value in members.items():
        pointer = join(f"/{name}", key) if isinstance(found, dict) else f"/{name}"
        yield from _entry(f"- {key}:", value, pointer, 0)


def _entry(mark: str, value: JsonValue, pointer: str, depth: int) -> Iterator[Segment]:
    yield NEW_LINE
    yield words(f"{INDENT * depth}{mark}")
    match value:
        case dict() if value:
            for key, child in value.items():
                yield from _entry(f"- {key}:", child, join(pointer, key), depth + 1)
        case list() if value:
            for index, child in enumerate(value):
                yield from _item(child, join(pointer, index), index + 1, depth + 1)
        case str() if is_block(value):
            yield from _fence(value, pointer)
        case _:
            yield words(" ")
            yield field(value, pointer)


def _item(value: JsonValue, pointer: str, number: int, depth: int) -> Iterator[Segment]:
    """A flat object stands on one line, a deep one below its number."""
    if not (isinstance(value, dict | list) and value):
        yield from _entry("-", value, pointer, depth)
    elif isinstance(value, list) or any(_is_deep(child) for child in value.values()):
        yield from _entry(f"- {number}:", value, pointer, depth)
    else:
        yield NEW_LINE
        yield words(f"{INDENT * depth}-")
        for index, (key, child) in enumerate(value.items()):
            yield words(f"{',' if index else ''} {key}: ")
            yield field(child, join(pointer, key))


def _is_deep(value: JsonValue) -> bool:
    return is_block(value) or (isinstance(value, dict | list) and bool(value))


def _fence(text: str, pointer: str) -> Iterator[Segment]:
    """At the left edge whatever the depth: indented, each line would carry the renderer's blanks."""
    longest = max(map(len, TICKS.findall(text))) if SHORTEST in text else 0
    fence = "`" * (longest + 1) if longest else SHORTEST
    yield words(f"\n{fence}\n")
    yield field(text, pointer, "preview")
    yield words(fence if text.endswith("\n") else f"\n{fence}")


def _artifacts(canonical: CanonicalResult) -> Iterator[Segment]:
    if canonical.artifacts:
        yield words("\n\nArtifacts:\n")
    for path in paths(canonical):
        yield words("\n- ")
        yield path


VARIANT = Variant(id="markdown", version=1, title="Markdown", render=render)
