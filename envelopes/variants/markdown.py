"""Markdown: the outcome in bold, the fields as a list, long texts in fences.

A fence is longer than any run of backticks in its text, so that no output can close it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envelopes.families.fitting import fit
from envelopes.families.segments import artifact_paths, field_segment, is_block, label, line_break, result_or_error
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource, Variant
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.pointer import join

INDENT = "  "
SHORTEST_FENCE = "```"
BACKTICKS = re.compile(r"`+")
VERBS = {"success": "succeeded", "error": "failed"}


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    return fit(_body(canonical), policy, tail=_artifacts(canonical, policy))


def _body(canonical: CanonicalResult) -> Iterator[Segment]:
    yield label("**")
    yield field_segment(canonical.tool_name, "/tool_name")
    yield label(" ")
    yield Segment(VERBS[canonical.status], "headline", SegmentSource("canonical", "/status"))
    yield label("**")
    # An error's message is a field below; where it is also the summary, it is written once (RFC-107).
    if canonical.error is None or canonical.error.message != canonical.summary_text:
        yield line_break(2)
        yield field_segment(
            canonical.summary_text, "/summary_text", "preview" if is_block(canonical.summary_text) else "value"
        )
    name, content = result_or_error(canonical)
    fields = content if isinstance(content, dict) else {name: content}
    if fields:
        yield line_break()
    for key, value in fields.items():
        pointer = join(f"/{name}", key) if isinstance(content, dict) else f"/{name}"
        yield from _entry(f"- {key}:", value, pointer, 0)


def _entry(mark: str, value: JsonValue, pointer: str, depth: int) -> Iterator[Segment]:
    yield line_break()
    yield label(f"{INDENT * depth}{mark}")
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
            yield label(" ")
            yield field_segment(value, pointer)


def _item(value: JsonValue, pointer: str, number: int, depth: int) -> Iterator[Segment]:
    """A flat object is written on one line, a nested one below its number."""
    if not (isinstance(value, dict | list) and value):
        yield from _entry("-", value, pointer, depth)
    elif isinstance(value, list) or any(_is_nested(child) for child in value.values()):
        yield from _entry(f"- {number}:", value, pointer, depth)
    else:
        yield line_break()
        yield label(f"{INDENT * depth}-")
        for index, (key, child) in enumerate(value.items()):
            yield label(f"{',' if index else ''} {key}: ")
            yield field_segment(child, join(pointer, key))


def _is_nested(value: JsonValue) -> bool:
    return is_block(value) or (isinstance(value, dict | list) and bool(value))


def _fence(text: str, pointer: str) -> Iterator[Segment]:
    """Writes a fence without indentation at any depth, so that the lines of the text stay verbatim."""
    longest = max(map(len, BACKTICKS.findall(text))) if SHORTEST_FENCE in text else 0
    fence = "`" * (longest + 1) if longest else SHORTEST_FENCE
    yield label(f"\n{fence}\n")
    yield field_segment(text, pointer, "preview")
    yield label(fence if text.endswith("\n") else f"\n{fence}")


def _artifacts(canonical: CanonicalResult, policy: RenderPolicy) -> Iterator[Segment]:
    paths = list(artifact_paths(canonical, policy))
    if paths:
        yield label("\n\nArtifacts:\n")
    for path in paths:
        yield label("\n- ")
        yield path


VARIANT = Variant(id="markdown", version=1, title="Markdown", render=render)
