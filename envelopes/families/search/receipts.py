"""The receipt of a search: how much it found, then the files, the lines or the text."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import (
    headline,
    item_lines,
    label,
    line_break,
    member_lines,
    receipt_renderer,
    text_block,
    text_value,
)
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    if RecordedObject(canonical.result).flag("truncated"):
        yield line_break()
        yield label("The search stopped early: there are more. Use a narrower path or pattern.")
    yield from member_lines(canonical, (("Limit", "applied_limit"), ("Offset", "applied_offset")))
    yield from item_lines(canonical, "/result/filenames", lambda name, pointer: [text_value(str(name), pointer)])
    yield from text_block(canonical, "/result/content")
    yield from text_block(canonical, "/result/text")


receipt = receipt_renderer(_body)
