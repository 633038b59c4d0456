"""A receipt as the model got it: its exact text, each linked segment with pointers to the field it came from.

A segment carries up to three pointers, one for each document on the page that contains the field:

    data-pointer    in the canonical JSON
    data-recorded   in the source's own result
    data-args       in the arguments

`data-at` is the range of characters of that field. A chunk of text is one element of the class `segments`; text in it
outside of the linked segments was added by the runtime, or its source is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.safestring import mark_safe

from dashboard.text.images import ReceiptImage, load_receipt_image
from dashboard.text.masks import mask_around
from dashboard.text.text_markup import MAX_MARKUP, TextChunk, choose_escape, chunk_end, escape_attribute
from envelopes.alignment.mapping import FieldSlice, ItemLinks
from envelopes.schema.receipt import Document, ImagePart, Receipt, SegmentSource, TextPart


@dataclass(frozen=True, kw_only=True)
class PartMarkup:
    """One part in the chunk: text, a picture, or the JSON of an unknown part. `number` counts from 1."""

    number: int
    kind: str
    window: TextChunk | None = None
    picture: ReceiptImage | None = None
    raw: str = ""


@dataclass(frozen=True, kw_only=True)
class ReceiptChunk:
    """Offsets run over the text parts as one text, as `Receipt.text` does."""

    parts: tuple[PartMarkup, ...]
    start: int
    end: int
    total: int

    @property
    def has_more(self) -> bool:
        return self.end < self.total

    @property
    def remaining(self) -> int:
        """Characters behind the chunk."""
        return self.total - self.end


ATTRIBUTES: dict[Document, str] = {"args": "data-args", "canonical": "data-pointer", "complete": "data-recorded"}
# The range of a whole value: most of the linked values of a long list are short, and formatting numbers takes long.
WHOLE_RANGES = tuple(f' data-at="0-{end}"' if end else "" for end in range(256))


class _ParentTag(NamedTuple):
    """The start of the tags of all members of one list or object.

    `opening` is None where the parent is not in the canonical document.
    """

    parent: str
    opening: str | None
    between: str


NO_PARENT = _ParentTag("\0", None, "")  # fits no pointer


class FieldLinks:
    """Finds the canonical field of a segment's source; the longest recorded prefix counts.

    `start_tag` gives the start tag of a linked segment without its end, so that attributes can be added. A long list
    has thousands: their parent is looked up and escaped once for all that follow each other.
    """

    start_tag: Callable[[SegmentSource], str]

    def __init__(self, recorded_to_canonical: Mapping[str, str], slices: Sequence[FieldSlice] = ()) -> None:
        self._links = recorded_to_canonical
        self.slices = slices
        self._tags: dict[str, str] = {}
        self._escaped_names: dict[str, str] = {}  # the members of all rows have the same few names
        self._parent_tag = NO_PARENT
        self.start_tag = self._single_tag if slices else self._member_tag
        if isinstance(recorded_to_canonical, ItemLinks) and not slices:
            self.start_tag = _ItemTags(recorded_to_canonical, self._member_tag).start_tag

    def canonical(self, recorded: str) -> str | None:
        """The canonical pointer of a recorded one; None where no prefix of it is linked."""
        prefix = recorded
        while (linked := self._links.get(prefix)) is None:
            if not prefix:
                return None
            prefix = prefix.rpartition("/")[0]
        return linked + recorded[len(prefix) :]

    def resolve(self, source: SegmentSource) -> str | None:
        """The canonical pointer of a segment's source; None where it has none, or is in another document."""
        return self.sliced(source) or (self.canonical(source.pointer) if source.document == "complete" else None)

    def sliced(self, source: SegmentSource) -> str | None:
        """The canonical field of a part of a recorded string that is another field than the rest of it."""
        if source.document != "complete" or source.start is None or source.end is None:
            return None
        for field in self.slices:
            if field.pointer == source.pointer and field.start <= source.start and source.end <= field.end:
                return field.canonical
        return None

    def _member_tag(self, source: SegmentSource) -> str:
        pointer = source.pointer
        if source.document != "complete":
            return self._single_tag(source)
        if pointer in self._tags:
            return self._tags[pointer]
        parent, _, name = pointer.rpartition("/")
        if self._parent_tag.parent != parent:
            canonical = self.canonical(parent)
            opening = None
            if canonical is not None:
                opening = f'<span class="linked" data-pointer="{escape_attribute(canonical)}/'
            self._parent_tag = _ParentTag(parent, opening, f'" data-recorded="{escape_attribute(parent)}/')
        _, opening, between = self._parent_tag
        if opening is None or pointer in self._links:
            tag = self._tags[pointer] = self._build_tag(source)
            return tag
        if not name.isdigit():
            if name not in self._escaped_names:
                self._escaped_names[name] = escape_attribute(name)
            name = self._escaped_names[name]
        return f'{opening}{name}{between}{name}"'

    def _single_tag(self, source: SegmentSource) -> str:
        if self.slices and self.sliced(source):
            return self._build_tag(source)
        key = f"{source.document}{source.pointer}"
        if key not in self._tags:
            self._tags[key] = self._build_tag(source)
        return self._tags[key]

    def _build_tag(self, source: SegmentSource) -> str:
        own = f'{ATTRIBUTES[source.document]}="{escape_attribute(source.pointer)}"'
        canonical = self.resolve(source)
        if canonical is None:
            return f'<span class="linked" {own}'
        return f'<span class="linked" data-pointer="{escape_attribute(canonical)}" {own}'


