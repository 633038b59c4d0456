"""A receipt: a list of parts, of which a text part is a list of segments with their sources; and a variant.

A text part's text is the plain concatenation of its segments and nothing else, so one list gives the exact
text, the highlighted text, the hover links, tokens per field, and which lines of the output were seen.
`Segment.source` is where the characters come from:

    document  canonical  the envelope of this call
              complete   the result as the source recorded it, before any projection
              args       the call's arguments
    pointer   RFC 6901, into that document
    start/end characters of the string at that pointer; None when the text is not a slice of it

A segment without a source was written by the renderer itself.

A variant is a renderer with a policy, under a name that can be recorded. A family's own renderers become variants
`<family>/<name>`, `<family>/receipt` first; those that serve every family are in `envelopes.variants` and have a
name without a family. `hash` fingerprints a receipt that was sent: it shows later whether the renderer or its
policy changed.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import CanonicalResult

Document: TypeAlias = Literal["canonical", "complete", "args"]
Role: TypeAlias = Literal["headline", "label", "value", "preview", "marker", "hint", "break"]


class SegmentSource(msgspec.Struct, frozen=True, gc=False):
    """The field that a segment was taken from; [start, end) are characters of its string."""

    document: Document
    pointer: str
    start: int | None = None
    end: int | None = None


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A stretch of a receipt's text that has one role and comes from one field.

    >>> Segment("3 passed", "value")
    Segment(text='3 passed', role='value', source=None)
    """

    # gc=False: a receipt may have fifty thousand segments, and none is part of a cycle.

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
        """The end of each segment, in characters from the beginning of the text."""
        return list(accumulate([len(segment.text) for segment in self.segments]))

    def within(self, start: int, stop: int) -> list[Segment]:
        """The segments of its characters [start, stop), those at the edges cut to what lies within.

        A cut segment keeps the source of the whole one.
        """
        if start >= stop:
            return []
        first, last = bisect_right(self.ends, start), bisect_left(self.ends, stop)
        segments = list(self.segments[first : last + 1])
        for at in {first, first + len(segments) - 1} if segments else ():
            segment, begins = self.segments[at], self.ends[at] - len(self.segments[at].text)
            if begins < start or self.ends[at] > stop:
                text = segment.text[max(0, start - begins) : stop - begins]
                segments[at - first] = Segment(text, segment.role, segment.source)
        return segments


class ImagePart(msgspec.Struct, frozen=True, tag="image"):
    """An image as the model got it. `data` is base64 text exactly as recorded, or a reference."""

    media_type: str
    data: str
    size: int


class OtherPart(msgspec.Struct, frozen=True, tag="other"):
    """A part of a kind that is not known here; `raw` is its JSON exactly as recorded."""

    kind: str
    raw: str


Part: TypeAlias = TextPart | ImagePart | OtherPart


class Receipt(msgspec.Struct, frozen=True, dict=True):
    """The text and the other parts that the model reads of a call's result.

    >>> Receipt((TextPart((Segment("Process exited with code 0", "headline"),)),)).text
    'Process exited with code 0'
    """

    parts: tuple[Part, ...]

    @cached_property
    def text(self) -> str:
        """The text parts in order. Images and files add no characters."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        if len(self.parts) == 1 and isinstance(self.parts[0], TextPart):
            return self.parts[0].segments
        return tuple(segment for part in self.parts if isinstance(part, TextPart) for segment in part.segments)

    def beginning(self, characters: int) -> Iterator[Segment]:
        """The segments of the first characters of its text."""
        for part in self.parts:
            if isinstance(part, TextPart):
                yield from part.within(0, characters)
                characters -= len(part.text)


def image_part(media_type: str, data: str) -> ImagePart:
    """A part of base64 text, which has four characters for three bytes; the padding at its end stands for none."""
    return ImagePart(media_type, data, len(data.rstrip("=")) * 3 // 4)


def text_part(text: str, segments: tuple[Segment, ...]) -> TextPart:
    """A part of segments that were cut from `text`, which then need not be joined again."""
    part = TextPart(segments)
    vars(part)["text"] = text
    return part


def text_receipt(segments: Iterable[Segment]) -> Receipt:
    """A receipt of one text part, which is what every renderer of this library yields."""
    part = TextPart(tuple(segments))
    receipt = Receipt((part,))
    vars(receipt)["segments"] = part.segments
    return receipt


Renderer: TypeAlias = Callable[[CanonicalResult, RenderPolicy], Iterable[Segment]]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A renderer with a policy. Raise `version` whenever `render` writes something new for the same envelope.

    `digest` names what decides the text besides the program: the hash of a template, the encoding that counts tokens.
    """

    id: str
    version: int
    title: str
    render: Renderer
    policy: RenderPolicy = RenderPolicy()
    digest: str = ""

    @property
    def name(self) -> str:
        """The id without its family, which is what a person types."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits over id, version, policy and digest, but not over envelope or text."""
        parts = "\n".join((self.id, str(self.version), self.policy.fingerprint, *filter(None, [self.digest])))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]
