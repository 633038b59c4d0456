"""Which lines of an artifact the standing receipt shows: aligned for a recorded field, found again in a stored file.

A receipt that shows a file from elsewhere has its beginning behind a preview's words, its beginning and
end around a cut, or all of it (envelopes/alignment/excerpt.py). That is looked for in the first and last ENDS bytes.
What stands nowhere there is unknown: nothing is said then, and nothing counts as unseen.

`?unseen` asks for the first line that the model never saw; of a long line of which it got the beginning,
for the byte behind that.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import Wanted
from dashboard.calls.begun_line import LONG, Begun, begun_line, shown_of
from dashboard.evidence.call_evidence import Surfaces, surfaces_of
from dashboard.models import Artifact
from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.spans import Span, find_cut, whole_cut
from envelopes.storage.encoding import MARKS, decode
from envelopes.storage.line_index import WIDE, next_end
from envelopes.storage.line_window import WindowStart
from envelopes.text.preview import Cut

ENDS = 256 * 1024  # bytes; a receipt of more is not looked for
LEAST = 16 * 1024  # bytes of each end that are looked at, however short the receipt is
MARK = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`cut` counts whole lines. Of line `begun` the model got `begun_size` bytes, up to `begun_to`; 0 for none."""

    cut: Cut
    begun: int = 0
    begun_to: int = 0
    begun_size: int = 0

    @property
    def first(self) -> Unseen | None:
        return self.after(0)

    def after(self, line: int) -> Unseen | None:
        """Of the next stretch behind a line that the model never saw; the first one where none is left."""
        starts = [start + 1 for start, _ in self.cut.gaps]
        found = next((start for start in starts if start > line), starts[0] if starts else 0)
        is_begun = found == self.begun and self.begun_size > LONG
        return Unseen(line=found, offset=self.begun_to if is_begun else -1) if found else None

    def of_row(self, line: int, start: int, end: int) -> str:
        """Of line `line`, of which a row shows the bytes [start, end): yes, no or part; nothing for no line."""
        if line and line == self.begun:
            return "no" if start >= self.begun_to else "yes" if end <= self.begun_to else "part"
        return _of_line(self.cut, line - 1) if line else ""


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """`offset` is -1 where the line's beginning is meant."""

    line: int
    offset: int

    @property
    def query(self) -> str:
        return f"line={self.line}" if self.offset < 0 else f"offset={self.offset}"

    @property
    def fragment(self) -> str:
        return f"#L{self.line}"

    @property
    def wanted(self) -> Wanted:
        if self.offset >= 0:
            return Wanted(place=WindowStart(offset=self.offset))
        return Wanted(place=WindowStart(line=self.line), lines=range(self.line, self.line + 1))


def _of_line(cut: Cut, index: int) -> str:
    at = bisect_right(cut.shown, (index, cut.total)) - 1
    return "yes" if at >= 0 and index < cut.shown[at][1] else "no"


def seen_of(artifact: Artifact, content: Content) -> Seen | None:
    """None when nothing says so, or while the lines are being counted."""
    chosen = {"result": str(artifact.observation_id)} if artifact.observation_id else {}
    surfaces = surfaces_of(artifact.call, chosen)
    if artifact.observation_id is not None:
        return _seen_of_field(artifact, surfaces, content)
    if not content.is_indexed or not content.encoding.name or not content.size or len(surfaces.content or b"") > ENDS:
        return None
    return _seen_of_file(_words(surfaces), content, min(ENDS, LEAST + 4 * len(surfaces.content or b"")))


def _seen_of_field(artifact: Artifact, surfaces: Surfaces, content: Content) -> Seen | None:
    receipt = surfaces.halves.receipt
    cut = next((one.cut for one in surfaces.halves.outputs if one.field.pointer == artifact.pointer), None)
    if receipt is None or cut is None:
        return None
    if cut.is_whole:
        return Seen(cut=cut)
    content.stream.seek(0)
    text = content.stream.read().decode("utf-8", "surrogatepass")
    begun = begun_line(text, shown_of(receipt, artifact.pointer), cut)
    return _with_begun(cut, begun, lambda upto: len(text[:upto].encode("utf-8", "surrogatepass")))


def _with_begun(cut: Cut, begun: Begun | None, offset_of: Callable[[int], int]) -> Seen:
    if begun is None:
        return Seen(cut=cut)
    start, end = offset_of(begun.start), offset_of(begun.end)
    return Seen(cut=cut, begun=begun.line, begun_to=end, begun_size=end - start)


def _words(surfaces: Surfaces) -> str:
    """The receipt where it is one text; parts between which there is something else are looked at by nobody."""
    try:
        recorded = json.loads(surfaces.content or b"null")
    except (ValueError, RecursionError):
        return ""
    return recorded if isinstance(recorded, str) else surfaces.receipt_text


def _seen_of_file(receipt: str, content: Content, ends: int) -> Seen | None:
    head, tail = _ends(content, ends)
    value = head + tail
    spans = match_excerpt(receipt, value, "") if receipt.strip() and value.strip() else []
    if not spans:
        return None
    cut = _cut_around(head, tail, spans, content.index.lines) if tail else find_cut(value, spans)
    begun = begun_line(head, [(one.value_start, one.value_end) for one in spans if one.value_end <= len(head)], cut)
    return _with_begun(cut, begun, lambda upto: _size_of(content, head[:upto]))


def _size_of(content: Content, text: str) -> int:
    """Bytes of a beginning, with the mark that stands before it."""
    mark = next((len(mark) for mark in MARKS if content.head.startswith(mark)), 0)
    encoding = content.index.encoding
    return mark + len(text.encode(encoding, "surrogatepass" if encoding in WIDE else "surrogateescape"))


def _ends(content: Content, ends: int) -> tuple[str, str]:
    """All of a file of twice `ends` bytes, else whole lines of its end. No agent prints a mark of byte order."""
    encoding = content.index.encoding
    content.stream.seek(0)
    if content.size <= 2 * ends:
        return decode(content.stream.read(), encoding).removeprefix(MARK), ""
    head = decode(content.stream.read(ends), encoding).removeprefix(MARK)
    content.stream.seek(content.size - ends)
    tail = content.stream.read(ends)
    begin = next_end(tail, 0, encoding) + (2 if encoding in WIDE else 1)
    return head, decode(tail[begin:], encoding) if begin > 1 else ""


def _cut_around(head: str, tail: str, spans: list[Span], lines: int) -> Cut:
    """Places in the two ends, as lines of the whole; a line that the head cuts is none that it shows."""
    border = len(head)
    first = find_cut(head, [one for one in spans if one.value_end <= border])
    moved = [Span(one.start, one.end, "", one.value_start - border, one.value_end - border) for one in spans]
    last = find_cut(tail, [one for one in moved if one.value_start >= 0])
    before = lines - whole_cut(tail).total
    shown = [span for span in first.shown if span[1] < first.total]
    shown += [(start + before, end + before) for start, end in last.shown]
    return Cut("lines", lines, tuple(shown))
