"""JSON text whose characters keep their sources, and which is shortened before it is written (RFC-066).

    sourced     a value -> a tree whose leaves know their pointers
    tightened   strings and lists of a tree cut to a size; what is cut says so where it is cut
    written     a tree -> segments; their text is what json.dumps writes
    bounded     all three: the loosest of the steps that fits

An escape in a string has the string's pointer but no range: it is not a slice of the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import JsonValue
from envelopes.text.fit_receipt import cut_segment, fit
from envelopes.text.pointer import join

PLAIN = re.compile(r'(?P<plain>[^\x00-\x1f"\\]+)|[\x00-\x1f"\\]+')
PLAIN_ASCII = re.compile(r"(?P<plain>[ !#-\[\]-~]+)|[^ !#-\[\]-~]+")


class Step(msgspec.Struct, frozen=True):
    """The most characters of one string, elements of one list, and members of one object."""

    characters: int
    elements: int
    members: int


# The loosest first. An envelope has six members, and an object loses some only when nothing else helps.
STEPS = (
    Step(4_000, 200, 200),
    Step(2_000, 100, 200),
    Step(1_000, 50, 200),
    Step(400, 20, 100),
    Step(200, 10, 50),
    Step(80, 4, 50),
    Step(40, 2, 12),
    Step(20, 1, 6),
)


class Text(msgspec.Struct, frozen=True):
    """A string before it is escaped."""

    segments: tuple[Segment, ...]


Tree: TypeAlias = dict[str, "Tree"] | list["Tree"] | Text | Segment


def sourced(value: JsonValue, pointer: str) -> Tree:
    match value:
        case dict():
            return {key: sourced(child, join(pointer, key)) for key, child in value.items()}
        case list():
            return [sourced(child, join(pointer, index)) for index, child in enumerate(value)]
        case str():
            return Text((Segment(value, "value", SegmentSource("canonical", pointer, 0, len(value))),))
        case _:
            return Segment(json.dumps(value), "value", SegmentSource("canonical", pointer))


def own(text: str) -> Text:
    return Text((Segment(text, "label"),))


def bounded(tree: Tree, policy: RenderPolicy, *, ascii_only: bool) -> list[Segment]:
    """Within the policy. Below the size of the tightest step the text is cut at its end, and says so."""
    segments = list(written(tree, ascii_only=ascii_only))
    if _length(segments) > policy.characters:
        segments = _loosest_that_fits(tree, policy, ascii_only=ascii_only)
    return fit(segments, policy)


def _loosest_that_fits(tree: Tree, policy: RenderPolicy, *, ascii_only: bool) -> list[Segment]:
    """Looked for by halves, as each step is smaller than the one before; the tightest where none fits."""
    low, high = 0, len(STEPS) - 1
    found: dict[int, list[Segment]] = {}
    while low < high:
        middle = (low + high) // 2
        found[middle] = list(written(tightened(tree, STEPS[middle], policy), ascii_only=ascii_only))
        low, high = (low, middle) if _length(found[middle]) <= policy.characters else (middle + 1, high)
    return found.get(low) or list(written(tightened(tree, STEPS[low], policy), ascii_only=ascii_only))


def _length(segments: list[Segment]) -> int:
    return sum(len(segment.text) for segment in segments)


def tightened(tree: Tree, step: Step, policy: RenderPolicy) -> Tree:
    match tree:
        case Text():
            parts = (_cut(segment, step.characters, policy) for segment in tree.segments)
            return Text(tuple(segment for part in parts for segment in part))
        case dict():
            first = {key: tightened(child, step, policy) for key, child in list(tree.items())[: step.members]}
            return first if len(first) == len(tree) else first | {"…": _omitted(len(tree), len(first))}
        case list():
            head = [tightened(child, step, policy) for child in tree[: step.elements]]
            return head if len(head) == len(tree) else [*head, _omitted(len(tree), len(head))]
        case _:
            return tree


def written(tree: Tree, *, ascii_only: bool) -> Iterator[Segment]:
    match tree:
        case Text():
            yield Segment('"', "label")
            for segment in tree.segments:
                yield from _escaped(segment, PLAIN_ASCII if ascii_only else PLAIN)
            yield Segment('"', "label")
        case dict():
            for index, (key, child) in enumerate(tree.items()):
                yield Segment(f"{', ' if index else '{'}{json.dumps(key, ensure_ascii=ascii_only)}: ", "label")
                yield from written(child, ascii_only=ascii_only)
            yield Segment("}" if tree else "{}", "label")
        case list():
            for index, child in enumerate(tree):
                yield Segment(", " if index else "[", "label")
                yield from written(child, ascii_only=ascii_only)
            yield Segment("]" if tree else "[]", "label")
        case _:
            yield tree


def _cut(segment: Segment, characters: int, policy: RenderPolicy) -> list[Segment]:
    return cut_segment(segment, characters, policy) if len(segment.text) > characters else [segment]


def _omitted(total: int, shown: int) -> Text:
    return Text((Segment(f"[receipt shortened here: first {shown} of {total}]", "marker"),))


def _escaped(segment: Segment, pieces: re.Pattern[str]) -> Iterator[Segment]:
    source = segment.source
    for piece in pieces.finditer(segment.text):
        if source is None or source.start is None:
            yield Segment(piece[0] if piece["plain"] else json.dumps(piece[0])[1:-1], segment.role, source)
        elif piece["plain"]:
            place = SegmentSource(
                source.document, source.pointer, source.start + piece.start(), source.start + piece.end()
            )
            yield Segment(piece[0], segment.role, place)
        else:
            yield Segment(json.dumps(piece[0])[1:-1], segment.role, SegmentSource(source.document, source.pointer))
