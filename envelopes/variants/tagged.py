"""Tags around verbatim text, like XML: nothing is escaped, so nothing has to be unescaped.

When a text holds the closing tag of any member, all tags get a number (`stdout-2`): no output can close
one of them or end the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.variant import Variant
from envelopes.text.fit_receipt import fit
from envelopes.text.pointer import join
from envelopes.variants.base import field, half, is_block, paths, words

PLAIN_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
CLOSING = re.compile(r"</([\w.-]+)>")
NEW_LINE = Segment("\n", "break")
OUTER = "tool_result"
OWN_TAGS = frozenset({OUTER, "summary", "member", "item"})  # the others are names of the envelope's members


def render(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    written = _Tags(_free_mark(canonical))
    return fit(written.outcome(canonical), policy, tail=written.end(canonical))


class _Tags:
    def __init__(self, mark: str) -> None:
        self._mark = mark

    def outcome(self, canonical: CanonicalResult) -> Iterator[Segment]:
        yield words(f"<{OUTER}{self._mark}>\n<status{self._mark}>")
        yield field(canonical.status, "/status", "headline")
        yield words(f"</status{self._mark}>")
        yield from self._member("tool_name", canonical.tool_name, "/tool_name")
        yield from self._member("summary", canonical.summary_text, "/summary_text")
        name, value = half(canonical)
        yield from self._member(name, value, f"/{name}")

    def end(self, canonical: CanonicalResult) -> Iterator[Segment]:
        if canonical.artifacts:
            yield words(f"\n<artifacts{self._mark}>")
            for path in paths(canonical):
                yield words(f"\n<path{self._mark}>")
                yield path
                yield words(f"</path{self._mark}>")
            yield words(f"\n</artifacts{self._mark}>")
        yield words(f"\n</{OUTER}{self._mark}>")

    def _member(self, name: str, value: JsonValue, pointer: str) -> Iterator[Segment]:
        """On lines of its own. A name that cannot be a tag stands behind the tag of a `member`."""
        is_plain = PLAIN_NAME.fullmatch(name)
        tag = f"{name if is_plain else 'member'}{self._mark}"
        yield NEW_LINE
        yield words(f"<{tag}>" if is_plain else f"<{tag}>{name}: ")
        yield from self._content(value, pointer)
        yield words(f"</{tag}>")

    def _content(self, value: JsonValue, pointer: str) -> Iterator[Segment]:
        match value:
            case dict() if value:
                for key, child in value.items():
                    yield from self._member(key, child, join(pointer, key))
                yield NEW_LINE
            case list() if value:
                for index, child in enumerate(value):
                    yield from self._member("item", child, join(pointer, index))
                yield NEW_LINE
            case str() if is_block(value):
                yield NEW_LINE
                yield field(value, pointer, "preview")
                if not value.endswith("\n"):
                    yield NEW_LINE
            case _:
                yield field(value, pointer)


def _free_mark(canonical: CanonicalResult) -> str:
    """What the tags end in, so that none of their closing tags stands in a text or in a name."""
    document = canonical.to_json()
    names = list(_names(document))
    taken = {name for text in (*_strings(document), *names) if "</" in text for name in CLOSING.findall(text)}
    if not taken:
        return ""
    tags = OWN_TAGS | set(names)
    marks = ("" if number == 1 else f"-{number}" for number in count(1))
    return next(mark for mark in marks if not any(tag + mark in taken for tag in tags))


def _strings(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict() | list():
            for child in value.values() if isinstance(value, dict) else value:
                yield from _strings(child)


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
