"""A receipt as the model got it: the exact text, each linked piece tied to the field it came from.

A piece carries up to three pointers, one for each place where the field can be seen on the page:

    data-pointer    in the canonical JSON
    data-recorded   in the source's own result
    data-args       in the arguments

`data-at` are the characters of that string which these are. All of a window stands in one element of the
class `own`: what is in no piece is the runtime's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.safestring import mark_safe

from dashboard.text.chunks import MAX_MARKUP, TextChunk, chunk_end
from dashboard.text.escaping import escape_attribute, needs_escaping
from dashboard.text.images import ReceiptImage, load_receipt_image
from dashboard.text.text_markup import escape
from envelopes.alignment.mapping import FieldSlice, ItemLinks
from envelopes.schema.receipt import Document, ImagePart, OtherPart, Receipt, SegmentSource, TextPart


@dataclass(frozen=True, kw_only=True)
class PartView:
    """One part in the window: text, a picture, or what no reader knows. `number` counts from 1."""

    number: int
    kind: str
    window: TextChunk | None = None
    picture: ReceiptImage | None = None
    raw: str = ""


@dataclass(frozen=True, kw_only=True)
class ReceiptWindow:
    """Offsets run over the text parts as one text, as `Receipt.text` does."""

    parts: tuple[PartView, ...]
    start: int
    end: int
    total: int

    @property
    def has_more(self) -> bool:
        return self.end < self.total

    @property
    def left(self) -> int:
        return self.total - self.end


NAMED: dict[Document, str] = {"args": "data-args", "canonical": "data-pointer", "complete": "data-recorded"}


class _Stem(NamedTuple):
    """What the start tags of all members of one list or object begin with.

    `opening` is None where that has no place in the canonical document.
    """

    above: str
    opening: str | None
    between: str


# Most of the linked values of a long list are short and stand whole, and to write numbers takes long.
WHOLE = tuple(f' data-at="0-{end}"' if end else "" for end in range(256))
NO_STEM = _Stem("\0", None, "")  # above nothing


class _ItemTags:
    """The start tags of the members of a list's items, which differ in the index of the item alone."""

    def __init__(self, links: ItemLinks, otherwise: Callable[[SegmentSource], str]) -> None:
        self._index_of, self._otherwise = links.index, otherwise
        self._opening = f'<span class="linked" data-pointer="{escape_attribute(links.canonical)}'
        between = f'" data-recorded="{escape_attribute(links.recorded)}'
        self._members = {
            theirs: (f"/{escape_attribute(ours)}{between}", f'/{escape_attribute(theirs)}"')
            for theirs, ours in links.names.items()
        }
        self._above, self._index = "", ""

    def opened(self, source: SegmentSource) -> str:
        above, _, name = source.pointer.rpartition("/")
        if above != self._above:
            self._above, self._index = above, self._index_of(above)
        index = self._index
        if not index or name not in self._members or source.document != "complete":
            return self._otherwise(source)
        between, ending = self._members[name]
        return f"{self._opening}{index}{between}{index}{ending}"


