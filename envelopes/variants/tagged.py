"""Tags around verbatim text, like XML without escapes.

When a text contains the closing tag of any field, all tags get a number (`stdout-2`): no output can close a tag or
end the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from envelopes.families.fitting import fit
from envelopes.families.segments import artifact_paths, field_segment, is_block, label, line_break, result_or_error
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment, Variant
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.pointer import iterate_strings, join

PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
CLOSING = re.compile(r"</([\w.-]+)>")
OUTER = "tool_result"
OWN_TAGS = frozenset({OUTER, "summary", "member", "item"})  # all other tags are names of fields


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    writer = _TagWriter(_free_suffix(canonical))
    return fit(writer.body(canonical), policy, tail=writer.end(canonical, policy))


class _TagWriter:
    """Writes tags whose names end in `suffix`."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    def body(self, canonical: CanonicalResult) -> Iterator[Segment]:
        yield label(f"<{OUTER}{self._suffix}>\n<status{self._suffix}>")
        yield field_segment(canonical.status, "/status", "headline")
        yield label(f"</status{self._suffix}>")
        yield from self._member("tool_name", canonical.tool_name, "/tool_name")
        yield from self._member("summary", canonical.summary_text, "/summary_text")
        name, value = result_or_error(canonical)
        yield from self._member(name, value, f"/{name}")

    def end(self, canonical: CanonicalResult, policy: RenderPolicy) -> Iterator[Segment]:
        if paths := list(artifact_paths(canonical, policy)):
            yield label(f"\n<artifacts{self._suffix}>")
            for path in paths:
                yield label(f"\n<path{self._suffix}>")
                yield path
                yield label(f"</path{self._suffix}>")
            yield label(f"\n</artifacts{self._suffix}>")
        yield label(f"\n</{OUTER}{self._suffix}>")

    def _member(self, name: str, value: JsonValue, pointer: str) -> Iterator[Segment]:
        """Writes a field on lines of its own. A name that cannot be a tag follows the tag `member`."""
        is_plain = PLAIN_NAME.fullmatch(name)
        tag = f"{name if is_plain else 'member'}{self._suffix}"
        yield line_break()
        yield label(f"<{tag}>" if is_plain else f"<{tag}>{name}: ")
        yield from self._content(value, pointer)
        yield label(f"</{tag}>")

    def _content(self, value: JsonValue, pointer: str) -> Iterator[Segment]:
        match value:
            case dict() if value:
                for key, child in value.items():
                    yield from self._member(key, child, join(pointer, key))
                yield line_break()
            case list() if value:
                for index, child in enumerate(value):
                    yield from self._member("item", child, join(pointer, index))
                yield line_break()
            case str() if is_block(value):
                yield line_break()
                yield field_segment(value, pointer, "preview")
                if not value.endswith("\n"):
                    yield line_break()
            case _:
                yield field_segment(value, pointer)


def _free_suffix(canonical: CanonicalResult) -> str:
    """Finds a suffix for the tags, so that none of their closing tags occurs in a text or in a name."""
    document = canonical.to_json()
    names = list(_names(document))
    taken = {name for text in (*iterate_strings(document), *names) if "</" in text for name in CLOSING.findall(text)}
    if not taken:
        return ""
    tags = OWN_TAGS | set(names)
    suffixes = ("" if number == 1 else f"-{number}" for number in count(1))
    return next(suffix for suffix in suffixes if not any(tag + suffix in taken for tag in tags))


def _names(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            yield from value
            for child in value.values():
                yield from _names(child)
        case list():
            for child in value:
                yield from _names(child)


VARIANT = Variant(id="tagged", version=1, title="Tags, like XML", render=render)
