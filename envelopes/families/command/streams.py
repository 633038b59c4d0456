"""How a receipt shows one output stream, by variant.

verbatim    as it is in the envelope
readable    one JSON document on one line is laid out for reading, anything else verbatim (RFC-102)
json_aware  the same for JSON of any layout, and for each line that is JSON by itself
tail_first  of a stream that was cut, the end before the beginning: that is where a failure is told

Text that was laid out anew points at its field without a range, and its title says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from envelopes.families.command.laid_out import laid_out
from envelopes.families.segments import label, line_break
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.text.preview import split_lines

_MARKER = re.compile(
    r"\.\.\.\n\[output truncated: showing first (\d+) and last (\d+) of (\d+) (lines|characters)\]\n\.\.\.\n"
)


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the canonical preview at `pointer`; `is_cut` when the projection shortened it."""

    title: str
    text: str
    pointer: str
    is_cut: bool


class CutText(msgspec.Struct, frozen=True, kw_only=True):
    """A preview taken apart at its marker: text[:head_end] and text[tail_start:] are the output's own."""

    head_end: int
    tail_start: int
    first: int
    last: int
    total: int
    unit: str


Show: TypeAlias = Callable[[Stream], Iterable[Segment]]


def verbatim(stream: Stream) -> Iterator[Segment]:
    yield from _titled(f"{stream.title}:", [_slice(stream, 0, len(stream.text))])


def readable(stream: Stream) -> Iterator[Segment]:
    one_line = "\n" not in stream.text.strip()
    yield from _document(stream, laid_out(stream.text) if one_line else None) or verbatim(stream)


def json_aware(stream: Stream) -> Iterator[Segment]:
    yield from _document(stream, laid_out(stream.text)) or _json_lines(stream) or verbatim(stream)


def tail_first(stream: Stream) -> Iterator[Segment]:
    cut = cut_text(stream.text) if stream.is_cut else None
    if cut is None:
        yield from verbatim(stream)
        return
    order = f"last {cut.last} of {cut.total} {cut.unit}, then the first {cut.first}"
    break_before = "" if stream.text.endswith("\n") else "\n"
    follows = f"{break_before}...\n[{stream.title}: its end is above, its first {cut.first} {cut.unit} follow]\n...\n"
    shown = [
        _slice(stream, cut.tail_start, len(stream.text)),
        Segment(follows, "marker"),
        _slice(stream, 0, cut.head_end),
    ]
    yield from _titled(f"{stream.title}, its end first ({order}):", shown)


def cut_text(preview: str) -> CutText | None:
    """None unless a marker stands where its own numbers say: an output may hold the same words."""
    for found in _MARKER.finditer(preview):
        first, last, total = (int(found[group]) for group in (1, 2, 3))
        head, tail = preview[: found.start()], preview[found.end() :]
        if found[4] == "lines":
            fits = head.count("\n") == first and len(split_lines(tail)) == last
        else:
            # A head that ends in the middle of a line has got a newline before the marker.
            fits = len(head) >= first and head[first:] in ("", "\n") and len(tail) == last
            head = head[:first]
        if fits:
            return CutText(
                head_end=len(head), tail_start=found.end(), first=first, last=last, total=total, unit=found[4]
            )
    return None


def _document(stream: Stream, text: str | None) -> list[Segment]:
    if text is None or text == stream.text.strip():
        return []
    shown = Segment(text, "preview", SegmentSource("canonical", stream.pointer))
    return list(_titled(f"{stream.title} (JSON, laid out for reading):", [shown]))


def _json_lines(stream: Stream) -> list[Segment]:
    shown: list[Segment] = []
    at = verbatim_from = 0
    for line in split_lines(stream.text):
        end = at + len(line)
        if (text := laid_out(line)) and text != line.strip():
            shown += [_slice(stream, verbatim_from, at)] if verbatim_from < at else []
            shown.append(
                Segment(text + "\n" * line.endswith("\n"), "preview", SegmentSource("canonical", stream.pointer))
            )
            verbatim_from = end
        at = end
    if not shown:
        return []
    shown += [_slice(stream, verbatim_from, at)] if verbatim_from < at else []
    return list(_titled(f"{stream.title} (lines of JSON, laid out for reading):", shown))


def _titled(title: str, shown: Iterable[Segment]) -> Iterator[Segment]:
    yield label(title)
    yield line_break()
    yield from shown


def _slice(stream: Stream, start: int, end: int) -> Segment:
    return Segment(stream.text[start:end], "preview", SegmentSource("canonical", stream.pointer, start, end))