class Links:
    """From where a segment came from to where that is shown; the longest recorded prefix wins.

    `opened` gives the start tag of a linked piece, open for more attributes. A long list has thousands: what
    they lie in is looked up and escaped once for all that follow each other.
    """

    opened: Callable[[SegmentSource], str]

    def __init__(self, recorded_to_canonical: Mapping[str, str], slices: Sequence[FieldSlice] = ()) -> None:
        self._links = recorded_to_canonical
        self.slices = slices
        self._opened: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._stem = NO_STEM
        self.opened = self._opened_alone if slices else self._opened_within
        if isinstance(recorded_to_canonical, ItemLinks) and not slices:
            self.opened = _ItemTags(recorded_to_canonical, self._opened_within).opened

    def canonical(self, recorded: str) -> str | None:
        prefix = recorded
        while prefix not in self._links:
            if not prefix:
                return None
            prefix = prefix.rpartition("/")[0]
        return self._links[prefix] + recorded[len(prefix) :]

    def of(self, source: SegmentSource) -> str | None:
        """Where in the envelope a recorded source is; None: nowhere, or it is of another document."""
        return self.sliced(source) or (self.canonical(source.pointer) if source.document == "complete" else None)

    def sliced(self, source: SegmentSource) -> str | None:
        """The canonical field of a part of a recorded string that is another field than the rest of it."""
        if source.document != "complete" or source.start is None or source.end is None:
            return None
        for one in self.slices:
            if one.pointer == source.pointer and one.start <= source.start and source.end <= one.end:
                return one.canonical
        return None

    def _opened_within(self, source: SegmentSource) -> str:
        pointer = source.pointer
        if source.document != "complete":
            return self._opened_alone(source)
        if pointer in self._opened:
            return self._opened[pointer]
        above, _, name = pointer.rpartition("/")
        if self._stem.above != above:
            self._stem = self._stem_of(above)
        _, opening, between = self._stem
        if opening is None or pointer in self._links:
            found = self._opened[pointer] = self._named(source)
            return found
        step = name if name.isdigit() else self._steps.get(name) or self._step(name)
        return f'{opening}{step}{between}{step}"'

    def _opened_alone(self, source: SegmentSource) -> str:
        if self.slices and self.sliced(source):
            return self._named(source)
        key = f"{source.document}{source.pointer}"
        if key not in self._opened:
            self._opened[key] = self._named(source)
        return self._opened[key]

    def _step(self, name: str) -> str:
        """Escaped: the members of all rows have the same few names."""
        found = self._steps[name] = escape_attribute(name)
        return found

    def _stem_of(self, above: str) -> _Stem:
        canonical = self.canonical(above)
        opening = None if canonical is None else f'<span class="linked" data-pointer="{escape_attribute(canonical)}/'
        return _Stem(above, opening, f'" data-recorded="{escape_attribute(above)}/')

    def _named(self, source: SegmentSource) -> str:
        own = f'{NAMED[source.document]}="{escape_attribute(source.pointer)}"'
        canonical = self.of(source)
        if canonical is None:
            return f'<span class="linked" {own}'
        return f'<span class="linked" data-pointer="{escape_attribute(canonical)}" {own}'


def receipt_window(receipt: Receipt, links: Links, start: int, limit: int, *, spaces: bool = False) -> ReceiptWindow:
    """The parts that stand in [start, start + limit); a part without text stands where the text before it ends."""
    total = len(receipt.text)
    parts: list[PartView] = []
    at, end = 0, start
    for number, part in enumerate(receipt.parts, 1):
        if end - start >= limit or end < at:
            break
        if not isinstance(part, TextPart):
            parts.extend(_other(number, part) for _ in range(_stands_in(at, start)))
            continue
        length = len(part.text)
        if at + length > start or (length == 0 and at == start):
            window = _text_window(part, links, max(0, start - at), limit - (end - start), spaces=spaces)
            parts.append(PartView(number=number, kind="text", window=window))
            end = at + window.end
        at += length
    return ReceiptWindow(parts=tuple(parts), start=start, end=end, total=total)


def _stands_in(at: int, start: int) -> bool:
    """A picture at the seam of two windows belongs to the one before, that is at its end."""
    return at > start or at == start == 0


def _other(number: int, part: ImagePart | OtherPart) -> PartView:
    if isinstance(part, ImagePart):
        return PartView(number=number, kind="image", picture=load_receipt_image(part))
    return PartView(number=number, kind=part.kind, raw=part.raw)


def _place_of(source: SegmentSource) -> str:
    start, end = source.start, source.end
    if start is None or not end:
        return ""
    return WHOLE[end] if start == 0 and end < len(WHOLE) else f' data-at="{start}-{end}"'


def _text_window(part: TextPart, links: Links, start: int, limit: int, *, spaces: bool) -> TextChunk:
    text = part.text
    stop = chunk_end(text, start, limit, spaces=spaces)
    shown = part.within(start, stop)
    out: list[str] = []
    room = MAX_MARKUP
    is_plain = not spaces and not needs_escaping(text[start:stop])
    opened = links.opened
    for segment in shown:
        source, written = segment.source, segment.text if is_plain else escape(segment.text, spaces=spaces)
        if source is None:  # the runtime's own words: an element for each would double the elements of a page
            pass
        else:
            written = f"{opened(source)}{_place_of(source)}>{written}</span>"
        out.append(written)
        room -= len(written)
        if room < 0:
            break
    html = f'<span class="segments">{"".join(out)}</span>' if out else ""
    end = start + sum([len(segment.text) for segment in shown[: len(out)]])
    return TextChunk(html=mark_safe(html), start=start, end=end, total=len(text))
