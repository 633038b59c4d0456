"""Which lines of an artifact the standing receipt shows: aligned for a recorded field, found again in a stored file.

A receipt that shows a file from elsewhere has its beginning behind a preview's words, its beginning and
end around a cut, or all of it (envelopes/excerpts.py). That is looked for in the first and last ENDS bytes.
What stands nowhere there is unknown: nothing is said then, and nothing counts as unseen.
"""

from __future__ import annotations

import json

from dashboard.artifacts.content import Content
from dashboard.calls.surfaces import Surfaces, surfaces_of
from dashboard.models import Artifact
from envelopes.alignment import Span, cut_of, whole_cut
from envelopes.excerpts import match_excerpt
from envelopes.line_index import WIDE, next_end
from envelopes.preview import Cut
from envelopes.text_encoding import decode

ENDS = 256 * 1024  # bytes; a receipt of more is not looked for


def seen_of(artifact: Artifact, content: Content) -> Cut | None:
    """None when nothing says so, or while the lines are being counted."""
    chosen = {"result": str(artifact.observation_id)} if artifact.observation_id else {}
    surfaces = surfaces_of(artifact.call, chosen)
    if artifact.observation_id is not None:
        return _seen_of_field(artifact, surfaces)
    if not content.is_indexed or not content.encoding.name or not content.size or len(surfaces.content or b"") > ENDS:
        return None
    return _seen_of_file(_words(surfaces), content)


def _seen_of_field(artifact: Artifact, surfaces: Surfaces) -> Cut | None:
    if surfaces.halves.receipt is None:
        return None
    return next((one.cut for one in surfaces.halves.outputs if one.field.pointer == artifact.pointer), None)


def _words(surfaces: Surfaces) -> str:
    """The receipt where it is one text; parts between which there is something else are looked at by nobody."""
    try:
        recorded = json.loads(surfaces.content or b"null")
    except (ValueError, RecursionError):
        return ""
    return recorded if isinstance(recorded, str) else surfaces.receipt_text


def _seen_of_file(receipt: str, content: Content) -> Cut | None:
    head, tail = _ends(content)
    value = head + tail
    spans = match_excerpt(receipt, value, "") if receipt.strip() and value.strip() else []
    if not spans:
        return None
    if not tail:
        return cut_of(value, spans)
    return _cut_around(head, tail, spans, content.index.lines)


def _ends(content: Content) -> tuple[str, str]:
    """All of a file that is no longer than both, else whole lines of its end."""
    encoding = content.index.encoding
    content.stream.seek(0)
    if content.size <= 2 * ENDS:
        return decode(content.stream.read(), encoding), ""
    head = content.stream.read(ENDS)
    content.stream.seek(content.size - ENDS)
    tail = content.stream.read(ENDS)
    begin = next_end(tail, 0, encoding) + (2 if encoding in WIDE else 1)
    return decode(head, encoding), decode(tail[begin:], encoding) if begin > 1 else ""


def _cut_around(head: str, tail: str, spans: list[Span], lines: int) -> Cut:
    """Places in the two ends, as lines of the whole; a line that the head cuts is none that it shows."""
    border = len(head)
    first = cut_of(head, [one for one in spans if one.value_end <= border])
    moved = [Span(one.start, one.end, "", one.value_start - border, one.value_end - border) for one in spans]
    last = cut_of(tail, [one for one in moved if one.value_start >= 0])
    before = lines - whole_cut(tail).total
    shown = [span for span in first.shown if span[1] < first.total]
    shown += [(start + before, end + before) for start, end in last.shown]
    return Cut("lines", lines, tuple(shown))
