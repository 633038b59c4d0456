"""A receipt as the model got it: the exact text, each linked piece tied to the field it came from.

A piece carries up to three pointers, one for each place where the field can be seen on the page:

    data-pointer    in the canonical JSON
    data-recorded   in the source's own result
    data-args       in the arguments

`data-at` are the characters of that string which these are. All of a window stands in one element of the
class `own`: what is in no piece is the runtime's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dashboard.calls.image_part import Picture, picture_of
from dashboard.inert import Html, attribute, has_live, inert
from dashboard.windows import ROOM, Window, window_end
from envelopes.foreign import FieldSlice, ItemLinks
from envelopes.receipt import Document, ImagePart, OtherPart, Receipt, Source, TextPart


@dataclass(frozen=True, kw_only=True)
class PartView:
    """One part in the window: text, a picture, or what no reader knows. `number` counts from 1."""

    number: int
    kind: str
    window: Window | None = None
    picture: Picture | None = None
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
    """What the start tags of all members of one list or item begin with; `steps` are those called otherwise here.

    `opening` is None where what they lie in has no place in the canonical document.
    """

    above: str
    steps: Mapping[str, tuple[str, str]]
    opening: str | None
    between: str


NO_STEM = _Stem("\0", {}, None, "")  # above nothing


class _Items(NamedTuple):
    """The same of the items of one list, of which each is known by its index."""

    links: ItemLinks
    steps: Mapping[str, tuple[str, str]]
    opening: str
    between: str

    @classmethod
    def of(cls, links: ItemLinks) -> _Items:
        steps = {theirs: (attribute(ours), attribute(theirs)) for theirs, ours in links.names.items()}
        opening = f'<span class="from" data-pointer="{attribute(links.canonical)}'
        return cls(links, steps, opening, f'" data-recorded="{attribute(links.recorded)}')

    def stem(self, above: str) -> _Stem | None:
        index = self.links.index(above)
        return _Stem(above, self.steps, f"{self.opening}{index}/", f"{self.between}{index}/") if index else None


class Links:
    """From where a segment came from to where that is shown; the longest recorded prefix wins."""

    def __init__(self, recorded_to_canonical: Mapping[str, str], slices: Sequence[FieldSlice] = ()) -> None:
        self._links = recorded_to_canonical
        self._items = _Items.of(recorded_to_canonical) if isinstance(recorded_to_canonical, ItemLinks) else None
        self.slices = slices
        self._opened: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._stem = NO_STEM

    def canonical(self, recorded: str) -> str | None:
        prefix = recorded
        while prefix not in self._links:
            if not prefix:
                return None
            prefix = prefix.rpartition("/")[0]
        return self._links[prefix] + recorded[len(prefix) :]

    def of(self, source: Source) -> str | None:
        """Where in the envelope a recorded source is; None: nowhere, or it is of another document."""
        return self.sliced(source) or (self.canonical(source.pointer) if source.document == "complete" else None)

    def sliced(self, source: Source) -> str | None:
        """The canonical field of a part of a recorded string that is another field than the rest of it."""
        if source.document != "complete" or source.start is None or source.end is None:
            return None
        for one in self.slices:
            if one.pointer == source.pointer and one.start <= source.start and source.end <= one.end:
                return one.canonical
        return None

    def opened(self, source: Source) -> str:
        """The start tag of a linked piece, open for more attributes.

        A long list has thousands: what they lie in is looked up and escaped once for all that follow each other.
        """
        pointer = source.pointer
        if source.document != "complete" or self.slices:
            return self._opened_alone(source)
        if pointer in self._opened:
            return self._opened[pointer]
        above, _, name = pointer.rpartition("/")
        if self._stem.above != above:
            self._stem = self._stem_of(above)
        _, steps, opening, between = self._stem
        if name in steps:
            ours, theirs = steps[name]
            return f'{opening}{ours}{between}{theirs}"'
        if opening is None or pointer in self._links:
            found = self._opened[pointer] = self._named(source)
            return found
        step = name if name.isdigit() else self._steps.get(name) or self._step(name)
        return f'{opening}{step}{between}{step}"'

    def _opened_alone(self, source: Source) -> str:
        if self.slices and self.sliced(source):
            return self._named(source)
        key = f"{source.document}{source.pointer}"
        if key not in self._opened:
            self._opened[key] = self._named(source)
        return self._opened[key]

    def _step(self, name: str) -> str:
        """Escaped: the members of all rows have the same few names."""
        found = self._steps[name] = attribute(name)
        return found

    def _stem_of(self, above: str) -> _Stem:
        if self._items is not None and (item := self._items.stem(above)) is not None:
            return item
        canonical = self.canonical(above)
        opening = None if canonical is None else f'<span class="from" data-pointer="{attribute(canonical)}/'
        return _Stem(above, {}, opening, f'" data-recorded="{attribute(above)}/')

    def _named(self, source: Source) -> str:
        own = f'{NAMED[source.document]}="{attribute(source.pointer)}"'
        canonical = self.of(source)
        if canonical is None:
            return f'<span class="from" {own}'
        return f'<span class="from" data-pointer="{attribute(canonical)}" {own}'


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
        return PartView(number=number, kind="image", picture=picture_of(part))
    return PartView(number=number, kind=part.kind, raw=part.raw)


def _text_window(part: TextPart, links: Links, start: int, limit: int, *, spaces: bool) -> Window:
    text = part.text
    stop = window_end(text, start, limit, spaces=spaces)
    out: list[str] = []
    begins, end, room = 0, start, ROOM
    is_plain = not spaces and not has_live(text[start:stop])
    opened = links.opened
    for segment in part.segments:
        piece, source = segment.text, segment.source
        ends = begins + len(piece)
        if ends > start:
            if begins >= stop or room < 0:
                break
            if begins < start or ends > stop:
                piece = text[max(start, begins) : min(stop, ends)]
            body = piece if is_plain else inert(piece, spaces=spaces)
            if source is None:  # the runtime's own words: an element for each would double the elements of a page
                written = body
            elif source.start is None or not source.end:
                written = f"{opened(source)}>{body}</span>"
            else:
                written = f'{opened(source)} data-at="{source.start}-{source.end}">{body}</span>'
            out.append(written)
            end = ends if ends < stop else stop
            room -= len(written)
        begins = ends
    html = f'<span class="own">{"".join(out)}</span>' if out else ""
    return Window(html=Html(html), start=start, end=end, total=len(text))
