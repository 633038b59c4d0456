"""The narrow waist: a receipt is a list of parts, a text part is a list of segments.

A text part's text is the plain concatenation of its segments and nothing else, so from one list
follow the exact text, the highlighted text, the hover links, tokens per field, and which lines of
the output were seen. `Segment.source` says where the characters come from:

    document  canonical  the envelope of this call
              complete   the result as the source recorded it, before any projection
              args       the call's arguments
    pointer   RFC 6901, into that document
    start/end characters of the string at that pointer; None when the text is not a slice of it

A segment without a source is the renderer's own words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

Document: TypeAlias = Literal["canonical", "complete", "args"]
Role: TypeAlias = Literal["headline", "label", "value", "preview", "marker", "hint", "break"]


class SegmentSource(msgspec.Struct, frozen=True, gc=False):
    document: Document
    pointer: str
    start: int | None = None
    end: int | None = None


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A receipt may have fifty thousand of them, none in a cycle: the garbage collector need not visit them."""

    text: str
    role: Role
    source: SegmentSource | None = None


class TextPart(msgspec.Struct, frozen=True, dict=True, tag="text"):
    segments: tuple[Segment, ...]

    @cached_property
    def text(self) -> str:
        return "".join([segment.text for segment in self.segments])

    @cached_property
    def ends(self) -> list[int]:
        """Behind which character each segment ends."""
        return list(accumulate([len(segment.text) for segment in self.segments]))

    def within(self, start: int, stop: int) -> list[Segment]:
        """The segments of its characters [start, stop), at the edges no more of a text than lies within.

        A source stays as it is: it says where the whole segment comes from.
        """
        if start >= stop:
            return []
        first, last = bisect_right(self.ends, start), bisect_left(self.ends, stop)
        found = list(self.segments[first : last + 1])
        for at in {first, first + len(found) - 1} if found else ():
            segment, begins = self.segments[at], self.ends[at] - len(self.segments[at].text)
            if begins < start or self.ends[at] > stop:
                text = segment.text[max(0, start - begins) : stop - begins]
                found[at - first] = Segment(text, segment.role, segment.source)
        return found


class ImagePart(msgspec.Struct, frozen=True, tag="image"):
    """An image as the model got it. `data` is base64 text exactly as recorded, or a reference."""

    media_type: str
    data: str
    size: int


class OtherPart(msgspec.Struct, frozen=True, tag="other"):
    """A part that no reader knows; `raw` is its JSON exactly as recorded."""

    kind: str
    raw: str


Part: TypeAlias = TextPart | ImagePart | OtherPart


class Receipt(msgspec.Struct, frozen=True, dict=True):
    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        """The text parts in order. Images and files stand by themselves and add no characters."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        if len(self.parts) == 1 and isinstance(self.parts[0], TextPart):
            return self.parts[0].segments
        return tuple(segment for part in self.parts if isinstance(part, TextPart) for segment in part.segments)

    def beginning(self, characters: int) -> Iterator[Segment]:
        """The segments of so many characters of its text."""
        for part in self.parts:
            if isinstance(part, TextPart):
                yield from part.within(0, characters)
                characters -= len(part.text)


def text_part(text: str, segments: tuple[Segment, ...]) -> TextPart:
    """Of segments that were cut from `text`, which need not be put together again."""
    part = TextPart(segments)
    vars(part)["text"] = text
    return part


def text_receipt(segments: Iterable[Segment]) -> Receipt:
    """A receipt of one text part, as every renderer of ours yields it."""
    part = TextPart(tuple(segments))
    receipt = Receipt((part,))
    vars(receipt)["segments"] = part.segments
    return receipt
