"""A receipt as the model got it: the exact text, each linked piece tied to the field it came from.

A piece carries up to three pointers, one for each place where the field can be seen on the page:

    data-pointer    in the canonical JSON
    data-recorded   in the source's own result
    data-args       in the arguments

`data-at` are the characters of that string which these are. What has no pointer is the runtime's own
words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dashboard.calls.image_part import Picture, picture_of
from dashboard.inert import Html, attribute, inert
from dashboard.windows import ROOM, Window, window_end
from envelopes.receipt import ImagePart, OtherPart, Receipt, Segment, Source, TextPart


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


class Links:
    """From where a segment came from to where that is shown; the longest recorded prefix wins."""

    def __init__(self, recorded_to_canonical: Mapping[str, str]) -> None:
        self._links = recorded_to_canonical
        self._attributes: dict[tuple[str, str], str] = {}

    def canonical(self, recorded: str) -> str | None:
        prefix = recorded
        while prefix not in self._links:
            if not prefix:
                return None
            prefix = prefix.rpartition("/")[0]
        return self._links[prefix] + recorded[len(prefix) :]

    def attributes(self, source: Source) -> str:
        key = (source.document, source.pointer)
        if key not in self._attributes:
            self._attributes[key] = self._named(source)
        return self._attributes[key]

    def _named(self, source: Source) -> str:
        match source.document:
            case "args":
                return f'data-args="{attribute(source.pointer)}"'
            case "canonical":
                return f'data-pointer="{attribute(source.pointer)}"'
            case "complete":
                recorded = f'data-recorded="{attribute(source.pointer)}"'
                canonical = self.canonical(source.pointer)
                return recorded if canonical is None else f'data-pointer="{attribute(canonical)}" {recorded}'


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
    end, room = start, ROOM
    for begins, segment in _placed(part.segments):
        if begins + len(segment.text) <= start:
            continue
        if begins >= stop or room < 0:
            break
        piece = segment.text[max(0, start - begins) : stop - begins]
        out.append(_piece(piece, segment, links, spaces=spaces))
        end = min(stop, begins + len(segment.text))
        room -= len(out[-1])
    return Window(html=Html("".join(out)), start=start, end=end, total=len(text))


def _placed(segments: tuple[Segment, ...]) -> Iterator[tuple[int, Segment]]:
    at = 0
    for segment in segments:
        yield at, segment
        at += len(segment.text)


def _piece(text: str, segment: Segment, links: Links, *, spaces: bool) -> str:
    body = inert(text, spaces=spaces)
    if segment.source is None:
        return f'<span class="own">{body}</span>'
    source = segment.source
    if source.start is None or not source.end:
        return f'<span class="from" {links.attributes(source)}>{body}</span>'
    return f'<span class="from" {links.attributes(source)} data-at="{source.start}-{source.end}">{body}</span>'
