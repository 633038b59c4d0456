"""The receipt of an external tool: its content blocks, then structured content or other JSON as an outline."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import (
    headline,
    label,
    line_break,
    marked_values,
    marker,
    receipt_renderer,
    text_block,
)
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult
from envelopes.text.outline import outline


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    result = RecordedObject(canonical.result)
    for index, block in enumerate(result.items("content")):
        pointer = f"/result/content/{index}"
        if block.text("type") != "text":
            names = [name for name in ("type", "media_type", "uri") if block.text(name)]
            yield line_break(2)
            yield label("[")
            yield from marked_values(block, pointer, [(" " if name != names[0] else "", name) for name in names])
            yield label("]")
        yield from text_block(canonical, f"{pointer}/text")
    if (omitted := result.integer("content_omitted")) is not None:
        yield line_break()
        yield marker(f"[{omitted} more content blocks]")
    for name in ("structured_content", "value"):
        if result.has_any((name,)):
            yield line_break(2)
            yield from outline(result.get(name), f"/result/{name}")
    yield from text_block(canonical, "/result/structured_content_text")
    yield from text_block(canonical, "/result/text")


receipt = receipt_renderer(_body)
