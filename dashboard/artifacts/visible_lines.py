"""Which lines of an artifact the current receipt shows the model.

A field of a recorded result is aligned with the receipt. In a stored file the receipt's text is looked for: it shows
the beginning behind a preview's words, the beginning and the end around a cut, or the whole file
(`envelopes.alignment.spans`). Only the first and last EXCERPT_BYTES of the file are searched. A receipt that is not
found there leaves it unknown which lines the model saw: no line is marked then, neither seen nor unseen.

A cut counts whole lines. Of a preview that ends within a line, and of an output on one line, that alone would show
"none of 1 lines" for 2,000 characters that the model did get; PartialLine is that line.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import Location
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.models import Artifact
from envelopes.alignment.spans import Span, find_cut, match_excerpt, whole_cut
from envelopes.schema.receipt import Receipt
from envelopes.storage.encoding import MARKS, decode
from envelopes.storage.line_index import WIDE, next_end
from envelopes.storage.line_window import WindowStart
from envelopes.text.preview import Cut

EXCERPT_BYTES = 256 * 1024  # of each end of a file; a longer receipt is not looked for
LEAST_EXCERPT_BYTES = 16 * 1024  # of each end, however short the receipt is
LONG_BEGINNING = 1_000  # characters or bytes of a line: from there on links lead behind them, not to the line's start
LINES_BEFORE = 10
BYTE_ORDER_MARK = "\ufeff"
TextSpan = tuple[int, int]  # characters [start, end) of a text


@dataclass(frozen=True, kw_only=True)
class VisibleLines:
    """`cut` counts whole lines. The model got `partial_size` bytes of line `partial_line`, up to byte `partial_end`.

    `partial_line` counts from 1 and is 0 where there is none.
    """

    cut: Cut
    partial_line: int = 0
    partial_end: int = 0
    partial_size: int = 0

    def next_unseen(self, line: int) -> UnseenLines | None:
        """The next lines behind `line` that the model did not see; the first ones where there are none behind it."""
        starts = [start + 1 for start, _ in self.cut.gaps]
        if not starts:
            return None
        first = next((start for start in starts if start > line), starts[0])
        is_partial = first == self.partial_line and self.partial_size > LONG_BEGINNING
        return UnseenLines(line=first, offset=self.partial_end if is_partial else -1)

    def row_state(self, line: int, start: int, end: int) -> str:
        """How much the model saw of a row with the bytes [start, end) of `line`: yes, no or part; "" without a line."""
        if not line:
            return ""
        if line == self.partial_line:
            return "no" if start >= self.partial_end else "yes" if end <= self.partial_end else "part"
        index = bisect_right(self.cut.shown, (line - 1, self.cut.total)) - 1
        return "yes" if index >= 0 and line - 1 < self.cut.shown[index][1] else "no"


@dataclass(frozen=True, kw_only=True)
class UnseenLines:
    """The start of lines that the model did not see; `offset` is -1 where the beginning of the line is meant.

    A link to them shows LINES_BEFORE lines before them, so that a reader sees where the text of the model ended.
    """

    line: int
    offset: int

    @property
    def first(self) -> int:
        """The line that the window begins with."""
        return self.line if self.offset >= 0 else max(1, self.line - LINES_BEFORE)

    @property
    def query(self) -> str:
        if self.offset >= 0:
            return f"offset={self.offset}"
        return f"line={self.line}" if self.first == self.line else f"from={self.first}&line={self.line}"

    @property
    def fragment(self) -> str:
        return f"#L{self.first}"

    @property
    def location(self) -> Location:
        if self.offset >= 0:
            return Location(start=WindowStart(offset=self.offset))
        return Location(start=WindowStart(line=self.first), lines=range(self.line, self.line + 1))


def find_visible_lines(
    artifact: Artifact, content: Content, *, excerpt_bytes: int = EXCERPT_BYTES
) -> VisibleLines | None:
    """None where the receipt does not show it, or while the lines are still being counted."""
    chosen = {"result": str(artifact.observation_id)} if artifact.observation_id else {}
    evidence = load_evidence(artifact.call, chosen)
    if artifact.observation_id is not None:
        return _find_in_field(artifact, evidence, content)
    receipt_size, preview = len(evidence.content or b""), evidence.halves.preview
    if preview is not None and preview.is_later:  # the model had the whole text before
        return None
    if not content.is_indexed or not content.encoding.name or not content.size or receipt_size > excerpt_bytes:
        return None
    ends = min(excerpt_bytes, LEAST_EXCERPT_BYTES + 4 * receipt_size)
    return _find_in_file(_receipt_text(evidence), content, ends)


def _find_in_field(artifact: Artifact, evidence: CallEvidence, content: Content) -> VisibleLines | None:
    receipt = evidence.halves.receipt
    outputs = evidence.halves.known_outputs
    cut = next((output.cut for output in outputs if output.field.pointer == artifact.pointer), None)
    if receipt is None or cut is None:
        return None
    if cut.is_whole:
        return VisibleLines(cut=cut)
    content.stored.seek(0)
    text = content.stored.read().decode("utf-8", "surrogatepass")
    partial = find_partial_line(text, shown_spans(receipt, artifact.pointer), cut)
    if partial is None:
        return VisibleLines(cut=cut)
    start, end = (len(text[:offset].encode("utf-8", "surrogatepass")) for offset in (partial.start, partial.end))
    return VisibleLines(cut=cut, partial_line=partial.line, partial_end=end, partial_size=end - start)


def _receipt_text(evidence: CallEvidence) -> str:
    """The text of a receipt. Of a receipt in parts it is their joined text, which is found only where it is one run."""
    try:
        recorded = json.loads(evidence.content or b"null")
    except (ValueError, RecursionError):
        return ""
    text = recorded if isinstance(recorded, str) else evidence.receipt_text
    preview = evidence.halves.preview
    return text[: preview.seen_end(text)] + text[preview.end :] if preview and preview.is_inflated else text


def _find_in_file(receipt: str, content: Content, ends: int) -> VisibleLines | None:
    head, tail = _read_ends(content, ends)
    spans = match_excerpt(receipt, head + tail, "") if receipt.strip() and (head + tail).strip() else []
    if not spans:
        return None
    cut = _cut_around(head, tail, spans, content.index.lines) if tail else find_cut(head, spans)
    head_spans = [(span.value_start, span.value_end) for span in spans if span.value_end <= len(head)]
    partial = find_partial_line(head, head_spans, cut)
    if partial is None:
        return VisibleLines(cut=cut)
    encoding = content.index.encoding
    errors = "surrogatepass" if encoding in WIDE else "surrogateescape"
    mark = next((len(mark) for mark in MARKS if content.head.startswith(mark)), 0)
    start, end = (mark + len(head[:offset].encode(encoding, errors)) for offset in (partial.start, partial.end))
    return VisibleLines(cut=cut, partial_line=partial.line, partial_end=end, partial_size=end - start)


def _read_ends(content: Content, ends: int) -> tuple[str, str]:
    """All of a file of at most twice `ends` bytes and ""; else its beginning, and whole lines of its end.

    A byte order mark is left out, because no agent prints it.
    """
    encoding = content.index.encoding
    content.stored.seek(0)
    if content.size <= 2 * ends:
        return decode(content.stored.read(), encoding).removeprefix(BYTE_ORDER_MARK), ""
    head = decode(content.stored.read(ends), encoding).removeprefix(BYTE_ORDER_MARK)
    content.stored.seek(content.size - ends)
    tail = content.stored.read(ends)
    first_line = next_end(tail, 0, encoding) + (2 if encoding in WIDE else 1)
    return head, decode(tail[first_line:], encoding) if first_line > 1 else ""


def _cut_around(head: str, tail: str, spans: list[Span], lines: int) -> Cut:
    """Spans in the two ends as a cut of all `lines`. A line that the head breaks off does not count as shown."""
    border = len(head)
    head_cut = find_cut(head, [span for span in spans if span.value_end <= border])
    moved = [Span(span.start, span.end, "", span.value_start - border, span.value_end - border) for span in spans]
    tail_cut = find_cut(tail, [span for span in moved if span.value_start >= 0])
    before = lines - whole_cut(tail).total
    shown = [stretch for stretch in head_cut.shown if stretch[1] < head_cut.total]
    shown += [(start + before, end + before) for start, end in tail_cut.shown]
    return Cut("lines", lines, tuple(shown))


@dataclass(frozen=True, kw_only=True)
class PartialLine:
    """Characters [start, end) of a text are the shown beginning of its line number `line`, counted from 1."""

    line: int
    start: int
    end: int


def find_partial_line(text: str, shown: Iterable[TextSpan], cut: Cut) -> PartialLine | None:
    """The first line of `cut` that is not shown whole, where the spans `shown` contain its beginning."""
    first_gap = cut.gaps[0][0] if cut.gaps else -1
    for begin, end in _joined(sorted(shown)):
        start = text.rfind("\n", 0, end) + 1
        if begin <= start < end < len(text) and text.count("\n", 0, start) == first_gap:
            return PartialLine(line=first_gap + 1, start=start, end=end)
    return None


def shown_spans(receipt: Receipt, pointer: str) -> list[TextSpan]:
    """The spans of the recorded field at `pointer` that a receipt contains."""
    return [
        (segment.source.start, segment.source.end)
        for segment in receipt.segments
        if segment.source is not None
        and (segment.source.document, segment.source.pointer) == ("complete", pointer)
        and segment.source.start is not None
        and segment.source.end is not None
    ]


def _joined(spans: Iterable[TextSpan]) -> Iterator[TextSpan]:
    """Spans in order, those that touch or overlap as one."""
    begin, reached = -1, -1
    for start, end in spans:
        if start > reached >= 0:
            yield begin, reached
        if start > reached or reached < 0:
            begin = start
        reached = max(reached, end)
    if reached >= 0:
        yield begin, reached
