"""What the model reads of its memory: where to look, or the content itself."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import indented, label, line_break, member_line, preview, receipt_renderer, value
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult

ERROR_DETAILS = (("Field", "field"), ("Source", "source_ref"))


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    result = RecordedObject(canonical.result)
    return _found(canonical, result) if result.get("memory") is None else _read(canonical)


def _read(canonical: CanonicalResult) -> Iterable[Segment]:
    memory = RecordedObject(canonical.result).member("memory")
    title = memory.text("title") or ""
    yield label("Memory: ")
    yield Segment(title, "headline", SegmentSource("canonical", "/result/memory/title", 0, len(title)))
    yield from member_line(canonical, "Source", "/result/memory/source_ref")
    yield from member_line(canonical, "Kind", "/result/memory/kind")
    yield from member_line(canonical, "Scope", "/result/memory/scope_kind")
    yield from member_line(canonical, "Path", "/result/memory/source_path")
    yield from member_line(canonical, "Updated", "/result/memory/updated_at")
    yield line_break(2)
    if (memory.text("content") or "").strip():
        yield preview(canonical, "/result/memory/content")
    else:
        yield label("The memory is empty.")


def _truncation(canonical: CanonicalResult) -> Iterable[Segment]:
    """The cut that the tool made; a cut that the projection made stands where it is."""
    if RecordedObject(canonical.result).member("memory").flag("truncated"):
        yield line_break(2)
        yield label("Truncated: ")
        yield value(canonical, "/result/memory/truncated", "yes")
        yield label(", the memory goes on; ask for more with max_chars")


def _found(canonical: CanonicalResult, result: RecordedObject) -> Iterable[Segment]:
    results = result.items("results")
    count = len(results) + (result.integer("results_omitted") or 0)
    said = f"{count or 'No'} {'memory' if count == 1 else 'memories'} found for "
    yield Segment(said, "headline", SegmentSource("canonical", "/result/results"))
    yield value(canonical, "/result/query")
    for index, found in enumerate(results):
        yield from _row(found, f"/result/results/{index}", index + 1)
    if count > len(results):
        yield line_break()
        yield Segment(f"[showing first {len(results)} of {count}]", "marker")


def _row(found: RecordedObject, pointer: str, number: int) -> Iterable[Segment]:
    yield line_break()
    yield label(f"{number}. ")
    yield from indented(found.text("title") or "", f"{pointer}/title")
    for member in ("source_ref", "snippet"):
        if text := found.text(member):
            yield line_break()
            yield label("   ")
            yield from indented(text, f"{pointer}/{member}")


receipt = receipt_renderer(_body, tail=_truncation, details=ERROR_DETAILS)
