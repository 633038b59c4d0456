"""The envelope itself as JSON text: what a runtime without receipts sends, for comparison with them.

The text is `json.dumps(envelope, ensure_ascii=False)`. Over the budget, strings and lists are shortened before they
are written, so that the text stays JSON (RFC-066). Other variants that write JSON use the same functions:

    with_sources   a value -> a tree whose leaves have their pointers
    shrink         strings, lists and objects of a tree cut to a size; each cut is stated where it is
    write_json     a tree -> segments; their text equals that of json.dumps
    render_json    a tree within a policy: shrunk by the largest limits that fit

An escape in a string has the string's pointer but no range: it is not a slice of the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from envelopes.families.fitting import cut_segment, fit
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource, Variant
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.pointer import join

PLAIN = re.compile(r'(?P<plain>[^\x00-\x1f"\\]+)|[\x00-\x1f"\\]+')
PLAIN_ASCII = re.compile(r"(?P<plain>[ !#-\[\]-~]+)|[^ !#-\[\]-~]+")


class ShrinkLimits(msgspec.Struct, frozen=True):
    """The most characters of one string, elements of one list, and members of one object."""

    characters: int
    elements: int
    members: int


# From large to small. An envelope has six members, and an object loses some only when nothing else helps.
SHRINK_STEPS = (
    ShrinkLimits(4_000, 200, 200),
    ShrinkLimits(2_000, 100, 200),
    ShrinkLimits(1_000, 50, 200),
    ShrinkLimits(400, 20, 100),
    ShrinkLimits(200, 10, 50),
    ShrinkLimits(80, 4, 50),
    ShrinkLimits(40, 2, 12),
    ShrinkLimits(20, 1, 6),
)


class JsonString(msgspec.Struct, frozen=True):
    """A string before it is escaped."""

    segments: tuple[Segment, ...]


Tree: TypeAlias = dict[str, "Tree"] | list["Tree"] | JsonString | Segment


def with_sources(value: JsonValue, pointer: str) -> Tree:
    match value:
        case dict():
            return {key: with_sources(child, join(pointer, key)) for key, child in value.items()}
        case list():
            return [with_sources(child, join(pointer, index)) for index, child in enumerate(value)]
        case str():
            return JsonString((Segment(value, "value", SegmentSource("canonical", pointer, 0, len(value))),))
        case _:
            return Segment(json.dumps(value), "value", SegmentSource("canonical", pointer))


def render_json(tree: Tree, policy: RenderPolicy, *, ascii_only: bool) -> list[Segment]:
    """Writes the tree within the policy. Where even the smallest limits do not fit, the end is cut and states so."""
    segments = list(write_json(tree, ascii_only=ascii_only))
    if _length(segments) > policy.characters:
        segments = _write_largest_that_fits(tree, policy, ascii_only=ascii_only)
    return fit(segments, policy)


def _write_largest_that_fits(tree: Tree, policy: RenderPolicy, *, ascii_only: bool) -> list[Segment]:
    """Finds the limits by bisection, as each step is smaller than the one before; the smallest where none fits."""
    low, high = 0, len(SHRINK_STEPS) - 1
    written: dict[int, list[Segment]] = {}
    while low < high:
        middle = (low + high) // 2
        written[middle] = list(write_json(shrink(tree, SHRINK_STEPS[middle], policy), ascii_only=ascii_only))
        low, high = (low, middle) if _length(written[middle]) <= policy.characters else (middle + 1, high)
    return written.get(low) or list(write_json(shrink(tree, SHRINK_STEPS[low], policy), ascii_only=ascii_only))


def _length(segments: list[Segment]) -> int:
    return sum(len(segment.text) for segment in segments)


def shrink(tree: Tree, limits: ShrinkLimits, policy: RenderPolicy) -> Tree:
    match tree:
        case JsonString():
            segments: list[Segment] = []
            for segment in tree.segments:
                is_long = len(segment.text) > limits.characters
                segments += cut_segment(segment, limits.characters, policy) if is_long else [segment]
            return JsonString(tuple(segments))
        case dict():
            first = {key: shrink(child, limits, policy) for key, child in list(tree.items())[: limits.members]}
            return first if len(first) == len(tree) else first | {"…": _omitted(len(tree), len(first))}
        case list():
            head = [shrink(child, limits, policy) for child in tree[: limits.elements]]
            return head if len(head) == len(tree) else [*head, _omitted(len(tree), len(head))]
        case _:
            return tree


def write_json(tree: Tree, *, ascii_only: bool) -> Iterator[Segment]:
    match tree:
        case JsonString():
            yield Segment('"', "label")
            for segment in tree.segments:
                yield from _escape(segment, PLAIN_ASCII if ascii_only else PLAIN)
            yield Segment('"', "label")
        case dict():
            for index, (key, child) in enumerate(tree.items()):
                yield Segment(f"{', ' if index else '{'}{json.dumps(key, ensure_ascii=ascii_only)}: ", "label")
                yield from write_json(child, ascii_only=ascii_only)
            yield Segment("}" if tree else "{}", "label")
        case list():
            for index, child in enumerate(tree):
                yield Segment(", " if index else "[", "label")
                yield from write_json(child, ascii_only=ascii_only)
            yield Segment("]" if tree else "[]", "label")
        case _:
            yield tree


def _omitted(total: int, shown: int) -> JsonString:
    return JsonString((Segment(f"[receipt shortened here: first {shown} of {total}]", "marker"),))


def _escape(segment: Segment, runs: re.Pattern[str]) -> Iterator[Segment]:
    """Splits a segment into runs of plain characters, which keep their ranges, and escapes, which have none."""
    source = segment.source
    for run in runs.finditer(segment.text):
        text = run[0] if run["plain"] else json.dumps(run[0])[1:-1]
        if source is None or source.start is None:
            run_source = source
        elif run["plain"]:
            start = source.start
            run_source = SegmentSource(source.document, source.pointer, start + run.start(), start + run.end())
        else:
            run_source = SegmentSource(source.document, source.pointer)
        yield Segment(text, segment.role, run_source)


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    """Without paths for a model that has no tool to read them (E-27)."""
    document = canonical.to_json()
    if policy.read_tool is None:
        document.pop("artifacts", None)
    return render_json(with_sources(document, ""), policy, ascii_only=False)


VARIANT = Variant(id="canonical_json", version=1, title="Envelope as JSON", render=render)