class _ItemTags:
    """Start tags for the members of a list's items, which differ only in the index of the item."""

    def __init__(self, links: ItemLinks, otherwise: Callable[[SegmentSource], str]) -> None:
        self._find_index, self._otherwise = links.index, otherwise
        self._opening = f'<span class="linked" data-pointer="{escape_attribute(links.canonical)}'
        between = f'" data-recorded="{escape_attribute(links.recorded)}'
        self._members = {
            recorded: (f"/{escape_attribute(canonical)}{between}", f'/{escape_attribute(recorded)}"')
            for recorded, canonical in links.names.items()
        }
        self._item, self._index = "", ""

    def start_tag(self, source: SegmentSource) -> str:
        item, _, name = source.pointer.rpartition("/")
        if item != self._item:
            self._item, self._index = item, self._find_index(item)
        index = self._index
        if not index or name not in self._members or source.document != "complete":
            return self._otherwise(source)
        between, ending = self._members[name]
        return f"{self._opening}{index}{between}{index}{ending}"


def receipt_chunk(receipt: Receipt, links: FieldLinks, start: int, limit: int, *, spaces: bool = False) -> ReceiptChunk:
    """The parts with characters in [start, start + limit), and those without text between them.

    A part without text is at the end of the text before it. At the seam of two chunks it belongs to the earlier one.
    """
    parts: list[PartMarkup] = []
    offset, end = 0, start
    for number, part in enumerate(receipt.parts, 1):
        if end - start >= limit or end < offset:
            break
        if isinstance(part, TextPart):
            length = len(part.text)
            if offset + length > start or (length == 0 and offset == start):
                chunk = _segment_chunk(part, links, max(0, start - offset), limit - (end - start), spaces=spaces)
                parts.append(PartMarkup(number=number, kind="text", window=chunk))
                end = offset + chunk.end
            offset += length
        elif offset > start or offset == start == 0:
            if isinstance(part, ImagePart):
                parts.append(PartMarkup(number=number, kind="image", picture=load_receipt_image(part)))
            else:
                parts.append(PartMarkup(number=number, kind=part.kind, raw=part.raw))
    return ReceiptChunk(parts=tuple(parts), start=start, end=end, total=len(receipt.text))


def _segment_chunk(part: TextPart, links: FieldLinks, start: int, limit: int, *, spaces: bool) -> TextChunk:
    text = part.text
    stop = chunk_end(text, start, limit, spaces=spaces)
    segments = part.within(start, stop)
    pieces: list[str] = []
    room = MAX_MARKUP
    start_tag, escape = links.start_tag, choose_escape(text[start:stop], spaces=spaces)
    masked, at = mask_around(text, start, stop), start
    for segment in segments:
        shown = segment.text if masked is text else masked[at : at + len(segment.text)]
        at += len(segment.text)
        source, piece = segment.source, escape(shown)
        if source is not None:  # an element for each unlinked segment too would double the elements of a page
            piece = f"{start_tag(source)}{_range_attribute(source)}>{piece}</span>"
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            break
    html = f'<span class="segments">{"".join(pieces)}</span>' if pieces else ""
    end = start + sum([len(segment.text) for segment in segments[: len(pieces)]])
    return TextChunk(html=mark_safe(html), start=start, end=end, total=len(text))


def _range_attribute(source: SegmentSource) -> str:
    start, end = source.start, source.end
    if start is None or not end:
        return ""
    return WHOLE_RANGES[end] if start == 0 and end < len(WHOLE_RANGES) else f' data-at="{start}-{end}"'
