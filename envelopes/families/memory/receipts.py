"""The receipts of MemorySearch and MemoryGet: where to look, or the content itself."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.indented_values import with_indented_values
from envelopes.families.memory.tools import TOOLS
from envelopes.families.segments import (
    headline,
    indented,
    label,
    line_break,
    marker,
    member_lines,
    preview,
    receipt_renderer,
    text_value,
    value,
)
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult

LINES = (
    ("Source", "source_ref"),
    ("Kind", "kind"),
    ("Scope", "scope_kind"),
    ("Path", "source_path"),
    ("Updated", "updated_at"),
)


@with_indented_values
def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    result = RecordedObject(canonical.result)
    return _found(canonical, result) if result.get("memory") is None else _read(canonical, result.member("memory"))


def _read(canonical: CanonicalResult, memory: RecordedObject) -> Iterable[Segment]:
    yield label("Memory: ")
    yield text_value(memory.text("title") or "", "/result/memory/title", role="headline")
    yield from member_lines(canonical, LINES, "/result/memory")
    yield line_break(2)
    if (memory.text("content") or "").strip():
        yield preview(canonical, "/result/memory/content")
    else:
        yield label("The memory is empty.")


def _truncation(canonical: CanonicalResult) -> Iterable[Segment]:
    """The cut that the tool made. A cut of the projection is marked where it is."""
    if RecordedObject(canonical.result).member("memory").flag("truncated"):
        yield line_break(2)
        yield label("Truncated: ")
        yield value(canonical, "/result/memory/truncated", "yes")
        yield label(", the memory goes on; more: max_chars up to 50000")


def _found(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    memories = result.items("results")
    count = len(memories) + (result.integer("results_omitted") or 0)
    yield headline(f"{count or 'No'} {'memory' if count == 1 else 'memories'} found", "/result/results")
    for index, memory in enumerate(memories):
        pointer = f"/result/results/{index}"
        yield line_break()
        yield label(f"{index + 1}. ")
        yield from indented(memory.text("title") or "", f"{pointer}/title")
        for name in ("source_ref", "snippet"):
            if text := memory.text(name):
                yield line_break()
                yield label("   ")
                yield from indented(text, f"{pointer}/{name}")
    if count > len(memories):
        yield line_break()
        yield marker(f"[showing first {len(memories)} of {count}]")


receipt = receipt_renderer(_body, tail=_truncation, details=(("Field", "field"), ("Source", "source_ref")), tools=TOOLS)
